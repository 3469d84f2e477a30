#!/usr/bin/env python3
"""A Redlock client that polls, as redsync does with its defaults: plain SET NX PX on all nodes at once, and after a try in
vain a delay of 50 to 250 ms. Takes one lock again and again for SECONDS: prints a line of JSON.

    polling.py NAME AFTER_S SECONDS HOLD_MS SOCKET...
"""
import json
import pathlib
import random
import secrets
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "tests/support"))
from resp import Resp  # noqa: E402

TTL_MS = 8000
RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"


def everywhere(nodes, *command):
    for node in nodes:
        node.send(*command)
    return [node.read() for node in nodes]


def main(name, after_s, seconds, hold_ms, *sockets):
    nodes = [Resp(f"unix:{path}") for path in sockets]
    time.sleep(float(after_s))
    start = asked = time.monotonic()
    until = start + float(seconds)
    waits = []
    while time.monotonic() < until:
        token = secrets.token_hex(16)
        got = sum(answer is not None for answer in everywhere(nodes, "SET", name, token, "NX", "PX", TTL_MS)) > len(nodes) // 2
        if got:
            waits.append(time.monotonic() - asked)
            time.sleep(float(hold_ms) / 1000)
        everywhere(nodes, "EVAL", RELEASE, 1, name, token)
        if got:
            asked = time.monotonic()
        else:
            time.sleep(random.uniform(0.05, 0.25))
    waits.append(time.monotonic() - asked)  # cut off
    print(json.dumps({"bench": "polling", "grants": len(waits) - 1, "wait_max_ms": round(max(waits) * 1000, 1)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
