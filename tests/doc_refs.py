#!/usr/bin/env python3
"""What the documents name must exist. Prints one line per name that does not.

In backticks, in README.md, docs/*.md, tests/BEHAVIOURS.md and the models:
    path/file.c, path/        a file, a directory of the repository; also the target of a link
    path/file.c:function      a definition in that file (C, Lua)
    function()                a definition somewhere
    object.method()           a definition in the Python package (in docs/PYTHON.md)
A function of the product that is so named is called by the product, or is of the library's API: no rule is kept where nobody goes.
In the columns "test", "tests" and "tested by" of tables:
    test_NAME[:function]      a unit test program, and a function of it
    test_NAME.py              an integration program
    [unit/]test_NAME: TITLE   a scenario whose title has TITLE in it, or a unit test; `TITLE` alone: of the same file
    function                  a unit test
In the columns "where": a bare name is a definition somewhere.
The files that the heads of mutants name as the place of their rule must be there, too. A bare file name (`name.c`), in a document or in a
comment of the product, is that of some file here.
"""
import functools
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOPS = ("shm", "agent", "libclient", "tools")
PUBLIC = ("libclient/holdfast.h", "libclient/holdfast_sets.h", "libclient/holdfast_run.h", "libclient/holdfast_admin.h")
SOURCES = (*TOPS, "docs/examples", "tests")
TOP = {path.name for path in ROOT.iterdir() if not path.name.startswith("build")}  # what is built is there or not

PATH = re.compile(r"^([\w.-]+/[\w./-]*)(?::(\w+))?$")
UNIT = re.compile(r"^(?:unit/)?(test_\w+):\s?(\w+)$")
SCENARIO = re.compile(r"^(test_\w+): (.+)$")
RULE_PATH = re.compile(rf"\b(?:{'|'.join(TOPS)}|docs|tests)/[\w/.-]*\w")
IDENTIFIER = re.compile(r"^\w+$")

texts = {}


def text(path):
    if path not in texts:
        texts[path] = (ROOT / path).read_text(errors="replace")
    return texts[path]


def files(*patterns):
    return [str(path.relative_to(ROOT)) for pattern in patterns for path in sorted(ROOT.glob(pattern))]


PRODUCT = [f for top in SOURCES for f in files(f"{top}/**/*.[ch]", f"{top}/**/*.lua")]
PYTHON = files("libclient/python/**/*.py")
UNIT_TESTS = files("tests/unit/*.[ch]")


def defines(path, name):
    """A definition begins at the line's start and is no statement of one line; a header may also declare."""
    if path.endswith(".lua"):
        return re.search(rf"^(local )?function {name}\(", text(path), re.M)
    pattern = rf"^(#define {name}\b|TEST\({name}\)|[A-Za-z_][^;#\n]*[ *]{name}\([^;]*?(;|\{{))"
    return any(path.endswith(".h") or not found.group(0).endswith(";")
               for found in re.finditer(pattern, text(path), re.M))


def defined(name, paths):
    return any(name in text(path) and defines(path, name) for path in paths)


@functools.lru_cache(maxsize=None)
def words_used():
    """Of the lines of the product, without comments, that neither define nor declare a function."""
    inner = []
    for path in PRODUCT:
        if path.endswith(".lua"):
            inner += [line for line in re.sub(r"--.*", "", text(path)).splitlines() if not re.match(r"(local )?function ", line)]
        elif not path.startswith(("tests/", "docs/")):
            code = re.sub(r"/\*.*?\*/", "", text(path), flags=re.S)
            inner += [line for line in code.splitlines() if line[:1] in (" ", "\t", "#")]
    return {word for line in inner for word in re.findall(r"\w+", line)}


def unused(path, name):
    """What is wrong with a function of the product that nothing of it uses."""
    declared = rf"^(HF_EXPORT|static inline)[^;]*?\b{name}\("
    if path.split("/")[0] not in TOPS or name == "main" or any(
            re.search(declared, text(header), re.M) for header in PUBLIC):
        return None
    return None if name in words_used() else "nothing of the product uses it: name what keeps the rule"


def titles(path):
    """The source with strings that are continued on the next line put together."""
    return re.sub(r"""["']\s*\n\s*f?["']""", "", text(path))


def wrong_path(path, function):
    if path.split("/")[0] not in TOP:
        return None  # a path elsewhere, or no path
    if not (ROOT / path).exists():
        return "no such file"
    if function and not defines(path, function):
        return f"{path} does not define it"
    return unused(path, function) if function else None


