#!/usr/bin/env python3
"""Exclusion and rising fences: eight processes under two agents take one lock as often as they can.

HOLDFAST_FULL=1 does 10,000 cycles, else 2,000.
"""
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from history import Hold, changes_of, contended_share, fence_faults, overlaps, parse  # noqa: E402
from rig import BUILD, SANITIZE, agent_env, main, scenario  # noqa: E402

CYCLES = 10_000 if os.environ.get("HOLDFAST_FULL") else 2_000 if not SANITIZE else 400
PROCESSES_PER_AGENT = 4
HOLD_US = 200
PAUSE_US = 1500  # so that a host's queue runs empty at times, and the other host gets its turn
SPIN_US = 1000
CONTENDED_LEAST = 0.3


# --- the checker itself --------------------------------------------------------------------------------

GOOD = [Hold(1, 10, 100, 200, False), Hold(2, 11, 201, 300, True), Hold(1, 12, 305, 305, False)]


@scenario("the checker finds nothing in a good history, in whatever order it was read")
def good_history(_run):
    for holds in (GOOD, GOOD[::-1], []):
        assert overlaps(holds) == [] and fence_faults(holds) == []
    assert contended_share(GOOD) == 1 / 3 and contended_share([]) == 0
    assert changes_of(GOOD, {1: "a", 2: "b"}) == 2 and changes_of(GOOD, {1: "a", 2: "a"}) == 0
    text = "".join(f"{h.pid} {h.fence} {h.first_ns} {h.last_ns} {int(h.contended)}\n" for h in GOOD)
    assert parse(text) == GOOD


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


def contend(run, agents, *options):
    """All contenders from one start to their ends; the history, and {pid: agent}.

    Half of them wait in their agent's queue, half try again and again, which makes for split votes."""
    crew, agent_of = [], {}
    count = CYCLES // (PROCESSES_PER_AGENT * len(agents))
    folder = run.dir / f"histories{len(options)}"
    folder.mkdir()
    for agent in agents:
        for i in range(PROCESSES_PER_AGENT):
            label = f"contender-{agent.name}-{i}"
            path = folder / label
            argv = [BUILD / "tests" / "contender", "--name", "contended", "--count", count, "--history", path,
                    "--hold-us", HOLD_US, "--pause-us", PAUSE_US, *options]
            if i % 2:
                argv += ["--spin-us", SPIN_US]
            process = run.spawn(*argv, label=label, env=agent_env(agent), stdin=subprocess.PIPE)
            agent_of[process.pid] = agent.name
            crew.append((process, path))
    for process, _ in crew:
        process.wait_out("ready")
    for process, _ in crew:
        process.popen.stdin.close()
    holds = []
    for process, path in crew:
        code = process.wait(300)
        assert code == 0, f"a contender ended with {code}: {process.err}"
        holds += parse(path.read_text())
    assert len(holds) == count * len(crew)
    return holds, agent_of


@scenario("two agents, eight processes, one lock: no two holds overlap and fences rise; without the lock they overlap")
def exclusion(run):
    run.redis(3)
    agents = [run.agent("a"), run.agent("b")]

    holds, agent_of = contend(run, agents)
    share, changes = contended_share(holds), changes_of(holds, agent_of)
    print(f"# {len(holds)} holds, {share:.0%} contended, {changes} times from agent to agent, "
          f"{len(overlaps(holds))} overlaps, {len(fence_faults(holds))} fence faults")
    assert not overlaps(holds), f"{len(overlaps(holds))} overlaps, the first: {overlaps(holds)[0]}"
    assert not fence_faults(holds), f"{len(fence_faults(holds))} fences did not rise: {fence_faults(holds)[0]}"
    assert share >= CONTENDED_LEAST, f"{share:.0%} contended"
    assert changes >= len(holds) // 100, f"the lock went {changes} times from agent to agent"
    run.keys_gone("contended")

    unlocked, _ = contend(run, agents, "--no-lock")
    print(f"# without the lock: {len(overlaps(unlocked))} overlaps")
    assert overlaps(unlocked), "without the lock no two overlapped: the workload proves nothing"


if __name__ == "__main__":
    main()
