#!/usr/bin/env python3
"""TLS to nodes: locks over it, every way in which it can fail and what the user is told, slow peers, and certificates that
are given anew while locks are held."""
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from certificates import Authority  # noqa: E402
from manager import Manager  # noqa: E402
from rig import BUILD, Redis, free_port, main, scenario, wait_until  # noqa: E402
from views import node_rows, wait_node  # noqa: E402


class TlsRedis(Redis):
    """A redis-server that speaks TLS to agents and has a unix socket for tests."""

    def __init__(self, run, node_id, authority, pair, clients="no", port=None, **options):
        super().__init__(run, node_id, **options)
        self.port = port or free_port()
        cert, key = pair
        self.options += ["--tls-port", self.port, "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", authority.path,
                         "--tls-auth-clients", clients, "--bind", "127.0.0.1"]

    @property
    def spec(self):
        return f"{self.id}=rediss://localhost:{self.port}"

    @property
    def seat(self):
        return f"127.0.0.1:{self.port}"


class Fleet:
    """Three nodes with TLS, certificates for them and for the agent, and the agent's file."""

    def __init__(self, run, clients="no", **settings):
        self.run, self.ca = run, Authority(run.dir)
        self.pair = self.ca.issue("localhost")
        run.nodes = [TlsRedis(run, f"n{i}", self.ca, self.pair, clients).start() for i in (1, 2, 3)]
        self.nodes = [node.spec for node in run.nodes]
        self.settings = {"tls_ca_file": self.ca.path, "ttl": "3s", "ttl_max": "6s", **settings}
        if clients == "yes":
            self.give_certificate(*self.ca.issue("agent"))

    def give_certificate(self, cert, key):
        self.settings.update(tls_cert_file=cert, tls_key_file=key)

    def write(self):
        path = self.run.dir / "holdfast.conf"
        lines = [f"{key} = {value}" for key, value in self.settings.items() if value is not None]
        path.write_text("\n".join([*lines, *(f"node = {node}" for node in self.nodes)]) + "\n")
        path.chmod(0o600)
        return path

    def agent(self, **options):
        return self.run.agent(nodes=[], options=("--config", self.write()), **options)

    def check(self):
        """What --check-config says of the file as it is."""
        process = self.run.spawn(BUILD / "bin" / "holdfastd", "--check-config", self.write(), label="check")
        return process.wait(), process.out + process.err


def connections(node):
    """The agents' connections, by their ids."""
    return {line.split()[0] for line in node.cmd("CLIENT", "LIST").decode().splitlines() if "name=holdfast-" in line}


def remedy(run, node):
    """What doctor advises about a node."""
    return next((f["remedy"] or "" for f in run.holdfast("doctor", "--json").json["findings"]
                 if f["check"] == "node.state" and f["text"].startswith(f"{node} is")), "")


@scenario("locks over TLS with client certificates: taken, renewed, healed, waited for, told of, and given back")
def locks(run):
    fleet = Fleet(run, clients="yes")
    code, said = fleet.check()
    assert code == 0 and "nodes: 3 of 3 answer" in said, said
    agent, other = fleet.agent(), fleet.agent(label="b")
    holder = run.holder()
    holder.acquire("job")
    wait_until(lambda: run.holders_of("job") == 3, what="the key is on three nodes")
    waiting = run.start_holdfast("run", "-w", "20s", "job", "--", "true", agent=other)
    time.sleep(4)
    assert holder.held()
    run.nodes[0].cmd("DEL", "job")
    wait_until(lambda: run.nodes[0].get("job"), what="the key is healed")
    assert {row["tracking"] for row in node_rows(run).values()} == {"on"}
    assert run.holdfast("list", "--all-hosts", agent=other).out.count("job") == 1
    holder.release()
    assert waiting.wait() == 0, waiting.err
    # big answers come in many records
    for i in range(300):
        holder.acquire(f"{i}-{'x' * 200}")
    assert run.holdfast("list", "--all-hosts", "--json", agent=other).out.count('"held":true') == 300
    assert all("rediss://localhost" in row["address"] or row["address"] == run.nodes[i].seat
               for i, row in enumerate(node_rows(run).values())), node_rows(run)
    run.nodes[1].restart()
    wait_until(lambda: node_rows(run)["n2"]["state"] in ("quarantined", "up"), 10, "n2 is connected again")
    assert "error" not in agent.err


