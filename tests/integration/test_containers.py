#!/usr/bin/env python3
"""An agent on the host, and programs in containers beside it, as docs/CONTAINERS.md has them: the socket is mounted, while /dev/shm, the
mounts, the process numbers and the user ids are the container's own. Another time namespace: test_bad_input.py."""
import pathlib
import re
import socket
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from rig import BUILD, Agent, agent_env, main, scenario, wait_until  # noqa: E402

COMMAND = BUILD / "bin" / "holdfast"
EPERM = 77


def container(*words, users=False):
    """The words of a container in which these run."""
    own = ["--user", "--map-root-user"] if users else []
    return ["unshare", *own, "--mount", "--ipc", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c",
            'mount -t tmpfs none /dev/shm && exec "$@"', "sh", *words]


def read_only(folder, *words):
    """The same words, where that folder is mounted read-only."""
    return ["sh", "-c", f'mount --bind {folder} {folder} && mount -o remount,bind,ro {folder} && exec "$@"', "sh", *words]


def inside(run, *words, agent, users=False, timeout_s=30):
    process = run.spawn(*container(COMMAND, *words, users=users), env=agent_env(agent))
    return process.wait(timeout_s), process


def listens(path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
        return probe.connect_ex(str(path)) == 0


def fleet(run):
    run.redis(3)
    return run.agent(ttl="3s", options=["--ttl-max", "3s"])


@scenario("a program in a container takes a lock by the socket, and lists what the host holds", needs_root=True)
def takes_and_reads(run):
    agent = fleet(run)
    holder = run.holder(agent)
    holder.acquire("host/job")
    for users in (False, True):
        rc, process = inside(run, "run", "in/job", "--", "echo", "done", agent=agent, users=users)
        assert rc == 0 and "done" in process.out, process
        rc, process = inside(run, "list", agent=agent, users=users)
        assert rc == 0 and re.search(r"^host/job +held ", process.out, re.M), process
        rc, process = inside(run, "run", "-n", "host/job", "--", "true", agent=agent, users=users)
        assert rc == 75 and "is held by" in process.err, process
    process = run.spawn(*container(*read_only(run.runtime_dir, COMMAND, "run", "in/job", "--", "echo", "done")), env=agent_env(agent))
    assert process.wait(30) == 0 and "done" in process.out, process
    for users in (False, True):
        rc, process = inside(run, "status", agent=agent, users=users)
        assert rc == 0 and "3 of 3 vote" in process.out, process


@scenario("a container that is killed with all its processes leaves its lock free at once", needs_root=True)
def killed(run):
    agent = fleet(run)
    process = run.spawn(*container("sh", "-c", '"$@"; exit $?', "sh", COMMAND, "run", "job", "--", "sleep", "1000"), env=agent_env(agent))
    wait_until(lambda: run.show("job"), 10, "the job holds its lock")
    pid = run.show("job")["pid"]
    assert pathlib.Path(f"/proc/{pid}").exists(), "the agent knows it by the host's number"
    process.kill()
    result = run.holdfast("run", "-w", "2s", "job", "--", "true", agent=agent)
    assert result.rc == 0, result


@scenario("an agent in a container, and a program outside its process numbers: refused, with what to do", needs_root=True)
def agent_within(run):
    run.redis(3)
    run.found(ttl="3s", options=["--ttl-max", "3s"])
    argv = run.agent_argv("a", None, "3s", False, options=["--ttl-max", "3s"])
    process = run.spawn(*container(*argv))
    sock = run.runtime_dir / f"{run.tag}-a" / "sock"
    wait_until(lambda: listens(sock), 15, "the agent listens")
    for program in ([COMMAND], container(COMMAND)):
        client = run.spawn(*program, "run", "--agent", sock, "job", "--", "true")
        assert client.wait(20) == EPERM, client.err
        assert "run the agent on the host, or share its PID namespace with this program" in client.err, client.err
    process.kill()


OWN_SHM = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /dev/shm && exec "$@"', "sh"]


# A fresh tmpfs begins with the same inode, so a copied table has that of the first agent's.
@scenario("a second agent on copies of an agent's files, in a container of its own: the leases of the first stay its own, and their holders "
          "hold them", needs_root=True)
def copied_into_another_container(run):
    run.redis(3)
    options = ["--ttl-max", "3s"]
    argv = run.agent_argv("a", None, "3s", options=options)
    agent = Agent(run, [*OWN_SHM, *argv], f"{run.tag}-a", "a").wait_ready()
    holder = run.holder(agent)
    holder.acquire("db/main")
    keys = [node.get("db/main") for node in run.nodes]

    saved, elsewhere = run.dir / "saved", run.dir / "elsewhere"
    elsewhere.mkdir()
    subprocess.run(["cp", "-a", f"/proc/{agent.pid}/root/dev/shm", saved], check=True)
    subprocess.run(["cp", "-a", run.runtime_dir / agent.name, elsewhere], check=True)
    argv[argv.index("--runtime-dir") + 1] = elsewhere
    second = run.spawn(*container("sh", "-c", f'cp -a {saved}/holdfast* /dev/shm && exec "$@"', "sh", *argv))
    second.wait_err("journal is a copy of a journal: its leases are neither readopted nor released", 15)
    wait_until(lambda: listens(elsewhere / agent.name / "sock"), 15, "the second agent listens")
    until = time.monotonic() + 6  # two TTLs: neither at once nor at the V that the copy has
    while time.monotonic() < until:
        assert [node.get("db/main") for node in run.nodes] == keys, second.err
        assert holder.held(), second.err
        time.sleep(0.02)
    second.kill()
    agent.stop()


@scenario("an agent that is started again in another PID namespace leaves a lease whose holder it does not see, and says what to do",
          needs_root=True)
def out_of_sight(run):
    run.redis(3)
    options = ["--ttl-max", "30s"]
    agent = run.agent(ttl="30s", options=options)
    holder = run.holder()
    holder.acquire("db/main")
    agent.kill()
    argv = run.agent_argv("a", None, "30s", options=options)
    second = run.spawn("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", *argv)
    second.wait_err("holders of 1 leases are in another PID namespace", 15)
    wait_until(lambda: (run.show("db/main") or {}).get("orphan"), 15, "the lease is shown as one that lapses")
    until = time.monotonic() + 2
    while time.monotonic() < until:
        assert run.holders_of("db/main") == 3 and holder.held(), second.err
        time.sleep(0.05)
    second.kill()


if __name__ == "__main__":
    main()
