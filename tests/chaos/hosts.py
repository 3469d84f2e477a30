"""F8 to F11, F13 to F16: agents, guardians, holders and hosts."""
import os
import pathlib
import signal
import time

from cases import case
from criteria import Expected, S, handovers, percentile
from tickers import Job, Observer, in_time
from jobs import children
from rig import alive, boottime_ns, wait_until

TTL_S = 3
CUT_OFF = ("quorum", "unrenewed", "late_reply", "restart", "away")


class WatchedJob:
    """A job on a fleet's first host, and what the table shows of it."""

    def __init__(self, lab, fleet, name="job", **options):
        self.lab = lab
        agent = fleet.hosts[0].agent
        self.job = Job(lab.run, name, agent, TTL_S, **options)
        self.observer = Observer(lab.run, name, agent)
        self.observer.wait_renewed()

    @property
    def pids(self):
        """Of both guardians and both processes of the job."""
        outer = self.job.process.pid
        return [outer, *children(outer, "holdfast"), *(life[0] for life in self.job.lives())]

    def ended(self, codes=(124,), told_ttls=0.2):
        """Waits for its end; what was wrong with it. `told_ttls`: it was told so long before, in TTLs."""
        wait_until(lambda: self.job.dead, 3 * TTL_S, "the job is dead")
        code = self.job.process.wait()
        valid_ns = self.observer.last_valid_ns()
        self.observer.close()
        self.lab.row.figures["dead before V by"] = f"{(valid_ns - self.job.last_ns) / 1e6:.0f} ms"
        return in_time(self.job, valid_ns, told_ttls) + ([] if code in codes else [f"exit {code}: {self.job.process.err}"])


# --- F8: the agent -------------------------------------------------------------------------------------


def agent_stopped(lab, seconds):
    """The agent hangs so long, under a job, contenders and a rival host. Past V the careless are refused by the store."""
    fleet = lab.fleet(ttl_s=TTL_S)
    fleet.start_crew(careless=4, long_ms=300)
    fleet.start_keepers(fleet.hosts[0])
    watched = WatchedJob(lab, fleet)
    fleet.stop_agent(fleet.hosts[0], seconds)
    calm_ns = boottime_ns()
    if seconds > 0.7 * TTL_S:
        complaints = watched.ended()
    else:
        time.sleep(TTL_S)
        complaints = [] if watched.job.process.running else [f"the job ended: {watched.job.process.err}"]
        watched.job.kill()
    time.sleep(2 * TTL_S)
    losses = CUT_OFF if seconds > 0.5 * TTL_S else 0
    lab.row.add(fleet.finish(), Expected(losses=losses, calm_ns=calm_ns, back_s=TTL_S + 0.5))
    lab.row.blame({"P5": complaints})


for _seconds in (0.3, 1, 1.7, 2.5, 3.5, 7, 12):
    case("F8", f"the agent hangs for {_seconds} s of T = {TTL_S}")(lambda lab, s=_seconds: agent_stopped(lab, s))


