#!/usr/bin/env python3
"""The nightly report in Python: report.py FILE [STEPS]."""
import pathlib
import sys
import time

from holdfast import HoldfastError, Lock, State


def report(path, steps):
    with Lock("nightly/report") as lock:
        lines = path.read_text().splitlines() if path.exists() else []
        if lines and int(lines[-1].split()[0]) > lock.fence:
            sys.exit("report.py: refused: a later holder has written")
        with path.open("a", buffering=1) as out:
            print(lock.fence, "begin", file=out)
            for _ in range(steps):
                if lock.state >= State.LOSING:
                    sys.exit("report.py: stopped: the lock is being lost")
                time.sleep(0.01)  # the work
            print(lock.fence, "end", file=out)


file, *more = sys.argv[1:] or [""]
if not file or len(more) > 1 or not all(word.isdecimal() for word in more):
    print("usage: report.py FILE [STEPS]", file=sys.stderr)
    sys.exit(64)
try:
    report(pathlib.Path(file), int(more[0]) if more else 10)
except HoldfastError as failure:
    sys.exit(f"report.py: {failure}")
