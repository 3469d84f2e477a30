#!/usr/bin/env python3
"""A lock that goes from process to process of one host, without a round on the nodes.

HOLDFAST_FULL=1 does ten times as many rounds and kills.
"""
import json
import os
import pathlib
import random
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from history import Hold, fence_faults, overlaps  # noqa: E402
from rig import HolderError, main, scenario, wait_until  # noqa: E402
from views import counters  # noqa: E402

IN_A_ROW = 16  # agent/core/handoff.h
MORE = 10 if os.environ.get("HOLDFAST_FULL") else 1
TIMEDOUT, NOAGENT = -202, -301  # HF_E*


def holds_of(holder):
    """The holds of a `cycle` at its end."""
    holder.answer()
    return told(holder)


def told(holder):
    rows = [line.split() for line in holder.more if line.startswith("hold ")]
    return [Hold(holder.pid, int(fence), int(first), int(last)) for _, first, last, fence, _ in rows]


def chains(holds):
    """The hand-offs of each token, in the order of the fences: [[0, 1, 2], [0], ...]."""
    tokens = {}
    for hold in sorted(holds, key=lambda hold: hold.fence):
        tokens.setdefault(hold.fence >> 10, []).append(hold.fence & 0x3ff)
    return list(tokens.values())


@scenario("four processes of one host hand a lock on: no two hold it at once, fences rise, at most 16 in a row")
def from_hand_to_hand(run):
    run.redis(3)
    agent = run.agent("a")
    holders = [run.holder(label=f"holder{i}") for i in range(4)]
    for holder in holders:
        holder.send("cycle", 100, "lock", 0, 20000, 500)
    holds = [hold for holder in holders for hold in holds_of(holder)]
    assert len(holds) == 400
    assert not overlaps(holds) and not fence_faults(holds)
    rows = chains(holds)
    assert all(row == list(range(len(row))) for row in rows), rows
    assert max(len(row) for row in rows) <= 1 + IN_A_ROW
    seen = counters(run, agent)
    print("#", seen["handoffs"], "hand-offs", len(rows), "tokens")
    assert seen["handoffs"] == len(holds) - len(rows) >= 200, seen
    assert seen["grants"] == seen["releases"] == 400
    run.keys_gone("lock")


def part(fence):
    """The part that nodes see, and the count of hand-offs."""
    return fence >> 10, fence & 0x3ff


def waits(run, agent, count):
    wait_until(lambda: counters(run, agent)["waiters"] == count, what=f"{count} wait")


@scenario("jobs of holdfast run hand their lock on once their tree is reaped; history says so", sanitizers=False)
def jobs(run):
    run.redis(3)
    agent = run.agent("a")
    log = run.dir / "log"
    script = f'echo start $HOLDFAST_FENCE >>{log}; sleep 0.05; echo end $HOLDFAST_FENCE >>{log}'
    first = run.start_holdfast("run", "job", "sh", "-c", f"while ! [ -e {run.dir}/go ]; do sleep 0.02; done; {script}")
    wait_until(lambda: run.show("job"), what="the first has it")
    others = [run.start_holdfast("run", "job", "sh", "-c", script) for _ in range(4)]
    waits(run, agent, 4)
    (run.dir / "go").touch()
    for process in [first, *others]:
        assert process.wait(20) == 0, process.err
    lines = log.read_text().split("\n")[:-1]
    fences = [int(line.split()[1]) for line in lines[::2]]
    assert [line.split()[0] for line in lines] == ["start", "end"] * 5, lines
    assert fences == sorted(set(fences)), fences
    assert counters(run, agent)["handoffs"] >= 3, counters(run, agent)  # one may come by a round: a machine that stood still
    told = run.holdfast("history", "--json", "job")
    events = [json.loads(line) for line in told.out.splitlines()]
    handed = [event["event"] for event in events if event.get("handed_over")]
    assert handed.count("granted") == handed.count("released") == counters(run, agent)["handoffs"], told.out
    run.keys_gone("job")


@scenario("a holder that dies hands its lock on, and what it was told is void")
def dead_holder(run):
    run.redis(3)
    agent = run.agent("a")
    holder, waiter = run.holder(), run.holder(label="waiter")
    fence = holder.acquire("lock")["fence"]
    waiter.cmd("start", "lock", 0, -1)
    waits(run, agent, 1)
    holder.kill()
    assert part(waiter.cmd("result", 0, 5000)["fence"]) == (fence >> 10, 1)
    assert waiter.held()
    waiter.release()
    run.keys_gone("lock")


@scenario("another TTL, or a limit that the token would outlive: a round on the nodes instead")
def not_handed_on(run):
    run.redis(3)
    agent = run.agent("a")
    for first, second in (((0, -1), (20_000, -1)), ((0, -1, "hold=60000"), (0, -1))):
        holder, waiter = run.holder(), run.holder(label="waiter")
        fence = holder.acquire("lock", *first)["fence"]
        waiter.send("acquire", "lock", *second)
        waits(run, agent, 1)
        holder.release()
        node_part, count = part(waiter.answer()["fence"])
        assert node_part > fence >> 10 and count == 0
        waiter.release()
    assert counters(run, agent)["handoffs"] == 0
    run.keys_gone("lock")


