#!/usr/bin/env python3
"""The two guardians of `holdfast run`: what no signal, no reader of their words and no storm of forks may do to them."""
import contextlib
import fcntl
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import sys
import termios
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from jobs import TOUGH, TTL_S, Job, S, Watcher, assert_at, assert_killed_in_time, children, keeps_its_pages, python, ready, trace, without_groups  # noqa: E402
from rig import BUILD, OTHER_UID, SLOW, alive, boottime_ns, main, scenario, skip, stat_letter, wait_until  # noqa: E402

# A job that tells each signal which it gets, and whose child does, too; USR2 ends either.
COUNTS = """
import os, signal, sys, time
child = False
def told(number, frame):
    os.write(1, b"%s %d\\n" % (b"child" if child else b"job", number))
    if number == signal.SIGUSR2:
        os._exit(0)
for number in (1, 2, 3, 6, 10, 12, 13, 15, 21, 22, 34):
    signal.signal(number, told)
child = os.fork() == 0  # (!) after that: who is up has no handlers to wait for, nor has its parent
if child:
    os.write(1, b"up\\n")
while True:
    time.sleep(0.05)  # a signal that comes just before it sleeps is heard when it has slept
"""

SH_TOUGH = """trap "" TERM; (setsid sh -c 'trap "" TERM; echo up; while :; do sleep 1; done' &); while :; do sleep 1; done"""


def told(read_line, *expected):
    """Those lines come, in any order, and none after them."""
    lines = [read_line(15 * SLOW) for _ in expected]
    while (line := read_line(0.4 * SLOW)) is not None:
        lines.append(line)
    assert sorted(map(str, lines)) == sorted(expected), lines


def lines_of(file):
    def read_line(timeout_s):
        if not select.select([file], [], [], timeout_s)[0]:
            return None
        return file.readline().decode().strip()
    return read_line


@scenario("no guardian waits for a page that a file system that hangs, or a full control group, could keep from it", sanitizers=False)
def own_pages(run):
    ready(run)
    assert not keeps_its_pages(os.getpid()), "as any program"
    for limit in ((), ("prlimit", "--memlock=0")):
        within = [*limit, "setpriv", "--bounding-set=-ipc_lock"] if limit and os.geteuid() == 0 else limit
        job = Job(run, "job", "sh", "-c", "echo up; exec sleep 60", within=within).up()
        for pid in (job.pid, job.inner()):
            wait_until(lambda pid=pid: keeps_its_pages(pid), what=f"its pages are its own, {within}")
        job.process.signal(signal.SIGTERM)
        assert job.wait() == 128 + signal.SIGTERM, job.process.err


@scenario("in a group without an OOM killer no guardian waits for a page once the job runs, however soon that fills the group",
          sanitizers=False, needs_root=True)
def own_pages_at_once(run):
    group = pathlib.Path("/sys/fs/cgroup/memory") / f"hf-test-{run.tag}"
    try:
        group.mkdir()
        (group / "memory.oom_control").write_text("1")
    except OSError as e:
        with contextlib.suppress(OSError):
            group.rmdir()
        skip(f"no memory hierarchy of version 1: {e}")
    ready(run)
    enter = f'echo $$ > {group}/cgroup.procs && exec "$@"'
    look = 'for p in $PPID $(cut -d" " -f4 /proc/$PPID/stat); do grep VmLck /proc/$p/status; done; exec cat'
    try:
        job = run.spawn("sh", "-c", enter, "sh", BUILD / "bin" / "holdfast", "run", "job", "sh", "-c", look, label="holdfast",
                        stdin=subprocess.DEVNULL)
        assert job.wait() == 0, job.err
        locked = [int(kib) for kib in re.findall(r"VmLck:\s+(\d+) kB", job.out)]
        assert len(locked) == 2 and min(locked) > 1000, job.out
    finally:
        wait_until(lambda: not (group / "cgroup.procs").read_text(), what="the group is empty")
        group.rmdir()


