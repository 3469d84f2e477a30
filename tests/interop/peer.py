#!/usr/bin/python3
"""Another client of the same keys, as a process beside Holdfast's contenders.

    peer.py redis-py|recreating talk SOCKET...     commands from stdin: take NAME TTL_MS WAIT_MS, extend, held, release;
                                                   answers "ok KEY=VALUE"
    peer.py redis-py|recreating contend SOCKET...  until stdin ends; settings in $INTEROP, as JSON

redis-py: redis.lock.Lock of Debian's python3-redis on the one server; a TTL of 0 is its default, a key without expiry.
recreating: a Redlock whose extension sets a key anew where it is missing, and counts that as a vote, as RedLock.net,
redlock-rb and aioredlock do.
"""
import contextlib
import json
import os
import pathlib
import random
import secrets
import struct
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from history import HOLD, LOST, RECORD, RELEASED, SIGHTING, WORD_PID_SHIFT  # noqa: E402
from resp import Resp, RespError  # noqa: E402

LATE_TTL_MS = 300  # of a lock that lapses, is then extended all the same, and may so be had again


def now_ns():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class RedisPy:
    """Careful with the time: what the library's Lock does not say is until when it holds."""

    def __init__(self, sockets):
        import redis  # of /usr/bin/python3 only
        self.errors = redis.exceptions.RedisError
        self.redis = redis.Redis(unix_socket_path=sockets[0])

    def take(self, name, ttl_ms, wait_ms):
        lock = self.redis.lock(name, timeout=ttl_ms / 1000 if ttl_ms else None)
        give_up = now_ns() + wait_ms * 1_000_000
        with contextlib.suppress(self.errors):
            while True:
                self.from_ns = now_ns()
                if lock.acquire(blocking=False):
                    self.lock, self.ttl_ms = lock, ttl_ms
                    return self
                if self.from_ns > give_up:
                    break
                time.sleep(0.02)
        return None

    def held(self):
        return not self.ttl_ms or now_ns() < self.from_ns + self.ttl_ms * 990_000 - 2_000_000

    def extend(self):
        start = now_ns()
        try:
            self.lock.extend(self.ttl_ms / 1000, replace_ttl=True)
        except self.errors:
            return False
        self.from_ns = start
        return True

    def release(self):
        with contextlib.suppress(self.errors):
            self.lock.release()


EXTEND = """local token = redis.call('GET', KEYS[1])
if not token then redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) return 2 end
return token == ARGV[1] and redis.call('PEXPIRE', KEYS[1], ARGV[2]) or 0"""
RELEASE = "return redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('DEL', KEYS[1]) or 0"


class Recreating:
    def __init__(self, sockets):
        self.sockets, self.nodes = sockets, [None] * len(sockets)
        self.recreated = 0

    def votes(self, *command):
        """Answers of the nodes, one after the other, None for one that gave none."""
        answers = []
        for i, path in enumerate(self.sockets):
            try:
                self.nodes[i] = self.nodes[i] or Resp(f"unix:{path}", 0.5)
                answers.append(self.nodes[i].cmd(*command))
            except (OSError, RespError):
                self.nodes[i] = None
                answers.append(None)
        return answers

    def round(self, ttl_ms, good, *command):
        start = now_ns()
        answers = self.votes(*command)
        won = sum(answer in good for answer in answers) > len(answers) // 2
        if won:
            self.until_ns = start + ttl_ms * 990_000 - 2_000_000
        return won and self.held(), answers

    def take(self, name, ttl_ms, wait_ms):
        give_up = now_ns() + wait_ms * 1_000_000
        while True:
            self.name, self.ttl_ms, self.token = name, ttl_ms, secrets.token_hex(20)
            if self.round(ttl_ms, ("OK",), "SET", name, self.token, "NX", "PX", ttl_ms)[0]:
                return self
            self.release()
            if now_ns() > give_up:
                return None
            time.sleep(random.uniform(0.01, 0.06))

    def held(self):
        return now_ns() < self.until_ns

    def extend(self):
        """Also of a lock that has lapsed."""
        good, answers = self.round(self.ttl_ms, (1, 2), "EVAL", EXTEND, 1, self.name, self.token, self.ttl_ms)
        self.recreated += answers.count(2)
        return good

    def release(self):
        self.votes("EVAL", RELEASE, 1, self.name, self.token)


