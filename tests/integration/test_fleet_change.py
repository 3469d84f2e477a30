#!/usr/bin/env python3
"""A fleet changes while locks are held, by an operator's command: what is refused, with its remedy, and what is done.
"""
import pathlib
import re
import shutil
import subprocess
import signal
import socket
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from changing import (DENIED, NOT_NOW, REFUSED, TTL_S, UNAVAILABLE, USAGE, change, done, fleet_of, grants_and_holds, host,  # noqa: E402
                      refused, server, settled, version, votes)
from little_room import little_room  # noqa: E402
from rig import OTHER_UID, Redis, free_port, main, scenario, wait_until  # noqa: E402
from views import counters, wait_node  # noqa: E402

def ask_agent(run, agent, line):
    """The answer of its control socket to that line."""
    with socket.socket(socket.AF_UNIX) as peer:
        peer.settimeout(10)
        peer.connect(str(run.runtime_dir / agent.name / "control"))
        peer.sendall(line + b"\n")
        answer = b""
        while piece := peer.recv(4096):
            answer += piece
        return answer


def info(node):
    shown = node.cmd("INFO", "replication")
    return shown if isinstance(shown, bytes) else shown.encode()


def evicts(node):
    node.cmd("CONFIG", "SET", "maxmemory", "100mb")
    node.cmd("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")


# --- the server that is to be a node ------------------------------------------------------------------


@scenario("another server for a node is refused while nobody answers there, and when who answers is no Redis")
def nobody_there(run):
    fleet_of(run)
    refused(run, "move", f"n2=127.0.0.1:{free_port()}", says=["no server answers at 127.0.0.1:", "start one there"])
    refused(run, "move", f"n2={run.dir}/none", says=["no server answers at ", "/none"])
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(4)

        def chat():
            peer = listener.accept()[0]
            with peer:
                peer.sendall(b"220 mail\r\n")
                time.sleep(0.5)

        thread = threading.Thread(target=chat)
        thread.start()
        refused(run, "move", f"n2=127.0.0.1:{listener.getsockname()[1]}", says=["no Redis"])
        thread.join()


@scenario("another server is refused when it does not take this host's password, and taken for what it is without one")
def wrong_password(run):
    fleet_of(run)
    other = server(run, "other", password="secret")
    refused(run, "move", f"n2={other.address}",
            says=["does not take the user and the password that this host's configuration has for node n2", "give it these"])
    refused(run, "move", f"n2=redis+unix://:secret@{other.seat}",
            says="are those of this host's configuration")


@scenario("the password of the configured node of that id is used for the new server, and else that of the first one")
def credentials(run):
    nodes = [Redis(run, f"n{i}", password=f"word{i}").start() for i in (1, 2, 3)]
    run.nodes += nodes
    host(run, nodes=[f"{node.id}=redis+unix://:{node.password}@{node.seat}" for node in nodes])
    by_first, by_second = (server(run, f"new{i}", password=f"word{i}") for i in (1, 2))
    for one in (by_first, by_second):
        one.cmd("SET", "holdfast:fence:x", "1")  # what is said of it shows that it was looked at
    refused(run, "move", f"n2={by_second.address}", says="keys of agents (holdfast:fence:x)")
    refused(run, "add", f"n4={by_first.address}", says="keys of agents (holdfast:fence:x)")
    refused(run, "move", f"n2={by_first.address}", says="the password that this host's configuration has for node n2")


@scenario("a replica, a node with replicas, and one that evicts keys are refused")
def unfit(run):
    fleet_of(run)
    master, replica, evicting = server(run, "master", tcp=True), server(run, "replica", tcp=True), server(run, "evicts")
    replica.cmd("REPLICAOF", *master.address.split(":"))
    wait_until(lambda: "connected_slaves:1" in str(master.cmd("INFO", "replication")), what="the replica is connected")
    evicts(evicting)
    refused(run, "move", f"n2={replica.address}", says=["or give another server", "replica"])
    refused(run, "move", f"n2={master.address}", says=["or give another server", "replica"])
    refused(run, "move", f"n2={evicting.address}", says=["or give another server", "evict"])


