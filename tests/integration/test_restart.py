#!/usr/bin/env python3
"""The agent is killed, replaced and upgraded while leases are held and wanted.

HOLDFAST_FULL=1 kills it 200 times in each of two passes, else 16 times in one.
"""
import collections
import json
import os
import pathlib
import random
import re
import signal
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from history import Hold, fence_faults, overlaps  # noqa: E402
from little_room import fill, little_room  # noqa: E402
from rig import BUILD, SLOW, HolderError, Process, agent_env, boottime_ns, main, scenario, wait_until  # noqa: E402
from views import counters  # noqa: E402

TTL_S = 3
FLEET = ("--ttl-max", f"{TTL_S}s")
NEXT_MINOR, NEXT_MAJOR = BUILD / "tests" / "holdfastd_minor", BUILD / "tests" / "holdfastd_major"
NEXT_READER = BUILD / "tests" / "holdfast_minor"
ALIVE = 1  # a table's state
CONNECTIONS = 4  # of an agent to each node
LOSING, LOST, VERSION, BUSY = 3, 4, -307, -201  # HF_STATE_*, HF_E*


def start(run, label="a", first=False, **options):
    return run.agent(label, ttl=f"{TTL_S}s", options=FLEET, fresh=first, **options)


def table_path(agent):
    return pathlib.Path("/dev/shm") / f"holdfast{'' if os.geteuid() == 0 else f'-{os.geteuid()}'}.{agent.name}"


class Table:
    """What the header says. Stays open: an object that lost its name can still be read."""

    def __init__(self, agent):
        self.file = open(table_path(agent), "rb")
        self.inode = os.fstat(self.file.fileno()).st_ino

    def version(self):
        return struct.unpack("<HH", os.pread(self.file.fileno(), 4, 8))

    def state(self):
        return struct.unpack("<I", os.pread(self.file.fileno(), 4, 128))[0]


# --- upgrades --------------------------------------------------------------------------------------------


@scenario("an agent of a later minor version takes over, and one of the earlier again: leases are kept, waiters served",
          sanitizers=False)
def upgraded_and_back(run):
    run.redis(3)
    agent = start(run, first=True)
    table = Table(agent)
    major, minor = table.version()
    holder, waiter = run.holder(), run.holder(label="waiter")
    fence = holder.acquire("kept")["fence"]
    token = run.nodes[0].get("kept")
    waiter.send("acquire", "kept", 0, 60_000)
    time.sleep(0.2)
    for program, now in ((NEXT_MINOR, minor + 1), (None, minor), (NEXT_MINOR, minor + 1)):
        agent.kill()
        agent = start(run, program=program)
        assert (major, now) == table.version() and table.state() == ALIVE
        assert Table(agent).inode == table.inode, "another table"
        assert "1 leases readopted" in agent.err, agent.err
        time.sleep(TTL_S / 2)
        assert holder.held() and holder.cmd("fence")["value"] == fence
        assert [node.get("kept") for node in run.nodes] == [token] * 3
        for reader in (BUILD / "bin" / "holdfast", NEXT_READER):
            shown = run.spawn(reader, "status", "--json", label="status", env={"HOLDFAST_AGENT": agent.name})
            assert shown.wait() == 0, shown.err
            assert json.loads(shown.out)["counters"]["leases"] == 1, shown.out
    holder.release()
    assert waiter.answer()["fence"] > fence
    waiter.release()
    run.keys_gone("kept")


@scenario("a first table of a later minor version is taken over by the earlier one; its readers read it",
          sanitizers=False)
def downgraded(run):
    run.redis(3)
    agent = start(run, first=True, program=NEXT_MINOR)
    table = Table(agent)
    holder = run.holder()
    holder.acquire("kept")
    agent.stop()
    agent = start(run)
    assert Table(agent).inode == table.inode and holder.held()
    assert run.show("kept")["pid"] == holder.pid
    time.sleep(TTL_S)
    assert holder.held()


