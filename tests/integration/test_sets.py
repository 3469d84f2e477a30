#!/usr/bin/env python3
"""Several locks at once and counted locks: nobody overlaps, nobody waits for ever, and no job outlives one of its locks.

HOLDFAST_FULL=1 lets the overlapping sets contend for a minute each; the figures are printed.
"""
import collections
import os
import pathlib
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from history import overlaps, read  # noqa: E402
from jobs import TELLS, TTL_S, Job, S, Watcher, assert_at, children, python, ready  # noqa: E402
from proxy import Proxy  # noqa: E402
from rig import BUILD, SANITIZE, SLOW, agent_env, boottime_ns, main, scenario, stat_letter, wait_until  # noqa: E402

FULL = bool(os.environ.get("HOLDFAST_FULL"))
RING = ("1,2", "2,3", "3,1")  # any two of them share a lock, so one set is held at a time
PROCESSES = 12
FOR_S = 60 if FULL else 3
WAIT_MOST_S = 5
GRANTS_LEAST = 500  # of each process, in a minute
SLOTS = 3


# --- crews ---------------------------------------------------------------------------------------------


class Crew:
    """Processes of tests/support/several.c that share one witness."""

    def __init__(self, run, name):
        self.run, self.name, self.members = run, name, []
        self.folder = run.dir / f"crew{run.serial()}"
        self.folder.mkdir()

    def add(self, agent, *options):
        path = self.folder / f"history{len(self.members)}"
        process = self.run.spawn(BUILD / "tests" / "several", "--name", self.name, "--history", path, "--witness",
                                 self.folder / "witness", "--host", len(self.members), *options,
                                 label=f"several-{len(self.members)}", env=agent_env(agent), stdin=subprocess.PIPE)
        self.members.append((process, path))
        return process

    def start(self):
        for process, _ in self.members:
            process.wait_out("ready")
        self.began_ns = boottime_ns()
        for process, _ in self.members:
            process.popen.stdin.close()

    def finish(self, killed=()):
        for process, _ in self.members:
            code = process.wait(FOR_S + 60)
            assert code == 0 or process in killed, f"{process.label} ended with {code}: {process.err}"
        self.span_s = (boottime_ns() - self.began_ns) / S
        self.holds, self.sightings = [], []
        self.grants = {}
        for process, path in self.members:
            holds, sightings, _ = read(path)
            self.holds += holds
            self.sightings += sightings
            self.grants[process.pid] = len({hold.ask_ns for hold in holds})

    def of_locks(self):
        locks = collections.defaultdict(list)
        for hold in self.holds:
            locks[hold.lock].append(hold)
        return locks

    def faults(self):
        return [pair for holds in self.of_locks().values() for pair in overlaps(holds)]

    def waits_s(self):
        return [(hold.first_ns - hold.ask_ns) / S for hold in self.holds]

    def figures(self, what):
        waits, grants = sorted(self.waits_s()), self.grants.values()
        print(f"# {what}: {sum(grants)} grants in {self.span_s:.0f} s, {sum(grants) / self.span_s:.0f} a second, "
              f"{min(grants)} to {max(grants)} of a process; waits p50 {waits[len(waits) // 2] * 1000:.1f} ms, "
              f"p99 {waits[len(waits) * 99 // 100] * 1000:.1f} ms, longest {waits[-1]:.3f} s; "
              f"{len(self.faults())} overlaps, {len(self.sightings)} sightings")