@scenario("what the operator has allowed is no reason: a node with replicas, and one that evicts keys")
def allowed(run):
    fleet_of(run, options=["--allow-eviction"])
    evicting = server(run, "evicts")
    evicts(evicting)
    evicting.cmd("SET", "holdfast:fence:x", "1")
    refused(run, "move", f"n2={evicting.address}", says="keys of agents")


@scenario("a server that belongs to a fleet, or did, is refused: a node of this one, of another, and one with keys of agents")
def taken(run):
    fleet_of(run)
    n1, n2, _ = run.nodes
    refused(run, "move", f"n2={n1.address}", says="is node n1; give another one\n")
    refused(run, "move", f"n2={n2.address}", says="is node n2; give another one\n")
    refused(run, "add", f"n4={n2.address}", says="is node n2; give another one\n")
    copy, foreign, used, keys = (server(run, name) for name in ("copy", "foreign", "used", "keys"))
    sentinel = n1.cmd("HGETALL", "holdfast:node")
    copy.cmd("HSET", "holdfast:node", *sentinel)
    refused(run, "move", f"n2={copy.address}",
            says=["has a record of this fleet", "flush that one if it is nobody's any more"])
    copy.cmd("FLUSHALL")
    keys.cmd("SET", "holdfast:fence:x", "1")
    for i in range(30000):
        if i % 1000 == 0:
            keys.cmd("MSET", *[word for k in range(i, i + 1000) for word in (f"k{k}", "v")])
    refused(run, "move", f"n2={keys.address}", says=["has keys of agents (holdfast:fence:x)", "flush that one"])
    used.cmd("HSET", "holdfast:node", *sentinel)
    used.cmd("HDEL", "holdfast:node", "record", "digest", "record_by")
    refused(run, "move", f"n2={used.address}", says=["(it has the key holdfast:node)", "flush that one"])
    used.cmd("FLUSHALL")
    used.cmd("HSET", "holdfast:node", "x", "y", "nonce", "z")
    refused(run, "move", f"n2={used.address}", says=["holdfast:node", "flush that one"])
    others = run.agent("others", nodes=[f"x={foreign.address}"])
    refused(run, "move", f"n2={foreign.address}", says=["is a node of another fleet", "flush that one"])
    others.stop()


@scenario("a loopback address or a path is refused where the fleet's seats are such that every host reaches them")
def private_seat(run):
    # fleet_address=: what the fleet knows these servers by
    nodes = [Redis(run, f"n{i}").start() for i in (1, 2, 3)]
    run.nodes += nodes
    host(run, nodes=[f"{node.id}={node.address},fleet_address=192.0.2.{i}:6379" for i, node in enumerate(nodes, 1)])
    path, loopback = server(run, "path"), server(run, "loopback", tcp=True)
    for one in (path, loopback):
        refused(run, "move", f"n2={one.address}", says=["give an address by which every host reaches it", one.seat])


@scenario("an id that is unknown, or known already, and a change that would leave too few nodes: refused with what to do")
def bad_change(run):
    fleet_of(run)
    votes(run)
    other = server(run, "other")
    refused(run, "move", f"n9={other.address}", says="no node has the id n9")
    refused(run, "add", f"n1={other.address}", says="give another id")
    refused(run, "remove", "n9", says="no node has the id n9")
    refused(run, "mark-dead", "n2", says="no change of the fleet is under way")
    for words in (["move", "n2"], ["move", "n2="], ["move", f"={other.address}"], ["add"], ["remove"], ["mark-dead"],
                  ["add", f"n4={other.address}", "--old-server-dead"], ["ttl-max", "soon"], ["ttl-max", "60s", "--old-server-dead"],
                  ["remove", "n1", "n2"], ["move", "n2=" + "x" * 200], ["remove", "n1", "--no-wait", "--timeout", "3"]):
        result = change(run, *words)
        assert result.rc == USAGE and result.err, (words, result)


@scenario("two nodes: a move is refused, for too few would stay")
def too_few(run):
    fleet_of(run, 2)
    votes(run, 2)
    refused(run, "move", f"n2={server(run, 'other').address}", says="too few nodes stay")