@scenario("an agent of another major version: it says that leases end, and releases none before its end; clients are told",
          sanitizers=False)
def other_major(run):
    run.redis(3)
    agent = start(run, first=True)
    old = Table(agent)
    holder = run.holder()
    holder.acquire("believed")
    agent.kill()
    agent = start(run, program=NEXT_MAJOR, wait=False)
    agent.wait_err(r"table is not kept, and its leases end: .*table version \d+\.\d+")
    assert Table(agent).inode != old.inode
    while holder.held():
        keys = run.holders_of("believed")
        assert keys >= 2 or not holder.held(), "released while its holder may believe in it"
        time.sleep(0.02)
    assert holder.cmd("state")["value"] == LOST
    run.keys_gone("believed", 2 * TTL_S)
    try:
        run.holder(label="earlier", connect=False).connect()
    except HolderError as error:
        assert error.code == VERSION and "table version" in error.text, error
    else:
        raise AssertionError("a client of the earlier version was welcomed")

# --- what a restart meets --------------------------------------------------------------------------------


@scenario("leases with long names and notes fill the table's text: all of them are readopted")
def text_is_full(run):
    run.redis(3)
    options = ("--capacity", "8")
    agent = run.agent(options=options)
    holder = run.holder()
    for letter in "ab":
        holder.acquire(letter * 255, 0, 0, "n" * 127)
    agent.kill()
    agent = run.agent(options=options, fresh=False)
    assert "2 leases readopted" in agent.err, agent.err
    assert holder.held(0) and holder.held(1)
    for letter in "ab":
        assert run.show(letter * 255)["note"] == "n" * 127
    holder.release(0)
    holder.release(1)
    run.keys_gone("a" * 255)


@scenario("a release under way when the agent is killed, and sent again to the next: it was one, and no loss")
def released_across_a_kill(run):
    run.redis(3)
    agent = run.agent()
    for turn in range(3):
        holder = run.holder(label=f"holder-{turn}")
        fence = holder.acquire("given", 0, 10_000)["fence"]
        for node in run.nodes[:2]:  # no quorum answers
            node.sigstop()
        holder.send("release")
        wait_until(lambda: run.nodes[2].get("given") is None, what="the release leaves")
        agent.kill()
        for node in run.nodes[:2]:
            node.sigcont()
        agent = run.agent(fresh=False)
        assert holder.answer() == {"value": 0}
        run.keys_gone("given")
        other = run.holder(label=f"next-{turn}")
        assert other.cmd("try", "given")["fence"] > fence
        other.release()


@scenario("waiters keep their places through a restart, in whatever order they come back; later ones come after them",
          sanitizers=False)
def places_are_kept(run):
    run.redis(3)
    agent = run.agent()
    owner = run.holder(label="owner")
    owner.acquire("queued")
    waiters = [run.holder(label=f"waiter{i}") for i in range(4)]
    for i, waiter in enumerate(waiters):
        waiter.send("acquire", "queued", 0, 30_000)
        wait_until(lambda count=i + 1: counters(run)["waiters"] == count, what=f"{i + 1} wait")
    for waiter in waiters:
        waiter.sigstop()
    agent.kill()
    run.agent(fresh=False)
    late = run.holder(label="late")
    late.send("acquire", "queued", 0, 30_000)
    for i, waiter in enumerate((waiters[2], waiters[0], waiters[3], waiters[1])):
        wait_until(lambda count=i + 1: counters(run)["waiters"] == count, what=f"{i + 1} wait")
        waiter.sigcont()
    wait_until(lambda: counters(run)["waiters"] == 5, what="all wait")
    owner.release()
    fences = []
    for waiter in (*waiters, late):
        fences.append(waiter.answer()["fence"])
        waiter.release()
    assert fences == sorted(fences), fences


