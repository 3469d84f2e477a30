#!/usr/bin/env python3
"""Nodes behind a proxy that keeps the agent's connection, while the server at its other end is another by now.

Agents want direct connections (README.md). One that has others all the same notices with its next command, and believes
nothing that it was told meanwhile.
"""
import contextlib
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from proxy import Proxy  # noqa: E402
from rig import SLOW, HolderError, boottime_ns, main, scenario, wait_until  # noqa: E402
from views import counters, node_rows, wait_node  # noqa: E402

TTL_S = 12  # a probe every 4 s: what is noticed earlier, a command has noticed
QUARANTINE_S = 1.02 * TTL_S + 1
BUSY, NO_QUORUM = -201, -303
FLEET = ("--ttl-max", f"{TTL_S}s")


@contextlib.contextmanager
def behind_proxies(run, count=3, **options):
    """Nodes, and for each a proxy that keeps connections."""
    run.redis(count, **options)
    proxies = [Proxy(node.address, keeps=True) for node in run.nodes]
    try:
        yield [proxy.spec(node) for node, proxy in zip(run.nodes, proxies)]
    finally:
        for proxy in proxies:
            proxy.close()


def start(run, label, nodes=None, **options):
    return run.agent(label, nodes=nodes, ttl=f"{TTL_S}s", options=FLEET, **options)


def refused(holder, name="job"):
    try:
        lease = holder.cmd("try", name)
    except HolderError as error:
        assert error.code in (BUSY, NO_QUORUM), error
    else:
        raise AssertionError(f"granted beside a holder: {lease}")


def held_and_rolled_back(run, nodes):
    """A host that holds the lock and does not get to heal it, and two nodes that come back from before the grant. Returns
    until when the holder may believe that it holds it."""
    holder = run.holder()
    for node in nodes:
        node.cmd("SAVE")
    holder.acquire("job")
    valid_ns = holder.cmd("until")["value"]
    run.agents[0].sigstop()
    for node in nodes:
        node.restart()
        assert node.get("job") is None and node.cmd("EXISTS", "holdfast:node") == 1, "an old snapshot with the sentinel"
    return valid_ns


def restarted_rows(run, agent, nodes):
    for node in nodes:
        row = wait_node(run, node.id, agent, state="quarantined")
        assert "run_id" in row["quarantine_reasons"], row


@scenario("two nodes come back from an old snapshot behind kept connections: another host gets no lock by their votes")
def rolled_back(run):
    with behind_proxies(run) as kept:
        start(run, "a")
        other = start(run, "b", kept)
        rival = run.holder(other, label="rival")
        valid_ns = held_and_rolled_back(run, run.nodes[:2])
        back = time.monotonic()
        refused(rival)
        restarted_rows(run, other, run.nodes[:2])
        assert boottime_ns() < valid_ns, "this machine is too slow for the case"
        rival.acquire("job", 0, 60_000)
        assert time.monotonic() - back > QUARANTINE_S - 0.5, "before the quarantine"
        assert boottime_ns() > valid_ns, "two holders"


@scenario("the same, and another agent has loaded the scripts again before: no NOSCRIPT tells of it")
def rolled_back_and_loaded(run):
    with behind_proxies(run) as kept:
        start(run, "a")
        other = start(run, "b", kept)
        rival = run.holder(other, label="rival")
        valid_ns = held_and_rolled_back(run, run.nodes[:2])
        third = start(run, "c", fresh=False, wait=False)
        wait_until(lambda: all("up" in third.err and node.calls("script|load") >= 10 for node in run.nodes[:2]),
                   what="the third agent has loaded its scripts")
        refused(rival)
        assert boottime_ns() < valid_ns, "this machine is too slow for the case"
        restarted_rows(run, other, run.nodes[:2])


@scenario("a holder behind kept connections: its renewals count only once it is known who answers, and the lease is kept")
def holder_behind(run):
    with behind_proxies(run) as kept:
        agent = start(run, "a", kept)
        holder = run.holder()
        holder.acquire("job")
        for node in run.nodes:
            node.restart()
            wait_until(lambda: node.get("job"), TTL_S, f"the key is written again on {node.id}")
            wait_node(run, node.id, agent, state="quarantined")
            assert holder.held()
        assert counters(run)["losses"] == 0
        holder.release()
        run.keys_gone("job")


@scenario("nodes with passwords behind kept connections: the agent logs in again")
def with_password(run):
    with behind_proxies(run, password="geheim") as kept:
        agent = start(run, "a", [spec.replace("=", "=redis://:geheim@", 1) for spec in kept])
        holder = run.holder()
        holder.acquire("job")
        run.nodes[1].restart()
        wait_node(run, "n2", agent, timeout_s=TTL_S, state="quarantined")
        wait_until(lambda: run.nodes[1].get("job"), TTL_S, "the key is written again")
        assert holder.held() and counters(run)["losses"] == 0


@scenario("SCRIPT FLUSH on all nodes is no restart: the next lock is had at once, and no connection ends")
def flushed_scripts(run):
    run.redis(3)
    start(run, "a")
    holder = run.holder()
    for _ in range(5):
        holder.acquire("job", 0, 5000)
        for node in run.nodes:
            node.cmd("SCRIPT", "FLUSH")
        holder.release()
        run.keys_gone("job")
        for node in run.nodes:
            node.cmd("SCRIPT", "FLUSH")
        began = time.monotonic()
        holder.cmd("try", "job")
        assert time.monotonic() - began < 5 * SLOW
        holder.release()
        run.keys_gone("job")
    rows = node_rows(run)
    assert all(row["state"] == "up" and row["reconnects"] == 0 for row in rows.values()), rows
    assert all(node.calls("info") < 60 for node in run.nodes), [node.calls("info") for node in run.nodes]


if __name__ == "__main__":
    main()