@scenario("the seat is the address as connected: of a name what it leads to, of a path its one form")
def seat_as_connected(run):
    for i, (make, given) in enumerate(((lambda: server(run, "tcp", tcp=True), lambda one: one.address.replace("127.0.0.1", "localhost")),
                                       (lambda: server(run, "path"), lambda one: one.address))):
        nodes = [Redis(run, f"n{i}{k}").start() for k in (1, 2, 3)]
        run.nodes = nodes
        agent = host(run, f"a{i}", nodes=nodes)
        votes(run, agent=agent)
        one = make()
        result = change(run, "move", f"n{i}2={given(one)}", "--no-wait", agent=agent)
        assert f"node n{i}2 moves to {one.seat if one.seat[0] == '/' else one.address}; " in result.out, result


# --- a node that refuses the record ---------------------------------------------------------------------


def takes_no_record(node):
    node.cmd("ACL", "SETUSER", "default", "-hset")


def takes_all(node):
    node.cmd("ACL", "SETUSER", "default", "+@all")


@scenario("no change begins while a node that has to store it refuses writes")
def refuses_before(run):
    fleet_of(run)
    votes(run)
    takes_no_record(run.nodes[2])
    assert run.holdfast("run", "x", "true").rc == 0
    wait_node(run, "n3", state="unwritable")
    refused(run, "move", f"n2={server(run, 'other').address}", code=NOT_NOW, says=["node n3 refuses writes (", "mend it first"])
    takes_all(run.nodes[2])
    assert run.holdfast("run", "x", "true").rc == 0
    votes(run)


@scenario("a node that stays refuses the change: status and doctor say that no lock can be had, and it goes on once that is mended")
def refuses_during(run):
    fleet_of(run)
    votes(run)
    takes_no_record(run.nodes[2])
    begun = change(run, "move", f"n2={server(run, 'other').address}", "--no-wait")
    assert begun.rc == 0, begun
    wait_node(run, "n3", state="unwritable", timeout_s=15)
    wait_until(lambda: "1 of 3 vote, quorum 2" in run.holdfast("status").out, 10, "status counts one node")
    doctor = run.holdfast("doctor")
    assert "1 of 3 nodes may vote and 2 are needed: no new lock can be had" in doctor.out, doctor
    assert "n3 refuses writes" in doctor.out, doctor
    takes_all(run.nodes[2])
    wait_until(lambda: settled(run, 2), 30, "the change goes on")
    grants_and_holds(run, None)


@scenario("a node that leaves refuses the change: fleet says to stop it, mark-dead says so while it answers, and then it goes on")
def leaver_refuses(run):
    fleet_of(run)
    votes(run)
    takes_no_record(run.nodes[1])
    assert change(run, "move", f"n2={server(run, 'other').address}", "--no-wait").rc == 0
    stop_it = "stop that server for good, and then: holdfast fleet mark-dead n2"
    wait_until(lambda: f"waits: node n2 answers at {run.nodes[1].seat} and refuses the record of the change; see holdfast nodes and mend it, "
               f"or {stop_it}" in run.holdfast("fleet").out, 15, "the words say what to do")
    assert "refuses the record of the change" in run.holdfast("doctor").out
    result = change(run, "mark-dead", "n2")
    assert result.rc == REFUSED and f"node n2 still answers at {run.nodes[1].seat}; {stop_it}" in result.err, result
    assert "leave --old-server-dead away" not in result.err, result
    run.nodes[1].kill()
    wait_until(lambda: change(run, "mark-dead", "n2", timeout_s=60).rc == 0, 60, "as the words say")
    assert settled(run, 2)
    grants_and_holds(run, None)


# --- gone ---------------------------------------------------------------------------------------------


@scenario("--old-server-dead is refused while that server answers, and while it only takes connections")
def not_gone(run):
    fleet_of(run)
    other = server(run, "other")
    for words in (["move", f"n2={other.address}", "--old-server-dead"], ["remove", "n2", "--old-server-dead"]):
        refused(run, *words, says=["leave --old-server-dead away, or stop the server", "n2"])
    run.nodes[1].sigstop()
    try:
        time.sleep(3)  # its connections are given up: this agent has no word of it any more
        result = change(run, "remove", "n2", "--old-server-dead")
        assert result.rc == REFUSED and "leave --old-server-dead away, or stop the server" in result.err, result
    finally:
        run.nodes[1].sigcont()


@scenario("a node that leaves and does not answer: refused for now, and --old-server-dead is named")
def away(run):
    fleet_of(run)
    votes(run)
    other = server(run, "other")
    run.nodes[1].kill()
    wait_node(run, "n2", state="down")
    refused(run, "move", f"n2={other.address}", code=NOT_NOW, says=["let node n2 answer first", "--old-server-dead"])


