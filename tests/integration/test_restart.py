#!/usr/bin/env python3
"""The agent is killed, replaced and upgraded while leases are held and wanted."""
import json
import os
import pathlib
import re
import signal
import struct
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from rig import BUILD, SLOW, HolderError, main, scenario, wait_until  # noqa: E402

TTL_S = 3
FLEET = ("--ttl-max", f"{TTL_S}s")
NEXT_MINOR, NEXT_MAJOR = BUILD / "tests" / "holdfastd_minor", BUILD / "tests" / "holdfastd_major"
NEXT_READER = BUILD / "tests" / "holdfast_minor"
ALIVE = 1  # a table's state
LOSING, LOST, VERSION = 3, 4, -307  # HF_STATE_*, HF_E*


def start(run, label="a", first=False, **options):
    return run.agent(label, ttl=f"{TTL_S}s", options=FLEET, fresh=first, **options)


def table_path(agent):
    return pathlib.Path("/dev/shm") / f"holdfast{'' if os.geteuid() == 0 else f'-{os.geteuid()}'}.{agent.name}"


class Table:
    """What the header says. Stays open: an object that lost its name can still be read."""

    def __init__(self, agent):
        self.file = open(table_path(agent), "rb")
        self.inode = os.fstat(self.file.fileno()).st_ino

    def version(self):
        return struct.unpack("<HH", os.pread(self.file.fileno(), 4, 8))

    def state(self):
        return struct.unpack("<I", os.pread(self.file.fileno(), 4, 128))[0]


# --- upgrades --------------------------------------------------------------------------------------------


@scenario("an agent of a later minor version takes over, and one of the earlier again: leases are kept, waiters served")
def upgraded_and_back(run):
    run.redis(3)
    agent = start(run, first=True)
    table = Table(agent)
    major, minor = table.version()
    holder, waiter = run.holder(), run.holder(label="waiter")
    fence = holder.acquire("kept")["fence"]
    token = run.nodes[0].get("kept")
    waiter.send("acquire", "kept", 0, 60_000)
    time.sleep(0.2)
    for program, now in ((NEXT_MINOR, minor + 1), (None, minor), (NEXT_MINOR, minor + 1)):
        agent.kill()
        agent = start(run, program=program)
        assert (major, now) == table.version() and table.state() == ALIVE
        assert Table(agent).inode == table.inode, "another table"
        assert "1 leases taken up" in agent.err, agent.err
        time.sleep(TTL_S / 2)
        assert holder.held() and holder.cmd("fence")["value"] == fence
        assert [node.get("kept") for node in run.nodes] == [token] * 3
        for reader in (BUILD / "bin" / "holdfast", NEXT_READER):
            shown = run.spawn(reader, "status", "--json", label="status", env={"HOLDFAST_AGENT": agent.name})
            assert shown.wait() == 0, shown.err
            assert json.loads(shown.out)["counters"]["leases"] == 1, shown.out
    holder.release()
    assert waiter.answer()["fence"] > fence
    waiter.release()
    run.keys_gone("kept")


@scenario("a first table of a later minor version is taken over by the earlier one; its readers read it")
def downgraded(run):
    run.redis(3)
    agent = start(run, first=True, program=NEXT_MINOR)
    table = Table(agent)
    holder = run.holder()
    holder.acquire("kept")
    agent.stop()
    agent = start(run)
    assert Table(agent).inode == table.inode and holder.held()
    assert run.show("kept")["pid"] == holder.pid
    time.sleep(TTL_S)
    assert holder.held()


@scenario("an agent of another major version: it says that leases end, and releases none before its end; clients are told")
def other_major(run):
    run.redis(3)
    agent = start(run, first=True)
    old = Table(agent)
    holder = run.holder()
    holder.acquire("believed")
    agent.kill()
    agent = start(run, program=NEXT_MAJOR, wait=False)
    agent.wait_err(r"table is not kept, and its leases end: .*table version \d+\.\d+")
    assert Table(agent).inode != old.inode
    while holder.held():
        keys = run.holders_of("believed")
        assert keys >= 2 or not holder.held(), "released while its holder may believe in it"
        time.sleep(0.02)
    assert holder.cmd("state")["value"] == LOST
    run.keys_gone("believed", 2 * TTL_S)
    try:
        run.holder(label="earlier", connect=False).connect()
    except HolderError as error:
        assert error.code == VERSION and "table version" in error.text, error
    else:
        raise AssertionError("a client of the earlier version was welcomed")

# --- what a restart meets --------------------------------------------------------------------------------


