#!/usr/bin/env python3
"""ttl_max was raised while a host slept, or before one that nobody told: nodes that forgot are counted by the leases there may be now."""
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from changing import USAGE, change, host, votes  # noqa: E402
from rig import main, scenario, wait_until  # noqa: E402

NEW_S = 10


def never_both(run, other):
    """a holds a lease of the new length without its agent, and a majority forgets. A third host gives the nodes the record again; the
    other one waits until the lease is over."""
    a = run.agents[0]
    result = run.holdfast("fleet", "ttl-max", f"{NEW_S}s", agent=a, timeout_s=90)
    assert result.rc == 0, result
    votes(run, agent=a)
    holder = run.holder(a)
    holder.acquire("job", NEW_S * 1000)
    a.kill()
    for node in run.nodes[1:]:
        node.restart()
    emptied = time.monotonic()
    b = other()
    while run.holdfast("run", "-n", "job", "true", agent=b).rc != 0:
        assert time.monotonic() < emptied + 4 * NEW_S, b.err
        time.sleep(0.1)
    assert not holder.held(), f"two holders {time.monotonic() - emptied:.1f} s after n2 and n3 forgot:\n{b.err}"


@scenario("a host whose agent was stopped while ttl_max was raised counts emptied nodes by the new one", sanitizers=False)
def asleep(run):
    run.redis(3)
    a, b, c = host(run, "a"), host(run, "b"), host(run, "c")
    for agent in (a, b, c):
        votes(run, agent=agent)
    b.sigstop()

    def wake():
        b.sigcont()
        return b

    never_both(run, wake)


@scenario("a host that has only its old file learns of the new ttl_max when a majority has it again, and counts the emptied nodes by it", sanitizers=False)
def old_file(run):
    run.redis(3)
    votes(run, agent=host(run, "a"))
    votes(run, agent=host(run, "c"))
    never_both(run, lambda: host(run, "b", fresh=False))


def saved(node):
    node.cmd("SAVE")
    return (node.dir / "dump.rdb").read_bytes()


def forgotten(run, count, brought_back=False):
    """b's agent ends in order before ttl_max is raised. Nobody but b is left when all nodes forget: no memory proves that nothing
    came after it. `brought_back`: they have what they had before."""
    run.redis(count)
    a, b = host(run, "a"), host(run, "b")
    for agent in (a, b):
        votes(run, count=count, agent=agent)
    b.stop()
    before = [saved(node) for node in run.nodes] if brought_back else []
    result = run.holdfast("fleet", "ttl-max", f"{NEW_S}s", "--yes", agent=a, timeout_s=90)
    assert result.rc == 0, result
    votes(run, count=count, agent=a)
    holder = run.holder(a)
    holder.acquire("job", NEW_S * 1000)
    a.kill()
    killed = time.monotonic()
    for node in run.nodes:
        node.kill()
    for node, data in zip(run.nodes, before):
        (node.dir / "dump.rdb").write_bytes(data)
    for node in run.nodes:
        node.start()
    emptied = time.monotonic()
    b = host(run, "b", fresh=False, wait=False)
    while holder.held():
        result = run.holdfast("run", "-n", "job", "true", agent=b)
        assert result.rc != 0, f"two holders {time.monotonic() - emptied:.1f} s after all nodes forgot:\n{b.err}"
        time.sleep(0.05)
    for shown in (run.holdfast("fleet", agent=b).out, run.holdfast("doctor", agent=b).out, result.err, b.err):
        assert "version 1 of this host may not be the latest one" in shown and "holdfast fleet confirm" in shown, shown
    assert len([node.id for node in run.nodes if node.record]) == len(before), "from memory"
    time.sleep(max(0.0, killed + 1.02 * NEW_S + 2 - time.monotonic()))  # before that it knows that its record is the latest
    again = host(run, "a", fresh=False, wait=False)
    wait_until(lambda: "version 2 of this host" in run.holdfast("fleet", agent=again).out, 15, "it waits for the operator")
    assert change(run, "confirm", agent=again).rc == USAGE
    result = change(run, "confirm", "--yes", agent=again)
    assert result.rc == 0 and "have version 2 again" in result.out, result
    for agent in (again, b):
        wait_until(lambda: run.holdfast("run", "-n", "job", "true", agent=agent).rc == 0, 4 * NEW_S, "both grant again")


@scenario("a host that slept through a raise of ttl_max founds nothing again from memory, with one node", sanitizers=False)
def forgotten_by_one(run):
    forgotten(run, 1)


@scenario("the same with three nodes: the operator confirms on the host that has the latest record", sanitizers=False)
def forgotten_by_three(run):
    forgotten(run, 3)


@scenario("the same where the three nodes come back with their record of before: one confirmation is enough for all hosts", sanitizers=False)
def brought_back(run):
    forgotten(run, 3, brought_back=True)


if __name__ == "__main__":
    main()
