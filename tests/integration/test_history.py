#!/usr/bin/env python3
"""Each loss, voided vote and escalation is one event with its time, node, V and reason, in `history` and in `watch`.

The TTL and the longest one of the fleet are 3 s, so that a quarantine takes 4.06 s.
"""
import collections
import contextlib
import datetime
import os
import pathlib
import random
import re
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from events import await_event, faults, history, parse, those, unended, words_of  # noqa: E402
from jobs import Job, kill_both, needs_groups, remove_group, without_groups  # noqa: E402
from rig import BUILD, OTHER_UID, SLOW, main, scenario, wait_until  # noqa: E402
from views import counters, wait_node  # noqa: E402

TTL_S = 3
PERIOD_S = TTL_S / 3 * 1.1
QUARANTINE_S = 1.02 * TTL_S + 1
LOST = 4  # HF_STATE_*


def start(run, label="a", nodes=None, options_more=(), **options):
    return run.agent(label, nodes=nodes, ttl=f"{TTL_S}s", options=("--ttl-max", f"{TTL_S}s", *options_more), **options)


@contextlib.contextmanager
def watched(run, *names):
    """Whatever happens inside is seen by `watch` as `history` tells it afterwards, each thing once."""
    watch = run.start_holdfast("watch", "--json")
    wait_until(lambda: '"watching"' in watch.out, what="watch begins")
    last = max((event["number"] for event in history(run)), default=0)
    yield watch
    told = since(history(run), last)
    wait_until(lambda: len(since(parse_whole(watch.out)[1:], last)) >= len(told), what="watch tells it all")
    watch.signal(signal.SIGINT)
    assert watch.wait() == 0, watch.err
    seen = since(parse(watch.out)[1:], last)
    assert seen == since(history(run), last)[:len(seen)], (watch.out, told)  # it may have seen more by now
    assert not faults(told), faults(told)
    for name in names:
        of_it = those(told, *words_of(told), name=name)
        assert history(run, name)[-len(of_it):] == of_it


def since(events, last):
    """What came after the event of that number, in order."""
    return sorted((event for event in events if event["number"] > last), key=lambda event: event["number"])


def parse_whole(text):
    return parse(text[:text.rfind("\n") + 1])


def children(pid):
    return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def foreign(node, key="job"):
    node.cmd("SET", key, "another's", "PX", 60000)


def near(event, instant_ns, within_s=1):
    """It is never early; how late it comes is the machine's."""
    off_s = (int(event["at_ns"]) - instant_ns) / 1e9
    assert -0.01 <= off_s <= within_s * SLOW, f"{event['event']} came {off_s:.3f} s off"


# --- the common case -----------------------------------------------------------------------------------


@scenario("a quiet life: granted and released, and no event for any renewal")
def quiet(run):
    run.redis(3)
    start(run)
    with watched(run, "job"):
        holder = run.holder()
        lease = holder.acquire("job", TTL_S * 1000)  # a vote has a fifteenth of that, or is healed later
        time.sleep(TTL_S * 0.8)
        holder.release()
    granted, released = history(run, "job")
    assert words_of([granted, released]) == ["granted", "released"]
    assert granted["fence"] == str(lease["fence"]) == released["fence"]
    assert granted["pid"] == holder.pid and released["reason"] is None and released["held_ms"] >= 1000


# --- losses --------------------------------------------------------------------------------------------


@scenario("two of three nodes are stopped: late, losing and lost, each once and at its time, for want of a quorum",
          sanitizers=False)
def quorum(run):
    run.redis(3)
    start(run)
    holder = run.holder()
    holder.acquire("job", TTL_S * 1000)
    with watched(run, "job"):
        for node in run.nodes[:2]:
            node.sigstop()
        holder.cmd("wait", "0", LOST, "9000")
        until_ns = int(await_event(run, "lost")["valid_ns"])
    ttl_ns = TTL_S * 10**9
    events = those(history(run, "job"), "late", "losing", "lost")
    assert words_of(events) == ["late", "losing", "lost"], events
    for event, part in zip(events, (0.5, 0.3, 0)):
        assert (event["reason"], event["node"], event["voting"]) == ("quorum", None, ["n3"]), event
        assert abs(int(event["valid_ns"]) - until_ns) < ttl_ns / 64, event  # a third vote adds what it adds when it is worth storing
        near(event, int(event["valid_ns"]) - int(part * ttl_ns))
    for node in run.nodes[:2]:
        node.sigcont()


