#!/usr/bin/env python3
"""Nodes that are not alone: replicas, failovers, and what a restart with an append-only file is worth."""
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from events import await_event  # noqa: E402
from rig import Redis, main, scenario, wait_until  # noqa: E402
from views import node_rows, wait_node  # noqa: E402

TTL_S = 5
CONSTANTS = ["--ttl-max", f"{TTL_S}s"]
DURABLE = ["--appendonly", "yes", "--appendfsync", "always"]


def fleet(run, *options, node_options=()):
    run.redis(3, tcp=True, options=node_options)
    agent = run.agent(ttl=f"{TTL_S}s", options=[*CONSTANTS, *options])
    for node in run.nodes:
        wait_node(run, node.id, state="up")
    return agent


def port(node):
    return node.address.rpartition(":")[2]


def copy_of(run, node):
    return Redis(run, f"copy-{node.id}", tcp=True, options=["--replicaof", "127.0.0.1", port(node)]).start()


@scenario("a replica that attaches to a node is noticed: the node gives no votes, all say why and what to do, and no lease is "
          "lost; detached, it votes again")
def attached(run):
    agent = fleet(run)
    holder = run.holder()
    holder.acquire("job", TTL_S * 1000, 5000)
    copy = copy_of(run, run.nodes[2])
    row = wait_node(run, "n3", state="refused", timeout_s=15)
    assert row["refusal"] == "replicated" and not row["votes"], row
    agent.wait_err(r"node n3 is refused: it has replicas, or had a failover.*[Dd]etach.*allow_replicas")
    await_event(run, "node_refused", node="n3")
    doctor = run.holdfast("doctor").out
    assert "n3 is refused: it has replicas" in doctor and "detach its replicas" in doctor, doctor
    shown = run.holdfast("nodes", "n3").out + run.holdfast("nodes").out
    assert "it has replicas, or had a failover" in shown, shown
    assert holder.held() and run.holders_of("job") == 3
    copy.stop()
    wait_node(run, "n3", state="up", timeout_s=15)
    assert holder.held()


@scenario("a replica that was made a master by a failover: refused, unless the operator takes the weaker contract")
def promoted(run):
    run.redis(2, tcp=True)
    other = Redis(run, "other", tcp=True).start()
    copy = copy_of(run, other)
    run.nodes.append(copy)
    time.sleep(1)
    copy.cmd("REPLICAOF", "NO", "ONE")
    run.found(options=[*CONSTANTS, "--allow-replicas"])
    run.agent(ttl=f"{TTL_S}s", options=CONSTANTS)
    assert wait_node(run, copy.id, state="refused")["refusal"] == "replicated"
    careless = run.agent("b", ttl=f"{TTL_S}s", options=[*CONSTANTS, "--allow-replicas"])
    wait_node(run, copy.id, careless, state="up")
    assert run.holdfast("status", "--json", agent=careless).json["agent"]["allow_replicas"]
    assert "failover" in run.holdfast("doctor", agent=careless).out


def behind_link(run, node_id, *options):
    """A server that agents reach by a link, which may come to lead to another one."""
    node = Redis(run, node_id, tcp=True, options=[*DURABLE, "--unixsocket", run.dir / f"{node_id}.sock", "--unixsocketperm",
                                                  "777", *options])
    return node.start()


@scenario("a majority fails over to replicas that lag behind, synced files and all: nobody else gets the lock that is held")
def failed_over(run):
    masters = [behind_link(run, f"n{i}") for i in (1, 2, 3)]
    links = [run.dir / f"{node.id}.link" for node in masters]
    for node, link in zip(masters, links):
        link.symlink_to(run.dir / f"{node.id}.sock")
    nodes = [f"{node.id}=unix:{link}" for node, link in zip(masters, links)]
    options = [*CONSTANTS, "--allow-replicas"]
    host, other = (run.agent(label, nodes=nodes, ttl=f"{TTL_S}s", options=options) for label in "ab")
    for node in masters:
        wait_node(run, node.id, other, state="up")
    copies = [behind_link(run, f"copy{i}", "--replicaof", "127.0.0.1", port(masters[i])) for i in (0, 1)]
    wait_until(lambda: all(copy.cmd("EXISTS", "holdfast:node") for copy in copies), what="they are copies")
    run_ids = {row["run_id"] for row in node_rows(run, other).values()}
    for copy in copies:
        copy.cmd("REPLICAOF", "NO", "ONE")  # as when the link between them is cut: it lags from now on
    holder = run.holder(host)
    holder.acquire("job", TTL_S * 1000, 5000)
    host.sigstop()
    for master, copy, link in zip(masters, copies, links):
        master.kill()
        link.unlink()
        link.symlink_to(run.dir / f"{copy.id}.sock")
    while holder.held():
        result = run.holdfast("run", "-n", "job", "true", agent=other)
        assert result.rc != 0 or not holder.held(), "a second holder"
    assert len({row["run_id"] for row in node_rows(run, other).values()} - run_ids) == 2, "V passed before they were seen"


@scenario("a node with an append-only file that is always synced is restarted: in quarantine all the same")
def durable(run):
    fleet(run, node_options=DURABLE)
    run.nodes[2].restart()
    row = wait_node(run, "n3", state="quarantined")
    assert row["quarantine_reasons"] == ["run_id"], row


@scenario("a majority is killed before its append-only files have a lock that is held: nobody else gets it")
def files_of_before(run):
    agent = fleet(run, node_options=DURABLE)
    other = run.agent("b", ttl=f"{TTL_S}s", options=CONSTANTS)
    for node in run.nodes:
        wait_node(run, node.id, other, state="up")
    two = run.nodes[:2]
    for node in two:
        node.cmd("CONFIG", "SET", "appendonly", "no")
    holder = run.holder(agent)
    holder.acquire("job", TTL_S * 1000, 5000)
    agent.sigstop()
    for node in two:  # the settings are again what they were; the files are not, before a rewrite has ended
        node.cmd("CONFIG", "SET", "appendonly", "yes")
        node.kill()
        node.start()
    while holder.held():
        result = run.holdfast("run", "-n", "job", "true", agent=other)
        assert result.rc != 0 or not holder.held(), "a second holder"
    agent.sigcont()


if __name__ == "__main__":
    main()