@scenario("an agent that ends in order and is started again: who waits goes on waiting, for one lock, several or one alone; who tries is told")
def ended_in_order(run):
    run.redis(3)
    agent = run.agent()
    owner = run.holder(label="owner")
    owner.acquire("job")
    waits = [run.start_holdfast("run", "-w", "30s", *options, "job", "--", "true")
             for options in ((), ("--also", "another"), ("--exclusive",), ("--once-per", "1h"))]
    wait_until(lambda: counters(run)["waiters"] >= len(waits), what="all wait")
    agent.stop()
    assert all(process.running for process in waits), [process.err for process in waits]
    tried = run.holdfast("run", "-n", "job", "--", "true")
    assert tried.rc == 69 and "start holdfastd" in tried.err, tried
    run.agent(fresh=False)
    owner.release()
    assert [process.wait() for process in waits] == [0] * len(waits), [process.err for process in waits]


@scenario("an agent that ends in order at any moment of a run and is started again: the run is done, once per period, too", sanitizers=False)
def ended_in_a_run(run):
    run.redis(3)
    agent = run.agent()
    for i in range(12):
        options = (("--once-per", "1h"), ("--exclusive",))[i % 2]
        job = run.start_holdfast("run", "-w", "30s", *options, f"job{i}", "--", "true")
        time.sleep(0.001 * (1 + i / 2))
        agent.stop()
        agent = run.agent(fresh=False)
        assert job.wait() == 0, (i, job.err)


@scenario("the history of a name goes back beyond an agent that ended in order and held nothing")
def history_of_before(run):
    run.redis(3)
    agent = run.agent()
    assert run.holdfast("run", "job", "--", "true").rc == 0
    agent.stop()
    run.agent(fresh=False)
    said = run.holdfast("history", "job").out
    assert "granted" in said and "released" in said, said


@scenario("a lease whose holder was told to stop is that after a restart, too", sanitizers=False)
def losing_is_remembered(run):
    run.redis(3)
    agent = start(run, first=True)
    holder, asking = run.holder(), run.holder(label="asking")
    holder.acquire("asked")
    asking.cmd("ask", "asked")
    wait_until(lambda: holder.cmd("state")["value"] == LOSING, what="it is told")
    agent.kill()
    start(run)
    until_ns = holder.cmd("until")["value"]
    while holder.held():
        assert holder.cmd("state")["value"] in (LOSING, LOST)
        assert holder.cmd("until")["value"] in (until_ns, 0), "a lease that ends is extended"
        time.sleep(0.05)
    run.keys_gone("asked")


@scenario("a job's lock is lost at once, and the agent is killed: the next one lets the keys lapse, and nobody here gets it",
          sanitizers=False)
def lost_run_lapses(run):
    run.redis(3)
    agent = start(run, first=True)
    holder, other = run.holder(), run.holder(label="other")
    holder.acquire("job", 0, -1, "run")
    token = run.nodes[2].get("job")
    until_ns = holder.cmd("until")["value"]
    for node in run.nodes[:2]:
        node.cmd("SET", "job", "another's", "PX", "60000")
    wait_until(lambda: not holder.held(), what="it is lost")
    agent.kill()
    lapse_ns = boottime_ns() + run.nodes[2].pttl("job") * 1_000_000
    start(run)
    for node in run.nodes[:2]:
        node.cmd("DEL", "job")
    while not (granted := tries(other, "job")):
        standing, now_ns = run.nodes[2].get("job") == token, boottime_ns()
        assert standing or now_ns > lapse_ns - 200_000_000, "released while its job may live"
        time.sleep(0.02)
    assert boottime_ns() > until_ns, "granted while its job may live"
    print(f"# granted {(boottime_ns() - until_ns) / 1e6:.0f} ms after the V that was shown, {granted}")


def tries(holder, name):
    """The fence, or None: somebody has it."""
    try:
        return holder.cmd("try", name)["fence"]
    except HolderError as error:
        assert error.code == BUSY, error
        return None


