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
from rig import BUILD, OTHER_UID, Agent, agent_env, main, scenario, wait_until  # noqa: E402

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


@scenario("without a control group the lock of a job in a killed container lapses, and that of a hold is free at once", needs_root=True)
def killed_without_group(run):
    run.redis(3)
    agent = run.agent(ttl="60s", options=["--ttl-max", "60s"], system=True)
    command = run.for_others(COMMAND)
    other = ["setpriv", f"--reuid={OTHER_UID}", f"--regid={OTHER_UID}", "--clear-groups"]
    started = [run.spawn(*container("sh", "-c", '"$@"; exit $?', "sh", *other, command, *words), env=agent_env(agent))
               for words in (("run", "in/run", "--", "sleep", "1000"), ("hold", "--no-stdin", "in/hold"))]
    for name in ("in/run", "in/hold"):
        wait_until(lambda: run.show(name), 10, "its lock is held")  # noqa: B023
    for process in started:
        process.kill()
    result = run.holdfast("run", "-w", "20s", "in/hold", "--", "true", agent=agent)
    assert result.rc == 0, result
    result = run.holdfast("run", "-n", "in/run", "--", "true", agent=agent)
    assert result.rc == 75, result


@scenario("in a user namespace root's agent is trusted in /run/holdfast, and nowhere else", needs_root=True)
def user_namespace(run):
    run.redis(3)
    agent = run.agent(ttl="3s", options=["--ttl-max", "3s"], system=True)
    command = run.for_others(COMMAND)
    mounted = ["unshare", "--mount", "sh", "-c",
               f'mount -t tmpfs none /run && mkdir /run/holdfast && mount --bind {run.runtime_dir} /run/holdfast && exec "$@"', "sh"]
    other = ["setpriv", f"--reuid={OTHER_UID}", f"--regid={OTHER_UID}", "--clear-groups", "unshare", "--user", "--map-root-user"]
    ask = ["run", "-v", "job", "--", "echo", "done"]
    process = run.spawn(*mounted, *other, command, *ask, env={"HOLDFAST_AGENT": f"/run/holdfast/{agent.name}/sock"})
    assert process.wait(30) == 0 and "done" in process.out, process
    process = run.spawn(*other, command, *ask, env=agent_env(agent))
    assert process.wait(30) == EPERM and "neither root nor the caller's own uid 0" in process.err, process
    assert "mount its directory at /run/holdfast" in process.err, process


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


# Below: the numbers of processes are those of each namespace alone, so low ones are in both.
HOLDER = 100  # of the job's guardian in its container, and of a stranger in the other one
NEXT = f"echo {HOLDER - 1} >/proc/sys/kernel/ns_last_pid"


def asked_by_path(run, theirs):
    """`held` and `list --agent PATH` where /dev/shm is a pod's, with the table of an agent of that name whose directory is `theirs`; also
    while the agent at PATH hangs."""
    run.redis(3)
    agent = run.agent(ttl="20s", options=["--ttl-max", "20s"])
    holder = run.holder()
    holder.acquire("host/job")
    path = run.runtime_dir / agent.name / "sock"
    argv = [word if word != run.runtime_dir else theirs for word in run.agent_argv("a", ["a=127.0.0.1:1"], "20s")]
    own = ["unshare", "--mount", "sh", "-c", f'mount -t tmpfs none {theirs}; exec "$@"', "sh"]
    script = ('mount -t tmpfs none /dev/shm; "$@" & agent=$!; '
              f"until nsenter --target $agent --mount {COMMAND} status --agent {theirs}/{agent.name}/sock >{run.dir}/status; do sleep 0.05; done; "
              f"{COMMAND} list --agent {path}; {COMMAND} held --agent {path} host/job; echo code $?; "
              f"kill -STOP {agent.pid}; sleep 0.1; {COMMAND} held --agent {path} host/job; echo code $?; "
              f"kill -9 $agent; wait; {COMMAND} held --agent {path} host/job; echo code $?; kill -CONT {agent.pid}")
    process = run.spawn("unshare", "--mount", "sh", "-c", script, "sh", *own, *argv)
    process.wait(60)
    assert re.search(r"^host/job +held ", process.out, re.M), process
    assert f"is held by pid {holder.pid}" in process.err and process.out.endswith("code 3\ncode 4\ncode 4\n"), process


@scenario("a socket given by its path is that agent's, though this /dev/shm has another agent of that name", needs_root=True)
def same_names(run):
    other = run.dir / "other"
    other.mkdir()
    asked_by_path(run, other)


@scenario("the same where both have their directories at the same path", needs_root=True)
def same_paths(run):
    asked_by_path(run, run.runtime_dir)


def until(path):
    return f"until [ -e {path} ]; do sleep 0.05; done"


@scenario("check says held to nobody who only has the holder's number in another PID namespace, whether the agent lives or not",
          needs_root=True)
def same_numbers(run):
    run.redis(3)
    go, held, dead, socket_path = run.dir / "go", run.dir / "held", run.dir / "dead", run.runtime_dir / f"{run.tag}-a" / "sock"
    own = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c"]
    agent = " ".join(str(word) for word in run.agent_argv("a", None, "20s", options=["--ttl-max", "20s"]))
    here = run.spawn(*own, f"{agent} & agent=$!; {until(go)}; {NEXT}; "
                     f"{COMMAND} run --agent {socket_path} job -- sh -c 'echo runs >&2; exec sleep 60' & "
                     f"{until(run.dir / 'end')}; kill -9 $agent; wait", label="here")
    check = f"{COMMAND} held --agent {socket_path} job; echo code $?"
    there = run.spawn(*own, "for i in 1 2 3 4 5 6; do sleep 60 & done; " + NEXT + "; sh -c '"
                      f"echo number $$; {until(held)}; {check}; {until(dead)}; {check}; :' & wait", label="there")
    wait_until(lambda: "number" in there.out, what="the stranger is there")
    assert f"number {HOLDER}\n" in there.out, there
    here.wait_err("holdfastd: ready", 15)
    go.touch()
    here.wait_err("runs", 15)
    held.touch()
    wait_until(lambda: there.out.count("code") == 1, what="an answer")
    assert "code 4\n" in there.out and "another PID namespace" in there.err, there
    (run.dir / "end").touch()
    wait_until(lambda: not listens(socket_path), what="the agent is gone")
    dead.touch()
    wait_until(lambda: there.out.count("code") == 2, what="an answer")
    assert there.out.count("code 4\n") == 2, there
    here.kill()
    there.kill()


if __name__ == "__main__":
    main()
