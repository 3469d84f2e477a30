#!/usr/bin/env python3
"""Waits that end at any moment, and what they leave: nothing.

HOLDFAST_SEED repeats a seed that was printed.
"""
import json
import os
import pathlib
import random
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from rig import BUILD, SANITIZE, main, scenario, wait_until  # noqa: E402

WAITERS = 100 if not SANITIZE else 20
STEADY = 2  # of each agent
ROUNDS = 100 if not SANITIZE else 10
PATIENCE_TURNS = 20 * (WAITERS + 2 * STEADY)  # twenty times a fair wait; tools/bench/run --only crowd measures it
GROWTH_KIB = 512  # of an agent's own memory, for what the C library keeps


def descriptors(agent):
    return len(os.listdir(f"/proc/{agent.pid}/fd"))


def memory_kib(agent):
    with open(f"/proc/{agent.pid}/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("RssAnon:"))


def counters(run, agent):
    return run.holdfast("status", "--json", agent=agent).json["counters"]


def keys(node):
    """Of locks: neither the agents' sentinel nor their records of fences."""
    return [key for key in node.cmd("KEYS", "*") if not key.startswith(b"holdfast:")]


def jostle(run, agents, rounds, seed):
    """100 waiters, and what became of their waits."""
    crowd = run.spawn(BUILD / "tests" / "waiters", "job", WAITERS, STEADY, rounds, seed, *(agent.name for agent in agents),
                      label="waiters", stdin=subprocess.PIPE)
    crowd.wait_out("ready", 30)
    crowd.popen.stdin.close()
    code = crowd.wait(120 + 2 * rounds)
    assert code == 0, f"waiters ended with {code}: {crowd.err}"
    return json.loads(crowd.out.splitlines()[-1])


def settled(run, agents):
    """Nothing of theirs is left in the agents' tables and on the nodes."""
    for agent in agents:
        def empty(agent=agent):
            now = counters(run, agent)
            return not (now["clients"] or now["waiters"] or now["leases"])
        wait_until(empty, 10, f"{agent.label} has no clients, waiters and leases")
        left = run.holdfast("list", "--json", agent=agent).json
        assert left["leases"] == [] and left["waiters"] == [], left
    wait_until(lambda: not any(keys(node) for node in run.nodes), 5, "no keys are left on the nodes")


@scenario("100 waiters that time out, cancel, leave and are killed at any moment: all accounted for, nothing left")
def waiters_of_all_kinds(run):
    run.redis(3)
    agents = [run.agent(label) for label in ("a", "b")]
    seed = int(os.environ.get("HOLDFAST_SEED", 0)) or random.randrange(1, 1_000_000)
    print(f"# HOLDFAST_SEED={seed}")
    jostle(run, agents, 2, seed + 1)  # memory that is made once is made here
    settled(run, agents)
    before = [(descriptors(agent), memory_kib(agent), counters(run, agent)) for agent in agents]
    told = jostle(run, agents, ROUNDS, seed)
    settled(run, agents)
    print(f"# {told}")
    assert sum(told[way] for way in ("granted", "timed_out", "cancelled", "left", "killed")) == WAITERS * ROUNDS
    assert told["overlaps"] == 0
    assert told["steady_least"] >= 1 and told["steady_longest_turns"] < PATIENCE_TURNS, "a steady waiter was kept waiting"
    granted = 0
    for agent, (fds, kib, old) in zip(agents, before):
        now = counters(run, agent)
        print(f"# {agent.label}: {descriptors(agent) - fds} descriptors and {memory_kib(agent) - kib} KiB more than before")
        assert descriptors(agent) == fds
        assert SANITIZE or memory_kib(agent) <= kib + GROWTH_KIB
        assert now["losses"] == old["losses"] and now["client_violations"] == 0
        granted += now["grants"] - old["grants"]
    assert granted >= told["grants"], "nobody had the lock without a grant"
    assert granted <= told["grants"] + WAITERS * ROUNDS, "a grant that nobody used belongs to a wait that was given up"


if __name__ == "__main__":
    main()
