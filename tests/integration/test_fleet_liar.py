#!/usr/bin/env python3
"""One node says what it likes of the fleet: no host follows it, and no password goes where it points."""
import contextlib
import hashlib
import pathlib
import re
import socket
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from changing import host, version, votes  # noqa: E402
from rig import Redis, main, scenario, wait_until  # noqa: E402

PASSWORD = "of-this-fleet"
WATCHED_S = 3


class Trap:
    """A server of the attacker: it keeps what comes in."""

    def __init__(self, path):
        self.path, self.got = path, b""
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(str(path))
        self.socket.listen(16)
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                peer = self.socket.accept()[0]
                with peer:
                    peer.settimeout(0.5)
                    with contextlib.suppress(OSError):
                        self.got += b"(connected) " + peer.recv(4096)

    def close(self):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self.thread.join()


@contextlib.contextmanager
def traps(run, count=3):
    made = [Trap(run.dir / f"trap{i}") for i in range(count)]
    try:
        yield made
    finally:
        for trap in made:
            trap.close()


def fleet(run, labels="a"):
    nodes = [Redis(run, f"n{i}", password=PASSWORD).start() for i in (1, 2, 3)]
    run.nodes = nodes
    agents = [host(run, label, nodes=specs(nodes)) for label in labels]
    for agent in agents:
        votes(run, agent=agent)
    return nodes, agents


def specs(nodes):
    return [f"{node.id}=redis+unix://:{PASSWORD}@{node.seat}" for node in nodes]


def later(node, number, state, seats, before=None):
    """A record of that version of the node's fleet."""
    text = node.record
    head = re.search(r"(?m)^fleet \S+$", text)[0]
    keys = re.search(r"(?m)^keys \S+$", text)[0]
    ttl = re.search(r"(?m)^ttl_max \d+$", text)[0]
    was = before or re.findall(r"(?m)^seat (\S+ \S+)$", text)
    lines = ["holdfast-fleet 1", head, f"version {number}", f"state {state}", ttl, keys]
    lines += [f"seat {seat}" for seat in seats] + [ttl.replace("ttl_max", "ttl_max_before")]
    return "\n".join(lines + [f"before {seat}" for seat in was]) + "\n"


def write(node, text):
    digest = hashlib.sha1(text.encode()).hexdigest()[:8]
    node.cmd("HSET", "holdfast:node", "record", text, "digest", digest, "record_by", "evil 0 0")


def went_by(run, agent):
    return run.holdfast("fleet", "--json", agent=agent).json["record"]["version"]


@scenario("a later record on one node of three: no agent follows it, no password goes to its servers, the job goes on, also "
          "over a restart, and the node is named with what to do")
def taken_over(run):
    nodes, agents = fleet(run, "ab")
    job = run.start_holdfast("run", "job", "sleep", "60", agent=agents[0])
    wait_until(lambda: run.holders_of("job"), what="the job runs")
    with traps(run) as evil:
        theirs = [f"{node.id} {trap.path}" for node, trap in zip(nodes, evil)]
        ours = [f"{node.id} {node.seat}" for node in nodes]
        for state, seats, before in (("complete", theirs, None), ("changing", theirs, theirs),
                                     ("complete", [*ours[:2], theirs[2]], None), ("changing", [*ours[:2], theirs[2]], None)):
            write(nodes[0], later(nodes[1], 9 if before else 2, state, seats, before))
            ends = time.monotonic() + WATCHED_S
            while time.monotonic() < ends:
                assert job.running, job.err
                assert [version(node) for node in nodes[1:]] == [1, 1], "it was spread"
                time.sleep(0.1)
            assert [went_by(run, agent) for agent in agents] == [1, 1]
        told = run.holdfast("fleet", agent=agents[1]).out
        assert "node n1" in told and "most nodes" in told, told
        agents[1].stop()
        agents[1] = host(run, "b", nodes=specs(nodes), fresh=False, wait=False)
        fresh = host(run, "c", nodes=specs(nodes), wait=False)
        for agent in (agents[1], fresh):
            wait_until(lambda one=agent: run.holdfast("run", "-n", "other", "true", agent=one).rc == 0, 15, "it is granted")
            assert went_by(run, agent) == 1
        nodes[0].cmd("DEL", "holdfast:node")
        wait_until(lambda: version(nodes[0]) == 1, 15, "the node has the fleet's record again")
        assert not any(trap.got for trap in evil), [trap.got for trap in evil]
    assert job.running, job.err
    job.signal(15)
    job.wait()


if __name__ == "__main__":
    main()
