#!/usr/bin/env python3
"""Clock steps that an agent did not see itself: another one's trace on the nodes, and what the agent before it knew."""
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from events import history, words_of  # noqa: E402
from rig import main, scenario, wait_until  # noqa: E402
from views import wait_node  # noqa: E402

TTL_S = 6
QUARANTINE_S = 1.02 * TTL_S + 1
CONSTANTS = ["--ttl-max", f"{TTL_S}s"]
STEP_S = 2 * TTL_S  # every key expires


def fleet(run):
    """Nodes that are old enough to be believed on first contact, and the agent of the holder's host."""
    run.redis(3, clock=True)
    agent = run.agent(ttl=f"{TTL_S}s", options=CONSTANTS)
    for node in run.nodes:
        wait_node(run, node.id, state="up")
    return agent


def another(run, label, **options):
    """An agent as it starts by itself, without anybody's word for the nodes."""
    return run.agent(label, ttl=f"{TTL_S}s", fresh=False, options=CONSTANTS, wait=False, **options)


def grow_old():
    time.sleep(QUARANTINE_S + 0.5)


def cut_off(run, agent):
    """A holder whose agent stands still: its lease is valid until V, by the clocks of the nodes as they were."""
    holder = run.holder(agent)
    holder.acquire("job", TTL_S * 1000, 5000)
    agent.sigstop()
    return holder


def step_all(run):
    for node in run.nodes:
        node.shift_clock(STEP_S)


def gives_nothing_while(run, holder, agents):
    """None of the agents gives the lock away before the holder has lost it, at its V."""
    refused = 0
    while holder.held():
        for agent in agents:
            result = run.holdfast("run", "-n", "job", "true", agent=agent)
            assert result.rc != 0 or not holder.held(), f"{agent.label} has a second holder"
            refused += result.rc in (69, 75)
    assert refused >= len(agents), "V passed before anybody had tried"


@scenario("clocks step, and who saw it leaves a trace on the nodes: neither that agent, started again, nor one of another "
          "host gives the holder's lock away", sanitizers=False)
def trace(run):
    host = fleet(run)
    watcher = another(run, "b")
    grow_old()
    watcher.wait_ready()
    nonces = [node.cmd("HGET", "holdfast:node", "nonce") for node in run.nodes]
    holder = cut_off(run, host)
    step_all(run)
    for node in run.nodes:
        wait_node(run, node.id, watcher, state="quarantined")
    watcher.stop()
    again, fresh = another(run, "b"), another(run, "c")
    gives_nothing_while(run, holder, [again, fresh])
    marked = [node.cmd("HGET", "holdfast:node", "nonce") for node in run.nodes]
    assert not set(nonces) & set(marked), "each node has another sentinel"
    for agent in (again, fresh):
        agent.wait_ready(QUARANTINE_S + 5)
        assert run.holdfast("run", "-n", "job", "true", agent=agent).rc == 0
    assert marked == [node.cmd("HGET", "holdfast:node", "nonce") for node in run.nodes], "once is enough"


@scenario("an agent that is new right after a step, before any watcher has looked, gives the holder's lock to nobody: the ages of "
          "the nodes' sentinels do not agree", sanitizers=False)
def newcomer(run):
    host = fleet(run)
    watcher = another(run, "b")
    grow_old()
    watcher.wait_ready()
    holder = cut_off(run, host)
    watcher.sigstop()  # its next look at the clocks is seconds away
    step_all(run)
    fresh = another(run, "c")
    gives_nothing_while(run, holder, [fresh])
    assert fresh.wait_err("gives no votes: first contact, and too young or at odds with its sentinel")
    fresh.wait_ready(QUARANTINE_S + 5)
    assert run.holdfast("run", "-n", "job", "true", agent=fresh).rc == 0


@scenario("clocks step while no agent runs that could see it: the next one of a host knows how the nodes' clocks stood",
          sanitizers=False)
def remembered(run):
    host = fleet(run)
    idle = another(run, "b")
    grow_old()
    idle.wait_ready()
    holder = cut_off(run, host)
    idle.stop()
    step_all(run)
    again = another(run, "b")
    again.wait_err("gives no votes: its clock stepped")
    gives_nothing_while(run, holder, [again])


@scenario("a node that refuses writes when its clock steps: the trace is left as soon as it takes them, by the next agent "
          "too", sanitizers=False)
def owed(run):
    fleet(run)
    watcher = another(run, "b")
    grow_old()
    watcher.wait_ready()
    node = run.nodes[2]
    before = node.cmd("HGET", "holdfast:node", "nonce")
    run.agents[0].stop()
    node.cmd("CONFIG", "SET", "min-replicas-to-write", "1")
    node.shift_clock(STEP_S)
    wait_node(run, node.id, watcher, state="quarantined")
    watcher.stop()
    another(run, "b").wait_ready()
    assert node.cmd("HGET", "holdfast:node", "nonce") == before
    node.cmd("CONFIG", "SET", "min-replicas-to-write", "0")
    wait_until(lambda: node.cmd("HGET", "holdfast:node", "nonce") != before, what="the trace")


@scenario("an agent's own trace is news to neither of its threads: the clock is all that it holds against the node",
          sanitizers=False)
def own(run):
    agent = fleet(run)
    holder = run.holder(agent)
    holder.acquire("job", TTL_S * 1000, 5000)
    node = run.nodes[2]
    before = node.cmd("HGET", "holdfast:node", "nonce")
    node.shift_clock(-STEP_S)  # back: the key stays
    wait_until(lambda: node.cmd("HGET", "holdfast:node", "nonce") != before, what="the trace")
    time.sleep(TTL_S / 2)  # both have asked the node again
    row = wait_node(run, "n3", state="quarantined")
    assert row["quarantine_reasons"] == ["clock"], row
    told = words_of(event for event in history(run) if event.get("node") == "n3")
    assert "node_stepped" in told and "node_forgot" not in told, told
    assert holder.held() and run.holders_of("job") == 3


@scenario("a step that many agents see is marked once by each at most, and costs no lease on the other nodes",
          sanitizers=False)
def many_watch(run):
    host = fleet(run)
    agents = [host, *(another(run, label) for label in "bcd")]
    grow_old()
    for agent in agents:
        agent.wait_ready()
    holder = run.holder(host)
    holder.acquire("job", TTL_S * 1000, 5000)
    node, nonces = run.nodes[0], set()
    node.shift_clock(STEP_S)
    end = time.monotonic() + TTL_S
    while time.monotonic() < end:
        nonces.add(node.cmd("HGET", "holdfast:node", "nonce"))
        assert holder.held(), holder.cmd("reason")
        time.sleep(0.05)
    assert len(nonces) == 2, f"{len(nonces) - 1} traces of one step"


if __name__ == "__main__":
    main()
