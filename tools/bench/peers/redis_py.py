#!/usr/bin/python3
"""Locks and unlocks by redis-py's Lock, as fast as it goes: prints a line of JSON.

    redis_py.py one CYCLES NODE...                  one after the other
    redis_py.py many MILLISECONDS CLIENTS NODE...   CLIENTS at a time

redis-py's lock is that of one server. By whole fan-out it is taken on every node: one after the other where one lock is
taken at a time, as Python's Redlock libraries do it, and all at once where CLIENTS tasks of an event loop take locks.
"""
import asyncio
import json
import sys
import time

import redis  # of /usr/bin/python3 only: Debian's python3-redis
import redis.asyncio

TTL_S = 30


def at(node):
    """How redis-py is told of a node: a port of this host, or the path of a unix socket."""
    return {"unix_socket_path": node} if node.startswith("/") else {"port": int(node)}


def one_by_one(paths, cycles):
    nodes = [redis.Redis(**at(path)) for path in paths]
    samples = []
    for k in range(-100, cycles):
        start = time.perf_counter()
        locks = [node.lock(f"redis-py/{k & 255}", timeout=TTL_S) for node in nodes]
        if not all([lock.acquire(blocking=False) for lock in locks]):
            sys.exit("redis-py: not free")
        for lock in locks:
            lock.release()
        if k >= 0:
            samples.append((time.perf_counter() - start) * 1e6)
    samples.sort()
    return {f"p{p}_us": round(samples[int((len(samples) - 1) * p / 100)], 1) for p in (50, 99)}


async def many_at_a_time(paths, milliseconds, clients):
    nodes = [redis.asyncio.Redis(**at(path)) for path in paths]
    start = time.perf_counter()
    count = 0

    async def client(number):
        nonlocal count
        k = 0
        while time.perf_counter() - start < milliseconds / 1e3:
            locks = [node.lock(f"redis-py/{number}/{k & 63}", timeout=TTL_S) for node in nodes]
            await asyncio.gather(*(lock.acquire(blocking=False) for lock in locks))
            await asyncio.gather(*(lock.release() for lock in locks))
            count += 1
            k += 1

    await asyncio.gather(*map(client, range(clients)))
    return {"clients": clients, "cycles_per_s": round(count / (time.perf_counter() - start))}


if __name__ == "__main__":
    if sys.argv[1] == "one":
        paths, figures = sys.argv[3:], one_by_one(sys.argv[3:], int(sys.argv[2]))
    else:
        paths, figures = sys.argv[4:], asyncio.run(many_at_a_time(sys.argv[4:], int(sys.argv[2]), int(sys.argv[3])))
    print(json.dumps({"bench": "peer", "peer": "redis-py", "nodes": len(paths), **figures}))
