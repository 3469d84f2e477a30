#!/usr/bin/env python3
"""Jobs that are to end and will not, what is run when they are told, and who tells them: --on-lost, --max-hold."""
import contextlib
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from events import history, those  # noqa: E402
from jobs import NOISE_S, TELLS, TTL_S, Job, S, Watcher, assert_at, assert_killed_in_time, python, ready, tough, without_groups  # noqa: E402
from rig import BUILD, SLOW, alive, boottime_ns, main, scenario, skip, stat_letter, wait_until  # noqa: E402

FREEZER = pathlib.Path("/sys/fs/cgroup/freezer")

# All at once: deaf to TERM, stopped, away from session, group and parents, below a subreaper of its own, with every
# signal blocked, and one that keeps the standard streams.
CROWD = """
import ctypes, os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
def child(do):
    if os.fork() == 0:
        do()
        time.sleep(120)
        os._exit(0)
def daemon():
    os.setsid()
    if os.fork():
        os._exit(0)
def subreaper():
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
    child(daemon)
def blocked():
    signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
child(lambda: os.kill(os.getpid(), signal.SIGSTOP))
child(daemon)
child(subreaper)
child(blocked)
child(os.setsid)
time.sleep(0.3)
print("up", flush=True)
time.sleep(120)
"""

# Chains of processes, each of which lives for some milliseconds and leaves a child: there is always somebody who was
# not there when the last one looked.
def chains(leave="os.setsid()", nap="time.sleep(random.uniform(0.001, 0.004))"):
    return f"""
import os, random, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
end = time.monotonic() + 30  # also when nobody stops them
def chain():
    while time.monotonic() < end:
        {nap}
        if os.fork():
            os._exit(0)
    os._exit(0)
for _ in range(10):
    if os.fork() == 0:
        {leave}
        chain()
print("up", flush=True)
time.sleep(120)
"""


@contextlib.contextmanager
def majority_away(run):
    for node in run.nodes[:2]:
        node.sigstop()
    try:
        yield
    finally:
        for node in run.nodes[:2]:
            node.sigcont()


# --- trees ---------------------------------------------------------------------------------------------


@scenario("a crowd of the stubborn is dead before V, to the last of them")
def crowd(run):
    ready(run)
    watcher = Watcher(run)
    job = Job(run, "-t", f"{TTL_S}s", "job", *python(CROWD)).up()
    with majority_away(run):
        assert_killed_in_time(job, watcher, late_s=TTL_S / 10)  # to kill many takes a while
        assert job.wait() == 124, job.process.err


@scenario("chains of processes that outrun a signal are dead before V", sanitizers=False)
def outrun(run):
    ready(run)
    watcher = Watcher(run)
    ends_when_asked(run, watcher, chains())


def ends_when_asked(run, watcher, code, **options):
    """The job is dead before V, and its lock free. Longer than others': a storm leaves guardians on a busy machine little of it."""
    job = Job(run, "-t", f"{2 * TTL_S}s", "job", *python(code), **options).up()
    assert run.holdfast("release", "job").rc == 0
    watcher.look()
    dead_ns = job.death_ns(meanwhile=watcher.look)
    assert dead_ns < watcher.valid_ns, f"{(dead_ns - watcher.valid_ns) / S:.3f} s after V"
    assert job.wait() == 124, job.process.err
    run.keys_gone("job")


@scenario("the same without a control group", needs_root=True, sanitizers=False)
def without_group(run):
    within = without_groups()
    ready(run)
    watcher = Watcher(run)
    for code in (CROWD, chains(), chains(leave="pass"), chains(nap="pass")):
        ends_when_asked(run, watcher, code, within=within)


@scenario("a process that cannot be killed keeps the lock from being released until it can", needs_root=True, sanitizers=False)
def unkillable(run):
    if not (FREEZER / "tasks").exists():
        skip("no freezer of cgroup v1, whose frozen processes do not die")
    group = FREEZER / f"holdfast-{run.tag}"
    ready(run)
    job = Job(run, "job", *python(TELLS)).up()
    frozen = wait_until(lambda: [pid for pid in children_of(job.inner())], what="the job")[0]
    group.mkdir()
    try:
        (group / "tasks").write_text(str(frozen))
        (group / "freezer.state").write_text("FROZEN")
        wait_until(lambda: stat_letter(frozen) == "D", what="it is frozen")
        assert run.holdfast("release", "job").rc == 0
        job.process.wait_err(r"does not die \(it is inside the kernel\); the lock is not released", TTL_S + 5)
        assert alive(frozen) and job.process.running
        (group / "freezer.state").write_text("THAWED")
        assert job.wait() == 124, job.process.err
        assert not alive(frozen)
    finally:
        (group / "freezer.state").write_text("THAWED")
        wait_until(lambda: not (group / "tasks").read_text(), what="the group is empty")
        group.rmdir()
    run.keys_gone("job")


