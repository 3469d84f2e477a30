"""Jobs under `holdfast run` that show when they lived, and what the table said meanwhile: criterion P5."""
import contextlib
import os
import pathlib
import signal
import struct
import subprocess
import sys
import typing

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from rig import BUILD, agent_env, alive, boottime_ns, wait_until  # noqa: E402

S = 1_000_000_000
ROUNDING_NS = 2 ** 20  # of V in the table
HELD, LATE, LOSING, LOST, RELEASED = range(1, 6)


class Look(typing.NamedTuple):
    at_ns: int
    state: int
    valid_ns: int
    fence: int


class Observer:
    """What the table shows of one lease, from now on."""

    def __init__(self, run, name, agent):
        self.process = run.spawn(BUILD / "tests" / "observer", name, agent.name, label="observer", stdin=subprocess.PIPE)

    def looks(self):
        return [Look(*map(int, line.split())) for line in self.process.out.splitlines(keepends=True) if line.endswith("\n")]

    def now(self):
        return (self.looks() or [Look(0, 0, 0, 0)])[-1]

    def wait_renewed(self, least_ns=S // 2):
        """Returns right after V moved on; by less than this it does when one node's answer is late."""
        before_ns = wait_until(lambda: self.now().valid_ns, what="the lease is seen")
        wait_until(lambda: self.now().valid_ns > before_ns + least_ns, what="V moves on", interval_s=0.005)

    def first(self, state, since_ns):
        """When the table first showed this state, or None."""
        return next((look.at_ns for look in self.looks() if look.state == state and look.at_ns >= since_ns), None)

    def last_valid_ns(self):
        """The latest V that there was."""
        return max(look.valid_ns for look in self.looks())

    def close(self):
        self.process.popen.stdin.close()
        self.process.wait()


class Job:
    """A `holdfast run` of ticker.c: a process and a daemonised grandchild that do not hear SIGTERM, or obey it."""

    def __init__(self, run, name, agent, ttl_s, obey=False, shell=False, env=None, options=(), patience_s=10.0):
        self.ttl_s, self.path = ttl_s, run.dir / f"ticks{run.serial()}"
        ticker = [BUILD / "tests" / "ticker", self.path, *(["--obey"] if obey else [])]
        if shell:
            ticker = ["sh", "-c", " ".join(map(str, ticker)) + " & wait"]
        self.process = run.start_holdfast("run", "-t", f"{ttl_s}s", *options, name, *ticker,
                                          env={**agent_env(agent), **(env or {})})
        wait_until(lambda: all(life[3] for life in self.lives()) or not self.process.running, patience_s, "the job runs")

    def lives(self):
        """(pid, start_ns, term_ns, last_ns) of both processes."""
        try:
            data = self.path.read_bytes()
        except OSError:
            data = b""
        return list(struct.iter_unpack("<4q", data)) if len(data) == 64 else [(0, 0, 0, 0)] * 2

    @property
    def term_ns(self):
        """When it was told to stop; 0: never."""
        told = [life[2] for life in self.lives() if life[2]]
        return min(told) if told else 0

    @property
    def last_ns(self):
        """Its last instruction, as far as a tick of 0.5 ms shows."""
        return max(life[3] for life in self.lives())

    @property
    def dead(self):
        """Nothing of it ran for a while."""
        return boottime_ns() - self.last_ns > S // 10 and not any(alive(life[0]) for life in self.lives())

    def kill(self):
        """Ends its processes; `run` then ends by itself."""
        for pid, *_ in self.lives():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return self.process.wait()


def in_time(job, valid_ns, told_ttls=0.2):
    """P5: dead before V; and told so many TTLs before it was killed."""
    complaints = []
    if job.last_ns > valid_ns:
        complaints.append(f"the job lived {(job.last_ns - valid_ns) / 1e6:.1f} ms after its V")
    if job.term_ns and job.last_ns - job.term_ns < told_ttls / 2 * job.ttl_s * S:  # a busy machine tells it late
        complaints.append(f"only {(job.last_ns - job.term_ns) / 1e6:.0f} ms from SIGTERM to its end")
    return complaints