FAULTS = []


def fault(name, error, says, advises, refused=True):
    """A way in which n3 is wrong: the words of --check-config and nodes, and what doctor advises."""
    def register(function):
        FAULTS.append((name, function, error, says, advises, refused))
        return function
    return register


@fault("a certificate by another CA", "tls_ca", "no CA of tls_ca_file signed its certificate .it is by 'other'", "tls_ca_file")
def wrong_ca(run, fleet):
    other = Authority(run.dir, "other")
    return TlsRedis(run, "x3", other, other.issue("localhost"))


@fault("a certificate for another host", "tls_host", "its certificate is for db9.example, not for localhost", "tls_name")
def wrong_host(run, fleet):
    return TlsRedis(run, "x3", fleet.ca, fleet.ca.issue("db9", "DNS:db9.example,IP:10.9.9.9"))


@fault("a certificate that is over", "tls_expired", r"its certificate, or that of its CA, has expired .2020-01-02", "renew the certificate")
def expired(run, fleet):
    return TlsRedis(run, "x3", fleet.ca, fleet.ca.issue("ended", ended=True))


@fault("a server that wants a client certificate", "tls_client", "it wants a certificate of the agent: give tls_cert_file",
       "tls_cert_file")
def no_certificate(run, fleet):
    return TlsRedis(run, "x3", fleet.ca, fleet.pair, clients="yes")


@fault("a server of plain Redis", "no_tls", "it speaks no TLS: write redis:// in its address", "redis://")
def plain_server(run, fleet):
    return Redis(run, "x3", options=["--port", free_port(), "--bind", "127.0.0.1"])


@fault("plain Redis to a server of TLS", "wants_tls", "it speaks TLS: write rediss:// in its address", "rediss://")
def plain_agent(run, fleet):
    return TlsRedis(run, "x3", fleet.ca, fleet.pair)


def spec_of(server, function, seat):
    port = server.options[server.options.index("--port") + 1] if function is plain_server else server.port
    scheme = "redis" if function is plain_agent else "rediss"
    return f"n3={scheme}://localhost:{port},fleet_address={seat}"


@scenario("right and wrong certificates, hosts and protocols: each is named, with its remedy, and locks go on with the others")
def faults(run):
    fleet = Fleet(run)
    seat = run.nodes[2].seat
    fleet.agent(label="founder").stop()
    run.agents.clear()
    run.nodes[2].kill()
    for name, function, error, says, advises, refused in FAULTS:
        server = function(run, fleet)
        server.start()
        fleet.nodes[2] = spec_of(server, function, seat)
        code, said = fleet.check()
        assert code == (78 if refused else 0) and re.search(says, said), (name, code, said)
        agent = fleet.agent(label=error.replace("_", ""))
        run.agents[:] = [agent]
        row = wait_node(run, "n3", agent, error_class=error)
        assert re.search(says, row["error"]), (name, row)
        wait_until(lambda: advises in remedy(run, "n3"), 5, f"{name}: doctor advises {advises}")
        assert re.search(says, run.holdfast("nodes").out.replace("\n", " ")), name
        wait_until(lambda: re.search(f"node n3 .*{says}", agent.err), 5, f"{name} in the log")
        holder = run.holder(agent)
        holder.acquire("job")
        assert run.holders_of("job") == 2
        holder.close()
        agent.stop()
        server.kill()
        (server.dir / "sock").unlink(missing_ok=True)
        server.dir.rename(run.dir / f"done-{error}")


@scenario("a host name that is not in the certificate: tls_name, or tls_check_host = no; the seat's IP address will do, too")
def other_names(run):
    fleet = Fleet(run)
    named = TlsRedis(run, "x", fleet.ca, fleet.ca.issue("named", "DNS:db.example")).start()
    fleet.nodes[2] = f"n3=rediss://localhost:{named.port}"
    assert "for db.example, not for localhost" in fleet.check()[1]
    fleet.nodes[2] += ",tls_name=db.example"
    assert fleet.check()[0] == 0
    fleet.nodes[2] = f"n3=rediss://127.0.0.1:{named.port}"
    assert "for db.example, not for 127.0.0.1" in fleet.check()[1]
    fleet.settings["tls_check_host"] = "no"
    assert fleet.check()[0] == 0
    fleet.settings["tls_check_host"] = "yes"
    fleet.nodes[2] = f"n3=rediss://127.0.0.1:{run.nodes[2].port}"
    assert fleet.check()[0] == 0


