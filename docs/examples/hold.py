#!/usr/bin/env python3
"""A lock in Python without the library: `holdfast hold` as a child, and its lines.

    hold.py NAME
"""
import contextlib
import json
import os
import subprocess
import sys
import threading


@contextlib.contextmanager
def lock(name, *options):
    """Holds the lock in the `with` block; gives the fence and an Event that is set when it is being lost.

    Whoever is still in the block when the lock is lost is ended: another can have it a moment later."""
    hold = subprocess.Popen(["holdfast", "hold", "--json", *options, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    losing = threading.Event()

    def next_event():
        line = hold.stdout.readline()
        return json.loads(line) if line else {"event": "lost"}  # its end is the loss, too

    def watch():
        event = {}
        while event.get("event") not in ("released", "lost"):
            event = next_event()
            if event["event"] == "losing":
                losing.set()
        if event["event"] == "lost":
            os._exit(124)

    event = next_event()
    while event["event"] == "waiting":
        event = next_event()
    if event["event"] != "granted":
        raise TimeoutError(f"{name}: not granted, code {hold.wait()}")
    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield event["fence"], losing
    finally:
        hold.stdin.close()
        watcher.join()  # it ends the program if the lock was lost in the last moment
        hold.wait()


if __name__ == "__main__":
    with lock(sys.argv[1], "-w", "10") as (fence, losing):
        steps = 0
        while steps < 1000 and not losing.is_set():
            steps += 1  # a step of the work; what it writes to gets the fence along
        print(f"{steps} steps with fence {fence}", flush=True)
        sys.stdin.readline()
