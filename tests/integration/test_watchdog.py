#!/usr/bin/env python3
"""A thread of the agent hangs: the service manager's watchdog starts the agent again, and leases go on."""
import pathlib
import re
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from manager import Manager  # noqa: E402
from rig import BUILD, main, scenario, wait_until  # noqa: E402

WATCHDOG_S = 2.0
THREADS = {"holdfastd": None, "hf-broker": "broker", "hf-renewal": "renewal"}  # as its name is, and as people are told


class Watched:
    """An agent under a watchdog: who does not feed it in time, or asks for it, gets SIGABRT, and the next one starts."""

    def __init__(self, run, knows_trigger=True):
        self.run, self.starts, self.triggered, self.knows_trigger = run, 0, False, knows_trigger
        self.hung = run.dir / "hung-thread"
        self.hang("")
        self.start(fresh=True)

    def start(self, fresh=False):
        self.starts += 1
        self.manager, self.seen, self.fed = Manager(self.run), 0, time.monotonic()
        self.agent = self.run.agent(label="a", ttl="10s", fresh=fresh, env={
            "NOTIFY_SOCKET": self.manager.address, "WATCHDOG_USEC": str(int(WATCHDOG_S * 1e6)),
            "LD_PRELOAD": BUILD / "tests" / "hungthread.so", "HUNGTHREAD_FILE": self.hung})

    def hang(self, thread):
        """In one step: a thread reads the old name or the new one."""
        (self.run.dir / "next").write_text(thread)
        (self.run.dir / "next").rename(self.hung)

    def look(self):
        """What systemd does between two looks: True when it ended the agent, and started the next."""
        self.manager.read()
        news, self.seen = self.manager.said[self.seen:], len(self.manager.said)
        triggered = self.knows_trigger and any("WATCHDOG=trigger" in said for said in news)
        if any("WATCHDOG=1" in said for said in news):
            self.fed = time.monotonic()
        if not triggered and time.monotonic() - self.fed < WATCHDOG_S:
            return False
        self.triggered |= triggered
        self.agent.signal(signal.SIGABRT)
        self.agent.wait(20)
        self.hang("")
        self.start()
        return True

    def watch(self, seconds):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.look()
            time.sleep(0.02)


def job(run, name):
    started = run.start_holdfast("run", name, "sleep", "300")
    wait_until(lambda: run.show(name), what=f"{name} is held")
    return started


def hangs(run, thread, **options):
    run.redis(3)
    watched = Watched(run, **options)
    jobs = [job(run, name) for name in ("one", "two")]
    before = {name: run.show(name) for name in ("one", "two")}
    watched.hang(thread)
    wait_until(watched.look, 30, f"the watchdog of {thread}")
    first = run.agents[-2]
    if THREADS[thread]:
        assert re.search(rf"the {THREADS[thread]} thread has stood still for 1000 ms: the service manager is to start this",
                         first.err), first.err
    watched.watch(12)  # longer than the TTL
    assert watched.starts == 2
    for name, started in zip(before, jobs, strict=True):
        now = run.show(name)
        assert started.running and now and now["fence"] == before[name]["fence"], (name, before, now)
        started.signal(signal.SIGTERM)
        started.wait()
    return watched


@scenario("the main thread hangs: no sign of life comes, and the next agent has the leases", sanitizers=False)
def main_hangs(run):
    hangs(run, "holdfastd")


@scenario("the broker thread hangs: no sign of life comes, and the next agent has the leases", sanitizers=False)
def broker_hangs(run):
    hangs(run, "hf-broker", knows_trigger=False)


@scenario("the renewal thread hangs: the watchdog is asked for at once, and the next agent has the leases", sanitizers=False)
def renewal_hangs(run):
    assert hangs(run, "hf-renewal").triggered


@scenario("without a watchdog a hung thread is told once, with what to do, and its end, too", sanitizers=False)
def nobody_watches(run):
    run.redis(3)
    hung = run.dir / "hung-thread"
    hung.write_text("")
    agent = run.agent(env={"LD_PRELOAD": BUILD / "tests" / "hungthread.so", "HUNGTHREAD_FILE": hung})
    hung.write_text("hf-broker")
    agent.wait_err(rf"restart this agent \(kill -ABRT {agent.pid}, or its service\): its broker thread has stood still")
    time.sleep(1)
    hung.write_text("")
    agent.wait_err("all threads go on again")
    assert agent.err.count("has stood still") == 1, agent.err


@scenario("a host that was suspended, or an agent that was stopped, has no thread that hangs", sanitizers=False)
def away(run):
    run.redis(3)
    watched = Watched(run)
    started = job(run, "one")
    watched.agent.sigstop()
    time.sleep(1.5 * WATCHDOG_S)
    watched.agent.sigcont()
    time.sleep(1)
    watched.manager.read()
    assert "WATCHDOG=trigger" not in watched.manager.read() and "stood still" not in watched.agent.err, watched.agent.err
    assert started.running and watched.agent.running
    started.signal(signal.SIGTERM)
    started.wait()


if __name__ == "__main__":
    main()
