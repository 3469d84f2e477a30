#!/usr/bin/env python3
"""Who the nodes of a fleet are: it is founded once, with all of them up, and what it is stands on each of them. Hosts whose
lists lead elsewhere go where the record says, and nobody else's node gives them a vote.
"""
import contextlib
import pathlib
import random
import re
import shutil
import socket
import sys
import time

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS / "support"), str(TESTS / "chaos")]
from network import HOST_NET, Network  # noqa: E402
from proxy import Proxy  # noqa: E402
from rig import Agent, HolderError, Redis, main, scenario, skip, wait_until  # noqa: E402
from views import counters, node_rows, wait_node  # noqa: E402

TTL_S = 6  # also the fleet's longest: an empty majority is healed in time
QUARANTINE_S = 1.02 * TTL_S + 1
BUSY, NO_QUORUM = -201, -303
KILLS = 20


def host(run, label="a", nodes=None, options=(), **more):
    return run.agent(label, nodes=nodes, ttl=f"{TTL_S}s", options=["--ttl-max", f"{TTL_S}s", *options], **more)


def server(run, name, **options):
    """One that is in nobody's list yet."""
    return Redis(run, name, **options).start()


def at(node_id, node):
    """That server under this id, as --node takes it."""
    return f"{node_id}={node.address}"


def seats(node):
    """By the node's record: {id: seat}."""
    return dict(re.findall(r"(?m)^seat (\S+) (\S+)$", node.record or ""))


def is_founded(nodes):
    records = {node.record for node in nodes}
    return len(records) == 1 and "\nstate complete\n" in (records.pop() or "")


def wait_founded(nodes):
    wait_until(lambda: is_founded(nodes), what="the same complete record is on all nodes")
    return nodes[0].record


def exclude_each_other(run, one, other):
    """What one of the hosts holds, the other does not get, both ways."""
    for mine, theirs in ((one, other), (other, one)):
        holder, rival = run.holder(mine), run.holder(theirs)
        holder.acquire("job", 0, 5000)
        refused(rival)
        assert holder.held(), holder.cmd("reason")
        holder.release()
        rival.acquire("job", 0, 5000)
        refused(holder)
        rival.release()


def refused(holder, name="job", codes=(BUSY,)):
    try:
        lease = holder.cmd("try", name)
    except HolderError as error:
        assert error.code in codes, error
    else:
        raise AssertionError(f"granted: {lease}")


def untouched(*servers):
    """Nobody ever wrote there."""
    for one in servers:
        assert not one.cmd("KEYS", "*"), (one.id, one.cmd("KEYS", "*"))


def unlocked(*servers):
    for one in servers:
        assert not [key for key in one.cmd("KEYS", "*") if key != b"holdfast:node"], (one.id, one.cmd("KEYS", "*"))


# --- founding ------------------------------------------------------------------------------------------


@scenario("a fleet is founded with all its nodes up: until the last one answers nothing is granted, and it is said "
          "which is missing")
def one_away(run):
    run.redis(3)
    run.nodes[2].kill()
    agent = host(run, wait=False)
    agent.wait_err("waiting: .*n3")
    time.sleep(0.6)
    result = run.holdfast("run", "-n", "job", "true")
    assert result.rc == 69, result
    assert not [node.id for node in run.nodes[:2] if node.record], "a record, and not all nodes are up"
    run.nodes[2].start()
    agent.wait_ready()
    wait_founded(run.nodes)
    assert seats(run.nodes[0]) == {node.id: node.seat for node in run.nodes}
    assert run.holdfast("run", "-n", "job", "true").rc == 0
    # the agent's first line may come before it has waited for anything
    assert re.search("node n3.*a fleet is founded once, with all its nodes up", result.err), result