@scenario("a run that is traced says so: whoever traces both guardians can keep them from killing", sanitizers=False)
def traced(run):
    if not shutil.which("strace"):
        skip("no strace")
    ready(run)
    job = run.spawn("strace", "-f", "-o", run.dir / "trace", BUILD / "bin" / "holdfast", "run", "job", "true", label="holdfast")
    assert job.wait() == 0, job.err
    assert re.search(r"job: process \d+ traces this command; while it keeps the guardians stopped", job.err), job.err
    assert "traces" not in run.holdfast("run", "job", "true").err


@scenario("when the job is dead and the agent hangs, the first guardian waits without the processor", sanitizers=False)
def waits(run):
    def processor_s():
        fields = pathlib.Path(f"/proc/{job.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    ready(run)
    job = Job(run, "job", *python(TOUGH)).up()
    run.agents[0].sigstop()
    job.death_ns()
    before = processor_s()
    time.sleep(0.5)
    assert processor_s() - before < 0.1, "it spins"
    run.agents[0].sigcont()
    assert job.wait() == 124, job.process.err


# --- signals -------------------------------------------------------------------------------------------


@scenario("no SIGKILL to one process group takes both guardians: the job is dead, and its lock free", sanitizers=False, needs_root=True)
def one_group_killed(run):
    within = without_groups()  # else the agent helps
    ready(run)
    for whose in ("outer", "inner"):
        job = Job(run, "-t", "30s", "job", *python(TOUGH), within=within).up()
        inner = job.inner()
        outer_group, inner_group = os.getpgid(job.pid), os.getpgid(inner)
        assert outer_group != inner_group and os.getsid(job.pid) != os.getsid(inner)
        began_ns = boottime_ns()
        os.killpg(outer_group if whose == "outer" else inner_group, signal.SIGKILL)
        assert_at("the end of the tree", job.death_ns(), began_ns, early_s=0, late_s=5 * SLOW)
        assert job.wait() == (-signal.SIGKILL if whose == "outer" else 125), job.process.err
        run.keys_gone("job")


@scenario("timeout -k around a run whose job does not heed SIGTERM: nothing of the job outlives the lock", sanitizers=False, needs_root=True)
def timeout_kills(run):
    within = without_groups()
    ready(run)
    job = Job(run, "-t", "30s", "job", *python(TOUGH), within=[*within, "timeout", "-k", "0.3", "600"]).up()
    outer = children(job.process.pid)[0]
    guardians = [outer, *children(outer)]
    job.process.signal(signal.SIGTERM)  # timeout passes it on, and sends SIGKILL 0.3 s later
    job.death_ns()
    run.keys_gone("job")
    job.wait()
    wait_until(lambda: not any(alive(pid) for pid in guardians), 15, "the run has ended")


@scenario("a signal to the process group reaches each process of the job once, one to run the command alone")
def once_each(run):
    ready(run)
    job = Job(run, "job", *python(COUNTS)).up()
    read_line = lines_of(job.out)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1):
        os.killpg(job.pid, number)
        told(read_line, f"child {number}", f"job {number}")
        job.process.signal(number)
        told(read_line, f"job {number}")
    job.process.signal(signal.SIGUSR2)
    assert job.wait() == 0, job.process.err


@scenario("signals of terminal, pipe and abort are passed on as any other, and the guardians live on", sanitizers=False)
def others_passed_on(run):
    ready(run)
    job = Job(run, "job", *python(COUNTS)).up()
    read_line = lines_of(job.out)
    for number in (signal.SIGPIPE, signal.SIGABRT, signal.SIGTTIN, signal.SIGTTOU, signal.SIGRTMIN):
        job.process.signal(number)
        told(read_line, f"job {int(number)}")
    job.process.signal(signal.SIGUSR2)
    assert job.wait() == 0, job.process.err
    job = Job(run, "job", "sh", "-c", "echo up; sleep 60").up()
    job.process.signal(signal.SIGABRT)
    assert job.wait() == 128 + signal.SIGABRT, job.process.err
    run.keys_gone("job")


