#!/usr/bin/env python3
"""holdfastd as a program: how it starts, what it says to whom, what it leaves behind, and its private nodes."""
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from manager import Manager  # noqa: E402
from rig import BUILD, OTHER_UID, alive, main, scenario, wait_until  # noqa: E402

HOLDFASTD = BUILD / "bin" / "holdfastd"


def home(run, agent):
    return run.runtime_dir / agent.name


def table_of(agent):
    return pathlib.Path("/dev/shm") / f"holdfast{'' if os.geteuid() == 0 else f'-{os.geteuid()}'}.{agent.name}"


def ask(run, agent, request):
    """The answer of the control socket."""
    with socket.socket(socket.AF_UNIX) as peer:
        peer.settimeout(20)
        peer.connect(str(home(run, agent) / "control"))
        peer.sendall(request.encode() + b"\n")
        answer = b""
        while piece := peer.recv(65536):
            answer += piece
    return answer.decode()


def private_nodes(run, agent):
    """The process ids of --dev's servers, by their directory in the command line."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and str(home(run, agent)).encode() in (entry / "cmdline").read_bytes() and \
                    b"redis" in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            pass
    return found


# --- private nodes ---------------------------------------------------------------------------------------


@scenario("--dev N: N servers that vote at once; a clean end leaves no process, no file and no shared memory")
def dev_leaves_nothing(run):
    agent = run.dev_agent(5)
    assert "5 nodes, quorum 3" in agent.err, agent.err
    assert len(private_nodes(run, agent)) == 5
    dev = list(home(run, agent).glob("dev-*"))
    assert len(dev) == 1 and dev[0].stat().st_mode & 0o777 == 0o700
    assert run.holdfast("run", "-n", "job", "--", "true").rc == 0
    nodes = private_nodes(run, agent)
    agent.stop()
    assert not any(alive(pid) for pid in nodes)
    assert not home(run, agent).exists() and not table_of(agent).exists()


@scenario("kill -9 of a --dev agent: all of it ends, and the next start removes what is left, however soon")
def dev_killed(run):
    for _ in range(5):
        agent = run.dev_agent()
        nodes, old = private_nodes(run, agent), list(home(run, agent).glob("dev-*"))
        rest = [*nodes, agent.agent_pid]
        assert len(rest) == 4 and len(old) == 1, (rest, old)
        agent.signal(signal.SIGKILL)
        assert agent.wait() == -signal.SIGKILL
    wait_until(lambda: not any(alive(pid) for pid in rest), 5, "agent and private nodes end")
    assert old[0].exists()
    agent = run.dev_agent()
    assert len(list(home(run, agent).glob("dev-*"))) == 1 and not old[0].exists()
    assert run.holdfast("run", "-n", "job", "--", "true").rc == 0
    agent.stop()
    assert not home(run, agent).exists()


@scenario("a signal that kills the agent of --dev: the private nodes and their files go with it, and the program ends by that signal")
def dev_agent_killed(run):
    for number, target in ((signal.SIGKILL, "agent"), (signal.SIGQUIT, "wrapper")):
        agent = run.dev_agent()
        nodes = private_nodes(run, agent)
        os.kill(agent.agent_pid if target == "agent" else agent.pid, number)
        assert agent.wait() == -number, agent.err
        assert f"ended by signal {number:d} " in agent.err
        assert len(nodes) == 3 and not any(alive(pid) for pid in nodes)
        assert home(run, agent).exists() and not list(home(run, agent).glob("dev-*"))
    agent = run.dev_agent()
    os.kill(agent.agent_pid, signal.SIGTERM)
    assert agent.wait() == 0 and not home(run, agent).exists(), agent.err


@scenario("^C at a terminal: the agent tells its jobs, and the private nodes stay until it has ended")
def dev_interrupted(run):
    agent = run.dev_agent(options=("--ttl", "20s"))
    assert os.getpgid(agent.agent_pid) == agent.pid
    nodes, seen = private_nodes(run, agent), run.dir / "seen"
    job = run.start_holdfast("run", "job", "--", "sh", "-c",
                             f"trap 'echo told; until [ -e {seen} ]; do sleep 0.05; done; echo ended; exit 9' TERM; "
                             "echo begun; sleep 60 & wait")
    job.wait_out("begun")
    os.killpg(agent.pid, signal.SIGINT)
    job.wait_out("told")
    assert agent.running and agent.agent_pid and len(nodes) == 3 and all(alive(pid) for pid in nodes)
    seen.touch()
    assert agent.wait() == 0, agent.err
    assert job.wait() in (9, 124), job.err
    assert "ended" in job.out
    assert agent.err.count("by signal INT") == 1, agent.err
    assert not any(alive(pid) for pid in nodes) and not home(run, agent).exists()


@scenario("a second --dev agent of one name is refused before it starts a server")
def dev_second(run):
    agent = run.dev_agent()
    second = run.spawn(*agent.argv, env={"PATH": "/nonexistent"})
    assert second.wait() == 75, second.err
    assert f"an agent named '{agent.name}' runs already: pid {agent.pid}," in second.err, second.err
    assert len(private_nodes(run, agent)) == 3 and len(list(home(run, agent).glob("dev-*"))) == 1
    agent.stop()


@scenario("--dev passes on the agent's exit code, also where SIGCHLD was ignored, and its words for SIGHUP")
def dev_exit_code(run):
    agent = run.dev_agent()
    run.holder().acquire("job")
    agent.signal(signal.SIGHUP)
    agent.wait_err("restart the agent instead: with --dev it cannot reload")
    agent.kill()
    with open(home(run, agent) / "journal", "r+b") as file:
        file.seek(16)
        file.write(b"\xff")
    again = run.spawn("env", "--ignore-signal=CHLD", *agent.argv)
    assert again.wait() == 71 and "damaged" in again.err, again.err
    assert not list(home(run, agent).glob("dev-*"))


@scenario("--dev without a redis-server: 69, its name and the remedy, and nothing is left")
def dev_without_server(run):
    agent = run.spawn(HOLDFASTD, "--dev", "--name", f"{run.tag}-x", "--runtime-dir", run.runtime_dir,
                      env={"PATH": "/nonexistent"})
    assert agent.wait() == 69
    assert "redis-server" in agent.err and "apt install" in agent.err, agent.err
    assert not list(run.runtime_dir.iterdir())


@scenario("a private node that ends is told, and is not started again")
def dev_node_ends(run):
    agent = run.dev_agent()
    os.kill(private_nodes(run, agent)[0], signal.SIGKILL)
    agent.wait_err(r"the private node n\d \(pid \d+\) has ended")
    assert len(private_nodes(run, agent)) == 2
    assert run.holdfast("run", "-n", "job", "--", "true").rc == 0


# --- what it says ----------------------------------------------------------------------------------------


@scenario("a service manager hears of ready, life and ending; at a path and in the abstract namespace")
def service_manager(run):
    run.redis(3)
    for abstract in (False, True):
        manager = Manager(run, abstract)
        agent = run.agent(label=f"a{abstract:d}", env={"NOTIFY_SOCKET": manager.address, "WATCHDOG_USEC": "400000"})
        manager.wait(r"(?m)^READY=1\n(.*\n)*STATUS=Ready")
        manager.read()
        manager.said.clear()
        wait_until(lambda: manager.read().count("WATCHDOG=1") >= 3, what="life signs")
        agent.stop()
        manager.wait("(?m)^STOPPING=1")
        assert manager.read().count("READY=1") == 0
        manager.socket.close()


@scenario("a service manager that listens to the process it started hears all of that from --dev, too")
def service_manager_dev(run):
    manager = Manager(run)
    manager.socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    heard = []

    def hears(pattern):
        while True:
            try:
                text, credentials, _, _ = manager.socket.recvmsg(4096, socket.CMSG_SPACE(12))
            except BlockingIOError:
                return any(re.search(pattern, said) for said, _ in heard)
            heard.append((text.decode(), struct.unpack("iII", credentials[0][2])[0]))

    argv = run.agent_argv("dev", fresh=False, options=("--dev",))
    agent = run.spawn("sh", "-c", 'WATCHDOG_PID=$$ exec "$@"', "sh", *argv,
                      env={"NOTIFY_SOCKET": manager.address, "WATCHDOG_USEC": "400000"})
    for pattern in (r"(?m)^READY=1\n(.*\n)*STATUS=Ready", "WATCHDOG=1"):
        wait_until(lambda: hears(pattern), 20, pattern)
    agent.signal(signal.SIGTERM)
    assert agent.wait() == 0, agent.err
    assert hears("(?m)^STOPPING=1")
    assert {pid for _, pid in heard} == {agent.pid}, heard


@scenario("too few nodes: the service manager hears that it runs and what it waits for, and later of ready")
def service_manager_waits(run):
    manager = Manager(run)
    nodes = run.redis(3)
    run.found()
    for node in nodes[1:]:
        node.kill()
    agent = run.agent(wait=False, env={"NOTIFY_SOCKET": manager.address})
    agent.wait_err(r"(?m)^\S+Z holdfastd: waiting: .*\S")
    manager.wait(r"(?m)^READY=1\nSTATUS=Waiting: .*2 are needed")
    nodes[1].start()
    agent.wait_ready(30)
    manager.wait(r"(?m)^STATUS=Ready")


@scenario("nobody reads the agent's stderr any more: it goes on all the same")
def closed_stderr(run):
    run.redis(3)
    reading, writing = os.pipe()
    argv = run.agent_argv(options=("--log-level", "debug", "--ttl", "3s"))
    run.agents.append(agent := run.spawn("sh", "-c", f'exec "$@" 2>&{writing}', "sh", *argv, label="agent",
                                         pass_fds=(writing,)))
    agent.name = f"{run.tag}-a"
    os.close(writing)
    said = b""
    while b"holdfastd: ready" not in said:
        said += os.read(reading, 65536)
    os.close(reading)
    holder = run.holder()
    holder.acquire("job", 3000)
    time.sleep(4)
    assert holder.held() and agent.running
    holder.release()
    agent.signal(signal.SIGTERM)
    assert agent.wait() == 0


# --- the table and the directory -------------------------------------------------------------------------


@scenario("the table is removed under the agent: said once, and its holders go on")
def table_removed(run):
    run.redis(3)
    agent = run.agent(ttl="3s")
    holder = run.holder()
    holder.acquire("job", 3000)
    table_of(agent).unlink()
    agent.wait_err("was removed or replaced by somebody")
    time.sleep(3.5)
    assert holder.held()
    assert agent.err.count("was removed or replaced") == 1
    holder.release()
    agent.stop()


@scenario("files are private where only the agent's user is served, and the table is as table_mode says")
def modes(run):
    agent = run.dev_agent(options=("--table-mode", "0600"))
    assert table_of(agent).stat().st_mode & 0o777 == 0o600
    assert home(run, agent).stat().st_mode & 0o777 == 0o700
    for name, mode in (("sock", 0o600), ("control", 0o600), ("journal", 0o600), ("nodes", 0o600), ("lock", 0o600)):
        assert (home(run, agent) / name).stat().st_mode & 0o777 == mode, name
    assert int((home(run, agent) / "lock").read_text()) == agent.pid


@scenario("a directory that others may write to, or another user's: refused with 77", needs_root=True)
def foreign_directory(run):
    argv = run.agent_argv(nodes=["a=127.0.0.1:1"])
    place = run.runtime_dir / f"{run.tag}-a"
    place.mkdir()
    place.chmod(0o777)
    agent = run.spawn(*argv)
    assert agent.wait() == 77 and "may be written by others" in agent.err, agent.err
    place.chmod(0o700)
    os.chown(place, OTHER_UID, OTHER_UID)
    agent = run.spawn(*argv)
    assert agent.wait() == 77 and f"uid {OTHER_UID}" in agent.err, agent.err


@scenario("an ordinary user's agent: files in XDG_RUNTIME_DIR, a table with the uid; without one, told what to do",
          needs_root=True)
def ordinary_user(run):
    user_dir = run.dir / "xdg"
    user_dir.mkdir(mode=0o700)
    os.chown(user_dir, OTHER_UID, OTHER_UID)
    name = f"{run.tag}-u"
    env = {"XDG_RUNTIME_DIR": user_dir, "HOLDFAST_RUNTIME_DIR": "", "HOLDFAST_AGENT": name}
    agent = run.spawn(HOLDFASTD, "--dev", "--name", name, uid=OTHER_UID, env=env)
    agent.wait_err(r"(?m)^\S+Z holdfastd: ready")
    assert (user_dir / "holdfast" / name / "sock").exists()
    table = pathlib.Path(f"/dev/shm/holdfast-{OTHER_UID}.{name}")
    assert table.stat().st_uid == OTHER_UID
    job = run.start_holdfast("run", "-n", "job", "--", "true", uid=OTHER_UID, env=env)
    assert job.wait() == 0, job.err
    agent.signal(signal.SIGTERM)
    assert agent.wait() == 0, agent.err
    assert not table.exists() and not (user_dir / "holdfast" / name).exists()

    agent = run.spawn(HOLDFASTD, "--dev", "--name", name, uid=OTHER_UID,
                      env={"XDG_RUNTIME_DIR": "", "HOLDFAST_RUNTIME_DIR": ""})
    assert agent.wait() == 64 and "--runtime-dir" in agent.err, agent.err


def within(run, place, env, first, *argv):
    """Spawns it where /run, the place of the host's agents, is `place`. `first`: words before the command."""
    words = ["unshare", "--mount", "sh", "-c", f'mount --bind {place} /run && exec {first} "$@"', "sh"]
    return run.spawn(*words, *(run.for_others(arg) for arg in argv), env=env)


