#!/usr/bin/env python3
"""Follows a document: types the commands of its blocks into one shell, in order, and compares what they say with what
is printed below them.

    unshare ... tests/support/walkthrough.py [--record] FILE     in namespaces of its own: see tests/integration/test_tutorial.py

A command begins with "$ ", and goes on to the END of a here-document. Compared is what stays the same from one run to the next: times, process
numbers, fences, votes and widths of columns are not. "..." stands for any text in a line, and by itself for any lines. With --record the outputs are written
into FILE instead. Ends with 1 and a list of what differs."""
import argparse
import difflib
import pathlib
import re
import subprocess
import sys
import threading

BLOCK = re.compile(r"^```\n(.*?)^```$", re.M | re.S)
MARK = "== walkthrough =="
STEP_S = 60
CHANGING = (
    (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "<time>"),
    (r"\b\d{16,}\b", "<fence>"),
    (r"\b[0-9a-f]{8}\b|\b[0-9a-f]{40}\b", "<hash>"),
    (r"\d+ of 3 votes( \(not [\w, ]+\))?", "<votes>"),
    (r"(?<![\w.])[<~]?\d+(\.\d+)?(?:ns|us|ms|s|m|h|d)(?:\d+(?:ms|s|m|h))?\b", "<span>"),
    (r"\d+ (?=seconds?\b|s\b|ms\b)", "<n> "),
    (r"\bpid \d+", "pid <n>"),
    (r"(?<![\w:.])\d{2,7}(?![\w.])", "<n>"),
    (r"[ \t]+", " "),
)


class Step:
    """A command, and the lines below it."""

    def __init__(self, command):
        self.command, self.below, self.said = command, [], []


def steps_of(block):
    found, end = [], None
    for line in block.splitlines():
        if end:
            found[-1].command += "\n" + line
            end = None if line == end else end
        elif line.startswith("$ "):
            found.append(Step(line[2:]))
            here = re.search(r"<<'(\w+)'", line)
            end = here and here[1]
        else:
            found[-1].below.append(line)
    assert not end, f"a here-document without its {end}"
    return found


def written(step, lines):
    return "".join(f"{line}\n" for line in ["$ " + step.command, *lines])


class Shell:
    def __init__(self):
        self.popen = subprocess.Popen(["bash", "--norc"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def run(self, command):
        """What it says, until it has ended. Of what it left in the background, what came by then."""
        guard = threading.Timer(STEP_S, self.popen.kill)
        guard.start()
        self.popen.stdin.write(f"{command}\n__code=$?; echo '{MARK}'; (exit $__code)\n")
        self.popen.stdin.flush()
        lines = []
        for line in self.popen.stdout:
            if line.rstrip("\n").endswith(MARK):
                left = line.rstrip("\n")[: -len(MARK)]
                guard.cancel()
                return lines + ([left] if left else [])
            lines.append(line.rstrip("\n"))
        sys.exit(f"not within {STEP_S} s, or the shell has ended: {command}")

    def close(self):
        self.popen.stdin.close()
        self.popen.wait(STEP_S)


def fixed(line):
    for pattern, name in CHANGING:
        line = re.sub(pattern, name, line)
    return line.strip()


def line_is_like(said, below):
    return re.fullmatch(".*".join(map(re.escape, fixed(below).split("..."))), fixed(said)) is not None


def is_like(said, below):
    """Whether the lines are those of the document, "..." being any."""
    if not below:
        return not said
    if below[0].strip() == "...":
        return any(is_like(said[i:], below[1:]) for i in range(len(said) + 1))
    return bool(said) and line_is_like(said[0], below[0]) and is_like(said[1:], below[1:])


def follow(text):
    shell, wrong, blocks = Shell(), [], []
    for block in BLOCK.findall(text):
        steps = steps_of(block) if block.startswith("$ ") else []
        for step in steps:
            step.said = [line.rstrip() for line in shell.run(step.command)]
            if not is_like(step.said, step.below):
                wrong.append(step)
        blocks.append(steps)
    shell.close()
    return blocks, wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--record", action="store_true")
    parser.add_argument("file", type=pathlib.Path)
    options = parser.parse_args()
    text = options.file.read_text()
    blocks, wrong = follow(text)
    if options.record:
        made = iter(blocks)

        def renewed(found):
            steps = next(made)
            lines = [written(step, step.below if is_like(step.said, step.below) else step.said) for step in steps]
            return f"```\n{''.join(lines) if steps else found[1]}```"

        options.file.write_text(BLOCK.sub(renewed, text))
        return 0
    for step in wrong:
        print(f"$ {step.command}")
        for line in difflib.unified_diff([fixed(line) for line in step.below], [fixed(line) for line in step.said], "document", "said", lineterm="", n=9):
            print(f"    {line}")
    print(f"{sum(map(len, blocks))} commands, {len(wrong)} say something else")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
