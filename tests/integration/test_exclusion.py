#!/usr/bin/env python3
"""Exclusion and rising fences: eight processes under two agents take one lock as often as they can.

HOLDFAST_FULL=1 does 10,000 cycles, else 2,000, and breaks nodes and agents for a minute instead of 10 s.
"""
import os
import pathlib
import random
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from history import Hold, changes_of, contended_share, fence_faults, format_hold, overlaps, parse, read  # noqa: E402
from rig import BUILD, SANITIZE, agent_env, boottime_ns, main, scenario  # noqa: E402

CYCLES = 10_000 if os.environ.get("HOLDFAST_FULL") else 2_000 if not SANITIZE else 400
PROCESSES_PER_AGENT = 4
HOLD_US = 200
PAUSE_US = 1500  # so that a host's queue runs empty at times, and the other host gets its turn
SPIN_US = 1000
CONTENDED_LEAST = 0.3
ROUGH_TTL_S = 1
ROUGH_S = int(os.environ.get("HOLDFAST_ROUGH_S", 0)) or (60 if os.environ.get("HOLDFAST_FULL") else 10)
QUIET_S = 10  # at the end, for quarantines to end and both agents to get the lock again


# --- the checker itself --------------------------------------------------------------------------------

GOOD = [Hold(1, 10, 100, 200, False), Hold(2, 11, 201, 300, True), Hold(1, 12, 305, 305, False)]


@scenario("the checker finds nothing in a good history, in whatever order it was read")
def good_history(_run):
    for holds in (GOOD, GOOD[::-1], []):
        assert overlaps(holds) == [] and fence_faults(holds) == []
    assert contended_share(GOOD) == 1 / 3 and contended_share([]) == 0
    assert changes_of(GOOD, {1: "a", 2: "b"}) == 2 and changes_of(GOOD, {1: "a", 2: "a"}) == 0
    assert parse(b"".join(map(format_hold, GOOD))) == (GOOD, [], [])


@scenario("the checker finds an overlap of one nanosecond, and a hold inside another")
def bad_overlaps(_run):
    def after(hold):
        return overlaps([Hold(1, 10, 100, 200, False), hold])

    assert len(after(Hold(2, 11, 200, 300, True))) == 1
    assert len(after(Hold(2, 11, 199, 300, True))) == 1
    assert len(after(Hold(2, 11, 120, 130, True))) == 1
    assert len(after(Hold(2, 11, 100, 200, True))) == 1
    assert not after(Hold(2, 11, 201, 300, True))
    long_hold = [Hold(1, 10, 100, 900, False), Hold(2, 11, 200, 300, True), Hold(3, 12, 400, 500, True)]
    assert len(overlaps(long_hold)) == 2, "the second is found behind the first's end too"


@scenario("the checker finds a fence that went back, and one that stayed")
def bad_fences(_run):
    def fences(*values):
        return len(fence_faults([Hold(1, fence, 100 * i, 100 * i + 50, False) for i, fence in enumerate(values)]))

    assert fences(1, 2, 3) == 0
    assert fences(1, 3, 2) == 1
    assert fences(1, 2, 2) == 1
    assert fences(3, 2, 1) == 2


# --- the proof -----------------------------------------------------------------------------------------


def contenders(run, agents, *options, spin_us=SPIN_US):
    """Starts the crew: [(process, path of its history)] and {pid: agent}.

    Half of them wait in their agent's queue, half try again and again, which makes for split votes."""
    crew, agent_of = [], {}
    folder = run.dir / f"histories{run.serial()}"
    folder.mkdir()
    for agent in agents:
        for i in range(PROCESSES_PER_AGENT):
            label = f"contender-{agent.name}-{i}"
            argv = [BUILD / "tests" / "contender", "--name", "contended", "--history", folder / label, *options]
            if i % 2:
                argv += ["--spin-us", spin_us]
            process = run.spawn(*argv, label=label, env=agent_env(agent), stdin=subprocess.PIPE)
            agent_of[process.pid] = agent.name
            crew.append((process, folder / label))
    for process, _ in crew:
        process.wait_out("ready")
    for process, _ in crew:
        process.popen.stdin.close()
    return crew, agent_of


def history_of(crew):
    holds = []
    for process, path in crew:
        code = process.wait(300)
        assert code == 0, f"a contender ended with {code}: {process.err}"
        holds += read(path)[0]
    return holds


def contend(run, agents, *options):
    """All cycles from one start to their end; the history, and {pid: agent}."""
    count = CYCLES // (PROCESSES_PER_AGENT * len(agents))
    crew, agent_of = contenders(run, agents, "--count", count, "--hold-us", HOLD_US, "--pause-us", PAUSE_US, *options)
    holds = history_of(crew)
    assert len(holds) == count * len(crew)
    return holds, agent_of