AS_OTHER = f"setpriv --reuid {OTHER_UID} --regid {OTHER_UID} --clear-groups"


@scenario("while a user's own agent is away its locks are not looked for at the host's agent of the same name", needs_root=True)
def away(run):
    run.redis(3)
    name, place, user_dir = f"{run.tag}-y", run.dir / "system", run.dir / "xdg"
    (place / "holdfast").mkdir(parents=True)
    user_dir.mkdir(mode=0o700)
    os.chown(user_dir, OTHER_UID, OTHER_UID)
    env = {"XDG_RUNTIME_DIR": user_dir, "HOLDFAST_RUNTIME_DIR": "", "HOLDFAST_AGENT": name}

    def try_it():
        return within(run, place, env, AS_OTHER, BUILD / "bin" / "holdfast", "run", "-n", "-v", "job", "true")

    nodes = [word for node in run.nodes for word in ("--node", node.spec)]
    system = within(run, place, env, "", HOLDFASTD, "--system", "--assume-fresh", "--name", name, *nodes)
    system.wait_err(r"holdfastd: (\w+: )?ready")
    hosts = try_it()
    assert hosts.wait() == 0, hosts.err  # the user has no agent
    own = within(run, place, env, AS_OTHER, HOLDFASTD, "--assume-fresh", "--name", name, *nodes)
    own.wait_err(r"(?m)^\S+Z holdfastd: ready")
    own.signal(signal.SIGTERM)
    assert own.wait() == 0, own.err
    gone = try_it()
    assert gone.wait() == 69 and "not the host's agent" in gone.err and f"--agent /run/holdfast/{name}/sock" in gone.err, gone.err
    shutil.rmtree(user_dir / "holdfast" / name)
    hosts = try_it()
    assert hosts.wait() == 0, hosts.err


