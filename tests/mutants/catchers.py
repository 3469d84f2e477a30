"""Who may notice a mutant: unit tests, scenarios, the simulator. Each runs on a build that is given, a mutant's or the
true one, and says what it noticed."""
import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from faults import ROOT, Broken

sys.path.insert(0, str(ROOT / "tests" / "support"))
import leftovers  # noqa: E402

# Seconds. Programs that work with real nodes or processes take their time.
UNIT_PATIENCE = 120
SCENARIO_PATIENCE = 300
CHAOS_PATIENCE = 900
SIM_PATIENCE = 3600
SLOW = ("test_guardian", "test_tree", "test_agent_link", "test_agent_key_deleter", "test_agent_renewal",
        "test_agent_renewal_end", "test_agent_renewal_records", "test_client_lease", "test_client_set", "test_client_slots")
IN_ORDER = ("test_agent_renewal", "test_agent_renewal_handoff")  # some of their tests need nodes that those before have used
# They want two processors at one moment: tried ten times. Whether a quick run has them, too.
BY_CHANCE = {"a_request_and_a_sleep_that_cross_see_each_other": False, "readers_see_whole_leases_only": True}


class Verdict:
    """Whether something was noticed, by which check, after how long, and what it said."""

    def __init__(self, noticed, by, after, said=""):
        self.noticed, self.by, self.after, self.said = noticed, by, after, said


