#!/usr/bin/env python3
"""Servers that cannot be nodes as they are: each is named for what it is, with what to do, and nobody waits for it.

Elsewhere: replicas, clusters, nodes that evict, doubles: test_nodes.py and test_replicas.py; what is found before a start:
test_check_config.py. Other makes of servers: tests/servers/make."""
import pathlib
import re
import socket
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from rig import BUILD, Redis, main, scenario, wait_until  # noqa: E402


class Answerer:
    """Takes connections, and answers whatever is said with these bytes."""

    def __init__(self, answer):
        self.answer = answer
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                connection, _ = self.listener.accept()
                with connection:
                    connection.recv(4096)
                    connection.sendall(self.answer)
            except OSError:
                return

    def close(self):
        self.listener.close()


def told(run, spec, words):
    """An agent with two good nodes and this one says so in its log, in `nodes` and in `doctor`."""
    agent = run.agent(nodes=[run.nodes[0].spec, run.nodes[1].spec, f"odd={spec}"], ttl="2s", wait=False,
                      options=["--ttl-max", "2s", "--new-list"])
    shown = words[:60]
    wait_until(lambda: re.search(words, agent.err), 10, f"the log says: {words}")
    for command in ("nodes", "doctor"):
        wait_until(lambda: re.search(shown, run.holdfast(command, agent=agent).out), 10, f"{command} says: {words}")  # noqa: B023
    agent.stop()


def without(command):
    return ("--rename-command", command, "")


@scenario("a server that forbids commands, or wants a password: named, with the remedy")
def odd_servers(run):
    run.redis(2)
    for i, (options, words) in enumerate((
            (without("SCRIPT"), "allow SCRIPT LOAD there, which rename-command or a managed service forbids"),
            (without("EVALSHA"), "allow EVALSHA there, which rename-command or a managed service forbids"),
            (without("TIME"), r"allow all commands of holdfastd\(8\) there: one is renamed or forbidden"),
            (without("INFO"), "allow INFO there, which rename-command or a managed service forbids"),
            ((), "give this node's user and password, which it wants"))):
        odd = Redis(run, f"odd{i}", options=options, password=None if options else "secret").start()
        told(run, odd.address, words)
        odd.stop()


def settings_said(run, node):
    """(in `nodes`, in `status`, what doctor finds) of the node's settings."""
    found = [f for f in run.holdfast("doctor", "--json").json["findings"] if f["check"] == "node.config" and f["text"].startswith(f"{node}:")]
    status = next(line for line in run.holdfast("status").out.splitlines() if line.startswith(f"{node} "))
    return re.split(r"(?m)^(?=\S)", run.holdfast("nodes").out.partition(f"{node}\n")[2])[0], status, found[0] if found else None


@scenario("nodes that do not tell their settings, by ACL or by rename-command: said to be not known, with what it costs and what to do")
def forbidden_config(run):
    durable = ("--appendonly", "yes", "--appendfsync", "always", "--no-appendfsync-on-rewrite", "no")
    run.redis(1, options=durable)
    renamed = Redis(run, "n2", options=(*durable, *without("CONFIG"))).start()
    lacking = Redis(run, "n3", tcp=True, options=durable).start()
    run.nodes += [renamed, lacking]
    lacking.cmd("ACL", "SETUSER", "holdfast", "on", ">word", "~*", "&*", "+@all", "-config")
    nodes = [run.nodes[0].spec, renamed.spec, f"n3=redis://holdfast:word@{lacking.address}"]
    agent = run.agent(nodes=nodes, ttl="2s", options=("--ttl-max", "2s"))
    wait_until(lambda: [(row["state"], row["durable"], row["config"]) for row in run.holdfast("nodes", "--json").json["nodes"]] ==
               [("up", True, "told"), ("up", False, "forbidden"), ("up", False, "no_right")], 15, "what each tells")
    for node, words in (("n2", "CONFIG GET is forbidden there: whether it is durable is not known"),
                        ("n3", "its user may not CONFIG GET: whether it is durable is not known")):
        in_nodes, in_status, found = settings_said(run, node)
        assert words in in_nodes and words in in_status and "durability not known" in in_nodes, (in_nodes, in_status)
        assert found["level"] == "note" and words in found["text"] and "nothing to do unless you want trust_durable_nodes" in found["text"], found
        assert not found["remedy"], found
    assert settings_said(run, "n1")[2] is None
    holder = run.holder()
    holder.acquire("job")  # it costs no lock
    assert run.holders_of("job") == 3
    holder.close()
    agent.stop()
    run.agents.clear()
    run.agent(nodes=nodes, ttl="2s", options=("--ttl-max", "2s", "--trust-durable-nodes"), label="trusting")
    for node, remedy in (("n2", "allow CONFIG GET there"), ("n3", "ACL SETUSER USER +config|get")):
        wait_until(lambda: settings_said(run, node)[2], 10, f"doctor says it of {node}")  # noqa: B023
        found = settings_said(run, node)[2]
        assert found["level"] == "warn" and remedy in found["remedy"] and "no votes for a quarantine after each restart" in found["text"], found
    file = run.dir / "holdfast.conf"
    file.write_text("ttl = 2s\nttl_max = 2s\ntrust_durable_nodes = yes\n" + "".join(f"node = {node}\n" for node in nodes))
    file.chmod(0o600)
    check = run.spawn(BUILD / "bin" / "holdfastd", "--check-config", file, label="check")
    assert check.wait() == 0, check.err
    said = check.out + check.err
    assert re.search("holdfast.conf:5: .*node n2 .*trust_durable_nodes does nothing for it", said), said
    assert re.search(r"holdfast.conf:6: .*node n3 .*\+config\|get: its user lacks", said), said
    # the right comes back: seen at a probe, without a new connection
    lacking.cmd("ACL", "SETUSER", "holdfast", "+config|get")
    wait_until(lambda: run.holdfast("nodes", "--json").json["nodes"][2]["durable"], 10, "n3 tells")
    assert settings_said(run, "n3")[2] is None


@scenario("a Sentinel, a proxy, a server in protected mode or without connections left, no Redis at all: named, with the remedy")
def no_redis(run):
    run.redis(2)
    for answer, words in ((b"HTTP/1.1 400 Bad Request\r\n\r\n", "name the server itself: what answers there is no Redis"),
                          (b"-ERR unsupported command\r\n", "name the server itself: what answers there, perhaps a proxy, is no Redis"),
                          (b"-DENIED Redis is running in protected mode because\r\n", "set a password on it: it is in protected mode"),
                          (b"-ERR max number of clients reached\r\n", "raise its maxclients: it takes no more connections"),
                          (b"$21\r\nredis_mode:sentinel\r\n\r\n", "name a master itself: this is a Sentinel")):
        other = Answerer(answer)
        told(run, other.address, words)
        other.close()


if __name__ == "__main__":
    main()
