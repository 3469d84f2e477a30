#!/usr/bin/env python3
"""Shared and exclusive locks: who shares and who is alone are never there at one time, and nobody is kept out for ever.

HOLDFAST_FULL=1 lets them contend for a minute each; the figures are printed.
"""
import os
import pathlib
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import sharing  # noqa: E402
from jobs import TELLS, TTL_S, Job, S, Watcher, assert_at, children, python, ready  # noqa: E402
from rig import BUILD, SLOW, main, scenario, stat_letter, wait_until  # noqa: E402
from sharing import Sharers  # noqa: E402

FULL = bool(os.environ.get("HOLDFAST_FULL"))
FOR_S = 60 if FULL else 4
SLOTS = 64
WAITS = ("sh", "-c", "echo up; read x; exit 0")


def rest(run, agents, name="db"):
    """Nothing is left."""
    for agent in agents:
        for what in ("leases", "waiters"):
            wait_until(lambda: run.holdfast("status", "--json", agent=agent).json["counters"][what] == 0,  # noqa: B023
                       10, f"no {what}")
    for key in (name, *(f"{name}#{i}" for i in range(SLOTS))):
        run.keys_gone(key)


def started(run, *options, name="db"):
    return Job(run, *options, name, *WAITS, stdin=subprocess.PIPE)


def ended(job, code=0):
    job.process.popen.stdin.close()
    assert job.wait() == code, job.process.err


# --- under load ----------------------------------------------------------------------------------------


@scenario("without a lock the judge sees who shares and who is alone at one time, and so do they", sanitizers=False)
def judge_sees(run):
    run.redis(3)
    agent = run.agent()
    crew = Sharers(run, "db")
    for _ in range(3):
        crew.share(agent, "--for-ms", 500, "--hold-us", 2000, "--no-lock")
    crew.alone(agent, "--for-ms", 500, "--hold-us", 2000, "--no-lock")
    crew.start()
    crew.finish()
    assert crew.faults() and crew.sightings


@scenario("20 that share on each of two hosts, and one on each that wants to be alone: no overlap, and all get on", sanitizers=False)
def two_hosts(run):
    run.redis(3)
    agents = [run.agent(label) for label in "ab"]
    crew = Sharers(run, "db")
    for i in range(40):
        crew.share(agents[i % 2], "--for-ms", FOR_S * 1000, "--hold-us", 20_000)
    for agent in agents:
        crew.alone(agent, "--for-ms", FOR_S * 1000, "--hold-us", 2000, "--pause-us", 100_000)
    crew.start()
    crew.finish()
    crew.figures("40 that share, 2 that want to be alone")
    crew.judge()
    assert max(crew.waits_s(crew.alone_holds)) < 3 * SLOW, "one that wants to be alone waited for long"
    assert max(crew.waits_s(crew.shared_holds)) < 5 * SLOW, "one that shares waited for long"
    rest(run, agents)


@scenario("few slots, and counted locks of other numbers beside them: who is alone excludes them all", sanitizers=False)
def other_numbers(run):
    run.redis(3)
    agents = [run.agent(label) for label in "ab"]
    crew = Sharers(run, "db")
    for i in range(12):
        crew.share(agents[i % 2], "--for-ms", FOR_S * 1000, "--hold-us", 5000, "--pause-us", 5000, "--slots", (1, 3, 17)[i % 3])
    for agent in agents:
        crew.alone(agent, "--for-ms", FOR_S * 1000, "--hold-us", 2000, "--pause-us", 50_000)
    crew.start()
    crew.finish()
    crew.figures("slots of 1, 3 and 17")
    crew.judge()
    rest(run, agents)


