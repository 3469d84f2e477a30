"""A fault is a rule of the product broken: one text file says which, who must notice, and what is changed where.

    Mutant: 01
    Fault: V is counted from the time of the reply
    Rule: docs/SAFETY.md, timeline: a_i is the clock read before the first byte
    Caught: unit test_lease_fsm a_late_reply_counts_from_its_send
    Caught: scenario test_faults.py FLUSHALL on every node
    Caught: sim

    In: on_answer
      case '1':
    -     on_hit(node, lease, reply->sent);
    +     on_hit(node, lease, reply->received);

Of the head, a line that begins with two spaces continues the one above; each `Caught` line must notice the mutant, but for
`sim rarely` where another one does (catchers.py has their words). `In`
names a place as places.py finds it, whatever file has it: a function, a #define, a table, a type, or a whole file like
`force.lua`. Below it stand lines that go (-), come (+) and stay (two spaces); those that go and stay must be there once, one
after the other. White space does not count, and line breaks do not either, as long as whole lines are meant; what comes is
moved as far to the right as what it stands for. There may be more than one `In`, also of one name. `File: NAME.c` below `In`
chooses where two files have the same lines in places of one name.
"""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FAULTS = pathlib.Path(__file__).resolve().parent / "faults"
HEAD = re.compile(r"^(Mutant|Fault|Rule|Caught): (.+)$")
WHERE = re.compile(r"^(In|File): (\S.*)$")
FILE_NAME = re.compile(r"^(\d+)-([\w-]+)\.txt$")


class Broken(Exception):
    """A mutant that cannot be used, in words."""


def bare(text):
    return re.sub(r"\s", "", text)


def indent(line):
    return len(line) - len(line.lstrip(" "))


class Change:
    """What is changed in one place."""

    def __init__(self, place):
        self.place, self.file = place, None
        self.lines = []  # (mark, text)

    def trim(self):
        """Empty lines that stay are only between others."""
        while self.lines and self.lines[-1] == (" ", ""):
            self.lines.pop()
        while self.lines and self.lines[0] == (" ", ""):
            self.lines.pop(0)

    def side(self, mark):
        return [text for its, text in self.lines if its in (" ", mark)]

    def find(self, sources):
        """The file, and its first and last line, that have the old lines."""
        named = [place for place in sources.places.get(self.place, ())
                 if not self.file or place.file.endswith("/" + self.file)]
        if not named:
            raise Broken(f"no {'file ' + self.file + ' has' if self.file else 'source has'} a function, #define, table or "
                         f"type {self.place}: name in `In` what has its lines now"
                         + (", and in `File` where that is, or leave `File` out" if self.file else ""))
        found = {(place.file, first, last) for place in named
                 for first, last in runs(sources.lines[place.file], place, self.side("-"))}
        if not found:
            where = ", ".join(f"{place.file}:{place.first + 1}" for place in named)
            raise Broken(f"{self.place} ({where}) does not have these lines: write its lines of now\n"
                         + "\n".join("      " + text for text in self.side("-")))
        if len(found) > 1:
            where = ", ".join(f"{file}:{first + 1}" for file, first, _ in sorted(found))
            remedy = ("add lines around them that stay" if len({file for file, _, _ in found}) == 1 else
                      "choose one with a line `File: NAME.c` below `In`")
            raise Broken(f"{self.place} has these lines {len(found)} times ({where}): {remedy}")
        return found.pop()

    def new_lines(self, old):
        """What comes in the place of `old`, as far to the right."""
        first = next(line for line in self.side("-") if line.strip())
        further = indent(old[0]) - indent(first)
        return [" " * (indent(line) + further) + line.lstrip(" ") if line else "" for line in self.side("+")]


def runs(lines, place, wanted):
    """Each run of whole lines in a place that reads like those that are wanted; it neither begins nor ends with an empty one."""
    text = bare("".join(wanted))
    for first in range(place.first, place.last + 1):
        at = 0
        for last in range(first, place.last + 1):
            line = bare(lines[last])
            if not text.startswith(line, at) or not line and last == first:
                break
            at += len(line)
            if at == len(text):
                yield first, last
                break