# A shell with job control, which is told what to do: to wait, to continue the command in the foreground, to signal its group.
SHELL = """
import os, signal, sys
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
pid = os.fork()
if pid == 0:
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpid())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    os.execvp(sys.argv[1], sys.argv[1:])
commands = os.fdopen(int(os.environ["COMMANDS"]), "r")
for line in commands:
    if line.strip() == "wait":
        _, status = os.waitpid(pid, os.WUNTRACED)
        stopped = os.WIFSTOPPED(status)
        print("stopped" if stopped else "exit %d" % os.waitstatus_to_exitcode(status), flush=True)
        if stopped:
            os.tcsetpgrp(0, os.getpgrp())
    elif line.strip() == "fg":
        os.tcsetpgrp(0, pid)
        os.killpg(pid, signal.SIGCONT)
    else:
        os.killpg(pid, int(line))
"""


class Terminal:
    """A run as the foreground job of a shell on a terminal."""

    def __init__(self, run, *argv, within=()):
        self.ours, theirs = os.openpty()
        settings = termios.tcgetattr(theirs)
        settings[1] &= ~termios.OPOST
        settings[3] &= ~termios.ECHO
        termios.tcsetattr(theirs, termios.TCSANOW, settings)
        read_end, self.commands = os.pipe()
        self.file = os.fdopen(self.ours, "rb", buffering=0)
        self.process = run.spawn(sys.executable, "-c", SHELL, *within, BUILD / "bin" / "holdfast", "run", *argv, stdin=theirs, stdout=theirs,
                                 preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0), pass_fds=[read_end],
                                 env={"COMMANDS": str(read_end)})
        os.close(theirs)
        os.close(read_end)
        self.read_line = lines_of(self.file)

    def shell(self, command):
        os.write(self.commands, f"{command}\n".encode())

    def line(self):
        line = self.read_line(15 * SLOW)
        assert line is not None, self.process.err
        return line

    def close(self):
        os.close(self.commands)
        self.file.close()


@scenario("on a terminal, too: a key or a signal to the process group reaches the job once, and the job reads from it")
def terminal(run):
    ready(run)
    t = Terminal(run, "job", *python(COUNTS))
    assert t.line() == "up"
    for send in (lambda: os.write(t.ours, b"\x03"), lambda: t.shell(2)):
        send()
        told(t.read_line, "child 2", "job 2")
    for number in (1, 15):
        t.shell(number)
        told(t.read_line, f"child {number}", f"job {number}")
    os.write(t.ours, b"\x1a")
    t.shell("wait")
    assert t.line() == "stopped"
    t.shell("fg")
    t.shell(15)
    told(t.read_line, "child 15", "job 15")
    t.shell(12)
    t.shell("wait")
    told(t.read_line, "child 12", "exit 0", "job 12")
    t.close()
    t.process.wait()
    t = Terminal(run, "job", "sh", "-c", "read line; echo got $line")
    os.write(t.ours, b"hello\n")
    assert t.line() == "got hello"
    t.close()
    t.process.wait()
    run.keys_gone("job")


@scenario("on a terminal: SIGKILL to the foreground group leaves nothing of the job, which has left it", needs_root=True, sanitizers=False)
def terminal_group_killed(run):
    within = without_groups()
    ready(run)
    t = Terminal(run, "-t", "30s", "job", *python(TOUGH), within=within)
    assert t.line() == "up"
    t.shell(9)
    t.shell("wait")
    assert t.line() == "exit -9"
    run.keys_gone("job")
    t.close()
    t.process.wait()


# Its child leaves the session, so the terminal does not stop it.
LEFT = """(setsid sh -c 'echo $$; exec sleep 1000' &); read x"""


def stopped_job(run, *options, **agent):
    """A job that the terminal has stopped, and the outer guardian with it: the terminal, the pids of both guardians and of the child."""
    ready(run, **agent)
    t = Terminal(run, *options, "job", "sh", "-c", LEFT, within=without_groups())
    child = int(t.line())
    outer = children(t.process.pid)[0]
    inner = next(pid for pid in children(outer) if children(pid))
    os.write(t.ours, b"\x1a")
    t.shell("wait")
    assert t.line() == "stopped"
    time.sleep(0.2)
    assert (stat_letter(outer), stat_letter(inner)) == ("T", "S")
    return t, outer, inner, child