@scenario("more processes hold leases than an agent has descriptors for at its start: none of them counts as dead")
def few_descriptors(run):
    run.redis(3)
    agent = run.agent()
    for node in run.nodes:  # those for notices come after it is ready
        wait_until(lambda: node.cmd("CLIENT", "LIST").count(b"\n") == CONNECTIONS + 1, what="its connections")  # noqa: B023
    limit = max(len(os.listdir(f"/proc/{agent.pid}/fd")) + 4, 20 + 4 * 3)  # which it needs at least
    holders = [run.holder(label=f"holder-{i}") for i in range(12)]
    for i, holder in enumerate(holders):
        holder.acquire(f"held-{i}")
    agent.kill()
    argv = run.agent_argv(fresh=False)
    again = run.spawn("sh", "-c", f'ulimit -n {limit}; exec "$@"', "sh", *argv, label="agent")
    again.wait_err(r"(?m)^\S+Z holdfastd: ready")
    assert "12 leases readopted, 0 released, 0 lost" in again.err, again.err
    for holder in holders[:9]:
        holder.kill()
    for i in range(9):
        run.keys_gone(f"held-{i}")
    for i, holder in enumerate(holders[9:], 9):
        assert holder.held() and run.holders_of(f"held-{i}") >= 2
    again.signal(signal.SIGTERM)
    assert again.wait() == 0, again.err


@scenario("20,000 leases: the killed agent's successor has all of them, the counts of status and list agree, and they are gone "
          "with their holders", sanitizers=False)
def many_leases(run):
    each = 100_000 if os.environ.get("HOLDFAST_FULL") else 10_000
    run.redis(3)
    options = ["--capacity", str(2 * each)]
    agent = run.agent(ttl="30s", options=options)
    holders = [run.spawn(BUILD / "bin" / "bench", "hold", agent.name, f"many/{i}", 0, each, stdin=subprocess.PIPE, label="hold",
                         env=agent_env(agent)) for i in range(2)]
    for holder in holders:
        holder.wait_out('"bench":"hold"', each / 100)
    assert run.holdfast("status", "--json").json["totals"] == {"leases": 2 * each, "late": 0, "losing": 0}
    agent.kill()
    agent = run.agent(ttl="30s", fresh=False, options=options)
    assert f"{2 * each} leases readopted, 0 released, 0 lost" in agent.err, agent.err
    shown = run.holdfast("status")
    assert f"leases {2 * each}, " in shown.out and f"and {2 * each - 1000} more" in shown.out, shown.out[:2000]
    assert run.holdfast("list", "many/0/").out.count("\n") == each + 1
    for holder in holders:
        holder.popen.stdin.close()
        assert holder.wait() == 0 and json.loads(holder.out.splitlines()[-1])["lost"] == 0, holder.out
    wait_until(lambda: run.holdfast("status", "--json").json["counters"]["leases"] == 0, each / 200, what="all are released")


@scenario("the table's name is removed while the agent runs: programs attach as before", sanitizers=False)
def attach_without_a_name(run):
    run.redis(3)
    agent = start(run, first=True)
    table_path(agent).unlink()
    holder = run.holder()
    holder.acquire("held")
    time.sleep(TTL_S / 2)
    assert holder.held()
    holder.release()
    agent.wait_err("was removed or replaced")


@scenario("the next agent begins with another table: the lease ends at its V, for the restart", sanitizers=False)
def another_table(run):
    run.redis(3)
    agent = start(run, first=True)
    holder = run.holder()
    holder.acquire("believed")
    table_path(agent).unlink()
    agent.kill()
    start(run, wait=False).wait_err("0 leases readopted, 0 released, 1 lost")
    wait_until(lambda: not holder.held(), 2 * TTL_S, "its V passes")
    holder.cmd("dispatch", 1000)  # it finds the new agent
    assert holder.cmd("state")["value"] == LOST
    assert "came back too late" in holder.cmd("reason")["text"]


@scenario("another key_format while a lease is held: refused, and the lease is there for the right one",
          sanitizers=False)