@scenario("a node that is refused and only leaves: told to mend it or to stop its server, and it leaves when that is stopped")
def refused_leaver(run):
    fleet_of(run, tcp=True)
    votes(run)
    master = server(run, "master", tcp=True)
    run.nodes[1].cmd("REPLICAOF", *master.address.split(":"))
    wait_node(run, "n2", state="refused")
    for words in (["remove", "n2"], ["move", f"n2={server(run, 'other', tcp=True).address}"]):
        refused(run, *words, code=NOT_NOW,
                says=["mend node n2 first (holdfast nodes says what is against it)", f"stop the server at {run.nodes[1].address} for good"])
    refused(run, "remove", "n2", "--old-server-dead", says="stop the server")
    run.nodes[1].stop()
    wait_node(run, "n2", state="down")
    done(change(run, "remove", "n2", "--old-server-dead", timeout_s=60))


@scenario("a node that evicts keys can be told that it leaves, and leaves")
def evicting_leaver(run):
    fleet_of(run)
    votes(run)
    evicts(run.nodes[1])
    wait_node(run, "n2", state="refused")
    done(change(run, "remove", "n2", timeout_s=60))


@scenario("a node without an id of its own has its address for one: it moves and leaves by that")
def nameless(run):
    nodes = [Redis(run, f"n{i}", tcp=True).start() for i in (1, 2, 3)]
    run.nodes += nodes
    host(run, nodes=[node.address for node in nodes])
    votes(run)
    other = server(run, "other", tcp=True)
    done(change(run, "move", f"{nodes[1].address}={other.address}", timeout_s=60))
    refused(run, "move", f"{nodes[1].address}=x={other.address}", says="give ID=ADDRESS")
    refused(run, "remove", f"{other.address}", says="no node has the id")


# --- ttl_max ------------------------------------------------------------------------------------------


@scenario("a smaller ttl_max than this host's ttl, or than the TTL of a lease that it holds, is refused, naming it")
def ttl_max(run):
    run.redis(3)
    run.agent("a", ttl="2s", options=["--ttl-max", "20s"])
    refused(run, "ttl-max", "1500ms", says="set ttl to 1500 ms or less")
    holder = run.holder()
    holder.acquire("short", 2500)
    holder.acquire("long one", 15000)
    refused(run, "ttl-max", "10s", says="the lease of long one on this host has a TTL of 15000 ms; wait until it is released")
    votes(run)
    refused(run, "ttl-max", "20s", says="nothing changes")
    for time in ("0", "-1", "1y", "2d", "499ms"):
        result = change(run, "ttl-max", time)
        assert result.rc == USAGE and "500 ms to 24 h" in result.err, result


# --- who may ------------------------------------------------------------------------------------------


@scenario("only root and the agent's own user change the fleet, and without an agent nobody", needs_root=True)
def who_may(run):
    fleet_of(run)
    result = change(run, "remove", "n3", uid=OTHER_UID)
    assert result.rc == DENIED and "may change the fleet" in result.err, result
    run.agents[0].stop()
    result = change(run, "remove", "n3")
    assert result.rc == UNAVAILABLE and "no agent" in result.err, result


@scenario("the record says who asked for the change, not whose the agent is", needs_root=True)
def by_whom(run):
    run.redis(3, tcp=True)
    run.runtime_dir.chmod(0o777)
    agent = host(run, uid=OTHER_UID)

    def by():
        return re.search(rb"(?m)^by \S+ (\d+) ", ask_agent(run, agent, b"fleet")).group(1)

    assert by() == str(OTHER_UID).encode()
    wait_until(lambda: ask_agent(run, agent, f"fleet-change ttl-max {TTL_S + 1}000".encode()).startswith(b"begun"), 15, "it begins")
    wait_until(lambda: b"version 2" in ask_agent(run, agent, b"fleet"), 15, "the agent goes by it")
    assert by() == b"0"


@scenario("an agent with private nodes changes no fleet")
def dev(run):
    run.dev_agent(1)
    result = change(run, "ttl-max", "70s")
    assert result.rc == REFUSED and "without --dev" in result.err, result


