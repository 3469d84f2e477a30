#!/usr/bin/env python3
"""What a node may be, and how it is reached: addresses, passwords, servers that are not what they should be."""
import contextlib
import pathlib
import re
import socket
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from events import history  # noqa: E402
from proxy import Proxy  # noqa: E402
from rig import BUILD, SLOW, Redis, free_port, main, scenario, skip, wait_until  # noqa: E402
from views import counters, node_rows, wait_node  # noqa: E402

TTL_S = 3


def locks_well(run, holder=None, keys=2):
    """A lock is taken without delay, is on so many nodes, outlives two renewals, and goes."""
    holder = holder or run.holder()
    begin_s = time.monotonic()
    holder.acquire("job", TTL_S * 1000, 5000)
    assert time.monotonic() - begin_s < 1.5 * SLOW, "it took long"
    if keys:
        wait_until(lambda: run.holders_of("job") == keys, what=f"the key is on {keys} nodes")
    end = time.monotonic() + 2.3 * TTL_S / 3
    while time.monotonic() < end:
        assert holder.held(), holder.cmd("reason")
        time.sleep(0.05)
    holder.release()


def two_good_and(run, odd):
    """A fleet that was founded with three good nodes, of which the third's address leads to `odd` now. The nodes as an
    agent takes them."""
    run.redis(2)
    good = other_redis(run, "founder")
    run.found([*run.nodes, f"n3={good.address}"])
    good.kill()
    return [*run.nodes, f"{odd if isinstance(odd, str) else odd.spec},fleet_address={good.seat}"]


def agent_on(run, nodes, **options):
    return run.agent(nodes=nodes, ttl=f"{TTL_S}s", **options)


def other_redis(run, node_id="n3", **options):
    """A server that is not among those which run.holders_of() asks."""
    return Redis(run, node_id, **options).start()


# --- far away ------------------------------------------------------------------------------------------


@scenario("a node that is far away: its clock is looked at more often, and doctor names the TTL that it wants",
          sanitizers=False)
def far_away(run):
    run.redis(3)
    near, far = Proxy(run.nodes[1].address, delay_s=0.02), Proxy(run.nodes[2].address, delay_s=0.06)
    try:
        run.agent(nodes=[run.nodes[0].spec, near.spec(run.nodes[1]), far.spec(run.nodes[2])], ttl="6s")
        # 1 % of 6 s and 2 ms; the agent's round trips are no shorter than the delays
        wait_until(lambda: (node_rows(run)["n3"]["unseen_step_us"] or 0) > 120_000, what="the node is known to be far")
        before = [node.calls("info") for node in run.nodes]
        time.sleep(4)
        asked = [node.calls("info") - was for node, was in zip(run.nodes, before)]
        assert asked[2] >= asked[0] + 5, asked  # every 0.2 s, not every 2.3 s
        rows = node_rows(run)
        assert rows["n1"]["unseen_step_us"] < 62_000, rows
        assert rows["n3"]["state"] == "up" and rows["n3"]["clock_steps"] == 0, rows
        found = {f["text"].split()[0]: f for f in run.holdfast("doctor", "--json").json["findings"]
                 if f["check"] == "node.far"}
        assert "n1" not in found and "allows for 62 ms" in found["n3"]["text"], found
        assert int(found["n3"]["remedy"].split("TTL of ")[1].split()[0]) >= 12, found
        locks_well(run, keys=3)
    finally:
        near.close()
        far.close()


# --- refused -------------------------------------------------------------------------------------------


@scenario("one server under two names, as unix path and by TCP: both have one vote together")
def twice(run):
    run.redis(1)
    path = run.dir / "twin.sock"
    twin = Redis(run, "twin", tcp=True, options=["--unixsocket", path, "--unixsocketperm", "777"]).start()
    other = other_redis(run, "n2", tcp=True)
    run.nodes.append(twin)
    one, _, three = nodes = [f"n1=unix:{path}", other, f"n3={run.nodes[0].address}"]
    run.found(nodes)
    agent = run.agent(nodes=[one, f"n2={twin.address},fleet_address={other.seat}", three], ttl=f"{TTL_S}s")
    agent.wait_err(r"node n2 .*says that it is the same server as node n1")
    row = wait_node(run, "n2", state="up")
    assert row["refusal"] == "duplicate", row
    locks_well(run)