@scenario("on a terminal: the inner guardian of a job that ^Z has stopped is killed, and the outer one ends the job", needs_root=True)
def terminal_inner_killed(run):
    t, outer, inner, child = stopped_job(run, "-t", "60s")
    os.kill(inner, signal.SIGKILL)
    # at once: one that is only late is waited for 3 s
    wait_until(lambda: not alive(child) and not alive(outer), 2, "the job is dead")
    run.keys_gone("job")
    t.close()
    t.process.wait()


@scenario("on a terminal: a witness that was killed is replaced before ^Z stops the outer guardian", needs_root=True)
def terminal_witness_killed(run):
    ready(run)
    t = Terminal(run, "job", "sh", "-c", LEFT, within=without_groups())
    child = int(t.line())
    outer = children(t.process.pid)[0]
    witness = next(pid for pid in children(outer) if pathlib.Path(f"/proc/{pid}/comm").read_text() == "holdfast-group\n")
    os.kill(witness, signal.SIGKILL)
    os.write(t.ours, b"\x1a")
    t.shell("wait")
    assert t.line() == "stopped"
    inner = next(pid for pid in children(outer) if children(pid))
    os.kill(inner, signal.SIGKILL)
    wait_until(lambda: not alive(child) and not alive(outer), 15, "the job is dead")
    run.keys_gone("job")
    t.close()
    t.process.wait()


@scenario("on a terminal: the inner guardian of a job that ^Z has stopped is stopped, and the outer one ends the job before V", needs_root=True,
          sanitizers=False)
def terminal_inner_stopped(run):
    inner_stops(run, *stopped_job(run))


@scenario("the same where the fleet's ttl_max has become much shorter than the T with which the job began", needs_root=True, sanitizers=False)
def terminal_inner_stopped_shorter(run):
    limits = ("--ttl-max", f"{8 * TTL_S}s")
    stopped = stopped_job(run, "-t", f"{8 * TTL_S}s", options=limits)
    other = run.agent("b", ttl=f"{TTL_S}s", options=limits)  # whose host knows nothing of the lease
    change = run.holdfast("fleet", "ttl-max", f"{TTL_S}s", agent=other, timeout_s=90)
    assert change.rc == 0, change
    inner_stops(run, *stopped)


def inner_stops(run, t, outer, inner, child):
    watcher = Watcher(run)
    watcher.look()
    os.kill(inner, signal.SIGSTOP)
    run.agents[0].sigstop()
    watcher.look()
    wait_until(lambda: not alive(child), 15, "the job is dead", interval_s=0.01)
    dead_ns = boottime_ns()
    assert dead_ns < watcher.valid_ns, f"{(dead_ns - watcher.valid_ns) / S:.3f} s after V"
    run.agents[0].sigcont()
    wait_until(lambda: not alive(outer), 15, "the run has ended")
    t.close()
    t.process.wait()


# --- a /proc that does not show the job ----------------------------------------------------------------


@scenario("where /proc is that of another PID namespace, or is missing, no job is started, for nobody could find it: 125, and the remedy",
          needs_root=True, sanitizers=False)
def another_proc(run):
    ready(run, system=True)
    began = run.dir / "began"
    for within, words in [(["unshare", "--pid", "--fork", "--kill-child"], ("another PID namespace", "unshare --mount-proc")),
                          (["unshare", "--pid"], ("another PID namespace", "unshare --mount-proc")),  # of what it starts alone
                          (["unshare", "--mount", "sh", "-c", 'umount -l /proc; exec "$@"', "sh"], ("mount /proc",))]:
        process = run.spawn(*within, BUILD / "bin" / "holdfast", "run", "job", "touch", began)
        assert process.wait() == 125, process.err
        assert all(word in process.err for word in words), process.err
        assert not began.exists(), process.err
        run.keys_gone("job")
    process = run.spawn("unshare", "--pid", "--fork", "--kill-child", "--mount-proc", BUILD / "bin" / "holdfast", "run", "job", "touch", began)
    assert process.wait() == 0 and began.exists(), process.err


