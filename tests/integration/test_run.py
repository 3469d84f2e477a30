#!/usr/bin/env python3
"""`holdfast run` on real nodes: what a job sees, and that no process of it outlives its lock.

With T for the TTL the job gets SIGTERM at V - 0.3 T and SIGKILL at V - 0.1 T.
"""
import fcntl
import os
import pathlib
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from jobs import TELLS, TOUGH, TTL_S, Job, S, Watcher, assert_at, assert_killed_in_time, python, ready, tough, without_groups  # noqa: E402
from rig import BUILD, SLOW, alive, boottime_ns, main, scenario, stat_letter, wait_until  # noqa: E402

# --- what a job sees -----------------------------------------------------------------------------------


@scenario("run gives the command's exit code, and its own where there is none")
def exit_codes(run):
    ready(run)
    assert run.holdfast("run", "job", "true").rc == 0
    assert run.holdfast("run", "job", "--", "sh", "-c", "exit 7").rc == 7
    assert run.holdfast("run", "job", "sh", "-c", "kill -TERM $$").rc == 128 + signal.SIGTERM
    missing = run.holdfast("run", "job", "/nonexistent/command")
    assert missing.rc == 127 and "No such file" in missing.err, missing
    script = run.dir / "script"
    script.write_text("not executable")
    denied = run.holdfast("run", "job", script)
    assert denied.rc == 126 and "Permission denied" in denied.err, denied
    run.keys_gone("job")


@scenario("run refuses bad names, times and options with 64")
def bad_usage(run):
    ready(run)
    for args, text in [
        ((), "NAME is missing"),
        (("job",), "command"),
        (("", "true"), "empty"),
        (("x" * 256, "true"), "255"),
        (("holdfast:x", "true"), "reserved"),
        (("-t", "0", "job", "true"), "zero"),
        (("-t", "-1", "job", "true"), "-1"),
        (("-t", "soon", "job", "true"), "soon"),
        (("-t", "100ms", "job", "true"), ""),
        (("-t", "1d", "job", "true"), ""),
        (("-w", "later", "job", "true"), "later"),
        (("-s", "NOPE", "job", "true"), "NOPE"),
        (("-E", "256", "job", "true"), "256"),
        (("--no-such", "job", "true"), "no-such"),
    ]:
        result = run.holdfast("run", *args)
        assert result.rc == 64 and text in result.err and "holdfast" in result.err, (args, result)
    unknown = run.holdfast("frobnicate")
    assert unknown.rc == 64 and "frobnicate" in unknown.err, unknown


@scenario("a job has the standard input, the words as they are, and knows its lock")
def passes_things_on(run):
    ready(run)
    script = 'cat; echo "$HOLDFAST_NAME|$HOLDFAST_FENCE|$0"'
    process = run.start_holdfast("run", "a  b\n*", "sh", "-c", script, "$x  *", stdin=subprocess.PIPE)
    process.popen.stdin.write(b"from stdin|")
    process.popen.stdin.close()
    assert process.wait() == 0, process.err
    given, name, fence, word = process.out.rstrip("\n").split("|")
    assert (given, name, word) == ("from stdin", "a  b\n*", "$x  *"), process.out
    assert int(fence) > 0


@scenario("check answers a job, and whoever has nothing to do with it")
def check_in_job(run):
    ready(run)
    job = Job(run, "job", "sh", "-c", f"{BUILD}/bin/holdfast held -q job; echo $?; read x", stdin=subprocess.PIPE)
    assert job.line() == "0", job.process.err
    assert run.holdfast("held", "job").rc == 3
    job.process.popen.stdin.close()
    job.wait()
    assert run.holdfast("held", "job").rc == 3


@scenario("fences rise from run to run")
def fences_rise(run):
    ready(run)
    fences = [int(run.holdfast("run", "job", "sh", "-c", "echo $HOLDFAST_FENCE").out) for _ in range(5)]
    assert fences == sorted(set(fences)), fences


@scenario("signals are forwarded to the job")
def forwards_signals(run):
    ready(run)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        job = Job(run, "job", "sh", "-c", f"trap 'exit {40 + number}' {int(number)}; echo up; while :; do sleep 0.01; done")
        job.up()
        job.process.signal(number)
        assert job.wait() == 40 + number, job.process.err
    run.keys_gone("job")


