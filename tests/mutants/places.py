"""The places of the product's sources that have a name: functions, #defines, tables, types, and whole files. One scan of
the tree finds them all, as clang-format keeps what has a name at the line's start; files may move as they like.

    lease_end           a function of C or Lua, a #define, a table or other object of a file
    struct hf_slot      a type, also `enum` and `union`
    force.lua           a whole file
"""
import collections
import re

PRODUCT = ("agent", "libclient", "shm", "tools")
SUFFIXES = (".c", ".h", ".def", ".lua")

DEFINE = re.compile(r"^#\s*define\s+(\w+)")
TYPE = re.compile(r"^(?:typedef )?((?:struct|enum|union) \w+) *\{")
OBJECT = re.compile(r"(\w+)(?:\[[^\]]*\])*(?: \w+\([^)]*\))* =")
HEAD_ENDS = re.compile(r"([;{}])(?: +/[*/].*)?$")
LUA_FUNCTION = re.compile(r"^(?:local )?function ([\w.:]+)\(")

# Lines `first` to `last` of `file`, counted from 0.
Place = collections.namedtuple("Place", "file first last")


def function(head):
    """The function's name in the head of its definition: the first word before an outermost parenthesis that is no attribute."""
    depth = 0
    for found in re.finditer(r"(\w+)\(|\(|\)", head):
        if found.group(0) == ")":
            depth -= 1
            continue
        if found.group(1) and depth == 0 and not re.fullmatch(r"[A-Z0-9_]+|__\w+__", found.group(1)):
            return found.group(1)
        depth += 1
    return None


def end_of_block(lines, at):
    while at < len(lines) - 1 and not lines[at].startswith("}"):
        at += 1
    return at


def end_of_object(lines, at):
    """Rows may end with a line of their own, or with the last row's."""
    while at < len(lines) - 1 and not lines[at].startswith("}") and not lines[at].endswith("};"):
        at += 1
    return at


def places_of_c(lines):
    """(name, first, last) of what begins at a line's start."""
    at = 0
    while at < len(lines):
        line, first = lines[at], at
        at += 1
        if line.startswith("#"):
            while lines[at - 1].endswith("\\") and at < len(lines):
                at += 1
            if found := DEFINE.match(line):
                yield found.group(1), first, at - 1
            continue
        if not re.match(r"[A-Za-z_]", line) or line.startswith('extern "C"'):
            continue
        while at < len(lines) and lines[at] != "{" and not HEAD_ENDS.search(lines[at - 1]):
            at += 1
        head = " ".join(text.strip() for text in lines[first:at])
        opens = HEAD_ENDS.search(lines[at - 1])
        last = at - 1
        if at < len(lines) and lines[at] == "{":
            name, last = function(head), end_of_block(lines, at)
        elif found := TYPE.match(head):
            name, last = found.group(1), end_of_block(lines, at) if opens.group(1) == "{" else last
        elif found := OBJECT.search(head):
            name, last = found.group(1), end_of_object(lines, at) if opens.group(1) == "{" else last
        elif opens and opens.group(1) == "{":  # a type without a name, and then the name of what is of it
            last = end_of_block(lines, at)
            found = re.match(r"\} (\w+)(.*\{$)?", lines[last])
            name = found and found.group(1)
            last = end_of_object(lines, last + 1) if found and found.group(2) else last
        else:
            name = None
        if name:
            yield name, first, last
        at = last + 1


def places_of_lua(lines):
    for first, line in enumerate(lines):
        if found := LUA_FUNCTION.match(line):
            last = next((at for at in range(first, len(lines)) if lines[at] == "end"), first)
            yield found.group(1), first, last


SCANNERS = {".lua": places_of_lua, ".def": lambda lines: ()}


class Sources:
    """The product's sources, read once."""

    def __init__(self, root):
        self.root = root
        self.lines = {}  # of each file
        self.places = collections.defaultdict(list)
        for top in PRODUCT:
            for path in sorted((root / top).rglob("*")):
                if path.suffix in SUFFIXES and path.is_file():
                    self.read(path, str(path.relative_to(root)))

    def read(self, path, file):
        lines = self.lines[file] = path.read_text().splitlines()
        self.places[path.name].append(Place(file, 0, len(lines) - 1))
        for name, first, last in SCANNERS.get(path.suffix, places_of_c)(lines):
            self.places[name].append(Place(file, first, last))
