#!/usr/bin/env python3
"""An agent that starts again with another capacity while leases are held: nothing is lost, whatever it is."""
import os
import pathlib
import re
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from rig import Agent, HolderError, main, scenario, wait_until  # noqa: E402

EFULL = -305
ROOM = 65536


def table_of(agent):
    return pathlib.Path("/dev/shm") / f"holdfast{'' if os.geteuid() == 0 else f'-{os.geteuid()}'}.{agent.name}"


def start(run, capacity, fresh=False):
    return run.agent(options=("--capacity", str(capacity)), fresh=fresh, ttl="10s")


def capacity_of(run, agent):
    return run.holdfast("status", "--json", agent=agent).json["agent"]["capacity"]


def listed(run, agent):
    return {row["name"] for row in run.holdfast("list", "--json", agent=agent).json["leases"]}


def extended(holders, lease):
    """V moves on, as the holders read it without a word to the agent."""
    before = [holder.cmd("until", lease)["value"] for holder in holders]
    for holder, was in zip(holders, before):
        wait_until(lambda: holder.cmd("until", lease)["value"] > was, 15, "the lease is extended")


def refused(holder, name):
    try:
        holder.acquire(name, 0, 0)
    except HolderError as error:
        return error.code == EFULL
    return False


@scenario("killed, and back with a larger capacity, twice: who holds notices nothing, and old clients use the new places")
def larger(run):
    run.redis(3)
    agent = start(run, 4, fresh=True)
    holders = [run.holder(label=f"holder{i}") for i in range(3)]
    for i, holder in enumerate(holders):
        holder.acquire(f"job-{i}")
    job = run.start_holdfast("run", "-n", "tree", "--", "sleep", "60")
    wait_until(lambda: "tree" in listed(run, agent), 10, "the job holds its lock")
    assert refused(holders[0], "one-more")
    names = {"job-0", "job-1", "job-2", "tree"}
    for times, capacity in enumerate((12, 300)):
        for holder in holders:
            holder.send("spin", 0, 2000)
        agent.kill()
        agent = start(run, capacity)
        assert re.search(rf"{len(names)} leases readopted, 0 released, 0 lost", agent.err), agent.err
        assert "stays" not in agent.err, agent.err
        for holder in holders:
            assert holder.answer()["held"] == 1
        assert capacity_of(run, agent) == capacity
        assert listed(run, agent) == names
        for name in names:
            assert run.show(name), name
        # The clients were attached before, and their mapping is of a table with fewer places.
        for holder in holders:
            for more in range((capacity - len(names)) // 3 if times == 0 else 20):
                name = f"new-{times}-{holder.label}-{more}"
                lease = holder.acquire(name, 0, 0)["lease"]
                assert holder.held(lease)
                names.add(name)
        assert listed(run, agent) == names
        extended(holders, 0)
    assert all(holder.held(0) for holder in holders) and job.running
    job.signal(15)
    job.wait()


@scenario("back with a smaller capacity: the larger one stays, with one line about it, until nothing is held")
def smaller(run):
    run.redis(3)
    agent = start(run, 30, fresh=True)
    holder = run.holder()
    for i in range(20):
        holder.acquire(f"job-{i}")
    for end in ("kill", "stop"):
        getattr(agent, end)()
        agent = start(run, 5)
        assert len(re.findall(r"the capacity stays at 30 instead of 5", agent.err)) == 1, agent.err
        assert "warning" not in agent.err, agent.err
        assert capacity_of(run, agent) == 30
        assert len(listed(run, agent)) == 20 and all(holder.held(i) for i in range(20))
        holder.acquire(f"late-{time.monotonic_ns()}")
        holder.release()
    extended([holder], 19)
    for i in range(20):
        holder.release(i)
    agent.stop()
    agent = start(run, 5)
    assert capacity_of(run, agent) == 5 and "stays" not in agent.err, agent.err
    for i in range(5):
        holder.acquire(f"again-{i}")
    assert refused(holder, "one-more")


@scenario("more than the table has room for: as much as that, and a warning that says what to do")
def beyond_its_room(run):
    run.redis(3)
    agent = start(run, 10, fresh=True)
    holder = run.holder()
    holder.acquire("job")
    agent.kill()
    agent = start(run, ROOM + 4000)
    assert len(re.findall(r"warning: ", agent.err)) == 1, agent.err
    assert re.search(rf"warning: restart the agent when no lease is held.* {ROOM + 4000}: .*room for {ROOM} leases",
                     agent.err), agent.err
    assert capacity_of(run, agent) == ROOM and holder.held()
    extended([holder], 0)
    # Killed with nothing held, it is made anew all the same.
    holder.release()
    agent.kill()
    agent = start(run, ROOM + 4000)
    assert capacity_of(run, agent) == ROOM + 4000 and "warning" not in agent.err, agent.err


@scenario("no memory in /dev/shm for a larger table: the old capacity, all leases kept, and a warning with the remedy", needs_root=True)
def no_memory(run):
    run.redis(3)
    keeper = run.spawn("unshare", "-m", "sh", "-c", "mount -t tmpfs -o size=3m none /dev/shm && echo up && exec sleep 300",
                       label="keeper")
    keeper.wait_out("up")
    inside = ["nsenter", "-m", "-t", str(keeper.popen.pid)]

    def begin(capacity):
        process = run.spawn(*inside, *run.agent_argv(ttl="10s", options=("--capacity", str(capacity))), label="agent-in")
        process.name = f"{run.tag}-a"
        process.wait_err(Agent.READY, 15)
        return process

    agent = begin(50)
    holder = run.holder(agent)
    holder.acquire("job")
    agent.kill()
    agent = begin(60000)
    agent.wait_err("readopted")
    assert re.search(r"warning: make room in /dev/shm, or enlarge it, and restart the agent: the capacity stays at 50, .*"
                     r"60000 leases", agent.err), agent.err
    assert holder.held()
    extended([holder], 0)
    agent.kill()
    agent = begin(2000)
    agent.wait_err("1 leases readopted")
    assert "stays" not in agent.err, agent.err
    for i in range(100):
        holder.acquire(f"more-{i}")
    assert holder.held(0)
    agent.kill()
    keeper.kill()


@scenario("the table was removed, and the capacity is smaller than what is held: the next agent has a place for each until it is over")
def removed_and_smaller(run):
    run.redis(3)
    agent = start(run, 30, fresh=True)
    holder = run.holder()
    for i in range(12):
        holder.acquire(f"job-{i}")
    agent.kill()
    table_of(agent).unlink()
    agent = start(run, 3)
    assert "stays at 12 instead of 3" in agent.err, agent.err
    assert capacity_of(run, agent) == 12
    wait_until(lambda: not any(holder.held(i) for i in range(12)), 15, "the leases end at their V")
    wait_until(lambda: not any(run.holders_of(f"job-{i}") for i in range(12)), 15, "their keys are released")


if __name__ == "__main__":
    main()
