#!/usr/bin/env python3
"""A user whose every connection to PATH signals PROCESSES of its processes as it is closed, for SECONDS: each close takes the agent some
milliseconds. Prints a line once these processes are there.

  tests/support/signalled.py PATH PROCESSES SECONDS UID
"""
import contextlib
import fcntl
import os
import resource
import signal
import socket
import sys
import time


def sleep_for_ever():
    while True:
        signal.pause()


def connect(path, group):
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    fcntl.fcntl(connection, fcntl.F_SETOWN, -group)
    fcntl.fcntl(connection, fcntl.F_SETFL, fcntl.fcntl(connection, fcntl.F_GETFL) | os.O_ASYNC)
    with contextlib.suppress(OSError):
        connection.connect(path)
    return connection


def main():
    path, processes, seconds, uid = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
    os.setgid(uid)
    os.setuid(uid)
    signal.signal(signal.SIGIO, signal.SIG_IGN)
    group, sleepers, connections = os.getpgrp(), [], []
    for _ in range(processes):
        pid = os.fork()
        if pid == 0:
            sleep_for_ever()
        sleepers.append(pid)
    print("up", flush=True)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        connections.append(connect(path, group))
        if len(connections) > 3000:
            connections.pop(0).close()
    for pid in sleepers:
        os.kill(pid, signal.SIGKILL)
    for pid in sleepers:
        os.waitpid(pid, 0)


main()