@scenario("three names of one server: no quorum, however often it is listed")
def thrice(run):
    path, other = run.dir / "a.sock", run.dir / "b.sock"
    node = other_redis(run, "n1", tcp=True, options=["--unixsocket", path, "--unixsocketperm", "777"])
    other.symlink_to(path)
    agent = run.agent(nodes=[f"n1={node.address}", f"n2=unix:{path}", f"n3=unix:{other}"], wait=False)
    agent.wait_err(r"waiting: .*2 are needed.*n1, n2, n3 say that they are the same server as another node")
    result = run.holdfast("run", "-n", "job", "true")
    assert result.rc == 69, result
    assert node.cmd("EXISTS", "job") == 0


@contextlib.contextmanager
def slipped(run, which, to, cut):
    """A lock is held by agent a. The address of one of its nodes then leads to another's server (`which` to `to`), and it
    is cut off from node 3 if `cut`. Agent b has the true addresses. Yields the holder and b."""
    nodes = run.redis(3)
    proxies = [Proxy(node.address) for node in nodes]
    options = ["--ttl-max", f"{TTL_S}s"]
    try:
        specs = [proxy.spec(node) for node, proxy in zip(nodes, proxies)]
        holder = run.holder(run.agent("a", nodes=specs, ttl=f"{TTL_S}s", options=options))
        b = run.agent("b", ttl=f"{TTL_S}s", options=options)
        holder.acquire("job", TTL_S * 1000)
        wait_until(lambda: run.holders_of("job") == 3, what="the key is on all nodes")
        proxies[which - 1].lead_to(nodes[to - 1].address)
        if cut:
            proxies[2].lead_to(None)
        yield holder, b
    finally:
        for proxy in proxies:
            proxy.close()


def one_server_is_no_majority(run, which, to):
    with slipped(run, which, to, cut=True) as (holder, b):
        rival = run.holder(b)
        rival.acquire("job", TTL_S * 1000, 4 * TTL_S * 1000)
        assert not holder.held(), "two holders"
        assert rival.held(), rival.cmd("reason")


@scenario("an address comes to lead to the server of a node that is listed before: that has one vote in renewals, too")
def slips_to_the_one_before(run):
    one_server_is_no_majority(run, 2, 1)


@scenario("an address comes to lead to the server of a node that is listed after: that has one vote in renewals, too")
def slips_to_the_one_after(run):
    one_server_is_no_majority(run, 1, 2)


@scenario("an address comes to lead to another node's server, and two are well: the lease is kept by those")
def slips_and_is_kept(run):
    with slipped(run, 2, 1, cut=False) as (holder, _):
        end = time.monotonic() + 2.5 * TTL_S
        while time.monotonic() < end:
            assert holder.held(), holder.cmd("reason")
            time.sleep(0.05)


@scenario("the same address twice in the list: the agent does not start, and says which")
def same_address(run):
    run.redis(2)
    spec = run.nodes[0].spec
    agent = run.agent(nodes=[spec, run.nodes[1].spec, f"n3={run.nodes[0].address}"], wait=False)
    assert agent.wait() == 64, agent.err
    assert "listed twice" in agent.err and run.nodes[0].address in agent.err, agent.err


@scenario("a replica is refused")
def replica(run):
    master = other_redis(run, "master", tcp=True)
    copy = other_redis(run, options=["--replicaof", "127.0.0.1", master.address.rpartition(":")[2]])
    agent_on(run, two_good_and(run, copy))
    row = wait_node(run, "n3", state="refused")
    assert row["refusal"] == "replica" and not row["votes"], row
    locks_well(run)
    assert not copy.cmd("KEYS", "*") and not master.cmd("KEYS", "*"), "nothing was written there"


@scenario("a node becomes a replica while a lock is held: it is refused then, and the lease is kept")
def becomes_replica(run):
    master = other_redis(run, "master", tcp=True)
    run.redis(3)
    run.agent(ttl=f"{TTL_S}s")
    holder = run.holder()
    holder.acquire("job")
    run.nodes[2].cmd("REPLICAOF", "127.0.0.1", master.address.rpartition(":")[2])
    wait_node(run, "n3", state="refused", refusal="replica")
    end = time.monotonic() + TTL_S
    while time.monotonic() < end:
        assert holder.held(), holder.cmd("reason")
        time.sleep(0.05)
    assert counters(run)["losses"] == 0