@scenario("files that are missing, wrong or of another certificate: named at their lines; nothing asks for a passphrase")
def files(run):
    fleet = Fleet(run)
    cert, key = fleet.ca.issue("agent")
    fleet.settings["tls_ca_file"] = None
    code, said = fleet.check()
    assert code == 78 and re.search("holdfast.conf:3: give tls_ca_file", said), said
    for settings, line, words in [
            ({"tls_ca_file": run.dir / "none"}, 3, "tls_ca_file: .*none cannot be read: No such file"),
            ({"tls_ca_file": key}, 3, "tls_ca_file: .* has no certificate in PEM form"),
            ({"tls_cert_file": key, "tls_key_file": key}, 4, "tls_cert_file: .* has no certificate in PEM form"),
            ({"tls_cert_file": cert, "tls_key_file": fleet.ca.key}, 5, "tls_key_file: .* is not the key of the certificate"),
            ({"tls_cert_file": cert}, 4, "tls_cert_file: .* has no private key in PEM form"),
            ({"tls_key_file": key}, 4, "tls_key_file goes with tls_cert_file"),
            ({"tls_ca_file": "ca"}, 3, "LoadCredential=ca:PATH")]:
        fleet.settings = {"ttl": "3s", "ttl_max": "6s", "tls_ca_file": fleet.ca.path, **settings}
        code, said = fleet.check()
        assert code == 78 and re.search(f"holdfast.conf:{line}: .*{words}", said), (words, said)
    fleet.settings = {"ttl": "3s", "ttl_max": "6s", "tls_ca_file": fleet.ca.path}
    fleet.give_certificate(*fleet.ca.issue("soon", days=3))
    code, said = fleet.check()
    assert code == 0 and re.search("warning: renew the certificate in .* it expires in [23] days", said), said


@scenario("an agent is started between the writing of its new certificate and of the key: it is tried again, and the lease stays")
def half_written(run):
    fleet = Fleet(run, clients="yes")
    agent = fleet.agent()
    holder = run.holder()
    holder.acquire("job")
    new_cert, new_key = fleet.ca.issue("agent2")
    fleet.settings["tls_cert_file"].write_bytes(new_cert.read_bytes())
    agent.stop()
    early = run.spawn(*run.agent_argv(nodes=[], fresh=False, options=("--config", fleet.write())), label="early")
    assert early.wait() == 71 and "is not the key of the certificate" in early.err, early.err
    fleet.settings["tls_key_file"].write_bytes(new_key.read_bytes())
    fleet.agent(fresh=False)
    time.sleep(3)
    assert holder.held()
    holder.release()
    # Where it stays so, a service manager would start it ten times a second.
    fleet.settings["tls_key_file"].write_text("")
    manager = Manager(run)
    held = run.spawn(*run.agent_argv(label="x", nodes=[], options=("--config", fleet.write())), label="held",
                     env={"NOTIFY_SOCKET": manager.address})
    manager.wait("STATUS=Refused to start")
    held.signal(signal.SIGTERM)
    assert held.wait() == 71 and held.err.count("has no private key") == 1, held.err


