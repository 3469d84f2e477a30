#!/usr/bin/env python3
"""Other Redlock clients on the keys of our locks: node-redlock and redis-semaphore (npm, the versions of
tests/interop/package.json), redis-py (Debian's, on the one node of an agent), and one that sets keys anew when it extends.

HOLDFAST_FULL=1 contends for a minute instead of some seconds. The modules of npm are kept in
$XDG_CACHE_HOME/holdfast-tests (~/.cache); without npm or its registry those scenarios are skipped.
"""
import collections
import json
import os
import pathlib
import random
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from history import LOST, fence_faults, longest_wait, overlaps, proven, read  # noqa: E402
from rig import BUILD, ROOT, HolderError, Process, agent_env, main, scenario, skip, values_of, wait_until  # noqa: E402

PEERS = ROOT / "tests" / "interop"
CONTEND_S = 60 if os.environ.get("HOLDFAST_FULL") else 7
TTL_MS = 1500
DURABLE = ("--appendonly", "yes", "--appendfsync", "always")  # the others do not wait after a restart, so none may forget
QUARANTINE = ("--ttl-max", f"{TTL_MS}ms")  # 1.02 of that and a second
EBUSY = -201

# A library's name for our lock "job", and our key format for that: all of them are on one key, mutex:job.
KEY_FORMAT = ("--key-format-for", "job* mutex:%s")
NAME_OF = {"node-redlock": "mutex:{}", "redis-semaphore": "{}", "recreating": "mutex:{}", "redis-py": "mutex:{}"}
REFUSAL_OF = {"node-redlock": "ExecutionError", "redis-semaphore": "TimeoutError", "recreating": "False", "redis-py": "False"}


# --- peers ---------------------------------------------------------------------------------------------