@scenario("a job that does not stop: every step of the escalation once, at its time and in order",
          sanitizers=False)
def escalation(run):
    run.redis(3)
    start(run)
    job = run.start_holdfast("run", "-t", f"{TTL_S}s", "job", "sh", "-c", "trap '' TERM; while :; do sleep 1; done")
    wait_until(lambda: run.show("job"), what="the job runs")
    with watched(run):
        for node in run.nodes[:2]:
            node.sigstop()
        assert job.wait() == 124, job.err
        await_event(run, "released")
        for node in run.nodes[:2]:
            node.sigcont()
        wait_node(run, "n1", state="up")
    events = history(run, "job")
    assert words_of(events) == ["granted", "late", "losing", "job_stopped", "job_killed", "released"], events
    until_ns = int(events[2]["valid_ns"])
    for event, part in zip(events[1:5], (0.5, 0.3, 0.3, 0.1)):
        near(event, int(event["valid_ns"] or until_ns) - int(part * TTL_S * 10**9))  # a third vote may count between two of them
    assert events[-1]["reason"] == "quorum" and int(events[-1]["at_ns"]) < until_ns, events[-1]


@scenario("another's key on a node, and on a second one: a voided vote each, once, and the second is the loss")
def foreign_keys(run):
    run.redis(3)
    start(run)
    holder = run.holder()
    holder.acquire("job", TTL_S * 1000)
    wait_until(lambda: run.holders_of("job") == 3, what="the key is everywhere")
    with watched(run, "job"):
        foreign(run.nodes[0])
        void = await_event(run, "vote_void", node="n1")
        assert void["reason"] == "foreign" and void["voting"] == ["n2", "n3"], void
        time.sleep(2 * PERIOD_S)  # it is found again and again
        assert holder.held()
        foreign(run.nodes[1])
        lost = await_event(run, "lost")
    void = those(history(run, "job"), "vote_void", node="n2")
    assert len(void) == 1 and void[0]["reason"] == "foreign", void
    assert (lost["reason"], lost["node"], lost["voting"]) == ("foreign", "n2", ["n3"]), lost
    assert int(lost["valid_before_ns"]) > int(lost["at_ns"]), "V was ahead when it was lost"
    assert (lost["valid_ns"], lost["left_ms"]) == (None, None), "and is none from there on"


@scenario("a key that is deleted on one node: one voided vote, one heal; deleted where no other vote is left: the loss")
def missing_keys(run):
    run.redis(3)
    start(run)
    holder = run.holder()
    holder.acquire("job", TTL_S * 1000)
    wait_until(lambda: run.holders_of("job") == 3, what="the key is everywhere")
    with watched(run, "job"):
        run.nodes[2].cmd("DEL", "job")
        healed = await_event(run, "healed", node="n3")
        assert healed["votes"] == 3, healed
        foreign(run.nodes[0])
        await_event(run, "vote_void", node="n1")
        run.nodes[1].cmd("DEL", "job")
        lost = await_event(run, "lost")
    voids = those(history(run, "job"), "vote_void")
    assert [(e["node"], e["reason"]) for e in voids] == [("n3", "missing"), ("n1", "foreign"), ("n2", "missing")]
    assert (lost["reason"], lost["node"]) == ("missing", "n2"), lost


@scenario("a node's clock steps: told once, its vote is void at most once; where no other vote is left, the loss",
          sanitizers=False)
