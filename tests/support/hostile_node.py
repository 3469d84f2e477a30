"""A server between agents and one node that means ill: it passes on what both say until it does one thing that no Redis does.
Standard library only.

    with HostileNode(node.address, "bulk") as hostile:
        run.agent(nodes=[hostile.spec(node), ...])

What it does:
    bulk, line, nest    an answer without end to `command`
    flood               notices without end, that any key may have changed, to `command` SUBSCRIBE
    flushes             the same, 10,000 a second, once `bad` is set
    round               a listing that begins again and again
    names               a listing that has ever more names, 1000 long ones a page
    late                each page of a listing comes 200 ms late
    fence               each fence record has `fence`, whatever an agent offers
    claim               INFO has the run_id of `claimed`, another node
    hang up             no answer to an acquire, and the connection ends
    error               once `bad` is set, each script fails; plain commands do not
    record              once `bad` is set, each answer to an acquire has another record's digest
    no release          once `bad` is set, each release fails, and other scripts do not
    long info           once `bad` is set, each script fails for want of it, and INFO has 500,000 lines ahead of the true ones
    earlier             its clock is five seconds further back in each answer to a renewal
"""
import contextlib
import hashlib
import re
import socket
import threading
import time

ENDLESS = {"bulk": (b"$1000000000000\r\n", b"a" * 65536),
           "line": (b"+", b"a" * 65536),
           "nest": (b"*1024\r\n" * 4, b"*1024\r\n" + b"$-1\r\n" * 1024),
           "flood": (b"*3\r\n$9\r\nsubscribe\r\n$20\r\n__redis__:invalidate\r\n:1\r\n",
                     b"*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n*-1\r\n" * 1024)}