def other_key_format(run):
    run.redis(3)
    agent = run.agent()
    holder = run.holder()
    holder.acquire("job")
    agent.stop()
    other = run.spawn(*run.agent_argv(options=("--key-format", "lock:%s")))
    assert other.wait() == 71, other.err
    assert re.search(r"1 leases of an earlier agent with another .*key_format.* \d+ s more", other.err), other.err
    run.agent(fresh=False)
    assert holder.held()
    holder.release()


@scenario("an agent whose directory has no byte and no inode left ends in order, is refused once, and is started again: the lease stays",
          needs_root=True, sanitizers=False)
def ended_in_a_full_directory(run):
    run.redis(3)
    with little_room(run, "a", "9m,nr_inodes=64") as place:
        agent = start(run, first=True)
        holder = run.holder()
        holder.acquire("job")
        fill(place)
        agent.stop()
        fill(place)
        told = run.holdfast("run", "-n", "other", "true")
        assert told.rc == 69 and f"no agent answers at {place}/sock" in told.err, told
        refused = run.spawn(*run.agent_argv(ttl=f"{TTL_S}s", fresh=False, options=("--key-format", "lock:%s", *FLEET)))
        assert refused.wait() == 71 and "key_format" in refused.err, refused.err
        fill(place)
        start(run)
        time.sleep(TTL_S)
        assert holder.held()
        holder.release()
        run.agents[-1].stop()
        assert not [name for name in ("lock", "sock", "control") if (place / name).exists()], "what nobody needs is removed"


@scenario("SIGTERM with many releases of stopped nodes under way: the end comes soon, and the next agent completes them")
def ended_amid_releases(run):
    run.redis(3)
    agent = run.agent()
    holder = run.holder()
    holder.cmd("many", 200, "many-", 0)
    wait_until(lambda: run.nodes[0].cmd("DBSIZE") >= 200, what="the keys are there")
    for node in run.nodes[:2]:
        node.sigstop()
    holder.kill()
    wait_until(lambda: not run.nodes[2].cmd("KEYS", "many-*"), what="the releases leave")
    began = time.monotonic()
    agent.stop()
    assert time.monotonic() - began < 3 * SLOW
    for node in run.nodes[:2]:
        node.sigcont()
    agent = run.agent(fresh=False)
    wait_until(lambda: not any(node.cmd("KEYS", "many-*") for node in run.nodes), 5, "all keys go")
    agent.stop()
    assert not run.holdfast("list", "--json", agent=agent).json["leases"], "something is thought to be held"

# --- killed again and again ------------------------------------------------------------------------------

FULL = bool(os.environ.get("HOLDFAST_FULL"))
KILLS = 200 if FULL else 16
LANES = 2 if FULL else 4     # agents that are killed side by side
LEASES = 50                  # of each
KEEPERS = 2                  # processes that hold them
RIVALED = 5                  # of the locks of a lane, the other host's agent wants them, too
DELAY_S = (0, 4)
RENEW_S = 0.5                # an agent that is ready so long before V keeps the lease
BACK_S = 20                  # everything is held again
RESTART = "the agent came back too late to take it over"
TOO_FEW = "fewer than a majority of the nodes renewed it in time"

Kept = collections.namedtuple("Kept", "name fence first_ns last_ns until_ns end reason")


class Keeper(Process):
    """tests/support/keeper.c."""

    def __init__(self, run, agent, prefix, count, label, *more):
        self.history = run.dir / f"{label}.history"
        super().__init__(run, [BUILD / "tests" / "keeper", "--prefix", prefix, "--count", count, "--history",
                               self.history, *more], label, env=agent_env(agent), stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE)

    def ask(self, command):
        self.popen.stdin.write(f"{command}\n".encode())
        self.popen.stdin.flush()

    def report(self):
        """{name: (fence, until_ns)} of what it holds."""
        self.ask("report")
        held = {}
        while (line := self.popen.stdout.readline().decode().split()) != ["end"]:
            assert line, self.err
            if line[2] != "0":
                held[line[1]] = (int(line[2]), int(line[3]))
        return held

    def quit(self):
        """Its history, and how often a lost lease came back to life."""
        self.ask("quit")
        again = int(self.popen.stdout.readline().split()[1])
        assert self.wait() == 0, self.err
        holds = []
        for line in self.history.read_text().splitlines():
            name, fence, first, last, until, end, reason = line.split(" ", 6)
            holds.append(Kept(name, int(fence), int(first), int(last), int(until), end, reason))
        return holds, again