@scenario("a node that does not take the record: said so, it is not asked without pause, and founding goes on once it does")
def takes_no_record(run):
    run.redis(3)
    run.found(options=("--ttl-max", f"{TTL_S}s"))
    for node in run.nodes:
        node.cmd("HDEL", "holdfast:node", "record", "digest", "record_by")
    node = run.nodes[2]
    node.cmd("CONFIG", "SET", "min-replicas-to-write", "1")
    agent = host(run, wait=False)
    agent.wait_err("n3 refuses writes")
    time.sleep(0.5)
    calls = node.calls("evalsha")
    time.sleep(2)
    asked = node.calls("evalsha") - calls
    result = run.holdfast("run", "-n", "job", "true")
    assert result.rc == 69 and "n3 refuses writes" in result.err, result
    node.cmd("CONFIG", "SET", "min-replicas-to-write", "0")
    agent.wait_ready()
    wait_founded(run.nodes)
    assert asked < 20, f"{asked} scripts in two seconds"


@scenario("two hosts found at once, with different constants: one is in the fleet, the other says what differs")
def constants_at_once(run):
    run.redis(3)
    for i in range(4):
        agents = [run.agent(f"{label}{i}", options=["--ttl-max", ttl_max], wait=False)
                  for label, ttl_max in (("a", "40s"), ("b", "50s"))]
        wait_until(lambda: is_founded(run.nodes), what="there is a fleet")
        for agent in agents:
            agent.wait_err(r"holdfastd: ready|waiting: ttl_max is \d+ ms on node n\d and \d+ ms here", 15)
        codes = [run.holdfast("run", "-n", "job", "true", agent=agent).rc for agent in agents]
        assert sorted(codes) == [0, 78], codes
        for agent in agents:
            agent.stop()
        for node in run.nodes:
            node.cmd("FLUSHALL")


@scenario("a fleet that was founded needs a quorum of its nodes, also for a host that has never seen it")
def one_away_later(run):
    run.redis(3)
    run.found(options=("--ttl-max", f"{TTL_S}s"))
    run.nodes[1].kill()
    host(run)
    assert run.holdfast("run", "-n", "job", "true").rc == 0


@scenario("two hosts found at once, with different servers behind one id: one fleet comes of it, and both are in it")
def founded_twice(run):
    nodes = run.redis(3)
    other = server(run, "other")
    for i in range(5):
        agents = [host(run, f"{label}{i}", nodes=[*nodes[:2], at("n3", third)], wait=False)
                  for label, third in (("a", nodes[2]), ("b", other))]
        for agent in agents:
            agent.wait_ready()
        third = nodes[2] if seats(nodes[0])["n3"] == nodes[2].seat else other
        wait_founded([*nodes[:2], third])
        exclude_each_other(run, *agents)
        untouched_third = other if third is nodes[2] else nodes[2]
        assert not untouched_third.record, f"round {i}: two fleets"
        unlocked(untouched_third)
        for agent in agents:
            agent.stop()
        for one in (*nodes, other):
            one.cmd("FLUSHALL")


def killed_while_it_founds(run, i, word):
    """The agent is killed when its command with that word is on its way to node i, which gets it much later."""
    nodes = run.nodes
    proxies = [Proxy(node.address) for node in nodes]
    try:
        proxies[i].hold_requests(word)
        specs = [proxy.spec(node) for proxy, node in zip(proxies, nodes)]
        agent = host(run, f"{word[-8:].decode()}-{i}", nodes=specs, wait=False)
        wait_until(lambda: proxies[i].held(), what="the command is on its way")
        agent.kill()
        proxies[i].break_held()
        had = [node.record and re.search("state (.*)", node.record).group(1) for node in nodes]
        after = host(run, f"after-{word[-8:].decode()}-{i}")
        record = wait_founded(nodes)
        proxies[i].deliver()
        time.sleep(0.2)
        assert {node.record for node in nodes} == {record}, "what comes late changed the record"
        after.stop()
    finally:
        for proxy in proxies:
            proxy.close()
    return had


@scenario("the agent is killed between any two steps of founding: the next one carries it on, and what comes late "
          "changes nothing",
          sanitizers=False)
def killed_at_each_step(run):
    run.redis(3)
    seen = []
    for word in (b"state founding", b"state complete"):
        for i in range(3):
            seen.append(killed_while_it_founds(run, i, word))
            for node in run.nodes:
                node.cmd("FLUSHALL")
    f, c = "founding", "complete"
    assert seen[:4] == [[None] * 3, [f, None, None], [f, f, None], [f, f, f]], seen
    assert all(row[0] == c and f in row for row in seen[4:]), seen