def run(words, patience, **environment):
    """Output, exit status (None: it did not end), seconds. A process group, a temporary directory and a tag of its own, so that
    nothing is left of one that was killed: a group of this session, which tests/run weighs and stops as a whole. A process that
    outlives the program holds up nobody: the output is no pipe."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="m-", ignore_cleanup_errors=True) as place, tempfile.TemporaryFile() as said:
        os.chmod(place, 0o1777)  # some tests run as another user
        tag = f"{os.environ.get(leftovers.TAG, '')}-{pathlib.Path(place).name}"
        child = subprocess.Popen(words, stdout=said, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, process_group=0, cwd=ROOT,
                                 env={**os.environ, "TMPDIR": place, leftovers.TAG: tag, **environment})
        try:
            status = child.wait(patience)
        except subprocess.TimeoutExpired:
            status = child.poll()  # it may have ended while this process stood still
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        said.seek(0)
        output = said.read().decode(errors="replace")
    for left in leftovers.SHM.glob(f"holdfast*{tag}*"):
        shutil.rmtree(left) if left.is_dir() else left.unlink(missing_ok=True)
    return output, status, time.monotonic() - began


class Catcher:
    shared = ""  # the program of it that may have many mutants in it
    quick, quick_on_true = False, False  # whether a quick run has it on a mutant, and on the true code
    rarely = False  # it need not notice where another one does

    def once_more(self, made, options, **environment):
        """A quick run asks again before it says that a mutant was not noticed."""
        return self(made, options, **environment)


class Unit(Catcher):
    """unit PROGRAM [FUNCTION]: the program, or that very test of it, fails; that one runs alone."""

    quick_on_true = False  # every run of the tests runs unit tests on the true build anyway

    def __init__(self, words):
        self.program, _, self.function = words.partition(" ")
        self.shared = f"tests/{self.program}"
        self.tries = 10 if self.function in BY_CHANCE else 1
        self.quick = self.program not in SLOW and BY_CHANCE.get(self.function, True)
        self.alone = {"HOLDFAST_ONLY_TEST": self.function} if self.function and self.program not in IN_ORDER else {}

    def __str__(self):
        return f"unit {self.program}" + (f": {self.function}" if self.function else "")

    def prepare(self, mutant):
        mutant.take_preloads()
        mutant.take(f"tests/{self.program}")

    def __call__(self, made, options, **environment):
        for _ in range(self.tries):
            output, status, seconds = run([made / "tests" / self.program], UNIT_PATIENCE, **self.alone, **environment)
            if status != 0:
                break
        failed = re.findall(r"^\[  (?:FAILED |ERROR  ) \] (?:\S+: )?(\w+)$", output, re.M)
        by = f"{self.program}: " + (", ".join(dict.fromkeys(failed)) or
                                    ("it does not end" if status is None else f"it ends with {status}"))
        aborted = status == -signal.SIGABRT and self.alone  # an assertion of the product is as good as one of the test
        noticed = self.function in failed or bool(aborted) if self.function else status != 0
        return Verdict(noticed, by if status != 0 else "", f"{seconds:.1f} s")


class Scenario(Catcher):
    """scenario FILE PART OF TITLE: the scenario fails."""

    def __init__(self, words):
        self.file, _, self.title = words.partition(" ")

    def __str__(self):
        return f"scenario {self.file}: {self.title}"

    def prepare(self, mutant):
        mutant.take_all()

    def __call__(self, made, options):
        output, status, seconds = run([ROOT / "tests" / "integration" / self.file, "-k", self.title],
                                      SCENARIO_PATIENCE, HOLDFAST_BUILD=str(made))
        if not re.search(r"^(not )?ok ", output, re.M) and status is not None:
            raise Broken(f"{self}: no such scenario, or it was skipped\n{output}")
        failed = re.findall(r"^not ok (.+)$", output, re.M)
        said = re.findall(r"^    (\w*(?:Error|Exception)\b.*|left behind.*)$", output, re.M)
        by = f"{self.file}: {failed[0] if failed else 'it does not end'}" if status != 0 else ""
        return Verdict(status != 0, by, f"{seconds:.1f} s", said[0] if said else "")


class Chaos(Catcher):
    """chaos FAULT PART OF TITLE: that case of the rig finds something bad."""

    PROGRAMS = ("contender", "holder", "nfqdelay", "observer", "ticker")

    def __init__(self, words):
        self.fault, _, self.title = words.partition(" ")

    def __str__(self):
        return f"chaos {self.fault}: {self.title}"

    def prepare(self, mutant):
        mutant.take_all(of_tests=self.PROGRAMS)

    def __call__(self, made, options):
        output, status, seconds = run([ROOT / "tests" / "chaos" / "run", "--only", self.fault, "-k", self.title],
                                      CHAOS_PATIENCE, HOLDFAST_BUILD=str(made))
        bad = re.findall(r"^    (.+)$", output, re.M)
        return Verdict(status not in (0, None), str(self) if status != 0 else "", f"{seconds:.0f} s",
                       bad[0] if bad else "")


class Sim(Catcher):
    """sim [rarely] [KIND,...]: the simulator finds a violation, in schedules of these widenings (tests/sim/README.md) if
    they are named. Rarely: in less than one schedule of 150. A quick run leaves it out, and a long one takes it for no
    failure that it noticed nothing, as long as another catcher did."""

    shared, quick_on_true = "tests/sim", True

    def __init__(self, words):
        words = words.split()
        self.rarely = "rarely" in words
        self.quick = not self.rarely
        self.kinds = [word for word in words if word != "rarely"]
        if len(self.kinds) > 1:
            raise Broken(f"sim takes no words but rarely and one list of widenings: {words}")

    def __str__(self):
        return " ".join(["sim", *self.kinds])

    def prepare(self, mutant):
        mutant.take("tests/sim")

    def __call__(self, made, options, **environment):
        return self.search(made, options.seed, options.seed, options.schedules, environment)

    def once_more(self, made, options, **environment):
        return self.search(made, options.seed, options.seed + options.schedules, 2 * options.schedules, environment)

    def search(self, made, first, seed, schedules, environment):
        wide = ["--any", "--every", "--wide", self.kinds[0]] if self.kinds else []
        output, status, seconds = run([made / "tests" / "sim", "--stop-at-first", "--seed", str(seed),
                                       "--schedules", str(schedules), *wide], SIM_PATIENCE, **environment)
        found = re.search(r"^violation: (\w+): seed (\d+): (.*)$", output, re.M)
        if status is None:
            raise Broken(f"the simulator did not end within {SIM_PATIENCE} s")
        if not found:
            noticed = status not in (0, 2)
            return Verdict(noticed, f"sim: it ends with {status}" if noticed else "", f"{seconds:.1f} s")
        after = int(found.group(2)) - first + 1
        return Verdict(True, f"sim: {found.group(1)}", f"{after} schedule{'s' * (after > 1)}", found.group(3))


class Nobody(Catcher):
    """nobody WHY: a hole that is known, or a rule that another one covers."""

    quick, quick_on_true = True, False

    def __init__(self, why):
        self.why = why

    def __str__(self):
        return f"nobody: {self.why}"


KINDS = {"unit": Unit, "scenario": Scenario, "chaos": Chaos, "sim": Sim, "nobody": Nobody}


def catcher(text):
    kind, _, words = text.partition(" ")
    if kind not in KINDS:
        raise Broken(f"nobody is called {kind}; known are {', '.join(KINDS)}")
    return KINDS[kind](words)
