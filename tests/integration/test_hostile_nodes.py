#!/usr/bin/env python3
"""One node of three means ill: what it gets of an agent's memory and time, and what the others' locks notice."""
import pathlib
import re
import socket
import ssl
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from certificates import Authority  # noqa: E402
from hostile_node import HostileNode  # noqa: E402
from rig import BUILD, SLOW, main, scenario, wait_until  # noqa: E402
from views import counters, node_rows, wait_node  # noqa: E402

MIB = 1024 * 1024


def resident(process):
    return 1024 * int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{process.pid}/status").read_text()).group(1))


def locks_well(run, agent=None):
    holder = run.holder(agent)
    holder.acquire("job")
    began = time.monotonic()
    while time.monotonic() < began + 3:
        assert holder.held()
        time.sleep(0.05)
    holder.release()
    holder.close()


def endless(run, does, command="EVALSHA"):
    run.redis(3, tcp=True)
    run.found()
    with HostileNode(run.nodes[2].address, does, command) as hostile:
        agent = run.agent(nodes=[*run.nodes[:2], hostile.spec(run.nodes[2])], ttl="3s", wait=False).wait_ready()
        before = resident(agent)
        locks_well(run)
        wait_until(lambda: hostile.begun, what="it begins")
        time.sleep(1)
        assert resident(agent) - before < 8 * MIB * SLOW, f"{before} bytes and {resident(agent)}"
        # The sockets have room for some of it, too.
        assert hostile.sent < hostile.begun * 12 * MIB, (hostile.sent, hostile.begun)
        assert hostile.begun < 20, f"it is connected to without pause: {hostile.begun}"
        told = [line for line in agent.err.splitlines() if "longer than" in line]
        assert 1 <= len(told) <= 5, told
        return told


for kind in ("bulk", "line", "nest"):
    @scenario(f"an answer without end ({kind}): the connection ends within 1 MiB, it is told, and locks go on")
    def answer_without_end(run, kind=kind):
        assert "an answer is longer than 1 MiB" in endless(run, kind)[0]
        assert node_rows(run)["n3"]["state"] == "down"


@scenario("a notice without end: its connection ends within 64 KiB, it is told once, and locks go on")
def notice_without_end(run):
    told = endless(run, "bulk", "SUBSCRIBE")
    assert len(told) == 1 and "a notice is longer than 64 KiB" in told[0], told
    assert node_rows(run)["n3"]["state"] == "up"


@scenario("--check-config asks a node that answers without end: it says so")
def checked(run):
    run.redis(3, tcp=True)
    with HostileNode(run.nodes[2].address, "bulk", "INFO") as hostile:
        path = run.dir / "holdfast.conf"
        path.write_text("".join(f"node = {spec}\n" for spec in [*(node.spec for node in run.nodes[:2]), hostile.spec(run.nodes[2])]))
        path.chmod(0o600)
        process = run.spawn(BUILD / "bin" / "holdfastd", "--check-config", path, label="check")
        process.wait()
        assert "an answer is longer than 1 MiB" in process.out + process.err, process.out + process.err


# --- TLS --------------------------------------------------------------------------------------------------


class Asker:
    """It sends HelloRequest after HelloRequest, as fast as it can, to whoever begins TLS."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"rediss://localhost:{self.listener.getsockname()[1]}"
        self.sent, self.connections = 0, 0
        threading.Thread(target=self.go, daemon=True).start()

    def go(self):
        try:
            while True:
                connection, _ = self.listener.accept()
                self.connections += 1
                threading.Thread(target=self.talk, args=(connection,), daemon=True).start()
        except OSError:
            pass

    def talk(self, connection):
        words = b"\x16\x03\x03\x00\x04\x00\x00\x00\x00" * 7000
        try:
            with connection:
                connection.recv(65536)
                while True:
                    connection.sendall(words)
                    self.sent += len(words)
        except OSError:
            pass


@scenario("a peer without any certificate asks for TLS handshakes without end: the agent's threads do not stand still, and it is told")
def hello_requests(run):
    run.redis(2, tcp=True)
    authority = Authority(run.dir)
    run.found(nodes=[*run.nodes, run.redis(1, tcp=True)[0]])
    asker = Asker()
    path = run.dir / "holdfast.conf"
    third = run.nodes[2]
    path.write_text(f"tls_ca_file = {authority.path}\nttl = 3s\n" + "".join(f"node = {node.spec}\n" for node in run.nodes[:2]) +
                    f"node = n3={asker.address},as={third.seat}\n")
    path.chmod(0o600)
    agent = run.agent(nodes=[], options=("--config", path), wait=False).wait_ready()
    wait_until(lambda: asker.connections, what="it is connected to")
    locks_well(run)
    turn = counters(run)["renewal_turn_max_ns"] / 1e6
    print(f"# {asker.sent / 1e6:.0f} MB in {asker.connections} connections; longest turn {turn:.0f} ms")
    assert turn < 300 * SLOW, f"{turn} ms"
    wait_node(run, "n3", error_class="tls", state="down")
    assert re.search("n3 is down: tls: (the TLS handshake takes too long|its part of the TLS handshake is longer than 64 KiB)", agent.err)
    asker.listener.close()


if __name__ == "__main__":
    main()
