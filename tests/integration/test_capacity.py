#!/usr/bin/env python3
"""An agent that starts again with another capacity while leases are held: nothing is lost, whatever it is."""
import os
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from rig import Agent, HolderError, main, scenario, wait_until  # noqa: E402

EFULL = -305
MOST = 1 << 20  # the largest capacity


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
        assert "warning" not in agent.err, agent.err
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


@scenario("back with a smaller capacity: all leases are kept, and new ones are granted once there are fewer")
def smaller(run):
    run.redis(3)
    agent = start(run, 30, fresh=True)
    holder = run.holder()
    for i in range(20):
        holder.acquire(f"job-{i}")
    for end in ("kill", "stop"):
        getattr(agent, end)()
        agent = start(run, 5)
        assert len(re.findall(r"are in 20 slots, more than the capacity of 5: they are kept", agent.err)) == 1, agent.err
        assert "warning" not in agent.err, agent.err
        assert capacity_of(run, agent) == 5
        assert len(listed(run, agent)) == 20 and all(holder.held(i) for i in range(20))
        assert refused(holder, "one-more")
    extended([holder], 19)
    for i in range(18):
        holder.release(i)
    for i in range(5):
        holder.acquire(f"again-{i}")
    assert refused(holder, "one-more")
    assert holder.held(18) and holder.held(19) and len(listed(run, agent)) == 7
    extended([holder], 19)
    # The next one has nothing beyond its capacity.
    holder.release(18)
    holder.release(19)
    agent.kill()
    agent = start(run, 5)
    assert "more than the capacity" not in agent.err and len(listed(run, agent)) == 5, agent.err


@scenario("the largest capacity takes no more memory from the start than the usual one")
def largest(run):
    run.redis(3)
    sizes = []
    for capacity in (8192, MOST):
        agent = start(run, capacity, fresh=True)
        table, journal = table_of(agent).stat(), (run.runtime_dir / agent.name / "journal").stat()
        sizes.append((table.st_size, journal.st_size, journal.st_blocks))
        assert table.st_blocks * 512 < 6 << 20, table
        holder = run.holder(label=f"of-{capacity}")
        holder.acquire("job")
        holder.release()
        agent.stop()
    assert sizes[0][1:] == sizes[1][1:] and abs(sizes[0][0] - sizes[1][0]) < 2 << 20, sizes  # the history is longer


@scenario("no memory in /dev/shm for another lease: refused in words, those that are held stay, and later there is some", needs_root=True)
def no_memory(run):
    run.redis(3)
    keeper = run.spawn("unshare", "-m", "sh", "-c", "mount -t tmpfs -o size=4m none /dev/shm && echo up && exec sleep 300",
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
    for i in range(49):
        holder.acquire(f"job-{i}")
    agent.kill()
    full = [*inside, "sh", "-c", "cat /dev/zero > /dev/shm/rest 2>/dev/null"]
    subprocess.run(full, check=False)
    agent = begin(60000)
    agent.wait_err("49 leases readopted")
    holder.acquire("job-49")  # its slot was there before
    for wait_ms in (0, 60_000):
        try:
            holder.acquire("one-more", 0, wait_ms)
            raise AssertionError("granted without memory")
        except HolderError as error:
            assert error.code == EFULL and "no memory is left for more than 50 leases" in error.text, error
            assert "/dev/shm" in error.text, error
    assert all(holder.held(i) for i in range(50))
    extended([holder], 0)
    holder.release(7)
    holder.acquire("in-its-place")
    subprocess.run([*inside, "rm", "/dev/shm/rest"], check=True)
    for i in range(100):
        holder.acquire(f"more-{i}")
    subprocess.run(full, check=False)
    assert agent.running and holder.held(0)
    agent.kill()
    agent = begin(60000)
    agent.wait_err("150 leases readopted")
    assert holder.held(0) and holder.held(49)
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
    assert "are in 12 slots, more than the capacity of 3" in agent.err, agent.err
    assert capacity_of(run, agent) == 3
    wait_until(lambda: not any(holder.held(i) for i in range(12)), 15, "the leases end at their V")
    wait_until(lambda: not any(run.holders_of(f"job-{i}") for i in range(12)), 15, "their keys are released")


if __name__ == "__main__":
    main()