def clocks(run):
    run.redis(2)
    run.redis(1, clock=True)
    # Probes come three times as often as renewals, so that mostly one of them shows the step.
    run.agent(ttl="1s", options=("--ttl-max", f"{TTL_S}s"))
    holder = run.holder()
    holder.acquire("job", TTL_S * 1000)
    wait_until(lambda: run.show("job")["votes"] == 3, what="all votes count")
    with watched(run, "job"):
        run.nodes[2].shift_clock(-20)  # back: no key expires by it
        await_event(run, "node_stepped", node="n3")
        quarantine = await_event(run, "quarantine", node="n3")
        assert quarantine["quarantine_reasons"] == ["clock"], quarantine
        wait_node(run, "n3", state="up", timeout_s=3 * QUARANTINE_S)
        await_event(run, "quarantine_over", node="n3")
        await_event(run, "node_stepped", node="n3")  # once, although both threads have seen it by now
        assert len(those(history(run, "job"), "vote_void")) <= 1
        foreign(run.nodes[0])
        await_event(run, "vote_void", node="n1")
        before, offset_s, steps = len(those(history(run), "node_stepped")), -20, 0
        for _ in range(3):
            offset_s -= 20
            steps += 1
            run.nodes[2].shift_clock(offset_s)
            time.sleep(1.5 * PERIOD_S)
            assert holder.held(), "a clock that goes back ends no key"
        for _ in range(40):  # ahead; the reply that shows a step may renew the key itself
            offset_s += TTL_S / 2
            steps += 1
            run.nodes[2].shift_clock(offset_s)
            with contextlib.suppress(AssertionError):
                wait_until(lambda: those(history(run, "job"), "lost"), 1.5 * PERIOD_S)
                break
        lost = await_event(run, "lost")
    assert (lost["reason"], lost["node"]) == ("clock", "n3"), lost
    assert len(those(history(run), "node_stepped")) == before + steps


@scenario("asked, max_hold, and the holder's own word: losing for that reason, once, and lost for it at V")
def asked(run):
    run.redis(3)
    start(run)
    with watched(run, "asked", "told"):
        holder = run.holder()
        for name in ("asked", "told"):
            holder.acquire(name, 1000)
        for _ in range(2):
            holder.cmd("ask", "asked")
            holder.cmd("losing", "1")
        for name, reason in (("asked", "asked"), ("told", "guardian")):
            losing = await_event(run, "losing", name=name)
            lost = await_event(run, "lost", name=name)
            assert losing["reason"] == lost["reason"] == reason, (losing, lost)
            assert losing["valid_ns"] == lost["valid_ns"], lost  # a vote may stand up to T/64 longer
            near(lost, int(lost["valid_ns"]))
        await_event(run, "job_stopped", name="told")
    with watched(run, "short"):
        job = run.start_holdfast("run", "--max-hold", "1s", "-t", "1s", "short", "sleep", "60")
        assert job.wait() == 124, job.err
        losing = await_event(run, "losing", name="short")
        assert losing["reason"] == "max_hold", losing
        near(losing, int(await_event(run, "granted", name="short")["at_ns"]) + 10**9)
        assert words_of(history(run, "short")) == ["granted", "losing", "job_stopped", "released"]
    with watched(run, "hung"):
        job = run.start_holdfast("run", "--heartbeat", "500ms", "-t", "1s", "hung", "sleep", "60")
        assert job.wait() == 124, job.err
        assert await_event(run, "losing", name="hung")["reason"] == "heartbeat"


@scenario("an agent with private nodes ends: its jobs lose their locks for that reason, as watch still sees")
def going(run):
    agent = run.dev_agent()
    watch = run.start_holdfast("watch", "--json")
    wait_until(lambda: '"watching"' in watch.out, what="watch begins")
    job = run.start_holdfast("run", "job", "sh", "-c", "echo up; exec sleep 60")
    job.wait_out("up")
    agent.stop()
    assert job.wait() == 124, job.err
    wait_until(lambda: '"released"' in watch.out, what="it sees the end")
    told = parse(watch.out)
    assert words_of(told[1:]) == ["granted", "agent_ending", "losing", "job_stopped", "released"], told
    assert those(told, "losing")[0]["reason"] == "going" and not faults(told), told


@scenario("a holder is killed: released, for that reason; both guardians of a job: abandoned, then lost, or released by its group")
def holders(run):
    run.redis(3)
    start(run)
    with watched(run, "plain", "job"):
        holder = run.holder()
        holder.acquire("plain", TTL_S * 1000)
        holder.kill()
        assert await_event(run, "released", name="plain")["reason"] == "holder"
        kill_both(Job(run, "-t", "1s", "job", "sh", "-c", "echo up; exec sleep 60", within=without_groups()).up())
        lost = await_event(run, "lost", name="job")
        assert lost["reason"] == "holder" and lost["run"], lost
        assert words_of(history(run, "job")) == ["granted", "abandoned", "late", "losing", "lost"]
        needs_groups()
        grouped = Job(run, "-t", f"{TTL_S}s", "grouped", "sh", "-c", "echo up; exec sleep 60").up()
        kill_both(grouped)
        assert await_event(run, "released", name="grouped")["reason"] == "holder"
        assert words_of(history(run, "grouped")) == ["granted", "abandoned", "released"]
        remove_group(grouped)