@scenario("a node in cluster mode is refused")
def cluster(run):
    node = other_redis(run, tcp=True, options=["--cluster-enabled", "yes", "--cluster-port", str(free_port())])
    agent_on(run, two_good_and(run, node))
    row = wait_node(run, "n3", state="refused")
    assert row["refusal"] == "cluster", row
    locks_well(run)


@scenario("a node that may evict keys gives no votes, unless the operator allows that")
def eviction(run):
    node = other_redis(run, options=["--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru"])
    nodes = two_good_and(run, node)
    agent_on(run, nodes)
    row = wait_node(run, "n3", state="refused")
    assert row["refusal"] == "eviction" and not row["votes"], row
    locks_well(run)
    assert node.cmd("EXISTS", "holdfast:fence:job") == 0, "it was asked for a vote"
    careless = run.agent("b", nodes=nodes, options=["--allow-eviction"])
    assert wait_node(run, "n3", careless, state="up")["votes"]


# --- passwords and databases ---------------------------------------------------------------------------


@scenario("a wrong password, and none at all: told apart from a dead node, and never printed")
def wrong_password(run):
    node = other_redis(run, tcp=True, password="the-word")
    run.redis(2)
    run.found([*run.nodes, f"n3=redis://:the-word@{node.address}"])
    for label, login in (("a", "redis://:not-the-word@"), ("b", "")):
        agent = run.agent(label, nodes=[*run.nodes, f"n3={login}{node.address}"], ttl=f"{TTL_S}s")
        row = wait_node(run, "n3", agent, error_class="auth")
        assert row["state"] in ("down", "refused") and not row["votes"], row
        text = agent.err + run.holdfast("nodes", "--json", agent=agent).out
        assert "the-word" not in text, "a password was printed"
    locks_well(run)


@scenario("user, password and database of an address are used")
def credentials(run):
    users = ["--user", "alice", "on", ">secret", "~*", "&*", "+@all", "--user", "default", "off"]
    tcp = Redis(run, "n1", tcp=True, password="old-style").start()
    path = run.dir / "n2.sock"
    unix = Redis(run, "n2", tcp=True, password=None, options=["--unixsocket", path, "--unixsocketperm", "777"]).start()
    named = Redis(run, "n3", tcp=True).start()
    named.cmd("ACL", "SETUSER", *users[1:7])
    agent = run.agent(nodes=[f"n1=redis://:old-style@{tcp.address}/5", f"n2=redis+unix://{path}?db=5",
                             f"n3=redis://alice:secret@{named.address}/5"], ttl=f"{TTL_S}s")
    assert {row["state"] for row in node_rows(run).values()} == {"up"}, agent.err
    holder = run.holder()
    holder.acquire("job")
    for node in (tcp, unix, named):
        with node.client() as client:
            wait_until(lambda: client.cmd("SELECT", 5) == "OK" and client.get("job"), what="the key")
            client.cmd("SELECT", 0)
            assert not client.cmd("KEYS", "*")
    users_seen = named.cmd("CLIENT", "LIST").decode()
    assert users_seen.count("user=alice") >= 2, users_seen
    text = agent.err + run.holdfast("nodes", "--json").out + run.holdfast("nodes").out
    assert "secret" not in text and "old-style" not in text, "a password was printed"


@scenario("a user that may not run scripts: told as such")
def no_permission(run):
    node = other_redis(run, tcp=True)
    node.cmd("ACL", "SETUSER", "weak", "on", ">w", "~*", "&*", "+@all", "-@scripting")
    agent_on(run, two_good_and(run, f"n3=redis://weak:w@{node.address}"))
    wait_node(run, "n3", error_class="perm")
    locks_well(run)


# --- writes that are refused ---------------------------------------------------------------------------


def fill(node):
    """No memory is left: what is read goes on as before."""
    node.cmd("SET", "ballast", "x" * 2_000_000)
    node.cmd("CONFIG", "SET", "maxmemory", "1mb")