@scenario("a peer that hangs in the handshake, and one that dribbles: nobody else's renewals wait for it", sanitizers=False)
def hung_peer(run):
    fleet = Fleet(run)
    agent = fleet.agent()
    holder = run.holder()
    holder.acquire("job")
    run.nodes[2].kill()
    with socket.create_server(("127.0.0.1", run.nodes[2].port)) as listener:
        listener.settimeout(0.05)
        kept, classes, end = [], [], time.monotonic() + 8
        while time.monotonic() < end:
            try:
                kept.append(listener.accept()[0])
                if len(kept) % 2:
                    kept[-1].sendall(b"\x16\x03\x03\x40\x00")  # a record that never comes
            except TimeoutError:
                pass
            assert holder.held()
            assert all(node.pttl("job") > 1500 for node in run.nodes[:2])
            classes.append(node_rows(run)["n3"]["error_class"])
        assert kept, "nobody came"
        code, said = fleet.check()
        assert code == 0 and re.search("warning: node n3 .* does not answer: no answer to the TLS handshake", said), (code, said)
    renewals = [f for f in run.holdfast("doctor", "--json").json["findings"] if f["check"] == "agent.renewals"]
    late = int(re.search(r"at most (\d+)ms late", renewals[0]["text"]).group(1))
    assert late < 500, renewals
    assert "tls" in classes and set(classes[classes.index("tls"):]) == {"tls"}, sorted(set(classes))
    run.nodes[2].start()
    wait_until(lambda: node_rows(run)["n3"]["state"] in ("quarantined", "up"), 10, "n3 is connected again")
    assert agent.running and holder.held()