ENDLESS["flushes"] = (ENDLESS["flood"][0], ENDLESS["flood"][1][:len(ENDLESS["flood"][1]) // 1024 * 100])


def bulk(text):
    return b"$%d\r\n%s\r\n" % (len(text), text)


# Items of a listing; the page's number takes the place of @.
NAMES = b"".join(b"*5\r\n" + bulk(b"@" * 12 + b"%08d" % i + b"z" * 235) + bulk(b"%040x" % i) + bulk(b"1795897376529251") + b":20000\r\n"
                 + bulk(b"1795897376529251\n1\n0\n1795897376529\nvm\ncc\n" + b"n" * 95) for i in range(1000))


RELEASE_ONLY = b"give_back(key, token, value)\n      marks[i]"  # a line that no other script has


def text_of(command):
    """The last word of a command."""
    at = command.index(b"\r\n") + 2
    word = b""
    while at < len(command):
        length, start = int(command[at + 1:command.index(b"\r\n", at)]), command.index(b"\r\n", at) + 2
        word, at = command[start:start + length], start + length + 2
    return word


def resp(buffer, at=0):
    """The end of the value that begins there, and its text if it is a string; None: it is not all there."""
    end = buffer.find(b"\r\n", at)
    if end < 0:
        return None
    kind, rest = buffer[at:at + 1], buffer[at + 1:end]
    if kind == b"$" and int(rest) >= 0:
        end += 2 + int(rest)
        return (end + 2, buffer[end - int(rest):end]) if len(buffer) >= end + 2 else None
    end += 2
    if kind == b"*":
        text = None
        for i in range(int(rest)):
            value = resp(buffer, end)
            if value is None:
                return None
            end = value[0]
            text = value[1] if i == 0 else text  # a command's name
        return end, text
    return end, None


class Pair:
    """An agent's connection and its counterpart."""

    def __init__(self, hostile, client):
        self.hostile, self.client = hostile, client
        self.server = hostile.connect()
        self.names, self.lock = [], threading.Lock()
        self.subscribed = False
        threading.Thread(target=self.ask, daemon=True).start()
        threading.Thread(target=self.answer, daemon=True).start()

    def name_of(self, command, name):
        if re.search(rb"holdfast:fence:[^\r]*\*\r\n", command):
            return b"LISTING"
        if name == b"SCRIPT" and RELEASE_ONLY in command:
            self.hostile.release = hashlib.sha1(text_of(command)).hexdigest().encode()
        return b"RELEASE" if self.hostile.release and name == b"EVALSHA" and self.hostile.release in command[:90] else name

    def ask(self):
        buffer = b""
        with contextlib.suppress(OSError):
            while data := self.client.recv(65536):
                buffer += data
                while value := resp(buffer):
                    with self.lock:
                        self.names.append(self.name_of(buffer[:value[0]], value[1].upper()))
                    buffer = buffer[value[0]:]
                self.server.sendall(data)
            self.server.shutdown(socket.SHUT_WR)

    def answer(self):
        buffer = b""
        with contextlib.suppress(OSError), self.client, self.server:
            while data := self.server.recv(65536):
                buffer += data
                while value := resp(buffer):
                    raw, buffer = buffer[:value[0]], buffer[value[0]:]
                    with self.lock:
                        name = self.names.pop(0) if self.names else b""
                    self.hostile.speak(name, self.client)
                    self.client.sendall(self.hostile.changed(name, raw, value[1]))


class HostileNode:
    def __init__(self, target, does, command="EVALSHA", fence=None, claimed=None):
        self.target, self.does, self.command, self.fence = target, does, command.encode(), fence
        self.claimed = claimed
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.bad = False
        self.release = None  # the script's SHA
        self.begun, self.sent, self.low = 0, 0, 0  # endless answers; their bytes; how often it told of its fence
        threading.Thread(target=self.go, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()

    def spec(self, node):
        """That node by way of this one, as --node takes it."""
        return f"{node.id}={self.address},fleet_address={node.seat}"

    def connect(self):
        if self.target.startswith("unix:"):
            server = socket.socket(socket.AF_UNIX)
            server.connect(self.target[len("unix:"):])
            return server
        return socket.create_connection(self.target.removeprefix("tcp:").rsplit(":", 1))

    def go(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                Pair(self, client)

    def changed(self, name, raw, text):
        if self.does == "round" and name == b"LISTING" and raw[:1] == b"*":
            at = raw.find(b"\r\n") + 2
            for _ in range(3):
                at = resp(raw, at)[0]
            self.begun += 1
            cursor = b"%d" % (self.begun % 5 + 1)
            return raw[:at] + b"$%d\r\n%s\r\n" % (len(cursor), cursor) + raw[resp(raw, at)[0]:]
        if self.does == "late" and name == b"LISTING":
            time.sleep(0.2)
        if self.does == "names" and name == b"LISTING" and raw[:1] == b"*":
            head = at = raw.find(b"\r\n") + 2
            for _ in range(3):
                at = resp(raw, at)[0]
            self.begun += 1
            cursor = b"%d" % (1000 + self.begun)
            return (b"*1004\r\n" + raw[head:at] + b"$%d\r\n%s\r\n" % (len(cursor), cursor)
                    + NAMES.replace(b"@" * 12, b"%012d" % self.begun))
        if self.does == "claim" and name == b"INFO" and text is not None:
            claimed = re.search(rb"run_id:(\w+)", self.claimed.cmd("INFO", "server")).group(1)
            text = re.sub(rb"run_id:\w+", b"run_id:" + claimed, text)
            return b"$%d\r\n%s\r\n" % (len(text), text)
        if self.does == "earlier" and name == b"EVALSHA" and text is not None and re.fullmatch(rb"\d+ \d+ \S+ [01fx]+( .*)?", text):
            self.begun += 1
            seconds, rest = text.split(b" ", 1)
            text = b"%d %s" % (int(seconds) - 5 * self.begun, rest)
            return bulk(text)
        if self.does == "no release" and self.bad and name == b"RELEASE":
            self.begun += 1
            return b"-ERR no release here\r\n"
        if self.does == "long info" and self.bad and name == b"INFO" and text is not None:
            self.begun += 1
            return bulk(b"\n" * 500000 + text)
        if self.does == "long info" and self.bad and name == b"EVALSHA":
            return b"-NOSCRIPT no\r\n"
        if self.does == "error" and self.bad and name == b"EVALSHA":
            self.begun += 1
            return b"-ERR no script runs here\r\n"
        if self.does == "record" and self.bad and name == b"EVALSHA" and text is not None and re.match(rb"\d+ \d+ \w+:\w+ (OK|LOW)\b", text):
            self.begun += 1
            return bulk(re.sub(rb":\w+", lambda stamp: b":" + b"5" * (len(stamp[0]) - 1), text, count=1))
        if self.does == "hang up" and name == b"EVALSHA" and text is not None and text.split(b" ")[3:4] in ([b"OK"], [b"LOW"]):
            self.begun += 1
            raise OSError
        if self.does != "fence" or name != b"EVALSHA" or text is None:
            return raw
        words = text.split(b" ")
        if len(words) < 5 or words[3] not in (b"OK", b"LOW"):
            return raw
        self.low += 1
        text = b" ".join([*words[:3], b"LOW", b"%d" % self.fence, b"a" * 40])
        return b"$%d\r\n%s\r\n" % (len(text), text)

    def speak(self, name, client):
        """Until the agent ends it."""
        if self.does not in ENDLESS or name != self.command:
            return
        head, piece = ENDLESS[self.does]
        self.begun += 1
        client.sendall(head)
        while True:
            while self.does == "flushes":
                time.sleep(0.01)
                if self.bad:
                    break
            client.sendall(piece)
            self.sent += len(piece)
