"""A name server of the test's own, and a holdfastd that asks it: names whose addresses change while an agent runs."""
import contextlib
import random
import socket
import struct
import threading

from rig import BUILD

A, IN = 1, 1


class Names:
    """Answers for the names of `addresses`: NAME to an IPv4 address. It listens on a loopback address of its own."""

    def __init__(self, run, addresses):
        self.addresses = dict(addresses)
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        while True:
            self.address = "127.{}.{}.{}".format(*(random.randint(1, 254) for _ in range(3)))
            with contextlib.suppress(OSError):
                self.socket.bind((self.address, 53))
                break
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()
        (run.dir / "resolv.conf").write_text(f"nameserver {self.address}\noptions timeout:1 attempts:5\n")
        (run.dir / "nsswitch.conf").write_text("hosts: dns\n")
        self.program = run.dir / "named-holdfastd"
        self.program.write_text(
            "#!/bin/sh\n"
            f"exec unshare -m sh -c 'mount --bind {run.dir}/resolv.conf /etc/resolv.conf && "
            f"mount --bind {run.dir}/nsswitch.conf /etc/nsswitch.conf && exec {BUILD}/bin/holdfastd \"$@\"' sh \"$@\"\n")
        self.program.chmod(0o755)

    def serve(self):
        while True:
            try:
                question, peer = self.socket.recvfrom(512)
            except OSError:
                return
            with contextlib.suppress(OSError, IndexError, struct.error):
                self.socket.sendto(self.answer(question), peer)

    def answer(self, question):
        at, labels = 12, []
        while question[at]:
            labels.append(question[at + 1:at + 1 + question[at]].decode("ascii", "replace"))
            at += 1 + question[at]
        kind = struct.unpack("!H", question[at + 1:at + 3])[0]
        address = self.addresses.get(".".join(labels).lower())
        found = bool(address) and kind == A
        head = question[:2] + struct.pack("!HHHHH", 0x8580 | (0 if address else 3), 1, int(found), 0, 0)
        record = struct.pack("!HHHIH", 0xC00C, A, IN, 0, 4) + socket.inet_aton(address) if found else b""
        return head + question[12:at + 5] + record

    def close(self):
        self.socket.close()
