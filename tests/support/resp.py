"""A small blocking Redis client: enough of RESP2 for the tests, and nothing besides the standard library."""
import socket


class RespError(Exception):
    """An error reply of the server."""


class Resp:
    def __init__(self, address, timeout_s=10.0):
        if address.startswith("unix:"):
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(timeout_s)
            self.socket.connect(address[len("unix:"):])
        else:
            host, _, port = address.removeprefix("tcp:").rpartition(":")
            self.socket = socket.create_connection((host.strip("[]"), int(port)), timeout_s)
        self.file = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.file.close()
        self.socket.close()

    def send(self, *args):
        parts = [arg if isinstance(arg, bytes) else str(arg).encode() for arg in args]
        self.socket.sendall(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts))

    def read(self):
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("the server closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b"+":
            return rest.decode()
        if kind == b"-":
            raise RespError(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"$":
            size = int(rest)
            return None if size < 0 else self.file.read(size + 2)[:-2]
        if kind == b"*":
            return None if int(rest) < 0 else [self.read() for _ in range(int(rest))]
        raise ConnectionError(f"not a reply: {line!r}")

    def cmd(self, *args):
        """One command and its reply: bytes, int, str (status), list or None; RespError for an error."""
        self.send(*args)
        return self.read()

    def get(self, key):
        return self.cmd("GET", key)

    def pttl(self, key):
        return self.cmd("PTTL", key)

    def info(self, section=""):
        """INFO as a dict of strings."""
        text = self.cmd("INFO", *([section] if section else [])).decode()
        pairs = (line.split(":", 1) for line in text.splitlines() if ":" in line)
        return {key: value for key, value in pairs}

    def calls(self, command):
        """How often the server ran a command, those of scripts too."""
        row = self.info("commandstats").get(f"cmdstat_{command.lower()}", "")
        fields = dict(field.split("=") for field in row.split(",") if "=" in field)
        return int(fields.get("calls", 0))