@scenario("processes that share, are alone or wait for it are killed: all is given back at once", sanitizers=False)
def killed(run):
    run.redis(3)
    agents = [run.agent(label) for label in "ab"]
    crew = Sharers(run, "db")
    options = ("--for-ms", 4000 * SLOW, "--hold-us", 3000, "--pause-us", 5000)
    for i in range(6):
        crew.share(agents[i % 2], *options)
    for agent in agents:
        crew.alone(agent, *options)
    victims = [(crew.alone if i % 2 else crew.share)(agents[i // 2 % 2], "--hold-us", 20_000) for i in range(8)]
    crew.start()
    for victim in victims:
        time.sleep(0.25 * SLOW)
        victim.kill()
    crew.finish(killed=victims)
    crew.figures("with eight that are killed")
    crew.judge()
    # A lock that waited for its TTL would have kept the others out for the rest of the time.
    for holds in (crew.shared_holds, crew.alone_holds):
        assert any(hold.first_ns > crew.began_ns + 2.5 * SLOW * S for hold in holds), "nobody had it any more"
    rest(run, agents)


@scenario("agents are killed and nodes restarted empty: who shares and who is alone never overlap, and nothing is left", sanitizers=False)
def rough(run):
    ttl_s, for_s = 1, 60 if FULL else 6
    run.redis(5)
    agents = [run.agent(label, ttl=f"{ttl_s}s", options=("--ttl-max", f"{ttl_s}s")) for label in "ab"]
    crew = Sharers(run, "db")
    options = ("--rough", "--for-ms", for_s * 1000, "--pause-us", 5000, "--hold-us")
    for i in range(8):
        crew.share(agents[i % 2], *options, 1_500_000 if i == 0 else 5000)
    for i in range(4):
        crew.alone(agents[i % 2], *options, 1_500_000 if i == 0 else 5000)
    crew.start()
    until = time.monotonic() + for_s - 2
    turn = 0
    while time.monotonic() < until:
        if turn % 2:
            agents[turn // 2 % 2].kill()
            time.sleep(0.1)
            agents[turn // 2 % 2] = run.agent("ab"[turn // 2 % 2], ttl=f"{ttl_s}s", fresh=False, wait=False,
                                              options=("--ttl-max", f"{ttl_s}s"))
        else:
            node = run.nodes[turn // 2 % 5]
            node.sigstop()
            time.sleep(0.4)
            node.sigcont()
            node.restart()
        time.sleep(0.3)
        turn += 1
    crew.finish()
    crew.figures("with agents killed and nodes restarted")
    assert not crew.faults() and not crew.sightings, (crew.faults()[:3], crew.sightings[:3])
    for agent in agents:
        agent.wait_ready()
    rest(run, agents)


# --- jobs ----------------------------------------------------------------------------------------------


@scenario("jobs of run --shared run beside each other, and one of run --exclusive alone, in turn; each knows what it has")
def turns(run):
    ready(run)
    script = ('echo "$HOLDFAST_MODE|$HOLDFAST_NAME|$HOLDFAST_SLOT|$HOLDFAST_SLOTS|$HOLDFAST_SLOT_FENCES|$HOLDFAST_FENCE"; '
              f'{BUILD}/bin/holdfast held -q "$HOLDFAST_NAME" || echo no; read x; exit 0')
    shared = [Job(run, "--shared", "db", "sh", "-c", script, stdin=subprocess.PIPE) for _ in range(2)]
    for job in shared:
        mode, name, slot, slots, fences, fence = job.line().split("|")
        assert (mode, name, slots, fences) == ("shared", f"db#{slot}", "64", "") and int(fence) > 0, (mode, name, slots, fences)
    for command in ("show", "held"):
        told = run.holdfast(command, "db")
        assert told.rc != 0 and "db is not held on" in told.err and "2 of its slots, #" in told.err, told
    refused = run.holdfast("run", "-n", "-E", 9, "--exclusive", "db", "true")
    assert refused.rc == 9 and "db is held shared by 2: db#" in refused.err, refused
    alone = Job(run, "--exclusive", "db", "sh", "-c", script, stdin=subprocess.PIPE)
    alone.process.wait_err(r"db is held shared by 2: db#\d+ is held by .*; waiting")
    later = Job(run, "--shared", "db", "sh", "-c", script, stdin=subprocess.PIPE)
    later.process.wait_err(rf"db is held by .* pid {alone.pid} .*; waiting")
    in_vain = run.holdfast("run", "-w", "200ms", "--shared", "db", "true")
    assert in_vain.rc == 75 and f"pid {alone.pid}" in in_vain.err and "the wait is over" in in_vain.err, in_vain
    for job in shared:
        ended(job)
    mode, name, slot, slots, fences, fence = alone.line().split("|")
    assert (mode, name, slot, slots) == ("exclusive", "db", "", ""), (mode, name, slot, slots)
    assert len(fences.split()) == SLOTS and all(int(one) > 0 for one in fences.split()) and int(fence) > 0
    for options in (("--shared",), ("--slots", 64), ("--slots", 1), ()):
        result = run.holdfast("run", "-n", *options, "db", "true")
        assert result.rc == 75 and f"pid {alone.pid}" in result.err, result
    assert run.show("db")["state"] == "held"
    ended(alone)
    assert later.line().startswith("shared|db#")
    assert run.holdfast("run", "-n", "--shared", "db", "true").rc == 0
    plain = started(run, "-n").up()  # which keeps out who wants to be alone, and not who shares
    assert run.holdfast("run", "-n", "--shared", "db", "true").rc == 0
    ended(later)
    refused = run.holdfast("run", "-n", "--exclusive", "db", "true")
    assert refused.rc == 75 and f"db is held by" in refused.err and f"pid {plain.pid}" in refused.err, refused
    ended(plain)
    rest(run, run.agents)


@scenario("when one lock of an exclusive job is asked for, or deleted, the job is stopped and all are released")
def one_hold(run):
    ready(run)
    for name in ("db", "db#63"):
        job = Job(run, "--exclusive", "db", *python(TELLS)).up()
        (child,) = children(job.inner())
        assert run.holdfast("release", name).rc == 0
        job.line()
        for other in ("db", "db#0", "db#31"):
            wait_until(lambda: run.show(other)["state"] == "losing", what=f"{other} is losing")  # noqa: B023
        assert run.holdfast("run", "-n", "--shared", "db", "true").rc == 75
        os.kill(child, signal.SIGKILL)
        assert job.wait() == 124, job.process.err
        assert f"holdfast: {name}: the lock is being lost: somebody asked" in job.process.err, job.process.err
        rest(run, run.agents)
    job = Job(run, "--exclusive", "db", *python(TELLS)).up()
    while job.process.running:  # the agent heals what a single DEL took
        for node in run.nodes:
            node.cmd("SET", "db#17", "another's", "PX", 3000)
        time.sleep(0.02)
    job.death_ns()
    assert job.wait() == 124 and "holdfast: db#17: the lock is " in job.process.err, job.process.err
    assert run.holdfast("wait", "db").rc == 0


@scenario("an exclusive job is dead before the first of its locks can pass to another", sanitizers=False)
def dead_in_time(run):
    ready(run)
    job = Job(run, "-t", f"{TTL_S}s", "--exclusive", "job", *python("""
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("up", flush=True)
time.sleep(120)
""")).up()
    names = ("job", "job#0", "job#40", "job#63")
    watchers = [Watcher(run) for _ in names]
    for node in run.nodes:
        node.sigstop()

    def look():
        for watcher, name in zip(watchers, names):
            watcher.look(name)

    look()
    dead_ns = job.death_ns(meanwhile=look)
    valid_ns = min(watcher.valid_ns for watcher in watchers)
    assert_at("SIGKILL", dead_ns, valid_ns - TTL_S * S // 10)
    assert dead_ns < valid_ns, f"{(dead_ns - valid_ns) / S:.3f} s after V"
    for node in run.nodes:
        node.sigcont()
    assert job.wait() == 124, job.process.err
    rest(run, run.agents, "job")


@scenario("the agent is killed and back in time, and a node is restarted empty: jobs that share and that are alone go on", sanitizers=False)
def agent_back(run):
    ready(run)
    for options in (("--exclusive",), ("--shared",)):
        job = Job(run, "-t", "6s", *options, "db", "sh", "-c", "echo up; sleep 4; exit 5").up()
        run.agents[-1].kill()
        run.agent("a", ttl=f"{TTL_S}s", fresh=False)
        run.nodes[0].restart()
        other = "--shared" if "--exclusive" in options else "--exclusive"
        wait_until(lambda: run.holdfast("run", "-n", other, "db", "true").rc == 75, what="it is refused")  # noqa: B023
        assert job.wait() == 5, job.process.err
        rest(run, run.agents[-1:])


@scenario("guardians of jobs that share and that are alone are killed: the job dies, and the lock is free")
def guardian_killed(run):
    ready(run)
    for options in (("--exclusive",), ("--shared",)):
        job = Job(run, *options, "db", "sh", "-c", "echo up; sleep 60").up()
        job.process.kill()
        job.death_ns()
        rest(run, run.agents)


@scenario("max-hold, heartbeat, note and TTL are for shared and exclusive jobs, too")
def options(run):
    ready(run)
    for mode, name in (("--exclusive", "db"), ("--shared", "db#0")):
        job = started(run, mode, "-t", "7s", "--note", "a note", *(("--slots", 1) if "#" in name else ())).up()
        shown = run.show(name)
        assert (shown["ttl_ms"], shown["note"]) == (7000, "a note"), shown
        ended(job)
        job = Job(run, mode, "--max-hold", f"{SLOW}s", "db", "sh", "-c", "echo up; sleep 60").up()
        assert job.wait() == 124, job.process.err
        script = f"for i in 1 2 3 4 5 6 7 8 9 10; do {BUILD}/bin/holdfast beat; sleep 0.1; done; echo up; sleep 60"
        job = Job(run, mode, "--heartbeat", f"{SLOW}s", "db", "sh", "-c", script).up()
        assert job.wait() == 124, job.process.err
        rest(run, run.agents)


@scenario("who waits to be alone gives all back while ^Z stops the wait, and when it is killed in it", sanitizers=False)
def stopped_in_the_wait(run):
    ready(run)
    shares = started(run, "--shared").up()
    job = started(run, "--exclusive")
    job.process.wait_err("db is held shared by 1: .*; waiting")
    assert run.holdfast("run", "-n", "--shared", "db", "true").rc == 75
    job.process.signal(signal.SIGTSTP)
    run.keys_gone("db")
    wait_until(lambda: stat_letter(job.pid) == "T", what="it is stopped")
    wait_until(lambda: run.holdfast("run", "-n", "--shared", "db", "true").rc == 0, what="others share it meanwhile")
    job.process.signal(signal.SIGCONT)
    wait_until(lambda: run.show("db"), what="it is back")
    job.process.kill()
    wait_until(lambda: run.holdfast("run", "-n", "--shared", "db", "true").rc == 0, what="it is gone")
    ended(shares)
    rest(run, run.agents)


@scenario("run refuses what cannot be said with --shared and --exclusive", sanitizers=False)
def bad_usage(run):
    ready(run)
    for args, text in [
        (("--shared", "--exclusive", "a", "true"), "not both"),
        (("--exclusive", "--slots", "3", "a", "true"), "leave --slots out"),
        (("--exclusive", "--also", "b", "a", "true"), "without --also"),
        (("--shared", "--also", "b", "a", "true"), "without --also"),
        (("--shared", "--slots", "65", "a", "true"), "1 to 64"),
        (("--exclusive", "x" * 253, "true"), "252"),
        (("--shared", "x" * 253, "true"), "252"),
    ]:
        result = run.holdfast("run", *args)
        assert result.rc == 64 and text in result.err, (args, result)


if __name__ == "__main__":
    main()
