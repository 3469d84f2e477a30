#!/usr/bin/env python3
"""A release asks the nodes for the token: a lock that was lost without anybody noticing is no good release."""
import json
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from rig import HolderError, main, scenario, wait_until  # noqa: E402

# The first renewal comes after 10 s, and no node tells of a key that changes: only the release can notice.
UNNOTICED = {"ttl": "30s", "options": ("--track-held", "0")}


def events(run, name, agent=None):
    shown = run.holdfast("history", "--json", name, agent=agent)
    return [line["event"] for line in map(json.loads, shown.out.splitlines())]


def others_key(nodes, name="job"):
    for node in nodes:
        node.cmd("SET", name, "another's token", "PX", "60000")


def is_found_lost(holder):
    try:
        holder.release()
    except HolderError as error:
        assert "the lock was lost before the release" in error.text, error.text
        return True
    return False


def waits():
    """Just granted the broker still has the lease; later the renewal thread has it."""
    return (0, 0.2)


@scenario("a release that finds another's key on a majority is no success, and history says so")
def foreign(run):
    run.redis(3)
    agent = run.agent(**UNNOTICED)
    holder = run.holder(agent)
    for wait in waits():
        holder.acquire("job")
        time.sleep(wait)
        others_key(run.nodes[1:])
        assert is_found_lost(holder)
        assert events(run, "job")[-2:] == ["released", "found_lost"], events(run, "job")
        assert [node.get("job") for node in run.nodes[1:]] == [b"another's token"] * 2
        for node in run.nodes:
            node.cmd("DEL", "job")


@scenario("so is one that finds no key on a majority")
def missing(run):
    run.redis(3)
    agent = run.agent(**UNNOTICED)
    holder = run.holder(agent)
    for wait in waits():
        holder.acquire("job")
        time.sleep(wait)
        for node in run.nodes[:2]:
            assert node.cmd("DEL", "job") == 1
        assert is_found_lost(holder)
        assert events(run, "job")[-2:] == ["released", "found_lost"], events(run, "job")


@scenario("two holders at a time are told at the release of the first")
def two_holders(run):
    run.redis(3)
    agents = [run.agent(label, **UNNOTICED) for label in "ab"]
    first, second = (run.holder(agent) for agent in agents)
    first.acquire("job")
    for node in run.nodes:
        node.cmd("DEL", "job", "holdfast:fence:job")
    second.acquire("job", 0, 5000)
    assert is_found_lost(first)
    assert not is_found_lost(second)
    assert "found_lost" not in events(run, "job", agents[1])


@scenario("a minority without the key, nodes that forgot, and nodes that do not answer prove nothing")
def no_evidence(run):
    run.redis(3)
    agent = run.agent(**UNNOTICED)
    holder = run.holder(agent)
    for wait in waits():
        holder.acquire("job")
        time.sleep(wait)
        others_key(run.nodes[:1])
        assert not is_found_lost(holder)
        run.nodes[0].cmd("DEL", "job")
    holder.acquire("job")
    for node in run.nodes[1:]:
        node.cmd("FLUSHALL")
    assert not is_found_lost(holder)
    assert "found_lost" not in events(run, "job")


@scenario("a node that restarted empty, or hangs, proves nothing, with another's key on one more")
def restarted(run):
    run.redis(3)
    agent = run.agent(**UNNOTICED)
    holder = run.holder(agent)
    for trouble in (run.nodes[2].sigstop, run.nodes[2].restart):
        holder.acquire("job")
        others_key(run.nodes[:1])
        trouble()
        assert not is_found_lost(holder)
        run.nodes[2].sigcont()
        run.nodes[0].cmd("DEL", "job")
        wait_until(lambda: run.holdfast("held", "job", agent=agent).rc == 3, what="it is over")
    assert "found_lost" not in events(run, "job")


@scenario("run exits with 124 where its release finds the lock lost")
def run_is_told(run):
    run.redis(3)
    agent = run.agent(**UNNOTICED)
    job = run.start_holdfast("run", "job", "--", "sh", "-c", "touch begun; sleep 1", agent=agent)
    wait_until((run.dir / "begun").exists, what="the job runs")
    others_key(run.nodes)
    assert job.wait() == 124, job.err
    assert "the lock was lost before the release" in job.err, job.err
    assert events(run, "job")[-1] == "found_lost"


@scenario("a lock within the same lock is refused at once, not waited for; a try is refused as ever")
def within_itself(run):
    run.redis(3)
    agent = run.agent()
    holder, other = run.holder(agent), run.holder(agent)
    holder.acquire("job")
    for wait_ms, code in ((3000, -207), (-1, -207), (0, -201)):  # not without end first, where it is not refused
        began = time.monotonic()
        try:
            holder.acquire("job", 0, wait_ms)
            raise AssertionError("it was granted twice")
        except HolderError as error:
            assert error.code == code, error
        assert time.monotonic() - began < 2
    assert holder.held()
    holder.acquire("another", 0, 1000)  # a nested one of another name
    holder.release(0)
    other.acquire("job", 0, 5000)
    try:
        holder.acquire("job", 0, 50)
        raise AssertionError("two have it")
    except HolderError as error:
        assert error.code == -202, error


if __name__ == "__main__":
    main()