# --- a filter of system calls --------------------------------------------------------------------------

# What a program may do that executes the rest of its words: these calls fail, if their second argument is this one (or any).
FILTERED = """
import ctypes, os, struct, sys
calls, value = [int(word) for word in sys.argv[1].split(",")], int(sys.argv[2])
load = lambda at: struct.pack("HBBI", 0x20, 0, 0, at)
equal = lambda value, yes, no: struct.pack("HBBI", 0x15, yes, no, value)
give = lambda value: struct.pack("HBBI", 0x06, 0, 0, value)
code = b""
for call in calls:
    code += load(0) + equal(call, 0, 1 if value < 0 else 3)
    if value >= 0:
        code += load(24) + equal(value, 0, 1)
    code += give(0x00050001)
code += give(0x7fff0000)
memory = ctypes.create_string_buffer(code)
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
program = Program(len(code) // 8, ctypes.addressof(memory))
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.byref(program)):
    sys.exit("seccomp: " + os.strerror(ctypes.get_errno()))
os.execv(sys.argv[3], sys.argv[3:])
"""
KILL, WAIT4, PIDFD_SEND_SIGNAL = *{"x86_64": (62, 61), "aarch64": (129, 260)}[os.uname().machine], 424


def filtered(calls, value=-1):
    return [*python(FILTERED), ",".join(map(str, calls)), str(value)]


@scenario("where a filter forbids signals, no job is started: 125, and the remedy; where it forbids SIGKILL by kill(2) alone, run ends with "
          "its job", sanitizers=False)
def no_signals(run):
    ready(run)
    began = run.dir / "began"
    for calls in ((KILL,), (PIDFD_SEND_SIGNAL,), (KILL, PIDFD_SEND_SIGNAL), (WAIT4,)):
        process = run.spawn(*filtered(calls), BUILD / "bin" / "holdfast", "run", "job", "touch", began)
        assert process.wait() == 125, process.err
        assert "seccomp" in process.err and "allow kill, pidfd_send_signal and wait4" in process.err, process.err
        assert not began.exists(), process.err
        run.keys_gone("job")
    process = run.spawn(*filtered((KILL,), signal.SIGKILL), BUILD / "bin" / "holdfast", "run", "job", "sh", "-c", "exit 7")
    assert process.wait() == 7, process.err
    run.keys_gone("job")
    job = Job(run, "-t", f"{TTL_S}s", "job", *python(TOUGH), within=filtered((KILL,), signal.SIGKILL)).up()
    assert run.holdfast("release", "job").rc == 0
    job.death_ns()
    assert job.wait() == 124, job.process.err
    run.keys_gone("job")


# --- storms -----------------------------------------------------------------------------------------------


@scenario("an ordinary user's storm of new sessions on a busy machine is dead before V, without a control group",
          needs_root=True, sanitizers=False)
def storm_of_sessions(run):
    ready(run, system=True)
    watcher = Watcher(run)
    loops = [run.spawn("sh", "-c", "while :; do :; done", label="loop") for _ in range(2)]
    job = Job(run, "-t", f"{TTL_S}s", "job", BUILD / "tests" / "storm", "60", "20", uid=OTHER_UID).up()
    run.agents[0].sigstop()
    watcher.look()
    dead_ns = job.death_ns(meanwhile=watcher.look)
    for loop in loops:
        loop.kill()
    assert dead_ns < watcher.valid_ns, f"{(dead_ns - watcher.valid_ns) / S:.3f} s after V"
    assert job.wait() == 124, job.process.err
    run.agents[0].sigcont()
    run.keys_gone("job", 10)


@scenario("an ordinary user's job takes all descriptors from its guardians: what has left its session is dead before V",
          needs_root=True, sanitizers=False)