# --- contending ----------------------------------------------------------------------------------------


class Record:
    """History and witness as in tests/support/witness.h."""

    def __init__(self, options):
        self.history = open(options["history"], "wb", buffering=0)
        self.witness = os.open(options["witness"], os.O_RDWR)
        self.host, self.last, self.sightings = options["host"], os.getpid() << WORD_PID_SHIFT, 0

    def write(self, kind, end, ask, first, latest, first_word, word):
        self.history.write(RECORD.pack(kind, 0, os.getpid(), self.host, 0, end, 0, ask, first, latest, now_ns(), first_word,
                                       word, 0, b""))

    def hold(self, lock, ask, until, extend_ns, stop):
        """Returns how many extensions went well and not, and whether it was lost."""
        first = extended = now_ns()
        latest = first_word = good = bad = 0
        while True:
            at = now_ns()
            found, = struct.unpack("<Q", os.pread(self.witness, 8, 0))
            if not lock.held():
                break
            if latest and found != self.last:
                self.write(SIGHTING, 0, ask, at, at, first_word, found)
                self.sightings += 1
            self.last += 1
            latest, first_word = at, first_word or self.last
            os.pwrite(self.witness, struct.pack("<Q", self.last), 0)
            if at >= until or stop.is_set():
                break
            if lock.ttl_ms and at - extended > extend_ns:
                extended = at
                if lock.extend():
                    good += 1
                else:
                    bad += 1
            else:
                time.sleep(0.0005)
        lost = not lock.held()
        if latest:
            self.write(HOLD, LOST if lost else RELEASED, ask, first, latest, first_word, self.last)
        return good, bad, lost


def contend(peer):
    options = json.loads(os.environ["INTEROP"])
    record = Record(options)
    counts = dict.fromkeys(("grants", "refused", "extends", "not_extended", "lost", "late", "late_extended"), 0)
    stop = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), stop.set()), daemon=True).start()
    print("ready", flush=True)

    def use(ask, long):
        until = now_ns() + int(1e6 * (options["long_ms"] if long else options["hold_ms"]))
        good, bad, lost = record.hold(peer, ask, until, options["extend_ms"] * 1_000_000, stop)
        counts["extends"] += good
        counts["not_extended"] += bad
        counts["lost"] += lost

    while not stop.is_set():
        ask = now_ns()
        late = random.random() < options.get("late_share", 0)
        endless = random.random() < options.get("endless_share", 0)
        if not peer.take(options["name"], LATE_TTL_MS if late else 0 if endless else options["ttl_ms"], options["wait_ms"]):
            counts["refused"] += 1
        else:
            counts["grants"] += 1
            use(ask, not late and random.random() < options["long_share"])
            if late:
                time.sleep(random.uniform(1.1, 1.5) * LATE_TTL_MS / 1000)
                counts["late"] += 1
                if peer.extend():
                    counts["late_extended"] += 1
                    use(ask, False)
            peer.release()
        time.sleep(random.random() * options["pause_ms"] / 1000)
    counts.update(sightings=record.sightings, recreated=getattr(peer, "recreated", 0))
    print(json.dumps(counts), flush=True)


# --- talking -------------------------------------------------------------------------------------------


def talk(peer):
    commands = {
        "take": lambda name, ttl_ms, wait_ms: "taken=1" if peer.take(name, int(ttl_ms), int(wait_ms)) else "refused=False",
        "extend": lambda: f"extended={int(peer.extend())}",
        "held": lambda: f"held={int(peer.held())}",
        "release": lambda: peer.release() or "released=1",
    }
    for line in sys.stdin:
        command, *args = line.split()
        print("ok", commands[command](*args), flush=True)


if __name__ == "__main__":
    kind, mode, *paths = sys.argv[1:]
    (talk if mode == "talk" else contend)((RedisPy if kind == "redis-py" else Recreating)(paths))
