#!/usr/bin/env python3
"""A holder dies while its agent is dead, and a new process gets its number before the next agent looks.

    unshare --pid --fork --mount-proc pid_reuse.py HOLDER AGENT_WORD...

To be run in a PID namespace of its own, where numbers can be chosen. Prints "reused PID HELD STATUS": whether the new
process, a holder of this project too, holds anything, and what its own acquire got. The caller has the nodes.
"""
import os
import subprocess
import sys
import time


def start(*argv, **options):
    return subprocess.Popen(argv, bufsize=0, **options)


def start_holder(program):
    holder = start(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    connect(holder)
    return holder


def connect(holder):
    """The agent's socket is there a moment before it listens."""
    for _ in range(1000):
        if say(holder, "connect")[0] == "ok":
            return
        time.sleep(0.01)
    sys.exit("the agent does not listen")


def say(holder, *words):
    holder.stdin.write((" ".join(words) + "\n").encode())
    return holder.stdout.readline().decode().split()


def start_agent(words, socket):
    agent = start(*words)
    while not os.path.exists(socket):
        time.sleep(0.01)
    return agent


def main():
    program, *words = sys.argv[1:]
    socket = os.path.join(words[words.index("--runtime-dir") + 1], words[words.index("--name") + 1], "sock")
    agent = start_agent(words, socket)
    holder = start_holder(program)
    assert say(holder, "acquire", "reused", "20000", "5000")[0] == "ok"
    agent.kill()
    agent.wait()
    holder.kill()
    holder.wait()
    os.unlink(socket)
    time.sleep(0.05)  # the kernel tells when a process started in steps of 10 ms
    pid = holder.pid
    with open("/proc/sys/kernel/ns_last_pid", "w") as file:
        file.write(str(pid - 1))
    heir = start(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert heir.pid == pid, f"{heir.pid}, not {pid}"
    agent = start_agent([word for word in words if word != "--assume-fresh"], socket)
    connect(heir)
    # The lease was released at once, so that a waiter need not wait for the TTL: the nodes show it.
    answer = say(heir, "acquire", "reused", "20000", "3000")
    print("reused", pid, " ".join(answer), flush=True)
    heir.kill()
    agent.terminate()
    agent.wait()


main()