def without_descriptors(run):
    ready(run, system=True)
    watcher = Watcher(run)
    job = Job(run, "-t", f"{TTL_S}s", "job", "sh", "-c", SH_TOUGH, uid=OTHER_UID).up()
    for pid in (job.pid, job.inner()):
        assert run.spawn("prlimit", f"--pid={pid}", "--nofile=0", uid=OTHER_UID).wait() == 0
    run.agents[0].sigstop()
    assert_killed_in_time(job, watcher)
    job.wait(60 * SLOW)
    run.agents[0].sigcont()
    run.keys_gone("job", 10)


# --- words that nobody reads -----------------------------------------------------------------------------


def full_pipe():
    """A pipe of root's that nobody reads, and the words that execute a command with it as standard error."""
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    try:
        while True:
            os.write(write_end, b"x" * 4096)
    except BlockingIOError:
        pass
    os.set_blocking(write_end, True)
    return read_end, write_end, ["sh", "-c", f'exec "$@" 2>&{write_end}', "sh"]


def stopped_terminal():
    ours, theirs = os.openpty()
    termios.tcflow(theirs, termios.TCOOFF)
    return ours, theirs, ["sh", "-c", f'exec "$@" 2>&{theirs}', "sh"]


@scenario("an ordinary user's run whose words go to a full pipe or a stopped terminal of another user: its job is dead before V",
          needs_root=True, sanitizers=False)
def nobody_reads(run):
    ready(run, system=True)
    for make in (full_pipe, stopped_terminal):
        ours, theirs, within = make()
        watcher = Watcher(run)
        for more in ([], ["-v"]):
            job = Job(run, *more, "-t", f"{TTL_S}s", "job", "sh", "-c", SH_TOUGH, within=within, pass_fds=[theirs], uid=OTHER_UID).up()
            run.agents[0].sigstop()
            assert_killed_in_time(job, watcher)
            assert job.wait() == 124
            run.agents[0].sigcont()
            run.keys_gone("job", 10)
        os.close(ours)
        os.close(theirs)


@scenario("a wait whose words go to a full pipe of another user ends with the lock, and what is left behind is ended",
          needs_root=True, sanitizers=False)
def nobody_reads_a_wait(run):
    ready(run, system=True)
    ours, theirs, within = full_pipe()
    holder = run.holder()
    holder.acquire("job")
    job = Job(run, "-v", "job", "sh", "-c", "sleep 60 & echo up; exec >&-; exit 3", within=within, pass_fds=[theirs], uid=OTHER_UID)
    time.sleep(0.5 * SLOW)  # it waits by then
    holder.release()
    job.up()
    assert job.wait(10) == 3
    run.keys_gone("job")
    refused = run.holder()
    refused.acquire("job")
    job = Job(run, "-n", "job", "true", within=within, pass_fds=[theirs], uid=OTHER_UID)
    assert job.wait(5) == 75
    os.close(ours)
    os.close(theirs)