# --- nodes ---------------------------------------------------------------------------------------------


@scenario("a node is flushed: forgot, quarantined, healed, each once; no vote is void, and its quarantine ends",
          sanitizers=False)
def flushed(run):
    run.redis(3)
    start(run)
    holder = run.holder()
    holder.acquire("job", TTL_S * 1000)
    wait_until(lambda: run.holders_of("job") == 3, what="the key is everywhere")
    with watched(run, "job"):
        run.nodes[1].cmd("FLUSHALL")
        await_event(run, "healed", node="n2")
        over = await_event(run, "quarantine_over", node="n2", timeout_s=3 * QUARANTINE_S)
        assert holder.held()
    events = those(history(run), "node_forgot", "quarantine", "vote_void", "node_down", "node_restarted")
    # Whichever thread saw it first; the broker then quarantines, and sees for itself.
    assert sorted(words_of(events)) == ["node_forgot", "quarantine"], events
    quarantine = those(events, "quarantine")[0]
    assert {e["node"] for e in events} == {"n2"} and quarantine["quarantine_reasons"] == ["sentinel"]
    took_s = (int(over["at_ns"]) - int(quarantine["at_ns"])) / 1e9
    assert QUARANTINE_S - 0.2 < took_s < QUARANTINE_S + 3 * SLOW, took_s


@scenario("a node is restarted empty: down, up, restarted, forgot, quarantined, each once; --node shows it alone",
          sanitizers=False)
def restarted(run):
    run.redis(3)
    start(run)
    holder = run.holder()
    holder.acquire("job", TTL_S * 1000)
    with watched(run):
        run.nodes[0].kill()
        down = await_event(run, "node_down", node="n1")
        assert down["reason"] in ("broken", "connect"), down
        time.sleep(1)  # it fails again and again
        run.nodes[0].restart()
        await_event(run, "quarantine_over", node="n1", timeout_s=4 * QUARANTINE_S)
        assert holder.held()
    alone = history(run, "--node", "n1")
    assert all(e["node"] == "n1" for e in alone)
    told = words_of(those(alone[1:], "node_down", "node_up", "node_restarted", "node_forgot", "quarantine"))
    assert sorted(set(told)) == sorted(told[:5]) and told[0] == "node_down", told


@scenario("who waits for nodes is told for which, why and for how long, and again when that changes", sanitizers=False)
def waiter(run):
    run.redis(3)
    start(run)
    for node in run.nodes[:2]:
        node.cmd("FLUSHALL")
    for node in ("n1", "n2"):
        row = wait_node(run, node, state="quarantined")
        assert row["quarantine_reasons"] == ["sentinel"] and 0 < row["quarantine_left_ms"] < QUARANTINE_S * 1000, row
    shown = run.holdfast("nodes").out
    assert shown.count("its sentinel was absent or changed, votes again in ") == 2, shown
    job = run.start_holdfast("run", "-w", "30", "job", "true")
    job.wait_err(r"waiting: 1 of 3 nodes may vote, 2 are needed; 2 in quarantine \(n1, n2\): "
                 r"its sentinel was absent or changed; enough of them vote in [345] s")
    tried = run.holdfast("run", "-n", "job", "true")
    assert tried.rc == 69 and re.search(r"2 in quarantine \(n1, n2\).*vote in \d s", tried.err), tried
    run.nodes[0].sigstop()
    job.wait_err(r"waiting: 1 of 3 nodes may vote, 2 are needed; 1 down \(n1\); 1 in quarantine \(n2\): ")
    assert job.wait() == 0, job.err
    assert job.err.count("waiting") == 2, job.err
    run.nodes[0].sigcont()