@scenario("the agent is killed at any moment of its first second: its next start ends in a founded fleet", sanitizers=False)
def killed_at_random(run):
    run.redis(3)
    began = time.monotonic()
    host(run, "first", wait=False)
    wait_until(lambda: is_founded(run.nodes), interval_s=0.001)
    takes_s = time.monotonic() - began
    run.agents[0].stop()
    moments = []
    for i in range(KILLS):
        for node in run.nodes:
            node.cmd("FLUSHALL")
        agent = host(run, f"a{i}", wait=False)
        time.sleep(random.uniform(0.2, 0.9) * takes_s)
        agent.kill()
        moments.append("".join((re.search("state (.)", node.record or "state -") or "-").group(1) for node in run.nodes))
        again = host(run, f"a{i}")
        wait_founded(run.nodes)
        assert run.holdfast("run", "-n", "job", "true", agent=again).rc == 0
        again.stop()
    print(f"# what the nodes had when it was killed: {' '.join(sorted(moments))}")


# --- other servers behind the same ids -----------------------------------------------------------------


@scenario("other servers behind one id: the second host goes to the fleet's, says so, and the two exclude each other")
def other_server(run):
    run.redis(3)
    a = host(run)
    other = server(run, "other")
    b = host(run, "b", nodes=[*run.nodes[:2], at("n3", other)])
    b.wait_err(rf"n3 is (at|looked for at) {re.escape(run.nodes[2].seat)}.*configuration .*{re.escape(other.seat)}")
    wait_node(run, "n3", b, state="up")
    exclude_each_other(run, a, b)
    run.nodes[0].kill()  # n3 is wanted now
    exclude_each_other(run, a, b)
    assert not other.record
    unlocked(other)


@scenario("other servers behind most ids, and one that is the fleet's: the second host goes by no record, and says so")
def one_shared(run):
    run.redis(3)
    a = host(run)
    holder = run.holder(a)
    holder.acquire("job")
    others = [server(run, f"other{i}") for i in (2, 3)]
    b = host(run, "b", nodes=[run.nodes[0], at("n2", others[0]), at("n3", others[1])], wait=False)
    b.wait_err("correct the addresses of the other nodes")
    result = run.holdfast("run", "-n", "other", "true", agent=b)
    assert result.rc == 69 and "correct the addresses" in result.err, result
    assert holder.held()
    assert not [other.id for other in others if other.record], "another fleet"
    unlocked(*others)


@scenario("another address in the file of an agent that is started again: it goes to the fleet's server, and says so")
def edited(run):
    run.redis(3)
    agent = host(run)
    holder = run.holder()
    holder.acquire("job")
    agent.stop()
    other = server(run, "other")
    again = host(run, nodes=[at("n1", other), *run.nodes[1:]], fresh=False)
    wait_node(run, "n1", state="up")
    time.sleep(TTL_S * 1.2)
    assert holder.held() and run.holders_of("job") == 3
    untouched(other)
    assert re.search(rf"n1 is (at|looked for at) {re.escape(run.nodes[0].seat)}", again.err), again.err


@scenario("a copy of a node, with its nonce and its record, never votes from another address")
def clone(run):
    run.redis(3)
    a = host(run)
    run.nodes[2].cmd("SAVE")
    copy = Redis(run, "copy")
    shutil.copy(run.nodes[2].dir / "dump.rdb", copy.dir)
    copy.start()
    assert copy.record == run.nodes[2].record and copy.record, "a copy"
    nodes = [*run.nodes[:2], at("n3", copy)]
    b = host(run, "b", nodes=nodes)
    exclude_each_other(run, a, b)
    run.nodes[2].kill()
    wait_node(run, "n3", b, state="down")
    run.nodes[1].kill()
    newcomer = host(run, "c", nodes=nodes, wait=False)
    newcomer.wait_err("waiting: ")
    for agent in (b, newcomer):
        for _ in range(5):
            result = run.holdfast("run", "-n", "job", "true", agent=agent)
            assert result.rc == 69, result
    unlocked(copy)


