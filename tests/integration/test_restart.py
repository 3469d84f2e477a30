#!/usr/bin/env python3
"""The agent is killed, replaced and upgraded while leases are held and wanted."""
import json
import os
import pathlib
import struct
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from rig import BUILD, HolderError, main, scenario, wait_until  # noqa: E402

TTL_S = 3
FLEET = ("--ttl-max", f"{TTL_S}s")
NEXT_MINOR, NEXT_MAJOR = BUILD / "tests" / "holdfastd_minor", BUILD / "tests" / "holdfastd_major"
NEXT_READER = BUILD / "tests" / "holdfast_minor"
ALIVE = 1  # a table's state
LOST, VERSION = 4, -307  # HF_STATE_*, HF_E*


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


if __name__ == "__main__":
    main()
