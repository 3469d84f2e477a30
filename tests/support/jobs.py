"""Jobs of `holdfast run` for the scenarios: when they are told to stop, and when the last of their processes dies.

The job's processes all write to one pipe, so the pipe's end is the instant at which the last of them is dead;
the guardians let go of theirs. V is what the table shows; with T for the TTL the job gets SIGTERM at V - 0.3 T
and SIGKILL at V - 0.1 T.
"""
import contextlib
import os
import pathlib
import select
import signal
import subprocess
import sys
import time

from rig import BUILD, IS_ROOT, SLOW, HolderError, boottime_ns, encode, skip, stat_letter, values_of, wait_until

S = 1_000_000_000
TTL_S = 3 if SLOW == 1 else 6
NOISE_S = TTL_S / 10  # what a busy machine may be late: as much as from KILL to V
ROUNDING_S = 0.005     # of V in the table

# A job with a grandchild that left its session and its parents; none of them hears SIGTERM.
TOUGH = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print("up", flush=True)
        time.sleep(120)
    os._exit(0)
time.sleep(120)
"""

# Traces a process, and never reaps it.
TRACER = """
import ctypes, sys, time
SEIZE = 0x4206
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long] * 4
assert libc.ptrace(SEIZE, int(sys.argv[1]), 0, 0) == 0, ctypes.get_errno()
libc.prctl(15, b"trac\\ner")  # PR_SET_NAME
print("traces", flush=True)
time.sleep(120)
"""

# A job that says when it was told to stop, and goes on.
TELLS = """
import signal, time
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
print("up", flush=True)
while True:
    signal.sigwait([signal.SIGTERM])
    print(time.clock_gettime_ns(time.CLOCK_BOOTTIME), flush=True)
"""


class Job:
    """A `holdfast run` with its output in a pipe; `within` are words of a command that executes it."""

    def __init__(self, run, *argv, within=(), **options):
        self.run, self.name = run, "job"
        self.process = run.spawn(*within, BUILD / "bin" / "holdfast", "run", *argv, label="holdfast",
                                 stdout=subprocess.PIPE, bufsize=0, **options)
        self.out = self.process.popen.stdout
        self.pid = self.process.pid

    def line(self, timeout_s=15.0):
        ready, _, _ = select.select([self.out], [], [], timeout_s * SLOW)
        assert ready, f"the job says nothing\n{self.process.err}"
        return self.out.readline().decode().strip()

    def up(self):
        line = self.line()
        assert line == "up", f"{line!r}\n{self.process.err}"
        return self

    def death_ns(self, timeout_s=30.0, meanwhile=lambda: None):
        """When the last process of the job died."""
        deadline = time.monotonic() + timeout_s * SLOW
        while time.monotonic() < deadline:
            if select.select([self.out], [], [], 0.02)[0] and not os.read(self.out.fileno(), 4096):
                return boottime_ns()
            meanwhile()
        raise AssertionError(f"the job lives on\n{self.process.err}")

    def inner(self):
        """The second guardian: the child of the first that has its name."""
        return wait_until(lambda: children(self.pid, "holdfast"), what="the inner guardian")[0]

    def wait(self, *args):
        return self.process.wait(*args)


def keeps_its_pages(pid):
    """Whether nothing can keep the process waiting for a page of its program: the kernel keeps it, or it comes from no file."""
    folder = pathlib.Path(f"/proc/{pid}")
    locked = next(line for line in (folder / "status").read_text().splitlines() if line.startswith("VmLck"))
    of_files = [words for words in map(str.split, (folder / "maps").read_text().splitlines())
                if len(words) > 5 and words[1][0] == "r" and words[1][3] == "p" and words[5][0] == "/" and not words[5].startswith("/memfd:")]
    return int(locked.split()[1]) > 1500 or not of_files


def children(parent, command=None):
    """Those of that name, if one is given."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                name, _, fields = (entry / "stat").read_text().partition("(")[2].rpartition(")")
                if int(fields.split()[1]) == parent and command in (None, name):
                    found.append(int(entry.name))
            except (OSError, ValueError):
                pass
    return found


def python(code):
    return (sys.executable, "-S", "-c", code)


def trace(run, pid):
    tracer = run.spawn(*python(TRACER), pid, label="tracer")
    tracer.wait_out("traces")
    return tracer


def group_place():
    """Where jobs of this user get control groups (v2); None: nowhere."""
    for place in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified"):
        if (pathlib.Path(place) / "cgroup.controllers").exists():
            own = pathlib.Path("/proc/self/cgroup").read_text().partition("0::/")[2].splitlines()[0]
            path = pathlib.Path(place) / own
            if os.access(path, os.W_OK):
                return path
    return None


def needs_groups():
    return group_place() or skip("no control group (v2) can be made here")


def without_groups():
    """The words of a command that executes another where no control group can be made."""
    if not IS_ROOT:
        return skip("control groups can be hidden by root only") if group_place() else []
    mounts = [line.split() for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines()]
    hide = "".join(f"umount -l {words[4]} && " for words in mounts if "cgroup2" in words)
    return ["unshare", "--mount", "sh", "-c", f'{hide}exec "$@"', "sh"]


def trace(run, pid):
    tracer = run.spawn(*python(TRACER), pid, label="tracer")
    tracer.wait_out("traces")
    return tracer


def kill_both(job):
    """Both guardians, so that neither has a moment for the tree."""
    inner = job.inner()
    for pid in (job.pid, inner):
        os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: stat_letter(pid) == "T", what="it stops")  # noqa: B023
    for pid in (inner, job.pid):
        os.kill(pid, signal.SIGKILL)


def group_of(job, pid=None):
    return list(needs_groups().glob(f"**/holdfast-run-{pid or job.pid}-*"))


def remove_group(job, pid=None):
    """Of a job whose guardians were killed: else the next run of anybody's would. `pid`: the first one's, in its own namespace."""
    for group in group_of(job, pid):
        with contextlib.suppress(OSError):
            group.rmdir()


def tough(run, within=()):
    return Job(run, "-t", f"{TTL_S}s", "job", *python(TOUGH), within=within).up()


class Watcher:
    """Reads V of the job's lease from the table, also while the agent hangs or is dead."""

    def __init__(self, run):
        self.holder = run.holder(label="watcher")
        self.valid_ns = 0

    def look(self, name="job"):
        """Keeps the last V that there was."""
        with contextlib.suppress(HolderError):  # nothing is held any more
            self.holder.cmd("find", encode(name))
            self.valid_ns = values_of(self.holder.more.pop())["valid_until_ns"] or self.valid_ns


def assert_at(what, at_ns, expected_ns, early_s=ROUNDING_S, late_s=NOISE_S):
    off = (at_ns - expected_ns) / S
    assert -early_s <= off <= late_s, f"{what} {off:+.3f} s off"


def assert_killed_in_time(job, watcher, late_s=NOISE_S):
    """Nobody outlived V - 0.1 T by more than `late_s`, and nobody V. Returns V."""
    watcher.look()
    dead_ns = job.death_ns(meanwhile=watcher.look)
    assert_at("SIGKILL", dead_ns, watcher.valid_ns - TTL_S * S // 10, late_s=late_s)
    assert dead_ns < watcher.valid_ns, f"{(dead_ns - watcher.valid_ns) / S:.3f} s after V"
    return watcher.valid_ns


def ready(run, nodes=3, **options):
    run.redis(nodes)
    run.agent(ttl=f"{TTL_S}s", **options)