@scenario("the control request itself: what is no request is refused with the list of requests, and the agent goes on")
def bad_requests(run):
    agent = fleet_of(run)
    path = str(run.runtime_dir / agent.name / "control")

    def ask(line):
        return ask_agent(run, agent, line)

    for line in (b"fleet-change ", b"fleet-change move", b"fleet-change move n2", b"fleet-change move n2 /x alive",
                 b"fleet-change move  /x", b"fleet-change move n2 \\x00", b"fleet-change ttl-max -1",
                 b"fleet-change ttl-max 99999999999999999999", b"fleet-change add n2 /x gone", b"fleet-change gone",
                 b"fleet-change remove - gone", b"fleet-change move n2 " + b"x" * 200):
        assert ask(line).startswith(b"error: the requests are: fleet-change move"), (line, ask(line))
    # whoever hangs up keeps nothing from going on
    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect(path)
        peer.sendall(b"fleet-change move n2 /none\n")
    with socket.socket(socket.AF_UNIX) as one:
        one.connect(path)
        one.sendall(b"fleet-change remove n9\n")
    wait_until(lambda: ask(b"fleet-change remove n9").startswith(b"error: no node has the id"), what="one after the other")
    assert run.holdfast("run", "-n", "job", "true").rc == 0


# --- what is done ---------------------------------------------------------------------------------------


@scenario("a node moves to another server while locks are held: they stay, also on the other hosts, and both get new ones")
def moved(run):
    run.redis(3)
    agents = [host(run, label) for label in ("a", "b")]
    other = server(run, "other")
    votes(run)
    pids = [agent.pid for agent in agents]
    holders = [run.holder(agent) for agent in agents]
    for i, holder in enumerate(holders):
        holder.acquire(f"held{i}")
    result = done(change(run, "move", f"n2={other.address}", timeout_s=60))
    assert f"node n2 is at {other.seat}" in result.out, result
    assert "do not start the old server again with its old data" in result.out, result
    assert re.search(r"it takes 5\.\ds at the least", result.out), result
    for i, holder in enumerate(holders):
        assert holder.held(), f"held{i} is lost"
    assert [agent.pid for agent in agents] == pids and all(agent.running for agent in agents)
    members = [run.nodes[0], other, run.nodes[2]]
    wait_until(lambda: len({node.record for node in members}) == 1, what="all members have one record")
    assert version(other) == 2
    run.nodes[1].stop()  # it is nobody's any more
    grants_and_holds(run, *agents)
    shown = run.holdfast("fleet", "--json")
    assert shown.rc == 0 and shown.json["record"]["version"] == 2 and shown.json["record"]["settles_ms"] is None, shown


@scenario("programs that wait for a lock wait on through a change, on all hosts, and get it")
def waited(run):
    run.redis(3)
    agents = [host(run, label) for label in ("a", "b")]
    other = server(run, "other")
    votes(run)
    holder = run.holder(agents[0])
    holder.acquire("wanted")
    waiting = [run.start_holdfast("run", *wait, "wanted", "true", agent=agent)
               for agent in agents for wait in ((), ("-w", "60s"))]
    wait_until(lambda: all(counters(run, agent)["waiters"] == 2 for agent in agents), what="all wait")
    done(change(run, "move", f"n2={other.address}", timeout_s=60))
    assert all(one.running for one in waiting), [one.err for one in waiting]
    holder.release()
    codes = [one.wait(30) for one in waiting]
    assert codes == [0] * 4, (codes, [one.err for one in waiting])


@scenario("a dead node is replaced: --old-server-dead, and nothing waits for it")
def replaced(run):
    fleet_of(run)
    votes(run)
    other = server(run, "other")
    holder = run.holder()
    holder.acquire("held")
    run.nodes[1].kill()
    wait_node(run, "n2", state="down")
    done(change(run, "move", f"n2={other.address}", "--old-server-dead", timeout_s=60))
    assert holder.held()


@scenario("nodes join and leave, and ttl_max becomes another one")
def grows(run):
    fleet_of(run)
    votes(run)
    more = [server(run, name) for name in ("more1", "more2")]
    result = done(change(run, "add", f"n4={more[0].address}", timeout_s=60))
    assert "warning: of 4 nodes no more may fail than of 3" in result.err, result
    votes(run, 4)
    result = done(change(run, "add", f"n5={more[1].address}", timeout_s=60), 3)
    assert "warning" not in result.err, result
    votes(run, 5)
    done(change(run, "remove", "n1", timeout_s=60), 4)
    done(change(run, "ttl-max", f"{TTL_S + 1}s", timeout_s=60), 5)
    assert run.holdfast("run", "-n", "job", "true").rc == 0


