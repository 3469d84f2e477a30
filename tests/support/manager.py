"""A stand-in for a service manager."""
import re
import socket

from rig import wait_until


class Manager:
    """A service manager's notification socket."""

    def __init__(self, run, abstract=False):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        name = f"{run.tag}-notify" if abstract else f"{run.dir}/notify{run.serial()}"
        self.socket.bind(f"\0{name}" if abstract else name)
        self.address = f"@{name}" if abstract else name
        self.socket.setblocking(False)
        self.said = []

    def read(self):
        try:
            while True:
                self.said.append(self.socket.recv(4096).decode())
        except BlockingIOError:
            return "\n".join(self.said)

    def wait(self, pattern):
        return wait_until(lambda: re.search(pattern, self.read()), 15, f"{pattern!r} for the service manager")
