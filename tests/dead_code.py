#!/usr/bin/env python3
"""Whatever a file of the product defines for others is used by one of them, or is of the library's API. Prints one line for
each function and object that is dead, though tests may call it, and for each that is its own file's alone and not static.
What its own file uses may be global for a test.

    tests/dead_code.py BUILD_DIR
"""
import json
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PRODUCT = ("agent", "libclient", "shm", "tools")
COMMENT = re.compile(r"/\*.*?\*/", re.S)
API = re.compile(r"^HF_EXPORT[^;]*?\b(hf_\w+)\(", re.M)


def objects(build):
    """Path of an object to its source."""
    found = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        source = pathlib.Path(entry["file"])
        words = shlex.split(entry["command"])
        if source.is_relative_to(ROOT) and source.relative_to(ROOT).parts[0] in PRODUCT:
            out = words[words.index("-o") + 1]
            if out.startswith(PRODUCT):  # not what tests make of the product's sources
                found[str(build / out)] = str(source.relative_to(ROOT))
    return found


def main():
    sources = objects(pathlib.Path(sys.argv[1]).resolve())
    text = subprocess.run(["nm", "-A", "-g", "--", *sources], capture_output=True, text=True, check=True).stdout
    defined, used = {}, set()
    for line in text.splitlines():
        file, _, rest = line.partition(":")
        letter, name = rest.split()[-2:]
        if letter == "U":
            used.add(name)
        elif letter in "TDBRC":
            defined[name] = sources[file]
    api = {"main"}
    for header in (ROOT / "libclient").glob("holdfast*.h"):
        api |= set(API.findall(header.read_text()))
    tests = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("*.[ch]"))
    bad = 0
    for name, source in sorted(defined.items(), key=lambda item: item[::-1]):
        if name in used | api:
            continue
        word = re.compile(rf"\b{name}\b")
        if len(word.findall(COMMENT.sub("", (ROOT / source).read_text()))) < 2:
            print(f"{source}: nothing of the product uses {name}: remove it")
        elif not word.search(tests):
            print(f"{source}: no other file uses {name}: make it static")
        else:
            continue
        bad = 1
    return bad


if __name__ == "__main__":
    sys.exit(main())