def moved_in(run, node, stranger):
    """Another fleet's node comes to this node's address, with all it knows."""
    stranger.cmd("SAVE")
    node.kill()
    shutil.copy(stranger.dir / "dump.rdb", node.dir)
    node.start()


@scenario("a node of another fleet at the address of one of ours: refused by name, and the two others grant")
def foreign(run):
    run.redis(3)
    strangers = [server(run, f"x{i}") for i in (1, 2, 3)]
    host(run, "x", nodes=[at(f"n{i + 1}", one) for i, one in enumerate(strangers)]).stop()
    theirs = strangers[2].record
    a = host(run)
    holder = run.holder(a)
    holder.acquire("job")
    ours = run.nodes[0].record
    moved_in(run, run.nodes[2], strangers[2])
    b = host(run, "b")
    for agent in (a, b):
        row = wait_node(run, "n3", agent, state="refused")
        assert row["refusal"] == "fleet" and not row["votes"], row
        agent.wait_err(r"node n3 is refused: .*node n3.*another fleet")
    holder.release()
    exclude_each_other(run, a, b)
    assert run.nodes[2].record == theirs and run.nodes[0].record == ours
    unlocked(run.nodes[2])


@scenario("the same with a node whose fleet has other ids")
def foreign_ids(run):
    run.redis(3)
    strangers = [server(run, f"x{i}") for i in (1, 2, 3)]
    host(run, "x", nodes=strangers).stop()
    theirs = strangers[2].record
    a = host(run)
    moved_in(run, run.nodes[2], strangers[2])
    b = host(run, "b")
    for agent in (a, b):
        assert wait_node(run, "n3", agent, state="refused")["refusal"] == "fleet"
    exclude_each_other(run, a, b)
    assert run.nodes[2].record == theirs
    unlocked(run.nodes[2])


# --- nodes that forget ---------------------------------------------------------------------------------


@scenario("a node is flushed under a lease: it gets the record again, and the lease goes on")
def flushed(run):
    run.redis(3)
    host(run)
    holder = run.holder()
    holder.acquire("job")
    record = run.nodes[1].record
    run.nodes[1].cmd("FLUSHALL")
    wait_until(lambda: run.nodes[1].record == record, what="the record is there again")
    wait_until(lambda: run.nodes[1].get("job"), TTL_S, "the lease is healed")
    assert wait_node(run, "n2", state="quarantined")
    wait_node(run, "n2", state="up", timeout_s=QUARANTINE_S + 5)
    assert holder.held() and counters(run)["losses"] == 0


@scenario("all nodes are flushed at once under a lease: the fleet is founded again as it was, and the lease goes on",
          sanitizers=False)
def all_flushed(run):
    run.redis(3)
    host(run)
    other = host(run, "b")
    holder = run.holder()
    holder.acquire("job")
    record = run.nodes[0].record
    for node in run.nodes:
        node.cmd("FLUSHALL")
    wait_until(lambda: {node.record for node in run.nodes} == {record}, what="the same record is there again")
    end = time.monotonic() + 2 * TTL_S
    while time.monotonic() < end:
        assert holder.held(), holder.cmd("reason")
        rival = run.holdfast("run", "-n", "job", "true", agent=other)
        assert rival.rc in (69, 75), rival
        time.sleep(0.1)
    assert counters(run)["losses"] == 0
    holder.release()
    exclude_each_other(run, *run.agents)


@scenario("an agent that alone remembers the fleet: while a node is away, what it remembers makes no votes of empty ones")
def remembered(run):
    run.redis(3)
    agent = host(run)
    record = wait_founded(run.nodes)
    agent.stop()
    run.nodes[2].sigstop()
    for node in run.nodes[:2]:
        node.cmd("FLUSHALL")
    again = host(run, wait=False)
    again.wait_err("waiting: .*n3")
    again.wait_err("waiting: .*may not be the latest one; let node n3 answer, or, .*holdfast fleet confirm")
    for _ in range(10):
        result = run.holdfast("run", "-n", "job", "true")
        assert result.rc == 69, result
        assert not [node.id for node in run.nodes[:2] if node.record], "from memory"
        time.sleep(0.1)
    run.nodes[2].sigcont()
    again.wait_ready()
    wait_until(lambda: {node.record for node in run.nodes} == {record}, what="the record is everywhere again")
    assert run.holdfast("run", "-n", "job", "true").rc == 0
    assert "let node n3 answer" in result.err, result