class Fault:
    def __init__(self, path):
        self.path = path
        found = FILE_NAME.match(path.name)
        if not found:
            raise Broken(f"{path.name}: a mutant's file is called NUMBER-WHAT-IT-BREAKS.txt")
        self.number, self.name = found.groups()
        lines = path.read_text().splitlines()
        body = next((at for at, line in enumerate(lines) if line.startswith("In: ")), len(lines))
        head, self.caught = self.read_head(lines[:body])
        self.changes = self.read_changes(lines[body:], body)
        self.check(head)
        self.fault, self.rule = head["Fault"], head["Rule"]

    def wrong_line(self, at, what):
        return Broken(f"{self.path.name}:{at + 1}: {what}")

    def read_head(self, lines):
        fields = []  # [name, text]
        for at, line in enumerate(lines):
            if found := HEAD.match(line):
                if found.group(1) != "Caught" and found.group(1) in dict(fields):
                    raise self.wrong_line(at, f"it has one {found.group(1)} already")
                fields.append([*found.groups()])
            elif line.startswith("  ") and fields:
                fields[-1][1] += " " + line.strip()
            elif line:
                raise self.wrong_line(at, f"not a line of a head: {line}")
        return ({name: text for name, text in fields if name != "Caught"},
                [text for name, text in fields if name == "Caught"])

    def read_changes(self, lines, before):
        changes = []
        for at, line in enumerate(lines, before):
            found = WHERE.match(line)
            if found and found.group(1) == "In":
                changes.append(Change(found.group(2)))
            elif found and not changes[-1].lines:
                changes[-1].file = found.group(2)
            elif line[:2] in ("", "-", "+", "- ", "+ ", "  "):
                changes[-1].lines.append((line[:1] or " ", line[2:].rstrip()))
            else:
                raise self.wrong_line(at, f"not a line of a change: {line}")
        for change in changes:
            change.trim()
        return changes

    def check(self, head):
        if set(head) != {"Mutant", "Fault", "Rule"} or not self.caught or not self.changes:
            raise Broken(f"{self.path.name}: it wants Mutant, Fault, Rule, at least one Caught, and a change below In")
        if head["Mutant"] != self.number:
            raise Broken(f"{self.path.name} says that it is mutant {head['Mutant']}: give both one number")
        for change in self.changes:
            if change.side("-") == change.side("+") or not bare("".join(change.side("-"))):
                raise Broken(f"{self.path.name}: In {change.place}: it wants a line that goes or stays, and one that goes or "
                             "comes")

    def changed(self, sources):
        """File to its lines, of what the fault changes."""
        found = {}
        try:
            for change in self.changes:
                file, first, last = change.find(sources)
                found.setdefault(file, []).append((first, last, change))
        except Broken as why:
            raise Broken(f"{self.path.name}: {why}") from None
        new = {}
        for file, spots in found.items():
            spots.sort(key=lambda spot: spot[0], reverse=True)
            lines = list(sources.lines[file])
            for at, (first, last, change) in enumerate(spots):
                if at and last >= spots[at - 1][0]:
                    raise Broken(f"{self.path.name}: In {change.place}: two changes of the same lines: write them as one")
                lines[first:last + 1] = change.new_lines(lines[first:last + 1])
            new[file] = lines
        return new

    def apply(self, sources, tree):
        """Puts what it changes into `tree`; the names of these files."""
        new = self.changed(sources)
        for file, lines in new.items():
            (tree / file).parent.mkdir(parents=True, exist_ok=True)
            (tree / file).write_text("\n".join(lines) + "\n")
        return sorted(new)


def all_faults(folder=FAULTS):
    """By number. Each has one of its own."""
    faults, wrong = {}, []
    for path in sorted(folder.glob("*")):
        try:
            fault = Fault(path)
            if (other := faults.setdefault(int(fault.number), fault)) is not fault:
                raise Broken(f"{other.path.name} and {path.name}: give one of them another number")
        except Broken as why:
            wrong.append(str(why))
    if wrong:
        raise Broken("\n".join(wrong))
    return [faults[number] for number in sorted(faults)]