@scenario("how the nodes answered the recent renewals: answered, stopped, healed; the newest first")
def renewals(run):
    run.redis(3)
    start(run)
    run.holder().acquire("job", TTL_S * 1000)
    run.nodes[1].cmd("DEL", "job")
    wait_until(lambda: run.holders_of("job") == 3, what="its key is back")
    run.nodes[0].sigstop()
    wait_node(run, "n1", state="down")
    result = run.holdfast("nodes", "--history", "--json")
    told = {node["id"]: node["renewals"] for node in result.json["nodes"]}
    away = [r for r in told["n1"] if r["outcome"] == "timeout"]
    assert away and all(r["latency_us"] >= 150_000 and r["hit"] == 0 and not r["late"] for r in away), told["n1"]
    healed = [(r["outcome"], r["heal"], r["hit"], r["missing"]) for r in reversed(told["n2"])]
    assert healed[:2] == [("answered", False, 0, 1), ("answered", True, 1, 0)], told["n2"]
    assert all((r["outcome"], r["keys"], r["hit"]) == ("answered", 1, 1) for r in told["n3"]), told["n3"]
    for node in told.values():
        times = [int(r["at_ns"]) for r in node]
        assert times == sorted(times, reverse=True) and 0 < len(times) < 15, times
    shown = run.holdfast("nodes", "--history", "-n", "1").out
    assert len(shown.splitlines()) == 6 and "answered  1 of 1 keys" in shown, shown
    run.nodes[0].sigcont()


# --- the agent -----------------------------------------------------------------------------------------


@scenario("an agent that is killed: what it told stays, a lease that is taken over goes on, another is lost once")
def agent_killed(run):
    def again(**options):
        return run.agent(ttl=f"{TTL_S}s", options=("--ttl-max", "20s"), **options)

    run.redis(3)
    agent = again()
    holder = run.holder()
    holder.acquire("kept", 20_000)
    agent.kill()
    agent = again()
    await_event(run, "readopted", name="kept")
    holder.acquire("late", 1000)
    before = history(run)
    agent.kill()
    for node in run.nodes[:2]:
        node.sigstop()  # so that what is over cannot be released everywhere yet
    time.sleep(1.2)
    for starts in (3, 4):
        agent = again(wait=False)
        wait_until(lambda: run.holdfast("history", "--json").out.count('"agent_started"') == starts,
                   what="the next agent")
        lost = await_event(run, "lost", name="late")
        assert lost["reason"] == "restart" and int(lost["valid_ns"]) < int(lost["at_ns"]), lost
        agent.kill()
    for node in run.nodes[:2]:
        node.sigcont()
    again()
    events = history(run)
    assert events[:len(before)] == before, "what an earlier agent told has changed"
    assert not faults(events), faults(events)
    assert len(those(events, "agent_started")) == 5 and not those(events, "agent_ending")
    assert words_of(history(run, "kept")).count("readopted") == 4
    assert holder.held("0")


@scenario("agents that are killed at any moment, nodes that forget, stop, lose keys: every lease begins and ends once",
          sanitizers=False)
def churn(run):
    run.redis(3)
    start(run)
    watch = run.start_holdfast("watch", "--json")
    wait_until(lambda: '"watching"' in watch.out, what="watch begins")
    holders = [run.holder() for _ in range(3)]
    for i, holder in enumerate(holders):
        holder.send("cycle", 60, f"lock{i % 2}", 1000, 4000, 20000)
    chance = random.Random(1)
    for turn in range(8):
        time.sleep(chance.uniform(0.2, 0.7))
        node = run.nodes[turn % 3]
        if turn % 4 == 1:
            node.cmd("FLUSHALL")
        elif turn % 4 == 2:
            node.cmd("DEL", "lock0", "lock1")
        elif turn % 4 == 3:
            node.sigstop()
        run.agents[-1].kill()
        time.sleep(chance.choice((0, 0.3, 1.2)))
        start(run)
        node.sigcont()
    for holder in holders:
        holder.popen.stdin.close()
    wait_until(lambda: not unended(history(run)), 60, "all leases end")
    told = history(run)
    assert not faults(told), faults(told)
    seen = wait_until(lambda: {e["number"]: e for e in parse_whole(watch.out)[1:] if e["number"] <= told[-1]["number"]}
                      if f'"number":{told[-1]["number"]},' in watch.out else None, what="watch tells it all")
    missed = [e for e in told if e["number"] >= min(seen) and seen.get(e["number"]) != e]
    assert not missed, missed
    count = collections.Counter(words_of(told))
    assert count["agent_started"] == 9 and count["granted"] > 20 and count["readopted"], count
    print(f"# {dict(count)}")