class Lane:
    """One agent with its holders, killed again and again."""

    nodes_lock = threading.Lock()  # of those who stop nodes

    def __init__(self, run, number, kills, programs):
        self.run, self.label, self.kills, self.programs = run, f"lane{number}", kills, programs
        self.random = random.Random(f"{os.environ.get('HOLDFAST_SEED', boottime_ns())}-{number}")
        self.agent = start(run, self.label, first=True)
        first = LEASES // KEEPERS
        self.keepers = [Keeper(run, self.agent, f"{self.label}-", first, f"keeper{number}.{i}", "--first", i * first)
                        for i in range(KEEPERS)]
        self.count, self.trouble, self.late_ms = collections.Counter(), [], 0
        self.expected = []  # per kill: {name: (fence, V, when the next agent was started, and when it was ready)}
        self.thread = threading.Thread(target=self.go)

    def report(self):
        held = {}
        for keeper in self.keepers:
            held.update(keeper.report())
        return held

    def all_held(self):
        wait_until(lambda: len(held := self.report()) == LEASES and held, BACK_S, f"{self.label} holds everything")

    def go(self):
        try:
            for kill in range(self.kills):
                self.all_held()
                self.cycle(kill)
            self.all_held()
        except Exception as error:  # told by the main thread
            self.trouble.append(f"{type(error).__name__}: {error}")

    def kill(self, kill):
        """Every fourth in the middle of an acquire; returns who waits for it."""
        if kill % 4:
            time.sleep(self.random.uniform(0, TTL_S / 3))
            self.agent.kill()
            return None
        waiter, name = self.run.holder(self.agent, label="waiter"), f"{self.label}-acquired-{kill}"
        with self.nodes_lock, self.run.nodes[2].client() as client:
            try:
                for node in self.run.nodes[:2]:
                    node.sigstop()
                waiter.cmd("start", name, 0, -1)
                wait_until(lambda: client.cmd("EXISTS", name), what="one vote is there", interval_s=0.001)
                self.agent.kill()
                self.count["inside an acquire"] += client.cmd("EXISTS", name)  # and none too few to be undone yet
            finally:
                for node in self.run.nodes[:2]:
                    node.sigcont()
        return waiter, name

    def cycle(self, kill):
        mortal = self.run.holder(self.agent, label="mortal") if kill % 4 == 2 else None
        if mortal:
            mortal.acquire(f"{self.label}-mortal", 0, 10_000)
        waiting = self.kill(kill)
        self.count["killed"] += 1
        if kill % 8 == 5:  # once more, as it starts
            self.agent = self.spawn(kill)
            time.sleep(self.random.uniform(0, 0.15))
            self.agent.kill()
            self.count["killed as it started"] += 1
        held = self.report()
        if mortal:
            mortal.kill()
        time.sleep(self.random.uniform(*DELAY_S))
        started_ns = boottime_ns()
        self.agent = self.spawn(kill)
        self.agent.wait_ready()
        self.expected.append({name: (*lease, started_ns, boottime_ns()) for name, lease in held.items()})
        if waiting:
            self.served(*waiting)
        if mortal:
            self.run.keys_gone(f"{self.label}-mortal", 2 * TTL_S)
            self.count["holders died meanwhile"] += 1

    def spawn(self, kill):
        return start(self.run, self.label, program=self.programs[kill % len(self.programs)], wait=False)

    def served(self, waiter, name):
        """The acquire that was under way is granted, once, and nothing of it is left."""
        fence = waiter.cmd("result", 0, 10_000)["fence"]
        assert waiter.held(), f"{name} is lost: {waiter.cmd('reason')['text']}"
        assert self.run.holders_of(name) >= 2, name
        waiter.release()
        self.run.keys_gone(name)
        waiter.close()
        self.count["waiters served"] += fence > 0

    def judge(self, rivals):
        """Every lease that was held at a kill: what became of it, and when its holder knew."""
        holds = []
        for keeper in self.keepers:
            more, again = keeper.quit()
            holds += more
            assert again == 0, f"{again} checks said held after not held"
        ended = {(hold.name, hold.fence): hold for hold in holds if hold.end != "kept"}
        kept = {(hold.name, hold.fence) for hold in holds if hold.end == "kept"}
        for number, leases in enumerate(self.expected):
            later = {(name, fence) for one in self.expected[number + 1:] for name, (fence, *_) in one.items()} | kept
            for name, (fence, until_ns, started_ns, ready_ns) in leases.items():
                hold = ended.get((name, fence))
                if (name, fence) in later:
                    assert started_ns < until_ns, f"{name} was kept by an agent that came after its V: {until_ns}"
                    self.count["kept"] += 1
                    continue
                assert hold and hold.end == "lost", f"{name} with fence {fence}: {hold}"
                assert hold.last_ns < until_ns, f"{name} was held after its V: {until_ns}, {hold}"
                ahead_s = (until_ns - ready_ns) / 1e9
                assert ahead_s < RENEW_S, f"{name} was lost, though the agent was ready {ahead_s} s before V: {hold}"
                # Readopted, and V came before the nodes' answers.
                assert hold.reason == RESTART or (hold.reason == TOO_FEW and started_ns < until_ns), \
                    f"{hold}, the agent was started {(until_ns - started_ns) / 1e9} s before V, ready {ahead_s} s before"
                self.count["lost"] += 1
                self.count["lost for the restart"] += hold.reason == RESTART
                self.count["lost though started before V"] += started_ns < until_ns
                self.late_ms = max(self.late_ms, (until_ns - hold.last_ns) / 1e6)
        for name in {hold.name for hold in holds}:
            one = [Hold(0, hold.fence, hold.first_ns, hold.last_ns, False) for hold in holds + rivals if hold.name == name]
            assert not overlaps(one), f"{name}: {overlaps(one)}"
            assert not fence_faults(one), f"{name}: {fence_faults(one)}"