REFUSALS = {  # kind: (what begins it, what ends it)
    "oom": (fill, lambda node: node.cmd("CONFIG", "SET", "maxmemory", "0")),
    "noreplicas": (lambda node: node.cmd("CONFIG", "SET", "min-replicas-to-write", "1"),
                   lambda node: node.cmd("CONFIG", "SET", "min-replicas-to-write", "0")),
    "perm": (lambda node: node.cmd("ACL", "SETUSER", "default", "-hset"),
             lambda node: node.cmd("ACL", "SETUSER", "default", "+hset")),
}


def events_of_writes(run):
    lines = history(run)
    return [(line["event"], line["node"], line["reason"]) for line in lines
            if line["event"] in ("node_unwritable", "node_writable")]


def refused_lock(run, kind):
    """What `run -n` says while n2 and n3 refuse writes."""
    result = run.holdfast("run", "-n", "job", "true")
    assert result.rc == 69, result
    assert re.search(rf"too few nodes: n2, n3 refuse writes \({kind}\): ", result.err), result.err


def shown_as_unwritable(run, agent, kind):
    """Where people look, and programs."""
    for node in ("n2", "n3"):
        row = wait_node(run, node, state="unwritable", error_class=kind)
        assert not row["votes"] and row["unwritable_ms"] >= 0 and row["error"], row
    assert "1 of 3 vote" in run.holdfast("status").out
    doctor = run.holdfast("doctor", "--json").json
    found = [f for f in doctor["findings"] if f["level"] == "fail"]
    assert any(f["check"] == "nodes.quorum" for f in found), found
    assert sum(f["check"] == "node.state" and "refuses writes" in f["text"] for f in found) == 2, found
    metrics = run.holdfast("metrics").out
    label = f'agent="{agent.name}"'
    assert f'holdfast_node_unwritable{{{label},node="n2",error="{kind}"}} 1\n' in metrics, metrics
    assert f'holdfast_node_state{{{label},node="n3",state="unwritable"}} 1\n' in metrics, metrics
    assert f'holdfast_ready{{{label}}} 0\n' in metrics, metrics
    assert len(re.findall(f"node n[23] refuses writes.*{kind}", agent.err)) == 2, agent.err


def refuses_writes(run, kind):
    begin, end = REFUSALS[kind]
    run.redis(3, tcp=True)
    agent = run.agent(ttl=f"{TTL_S}s")
    for node in run.nodes[1:]:
        begin(node)
    wait_until(lambda: run.holdfast("run", "-n", "other", "true").rc == 69, what="no lock is to be had")
    refused_lock(run, kind)
    shown_as_unwritable(run, agent, kind)
    waiting = run.start_holdfast("run", "job", "true")
    waiting.wait_err(r"waiting: 1 of 3 nodes may vote, 2 are needed; n2, n3 refuse writes|"
                     rf"waiting: too few nodes: n2, n3 refuse writes \({kind}\)")
    time.sleep(0.5)
    for node in run.nodes[1:]:
        end(node)
    assert waiting.wait() == 0, waiting.err
    assert run.holdfast("run", "other", "true").rc == 0  # the job may have been granted when n2 took writes and n3 did not
    for node in ("n2", "n3"):
        assert wait_node(run, node, state="up")["unwritable_ms"] is None
    assert "3 of 3 vote" in run.holdfast("status").out
    assert sorted(events_of_writes(run)) == sorted(
        [("node_unwritable", node, kind) for node in ("n2", "n3")] +
        [("node_writable", node, None) for node in ("n2", "n3")]), events_of_writes(run)


@scenario("nodes without memory: they do not vote, everybody is told, and it is over with the next write")
def out_of_memory(run):
    refuses_writes(run, "oom")


@scenario("nodes that want replicas: they do not vote, everybody is told, and it is over with the next write")
def no_replicas(run):
    refuses_writes(run, "noreplicas")


@scenario("a right that is missing within a script: such nodes do not vote, and everybody is told")
def missing_right(run):
    refuses_writes(run, "perm")


@scenario("nobody takes locks: the agent finds by itself which nodes refuse writes, and that they do not any more")
def idle_agent(run):
    run.redis(3, tcp=True)
    run.agent(ttl=f"{TTL_S}s")
    node = run.nodes[2]
    for begin, end, kind in ((*REFUSALS["oom"], "oom"), (*REFUSALS["noreplicas"], "noreplicas"),
                             (lambda n: n.cmd("ACL", "SETUSER", "default", "-del"),
                              lambda n: n.cmd("ACL", "SETUSER", "default", "+del"), "perm")):
        begin(node)
        wait_node(run, "n3", state="unwritable", error_class=kind)
        end(node)
        wait_node(run, "n3", state="up")
    assert node.cmd("DBSIZE") == 2, "the sentinel and the ballast"
    locks_well(run, keys=3)


