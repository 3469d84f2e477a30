"""Processes that share a lock or have it alone (several.c), and what may not be in their histories."""
import subprocess

from history import read
from rig import BUILD, agent_env, boottime_ns

S = 1_000_000_000
ALONE, SHARED = 0, 1  # the locks of their records


def faults(holds):
    """Pairs of holds with an instant in common of which one is alone."""
    found, alone, shared = [], None, None  # those that last longest so far
    for hold in sorted(holds, key=lambda hold: hold.first_ns):
        for before in (alone, shared):
            if before and hold.first_ns <= before.last_ns and ALONE in (hold.lock, before.lock):
                found.append((before, hold))
        if hold.lock == ALONE:
            alone = hold if not alone or hold.last_ns > alone.last_ns else alone
        else:
            shared = hold if not shared or hold.last_ns > shared.last_ns else shared
    return found


def fence_faults(holds):
    """Pairs of holds alone whose fences do not rise."""
    ordered = sorted((hold for hold in holds if hold.lock == ALONE), key=lambda hold: hold.first_ns)
    return [(a, b) for a, b in zip(ordered, ordered[1:]) if a.fence >= b.fence]


class Sharers:
    """Processes that share one witness."""

    def __init__(self, run, name):
        self.run, self.name, self.members = run, name, []
        self.folder = run.dir / f"sharers{run.serial()}"
        self.folder.mkdir()

    def share(self, agent, *options, env=None):
        return self.add(agent, "--shared", *options, env=env)

    def alone(self, agent, *options, env=None):
        return self.add(agent, "--exclusive", *options, env=env)

    def add(self, agent, *options, env=None):
        path = self.folder / f"history{len(self.members)}"
        process = self.run.spawn(BUILD / "tests" / "several", "--name", self.name, "--history", path, "--witness",
                                 self.folder / "witness", "--host", len(self.members), *options,
                                 label=f"several-{len(self.members)}", env={**agent_env(agent), **(env or {})}, stdin=subprocess.PIPE)
        self.members.append((process, path))
        return process

    def start(self):
        for process, _ in self.members:
            process.wait_out("ready")
        self.began_ns = boottime_ns()
        for process, _ in self.members:
            process.popen.stdin.close()

    def stop(self):
        for process, _ in self.members:
            if process.running:
                process.popen.terminate()

    def finish(self, killed=(), timeout_s=120):
        for process, _ in self.members:
            code = process.wait(timeout_s)
            assert code == 0 or process in killed, f"{process.label} ended with {code}: {process.err}"
        self.span_s = (boottime_ns() - self.began_ns) / S
        self.holds, self.sightings = [], []
        for _, path in self.members:
            holds, sightings, _ = read(path)
            self.holds += holds
            self.sightings += sightings
        self.alone_holds = [hold for hold in self.holds if hold.lock == ALONE]
        self.shared_holds = [hold for hold in self.holds if hold.lock == SHARED]

    def faults(self):
        return faults(self.holds)

    def judge(self):
        assert self.alone_holds and self.shared_holds, "one kind never had it"
        assert not self.faults() and not self.sightings, (self.faults()[:3], self.sightings[:3])
        assert not fence_faults(self.holds), fence_faults(self.holds)[:3]

    @staticmethod
    def waits_s(holds):
        return sorted((hold.first_ns - hold.ask_ns) / S for hold in holds)

    def figures(self, what):
        print(f"# {what}: {len(self.holds)} grants in {self.span_s:.1f} s, {len(self.faults())} overlaps, "
              f"{len(self.sightings)} sightings")
        for word, holds in (("shared", self.shared_holds), ("alone", self.alone_holds)):
            waits = self.waits_s(holds)
            if waits:
                print(f"#   {word}: {len(waits)} grants; waits p50 {waits[len(waits) // 2] * 1000:.1f} ms, "
                      f"p99 {waits[len(waits) * 99 // 100] * 1000:.1f} ms, longest {waits[-1]:.3f} s")