@scenario("a user's own --dev agent beside the host's of the same name: run says that it takes it, and how to take the host's; status of a "
          "path shows the table of that very agent", needs_root=True)
def shadowed(run):
    run.redis(3)
    name, place, user_dir = f"{run.tag}-s", run.dir / "system", run.dir / "xdg"
    (place / "holdfast").mkdir(parents=True)
    user_dir.mkdir(mode=0o700)
    os.chown(user_dir, OTHER_UID, OTHER_UID)
    env = {"XDG_RUNTIME_DIR": user_dir, "HOLDFAST_RUNTIME_DIR": "", "HOLDFAST_AGENT": name}
    own = within(run, place, env, AS_OTHER, HOLDFASTD, "--dev", "--name", name)
    own.wait_err(r"(?m)^\S+Z holdfastd: ready")
    quiet = within(run, place, env, AS_OTHER, BUILD / "bin" / "holdfast", "run", "-n", "job", "true")
    assert quiet.wait() == 0 and quiet.err == "", quiet.err
    nodes = [word for node in run.nodes for word in ("--node", node.spec)]
    system = within(run, place, env, "", HOLDFASTD, "--system", "--assume-fresh", "--name", name, *nodes)
    system.wait_err(r"holdfastd: (\w+: )?ready")
    told = within(run, place, env, AS_OTHER, BUILD / "bin" / "holdfast", "run", "-n", "job", "true")
    assert told.wait() == 0, told.err
    assert "your own agent" in told.err and f"--agent /run/holdfast/{name}/sock" in told.err, told.err
    for args in (("--agent", f"/run/holdfast/{name}/sock"), ("--agent", f"{user_dir}/holdfast/{name}/sock")):  # whoever says which
        chosen = within(run, place, env, AS_OTHER, BUILD / "bin" / "holdfast", "run", *args, "-n", "job", "true")
        assert chosen.wait() == 0 and chosen.err == "", chosen.err
    # Root asks for the user's by its path, and gets no other.
    shown = within(run, place, env, "", BUILD / "bin" / "holdfast", "status", "--json", "--agent", f"{user_dir}/holdfast/{name}/sock")
    assert shown.wait() == 0, shown.err
    agent = json.loads(shown.out)["agent"]
    assert agent["uid"] == OTHER_UID and agent["dev"], agent
    for process in (own, system):
        process.signal(signal.SIGTERM)
        assert process.wait() == 0, process.err