@case("F8", "the agent killed at every 100 ms of T, back within T/3")
def agent_killed(lab):
    """Whenever it was killed, all leases are readopted, with the V that they had."""
    fleet = lab.fleet(ttl_s=TTL_S, hosts=1, holders=2)
    fleet.start_crew(long_ms=1000)
    host = fleet.hosts[0]
    holder = lab.run.holder(host.agent)
    leases = [(f"kept-{i}", holder.acquire(f"kept-{i}")["lease"]) for i in range(10)]
    observer = Observer(lab.run, "kept-0", host.agent)
    complaints = []
    for phase in range(0, TTL_S * 10 // 3 + 1):
        observer.wait_renewed()
        time.sleep(phase / 10)
        before = observer.now().valid_ns
        fleet.kill_agent(host, fleet.random.uniform(0, TTL_S / 3))
        if observer.now().valid_ns not in (0, before):
            complaints.append(f"V moved while there was no agent: {before} to {observer.now().valid_ns}")
        host.agent.wait_ready()
        complaints += [f"{name} was lost, killed at {phase / 10} s" for name, lease in leases if not holder.held(lease)]
    lab.row.figures["leases kept"] = len(leases)
    holder.close()
    observer.close()
    lab.row.acquisitions += len(leases)
    lab.row.add(fleet.finish(), Expected(losses=0))
    lab.row.blame({"P6": complaints})


@case("F8", "the agent killed, back after V")
def agent_back_late(lab):
    fleet = lab.fleet(ttl_s=TTL_S)
    fleet.start_crew(careless=4, long_ms=300)
    for _ in range(3):
        fleet.start_keepers(fleet.hosts[0], 1, 1)
        watched = WatchedJob(lab, fleet)
        fleet.kill_agent(fleet.hosts[0], 1.3 * TTL_S)
        lab.row.blame({"P5": watched.ended()})
        fleet.hosts[0].agent.wait_ready()
    calm_ns = boottime_ns()
    time.sleep(2 * TTL_S)
    lab.row.add(fleet.finish(), Expected(losses=CUT_OFF, calm_ns=calm_ns, back_s=TTL_S + 0.5))


# --- F9, F10: guardians and jobs -----------------------------------------------------------------------


def guardian(lab, which, number, then_agent_hangs):
    """A guardian is killed or stopped. Killed: the other ends the job at once. Stopped, and the agent hangs: in time; the
    outer one acts 0.02 T after the inner one's time."""
    fleet = lab.fleet(ttl_s=TTL_S)
    fleet.start_crew(long_ms=500)
    watched = WatchedJob(lab, fleet)
    outer, inner = watched.pids[:2]
    fleet.tell(f"signal {number} to the {which} guardian")
    os.kill(outer if which == "outer" else inner, number)
    if then_agent_hangs:
        fleet.stop_agent(fleet.hosts[0], 1.5 * TTL_S)
    wait_until(lambda: all(not alive(pid) for pid in watched.pids[2:]), 3 * TTL_S, "the job is dead")
    if which == "outer" and number == signal.SIGSTOP:
        os.kill(outer, signal.SIGCONT)
    lab.row.blame({"P5": watched.ended((124, 125, -9), 0.18 if number == signal.SIGSTOP else 0)})
    lab.row.add(fleet.finish(), Expected(losses=CUT_OFF, wait_s=2.5 * TTL_S))  # an agent that hangs wakes its host's waiters late


for _which in ("outer", "inner"):
    case("F9", f"the {_which} guardian killed")(lambda lab, w=_which: guardian(lab, w, signal.SIGKILL, False))
    case("F9", f"the {_which} guardian stopped, and the agent hangs")(
        lambda lab, w=_which: guardian(lab, w, signal.SIGSTOP, True))


@case("F10", "holders stopped past V, then continued")
def holders_stopped(lab):
    """A host's agent and contenders hang past V, the contenders go on first: each must see that it holds no more."""
    fleet = lab.fleet(ttl_s=TTL_S)
    fleet.start_crew(careless=3, long_ms=300)
    for i in range(4):
        host = fleet.hosts[i % 3]
        fleet.start_keepers(host, 2)
        fleet.tell(f"hang host {host.label}")
        host.agent.sigstop()
        fleet.stop_holders(host.crew, 1.5 * TTL_S)
        time.sleep(0.3)
        host.agent.sigcont()
    calm_ns = boottime_ns()
    time.sleep(2 * TTL_S)
    lab.row.add(fleet.finish(), Expected(losses=CUT_OFF, calm_ns=calm_ns, back_s=TTL_S + 0.5))


@case("F10", "a job under `sh -c`, its daemonised grandchild deaf to SIGTERM")
def under_a_shell(lab):
    """The shell obeys SIGTERM, what it started does not: all of it must be dead before V."""
    fleet = lab.fleet(ttl_s=TTL_S)
    fleet.start_crew(long_ms=500)
    watched = WatchedJob(lab, fleet, shell=True)
    fleet.stop_nodes(fleet.nodes[:3], 1.2 * TTL_S)
    lab.row.blame({"P5": watched.ended()})
    lab.row.add(fleet.finish(), Expected(losses=CUT_OFF, wait_s=2.2 * TTL_S))  # nobody gets a lock before the nodes go on


@case("F10", "a job that cannot be killed: the lock is not released", needs_root=True)
def unkillable(lab):
    """Frozen by the freezer its processes do not die of SIGKILL: no DEL, the keys lapse, and then another may have it."""
    folder = pathlib.Path("/sys/fs/cgroup/freezer") / lab.run.tag
    try:
        folder.mkdir()
    except OSError:
        lab.skip("no cgroup v1 freezer")
    fleet = lab.fleet(ttl_s=TTL_S, hosts=2)
    fleet.start_monitors()
    watched = WatchedJob(lab, fleet, name="lock-9")
    complaints = []
    try:
        for pid in watched.pids[2:]:
            (folder / "cgroup.procs").write_text(str(pid))
        (folder / "freezer.state").write_text("FROZEN")
        fleet.tell("freeze the job")
        rival = lab.run.holder(fleet.hosts[1].agent, label="rival")
        fleet.run.holdfast("release", "lock-9", agent=fleet.hosts[0].agent)
        asked_ns = boottime_ns()
        rival.acquire("lock-9", 0, 20_000)
        waited_s = (boottime_ns() - asked_ns) / S
        lab.row.figures["the rival waited"] = f"{waited_s:.1f} s"
        if any(alive(life[0]) for life in watched.job.lives()) and waited_s < TTL_S * 0.6:
            complaints.append(f"the lock passed on after {waited_s:.2f} s, and the job lives")
    finally:
        (folder / "freezer.state").write_text("THAWED")
        wait_until(lambda: all(not alive(life[0]) for life in watched.job.lives()), 10, "the job is dead")
        wait_until(lambda: not (folder / "cgroup.procs").read_text(), 5)
        folder.rmdir()
    watched.job.process.wait()
    rival.close()
    lab.row.acquisitions += 2
    lab.row.add(fleet.finish(), Expected(losses=None))
    lab.row.blame({"P5": complaints})


# --- F11: holders that die -----------------------------------------------------------------------------


@case("F11", "holders killed while they hold")
def holders_killed(lab):
    fleet = lab.fleet(ttl_s=TTL_S, locks=3)
    fleet.start_crew(hold_ms=20, long_ms=200, pause_ms=1)
    times = []
    for _ in range(100):
        host = fleet.random.choice(fleet.hosts)
        pid = host.crew[-1].pid
        time.sleep(fleet.random.uniform(0.02, 0.1))
        at_ns = boottime_ns()
        fleet.kill_holder(host)
        times.append((at_ns, pid))
    time.sleep(1)
    record = fleet.finish()
    dead = [e for told in record.events.values() for e in told if e["event"] == "released" and e["reason"] == "holder"]
    ends = {hold.pid: hold for hold in record.holds if not hold.end_ns}
    took = [(int(e["at_ns"]) - ends[e["pid"]].last_ns) / 1e6 for e in dead if e["pid"] in ends]
    if took:
        lab.row.figures["released after"] = f"{percentile(took, 50):.1f} ms, 99 % {percentile(took, 99):.1f} ms"
        lab.row.figures["holds"] = len(took)
    lab.row.add(record, Expected(losses=0))
    lab.row.blame({"P3": [] if took and percentile(took, 99) < 500 else [f"released only after {took[-5:]}"]})


# --- F13: suspend --------------------------------------------------------------------------------------


@case("F13", "a host is suspended past V")
def suspended(lab):
    """CLOCK_MONOTONIC stands still meanwhile, for agent, contenders, guardians and job alike. Others get the locks; on
    resuming nobody may believe that he holds. A job cannot be stopped while its host is; how long it then lives is told."""
    fleet = lab.fleet(ttl_s=TTL_S, suspendable=True)
    fleet.start_crew(careless=3, long_ms=300)
    host = fleet.hosts[0]
    fleet.start_keepers(host)
    lived = []
    for seconds in (0.3, 1.2 * TTL_S, 2 * TTL_S):
        time.sleep(TTL_S / 2)
        job = Job(lab.run, "job", host.agent, TTL_S, env=fleet.clock_env(host))
        pids = [job.process.pid, *children(job.process.pid), *(life[0] for life in job.lives())]
        fleet.suspend(host, seconds, pids)
        resumed_ns = boottime_ns()
        if seconds < TTL_S / 2:
            time.sleep(TTL_S)
            assert job.process.running, f"the job ended: {job.process.err}"
            job.kill()
        else:
            job.process.wait()
            lived.append(max((job.last_ns - resumed_ns) / 1e6, 0))
    lab.row.figures["a job lived on for"] = f"{max(lived):.0f} ms"
    lab.row.blame({"P5": [] if max(lived) < 500 else [f"a job lived on for {max(lived):.0f} ms"]})
    calm_ns = boottime_ns()
    time.sleep(2 * TTL_S)
    lab.row.add(fleet.finish(), Expected(losses=CUT_OFF, calm_ns=calm_ns, back_s=TTL_S + 0.5))


# --- F14: starvation -----------------------------------------------------------------------------------


@case("F14", "1000 leases, the agent at 10 % of a processor", needs_root=True)
def starved(lab):
    folder = pathlib.Path("/sys/fs/cgroup/cpu") / lab.run.tag
    try:
        folder.mkdir()
    except OSError:
        lab.skip("no cgroup v1 cpu controller")
    ttl_s = 5
    fleet = lab.fleet(ttl_s=ttl_s, hosts=1, holders=2)
    agent = fleet.hosts[0].agent
    holder = lab.run.holder(agent)
    holder.cmd("many", 1000, "many", 0)
    wait_until(lambda: len(fleet.keys()) >= 5000, 20, "all keys are there")
    try:
        (folder / "cpu.cfs_period_us").write_text("100000")
        (folder / "cpu.cfs_quota_us").write_text("10000")
        fleet.tell("10 % of a processor")
        for task in os.listdir(f"/proc/{agent.pid}/task"):
            (folder / "tasks").write_text(task)
        fleet.start_crew(long_ms=500)
        least, end = ttl_s * 1000, time.monotonic() + 4 * ttl_s
        while time.monotonic() < end:
            rows = lab.run.holdfast("list", "--json", "many", agent=agent).json["leases"]
            least = min([least, *(row["left_ms"] for row in rows)])
            time.sleep(0.5)
        lab.row.figures.update({"leases": len(rows), "least validity seen": f"{least} ms"})
    finally:
        for task in os.listdir(f"/proc/{agent.pid}/task"):
            pathlib.Path("/sys/fs/cgroup/cpu/tasks").write_text(task)
        folder.rmdir()
    holder.close()
    lab.row.acquisitions += 1000
    lab.row.add(fleet.finish(), Expected(losses=0))
    lab.row.blame({"P6": [] if len(rows) == 1000 else [f"{1000 - len(rows)} of 1000 leases are gone"]})


# --- F15, F16: many waiters, and races -----------------------------------------------------------------


@case("F15", "64 waiters on three hosts, one lock")
def contention(lab):
    fleet = lab.fleet(ttl_s=TTL_S, holders=22, locks=1)
    fleet.start_crew(hold_ms=1, long_ms=0, pause_ms=5, spin=False)
    time.sleep(20)
    record = fleet.finish()
    waits = [(hold.first_ns - hold.ask_ns) / S for hold in record.holds]
    times = handovers(record)
    lab.row.figures.update({"handover": f"{percentile(times, 50) * 1000:.1f} ms, 99 % {percentile(times, 99) * 1000:.0f} ms",
                            "wait": f"{percentile(waits, 50):.2f} s, most {max(waits):.2f} s"})
    lab.row.add(record, Expected(losses=0, handover_s=0.5))
    got = {hold.pid for hold in record.holds}
    lab.row.blame({"P6": ([f"{66 - len(got)} of 66 never had it"] if len(got) < 66 else [])
                   + ([f"somebody waited for {max(waits):.1f} s"] if max(waits) > 20 * TTL_S else [])})


@case("F16", "release and renewal cross, waits end as the grant comes")
def races(lab):
    """Half as long as the random mix; --minutes 10 makes 100,000."""
    fleet = lab.fleet(ttl_s=2, holders=8, locks=32)
    fleet.start_monitors(2)
    fleet.start_crew(hold_ms=0, long_ms=1500, pause_ms=2, wait_ms=12, idle_us=200)
    time.sleep(max(20, lab.seconds / 2))
    fleet.tell("races")
    lab.row.add(fleet.finish(), Expected(losses=0, wait_s=4))  # nothing is out of order, and 24 contenders fill a busy machine
