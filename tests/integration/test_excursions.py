#!/usr/bin/env python3
"""Keys that end before their time: nodes whose clocks are ahead for a moment, unseen by any agent, and keys that are deleted."""
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from jobs import Job  # noqa: E402
from rig import SLOW, HolderError, main, scenario, wait_until  # noqa: E402
from views import wait_node  # noqa: E402

TTL_S = 6
AHEAD_S = 60


def start(run, label, *options):
    return run.agent(label, ttl=f"{TTL_S}s", options=["--ttl-max", f"{TTL_S}s", *options])


def fleet(run, *options):
    """Nodes that every agent takes for old, and the agents of two hosts."""
    run.redis(3, clock=True)
    agents = [start(run, label, *options) for label in "ab"]
    for agent in agents:
        for node in run.nodes:
            wait_node(run, node.id, agent, state="up")
    return agents


def excursion(nodes, key="job"):
    """Their clocks are ahead until the key is gone: somebody looks at it, so that it takes no longer than that."""
    for node in nodes:
        node.shift_clock(AHEAD_S)
        wait_until(lambda: node.get(key) is None, what="the key ends")  # noqa: B023
        node.shift_clock(0)


def renewed(run, holder, name="job"):
    holder.acquire(name, TTL_S * 1000, 5000)
    before = [node.cmd("HGET", f"holdfast:fence:{name}", "until") for node in run.nodes]
    wait_until(lambda: all(node.cmd("HGET", f"holdfast:fence:{name}", "until") != was for node, was in zip(run.nodes, before)),
               TTL_S, "all nodes have renewed it")


def alone_until_its_v(holder, rivals):
    """None of the others has the lock before the holder has lost it, and then each gets it."""
    tries = 0
    while holder.held():
        for rival in rivals:
            try:
                rival.cmd("try", "job")
            except HolderError:
                tries += 1
                continue
            assert not holder.held(), "two holders"
        time.sleep(0.05)
    assert tries > 3, "V passed before anybody had tried"
    for rival in rivals:
        rival.acquire("job", 0, 3 * TTL_S * 1000)
        rival.release()


@scenario("all clocks are ahead for a moment while the holder's agent stands still: nobody else is granted the lock before its V",
          sanitizers=False)
def unseen(run):
    a, b = fleet(run)
    holder, rival = run.holder(a), run.holder(b, label="rival")
    renewed(run, holder)
    a.sigstop()
    excursion(run.nodes)
    alone_until_its_v(holder, [rival])


@scenario("the same of a lease that was never renewed, on two of three nodes, by the nodes' own doing", sanitizers=False)
def active_expiry(run):
    a, b = fleet(run)
    holder, rival = run.holder(a), run.holder(b, label="rival")
    holder.acquire("job", TTL_S * 1000, 5000)
    a.sigstop()
    for node in run.nodes[:2]:
        node.shift_clock(AHEAD_S)
    time.sleep(0.3)
    for node in run.nodes[:2]:
        node.shift_clock(0)
    alone_until_its_v(holder, [rival])


@scenario("the holder's agent is killed, and an agent that never saw the nodes asks after the excursion, as does one that was "
          "started again", sanitizers=False)
def newcomers(run):
    a, b = fleet(run)
    holder = run.holder(a)
    renewed(run, holder)
    a.kill()
    excursion(run.nodes)
    b.stop()
    rivals = [run.holder(start(run, label), label=label) for label in "bc"]
    alone_until_its_v(holder, rivals)


@scenario("the holder's agent goes on after the excursion: it writes the keys again, and the lease lives on", sanitizers=False)
def healed(run):
    a, b = fleet(run)
    holder, rival = run.holder(a), run.holder(b, label="rival")
    holder.acquire("job", TTL_S * 1000, 5000)
    a.sigstop()
    excursion(run.nodes[:1])
    a.sigcont()
    wait_until(lambda: run.holders_of("job") == 3, 2 * TTL_S, "it is written again")
    assert holder.held()
    holder.release()
    rival.acquire("job", 0, 5000)


@scenario("a lease that was released after its keys had ended early: the lock is free at once", sanitizers=False)
def released(run):
    a, b = fleet(run, "--track-held", "0")
    holder, rival = run.holder(a), run.holder(b, label="rival")
    holder.acquire("job", TTL_S * 1000, 5000)
    excursion(run.nodes)
    rival.send("acquire", "job", 0, 30_000)
    time.sleep(0.3)
    began = time.monotonic()
    try:
        holder.release()
    except HolderError as error:
        assert "a majority of the nodes did not have its key" in error.text, error.text
    rival.answer()
    assert time.monotonic() - began < 1 * SLOW, "it waits for the keys' time"


@scenario("keys are deleted by hand everywhere: another host has the lock only once the job is dead")
def deleted(run):
    run.redis(3)
    _, b = (start(run, label) for label in "ab")
    job = Job(run, "job", "sh", "-c", "echo up; trap '' TERM; while :; do date +%s.%N > alive; done").up()
    rival = run.holder(b, label="rival")
    rival.send("acquire", "job", 0, 60_000)
    time.sleep(0.3)
    for node in run.nodes:
        node.cmd("DEL", "job")
    rival.answer()
    granted = time.time()
    job.wait()
    assert float((run.dir / "alive").read_text() or 0) < granted, "the job ran beside another holder"


if __name__ == "__main__":
    main()