# As holdfastd(8) has it, with all of a connection's.
RIGHTS = ["~*", "&__redis__:invalidate", "+@connection", "+subscribe", "+info", "+script|load",
          "+evalsha", "+time", "+get", "+mget", "+set", "+pexpire", "+pttl", "+del", "+hset", "+hmget", "+scan"]


@scenario("a user with the rights that the manual names has all it needs")
def just_enough_rights(run):
    run.redis(3, tcp=True)
    for node in run.nodes:
        node.cmd("ACL", "SETUSER", "agent", "on", ">word", *RIGHTS)
    agent = run.agent(nodes=[f"{node.id}=redis://agent:word@{node.address}" for node in run.nodes], ttl=f"{TTL_S}s")
    wait_node(run, "n1", state="up", tracking="on")
    locks_well(run, keys=3)
    run.nodes[0].cmd("DEL", "job")
    run.holder().acquire("job", TTL_S * 1000)
    assert run.holdfast("list", "--all-hosts").rc == 0 and run.holdfast("show", "job").rc == 0
    run.nodes[1].cmd("DEL", "job")  # healed
    wait_until(lambda: run.holders_of("job") == 3, what="it is written again")
    denied = [line for node in run.nodes for line in node.cmd("ACL", "LOG")]
    assert not denied and "refuses" not in agent.err, (denied, agent.err)


@scenario("a name whose key the node's user may not touch says nothing of the node")
def key_right(run):
    run.redis(3, tcp=True)
    run.agent(ttl=f"{TTL_S}s")
    for node in run.nodes[:2]:
        node.cmd("ACL", "SETUSER", "default", "resetkeys", "~holdfast:*", "~job*")
    result = run.holdfast("run", "-n", "other", "true")
    assert result.rc == 69 and re.search("too few nodes: n1, n2: .*key", result.err), result
    assert {row["state"] for row in node_rows(run).values()} == {"up"}
    locks_well(run, keys=0)


# --- not a Redis ---------------------------------------------------------------------------------------


class Impostor:
    """A TCP server that accepts, and says what `speak` returns to whatever it hears (None: nothing)."""

    def __init__(self, stack, speak):
        self.speak = speak
        self.socket = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        self.address = "127.0.0.1:%d" % self.socket.getsockname()[1]
        self.connections = 0
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.socket.accept()
                self.connections += 1
                threading.Thread(target=self.talk, args=(connection,), daemon=True).start()

    def talk(self, connection):
        with contextlib.suppress(OSError), connection:
            while heard := connection.recv(65536):
                if text := self.speak(heard):
                    connection.sendall(text)


@scenario("a server that talks garbage is not a Redis: said so, and nothing else is delayed")
def garbage(run):
    with contextlib.ExitStack() as stack:
        impostor = Impostor(stack, lambda _: b"HTTP/1.1 400 Bad Request\r\nConnection: keep-alive\r\n\r\n")
        agent_on(run, two_good_and(run, f"n3={impostor.address}"))
        wait_node(run, "n3", error_class="protocol", state=("down", "refused"))
        locks_well(run)
        assert impostor.connections < 60, "it is connected to without pause"


@scenario("a server that answers in Redis's way, but not as a Redis would: said so")
def wrong_answers(run):
    with contextlib.ExitStack() as stack:
        impostor = Impostor(stack, lambda heard: b"+OK\r\n" * max(heard.count(b"*"), 1))
        agent_on(run, two_good_and(run, f"n3={impostor.address}"))
        wait_node(run, "n3", error_class=("protocol", "other"), state=("down", "refused"))
        locks_well(run)


@scenario("a server that never says a word: a silent node, and nothing else is delayed")
def silent(run):
    with contextlib.ExitStack() as stack:
        impostor = Impostor(stack, lambda _: None)
        agent_on(run, two_good_and(run, f"n3={impostor.address}"))
        wait_node(run, "n3", error_class=("silent", "timeout", "connect"), state="down", timeout_s=15)
        locks_well(run)