@scenario("an agent whose log goes to a full pipe of another user grants and renews all the same", needs_root=True, sanitizers=False)
def nobody_reads_the_log(run):
    run.redis(3)
    fifo, script = run.dir / "fifo", run.dir / "agent.sh"
    os.mkfifo(fifo)
    fifo.chmod(0o666)
    reader = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)
    try:
        while True:
            os.write(reader, b"x" * 4096)
    except BlockingIOError:
        pass
    run.runtime_dir.chmod(0o777)
    holdfastd = run.for_others(BUILD / "bin" / "holdfastd")
    script.write_text(f'#!/bin/sh\nexec 2>{fifo}; while [ -w {fifo} ]; do sleep 0.01; done; exec {holdfastd} "$@"\n')
    script.chmod(0o755)
    run.agent(ttl=f"{TTL_S}s", program=script, uid=OTHER_UID, wait=False)
    time.sleep(0.3)
    fifo.chmod(0o600)
    env = {"HOLDFAST_RUNTIME_DIR": str(run.runtime_dir)}
    wait_until(lambda: run.holdfast("run", "-n", "job", "true", uid=OTHER_UID, env=env).rc == 0, what="a grant", timeout_s=15)
    process = run.start_holdfast("run", "job", "sleep", "4", uid=OTHER_UID, env=env)
    while process.running:  # each end of a connection is a line
        run.nodes[0].cmd("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        time.sleep(0.05)
    assert process.wait() == 0, process.err
    os.close(reader)


@scenario("a file that hangs: guardians and waiters go on without it, and what it gets once it does not is in order", sanitizers=False)
def file_hangs(run):
    ready(run)
    watcher = Watcher(run)
    job = Job(run, "-v", "-t", f"{TTL_S}s", "job", *python(TOUGH)).up()
    writer = wait_until(lambda: children(job.pid, "holdfast-writer"), what="the child that writes")[0]
    os.kill(writer, signal.SIGSTOP)  # as if write() did not return
    run.agents[0].sigstop()
    assert_killed_in_time(job, watcher)
    assert job.wait() == 124
    assert "being lost" not in job.process.err
    os.kill(writer, signal.SIGCONT)
    job.process.wait_err("being lost(?s:.*)")
    wait_until(lambda: not alive(writer), what="it ends with them")
    run.agents[0].sigcont()


# --- what is left behind -------------------------------------------------------------------------------


@scenario("what reads the job's output ends by itself and keeps the last line")
def drains(run):
    ready(run)
    for i in range(5):
        log = run.dir / f"log{i}"
        script = f"exec > >(sleep 0.2; cat > {log}); for i in $(seq 50); do echo line $i; done"
        result = run.holdfast("run", "job", "bash", "-c", script)
        assert result.rc == 0 and "left processes behind" not in result.err, result
        assert len(log.read_text().splitlines()) == 50, log.read_text()


@scenario("a child from before the run began is left alone, and the run does not wait for it")
def older_children(run):
    ready(run)
    log = run.dir / "log"
    for kill in (False, True):
        script = f"exec > >(trap '' TERM; cat > {log}; sleep 1; echo end >> {log}); sleep 77.7 & echo $! >&2; " \
                 f"exec {BUILD}/bin/holdfast run -t 30s job -- sh -c 'echo first; exec >&-; {'kill -9 $PPID; sleep 60' if kill else ''}'"
        process = run.spawn("bash", "-c", script)
        older = int(process.wait_err(r"^(\d+)\n").group(1))
        assert process.wait(10) == (125 if kill else 0), process.err
        run.keys_gone("job")
        assert alive(older), process.err
        os.kill(older, signal.SIGKILL)
        wait_until(lambda: log.exists() and log.read_text() == "first\nend\n", what="its end")
        assert "left processes" not in process.err, process.err


# --- what another process traces -----------------------------------------------------------------------


SAYS_TRACED = r"job: process {} \(\S+\) is dead, but process {} \(trac\\ner\) traces it and does not reap it; the lock is released"


@scenario("a dead process that another one traces and does not reap keeps no lock, and is told once", needs_root=True, sanitizers=False)
def traced(run):
    within = without_groups()
    ready(run)
    for how in ("killed", "released", "left behind", "without the inner guardian"):
        child = how == "left behind"
        job = Job(run, "-t", f"{TTL_S}s", "job", "sh", "-c", "sleep 99 & echo up; read x" if child else "echo up; exec sleep 99",
                  stdin=subprocess.PIPE, within=within).up()
        inner = job.inner()
        pid = wait_until(lambda: children(inner), what="the job")[0]  # noqa: B023
        if child:
            pid = wait_until(lambda: children(pid, "sleep"), what="its child")[0]  # noqa: B023
        tracer = trace(run, pid)
        if how == "released":
            assert run.holdfast("release", "job").rc == 0
        elif child:
            job.process.popen.stdin.close()
        else:
            os.kill(inner if how.startswith("without") else pid, signal.SIGKILL)
        assert job.wait(20) == {"released": 124, "left behind": 1}.get(how, 125), (how, job.process.err)
        job.process.wait_err(SAYS_TRACED.format(pid, tracer.pid))
        assert job.process.err.count("traces it") == 1, job.process.err
        assert stat_letter(pid) == "Z"
        run.keys_gone("job")
        tracer.kill()
        wait_until(lambda: not pathlib.Path(f"/proc/{pid}").exists(), what="somebody reaps it")  # noqa: B023


if __name__ == "__main__":
    main()
