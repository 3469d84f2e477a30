#!/usr/bin/env python3
"""What a node may be, and how it is reached: addresses, passwords, servers that are not what they should be."""
import contextlib
import pathlib
import socket
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
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


def two_good_and(run, odd, options=()):
    """An agent on two good nodes and `odd`, the third."""
    run.redis(2)
    nodes = [*run.nodes, odd]
    return run.agent(nodes=nodes, ttl=f"{TTL_S}s", options=options)


def other_redis(run, node_id="n3", **options):
    """A server that is not among those which run.holders_of() asks."""
    return Redis(run, node_id, **options).start()


# --- refused -------------------------------------------------------------------------------------------


@scenario("one server under two names, as unix path and by TCP: the second is refused")
def twice(run):
    run.redis(1)
    path = run.dir / "twin.sock"
    twin = Redis(run, "twin", tcp=True, options=["--unixsocket", path, "--unixsocketperm", "777"]).start()
    run.nodes.append(twin)
    agent = run.agent(nodes=[f"n1=unix:{path}", f"n2={twin.address}", f"n3={run.nodes[0].address}"], ttl=f"{TTL_S}s")
    agent.wait_err("node n2 is refused: .*same server")
    row = wait_node(run, "n2", state="refused")
    assert row["refusal"] == "duplicate", row
    locks_well(run)


@scenario("three names of one server: no quorum, however often it is listed")
def thrice(run):
    path, other = run.dir / "a.sock", run.dir / "b.sock"
    node = other_redis(run, "n1", tcp=True, options=["--unixsocket", path, "--unixsocketperm", "777"])
    other.symlink_to(path)
    agent = run.agent(nodes=[f"n1={node.address}", f"n2=unix:{path}", f"n3=unix:{other}"], wait=False)
    agent.wait_err(r"waiting: 1 of 3 nodes may vote, 2 are needed; 2 refused")
    result = run.holdfast("run", "-n", "job", "true")
    assert result.rc == 69, result
    assert node.cmd("EXISTS", "job") == 0


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
    two_good_and(run, copy)
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
    two_good_and(run, node)
    row = wait_node(run, "n3", state="refused")
    assert row["refusal"] == "cluster", row
    locks_well(run)


@scenario("a node that may evict keys gives no votes, unless the operator allows that")
def eviction(run):
    node = other_redis(run, options=["--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru"])
    two_good_and(run, node)
    row = wait_node(run, "n3", state="refused")
    assert row["refusal"] == "eviction" and not row["votes"], row
    locks_well(run)
    assert node.cmd("EXISTS", "holdfast:fence:job") == 0, "it was asked for a vote"
    careless = run.agent("b", nodes=[*run.nodes, node], options=["--allow-eviction"])
    assert wait_node(run, "n3", careless, state="up")["votes"]


# --- passwords and databases ---------------------------------------------------------------------------


@scenario("a wrong password, and none at all: told apart from a dead node, and never printed")
def wrong_password(run):
    for label, word in (("a", "not-the-word"), ("b", None)):
        node = other_redis(run, f"locked-{label}", tcp=True, password="the-word")
        if label == "a":
            run.redis(2)
        url = f"n3=redis://:{word}@{node.address}" if word else f"n3={node.address}"
        agent = run.agent(label, nodes=[*run.nodes, url], ttl=f"{TTL_S}s")
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
    agent = run.agent(nodes=[f"n1=redis://:old-style@{tcp.address}/5", f"n2=redis+unix://{path}?db=7",
                             f"n3=redis://alice:secret@{named.address}/9"], ttl=f"{TTL_S}s")
    assert {row["state"] for row in node_rows(run).values()} == {"up"}, agent.err
    holder = run.holder()
    holder.acquire("job")
    for node, database in ((tcp, 5), (unix, 7), (named, 9)):
        with node.client() as client:
            wait_until(lambda: client.cmd("SELECT", database) == "OK" and client.get("job"), what="the key")
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
    two_good_and(run, f"n3=redis://weak:w@{node.address}")
    wait_node(run, "n3", error_class="perm")
    locks_well(run)


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
        two_good_and(run, f"n3={impostor.address}")
        wait_node(run, "n3", error_class="protocol", state=("down", "refused"))
        locks_well(run)
        assert impostor.connections < 60, "it is connected to without pause"


@scenario("a server that answers in Redis's way, but not as a Redis would: said so")
def wrong_answers(run):
    with contextlib.ExitStack() as stack:
        impostor = Impostor(stack, lambda heard: b"+OK\r\n" * max(heard.count(b"*"), 1))
        two_good_and(run, f"n3={impostor.address}")
        wait_node(run, "n3", error_class=("protocol", "other"), state=("down", "refused"))
        locks_well(run)


@scenario("a server that never says a word: a silent node, and nothing else is delayed")
def silent(run):
    with contextlib.ExitStack() as stack:
        impostor = Impostor(stack, lambda _: None)
        two_good_and(run, f"n3={impostor.address}")
        wait_node(run, "n3", error_class=("silent", "timeout", "connect"), state="down", timeout_s=15)
        locks_well(run)


@scenario("a stopped Redis accepts connections and does not answer: a silent node, healed when it goes on")
def stopped(run):
    run.redis(3)
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
    run.redis(2)
    agent = run.agent(nodes=[*run.nodes, "n3=node.deaf.test:6379"], ttl=f"{TTL_S}s",
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
    two_good_and(run, "n3=no-such-host.invalid:6379")
    wait_node(run, "n3", error_class="resolve", state="down", timeout_s=30)
    locks_well(run)


@scenario("an address that nobody listens on: said so, and tried again until somebody does")
def nobody_listens(run):
    node = Redis(run, "n3", tcp=True)
    two_good_and(run, node)
    wait_node(run, "n3", error_class="connect", state="down")
    locks_well(run)
    node.start()
    wait_node(run, "n3", state=("up", "quarantined"), timeout_s=15)


if __name__ == "__main__":
    main()
