#!/usr/bin/env python3
"""A lock with a min-hold: nobody gets it before its time, whatever becomes of the job, its guardians, the agent and a node."""
import os
import pathlib
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from rig import HolderError, boottime_ns, main, scenario, wait_until  # noqa: E402

NS = 1_000_000_000
BUSY, TIMED_OUT = -201, -202
MIN_S = 4
LONG_S = 20
SLACK_S = 0.05


def kept_on(run, name):
    """The nodes that keep it for nobody."""
    return [node.id for node in run.nodes if node.process.running and (node.get(name) or b"").startswith(b"holdfast:kept:")]


def refused(holder, name, wait_ms=0):
    try:
        holder.acquire(name, 0, wait_ms)
    except HolderError as error:
        return error.code in (BUSY, TIMED_OUT)
    return False


def early_s(began_ns, min_s):
    return min_s - (boottime_ns() - began_ns) / NS


@scenario("after a short job no host gets the lock before its time, then a waiter does")
def short_job(run):
    run.redis(3)
    agents = [run.agent(label) for label in "ab"]
    began = boottime_ns()
    assert run.holdfast("run", "--min-hold", f"{MIN_S}s", "job", "--", "true", agent=agents[0]).rc == 0
    assert early_s(began, MIN_S) > MIN_S / 2, "the command does not wait for the time"
    assert kept_on(run, "job") == ["n1", "n2", "n3"]
    for agent in agents:
        busy = run.holdfast("run", "-n", "job", "--", "true", agent=agent)
        assert busy.rc == 75 and "is held by" in busy.err, busy
    waited = [run.start_holdfast("run", "job", "--", "true", agent=agent) for agent in agents]
    for process in waited:
        assert process.wait() == 0
    assert -1.5 < early_s(began, MIN_S) <= SLACK_S, f"{early_s(began, MIN_S):.3f} s too early"
    run.keys_gone("job")


@scenario("a waiter of the same host is handed nothing before the time, and the lease after it at once")
def no_handoff(run):
    run.redis(3)
    agent = run.agent()
    holder, waiter = run.holder(agent), run.holder(agent, label="waiter")
    began = boottime_ns()
    holder.acquire("job", 0, -1, f"min={MIN_S * 1000}")
    waiter.send("acquire", "job", 0, -1)
    wait_until(lambda: run.holdfast("status", "--json", agent=agent).json["counters"]["waiters"] == 1, what="it waits")
    holder.release()
    waiter.answer()
    assert early_s(began, MIN_S) <= SLACK_S, f"{early_s(began, MIN_S):.3f} s too early"
    assert run.holdfast("status", "--json", agent=agent).json["counters"]["handoffs"] == 0


@scenario("a holder that is killed leaves the lock kept, and so does one that disconnects")
def dead_holders(run):
    run.redis(3)
    agent, other = run.agent("a"), run.agent("b")
    asks = run.holder(other, label="asks")
    for name in ("killed", "gone"):
        holder = run.holder(agent, label=name)
        holder.acquire(name, 0, -1, f"min={LONG_S * 1000}")
        if name == "killed":
            holder.kill()
        else:
            holder.close()
        wait_until(lambda: len(kept_on(run, name)) == 3, what="all nodes keep it")
        assert refused(asks, name)


@scenario("both guardians of a job killed: its keys do not lapse before the time")
def dead_guardians(run):
    run.redis(3)
    agent, other = run.agent("a", ttl="2s"), run.agent("b", ttl="2s")
    began = boottime_ns()
    job = run.start_holdfast("run", "--min-hold", "8s", "job", "--", "sleep", "60", agent=agent)
    wait_until(lambda: run.show("job", agent), what="the job runs")
    inner = [int(pid) for pid in pathlib.Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split()]
    for pid in [*inner, job.pid]:
        os.kill(pid, signal.SIGKILL)
    job.wait()
    asks = run.holder(other, label="asks")
    while early_s(began, 8) > 0.3:
        assert refused(asks, "job"), f"granted {early_s(began, 8):.3f} s too early"
        time.sleep(0.2)
    asks.acquire("job", 0, 10_000)


@scenario("a job's holder killed, and nobody sees whether the job lives: its keys do not lapse before the time")
def abandoned(run):
    run.redis(3)
    agent, other = run.agent("a"), run.agent("b")
    holder = run.holder(agent)
    began = boottime_ns()
    holder.acquire("job", 1500, -1, "run", "min=6000")
    holder.kill()
    asks = run.holder(other, label="asks")
    while early_s(began, 6) > 0.3:
        assert refused(asks, "job"), f"granted {early_s(began, 6):.3f} s too early"
        time.sleep(0.2)
    asks.acquire("job", 0, 10_000)


@scenario("an agent killed before the nodes knew of the end keeps the lock when it is back")
def killed_agent(run):
    run.redis(3)
    agent, other = run.agent("a"), run.agent("b")
    asks = run.holder(other, label="asks")
    holder = run.holder(agent)
    holder.acquire("job", 0, -1, f"min={LONG_S * 1000}")
    for node in run.nodes:
        node.cmd("CONFIG", "SET", "min-replicas-to-write", "1")  # it refuses every write
    holder.send("release")
    time.sleep(0.3)
    agent.kill()  # the journal says that the lease is ending, and no node knows
    assert not kept_on(run, "job")
    for node in run.nodes:
        node.cmd("CONFIG", "SET", "min-replicas-to-write", "0")
    for _ in range(2):  # and again, as soon as it has told one
        agent = run.agent("a", fresh=False)
        wait_until(lambda: kept_on(run, "job"), what="a node keeps it")
        agent.kill()
    agent = run.agent("a", fresh=False)
    wait_until(lambda: len(kept_on(run, "job")) == 3, what="all nodes keep it")
    assert refused(asks, "job")