def children_of(parent):
    return [int(pid) for pid in pathlib.Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]


@scenario("what outlives the job with its streams in hand lets go of them before the run ends", sanitizers=False)
def keeps_streams(run):
    ready(run)
    job = Job(run, "job", "sh", "-c", "trap '' TERM; sleep 60 & echo up; exit 3", stdin=subprocess.PIPE).up()
    assert job.wait() == 3, job.process.err
    assert job.out.read() == b"", "somebody has the standard output"
    try:
        job.process.popen.stdin.write(b"x")
        raise AssertionError("somebody has the standard input")
    except BrokenPipeError:
        pass


@scenario("both guardians stopped until after V: the tree is killed as soon as one of them goes on", sanitizers=False)
def both_stopped(run):
    within = without_groups()  # with one the agent would not wait for either
    ready(run)
    for first in ("outer", "inner"):
        watcher = Watcher(run)
        job = tough(run, within)
        pids = {"outer": job.pid, "inner": job.inner()}
        for pid in pids.values():
            os.kill(pid, signal.SIGSTOP)
        with majority_away(run):
            watcher.look()
            wait_until(lambda: watcher.look() or boottime_ns() > watcher.valid_ns + S // 10, 3 * TTL_S, "V passes")
            os.kill(pids[first], signal.SIGCONT)
            began_ns = boottime_ns()
            assert_at("the end of the tree", job.death_ns(), began_ns, early_s=0, late_s=5 * SLOW)
            os.kill(job.pid, signal.SIGCONT)
            assert job.wait() == 124, job.process.err
        with contextlib.suppress(ProcessLookupError):
            os.kill(pids["inner"], signal.SIGCONT)
        run.keys_gone("job", 10)


@scenario("the first guardian is killed at any time after the start: the lock is free at once, and no job begins after that")
def killed_early(run):
    ready(run)
    rounds = 60 if SLOW == 1 else 10
    with run.nodes[0].client() as client:
        for i in range(rounds):
            began = run.dir / f"began{i}"
            job = Job(run, "-t", "30s", f"job{i}", "sh", "-c", f"date +%s%N > {began}; exec sleep 60")
            while not client.cmd("EXISTS", f"job{i}"):
                pass  # the second guardian comes within a millisecond or two of this
            time.sleep(random.choice((0, 0, random.uniform(0, 0.02 * SLOW))))
            job.process.signal(signal.SIGKILL)
            wait_until(lambda: not client.cmd("EXISTS", f"job{i}"), what="the key goes", interval_s=0)  # noqa: B023
            free_ns = time.time_ns()
            job.death_ns()
            job.wait()
            run.keys_gone(f"job{i}")
            if began.exists() and began.read_text():
                late_ms = (int(began.read_text()) - free_ns) / 1e6
                assert late_ms < 0, f"a job began {late_ms:.3f} ms after its lock was free"


@scenario("a first guardian that nobody has joined ends its lease with itself: whoever joins then is turned away")
def too_late_to_join(run):
    ready(run)
    process = run.spawn(BUILD / "tests" / "heir", "job", stdin=subprocess.PIPE)
    process.wait_out("ready")
    run.agents[0].sigstop()  # it will hear of both at once
    process.kill()
    process.popen.stdin.write(b"now\n")
    process.popen.stdin.flush()
    time.sleep(0.2)
    run.agents[0].sigcont()
    process.wait_out(r"-401 the lease that this guardian belongs to is over")
    run.keys_gone("job")


@scenario("the agent is killed while a run begins: it goes on with the next one", sanitizers=False)
def agent_killed_early(run):
    ready(run)
    agent = run.agents[0]
    with run.nodes[0].client() as client:
        for i in range(12):
            process = run.start_holdfast("run", "-t", "20s", f"job{i}", "sh", "-c", "echo done; exit 5")
            while not client.cmd("EXISTS", f"job{i}") and process.running:
                pass
            time.sleep(random.choice((0, random.uniform(0, 0.004))))
            agent.kill()
            agent = run.agent("a", ttl=f"{TTL_S}s", fresh=False)
            assert process.wait() == 5 and process.out == "done\n", process.err
            run.keys_gone(f"job{i}")


# --- on-lost -------------------------------------------------------------------------------------------


@scenario("the on-lost command runs once instead of the signal, knows the lock and why, and its children end with it")
def on_lost(run):
    ready(run)
    log = run.dir / "hook"
    hook = f'echo "$HOLDFAST_NAME|$HOLDFAST_PID|$HOLDFAST_REASON|$HOLDFAST_FENCE" >> {log}; echo to-stderr'
    job = Job(run, "-t", f"{TTL_S}s", "--on-lost", hook, "job", "sh", "-c",
              "trap 'echo told' TERM; echo up $$ $HOLDFAST_FENCE; while :; do sleep 0.05; done")
    up, pid, fence = job.line().split()
    watcher = Watcher(run)
    assert run.holdfast("release", "job").rc == 0
    assert_killed_in_time(job, watcher)
    assert job.wait() == 124, job.process.err
    assert log.read_text() == f"job|{pid}|somebody asked the holder to stop|{fence}\n"
    assert "to-stderr" in job.process.err and "running the on-lost command" in job.process.err
    assert up == "up"


@scenario("the on-lost command may end the job in time; the lock is then free at once", sanitizers=False)
def on_lost_stops(run):
    ready(run)
    job = Job(run, "-t", "20s", "--on-lost", "kill -USR1 $HOLDFAST_PID", "job", "sh", "-c",
              "trap 'exit 9' USR1; echo up; while :; do sleep 0.05; done").up()
    assert run.holdfast("release", "job").rc == 0
    began_ns = boottime_ns()
    assert job.wait() == 124, job.process.err
    assert_at("the end", boottime_ns(), began_ns, early_s=0, late_s=5 * SLOW)
    run.keys_gone("job")


@scenario("an on-lost command that fails, or cannot be run: the signal is sent after all", sanitizers=False)
def on_lost_fails(run):
    ready(run)
    for hook in ("exit 1", "/nonexistent/hook", "kill -9 $$"):
        job = Job(run, "-t", "20s", "--on-lost", hook, "job", *python(TELLS)).up()
        began_ns = boottime_ns()
        assert run.holdfast("release", "job").rc == 0
        assert_at("SIGTERM", int(job.line()), began_ns, late_s=5 * SLOW)
        job.process.kill()
        job.death_ns()
        run.keys_gone("job")


@scenario("an on-lost command that hangs, with children that left it, is killed with the job before V", sanitizers=False)
def on_lost_hangs(run):
    ready(run)
    watcher = Watcher(run)
    hook = "trap '' TERM; setsid sh -c 'trap \"\" TERM; echo $$; exec sleep 120' & wait"
    job = Job(run, "-t", f"{TTL_S}s", "--on-lost", hook, "job", *python(TELLS)).up()
    with majority_away(run):
        job.process.wait_err("running the on-lost command")
        grandchild = int(job.process.wait_err(r"(?m)^(\d+)$").group(1))
        assert_killed_in_time(job, watcher)
        wait_until(lambda: not alive(grandchild), interval_s=0.005)
        assert boottime_ns() < watcher.valid_ns
        assert job.wait() == 124, job.process.err


@scenario("a lock that is lost at once: the job is killed, the on-lost command not run", sanitizers=False)
def on_lost_too_late(run):
    ready(run)
    log = run.dir / "hook"
    job = Job(run, "-t", f"{TTL_S}s", "--on-lost", f"touch {log}", "job", *python(TELLS)).up()
    for node in run.nodes[:2]:
        node.cmd("SET", "job", "another's", "XX", "PX", "20000")
    assert job.wait() == 124, job.process.err
    assert not log.exists()


# --- max-hold ------------------------------------------------------------------------------------------

HELD, LATE, LOSING, LOST = 1, 2, 3, 4


def changes(holder, ms, until=LOST):
    """What a watched lease became within so long, or until it became that: {state: (when, why)}."""
    seen = {}
    end_ns = boottime_ns() + ms * 1_000_000
    while boottime_ns() < end_ns:
        holder.cmd("dispatch", 20)
        for line in holder.more:
            words = dict(word.split("=", 1) for word in line.split(" ", 4)[1:] if "=" in word)
            seen.setdefault(int(words["state"]), (boottime_ns(), line.partition("reason=")[2]))
        holder.more.clear()
        if until in seen:
            break
    return seen


@scenario("max_hold of a lease: LOSING then, lost at V, which moves no more, and the next one gets it", sanitizers=False)
def max_hold_lease(run):
    ready(run)
    holder, other = run.holder(), run.holder(label="other")
    holder.acquire("job", 0, 0, "hold=1500")
    began_ns = boottime_ns()
    holder.cmd("watch")
    other.send("acquire", "job", 0, 30_000)
    seen = changes(holder, 8000 * SLOW)
    assert_at("LOSING", seen[LOSING][0], began_ns + S * 3 // 2, early_s=0.1, late_s=NOISE_S + 0.1)
    assert "max_hold" in seen[LOSING][1] and "max_hold" in seen[LOST][1], seen
    assert (seen[LOST][0] - seen[LOSING][0]) / S <= TTL_S + NOISE_S
    assert other.answer()["fence"] > 0 and not holder.held()


@scenario("max_hold counts from the grant, also over a restart of the agent and with renewals that are late", sanitizers=False)
def max_hold_over_trouble(run):
    ready(run)
    holder = run.holder()
    hold_s = 2 * TTL_S
    holder.acquire("job", 0, 0, f"hold={hold_s * 1000}")
    began_ns = boottime_ns()
    holder.cmd("watch")
    time.sleep(TTL_S / 2)
    run.agents[0].kill()
    run.agent("a", ttl=f"{TTL_S}s", fresh=False)
    time.sleep(max(0, began_ns / S + hold_s - TTL_S * 0.3 - boottime_ns() / S))
    with majority_away(run):  # too short for a loss by itself
        seen = changes(holder, 1000 * TTL_S, LOSING)
        until_ns = holder.cmd("until")["value"]
    assert_at("LOSING", seen[LOSING][0], began_ns + hold_s * S, early_s=0.1, late_s=NOISE_S + 0.2)
    assert "max_hold" in seen[LOSING][1], seen
    time.sleep(0.3)  # for the answers of the nodes that are back
    assert holder.cmd("until")["value"] == until_ns, "V moved"
    assert LOST in changes(holder, 2000 * TTL_S)


@scenario("the configuration caps max_hold, also of those who ask for more or for none", sanitizers=False)
def max_hold_capped(run):
    run.redis(3)
    run.agent(ttl=f"{TTL_S}s", options=["--max-hold", "1s"])
    for options in ((), ("--max-hold", "1h")):
        job = Job(run, *options, "job", "sh", "-c", "echo up; sleep 60").up()
        dead_ns = job.death_ns()
        assert job.wait() == 124, job.process.err
        assert "max_hold" in job.process.err, job.process.err
        granted, losing = those(history(run, "job"), "granted", "losing")[-2:]
        assert losing["reason"] == "max_hold" and losing["fence"] == granted["fence"], (granted, losing)
        assert_at("LOSING", int(losing["at_ns"]), int(granted["at_ns"]) + S, early_s=0.1, late_s=5 * SLOW)
        assert dead_ns < int(losing["valid_ns"]), f"dead {(dead_ns - int(losing['valid_ns'])) / S:.3f} s after V"
        run.keys_gone("job")


@scenario("a run is told to stop at its max_hold, killed at V - 0.1 T if it does not, over a restart of the agent", sanitizers=False)
def max_hold_run(run):
    ready(run)
    watcher = Watcher(run)
    hold_s = 2 * TTL_S
    began_ns = boottime_ns()
    job = Job(run, "-t", f"{TTL_S}s", "--max-hold", f"{hold_s}s", "job", *python(TELLS)).up()
    time.sleep(TTL_S / 2)
    run.agents[0].kill()
    run.agent("a", ttl=f"{TTL_S}s", fresh=False)
    assert_at("SIGTERM", int(job.line(3 * TTL_S)), began_ns + hold_s * S, early_s=0.1, late_s=NOISE_S + 0.3)
    assert_killed_in_time(job, watcher)
    assert job.wait() == 124, job.process.err
    run.keys_gone("job")


if __name__ == "__main__":
    main()