def wrong_test(name, last):
    """What is wrong with a test's name, and the scenario file that a title alone belongs to from here."""
    unit, scenario = UNIT.match(name), SCENARIO.match(name)
    if unit and (ROOT / f"tests/unit/{unit.group(1)}.c").exists():
        path = f"tests/unit/{unit.group(1)}.c"
        return (None if defines(path, unit.group(2)) else f"{path} does not define it"), path
    if scenario:
        path = f"tests/integration/{scenario.group(1)}.py"
        if not (ROOT / path).exists():
            return "no such program", last
        return (None if scenario.group(2) in titles(path) else f"no such title in {path}"), path
    if re.match(r"^test_\w+\.py$", name):
        return (None if (ROOT / "tests/integration" / name).exists() else "no such program"), last
    if IDENTIFIER.match(name) and (ROOT / f"tests/unit/{name}.c").exists():
        return None, last
    if IDENTIFIER.match(name) and "_" in name:
        return (None if defined(name, UNIT_TESTS) else "no such unit test"), last
    if last and last.endswith(".py") and " " in name:
        return (None if name in titles(last) else f"no such title in {last}"), last
    return None, last


def check(document):
    found, heads = [], []
    in_code = False
    for number, line in enumerate(text(document).splitlines(), 1):
        if line.startswith("```"):
            in_code = not in_code
        if in_code:
            continue
        cells = re.split(r"(?<!\\)\|", line)[1:-1] if line.startswith("|") else None
        if cells is None:
            heads = []
        elif not heads:
            heads = [cell.strip() for cell in cells]
        for column, cell in enumerate(cells or [line]):
            head = heads[column] if cells and column < len(heads) else ""
            last = None
            for name in re.findall(r"`([^`]+)`", cell):
                path = PATH.match(name)
                if head in ("test", "tests", "tested by"):
                    wrong, last = wrong_test(name, last)
                elif path:
                    wrong = wrong_path(*path.groups())
                elif re.match(r"^\w+\.\w+\(\)$", name):
                    method = name.partition(".")[2].removesuffix("()")
                    wrong = None if document != "docs/PYTHON.md" or any(f"def {method}(" in text(path) for path in PYTHON) else "not defined in the Python package"
                elif name.endswith("()") or head == "where" and "_" in name and IDENTIFIER.match(name):
                    name = name.removesuffix("()")
                    where = next((path for path in PRODUCT if name in text(path) and defines(path, name)), None)
                    wrong = unused(where, name) if where else "not defined anywhere"
                else:
                    wrong = None
                if wrong:
                    found.append(f"{document}:{number}: `{name}`: {wrong}")
        for target in re.findall(r"\]\(([^)#:]+)\)", line):
            if not ((ROOT / document).parent / target).exists():
                found.append(f"{document}:{number}: link to {target}: no such file")
    return found


def stale_rules():
    """A mutant's head names the place of its rule; files of the product that it names must be there."""
    for head in files("tests/mutants/faults/*.txt"):
        for number, line in enumerate(text(head).splitlines(), 1):
            for path in RULE_PATH.findall(line) if line.startswith("Rule:") else []:
                if not (ROOT / path).exists():
                    yield f"{head}:{number}: `{path}`: no such file"


BARE = re.compile(r"(?<![\w/.<\"-])([a-z_0-9]+\.(?:c|h|lua))\b(?![\w/])")
OTHERS = {"cmocka.h"}


def gone_names(documents):
    """Merging files is quickly done, and leaves their names behind."""
    names = {path.name for top in (*SOURCES, "cmake") for path in (ROOT / top).rglob("*.*")} | OTHERS
    for path in (*documents, *PRODUCT):
        spans = [(0, text(path))]
        if path.endswith((".c", ".h")):
            spans = [(found.start(), found.group(0)) for found in re.finditer(r"/\*.*?\*/", text(path), re.S)]
        for at, span in spans:
            for found in BARE.finditer(span):
                if found.group(1) not in names:
                    yield f"{path}:{text(path).count(chr(10), 0, at + found.start()) + 1}: {found.group(1)}: no such file"


def main():
    documents = files("README.md", "docs/*.md", "tests/BEHAVIOURS.md", "tests/model/*.pml")
    found = [row for document in documents for row in check(document)] + list(stale_rules()) + list(gone_names(documents))
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