@scenario("the same, and the missing node comes back empty, too: the fleet is founded again as it was, when an operator confirms")
def remembered_by_nobody(run):
    run.redis(3)
    agent = host(run)
    record = wait_founded(run.nodes)
    agent.stop()
    run.nodes[2].kill()
    for node in run.nodes[:2]:
        node.cmd("FLUSHALL")
    again = host(run, wait=False)
    again.wait_err("waiting: ")
    run.nodes[2].start()
    again.wait_err("may not be the latest one; .*holdfast fleet confirm")
    assert not [node.id for node in run.nodes if node.record], "from memory"
    assert run.holdfast("fleet", "confirm", "--yes").rc == 0
    again.wait_ready()
    wait_until(lambda: {node.record for node in run.nodes} == {record}, what="the record is everywhere again")


@scenario("a single node that is restarted empty: its lease goes on, and it is the same fleet", sanitizers=False)
def single(run):
    run.redis(1)
    host(run)
    holder = run.holder()
    holder.acquire("job")
    record = run.nodes[0].record
    run.nodes[0].restart()
    wait_until(lambda: run.nodes[0].record == record, what="the record is there again")
    time.sleep(TTL_S)
    assert holder.held() and counters(run)["losses"] == 0


# --- the operator's word -------------------------------------------------------------------------------


@scenario("--reset-fleet after a drain moves the fleet to another server, for hosts that remember the old one, too",
          sanitizers=False)
def reset_fleet(run):
    nodes = run.redis(3)
    agents = [host(run), host(run, "b")]
    old = wait_founded(nodes)
    other = server(run, "other")
    for agent in agents:
        assert run.holdfast("drain", agent=agent).rc == 0
    for agent in agents:
        agent.stop()
    moved = [*nodes[:2], at("n3", other)]
    agents = [host(run, label, nodes=moved, options=["--reset-fleet"]) for label in "ab"]
    record = wait_founded([*nodes[:2], other])
    assert record != old and seats(other)["n3"] == other.seat
    for agent in agents:
        assert run.holdfast("undrain", agent=agent).rc == 0
    exclude_each_other(run, *agents)
    # a host that nobody told
    late = host(run, "c", nodes=nodes)
    late.wait_err(rf"n3 is (at|looked for at) {re.escape(other.seat)}")
    exclude_each_other(run, agents[0], late)
    assert nodes[2].record == old
    unlocked(nodes[2])


@scenario("a host that remembers the fleet from before --reset-fleet, and was not told: it grants nothing, and says what to do")
def not_told(run):
    run.redis(3)
    options = ["--reset-fleet"]
    a, b = host(run), host(run, "b")
    other = server(run, "other")
    a.stop()
    b.stop()
    moved = [*run.nodes[:2], at("n3", other)]
    a = host(run, nodes=moved, options=options)
    b = host(run, "b", wait=False)
    b.wait_err(r"waiting: ")
    for _ in range(10):
        result = run.holdfast("run", "-n", "job", "true", agent=b)
        assert result.rc in (69, 78), result
        time.sleep(0.1)
    assert "--reset-fleet" in result.err, result


# --- seats ---------------------------------------------------------------------------------------------