@scenario("certificates are given anew while a lock is held: tried before use, refused if a node refuses them, and no connection ends")
def rotation(run):
    fleet = Fleet(run, clients="yes")
    agent = fleet.agent()
    holder = run.holder()
    holder.acquire("job")
    cert, key = fleet.settings["tls_cert_file"], fleet.settings["tls_key_file"]
    before = [connections(node) for node in run.nodes]
    other = Authority(run.dir, "other")
    for source, target in zip(other.issue("agent"), (cert, key)):
        target.write_bytes(source.read_bytes())
    refused = run.holdfast("reload")
    assert refused.rc == 78 and re.search("node n1 does not go with the new certificates .it refuses the agent's certificate", refused.err), refused
    key.write_bytes(fleet.ca.key.read_bytes())
    refused = run.holdfast("reload")
    assert refused.rc == 78 and "is not the key of the certificate" in refused.err, refused
    for source, target in zip(fleet.ca.issue("agent2"), (cert, key)):
        target.write_bytes(source.read_bytes())
    applied = run.holdfast("reload")
    assert applied.rc == 0 and "tls: other certificates" in applied.out + applied.err, applied
    assert [connections(node) for node in run.nodes] == before, "connections stay"
    applied = run.holdfast("reload")
    assert applied.rc == 0 and "nothing has changed" in applied.out + applied.err, applied
    # the servers' CA, too: both for a while, then the new one alone
    both = run.dir / "both.crt"
    both.write_bytes(fleet.ca.path.read_bytes() + other.path.read_bytes())
    fleet.settings["tls_ca_file"] = both
    fleet.write()
    assert run.holdfast("reload").rc == 0
    server = other.issue("localhost")
    for node in run.nodes:
        for setting, value in (("tls-ca-cert-file", both), ("tls-key-file", server[1]), ("tls-cert-file", server[0])):
            node.options[node.options.index(f"--{setting}") + 1] = value
        node.cmd("CONFIG", "SET", "tls-ca-cert-file", both, "tls-key-file", server[1], "tls-cert-file", server[0])
    run.nodes[0].cmd("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    wait_until(lambda: connections(run.nodes[0]) - before[0], 10, "new connections, with the new certificates")
    fleet.settings["tls_ca_file"] = other.path
    fleet.write()
    applied = run.holdfast("reload")
    assert applied.rc == 0, applied
    wait_node(run, "n1", state="up")
    time.sleep(3)
    assert holder.held() and agent.running


MANUAL = (pathlib.Path(__file__).resolve().parents[2] / "docs" / "OPERATIONS.md").read_text()
ROUNDS = MANUAL[MANUAL.index("### Certificates"):MANUAL.index("## Replacing a node")]


class Place:
    """A folder as the guide has them, /etc/holdfast/tls or /etc/redis/tls: files that are written over where they are."""

    def __init__(self, folder, own):
        self.folder, self.own = folder, own
        folder.mkdir()

    def path(self, name):
        return self.folder / name

    def give_ca(self, *authorities):
        self.path("ca.crt").write_bytes(b"".join(authority.path.read_bytes() for authority in authorities))

    def give_pair(self, pair):
        for source, suffix in zip(pair, ("crt", "key")):
            self.path(f"{self.own}.{suffix}").write_bytes(source.read_bytes())


def as_printed(node, place, ca):
    """The guide's command, which has this node read its files again; with `ca` that of another CA's rounds."""
    command = re.search(r"^# (redis-cli --tls .* CONFIG SET tls-cert-file .*)", ROUNDS, re.M).group(1)
    addition = re.search(r"`(tls-ca-cert-file [^`]*)`", ROUNDS).group(1)
    for of_guide, here in (("/etc/redis/tls", str(place.folder)), ("-h redis1.example.com", f"-h localhost -p {node.port}"),
                           ("ADMIN-PASSWORD", "sesam")):
        assert of_guide in command
        command, addition = command.replace(of_guide, here), addition.replace(of_guide, here)
    done = subprocess.run(command.split() + (addition.split() if ca else []), capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "OK", (node.id, done)


@scenario("another CA, by the guide's three rounds and commands: locks stay held, and every host can connect anew after each step")
def another_ca(run):
    old, new = Authority(run.dir, "old"), Authority(run.dir, "new")
    places, hosts = [Place(run.dir / f"redis{i}", "redis") for i in (1, 2, 3)], [Place(run.dir / f"host{i}", "agent") for i in (1, 2)]
    for place in places + hosts:
        place.give_ca(old)
        place.give_pair(old.issue("localhost" if place in places else "agent"))
    for i, place in enumerate(places, 1):
        node = TlsRedis(run, f"n{i}", old, (place.path("redis.crt"), place.path("redis.key")), "yes")
        node.options[node.options.index("--tls-ca-cert-file") + 1] = place.path("ca.crt")
        run.nodes.append(node.start())
        node.cmd("ACL", "SETUSER", "admin", "on", ">sesam", "~*", "&*", "+@all")
    agents, files = [], []
    for label, host in zip("ab", hosts):
        files.append(host.path("holdfast.conf"))
        settings = {"ttl": "3s", "ttl_max": "6s", "tls_ca_file": host.path("ca.crt"), "tls_cert_file": host.path("agent.crt"),
                    "tls_key_file": host.path("agent.key")}
        files[-1].write_text("".join(f"{key} = {value}\n" for key, value in settings.items()) +
                             "".join(f"node = {node.spec}\n" for node in run.nodes))
        files[-1].chmod(0o600)
        agents.append(run.agent(label, nodes=[], options=("--config", files[-1])))
    holders = [run.holder(agent) for agent in agents]
    for holder, name in zip(holders, ("job", "other")):
        holder.acquire(name)

    def all_connect_anew(what):
        for node in run.nodes:
            before = connections(node)
            for kind in ("normal", "pubsub"):
                node.cmd("CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes")
            wait_until(lambda: len(connections(node) - before) >= len(before), 10, f"all are connected to {node.id} again after {what}")
        assert all(holder.held() for holder in holders), what

    def reload(what):
        for agent in agents:
            applied = run.holdfast("reload", agent=agent)
            assert applied.rc == 0 and "tls: other certificates" in applied.out + applied.err, (what, applied)
            all_connect_anew(f"{what} on host {agent.label}")

    def on_nodes(what, ca):
        for node, place in zip(run.nodes, places):
            as_printed(node, place, ca)
            all_connect_anew(f"{what} on {node.id}")

    def look(what):
        for file in files:
            check = run.spawn(BUILD / "bin" / "holdfastd", "--check-config", file, label="check")
            assert check.wait() == 0 and "3 of 3 answer" in check.out, (what, check.out, check.err)

    for authorities in ((old, new), (new,)):
        what = " and ".join(authority.name for authority in authorities)
        if authorities == (new,):
            for host in hosts:
                host.give_pair(new.issue("agent"))
            reload("the new certificate")
            for place in places:
                place.give_pair(new.issue("localhost"))
            on_nodes("the new certificate", ca=False)
            look("the new certificates")
        for place in places + hosts:
            place.give_ca(*authorities)
        reload(what)
        on_nodes(what, ca=True)
        look(what)
    hosts[0].give_pair(old.issue("agent"))
    refused = run.holdfast("reload", agent=agents[0])
    assert refused.rc == 78 and "refuses the agent's certificate" in refused.err, refused
    assert all(holder.held() for holder in holders)


if __name__ == "__main__":
    main()