@scenario("an agent hangs beyond V: it was away, which is the reason, and the nodes are not blamed", sanitizers=False)
def agent_away(run):
    run.redis(3)
    agent = run.agent(ttl=f"{TTL_S}s")
    holder = run.holder()
    holder.acquire("job", TTL_S * 1000)
    run.holder(label="late").acquire("late", 12000)
    time.sleep(0.5)
    agent.sigstop()
    time.sleep(6.5)  # of its 12 s "late" has 5 left
    agent.sigcont()
    lost = await_event(run, "lost", name="job")
    assert (lost["reason"], lost["node"]) == ("away", None), lost
    assert lost["left_ms"] == 0 and int(lost["valid_ns"]) < int(lost["at_ns"]), lost
    late = await_event(run, "late", name="late")
    assert late["reason"] == "away" and late["voting"] == ["n1", "n2", "n3"], late
    await_event(run, "on_time", name="late")
    away = await_event(run, "agent_away")
    assert 6000 < away["away_ms"] < 8000 * SLOW, away
    assert those(history(run, "job"), "late", "losing") == []
    text = run.holdfast("history").out
    assert " -" not in text.replace("  -", ""), text
    assert "its validity was over" in text and "the agent was stopped, suspended or without CPU" in text, text
    assert re.search("lost: job: the agent was stopped", agent.err) and re.search("without CPU for [67]", agent.err), agent.err
    assert losses(run) == {"away": 1}


@scenario("an agent and two of three nodes hang, the nodes first: the nodes are blamed", sanitizers=False)
def nodes_then_agent(run):
    run.redis(3)
    agent = start(run)
    run.holder().acquire("job", TTL_S * 1000)
    for node in run.nodes[:2]:
        node.sigstop()
    await_event(run, "late", name="job")
    agent.sigstop()
    time.sleep(TTL_S * 0.6)
    agent.sigcont()
    for node in run.nodes[:2]:
        node.sigcont()
    assert await_event(run, "lost", name="job")["reason"] == "quorum"


def losses(run):
    """The metrics of losses that are not 0: {reason: count}."""
    text = run.holdfast("metrics").out
    assert "# TYPE holdfast_losses_total counter" in text, text
    found = re.findall(r'(?m)^holdfast_losses_total\{agent="[^"]+",reason="(\w+)"\} (\d+)$', text)
    assert len(found) >= 14, text
    return {reason: int(count) for reason, count in found if count != "0"}


@scenario("a job that is stopped before V: one line in the log, and one loss counted, for its reason", sanitizers=False)
def losses_are_told(run):
    run.redis(3)
    agent = start(run)
    job = run.start_holdfast("run", "-t", f"{TTL_S}s", "job", "sleep", "60")
    wait_until(lambda: run.show("job"), what="the job runs")
    for node in run.nodes[:2]:
        node.sigstop()
    assert job.wait() == 124, job.err
    await_event(run, "released", name="job")
    for node in run.nodes[:2]:
        node.sigcont()
    lines = re.findall(r"(?m)^.*\b(?:losing|lost): job:.*$", agent.err)
    # The guardian goes by the V that is stored, and the agent by one that may be later by some milliseconds: either is first.
    words, reason = (("the holder began to stop its job", "guardian") if "began to stop" in "".join(lines) else
                     ("fewer than a majority", "quorum"))
    assert len(lines) == 1 and words in lines[0], agent.err
    assert losses(run) == {reason: 1} and counters(run)["losses"] == 1
    wait_node(run, "n1", state="up")
    job = run.start_holdfast("run", "-t", f"{TTL_S}s", "job", "sleep", "60")
    wait_until(lambda: run.show("job"), what="the job runs")
    assert run.holdfast("release", "job").rc == 0
    assert job.wait() == 124, job.err
    assert losses(run) == {reason: 1, "asked": 1} and counters(run)["losses"] == 1


@scenario("a release tells who asked for it, that its holder died, or that its holder gave it up")
def who_asked(run):
    run.redis(3)
    start(run)
    job = run.start_holdfast("run", "-t", f"{TTL_S}s", "job", "sleep", "60")
    wait_until(lambda: run.show("job"), what="the job runs")
    release = run.start_holdfast("release", "job")
    assert release.wait() == 0 and job.wait() == 124, (release.err, job.err)
    await_event(run, "released", name="job")
    losing, released = those(history(run, "job"), "losing", "released")
    for event in (losing, released):
        assert (event["reason"], event["by_pid"], event["by_uid"]) == ("asked", release.pid, os.geteuid()), event
    assert f"somebody asked the holder to stop (user {os.geteuid()}, pid {release.pid})" in run.holdfast("history").out
    holder = run.holder()
    holder.acquire("given-up")
    holder.release()
    holder.acquire("died")
    holder.kill()
    died = await_event(run, "released", name="died")
    given_up = await_event(run, "released", name="given-up")
    assert (died["reason"], given_up["reason"]) == ("holder", None), (died, given_up)
    text = run.holdfast("history").out
    assert re.search("given-up .*; its holder released it", text) and re.search("died .*; the holder died", text), text