def overlapping_sets(run, agents, *options, for_s=FOR_S):
    crew = Crew(run, "ring")
    for i in range(PROCESSES):
        crew.add(agents[i // 3 % len(agents)], "--set", RING[i % 3], "--for-ms", for_s * 1000, "--hold-us", 500, *options)
    crew.start()
    crew.finish()
    return crew


def judge(crew, what, agents):
    crew.figures(what)
    assert not crew.faults() and not crew.sightings, (crew.faults()[:3], crew.sightings[:3])
    assert set(crew.of_locks()) == {1, 2, 3}
    assert max(crew.waits_s()) < WAIT_MOST_S, f"one waited {max(crew.waits_s()):.1f} s"
    if FULL:
        assert min(crew.grants.values()) >= GRANTS_LEAST, f"one had {min(crew.grants.values())} grants"
    for agent in agents:
        wait_until(lambda: status(crew.run, agent, "leases") == 0, what="no lease is left")
        assert status(crew.run, agent, "waiters") == 0


def status(run, agent, what):
    return run.holdfast("status", "--json", agent=agent).json["counters"][what]


# --- sets ----------------------------------------------------------------------------------------------


@scenario("sets that overlap all round, from 12 processes of one host: no overlap, and nobody waits for long",
          sanitizers=False)
def one_host(run):
    run.redis(3)
    agent = run.agent()
    judge(overlapping_sets(run, [agent]), "one host", [agent])
    assert overlapping_sets(run, [agent], "--no-lock", for_s=1).faults(), \
        "without locks no two overlapped: the workload proves nothing"


@scenario("sets that overlap all round, from 12 processes of three hosts: no overlap, and nobody waits for long",
          sanitizers=False)
def three_hosts(run):
    run.redis(3)
    agents = [run.agent(label) for label in "abc"]
    judge(overlapping_sets(run, agents), "three hosts", agents)


@scenario("sets and single locks, with processes that are killed in the call: all is given back at once",
          sanitizers=False)
def killed(run):
    run.redis(3)
    agents = [run.agent(label) for label in "ab"]
    crew = Crew(run, "ring")
    for i in range(6):
        crew.add(agents[i % 2], "--set", (*RING, "1,2,3", "3", "2")[i], "--for-ms", 3000 * SLOW, "--hold-us", 2000)
    victims = [crew.add(agents[i % 2], "--set", "3,2,1", "--hold-us", 2000) for i in range(6)]
    crew.start()
    for victim in victims:
        time.sleep(0.25 * SLOW)
        victim.kill()
    last_ns = boottime_ns()
    crew.finish(killed=victims)
    crew.figures("with six that are killed")
    assert not crew.faults() and not crew.sightings, (crew.faults()[:3], crew.sightings[:3])
    # A lock that waited for its TTL would have kept the others out for the rest of the time.
    for lock, holds in crew.of_locks().items():
        assert any(hold.first_ns > last_ns + S // 4 for hold in holds), f"nobody had {lock} any more"
        run.keys_gone(f"ring-{lock}")


@scenario("sets while agents are killed and nodes are stopped and restarted: no overlap, and nothing is left", sanitizers=False)
def rough(run):
    ttl_s, for_s = 1, 60 if FULL else 5
    run.redis(5)
    agents = [run.agent(label, ttl=f"{ttl_s}s", options=("--ttl-max", f"{ttl_s}s")) for label in "ab"]
    sets, slots = Crew(run, "ring"), Crew(run, "pool")
    options = ("--rough", "--for-ms", for_s * 1000, "--pause-us", 5000, "--hold-us")
    for i, names in enumerate((*RING, "3,2,1", "2", "3")):
        sets.add(agents[i % 2], "--set", names, *options, 2_000_000 if names == "3,2,1" else 2000)
    for i in range(6):
        slots.add(agents[i % 2], "--slots", SLOTS, *options, 20_000)
    sets.start()
    slots.start()
    until = time.monotonic() + for_s - 2
    for turn in range(1000):
        if time.monotonic() > until:
            break
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
    for crew, what in ((sets, "sets"), (slots, "slots")):
        crew.finish()
        crew.figures(f"{what} with agents killed and nodes stopped")
        assert not crew.faults() and not crew.sightings, (crew.faults()[:3], crew.sightings[:3])
    for agent in agents:
        agent.wait_ready()
        wait_until(lambda: status(run, agent, "leases") == 0, 10, "no lease is left")
    for name in ("ring-1", "ring-2", "ring-3", *(f"pool#{i}" for i in range(SLOTS))):
        run.keys_gone(name)


@scenario("a set that is free takes one round trip: all its names are asked for before the first answer", sanitizers=False)
def one_round_trip(run):
    run.redis(3)
    proxies = [Proxy(node.address) for node in run.nodes]
    try:
        run.agent(nodes=[proxy.spec(node) for node, proxy in zip(run.nodes, proxies)])
        names = [f"trip-{i}" for i in range(8)]
        for proxy in proxies:
            proxy.hold_requests(b"trip-")
        job = Job(run, *(word for name in names[1:] for word in ("--also", name)), names[0], "echo", "up")

        def all_asked():
            asked = [b"".join(pair.held or b"" for pair in proxy.pairs) for proxy in proxies]
            return all(f"trip-{i}\r".encode() in bytes_ for i in range(8) for bytes_ in asked)

        wait_until(all_asked, what="all names are on their way to all nodes")
        for proxy in proxies:
            proxy.hold_requests(None)
            proxy.deliver()
        job.up()
        assert job.wait() == 0, job.process.err
    finally:
        for proxy in proxies:
            proxy.close()


@scenario("a set that is not to be had in time leaves nothing, and says which name is in the way", sanitizers=False)
def in_the_way(run):
    ready(run)
    holder = run.holder()
    holder.acquire("b", 0, -1, "the%20nightly%20one")
    for options, words in ((("-n",), ""), (("-w", "300ms"), "; the wait is over")):
        result = run.holdfast("run", *options, "--also", "c", "--also", "b", "a", "true")
        assert result.rc == 75, result
        last = result.err.strip().splitlines()[-1]
        assert last.startswith("holdfast: b is held by ") and f"pid {holder.pid}" in last and last.endswith(words), result
    for name in ("a", "c"):
        run.keys_gone(name)
    with_b = Job(run, "--also", "x", "y", "sh", "-c", "echo up; read x", stdin=subprocess.PIPE).up()
    assert run.holdfast("run", "-n", "--also", "z", "x", "true").rc == 75
    run.keys_gone("z")
    with_b.process.popen.stdin.close()
    with_b.wait()
    holder.release()
    assert run.holdfast("run", "-n", "--also", "c", "--also", "b", "a", "true").rc == 0


@scenario("a set that is waited for is told of name by name, and is given back while ^Z stops the wait", sanitizers=False)
def stopped_in_the_wait(run):
    ready(run)
    holder = run.holder()
    b, d = (holder.acquire(name)["lease"] for name in ("b", "d"))
    job = Job(run, "--also", "d", "--also", "b", "a", "sh", "-c", "echo up")
    job.process.wait_err("holdfast: b is held by .*; waiting")
    wait_until(lambda: run.show("a"), what="a is held meanwhile")
    job.process.signal(signal.SIGTSTP)
    run.keys_gone("a")
    wait_until(lambda: stat_letter(job.pid) == "T", what="it is stopped")
    job.process.signal(signal.SIGCONT)
    wait_until(lambda: run.show("a"), what="a is held again")
    holder.release(b)
    job.process.wait_err("holdfast: d is held by .*; waiting")
    holder.release(d)
    job.up()
    assert job.wait() == 0, job.process.err


# --- jobs under several locks --------------------------------------------------------------------------


@scenario("a job under several locks knows them all, and so does check")
def knows_all(run):
    ready(run)
    script = ('echo "$HOLDFAST_NAME|$HOLDFAST_NAME_2|$HOLDFAST_NAME_3|$HOLDFAST_NAME_4|$HOLDFAST_SLOT"; '
              f'for n in "$HOLDFAST_NAME" "$HOLDFAST_NAME_2" "$HOLDFAST_NAME_3"; do {BUILD}/bin/holdfast held -q "$n" '
              '|| echo no; done; echo "$HOLDFAST_FENCE $HOLDFAST_FENCE_2 $HOLDFAST_FENCE_3"')
    # As a job of another run: what is that one's is not this one's.
    result = run.holdfast("run", "--also", "x", "--also", "y", "--also", "z", "w", BUILD / "bin" / "holdfast", "run",
                          "--also", "b", "--also", "a\n", "c", "sh", "-c", script)
    assert result.rc == 0, result
    *names, fences = result.out.splitlines()
    assert "\n".join(names) == "c|b|a\n||", names
    assert len(fences.split()) == 3 and all(int(fence) > 0 for fence in fences.split()), fences
    for name in ("a\n", "b", "c", "w", "x", "y", "z"):
        run.keys_gone(name)


@scenario("a job under as many locks as there can be", sanitizers=False)
def many(run):
    ready(run)
    also = [word for i in range(63) for word in ("--also", f"lock {i}")]
    script = f'env | grep -c "^HOLDFAST_FENCE"; echo "$HOLDFAST_NAME_64"; {BUILD}/bin/holdfast list --json'
    result = run.holdfast("run", *also, "lock 63", "sh", "-c", script)
    assert result.rc == 0, result
    count, last, listed = result.out.split("\n", 2)
    assert count == "64" and last == "lock 62" and listed.count('"state":"held"') == 64, result.out
    assert not run.holdfast("list").out.count("lock "), "all are released"


@scenario("when one of a job's locks is asked for the job is stopped, and all are released")
def asked_for_one(run):
    ready(run)
    for name in ("a", "b"):
        job = Job(run, "--also", "b", "a", *python(TELLS)).up()
        (child,) = children(job.inner())
        assert run.holdfast("release", name).rc == 0
        job.line()
        for other in ("a", "b"):
            wait_until(lambda: run.show(other)["state"] == "losing", what=f"{other} is losing")
        job.process.wait_err(rf"holdfast: {name}: the lock is being lost: somebody asked")
        os.kill(child, signal.SIGKILL)
        assert job.wait() == 124, job.process.err
        run.keys_gone("a")
        run.keys_gone("b")


@scenario("a job under several locks is dead before the first of them can pass to another", sanitizers=False)
def dead_before_the_first(run):
    """All nodes are stopped in turn after a renewal of one lock only could be seen, so that their ends differ; what is
    told of one lock at a time is in test_lease_group."""
    ready(run)
    job = Job(run, "-t", f"{TTL_S}s", "--also", "second", "job", *python("""
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("up", flush=True)
time.sleep(120)
""")).up()
    watchers = [Watcher(run), Watcher(run)]
    for node in run.nodes:
        node.sigstop()

    def first_ns():
        for watcher, name in zip(watchers, ("job", "second")):
            watcher.look(name)
        return min(watcher.valid_ns for watcher in watchers)

    first_ns()
    dead_ns = job.death_ns(meanwhile=first_ns)
    valid_ns = min(watcher.valid_ns for watcher in watchers)
    assert_at("SIGKILL", dead_ns, valid_ns - TTL_S * S // 10)
    assert dead_ns < valid_ns, f"{(dead_ns - valid_ns) / S:.3f} s after V"
    for node in run.nodes:
        node.sigcont()
    assert job.wait() == 124, job.process.err
    run.keys_gone("job")
    run.keys_gone("second")


@scenario("a lock of a job that is deleted on the nodes ends the job at once")
def deleted(run):
    ready(run)
    job = Job(run, "--also", "b", "a", *python(TELLS)).up()
    while job.process.running:  # the agent heals what a single DEL took
        for node in run.nodes:
            node.cmd("SET", "b", "another's", "PX", 3000)
        time.sleep(0.02)
    job.death_ns()
    assert job.wait() == 124, job.process.err
    assert "holdfast: b: the lock is " in job.process.err, job.process.err
    run.keys_gone("a")


@scenario("the agent is killed and back in time: a job under several locks goes on", sanitizers=False)
def agent_back(run):
    ready(run)
    job = Job(run, "-t", "6s", "--also", "b", "--also", "c", "a", "sh", "-c", "echo up; sleep 4; exit 5").up()
    run.agents[0].kill()
    run.agent("a", ttl=f"{TTL_S}s")
    assert job.wait() == 5, job.process.err
    for name in ("a", "b", "c"):
        run.keys_gone(name)


@scenario("a heartbeat is for all locks of a job")
def heartbeat(run):
    ready(run)
    script = f"for i in 1 2 3 4 5 6 7 8 9 10; do {BUILD}/bin/holdfast beat; sleep 0.1; done; echo up; sleep 60"
    job = Job(run, "--heartbeat", f"{SLOW}s", "--also", "b", "a", "sh", "-c", script).up()
    assert job.wait() == 124, job.process.err
    run.keys_gone("a")
    run.keys_gone("b")


# --- counted locks -------------------------------------------------------------------------------------


def most_at_once(holds):
    """How many of the holds had one instant in common."""
    events = sorted([(hold.first_ns, 1) for hold in holds] + [(hold.last_ns, -1) for hold in holds],
                    key=lambda event: (event[0], -event[1]))
    most = now = 0
    for _, change in events:
        now += change
        most = max(most, now)
    return most


def counted(run, agents, for_s, meanwhile=lambda: None, processes=PROCESSES):
    crew = Crew(run, "pool")
    for i in range(processes):
        crew.add(agents[i % len(agents)], "--slots", SLOTS, "--for-ms", int(for_s * 1000), "--hold-us", 3000, "--pause-us",
                 2000)
    crew.start()
    meanwhile()
    crew.finish()
    crew.figures(f"{SLOTS} slots, {len(agents)} hosts")
    assert not crew.faults() and not crew.sightings, (crew.faults()[:3], crew.sightings[:3])
    assert set(crew.of_locks()) == set(range(SLOTS)), "a slot was never used"
    assert most_at_once(crew.holds) == SLOTS, most_at_once(crew.holds)
    assert min(crew.grants.values()) > 0, crew.grants
    for i in range(SLOTS):
        run.keys_gone(f"pool#{i}")
    return crew


@scenario("a counted lock of 3 for 12 processes of two hosts: never more than 3 at once, all slots used, a node stopped too",
          sanitizers=False)
def slots_of_two_hosts(run):
    run.redis(3)
    agents = [run.agent(label) for label in "ab"]

    def stop_a_node():
        time.sleep(0.7)
        run.nodes[1].sigstop()
        time.sleep(1.2)
        run.nodes[1].sigcont()

    crew = counted(run, agents, 3 * SLOW, stop_a_node)
    assert max(crew.waits_s()) < WAIT_MOST_S * SLOW, f"one waited {max(crew.waits_s()):.1f} s"


@scenario("NAME#0 is slot 0 of the counted NAME, and NAME itself is another lock")
def slot_by_its_name(run):
    run.redis(3)
    run.agent()
    holder = run.holder()
    holder.acquire("pool#0")
    assert run.holdfast("run", "-n", "--slots", "1", "pool", "true").rc == 75
    taken = run.holdfast("run", "-n", "--slots", "2", "pool", "sh", "-c", "echo $HOLDFAST_SLOT")
    assert taken.rc == 0 and taken.out.split() == ["1"], taken
    assert run.holdfast("run", "-n", "pool", "true").rc == 0
    holder.release()
    assert run.holdfast("run", "-n", "--slots", "1", "pool", "true").rc == 0


@scenario("jobs of run --slots: so many at a time, each with its slot, and the next when one ends or dies")
def slots_of_run(run):
    ready(run)
    script = f'echo "$HOLDFAST_NAME|$HOLDFAST_SLOT|$HOLDFAST_SLOTS"; {BUILD}/bin/holdfast held -q "$HOLDFAST_NAME" || ' \
             'echo no; read x; exit 5'
    jobs = [Job(run, "--slots", SLOTS, "pool", "sh", "-c", script, stdin=subprocess.PIPE) for _ in range(SLOTS)]
    lines = sorted(job.line() for job in jobs)
    assert lines == [f"pool#{i}|{i}|{SLOTS}" for i in range(SLOTS)], lines
    refused = run.holdfast("run", "-n", "-E", "9", "--slots", SLOTS, "pool", "true")
    assert refused.rc == 9 and f"; all {SLOTS} slots are taken" in refused.err, refused
    waiting = [Job(run, "--slots", SLOTS, "pool", "sh", "-c", script, stdin=subprocess.PIPE) for _ in range(2)]
    for job in waiting:
        job.process.wait_err("slots are taken; waiting")
    jobs[0].process.popen.stdin.close()  # one ends
    assert jobs[0].wait() == 5
    jobs[1].process.kill()               # one dies: its guardian ends the job
    assert all(job.line().startswith("pool#") for job in waiting)
    for job in (jobs[2], *waiting):
        job.process.popen.stdin.close()
        assert job.wait() == 5, job.process.err
    for i in range(SLOTS):
        run.keys_gone(f"pool#{i}")


@scenario("whoever uses a larger number of slots gets beyond the smaller one", sanitizers=False)
def other_numbers(run):
    ready(run)
    jobs = [Job(run, "--slots", 2, "pool", "sh", "-c", "echo up; sleep 60").up() for _ in range(2)]
    assert run.holdfast("run", "-n", "--slots", 2, "pool", "true").rc == 75
    assert run.holdfast("run", "-n", "--slots", 3, "pool", "sh", "-c", 'test "$HOLDFAST_SLOT" = 2').rc == 0
    assert run.holdfast("run", "-n", "--slots", 1, "pool", "true").rc == 75
    for job in jobs:
        job.process.signal(signal.SIGTERM)
        job.wait()


@scenario("run refuses sets and slots that cannot be with 64", sanitizers=False)
def bad_usage(run):
    ready(run)
    many = [word for i in range(64) for word in ("--also", f"n{i}")]
    for args, text in [
        (("--also", "a", "a", "true"), "a is given twice"),
        (("--also", "b", "--also", "b", "a", "true"), "b is given twice"),
        (("--also", "", "a", "true"), "empty"),
        (("--also", "holdfast:x", "a", "true"), "reserved"),
        (("--also", "a"), "NAME is missing"),
        ((*many, "a", "true"), "64"),
        (("--slots", "0", "a", "true"), "1 to 64"),
        (("--slots", "65", "a", "true"), "1 to 64"),
        (("--slots", "3x", "a", "true"), "1 to 64"),
        (("--slots", "2", "--also", "b", "a", "true"), "give --slots or --also, not both"),
        (("--slots", "11", "x" * 253, "true"), "252"),
    ]:
        result = run.holdfast("run", *args)
        assert result.rc == 64 and text in result.err, (args, result)


if __name__ == "__main__":
    main()