@scenario("a stopped Redis accepts connections and does not answer: a silent node, healed when it goes on")
def stopped(run):
    run.redis(3)
    run.found()
    run.nodes[2].sigstop()
    run.agent(ttl=f"{TTL_S}s")
    wait_node(run, "n3", error_class=("silent", "timeout", "connect"), timeout_s=15)
    locks_well(run)
    run.nodes[2].sigcont()
    wait_node(run, "n3", state=("up", "quarantined"))


@scenario("the first node to answer has a wrong clock: it is not judged by itself, and gives no votes", sanitizers=False)
def wrong_clock_first(run):
    run.redis(1, clock=True)
    run.redis(2)
    run.found()
    run.nodes[0].shift_clock(10)
    for node in run.nodes[1:]:
        node.sigstop()
    run.agent(ttl=f"{TTL_S}s", wait=False).wait_err("holdfastd: waiting")
    for node in run.nodes[1:]:
        node.sigcont()
    wait_node(run, "n3", state="up")
    wait_node(run, "n2", state="up")
    row = wait_node(run, "n1", state="quarantined")
    assert row["quarantine_reasons"] == ["median"], row
    locks_well(run, keys=2)


# --- how it is reached ---------------------------------------------------------------------------------


@scenario("IPv4, IPv6 and a unix socket, and a host name")
def families(run):
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            pass
    except OSError:
        skip("no IPv6 here")
    v6 = Redis(run, "n2", tcp=True, options=["--bind", "::1"])
    v6.address = f"[::1]:{v6.address.rpartition(':')[2]}"
    run.nodes += [Redis(run, "n1", tcp=True).start(), v6.start(), Redis(run, "n3").start()]
    named = Redis(run, "n4", tcp=True).start()
    run.nodes += [named, Redis(run, "n5").start()]
    specs = [node.spec for node in run.nodes]
    specs[3] = f"n4=localhost:{named.address.rpartition(':')[2]}"
    run.agent(nodes=specs, ttl=f"{TTL_S}s")
    for node in run.nodes:
        wait_node(run, node.id, state="up")
    locks_well(run, keys=5)


@scenario("a host name that never resolves: the other nodes carry on, and the agent ends at once", sanitizers=False)
def never_resolves(run):
    agent = agent_on(run, two_good_and(run, "n3=node.deaf.test:6379"),
                     env={"LD_PRELOAD": BUILD / "tests" / "deafresolver.so"})
    holder = run.holder()
    for _ in range(3):
        locks_well(run, holder)
    assert node_rows(run)["n3"]["state"] in ("connecting", "down")
    assert counters(run)["renew_lag_max_ns"] < TTL_S * 1e8
    begin_s = time.monotonic()
    agent.stop()
    assert time.monotonic() - begin_s < 5, "it waited for the resolver"


@scenario("a host name that does not exist: said so")
def unknown_host(run):
    agent_on(run, two_good_and(run, "n3=no-such-host.invalid:6379"))
    wait_node(run, "n3", error_class="resolve", state="down", timeout_s=30)
    locks_well(run)


@scenario("an address that nobody listens on: said so, and tried again until somebody does")
def nobody_listens(run):
    run.redis(2)
    node = other_redis(run, tcp=True)
    nodes = [*run.nodes, node]
    run.found(nodes)
    node.kill()
    agent_on(run, nodes)
    wait_node(run, "n3", error_class="connect", state="down")
    locks_well(run)
    node.start()
    wait_node(run, "n3", state=("up", "quarantined"), timeout_s=15)


@scenario("the operator's word for fresh nodes is not about one that answers for the first time after a quarantine")
def late_for_the_word(run):
    """It was away at the start, and may have forgotten since."""
    run.redis(3)
    run.found(options=["--ttl-max", "3s"])
    run.nodes[2].kill()
    run.agent(ttl="2s", options=["--ttl-max", "3s"])  # a quarantine is 4.06 s
    time.sleep(4.5)
    run.nodes[2].start()
    wait_node(run, "n3", state=("up", "quarantined"))
    wait_until(lambda: node_rows(run)["n3"]["quarantine_reasons"] or node_rows(run)["n3"]["votes"], what="it is judged")
    row = node_rows(run)["n3"]
    assert row["state"] == "quarantined" and not row["votes"], row
    wait_node(run, "n3", state="up", timeout_s=15)


if __name__ == "__main__":
    main()