@scenario("history outlives a clean end with nothing held, and watch does not tell it twice")
def history_survives(run):
    run.redis(3)
    agent = start(run)
    holder = run.holder()
    holder.acquire("job")
    holder.release()
    holder.close()
    watch = run.start_holdfast("watch", "--json")
    wait_until(lambda: '"watching"' in watch.out, what="watch begins")
    before = history(run)
    agent.stop()
    agent = start(run, options_more=("--capacity", "20"))
    events = history(run)
    assert events[:len(before)] == before, (before, events)
    assert words_of(events[len(before):])[:2] == ["agent_ending", "agent_started"], events
    assert not faults(events), faults(events)
    wait_until(lambda: watch.out.count('"agent_started"') == 1, what="watch tells of the next agent")
    run.holder().acquire("job")
    wait_until(lambda: watch.out.count('"granted"') == 1, what="watch tells of the next grant")
    told = [e["number"] for e in parse_whole(watch.out) if "number" in e]
    assert told == sorted(set(told)) and min(told) > before[-1]["number"], told
    watch.signal(signal.SIGINT)
    assert watch.wait() == 0


@scenario("a history of other nodes is not taken up")
def history_of_others(run):
    run.redis(3)
    start(run).stop()
    run.agent(nodes=[f"other{i}={node.address}" for i, node in enumerate(run.nodes)], ttl=f"{TTL_S}s",
              options=("--ttl-max", f"{TTL_S}s", "--reset-fleet"), wait=False).wait_err("is up")
    assert not those(history(run), "agent_ending")


@scenario("watch goes on with the table of the next agent")
def watch_goes_on(run):
    run.redis(3)
    agent = start(run)
    watch = run.start_holdfast("watch", "--json")
    wait_until(lambda: '"watching"' in watch.out, what="watch begins")
    agent.stop()
    wait_until(lambda: '"agent_ending"' in watch.out, what="it sees the end")
    run.holdfast("doctor", "--clean")  # so that the next one makes a table
    start(run)
    wait_until(lambda: watch.out.count('"watching"') == 2, what="it reads the next table")
    run.holder().acquire("job")
    wait_until(lambda: '"granted"' in watch.out, what="it sees the grant")
    numbers = [e["number"] for e in history(run)]
    assert min(numbers) == 1 and numbers == sorted(set(numbers)), numbers
    watch.signal(signal.SIGTERM)
    assert watch.wait() == 0 and watch.err == "", watch.err


@scenario("watch ends when its reader does, shows one prefix only, and tells when it was too slow", sanitizers=False)
def watch_ends(run):
    run.redis(3)
    start(run)
    holder = run.holder()
    shown = run.spawn("sh", "-c", "exec \"$0\" watch app/ | head -n 1", BUILD / "bin" / "holdfast",
                      env={"HOLDFAST_AGENT": run.agents[0].name})
    slow = run.start_holdfast("watch", "--json", "app/x")
    wait_until(lambda: '"watching"' in slow.out, what="watch begins")
    time.sleep(0.3)
    holder.acquire("other")
    holder.acquire("app/x")
    assert shown.wait() == 0 and "granted" in shown.out and "app/x" in shown.out, (shown.out, shown.err)
    slow.sigstop()
    holder.cmd("cycle", "1500", "app/x2", "3000", "3000", "0")
    slow.sigcont()
    wait_until(lambda: '"overwritten"' in slow.out, what="it says that it missed some")
    lost = [e["count"] for e in parse_whole(slow.out) if e["event"] == "overwritten"]
    assert 0 < sum(lost) <= 2 * 1500, lost
    # People are told, too.
    result = run.holdfast("history", "-n", "3", "app/x2")
    assert len(result.out.splitlines()) == 3 and "overwritten" in result.err, result