@scenario("leases with long names and notes fill the table's text: all of them are taken up")
def text_is_full(run):
    run.redis(3)
    options = ("--capacity", "8")
    agent = run.agent(options=options)
    holder = run.holder()
    for letter in "ab":
        holder.acquire(letter * 255, 0, 0, "n" * 127)
    agent.kill()
    agent = run.agent(options=options, fresh=False)
    assert "2 leases taken up" in agent.err, agent.err
    assert holder.held(0) and holder.held(1)
    for letter in "ab":
        assert run.show(letter * 255)["note"] == "n" * 127
    holder.release(0)
    holder.release(1)
    run.keys_gone("a" * 255)


@scenario("a release under way when the agent is killed, and sent again to the next: it was one, and no loss")
def released_across_a_kill(run):
    run.redis(3)
    agent = run.agent()
    for turn in range(3):
        holder = run.holder(label=f"holder-{turn}")
        fence = holder.acquire("given", 0, 10_000)["fence"]
        for node in run.nodes[:2]:  # no quorum answers
            node.sigstop()
        holder.send("release")
        wait_until(lambda: run.nodes[2].get("given") is None, what="the release leaves")
        agent.kill()
        for node in run.nodes[:2]:
            node.sigcont()
        agent = run.agent(fresh=False)
        assert holder.answer() == {"value": 0}
        run.keys_gone("given")
        other = run.holder(label=f"next-{turn}")
        assert other.cmd("try", "given")["fence"] > fence
        other.release()


@scenario("a lease whose holder was told to stop is that after a restart, too")
def losing_is_remembered(run):
    run.redis(3)
    agent = start(run, first=True)
    holder, asking = run.holder(), run.holder(label="asking")
    holder.acquire("asked")
    asking.cmd("ask", "asked")
    wait_until(lambda: holder.cmd("state")["value"] == LOSING, what="it is told")
    agent.kill()
    start(run)
    until_ns = holder.cmd("until")["value"]
    while holder.held():
        assert holder.cmd("state")["value"] in (LOSING, LOST)
        assert holder.cmd("until")["value"] in (until_ns, 0), "a lease that ends is extended"
        time.sleep(0.05)
    run.keys_gone("asked")


@scenario("more processes hold leases than an agent has descriptors for at its start: none of them counts as dead")
def few_descriptors(run):
    run.redis(3)
    agent = run.agent()
    limit = len(os.listdir(f"/proc/{agent.pid}/fd")) + 4
    holders = [run.holder(label=f"holder-{i}") for i in range(12)]
    for i, holder in enumerate(holders):
        holder.acquire(f"held-{i}")
    agent.kill()
    argv = run.agent_argv(fresh=False)
    again = run.spawn("sh", "-c", f'ulimit -n {limit}; exec "$@"', "sh", *argv, label="agent")
    again.wait_err(r"(?m)^holdfastd: ready")
    assert "12 leases taken up, 0 released, 0 lost" in again.err, again.err
    for holder in holders[:9]:
        holder.kill()
    for i in range(9):
        run.keys_gone(f"held-{i}")
    for i, holder in enumerate(holders[9:], 9):
        assert holder.held() and run.holders_of(f"held-{i}") >= 2
    again.signal(signal.SIGTERM)
    assert again.wait() == 0, again.err


@scenario("the table's name is removed while the agent runs: programs attach as before")
def attach_without_a_name(run):
    run.redis(3)
    agent = start(run, first=True)
    table_path(agent).unlink()
    holder = run.holder()
    holder.acquire("held")
    time.sleep(TTL_S / 2)
    assert holder.held()
    holder.release()
    agent.wait_err("was removed or replaced")


@scenario("another key_format while a lease is held: refused, and the lease is there for the right one")
def other_key_format(run):
    run.redis(3)
    agent = run.agent()
    holder = run.holder()
    holder.acquire("job")
    agent.stop()
    other = run.spawn(*run.agent_argv(options=("--key-format", "lock:%s")))
    assert other.wait() == 71, other.err
    assert re.search(r"1 leases of an earlier agent with another .*key_format.* \d+ s more", other.err), other.err
    run.agent(fresh=False)
    assert holder.held()
    holder.release()


@scenario("SIGTERM with many releases of stopped nodes under way: the end comes soon, and the next agent completes them")
def ended_amid_releases(run):
    run.redis(3)
    agent = run.agent()
    holder = run.holder()
    holder.cmd("many", 200, "many-", 0)
    wait_until(lambda: run.nodes[0].cmd("DBSIZE") >= 200, what="the keys are there")
    for node in run.nodes[:2]:
        node.sigstop()
    holder.kill()
    wait_until(lambda: not run.nodes[2].cmd("KEYS", "many-*"), what="the releases leave")
    began = time.monotonic()
    agent.stop()
    assert time.monotonic() - began < 3 * SLOW
    for node in run.nodes[:2]:
        node.sigcont()
    agent = run.agent(fresh=False)
    wait_until(lambda: not any(node.cmd("KEYS", "many-*") for node in run.nodes), 5, "all keys go")
    agent.stop()
    assert not table_path(agent).exists(), "something is thought to be held"


if __name__ == "__main__":
    main()