@scenario("--no-wait returns when the change has begun; the next one is refused until it has settled, and --timeout ends the "
          "wait only")
def one_at_a_time(run):
    fleet_of(run)
    votes(run)
    more = [server(run, name) for name in ("more1", "more2")]
    result = change(run, "add", f"n4={more[0].address}", "--no-wait")
    assert result.rc == 0 and "is complete and settled" not in result.out, result
    result = change(run, "add", f"n5={more[1].address}")
    assert result.rc == NOT_NOW and result.err.startswith("holdfast fleet: refused, and nothing changes: "), result
    wait_until(lambda: settled(run, 2), 30, "version 2 has settled")
    votes(run, 4)
    result = change(run, "add", f"n5={more[1].address}", "--timeout", "1s")
    assert result.rc == NOT_NOW and "what has begun goes on without this command" in result.err, result
    wait_until(lambda: version(more[1]) == 3, 30, "version 3 reaches the new node")


@scenario("ttl_max becomes much smaller than the TTL of a job on another host: the job goes on, and its lock is renewed for less")
def long_job(run):
    run.redis(3)
    agents = [run.agent(label, ttl="2s", options=["--ttl-max", "8s"]) for label in ("a", "b")]
    for agent in agents:
        votes(run, agent=agent)
    job = run.start_holdfast("run", "-t", "8s", "long", "sleep", "60", agent=agents[1])
    wait_until(lambda: counters(run, agents[1])["leases"] == 1, what="the job's lock")
    done(change(run, "ttl-max", "2s", timeout_s=60))
    time.sleep(2)  # it was promised 8 s, and settling took 9.2 s
    assert job.running, job.err
    job.signal(signal.SIGTERM)
    job.wait(10)
    assert "lost" not in job.err, job.err


def in_the_way(run, agent):
    """Something that no file of the agent can replace."""
    kept = run.runtime_dir / agent.name / "fleet"
    kept.unlink()
    (kept / "in the way").mkdir(parents=True)
    return kept


@scenario("a change is refused where the agent that is asked cannot keep the next record")
def cannot_keep(run):
    agent = fleet_of(run)
    votes(run)
    more = server(run, "more")
    kept = in_the_way(run, agent)
    refused(run, "add", f"n4={more.address}", code=NOT_NOW, says=["make room in the agent's directory", str(kept)])
    shutil.rmtree(kept)
    done(change(run, "add", f"n4={more.address}", timeout_s=60))


@scenario("no room for a second journal: the host that is asked refuses the change, and one that learns of it goes on until there is",
          needs_root=True)
def no_second_journal(run):
    run.redis(3)
    other = server(run, "other")
    with little_room(run, "a", "1400k") as place:
        small = host(run, "a", options=["--capacity", "1024"])
        large = host(run, "b")
        for agent in (small, large):
            votes(run, agent=agent)
        holder = run.holder(small)
        holder.acquire("kept")
        refused(run, "move", f"n2={other.address}", code=NOT_NOW, says=["make room in the agent's directory", "no room for the journal"])
        change(run, "move", f"n2={other.address}", "--no-wait", agent=large)
        wait_until(lambda: "waits: make room in the agent's directory" in run.holdfast("fleet").out, 15, "fleet says it")
        assert "no room for the journal of the next list of nodes" in small.err, small.err
        assert small.running and holder.held(), small.err
        subprocess.run(["mount", "-o", "remount,size=8m", place], check=True)
        wait_until(lambda: settled(run, 2), 30, "version 2 has settled")
        assert small.running and holder.held(), small.err
        holder.release()
        assert run.holdfast("run", "-n", "job", "true").rc == 0
        assert not list(place.glob("*.room")), "room is kept"
        small.stop()