@scenario("a user who loses leases on purpose keeps nobody's losses out of the history or the log", sanitizers=False, needs_root=True)
def on_purpose(run):
    run.redis(3)
    agent = start(run, system=True)
    job = run.start_holdfast("run", "--max-hold", "0.5s", "before", "sleep", "60")
    assert job.wait() == 124, job.err
    flood = run.holder(agent, "flood", uid=OTHER_UID)
    flood.send("cycle", "3000", "flood", "1000", "3000", "0", "losing")
    wait_until(lambda: len(those(history(run), "losing", "job_stopped", name="flood")) >= 100, what="it loses many")
    job = run.start_holdfast("run", "--max-hold", "1s", "during", "sleep", "60")
    assert job.wait() == 124, job.err
    assert flood.answer()["done"] == 3000
    for name in ("before", "during"):
        assert those(history(run), "losing", name=name), f"its loss is not in the history: {name}"
        assert f"losing: {name}: " in agent.err, agent.err
    assert len(those(history(run), "losing", "job_stopped", name="flood")) < 300


def instant(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


@scenario("--since: a span or a time, as printed; nonsense and the future are refused with the forms that are allowed")
def since_when(run):
    run.redis(3)
    start(run)
    holder = run.holder()
    holder.acquire("before")
    time.sleep(1.2 * SLOW)
    holder.acquire("after")
    granted = {event["name"]: event for event in those(history(run), "granted")}
    at = granted["after"]["at"]
    assert granted["before"]["at"] < at
    for value in (at, at.replace("T", " "), "1s"):
        told = history(run, "--since", value)
        assert [e["name"] for e in those(told, "granted")] in (["after"], [] if value == "1s" else None), (value, told)
    assert history(run, "--since", "1d") == history(run)
    assert len(history(run, "--since", "1d", "-n", "1")) == 1
    # Without a Z it is local time.
    local = run.holdfast("history", "--json", "--since", (instant(at) + datetime.timedelta(hours=2)).isoformat(" ")[:23],
                         env={"TZ": "HFT-2"})
    assert [e["name"] for e in those(parse(local.out), "granted")] == ["after"], local
    for command in ("history", "watch"):
        for value, words in (("yesterday", "none of these"), ("2026-02-30", "none of these"), ("", "none of these"),
                             ("9999-01-01", "in the future"), ("\x1b[2J", r"\x1b[2J")):
            result = run.holdfast(command, "--since", value)
            assert result.rc == 64 and result.out == "" and words in result.err and "10m" in result.err, result
            assert result.err[:-1].isprintable(), result


@scenario("watch -n and --since begin with what was, each thing once, and go on with what comes")
def watch_begins_earlier(run):
    run.redis(3)
    start(run)
    holder = run.holder()
    for name in ("app/1", "other", "app/2", "app/3"):
        holder.acquire(name)
    watch = run.start_holdfast("watch", "--json", "-n", "2", "app/")
    people = run.start_holdfast("watch", "--since", "1h")
    bare = run.start_holdfast("watch", "--json")
    wait_until(lambda: '"watching"' in watch.out and '"watching"' in bare.out and "app/3" in people.out, what="watch begins")
    holder.acquire("app/4")
    for each in (watch, people, bare):
        wait_until(lambda: "app/4" in each.out, what="it goes on")
        each.signal(signal.SIGINT)
        assert each.wait() == 0 and each.err == "", each.err
    told = [e.get("name", e["event"]) for e in parse(watch.out)]
    assert told == ["app/2", "app/3", "watching", "app/4"], told
    assert parse(watch.out)[:2] == [e for e in history(run) if e.get("name") in ("app/2", "app/3")]
    assert [e["event"] for e in parse(bare.out)] == ["watching", "granted"], bare.out
    assert all(people.out.count(name) == 1 for name in ("app/1", "other", "app/2", "app/3", "app/4")), people.out
    for bad in ("0", "2s", "-1", "x"):
        result = run.holdfast("watch", "-n", bad)
        assert result.rc == 64 and "give a number from 1 on as count" in result.err, result


@scenario("the history of a name without events, or since a time without any: said, and no failure")
def nothing_to_show(run):
    run.redis(3)
    start(run)
    holder = run.holder()
    holder.acquire("known")
    for words in (["history", "unknown"], ["history", "known", "--since", "0s"]):
        told = run.holdfast(*words)
        assert told.rc == 0 and told.out == "" and "no such event" in told.err, told
        told = run.holdfast(*words, "--json")
        assert told.rc == 0 and told.err == "", told
    told = run.holdfast("history", "known")
    assert told.rc == 0 and "known" in told.out and told.err == "", told


if __name__ == "__main__":
    main()