def judge(holds, agent_of):
    """What the history may never show."""
    print(f"# {len(holds)} holds, {contended_share(holds):.0%} contended, {changes_of(holds, agent_of)} times from "
          f"agent to agent, {len(overlaps(holds))} overlaps, {len(fence_faults(holds))} fence faults")
    assert not overlaps(holds), f"{len(overlaps(holds))} overlaps, the first: {overlaps(holds)[0]}"
    assert not fence_faults(holds), f"{len(fence_faults(holds))} fences did not rise: {fence_faults(holds)[0]}"


@scenario("two agents, eight processes, one lock: no two holds overlap and fences rise; without the lock they overlap")
def exclusion(run):
    run.redis(3)
    agents = [run.agent("a"), run.agent("b")]

    holds, agent_of = contend(run, agents)
    share, changes = contended_share(holds), changes_of(holds, agent_of)
    judge(holds, agent_of)
    assert share >= CONTENDED_LEAST, f"{share:.0%} contended"
    assert changes >= len(holds) // 100, f"the lock went {changes} times from agent to agent"
    run.keys_gone("contended")

    for again in range(10):  # on a busy machine they may run one after the other for once
        unlocked, _ = contend(run, agents, "--no-lock")
        if overlaps(unlocked):
            break
    print(f"# without the lock: {len(overlaps(unlocked))} overlaps, in round {again + 1}")
    assert overlaps(unlocked), "without the lock no two overlapped: the workload proves nothing"


# --- the same while nodes and agents are broken --------------------------------------------------------


class Trouble:
    """One fault after the other; the seed makes a run that failed happen again, but for its timing.

    Clocks of nodes are stepped forward only: fences that were made of a clock that then goes back, on a majority that
    then forgets, are beyond the promise."""

    def __init__(self, run, seed):
        self.run, self.nodes, self.agents = run, run.nodes, list(run.agents)
        self.random = random.Random(seed)
        self.shifts = dict.fromkeys((node.id for node in self.nodes), 0)
        self.told = []

    def next(self):
        kinds = (self.restart, self.flush, self.step, self.stop_node, self.stop_agent, self.kill_agent)
        kind = self.random.choice(kinds) if len(self.told) % 3 else self.amnesia
        target = self.random.choice(self.nodes if kind in (self.restart, self.flush, self.step, self.stop_node)
                                    else self.agents)
        self.told.append(f"{kind.__name__} {target.id if target in self.nodes else target.label}")
        kind(target)

    def restart(self, node):
        node.restart()

    def flush(self, node):
        node.cmd("FLUSHALL")

    def step(self, node):
        self.shifts[node.id] += self.random.choice((0.5, 5))
        node.shift_clock(self.shifts[node.id])

    def pause(self, process, most_s):
        process.sigstop()
        time.sleep(self.random.uniform(0.1, most_s))
        process.sigcont()

    def stop_node(self, node):
        self.pause(node, 0.8)

    def stop_agent(self, agent):
        self.pause(agent, 2 * ROUGH_TTL_S)

    def kill_agent(self, agent):
        """The next one takes its leases over, with its holders, or finds them past their validity."""
        agent.kill()
        time.sleep(self.random.uniform(0, ROUGH_TTL_S))
        label = agent.label.removeprefix("agent-")
        self.agents[self.agents.index(agent)] = rough_agent(self.run, label, fresh=False, wait=False)

    def amnesia(self, agent):
        """While an agent hangs a majority forgets the keys of its leases, which are valid all the same."""
        agent.sigstop()
        for node in self.random.sample(self.nodes, len(self.nodes) // 2 + 1):
            self.random.choice((self.restart, self.flush, self.step))(node)
        time.sleep(self.random.uniform(0.1, 0.8 * ROUGH_TTL_S))
        agent.sigcont()


def rough_agent(run, label, **more):
    return run.agent(label, ttl=f"{ROUGH_TTL_S}s", options=("--ttl-max", f"{ROUGH_TTL_S}s"), **more)


@scenario("exclusion holds while nodes are restarted empty, flushed, stopped or stepped, and agents hang or are killed")
def rough_exclusion(run):
    run.redis(5, clock=True)
    agents = [rough_agent(run, label) for label in ("a", "b")]
    seed = int(os.environ.get("HOLDFAST_SEED", 0)) or random.randrange(1, 1_000_000)
    trouble = Trouble(run, seed)
    crew, agent_of = contenders(run, agents, "--for-ms", (ROUGH_S + QUIET_S) * 1000, "--rough", "--hold-us", 2000,
                                "--long-us", ROUGH_TTL_S * 2_000_000, "--pause-us", 3000, spin_us=10_000)
    end = time.monotonic() + ROUGH_S
    while time.monotonic() < end:
        time.sleep(trouble.random.uniform(0.2, 2))
        trouble.next()
    quiet_ns = boottime_ns() + QUIET_S * 300_000_000
    holds = history_of(crew)
    print(f"# HOLDFAST_SEED={seed}: {', '.join(trouble.told)}")
    judge(holds, agent_of)
    for agent in trouble.agents:
        agent.wait_ready()
        assert any(agent_of[hold.pid] == agent.name and hold.last_ns > quiet_ns for hold in holds), \
            f"{agent.label} never had the lock after the trouble was over"


if __name__ == "__main__":
    main()