@scenario("many starts of one name at once: one agent runs, the others are refused, and none harms it")
def starts_at_once(run):
    run.redis(3)
    agents = [run.agent(wait=False) for _ in range(6)]
    wait_until(lambda: sum(a.running for a in agents) == 1, 20, "one agent is left")
    winner = next(a for a in agents if a.running)
    winner.wait_ready()
    for agent in agents:
        if agent is not winner:
            assert agent.wait() == 75 and "runs already" in agent.err, agent.err
    assert run.holdfast("run", "-n", "job", "--", "true").rc == 0


# --- another journal -------------------------------------------------------------------------------------


@scenario("a journal that is damaged is refused in words, and is left as it is")
def damaged_journal(run):
    run.redis(3)
    agent = run.agent()
    holder = run.holder()
    holder.acquire("job")
    agent.kill()
    journal = home(run, agent) / "journal"
    with open(journal, "r+b") as file:
        file.seek(16)
        file.write(b"\xff")
    size = journal.stat().st_size
    again = run.spawn(*run.agent_argv())
    assert again.wait() == 71 and "damaged" in again.err and str(journal) in again.err, again.err
    assert journal.stat().st_size == size


# --- the control socket ----------------------------------------------------------------------------------


@scenario("peers of the control socket that say nothing, too much, or do not read: dropped, and nobody waits for them")
def control_bad_peers(run):
    agent = run.dev_agent()
    silent = [socket.socket(socket.AF_UNIX) for _ in range(6)]
    for peer in silent:
        peer.connect(str(home(run, agent) / "control"))
    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect(str(home(run, agent) / "control"))
        peer.sendall(b"x" * 600)
        peer.settimeout(10)
        try:
            assert peer.recv(1) == b""
        except ConnectionResetError:
            pass
    before = time.monotonic()
    assert ask(run, agent, "stop").startswith("error: the requests are: ")
    assert time.monotonic() - before < 2
    for peer in silent:
        peer.settimeout(20)
        assert peer.recv(1) == b""
        peer.close()


