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
                      options=["--ttl-max", "2s", "--reset-fleet"])
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