@scenario("an agent that cannot keep the fleet's next record says so where it says what it waits for, and goes on when it can")
def unkept(run):
    run.redis(3)
    agent, other = (host(run, label) for label in ("a", "b"))
    votes(run)
    votes(run, agent=other)
    more = server(run, "more")
    kept = in_the_way(run, agent)
    change(run, "add", f"n4={more.address}", "--no-wait", agent=other)
    wait_until(lambda: "waits: make room in the agent's directory" in run.holdfast("fleet").out, what="fleet says it")
    shutil.rmtree(kept)
    wait_until(lambda: settled(run, 2), 30, "version 2 has settled")
    assert run.holdfast("run", "-n", "job", "true").rc == 0


@scenario("after a change the agent takes a reload as before, though --assume-fresh was for its first start")
def reloaded(run):
    fleet_of(run)
    votes(run)
    assert run.holdfast("reload").rc in (0, REFUSED)
    done(change(run, "ttl-max", f"{TTL_S + 1}s", timeout_s=60))
    result = run.holdfast("reload")
    assert "assume_fresh" not in result.err, result


@scenario("the server that leaves dies in the middle of the change: mark-dead, and the command ends well")
def marked_dead(run):
    fleet_of(run)
    votes(run)
    other = server(run, "other")
    run.nodes[2].sigstop()  # it stays, and is not told: the change waits for it
    command = run.start_holdfast("fleet", "move", f"n2={other.address}")
    wait_until(lambda: version(run.nodes[0]) == version(run.nodes[1]) == 2, what="a majority has the change")
    wait_until(lambda: "changing" in run.holdfast("fleet").out, what="the agent goes by it")
    run.nodes[1].kill()
    marked = run.start_holdfast("fleet", "mark-dead", "n2")
    wait_until(lambda: "\ngone n2 " in run.nodes[0].record, what="the word is on the first node")
    run.nodes[2].sigcont()
    assert command.wait(60) == 0, command.err
    assert marked.wait(60) == 0, marked.err
    assert "version 2 is complete and settled: node n2 is at" in command.out, command.out


@scenario("a node that stays got a replica a moment ago: no change begins, for it would leave too few votes, and it is said why")
def got_a_replica(run):
    run.redis(3, tcp=True)
    run.agent("a", ttl="60s", options=["--ttl-max", "60s"])  # it reads INFO every 5 to 8 s
    votes(run)
    other = server(run, "other", tcp=True)
    replica = server(run, "replica", tcp=True)
    host_and_port = run.nodes[0].address.rpartition(":")
    replica.cmd("REPLICAOF", host_and_port[0], host_and_port[2])
    wait_until(lambda: b"connected_slaves:1" in info(run.nodes[0]), 10, "the replica is there")
    for words in (("move", f"n2={other.address}"), ("ttl-max", "70s")):
        refused(run, *words, says=["node n1", "it has replicas", "a change needs every node that stays"])


@scenario("two operators on two hosts change the fleet at once: one of the changes is done, and the other command says that it is "
          "not")
def two_operators(run):
    run.redis(3)
    agents = [host(run, label) for label in ("a", "b")]
    others = [server(run, name) for name in ("one", "two")]
    for agent in agents:
        votes(run, agent=agent)
    commands = [run.start_holdfast("fleet", "move", f"n{i + 1}={one.address}", agent=agent)
                for i, (agent, one) in enumerate(zip(agents, others))]
    codes = [command.wait(60) for command in commands]
    assert sorted(codes) == [0, NOT_NOW], (codes, [command.err for command in commands])
    loser = codes.index(NOT_NOW)
    assert re.search("another operator's change came first|refused, and nothing changes", commands[loser].err)
    assert not others[loser].record, "both changes are in the record"
    grants_and_holds(run, *agents)


@scenario("the agent ends while a change is looked at: whoever asked has an answer, and nothing has begun")
def ends_meanwhile(run):
    agent = fleet_of(run)
    votes(run)
    with socket.socket() as listener:  # takes connections, and never says a word
        listener.bind(("127.0.0.1", 0))
        listener.listen(4)
        command = run.start_holdfast("fleet", "move", f"n2=127.0.0.1:{listener.getsockname()[1]}")
        peer, _ = listener.accept()
        agent.stop()
        peer.close()
        assert command.wait(10) == NOT_NOW, command.err
    assert "the agent ends or starts again: try again" in command.err, command.err
    assert version(run.nodes[0]) == 1


if __name__ == "__main__":
    main()