def without_threads(run):
    """A program that starts holdfastd where its user has as many processes as it may have."""
    run.runtime_dir.chmod(0o777)
    script = run.dir / "without-threads"
    script.write_text(f'#!/bin/sh\nexec prlimit --nproc=1:4096 {run.for_others(HOLDFASTD)} "$@"\n')
    script.chmod(0o755)
    return {"program": script, "uid": OTHER_UID if os.geteuid() == 0 else None}


@scenario("a host that has no thread left for the agent: it tries again, says so, and goes on when there is one", sanitizers=False)
def a_thread_later(run):
    run.redis(3)
    agent = run.agent(wait=False, **without_threads(run))
    agent.wait_err(r"cannot start the \w+ thread: .*; trying again for 4 s")
    time.sleep(0.3)
    more = run.spawn("prlimit", "--pid", agent.pid, "--nproc=4096:4096", uid=OTHER_UID if os.geteuid() == 0 else None)
    assert more.wait() == 0, more.err
    agent.wait_ready()
    assert agent.err.count("trying again") == 1, agent.err


@scenario("a host that has no thread left for the agent for longer ends it with 71 and the reason", sanitizers=False)
def no_thread(run):
    run.redis(3)
    agent = run.agent(wait=False, **without_threads(run))
    begun = time.monotonic()
    assert agent.wait(20) == 71, agent.err
    assert time.monotonic() - begun > 3.9
    assert re.search("error: cannot start a thread in .*: Resource temporarily unavailable\n\\Z", agent.err), agent.err


@scenario("signals that mean nothing to an agent: it goes on, and its leases with it")
def stray_signals(run):
    run.redis(3)
    agent = run.agent()
    holder = run.holder()
    holder.acquire("job")
    ends = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL, signal.SIGQUIT, signal.SIGABRT, signal.SIGILL, signal.SIGTRAP,
            signal.SIGBUS, signal.SIGFPE, signal.SIGSEGV, signal.SIGSYS, signal.SIGXCPU}
    stops = {signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}
    for number in sorted(signal.valid_signals() - ends - stops):
        os.kill(agent.pid, number)
    time.sleep(0.3)
    assert run.holdfast("status").rc == 0 and holder.held()
    assert run.holdfast("run", "-n", "other", "true").rc == 0


if __name__ == "__main__":
    main()