@scenario("an agent that comes back when the holder has died keeps the lock, twice killed, too")
def killed_with_its_holder(run):
    run.redis(3)
    agent, other = run.agent("a"), run.agent("b")
    asks = run.holder(other, label="asks")
    holder = run.holder(agent)
    holder.acquire("job", 0, -1, f"min={LONG_S * 1000}")
    agent.kill()
    holder.kill()
    for node in run.nodes:
        node.sigstop()
    agent = run.agent("a", fresh=False, wait=False)
    time.sleep(0.5)
    agent.kill()
    for node in run.nodes:
        node.sigcont()
    run.agent("a", fresh=False)
    wait_until(lambda: len(kept_on(run, "job")) == 3, what="all nodes keep it")
    assert refused(asks, "job")


@scenario("an upgrade, a drain and the end of the agent do not free it")
def agent_ends(run):
    run.redis(3)
    agent, other = run.agent("a"), run.agent("b")
    assert run.holdfast("run", "--min-hold", f"{LONG_S}s", "job", "--", "true", agent=agent).rc == 0
    assert run.holdfast("drain", agent=agent).rc == 0
    agent.stop()
    asks = run.holder(other, label="asks")
    assert refused(asks, "job")
    run.agent("a", fresh=False)
    time.sleep(0.5)
    assert len(kept_on(run, "job")) == 3 and refused(asks, "job")


@scenario("a node that was away at the end keeps what is left when it is back; one that forgot gets no key, and gives no vote")
def nodes_away(run):
    run.redis(3)
    agent, other = run.agent("a"), run.agent("b")
    holder = run.holder(agent)
    holder.acquire("job", 0, -1, f"min={LONG_S * 1000}")
    run.nodes[2].sigstop()
    holder.release()
    run.nodes[2].sigcont()
    wait_until(lambda: len(kept_on(run, "job")) == 3, what="the node keeps it, too")
    for node in run.nodes[:2]:  # a majority forgets
        node.restart()
    asks = run.holder(other, label="asks")
    for _ in range(5):
        try:
            asks.acquire("job", 0, 0)
            raise AssertionError("granted though a majority had kept it")
        except HolderError as error:
            assert error.code != 0
        time.sleep(0.2)
    assert kept_on(run, "job") == ["n3"]


@scenario("an operator frees it before its time")
def forced(run):
    run.redis(3)
    agents = [run.agent(label) for label in "ab"]
    fence = run.holder(agents[0])
    fence.acquire("job", 0, -1, f"min={LONG_S * 1000}")
    fence.release()
    assert run.holdfast("release", "job", agent=agents[0]).rc == 3, "nobody holds it, so nobody can be asked"
    asked = run.holdfast("release", "--force", "job", agent=agents[1])
    command = next(line for line in asked.out.splitlines() if "holdfast release --force" in line)
    words = command.partition("holdfast ")[2].split()
    forced_out = run.holdfast(*words, agent=agents[1])
    assert forced_out.rc == 0 and "the lock is free" in forced_out.out, forced_out
    assert run.holdfast("run", "-n", "job", "--", "true", agent=agents[0]).rc == 0


@scenario("more than ttl_max is refused with the limit")
def too_long(run):
    run.redis(3)
    agent = run.agent()
    result = run.holdfast("run", "--min-hold", "61s", "job", "--", "true", agent=agent)
    assert result.rc == 64 and "at most 60000 ms" in result.err, result
    assert run.holdfast("run", "--min-hold", "0s", "job", "--", "true", agent=agent).rc == 64
    assert run.holders_of("job") == 0


@scenario("each lock of a set and the slot of a counted lock are kept")
def sets(run):
    run.redis(3)
    agent = run.agent()
    assert run.holdfast("run", "--min-hold", f"{LONG_S}s", "--also", "two", "one", "--", "true", agent=agent).rc == 0
    assert len(kept_on(run, "one")) == len(kept_on(run, "two")) == 3
    for _ in range(2):
        assert run.holdfast("run", "--min-hold", f"{LONG_S}s", "--slots", "2", "many", "--", "true", agent=agent).rc == 0
    assert run.holdfast("run", "-n", "--slots", "2", "many", "--", "true", agent=agent).rc == 75


@scenario("show and history tell that it is kept")
def told(run):
    run.redis(3)
    agent, other = run.agent("a"), run.agent("b")
    assert run.holdfast("run", "--min-hold", f"{LONG_S}s", "job", "--", "true", agent=agent).rc == 0
    for each in (agent, other):
        shown = run.holdfast("show", "job", agent=each)
        assert "kept: its hold is over" in shown.out, shown
        assert run.holdfast("show", "--json", "job", agent=each).json["anywhere"]["kept"] == 3
    assert "nobody gets it for 19" in run.holdfast("history", "job", agent=agent).out


if __name__ == "__main__":
    main()