def killed_again_and_again(run, programs):
    run.redis(3)
    lanes = [Lane(run, i, KILLS // LANES, programs) for i in range(LANES)]
    other = start(run, "other")
    rivals = [Keeper(run, other, f"{lane.label}-", RIVALED, f"rival_{lane.label}", "--hold-ms", 20, "--pause-ms", 1500)
              for lane in lanes]
    for lane in lanes:
        lane.thread.start()
    for lane in lanes:
        lane.thread.join()
    assert not any(lane.trouble for lane in lanes), [lane.trouble for lane in lanes]
    rival_holds = [hold for rival in rivals for hold in rival.quit()[0]]
    for lane in lanes:
        lane.judge(rival_holds)
    total = sum((lane.count for lane in lanes), collections.Counter())
    total["holds of the other host"] = len(rival_holds)
    print(f"# {', '.join(f'{word}: {number}' for word, number in sorted(total.items()))}")
    assert total["kept"] and total["lost"] and total["inside an acquire"] >= KILLS // 5
    assert total["waiters served"] == KILLS // 4
    return total


@scenario("the agent is killed again and again with 50 leases, also inside acquires, every other time by an upgrade: "
          "inside V none is lost, past V all are", sanitizers=False)
def kill_proof(run):
    killed_again_and_again(run, (None,) if FULL else (NEXT_MINOR, None))


if FULL:
    @scenario("the same through an upgrade and back, each time")
    def kill_proof_upgraded(run):
        killed_again_and_again(run, (NEXT_MINOR, None))


if __name__ == "__main__":
    main()