@scenario("waiters cancel, time out and die at the moment of a hand-off: the next one has it, nothing is left", sanitizers=False)
def turned_away(run):
    run.redis(3)
    agent = run.agent("a")
    chance = random.Random(7)
    holder, next_one, last = (run.holder(label=label) for label in ("holder", "next", "last"))
    ways = ["cancel"] * 3 + ["timeout"] * 2 + ["kill"]
    seen = dict.fromkeys(("granted", "cancel", "timeout", "kill"), 0)
    for _ in range(60 * MORE):
        way = chance.choice(ways)
        holder.acquire("lock")
        op = next_one.cmd("start", "lock", 0, 15 if way == "timeout" else -1)["op"]
        began = time.monotonic()
        last_op = last.cmd("start", "lock", 0, -1)["op"]
        if way == "timeout":
            time.sleep(max(0.0, began + 0.015 + chance.uniform(-0.001, 0.001) - time.monotonic()))
        acts = [lambda: holder.send("release")]
        if way == "cancel":
            acts.append(lambda: next_one.send("cancel"))
        elif way == "kill":
            acts.append(next_one.kill)
        chance.shuffle(acts)
        for act in acts:
            act()
            time.sleep(chance.choice((0, 0, 50e-6, 200e-6)))
        holder.answer()
        if way == "cancel":
            next_one.answer()
        elif way == "timeout":
            try:
                next_one.cmd("result", op, 5000)
                seen["granted"] += 1
                next_one.release()
            except HolderError as error:
                assert error.code == TIMEDOUT, error
        else:
            next_one = run.holder(label="next")
        seen[way] += 1
        last.cmd("result", last_op, 5000)
        assert last.held()
        last.release()
    print("#", seen, counters(run, agent)["handoffs"], "hand-offs")
    wait_until(lambda: counters(run, agent)["leases"] == 0 and counters(run, agent)["waiters"] == 0, what="nothing is left")
    run.keys_gone("lock")


@scenario("the agent is killed while a lock goes from hand to hand: no two hold it, all go on, nothing is left", sanitizers=False)
def killed_agent(run):
    run.redis(3)
    chance = random.Random(11)
    agent = run.agent("a", ttl="3s", options=("--ttl-max", "3s"))
    holders = [run.holder(label=f"holder{i}") for i in range(4)]
    for _ in range(5 * MORE):
        for holder in holders:
            holder.send("cycle", 400, "lock", 0, 30000, 0)
        time.sleep(chance.uniform(0.02, 0.1))
        agent.kill()
        agent = run.agent("a", ttl="3s", options=("--ttl-max", "3s"), fresh=False)
        for holder in holders:
            holder.answer()
    holds = [hold for holder in holders for hold in told(holder)]
    missed = [line for holder in holders for line in holder.more if line.startswith("miss ")]
    print("#", len(holds), "holds,", len(missed), "tries without an agent,", sum(hold.fence & 0x3ff > 0 for hold in holds), "handed on")
    assert not overlaps(holds) and not fence_faults(holds)
    assert all(f"code={NOAGENT} " in line for line in missed), missed
    assert max(fence & 0x3ff for fence in (hold.fence for hold in holds)) <= IN_A_ROW
    run.keys_gone("lock")
    wait_until(lambda: counters(run, agent)["leases"] == 0, what="nothing is held")


@scenario("a lease that was just handed on is its new holder's after the agent was killed", sanitizers=False)
def kept(run):
    run.redis(3)
    agent = run.agent("a")
    for _ in range(4):
        holder, waiter = run.holder(), run.holder(label="waiter")
        holder.acquire("lock")
        waiter.cmd("start", "lock", 0, -1)
        waits(run, agent, 1)
        holder.release()
        agent.kill()
        agent = run.agent("a", fresh=False)
        fence = waiter.cmd("result", 0, 10_000)["fence"]
        assert waiter.held() and run.show("lock")["pid"] == waiter.pid
        assert run.show("lock")["fence"] == str(fence) and part(fence)[1] == 1
        waiter.release()
        run.keys_gone("lock")
        holder.close()
        waiter.close()


@scenario("two agents, four processes each: after its hand-offs a host lets the other go first", sanitizers=False)
def by_turns(run):
    run.redis(3)
    agents = [run.agent("a"), run.agent("b")]
    crew = {agent.name: [run.holder(agent, label=f"{agent.name}-{i}") for i in range(4)] for agent in agents}
    for holders in crew.values():
        for holder in holders:
            holder.send("cycle", 60, "lock", 0, 60000, 1000)
    holds = sorted((hold.first_ns, hold.fence, name) for name, holders in crew.items() for holder in holders
                   for hold in holds_of(holder))
    assert [fence for _, fence, _ in holds] == sorted({fence for _, fence, _ in holds})
    streaks, last = [], None
    for _, _, name in holds:
        if name == last:
            streaks[-1] += 1
        else:
            streaks.append(1)
        last = name
    print(f"# {len(holds)} holds, {len(streaks)} turns, the longest {max(streaks[:-1])}")
    assert len(streaks) >= 6, streaks
    assert sum(counters(run, agent)["handoffs"] for agent in agents) >= len(holds) // 2
    run.keys_gone("lock")


def anywhere(run, agent):
    return run.holdfast("show", "--json", "lock", agent=agent).json["anywhere"]


@scenario("other hosts are told of the new holder with its first renewal", sanitizers=False)
def told_elsewhere(run):
    run.redis(3)
    here, there = (run.agent(label, ttl="3s", options=("--ttl-max", "3s")) for label in ("a", "b"))
    holder, waiter = run.holder(here), run.holder(here, label="waiter")
    holder.acquire("lock")
    waiter.cmd("start", "lock", 0, -1, "next")
    waits(run, here, 1)
    holder.release()
    fence = waiter.cmd("result", 0, 5000)["fence"]
    wait_until(lambda: anywhere(run, there)["pid"] == waiter.pid, what="the record names it")
    shown = anywhere(run, there)
    assert int(shown["fence"]) == fence >> 10 << 10 and shown["note"] == "next", shown
    waiter.release()
    run.keys_gone("lock")


if __name__ == "__main__":
    main()
