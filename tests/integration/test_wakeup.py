#!/usr/bin/env python3
"""Waiting for another host's lock: woken by what nodes tell, and by time where they do not."""
import contextlib
import pathlib
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from rig import BUILD, SLOW, HolderError, boottime_ns, main, scenario, wait_until  # noqa: E402
from views import counters, node_rows  # noqa: E402


def tracked(run, agent, count=3):
    """Waits until that many nodes tell of changes."""
    wait_until(lambda: sum(row["tracking"] == "on" for row in node_rows(run, agent).values()) == count,
               what=f"{agent.name}: {count} nodes tell")


def two_hosts(run, count=3, **options):
    run.redis(count)
    agents = [run.agent("a", **options), run.agent("b", **options)]
    for agent in agents:
        tracked(run, agent, count)
    return agents


def waits(run, agent, name, count=1):
    """Waits until that agent has begun a round for it, which found it held."""
    wait_until(lambda: counters(run, agent)["waiters"] >= count and counters(run, agent)["acquire_rounds"] >= count,
               what="a round")
    time.sleep(0.05)


def hand_over(run, holder, waiter, name, release):
    """Seconds from the release on one host to the grant on the other."""
    waiter.send("acquire", name, 0, -1)
    time.sleep(0.15)
    start = boottime_ns()
    release()
    waiter.answer()
    return (boottime_ns() - start) / 1e9


@scenario("a release on one host wakes who waits on another, without polling")
def woken(run):
    a, b = two_hosts(run)
    first, second = run.holder(a), run.holder(b)
    took = []
    for _ in range(20):
        first.acquire("x")
        took.append(hand_over(run, first, second, "x", first.release))
        second.release()
    assert statistics.median(took) < 0.025 * SLOW, took
    seen = counters(run, b)
    assert seen["wakeups"] >= 15, seen
    assert seen["polls"] <= 5, seen


if __name__ == "__main__":
    main()