def modules():
    """The folder of npm's modules, installed once."""
    result = subprocess.run([PEERS / "install"], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    if result.returncode == 77:
        skip(result.stderr.strip())
    assert result.returncode == 0, result.stderr
    return pathlib.Path(result.stdout.strip())


def is_node(kind):
    return kind in ("node-redlock", "redis-semaphore")


class Peer(Process):
    """A process of tests/interop that answers or contends."""

    def __init__(self, run, kind, mode, env=None):
        self.kind = kind
        program = ["node", PEERS / "peer.mjs"] if is_node(kind) else ["/usr/bin/python3", PEERS / "peer.py"]
        sockets = [node.address.removeprefix("unix:") for node in run.nodes]
        env = {**(env or {}), **({"INTEROP_MODULES": modules()} if is_node(kind) else {})}
        talks = {"stdout": subprocess.PIPE, "bufsize": 0} if mode == "talk" else {}
        super().__init__(run, [*program, kind, mode, *sockets], f"peer-{kind}", env=env, stdin=subprocess.PIPE, **talks)

    def ask(self, *words):
        self.popen.stdin.write((" ".join(map(str, words)) + "\n").encode())
        line = self.popen.stdout.readline().decode()
        assert line.startswith("ok "), f"{self.label}: {line!r} {self.err}"
        return values_of(line[3:].strip())

    def take(self, name, wait_ms=0, ttl_ms=TTL_MS):
        """Whether it has it now."""
        answer = self.ask("take", NAME_OF[self.kind].format(name), ttl_ms, wait_ms)
        assert answer in ({"taken": 1}, {"refused": REFUSAL_OF[self.kind]}), answer
        return "taken" in answer


def need_redis_py():
    if subprocess.run(["/usr/bin/python3", "-c", "import redis"], capture_output=True, check=False).returncode != 0:
        skip("there is no python3-redis")


# --- contending ----------------------------------------------------------------------------------------


class Crew:
    """Contenders of agents and of other libraries on one lock, each with a history, all with one witness."""

    def __init__(self, run):
        self.run, self.members = run, []
        self.folder = run.dir / "histories"
        self.folder.mkdir()
        self.witness = self.folder / "witness"
        self.witness.write_bytes(bytes(64 * 64))

    def ours(self, agent, *options):
        path = self.folder / f"{self.run.serial()}"
        process = self.run.spawn(BUILD / "tests" / "contender", "--name", "job", "--history", path, "--witness", self.witness,
                                 "--rough", "--for-ms", 3_600_000, "--ttl-ms", TTL_MS, "--hold-us", 3000, "--long-us",
                                 TTL_MS * 700, "--idle-us", 300, "--pause-us", 60000, *options, label="contender", env=agent_env(agent),
                                 stdin=subprocess.PIPE)
        self.members.append(("holdfast", process, path))

    def theirs(self, kind, **options):
        path = self.folder / f"{self.run.serial()}"
        offset_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        settings = {"name": NAME_OF[kind].format("job"), "history": str(path), "witness": str(self.witness), "host": 0,
                    "ttl_ms": TTL_MS, "wait_ms": 400, "hold_ms": 3, "long_ms": TTL_MS * 0.8, "long_share": 0.03,
                    "extend_ms": TTL_MS // 3, "pause_ms": 30, "boot_minus_monotonic_ns": offset_ns, **options}
        peer = Peer(self.run, kind, "contend", env={"INTEROP": json.dumps(settings)})
        self.members.append((kind, peer, path))

    def contend(self, trouble, seconds=CONTEND_S):
        """All of them, while `trouble` is called again and again: (the holds of each kind, all sightings)."""
        for _, process, _ in self.members:
            process.wait_out("ready", 30)
        for kind, process, _ in self.members:
            if kind == "holdfast":
                process.popen.stdin.close()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            trouble()
        for kind, process, _ in self.members:
            if kind == "holdfast":
                process.signal(15)
            else:
                process.popen.stdin.close()
        holds, sightings = collections.defaultdict(list), []
        for kind, process, path in self.members:
            code = process.wait(30)
            assert code == 0, f"{process.label} ended with {code}: {process.err}"
            found, seen, _ = read(path)
            holds[kind] += found
            sightings += seen
        return holds, sightings

    def judge(self, holds, sightings):
        everything = [hold for kind in holds for hold in holds[kind]]
        counts = {kind: collections.Counter() for kind in holds}
        for kind, process, _ in self.members:
            if kind != "holdfast":
                counts[kind].update(json.loads(process.out.splitlines()[-1]))
        for kind, found in holds.items():
            counts[kind]["lost"] = sum(hold.end == LOST for hold in found)
            longest = max((hold.last_ns - hold.first_ns for hold in found), default=0) / 1e9
            print(f"# {kind}: {len(found)} holds, the longest {longest:.1f} s "
                  + " ".join(f"{key}={value}" for key, value in sorted(counts[kind].items())))
        print(f"# {len(everything)} holds, {len(overlaps(everything))} overlaps, {len(proven(sightings, everything))} sightings,"
              f" {len(fence_faults(holds['holdfast']))} fence faults")
        assert not overlaps(everything), f"two at once: {overlaps(everything)[0]}"
        assert not proven(sightings, everything), f"a foreign word: {proven(sightings, everything)[0]}"
        assert not fence_faults(holds["holdfast"]), f"a fence did not rise: {fence_faults(holds['holdfast'])[0]}"
        for kind, found in holds.items():
            assert found, f"{kind} never had the lock"


def restarts(run):
    """Stops a node, by SIGTERM or SIGKILL, and starts it again; one at a time, until agents take its votes again."""

    def trouble():
        node = random.choice(run.nodes)
        time.sleep(random.uniform(0.3, 0.8))
        random.choice((node.stop, node.kill))()
        time.sleep(random.uniform(0.1, 0.6))
        node.start()
        time.sleep(TTL_MS * 1.02 / 1000 + 1.2)

    return trouble


@scenario("node-redlock, redis-semaphore, a re-creating client and two agents on one key, nodes restarted: nobody overlaps",
          sanitizers=False)
def contend_on_a_quorum(run):
    modules()
    run.redis(3, options=DURABLE)
    agents = [run.agent(label, ttl=f"{TTL_MS}ms", options=[*KEY_FORMAT, *QUARANTINE]) for label in ("a", "b")]
    crew = Crew(run)
    for agent in agents:
        crew.ours(agent)
        crew.ours(agent)
    for kind in ("node-redlock", "redis-semaphore", "recreating"):
        crew.theirs(kind, late_share=0.3)
    crew.judge(*crew.contend(restarts(run)))


def beside(run, hosts, waiters, seconds, hold_ms=10):
    """A client that polls every 10 to 60 ms, beside agents whose waiters take the lock for `hold_ms` again and again: its
    holds, those of agents, and its longest wait in seconds; also printed."""
    run.redis(3)
    agents = [run.agent(label, options=KEY_FORMAT) for label in "abc"[:hosts]]
    crew = Crew(run)
    for agent in agents:
        for _ in range(waiters):
            crew.ours(agent, "--patient", "--queue", "--hold-us", hold_ms * 1000, "--idle-us", 2000, "--long-us", 0, "--pause-us", 0)
    crew.theirs("recreating", hold_ms=10, long_share=0, wait_ms=60_000, pause_ms=1)
    for _, process, _ in crew.members:
        process.wait_out("ready", 30)
    for node in run.nodes:  # the agents meet such a program; else that is luck, and takes some seconds
        node.cmd("SET", "mutex:job", "another-program", "PX", 700)
    begin = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    holds, sightings = crew.contend(lambda: time.sleep(0.1), seconds=seconds)
    end = begin + int(seconds * 1e9)
    theirs, ours = holds["recreating"], holds["holdfast"]
    waited = longest_wait([hold for hold in theirs if hold.first_ns < end], begin, end) / 1e9
    print(f"# beside {hosts} agents with {waiters} waiters each that hold it for {hold_ms} ms, {seconds} s: {len(theirs)} holds of {len(ours) + len(theirs)}, "
          f"the longest wait {waited:.1f} s")
    assert not overlaps(theirs + ours), "two at once"
    return len(theirs), len(ours), waited


@scenario("a client that polls gets its turns beside agents that hold the lock for 10 ms", sanitizers=False)
def polls_beside_agents(run):
    theirs, _, waited = beside(run, 2, 2, 2 * CONTEND_S)
    assert theirs >= 2 * CONTEND_S, "too few turns"
    assert waited < CONTEND_S, "no turn for long"


@scenario("a client that polls gets its turns beside agents that hold the lock for 50 ms", sanitizers=False)
def polls_beside_long_holds(run):
    theirs, _, waited = beside(run, 2, 1, 2 * CONTEND_S, hold_ms=50)
    assert theirs >= CONTEND_S, "too few turns"
    assert waited < CONTEND_S, "no turn for long"


@scenario("who ignores the lock is seen by histories and witness, whichever client has it", sanitizers=False)
def contend_without_lock(run):
    modules()
    run.redis(3)
    agent = run.agent(options=KEY_FORMAT)
    crew = Crew(run)
    crew.ours(agent, "--no-lock", "--long-us", 0)
    for kind in ("node-redlock", "redis-semaphore", "recreating"):
        crew.theirs(kind, hold_ms=30, long_share=0)
    holds, sightings = crew.contend(lambda: time.sleep(0.1), seconds=1.5)
    for kind in ("node-redlock", "redis-semaphore", "recreating"):
        both = holds[kind] + holds["holdfast"]
        pids = {hold.pid for hold in holds[kind]}
        assert overlaps(both) and any(seen.pid in pids for seen in proven(sightings, both)), kind


@scenario("redis-py contends with the agent of its one server, which is restarted: nobody overlaps", sanitizers=False)
def contend_on_one_server(run):
    need_redis_py()
    run.redis(1, options=DURABLE)
    agent = run.agent(ttl=f"{TTL_MS}ms", options=[*KEY_FORMAT, *QUARANTINE])
    crew = Crew(run)
    crew.ours(agent)
    crew.ours(agent)
    for share in (0, 0.3):
        crew.theirs("redis-py", endless_share=share)
    crew.judge(*crew.contend(restarts(run)))


# --- one by one ----------------------------------------------------------------------------------------


def busy(holder, name):
    try:
        holder.acquire(name, wait_ms=0)
    except HolderError as error:
        return error.code == EBUSY
    return False


def meet(run, kind):
    """We hold and it waits; it holds and we wait; it extends; it goes without a word."""
    run.redis(1 if kind == "redis-py" else 3)
    agent = run.agent(ttl=f"{TTL_MS}ms", options=KEY_FORMAT)
    peer, ours = Peer(run, kind, "talk"), run.holder(agent)
    ours.acquire("job")
    assert not peer.take("job") and not peer.take("job", wait_ms=300), "it got what we hold"
    time.sleep(TTL_MS / 1000 * 1.2)  # renewed meanwhile
    assert not peer.take("job") and ours.held()
    ours.release()
    assert peer.take("job", wait_ms=1000)

    assert busy(ours, "job")
    shown = run.holdfast("run", "-n", "job", "true", agent=agent)
    assert shown.rc == 75 and "job is held by another" in shown.err, shown
    there = run.holdfast("show", "--json", "job", agent=agent).json["anywhere"]
    assert there["held"] and there["host"] is None and 0 < there["left_ms"] <= TTL_MS, there
    assert peer.ask("extend") == {"extended": 1} and busy(ours, "job")
    time.sleep(TTL_MS / 2000)
    assert peer.ask("extend") == {"extended": 1} and peer.ask("held") == {"held": 1}
    time.sleep(TTL_MS / 2000)
    assert busy(ours, "job"), "its extension counts"
    ours.send("acquire", "job", 0, -1)
    time.sleep(0.3)
    released_ns = time.monotonic_ns()
    peer.ask("release")
    ours.answer()
    print(f"# {kind}: granted {(time.monotonic_ns() - released_ns) / 1e6:.1f} ms after its release; {shown.err.strip()}")
    ours.release()

    assert peer.take("job", wait_ms=1000)
    peer.kill()
    ours.acquire("job", 0, TTL_MS * 3)
    ours.release()
    return agent, ours


@scenario("node-redlock and we wait for each other", sanitizers=False)
def meet_node_redlock(run):
    meet(run, "node-redlock")


@scenario("redis-semaphore and we wait for each other", sanitizers=False)
def meet_redis_semaphore(run):
    meet(run, "redis-semaphore")


@scenario("redis-py and we wait for each other; its key without expiry is waited for, too", sanitizers=False)
def meet_redis_py(run):
    need_redis_py()
    agent, ours = meet(run, "redis-py")
    peer = Peer(run, "redis-py", "talk")
    assert peer.take("job", ttl_ms=0) and run.nodes[0].pttl("mutex:job") == -1
    print(f"# {run.holdfast('run', '-n', 'job', 'true', agent=agent).err.strip()}")
    ours.send("acquire", "job", 0, -1)
    time.sleep(0.5)
    peer.ask("release")
    ours.answer()
    ours.release()


@scenario("a client that sets keys anew when it extends gets nothing of what we hold, and we wait for each other",
          sanitizers=False)
def meet_recreating(run):
    agent, ours = meet(run, "recreating")
    peer = Peer(run, "recreating", "talk")
    assert peer.take("job", ttl_ms=200)
    time.sleep(0.4)
    ours.acquire("job")
    assert peer.ask("extend") == {"extended": 0} and peer.ask("held") == {"held": 0}, "it lapsed, and we have it"
    run.nodes[0].cmd("DEL", "mutex:job")
    assert peer.ask("extend") == {"extended": 0}, "one node is no majority"
    assert ours.held()
    ours.release()


@scenario("another client deletes our key without asking for the token, and takes it: we learn it and say so", sanitizers=False)
def deleted(run):
    run.redis(3)
    agent = run.agent(ttl=f"{TTL_MS}ms", options=KEY_FORMAT)
    peer, ours = Peer(run, "recreating", "talk"), run.holder(agent)
    ours.acquire("job")
    time.sleep(0.3)
    for node in run.nodes:
        node.cmd("DEL", "mutex:job")
    start_ns = time.monotonic_ns()
    assert peer.take("job")
    wait_until(lambda: not ours.held(), TTL_MS / 1000, "the lease is lost", interval_s=0.001)
    print(f"# lost {(time.monotonic_ns() - start_ns) / 1e6:.1f} ms after another had taken it")
    assert busy(ours, "job") and peer.ask("held") == {"held": 1}


if __name__ == "__main__":
    main()