# What a shell does: a session on a terminal, and the command as its foreground group.
SHELL = """
import os, signal, sys
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
pid = os.fork()
if pid == 0:
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpid())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os.execv(sys.argv[1], sys.argv[1:])
while True:
    _, status = os.waitpid(pid, os.WUNTRACED)
    if not os.WIFSTOPPED(status):
        print("exit", os.waitstatus_to_exitcode(status), flush=True)
        break
    os.tcsetpgrp(0, os.getpgrp())
    print("stopped", flush=True)
    sys.stdin.readline()
    os.tcsetpgrp(0, pid)
    os.killpg(pid, signal.SIGCONT)
"""


@scenario("on a terminal: ^C reaches the job once, ^Z stops it and it can be continued")
def terminal(run):
    ready(run)
    # No fork in the loop: a shell whose vforked child is stopped before its exec cannot be stopped itself.
    script = "n=0; trap 'n=$((n+1)); echo int $n' INT; trap 'echo cont' CONT; trap 'exit 4' QUIT; " \
             "sleep 60 & echo up; while :; do wait; done"
    ours, theirs = os.openpty()
    settings = termios.tcgetattr(theirs)
    settings[3] &= ~termios.ECHO
    termios.tcsetattr(theirs, termios.TCSANOW, settings)

    def line():
        assert select.select([ours], [], [], 15 * SLOW)[0], process.err
        return terminal_file.readline().decode().strip()

    terminal_file = os.fdopen(ours, "rb", buffering=0)
    process = run.spawn(sys.executable, "-c", SHELL, BUILD / "bin" / "holdfast", "run", "job", "sh", "-c", script,
                        stdin=theirs, stdout=theirs, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
    os.close(theirs)
    assert line() == "up"
    os.write(ours, b"\x03")
    assert line() == "int 1"
    os.write(ours, b"\x1a")
    assert line() == "stopped"
    os.write(ours, b"\n")
    assert line() == "cont"
    os.write(ours, b"\x03")
    while (told := line()) == "cont":  # once from the shell, and once passed on by the guardians
        pass
    assert told == "int 2"
    os.write(ours, b"\x1c")
    while line() != "exit 4":  # the shell tells of a sleep that ^\\ ended, too
        pass
    assert process.wait() == 0
    run.keys_gone("job")


@scenario("a job stays under its lock for many TTLs, and no key ever has less than half of one left")
def many_ttls(run):
    ready(run)
    job = Job(run, "-t", "2s", "job", "sh", "-c", "echo up; read x; exit 3", stdin=subprocess.PIPE).up()
    end = time.monotonic() + 7
    while time.monotonic() < end:
        for node in run.nodes:
            left = node.pttl("job")
            assert left > 1000, f"{node.id}: PTTL {left}"
        time.sleep(0.05)
    job.process.popen.stdin.write(b"\n")
    job.process.popen.stdin.close()
    assert job.wait() == 3, job.process.err
    run.keys_gone("job", 1)


# --- when another holds it -----------------------------------------------------------------------------


@scenario("who is in the way is said in one line")
def conflict(run):
    ready(run)
    holder = run.holder()
    holder.acquire("j\nob")
    for options, code in ((("-n",), 75), (("-n", "-E", "9"), 9), (("-w", "300ms"), 75)):
        result = run.holdfast("run", *options, "j\nob", "true")
        assert result.rc == code, result
        assert "holdfast: j\\nob is held by" in result.err and f"pid {holder.pid}" in result.err, result
        assert "command holder" in result.err and "fence" in result.err, result


@scenario("-E 0: no lock is no failure, and no job: with -n, after -w, for a set and for slots; other failures keep their codes")
def conflict_is_no_failure(run):
    ready(run)
    holder = run.holder()
    for name in ("job", "job#0", "job#1"):
        holder.acquire(name)
    began = run.dir / "began"
    for args in (("-n",), ("-w", "300ms"), ("-n", "--also", "another"), ("-w", "300ms", "--also", "another"), ("-n", "--slots", "2"),
                 ("-w", "300ms", "--slots", "2")):
        result = run.holdfast("run", *args, "-E", "0", "job", "touch", began)
        lines = result.err.splitlines()
        assert result.rc == 0 and len(lines) == (1 if "-n" in args else 2), (args, result)
        assert all("held by" in line for line in lines), (args, result)
    assert not began.exists()
    assert run.holders_of("another") == 0
    assert run.holdfast("run", "-n", "-E", "0", "free", "sh", "-c", "exit 9").rc == 9
    run.agents[0].stop()
    assert run.holdfast("run", "-n", "-E", "0", "job", "true").rc == 69


@scenario("a signal ends the wait and leaves nothing")
def signal_in_wait(run):
    ready(run)
    holder = run.holder()
    holder.acquire("job")
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        process = run.start_holdfast("run", "job", "true")
        process.wait_err("is held by")
        process.signal(number)
        assert process.wait() == 128 + number, process.err
    holder.release()
    run.keys_gone("job")
    assert run.holdfast("run", "-n", "job", "true").rc == 0


@scenario("a wait ends with the holder's release")
def waits(run):
    ready(run)
    holder = run.holder()
    holder.acquire("job")
    process = run.start_holdfast("run", "-v", "job", "echo", "mine")
    process.wait_err("is held by")
    holder.release()
    assert process.wait() == 0 and process.out == "mine\n", process.err


@scenario("too few nodes: 69 at once with -n, at its end with -w, and a wait is told and ends well")
def too_few_nodes(run):
    ready(run)
    for node in run.nodes[:2]:
        node.sigstop()
    began = time.monotonic()
    result = run.holdfast("run", "-n", "job", "true")
    assert result.rc == 69, result
    assert time.monotonic() - began < 5 * SLOW
    result = run.holdfast("run", "-w", "1s", "job", "true")
    assert result.rc == 69, result
    process = run.start_holdfast("run", "job", "true")
    process.wait_err("waiting")
    for node in run.nodes[:2]:
        node.sigcont()
    assert process.wait() == 0, process.err


@scenario("no agent: 69 at once, with -w at its end")
def no_agent(run):
    result = run.holdfast("run", "--agent", f"{run.tag}-none", "job", "true")
    assert result.rc == 69 and "agent" in result.err, result
    began = time.monotonic()
    result = run.holdfast("run", "-w", "1500ms", "--agent", f"{run.tag}-none", "job", "true", timeout_s=10)
    assert result.rc == 69 and "waiting: start holdfastd" in result.err, result
    assert 1.4 < time.monotonic() - began < 4 * SLOW


@scenario("-w: an agent that is away is waited for, and a wait that is interrupted ends at once", sanitizers=False)
def agent_comes_back(run):
    ready(run)
    agent = run.agents[0]
    agent.stop()
    job = run.start_holdfast("run", "-w", "20", "job", "echo", "done")
    job.wait_err("waiting: start holdfastd")
    time.sleep(0.5)
    assert job.running
    run.agent(ttl=f"{TTL_S}s")
    assert job.wait(10) == 0 and "done" in job.out, job.err
    run.agents[-1].stop()
    job = run.start_holdfast("run", "-w", "20", "job", "true")
    job.wait_err("waiting: start holdfastd")
    began = time.monotonic()
    job.signal(signal.SIGTERM)
    assert job.wait() == 128 + signal.SIGTERM and time.monotonic() - began < 5 * SLOW, job.err


@scenario("an agent that hangs: -n ends within seconds, at once when it is interrupted, and -w waits for it",
          sanitizers=False)
def agent_hangs(run):
    ready(run)
    agent = run.agents[0]
    agent.sigstop()
    began = time.monotonic()
    result = run.holdfast("run", "-n", "job", "true")
    assert result.rc == 69 and "does not answer" in result.err, result
    assert time.monotonic() - began < 10, "a second is what it may take"
    for number in (signal.SIGINT, signal.SIGTERM):
        job = run.start_holdfast("run", "job", "true")
        time.sleep(0.3)
        began = time.monotonic()
        job.signal(number)
        assert job.wait() == 128 + number and time.monotonic() - began < 5, job.err
    job = run.start_holdfast("run", "-w", "20", "job", "echo", "done")
    job.wait_err("waiting: .*does not answer")
    agent.sigcont()
    assert job.wait(10) == 0 and "done" in job.out, job.err


@scenario("an agent that hangs: its holder is told to stop at V - 0.3 T by its own clock, and held until V", sanitizers=False)
def agent_hangs_holding(run):
    ready(run)
    agent = run.agents[0]
    holder = run.holder()
    holder.acquire("job", 4000)
    agent.sigstop()
    seen = []
    while holder.held():
        state = holder.cmd("state")["value"]
        if state not in seen:
            seen.append(state)
        if state == 3:
            break
        time.sleep(0.02)
    assert seen == [1, 2, 3], seen
    assert holder.held() and "agent is gone or hangs" in holder.cmd("reason")["text"]
    assert 0.2 < holder.cmd("remaining")["value"] / 1e3 <= 1.25
    agent.sigcont()


# --- the end of a job ----------------------------------------------------------------------------------


@scenario("what a job leaves behind is dead before the lock is free")
def leftovers_of_the_job(run):
    ready(run)
    for outer_helps in (True, False):
        job = Job(run, "job", "sh", "-c",
                  "(setsid sh -c 'trap \"\" TERM; echo up; : >up; while :; do sleep 1; done' &) ; "
                  "until [ -e up ]; do sleep 0.05; done; rm up; sleep 0.3; exit 3").up()
        if not outer_helps:
            job.process.sigstop()

        def is_locked(out=job.out):
            if run.holders_of("job") < 2:
                assert select.select([out], [], [], 0)[0], "the lock is free, and a process of the job lives"

        job.death_ns(meanwhile=is_locked)
        run.keys_gone("job")
        job.process.sigcont()
        assert job.wait() == 3, job.process.err


@scenario("release asks a job to stop")
def asked(run):
    ready(run)
    job = Job(run, "-t", "30s", "job", *python(TELLS)).up()
    began = boottime_ns()
    assert run.holdfast("release", "job").rc == 0
    assert_at("SIGTERM", int(job.line()), began, late_s=5 * SLOW)
    job.process.wait_err("asked")
    os.killpg(job.pid, signal.SIGUSR1)  # ends it: the default of SIGUSR1
    assert job.wait() == 124, job.process.err
    run.keys_gone("job")


@scenario("max_hold ends a job")
def max_hold(run):
    ready(run)
    began = boottime_ns()
    job = Job(run, "--max-hold", "1s", "job", "sh", "-c", "echo up; sleep 60").up()
    assert job.wait() == 124, job.process.err
    assert_at("the end", boottime_ns(), began + S, late_s=5 * SLOW)
    run.keys_gone("job")


# --- the timeline --------------------------------------------------------------------------------------


@scenario("one of three nodes stopped: nothing happens to the job")
def one_node_stopped(run):
    ready(run)
    job = Job(run, "-t", f"{TTL_S}s", "job", "sh", "-c", "echo up; sleep 8; exit 5").up()
    run.nodes[0].sigstop()
    assert job.wait() == 5, job.process.err
    run.nodes[0].sigcont()


@scenario("two of three nodes stopped: SIGTERM at V - 0.3 T, SIGKILL at V - 0.1 T, exit 124")
def two_nodes_stopped(run):
    ready(run)
    watcher = Watcher(run)
    job = Job(run, "-t", f"{TTL_S}s", "job", *python(TELLS)).up()
    for node in run.nodes[:2]:
        node.sigstop()
    told_ns = int(job.line())
    valid_ns = assert_killed_in_time(job, watcher)
    assert_at("SIGTERM", told_ns, valid_ns - TTL_S * S * 3 // 10)
    assert job.wait() == 124, job.process.err
    assert "being lost" in job.process.err
    for node in run.nodes[:2]:
        node.sigcont()
    run.keys_gone("job")


@scenario("two of three nodes stopped: a daemonised grandchild is dead before V")
def grandchild(run):
    ready(run)
    watcher = Watcher(run)
    job = tough(run)
    for node in run.nodes[1:]:
        node.sigstop()
    assert_killed_in_time(job, watcher)
    assert job.wait() == 124, job.process.err
    for node in run.nodes[1:]:
        node.sigcont()


@scenario("nodes that come back after SIGTERM do not save the lock, and it is free again")
def no_way_back(run):
    ready(run)
    job = Job(run, "-t", f"{TTL_S}s", "job", *python(TELLS)).up()
    for node in run.nodes[:2]:
        node.sigstop()
    job.line()
    for node in run.nodes[:2]:
        node.sigcont()
    assert job.wait() == 124, job.process.err
    assert run.holdfast("run", "-w", "10s", "job", "true").rc == 0


@scenario("the agent stopped: the guardians act by themselves")
def agent_stopped(run):
    ready(run)
    watcher = Watcher(run)
    job = tough(run)
    run.agents[0].sigstop()
    assert_killed_in_time(job, watcher)
    assert job.wait() == 124, job.process.err
    run.agents[0].sigcont()
    run.keys_gone("job", 10)


@scenario("the agent killed: the guardians act by themselves")
def agent_killed(run):
    ready(run)
    watcher = Watcher(run)
    job = tough(run)
    run.agents[0].kill()
    assert_killed_in_time(job, watcher)
    assert job.wait() == 124, job.process.err


@scenario("the agent killed and back in time: the job goes on")
def agent_back(run):
    ready(run)
    job = Job(run, "-t", "6s", "job", "sh", "-c", "echo up; sleep 8; exit 5").up()
    run.agents[0].kill()
    run.agent("a", ttl=f"{TTL_S}s")
    assert job.wait() == 5, job.process.err
    run.keys_gone("job")


@scenario("a stopped guardian does not help the job")
def guardian_stopped(run):
    ready(run)
    watcher = Watcher(run)
    for which in ("inner", "outer"):
        job = tough(run)
        pid = job.inner() if which == "inner" else job.pid
        os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: stat_letter(pid) == "T")
        for node in run.nodes[:2]:
            node.sigstop()
        assert_killed_in_time(job, watcher)
        if which == "outer":
            os.kill(pid, signal.SIGCONT)
        assert job.wait() == 124, job.process.err
        for node in run.nodes[:2]:
            node.sigcont()
        run.keys_gone("job", 10)


@scenario("foreign keys on a majority: the job is killed at once")
def foreign_keys(run):
    ready(run)
    job = Job(run, "-t", "6s", "job", *python(TOUGH)).up()
    began = boottime_ns()
    for node in run.nodes[:2]:
        node.cmd("SET", "job", "another's token", "XX", "PX", "20000")
    dead_ns = job.death_ns()
    assert (dead_ns - began) / S < 4 * SLOW, "not with the next renewals"
    assert job.wait() == 124, job.process.err
    assert "lock is lost" in job.process.err, job.process.err


@scenario("keys deleted one after the other are healed, and nothing happens to the job")
def deleted_keys(run):
    ready(run)
    job = Job(run, "-t", "3s", "job", "sh", "-c", "echo up; sleep 6; exit 5").up()
    for node in run.nodes:
        node.cmd("DEL", "job")
        wait_until(lambda: run.holders_of("job") == 3, what="the key is healed")
    assert job.wait() == 5, job.process.err


# --- a guardian is killed ------------------------------------------------------------------------------


@scenario("a killed guardian: the other kills the tree, then the lock is free")
def guardian_killed(run):
    ready(run)
    for which in ("inner", "outer"):
        job = Job(run, "-t", "30s", "job", *python(TOUGH)).up()
        inner = job.inner()
        began = boottime_ns()
        os.kill(inner if which == "inner" else job.pid, signal.SIGKILL)
        assert_at("the end of the tree", job.death_ns(), began, early_s=0, late_s=5 * SLOW)
        assert job.wait() == (125 if which == "inner" else -signal.SIGKILL), job.process.err
        wait_until(lambda: not alive(inner), what="the inner guardian ends")
        run.keys_gone("job")


@scenario("both guardians killed, and nobody can tell whether their tree is reaped: the lock lapses, it is not released")
def both_killed(run):
    ready(run)
    job = Job(run, "-t", f"{TTL_S}s", "job", "sh", "-c", "echo up; exec sleep 120", within=without_groups()).up()
    inner = job.inner()
    os.kill(job.pid, signal.SIGSTOP)
    os.kill(inner, signal.SIGSTOP)
    os.kill(inner, signal.SIGKILL)
    os.kill(job.pid, signal.SIGKILL)
    time.sleep(0.3)
    assert run.holders_of("job") >= 2, "released without the word that the tree is reaped"
    run.keys_gone("job", 2 * TTL_S)
    job.wait()


@scenario("a service manager's words reach the job: its sockets, its watchdog, and where to say that it is ready")
def service_manager(run):
    ready(run)
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    manager.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    manager.bind(str(run.dir / "notify"))
    manager.settimeout(10 * SLOW)
    job = """
import os, socket, stat
own = str(os.getpid())
assert os.environ["LISTEN_PID"] == own and os.environ["LISTEN_FDS"] == "1", os.environ
assert os.environ["WATCHDOG_PID"] == own and "LISTEN_PIDFDID" not in os.environ, os.environ
assert stat.S_ISSOCK(os.fstat(3).st_mode)
with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to:
    to.sendto(b"READY=1", os.environ["NOTIFY_SOCKET"])
"""
    script = f'exec env LISTEN_FDS=1 LISTEN_PID=$$ LISTEN_PIDFDID=1 WATCHDOG_PID=$$ NOTIFY_SOCKET={run.dir}/notify ' \
             f'{BUILD}/bin/holdfast run job -- "$@"'
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(run.dir / "service"))
        command = run.spawn("sh", "-c", 'exec 3<&"$0"; ' + script, str(listener.fileno()), sys.executable, "-c", job, label="service",
                            pass_fds=[listener.fileno()])
        assert command.wait() == 0, command.err
    word, credentials, _, _ = manager.recvmsg(64, socket.CMSG_SPACE(12))
    assert word == b"READY=1" and struct.unpack("iii", credentials[0][2])[0] != command.pid
    other = run.holdfast("run", "job", "--", "sh", "-c", "test $LISTEN_PID = 1", env={"LISTEN_PID": "1"})
    assert other.rc == 0, other.err


if __name__ == "__main__":
    main()
