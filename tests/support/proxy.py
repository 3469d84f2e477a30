"""A proxy between agents and one node that loses, holds back and reorders what it is told to. Standard library only.

    proxy = Proxy(node.address)         # run.agent(nodes=[proxy.spec(node)])
    proxy.hold_requests(b"holder")      # from the first that contains it on, by connection
    proxy.lose_replies(b"holder")       # to those
    proxy.break_held()                  # the agent sees these connections end, the node does not
    proxy.deliver()                     # now the node gets what was held back

Connections that are made while something is held back are not affected by it.

With keeps=True the agent's connections outlive the node's: the proxy makes a new one with the agent's next command, and
says nothing of it. Only where an answer was lost does the agent's end, too. With delay_s each answer takes so much longer.
"""
import contextlib
import os
import selectors
import socket
import threading
import time


class Pair:
    """One connection and its counterpart."""

    def __init__(self, client, server):
        self.client, self.server = client, server
        self.held = None      # bytes that the node shall get later; None: it gets all at once
        self.deaf = False     # its replies are lost
        self.client_open = True
        self.asked = False    # the node has not said anything since it was last told something


class Proxy:
    def __init__(self, target, keeps=False, delay_s=0.0):
        self.target, self.keeps, self.delay_s = target, keeps, delay_s
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.pairs, self.lock = [], threading.RLock()
        self.hold, self.lose = None, None
        self.passed = b""  # what clients said and the node has got
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.listener, selectors.EVENT_READ, None)
        self.wake, self.woken = os.pipe()
        self.selector.register(self.wake, selectors.EVENT_READ, None)
        self.thread = threading.Thread(target=self.go, daemon=True)
        self.thread.start()

    def spec(self, node, login=""):
        """That node by way of this proxy, as --node takes it. Agents that have it otherwise mean the same one."""
        return f"{node.id}={login}{self.address},fleet_address={node.seat}"

    # --- what the scenario says ---

    def hold_requests(self, part):
        with self.lock:
            self.hold = part

    def lose_replies(self, part):
        with self.lock:
            self.lose = part

    def held(self):
        """How many connections have requests held back."""
        with self.lock:
            return sum(pair.held is not None for pair in self.pairs)

    def lost(self):
        """How many connections had replies lost."""
        with self.lock:
            return sum(pair.deaf for pair in self.pairs)

    def has_passed(self, part):
        """Whether the node got a request with it lately, on a connection that is not held back."""
        with self.lock:
            return part in self.passed

    def break_held(self):
        """The agent's side of every connection that is held back or deaf ends; later ones are good again."""
        with self.lock:
            self.hold = self.lose = None
            for pair in self.pairs:
                if pair.held is not None or pair.deaf:
                    self.end_client(pair)

    def deliver(self):
        """The node gets what was held back, and the end of those connections after it."""
        with self.lock:
            self.hold = None
            for pair in [pair for pair in self.pairs if pair.held is not None]:
                data, pair.held = pair.held, None
                with contextlib.suppress(OSError):
                    pair.server.sendall(data)
                if not pair.client_open:
                    with contextlib.suppress(OSError):
                        pair.server.shutdown(socket.SHUT_WR)

    def lead_to(self, target):
        """Another server from here on, or nowhere (None); every connection ends."""
        with self.lock:
            self.target = target or "unix:/nowhere"
            for pair in [*self.pairs]:
                self.end(pair)

    def close(self):
        os.write(self.woken, b"x")
        self.thread.join()

    # --- its thread ---

    def connect(self):
        if not self.target.startswith("unix:"):
            host, _, port = self.target.rpartition(":")
            return socket.create_connection((host, int(port)))
        server = socket.socket(socket.AF_UNIX)
        server.connect(self.target.removeprefix("unix:"))
        return server

    def accept(self):
        client = self.listener.accept()[0]
        try:
            server = self.connect()
        except OSError:
            client.close()
            return
        pair = Pair(client, server)
        self.pairs.append(pair)
        self.selector.register(client, selectors.EVENT_READ, pair)
        self.selector.register(server, selectors.EVENT_READ, pair)

    def end_client(self, pair):
        if pair.client_open:
            pair.client_open = False
            self.selector.unregister(pair.client)
            pair.client.close()

    def end_server(self, pair):
        if pair.server:
            self.selector.unregister(pair.server)
            pair.server.close()
            pair.server = None

    def end(self, pair):
        self.end_client(pair)
        self.end_server(pair)
        self.pairs.remove(pair)

    def tell(self, pair, data):
        if not pair.server:
            pair.server = self.connect()
            self.selector.register(pair.server, selectors.EVENT_READ, pair)
        pair.server.sendall(data)
        pair.asked = True

    def from_client(self, pair):
        data = pair.client.recv(65536)
        if not data:
            self.end_client(pair)
            if pair.held is None:
                self.end(pair)
            return
        if self.lose and self.lose in data:
            pair.deaf = True
        if pair.held is None and self.hold and self.hold in data:
            pair.held = b""
        if pair.held is None:
            self.tell(pair, data)
            self.passed = (self.passed + data)[-65536:]
        else:
            pair.held += data

    def from_server(self, pair):
        try:
            data = pair.server.recv(65536)
        except ConnectionError:
            data = b""
        if not data and self.keeps and not pair.asked:
            self.end_server(pair)
            return
        pair.asked = False
        if not data:
            self.end(pair)
        elif pair.client_open and not pair.deaf:
            time.sleep(self.delay_s)
            pair.client.sendall(data)

    def go(self):
        while True:
            for key, _ in self.selector.select():
                pair = key.data
                if key.fileobj == self.wake:
                    for one in [*self.pairs]:
                        self.end(one)
                    self.listener.close()
                    return
                with self.lock:
                    try:
                        if key.fileobj is self.listener:
                            self.accept()
                        elif pair in self.pairs and key.fileobj is pair.server:
                            self.from_server(pair)
                        elif pair in self.pairs and pair.client_open:
                            self.from_client(pair)
                    except OSError:
                        if pair in self.pairs:
                            self.end(pair)
