"""A mutant: one patch of the product's sources, with a head that says what it breaks and who must notice.

    Fault: V is counted from the time of the reply
    Rule: docs/SAFETY.md, timeline: a_i is the clock read before the first byte
    Caught: unit test_lease_fsm a_late_reply_counts_from_its_send
    Caught: scenario test_faults.py FLUSHALL on every node
    Caught: sim
    --- a/agent/core/lease_fsm.c
    ...

A line that begins with two spaces continues the one above. Each `Caught` line must notice the mutant.
"""
import pathlib
import re
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FIELD = re.compile(r"^(Fault|Rule|Caught): (.+)$")
PRODUCT = ("agent/", "libclient/", "shm/", "tools/")


class Broken(Exception):
    """A patch that cannot be used, in words."""


class Patch:
    def __init__(self, path):
        self.path = path
        self.number, self.name = path.stem.split("-", 1)
        fields = {"Fault": [], "Rule": [], "Caught": []}
        head, _, self.body = path.read_text().partition("--- a/")
        last = None
        for line in head.splitlines():
            field = FIELD.match(line)
            if field:
                last = fields[field.group(1)]
                last.append(field.group(2))
            elif line.startswith("  ") and last:
                last[-1] += " " + line.strip()
            elif line:
                raise Broken(f"{path.name}: not a line of a head: {line}")
        if len(fields["Fault"]) != 1 or len(fields["Rule"]) != 1 or not fields["Caught"] or not self.body:
            raise Broken(f"{path.name}: it wants one Fault, one Rule, at least one Caught, and a change")
        self.fault, self.rule = fields["Fault"][0], fields["Rule"][0]
        self.caught = fields["Caught"]
        self.files = re.findall(r"^\+\+\+ b/(\S+)", self.body, re.M)
        for name in self.files:
            if not name.startswith(PRODUCT):
                raise Broken(f"{path.name}: {name} is no source of the product")

    def apply(self, tree):
        """Copies what it changes into `tree` and changes it there."""
        for name in self.files:
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, tree / name)
        done = subprocess.run(["patch", "-p1", "--batch", "--silent", "--no-backup-if-mismatch", "--reject-file=-"],
                              cwd=tree, input="--- a/" + self.body, text=True, capture_output=True, check=False)
        if done.returncode:
            raise Broken(f"{self.path.name} does not apply any more; make it anew from the sources as they are\n"
                         f"{done.stdout}{done.stderr}")


def all_patches():
    paths = pathlib.Path(__file__).parent.glob("[0-9]*.patch")
    return sorted((Patch(path) for path in paths), key=lambda patch: int(patch.number))
