#!/usr/bin/env python3
"""Servers whose addresses change by nature, such as pods: each is a fixed seat behind a name (fleet_address=)."""
import pathlib
import random
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from changing import host, refused, server, votes  # noqa: E402
from names import Names  # noqa: E402
from rig import Redis, main, scenario, wait_until  # noqa: E402

HELD_BY_ANOTHER = 75


def loopback():
    return "127.{}.{}.{}".format(*(random.randint(1, 254) for _ in range(3)))


def named(number):
    return f"redis-{number}.redis.test"


def spec(number):
    return f"n{number}={named(number)}:6379,fleet_address=192.0.2.{number}:6379"


def seats(run, agent):
    return [node["address"] for node in run.holdfast("fleet", "--json", agent=agent).json["nodes"]]


def two_hosts(run):
    servers = [Redis(run, f"n{number}", bind=loopback()).start() for number in (1, 2, 3)]
    names = Names(run, {named(number): made.bind for number, made in enumerate(servers, 1)})
    specs = [spec(number) for number in (1, 2, 3)]
    agents = [host(run, label, nodes=specs, program=names.program, wait=False) for label in "ab"]
    for agent in agents:
        agent.wait_ready(30)
        votes(run, agent=agent)
    return servers, names, agents


def comes_back_elsewhere(run, names, old, number):
    """As a pod does: the old server ends first, then the name leads to an empty one."""
    old.kill()
    new = Redis(run, f"m{number}", bind=loopback()).start()
    names.addresses[named(number)] = new.bind
    return new


@scenario("servers behind names come back at other addresses, twice: the job goes on, and no other host gets its lock", needs_root=True)
def moved(run):
    servers, names, (a, b) = two_hosts(run)
    before = seats(run, a)
    job = run.start_holdfast("run", "nightly", "sleep", "300", agent=a)
    wait_until(lambda: run.show("nightly"), what="the job holds its lock")
    fence = run.show("nightly")["fence"]
    for number in (1, 2):
        new = comes_back_elsewhere(run, names, servers[number - 1], number)
        for agent in (a, b):
            votes(run, agent=agent)
        wait_until(lambda: new.cmd("EXISTS", "nightly"), what="the lease is healed on the new server")
        assert run.holdfast("run", "-n", "nightly", "true", agent=b).rc == HELD_BY_ANOTHER
    assert job.running and run.show("nightly")["fence"] == fence
    assert seats(run, a) == seats(run, b) == before == [f"192.0.2.{number}:6379" for number in (1, 2, 3)]
    job.signal(signal.SIGTERM)
    job.wait(20)
    names.close()


@scenario("a server that comes back behind its name votes only after its quarantine", needs_root=True)
def quarantined(run):
    servers, names, (a, b) = two_hosts(run)
    servers[2].kill()  # two are left
    for agent in (a, b):
        votes(run, 2, agent=agent)
    comes_back_elsewhere(run, names, servers[1], 2)

    def told():
        rows = {row["id"]: row for row in run.holdfast("nodes", "--json", agent=a).json["nodes"]}
        return rows["n2"]["state"] == "quarantined"

    wait_until(told, 15, "the server is seen at its new address")
    assert run.holdfast("run", "-n", "other", "true", agent=a).rc == 69
    votes(run, 2, agent=a)
    assert run.holdfast("run", "-n", "other", "true", agent=a).rc == 0
    names.close()


@scenario("the file is edited first, and the move comes after it: no other order is needed")
def file_first(run):
    run.redis(3)
    agent = host(run)
    votes(run)
    old, *others = run.nodes
    old.kill()
    new = server(run, "m1")
    agent.stop()
    run.agents.clear()
    agent = host(run, nodes=[f"n1={new.address}", *others], fresh=False)
    refused(run, "move", f"n1={others[0].address}", "--old-server-dead", says="is node n2", silent=old)
    moved_there = run.holdfast("fleet", "move", f"n1={new.address}", "--old-server-dead", timeout_s=60)
    assert moved_there.rc == 0 and "version 2 is complete and settled" in moved_there.out, moved_there
    votes(run)
    assert run.holdfast("run", "-n", "job", "true").rc == 0


if __name__ == "__main__":
    main()