@scenario("seats are addresses as connected, by IPv4, IPv6 and unix socket: hosts that spell them otherwise mean the same")
def families(run):
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            pass
    except OSError:
        skip("no IPv6 here")
    v6 = Redis(run, "n2", tcp=True, options=["--bind", "::1"])
    port = v6.address.rpartition(":")[2]
    v6.address = f"[::1]:{port}"
    run.nodes += [Redis(run, "n1", tcp=True).start(), v6.start(), Redis(run, "n3").start()]
    v4 = run.nodes[0].address.rpartition(":")[2]
    a = host(run)
    wait_founded(run.nodes)
    assert seats(run.nodes[0]) == {"n1": f"127.0.0.1:{v4}", "n2": f"[::1]:{port}", "n3": str(run.nodes[2].dir / "sock")}
    b = host(run, "b", nodes=[f"n1=localhost:{v4}", f"n2=[0:0::0:1]:{port}", f"n3=redis+unix://{run.nodes[2].dir}/sock"])
    for node in run.nodes:
        wait_node(run, node.id, b, state="up")
    exclude_each_other(run, a, b)
    for agent in (a, b):
        assert "configuration" not in agent.err, agent.err
    for node in run.nodes:  # nobody knows where they are but by the record
        node.cmd("CLIENT", "KILL", "TYPE", "normal")
    exclude_each_other(run, a, b)


@scenario("fleet_address=: a host that reaches a node by another address says which server of the fleet that is")
def known_as(run):
    run.redis(3)
    a = host(run)
    with contextlib.ExitStack() as stack:
        proxies = [Proxy(node.address) for node in run.nodes]
        for proxy in proxies:
            stack.callback(proxy.close)
        b = host(run, "b", nodes=[proxy.spec(node) for proxy, node in zip(proxies, run.nodes)])
        exclude_each_other(run, a, b)
        assert all(proxy.has_passed(b"job") for proxy in proxies), "it went around the proxies"
        assert "configuration leads" not in b.err, b.err
        # without it the host goes to the address of the record, past the proxy
        c = host(run, "c", nodes=[f"{node.id}={proxy.address}" for proxy, node in zip(proxies, run.nodes)])
        wait_until(lambda: all(row["state"] == "up" for row in node_rows(run, c).values()), what="all nodes are up")
        for proxy in proxies:
            proxy.lead_to(None)
        run.holder(c).acquire("past", 0, 5000)


@scenario("fleet_address= founds a fleet, too: by the addresses that it names")
def founded_as(run):
    run.redis(3)
    proxies = [Proxy(node.address) for node in run.nodes]
    try:
        b = host(run, "b", nodes=[proxy.spec(node) for proxy, node in zip(proxies, run.nodes)])
        wait_founded(run.nodes)
        assert seats(run.nodes[0]) == {node.id: node.seat for node in run.nodes}
        exclude_each_other(run, host(run), b)
    finally:
        for proxy in proxies:
            proxy.close()


def agent_in(run, net, place, label, nodes):
    """An agent in a network namespace."""
    argv = net.prefix(place) + run.agent_argv(label, nodes, f"{TTL_S}s", options=["--ttl-max", f"{TTL_S}s"])
    agent = Agent(run, argv, f"{run.tag}-{label}", label)
    run.agents.append(agent)
    return agent


@scenario("a node that its own host names by the loopback, and another server at another host's loopback: never two holders",
          needs_root=True)
def loopback(run):
    """Each host is cut off from another node, so that their majorities have only node 1 in common."""
    net = Network(run, 3, 2)
    far = [Redis(run, f"n{i}", bind=net.node_address(i - 1), prefix=net.prefix("nodes")).start() for i in (2, 3)]
    bind = HOST_NET.format(1)
    near = Redis(run, "n1", bind=bind, prefix=net.prefix("host0"), options=["--bind", "127.0.0.1", bind]).start()
    Redis(run, "cache", bind="127.0.0.1", prefix=net.prefix("host1")).start()
    a = agent_in(run, net, "host0", "a", ["n1=127.0.0.1:6379", *far])
    a.wait_ready()
    b = agent_in(run, net, "host1", "b", [near, *far])
    b.wait_ready()
    time.sleep(1)
    holder, rival = run.holder(a), run.holder(b)
    net.cut(0, [2])
    net.cut(1, [1])
    holder.acquire("job", 0, 3 * TTL_S * 1000)
    refused(rival, codes=(BUSY, NO_QUORUM))
    assert holder.held(), holder.cmd("reason")


if __name__ == "__main__":
    main()
