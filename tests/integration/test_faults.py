#!/usr/bin/env python3
"""What may happen to nodes and keys while a lock is held or wanted.

The TTL and the longest one of the fleet are 3 s, so that a quarantine takes 4.06 s.
"""
import contextlib
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from rig import SLOW, HolderError, main, scenario, wait_until  # noqa: E402
from views import counters, node_rows, wait_node  # noqa: E402

TTL_S = 3
PERIOD_S = TTL_S / 3 * 1.1   # of renewals, jitter included
QUARANTINE_S = 1.02 * TTL_S + 1
NOISE_S = 0.3 * SLOW
BUSY, NO_QUORUM = -201, -303  # HF_E*
LOST = 4                      # HF_STATE_*


def start(run, label="a", nodes=None, ttl_s=TTL_S, **options):
    return run.agent(label, nodes=nodes, ttl=f"{ttl_s}s", options=("--ttl-max", f"{ttl_s}s"), **options)


def refused(holder, name, agent_says=(BUSY,)):
    """A try that is not granted; its code."""
    try:
        lease = holder.cmd("try", name)
    except HolderError as error:
        assert error.code in agent_says, error
        return error.code
    raise AssertionError(f"{name} was granted: {lease}")


def stays_held(holder, seconds, *lease):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert holder.held(*lease), f"lost: {holder.cmd('reason', *lease)}"
        time.sleep(0.05)


# --- nodes that go and come ----------------------------------------------------------------------------


@scenario("one of three nodes is killed: nothing happens to the job, and `nodes` shows it")
def one_killed(run):
    run.redis(3)
    start(run)
    job = run.start_holdfast("run", "job", "sleep", str(2 * TTL_S + 1))
    wait_until(lambda: run.holders_of("job") == 3, what="the job's keys are everywhere")
    run.nodes[1].kill()
    row = wait_node(run, "n2", state="down")
    assert row["error_class"] and not row["votes"], row
    assert {row["state"] for row in node_rows(run).values()} == {"up", "down"}
    wait_until(lambda: run.show("job")["votes"] == 2, TTL_S + PERIOD_S, "two votes are left")
    assert job.wait() == 0, job.err
    assert job.err == "", job.err
    assert counters(run)["losses"] == 0
    run.keys_gone("job")


@scenario("a node is restarted empty: it is quarantined and healed, and the lease is kept")
def one_restarted(run):
    run.redis(3)
    start(run)
    holder, node = run.holder(), run.nodes[1]
    fence = holder.acquire("job")["fence"]
    node.restart()
    begin_s = time.monotonic()
    row = wait_node(run, "n2", state="quarantined")
    assert "run_id" in row["quarantine_reasons"] and not row["votes"], row
    assert 0 < row["quarantine_left_ms"] <= QUARANTINE_S * 1000, row
    wait_until(lambda: node.get("job"), 3 * PERIOD_S, "the key is written again")
    assert int(node.cmd("HGET", "holdfast:fence:job", "fence")) == fence >> 10
    wait_node(run, "n2", state="up", timeout_s=2 * QUARANTINE_S)
    assert time.monotonic() - begin_s > QUARANTINE_S - NOISE_S, "the quarantine was cut short"
    assert holder.held()
    assert counters(run)["losses"] == 0 and counters(run)["heals"] >= 1
    holder.release()
    run.keys_gone("job")


@scenario("a majority of nodes is restarted empty while the holder's agent hangs: no other agent gets the lock")
def majority_restarted(run):
    # What is healed counts once the nodes are of age, 1 s later here; 4 s after the renewals before it would be too late.
    ttl_s = 2 * TTL_S
    run.redis(3)
    agent, other = start(run, ttl_s=ttl_s), start(run, "b", ttl_s=ttl_s)
    holder, rival = run.holder(), run.holder(other, label="rival")
    holder.acquire("job")
    agent.sigstop()
    end = time.monotonic() + TTL_S / 3
    for node in run.nodes[:2]:
        node.restart()
    while time.monotonic() < end:
        refused(rival, "job", (BUSY, NO_QUORUM))
        assert holder.held(), "V stands, whatever the nodes forgot"
        time.sleep(0.05)
    agent.sigcont()
    wait_until(lambda: run.holders_of("job") == 3, 3 * PERIOD_S, "the key is written again everywhere")
    stays_held(holder, ttl_s)
    refused(rival, "job", (BUSY, NO_QUORUM))
    assert counters(run)["losses"] == 0


@scenario("fewer than a quorum of nodes at the start: the agent starts, says so, and heals")
def too_few_at_start(run):
    run.redis(3)
    run.found(options=("--ttl-max", f"{TTL_S}s"))
    for node in run.nodes[1:]:
        node.kill()
    agent = start(run, wait=False)
    said = agent.wait_err(r"waiting: [01] of 3 nodes may vote, 2 are needed; 2 down")
    assert said and "ready:" not in agent.err and agent.running
    holder = run.holder()
    refused(holder, "job", (NO_QUORUM,))
    result = run.holdfast("run", "-n", "job", "true")
    assert result.rc == 69 and "2 are needed" in result.err, result
    assert [row["state"] for row in node_rows(run).values()] == ["quarantined", "down", "down"]
    run.nodes[1].start()
    agent.wait_ready()
    holder.acquire("job", 0, 5000)
    wait_until(lambda: run.holders_of("job") == 2, what="the key is on both")
    run.nodes[2].start()
    wait_until(lambda: run.holders_of("job") == 3, what="the third is healed")


# --- what a node forgets -------------------------------------------------------------------------------


@scenario("SCRIPT FLUSH before an acquire and while a lock is held: scripts are loaded again")
def script_flush(run):
    def flush():
        for node in run.nodes:
            node.cmd("SCRIPT", "FLUSH")

    run.redis(3)
    start(run)
    holder = run.holder()
    flush()
    holder.acquire("job", 0, 5000)
    wait_until(lambda: run.holders_of("job") == 3, what="the key is everywhere")
    for _ in range(4):
        flush()
        stays_held(holder, TTL_S / 2)
    assert min(node.pttl("job") for node in run.nodes) > 0
    flush()
    holder.release()
    run.keys_gone("job")
    assert counters(run)["losses"] == 0


@scenario("FLUSHALL on every node: the lease is kept and healed, and no other agent gets it")
def flush_all(run):
    run.redis(3)
    start(run)
    other = start(run, "b")
    holder, rival = run.holder(), run.holder(other, label="rival")
    holder.acquire("job")
    for node in run.nodes:
        node.cmd("FLUSHALL")
    for _ in range(10):
        refused(rival, "job", (BUSY, NO_QUORUM))
    for node in run.nodes:
        for agent in (None, other):
            row = wait_node(run, node.id, agent, state="quarantined")
            assert "sentinel" in row["quarantine_reasons"], row
    wait_until(lambda: run.holders_of("job") == 3, 3 * PERIOD_S, "the key is written again everywhere")
    stays_held(holder, QUARANTINE_S)
    refused(rival, "job", (BUSY, NO_QUORUM))
    assert counters(run)["losses"] == 0
    for node in run.nodes:
        wait_node(run, node.id, other, timeout_s=2 * QUARANTINE_S, state="up")
    refused(rival, "job")
    holder.release()
    rival.acquire("job", 0, 5000)


@scenario("a key is deleted by hand on one node: it is written again")
def deleted_on_one(run):
    run.redis(3)
    start(run)
    holder = run.holder()
    holder.acquire("job")
    wait_until(lambda: run.holders_of("job") == 3, what="the key is everywhere")
    run.nodes[0].cmd("DEL", "job")
    wait_until(lambda: run.holders_of("job") == 3, 3 * PERIOD_S, "the key is written again")
    assert holder.held() and counters(run)["losses"] == 0


@scenario("keys are deleted by hand on a majority while a rival asks: it is granted nothing that the holder still has")
def deleted_on_majority(run):
    run.redis(3)
    start(run)
    other = start(run, "b")
    holder, rival = run.holder(), run.holder(other, label="rival")
    fence = holder.acquire("job")["fence"]
    wait_until(lambda: run.holders_of("job") == 3, what="the key is everywhere")
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(node.client()) for node in run.nodes[:2]]
        for client in clients:
            client.send("DEL", "job")
        for client in clients:
            client.read()
    end_s, granted = time.monotonic() + PERIOD_S + NOISE_S, None
    while not granted and time.monotonic() < end_s:
        with contextlib.suppress(HolderError):
            granted = rival.cmd("try", "job")
    if granted:
        assert not holder.held() and holder.cmd("state")["value"] == LOST and holder.cmd("reason")["text"]
    else:
        assert holder.held() and run.holders_of("job") == 3, "held, and not written again"
        holder.release()
        granted = rival.acquire("job", 0, 10_000)
    assert granted["fence"] > fence, "the resource can tell them apart"
    stays_held(rival, TTL_S)
    assert counters(run)["losses"] <= 1


@scenario("keys are deleted by hand on a majority, nobody takes them: lost or written again within a renewal period")
def deleted_unnoticed(run):
    run.redis(3)
    start(run)
    holder = run.holder()
    holder.acquire("job")
    wait_until(lambda: run.holders_of("job") == 3, what="the key is everywhere")
    for node in run.nodes[:2]:
        node.cmd("DEL", "job")
    time.sleep(PERIOD_S + NOISE_S)
    if holder.held():
        assert run.holders_of("job") == 3, "held, and not written again"
    else:
        run.keys_gone("job")


@scenario("a majority of keys is another's all at once: the loss is known within one renewal period")
def foreign_on_majority(run):
    run.redis(3)
    start(run)
    holder = run.holder()
    holder.acquire("job")
    wait_until(lambda: run.holders_of("job") == 3, what="the key is everywhere")
    for node in run.nodes[:2]:
        node.cmd("SET", "job", "not-ours", "PX", 60_000)
    begin_s = time.monotonic()
    wait_until(lambda: not holder.held(), TTL_S, "the holder knows", interval_s=0.005)
    assert time.monotonic() - begin_s < PERIOD_S + NOISE_S
    wait_until(lambda: run.nodes[2].get("job") is None, what="our key goes from the third")
    assert [node.get("job") for node in run.nodes[:2]] == [b"not-ours"] * 2, "what is not ours stays"


@scenario("a name is taken thousands of times a second: its fences stay behind the nodes' clocks, so that they rise when those forget")
def hot_name(run):
    run.redis(3)
    start(run)
    holder, begin_s = run.holder(), time.monotonic()
    holder.send("cycle", 6000, "hot", 0, 1000, 0)
    while not (line := holder.popen.stdout.readline()).startswith(b"ok cycle"):
        assert line.startswith(b"hold "), line
        last = int(line.split()[3])
    print("#", round(6000 / (time.monotonic() - begin_s)), "grants a second")
    seconds, micros = run.nodes[0].cmd("TIME")
    assert last >> 10 <= int(seconds) * 1000000 + int(micros), "the next that has the clock alone is lower"
    for node in run.nodes[:2]:
        node.cmd("FLUSHALL")
    again = run.holder(start(run, "b"), label="again").acquire("hot")
    assert again["fence"] > last, (again, last)


@scenario("nodes have records of the first form, milliseconds << 16: the next fence is higher, for its holder and on the nodes")
def first_form(run):
    run.redis(3)
    agent = start(run)
    old_ms = time.time_ns() // 1000000 + 30000  # of a clock that was ahead
    for node in run.nodes:
        node.cmd("HSET", "holdfast:fence:job", "fence", old_ms, "tag", "0" * 40, "host", "old")
    holder = run.holder(agent)
    lease = holder.acquire("job")
    assert lease["fence"] > (old_ms << 16) + 16, lease
    for node in run.nodes:
        assert int(node.cmd("HGET", "holdfast:fence:job", "fence")) == lease["fence"] >> 10, node.id
        assert node.cmd("HGET", "holdfast:fence:job", "host") is None, node.id
    holder.release()
    run.keys_gone("job")


# --- keys that are in the way --------------------------------------------------------------------------


def in_the_way(run, place):
    """A key that is no lock of ours on a majority: busy, and taken soon after it goes."""
    run.redis(3)
    start(run)
    holder = run.holder()
    for node in run.nodes[:2]:
        place(node)
    refused(holder, "job")
    wait_until(lambda: run.nodes[2].get("job") is None, 1, "what was half won is undone")
    result = run.holdfast("run", "-n", "job", "true")
    assert result.rc == 75, result
    holder.send("acquire", "job", 0, 20_000)
    time.sleep(0.5)
    assert [node.cmd("EXISTS", "job") for node in run.nodes[:2]] == [1, 1], "it stays"
    for node in run.nodes[:2]:
        node.cmd("DEL", "job")
    begin_s = time.monotonic()
    assert holder.answer()["fence"] > 0
    assert time.monotonic() - begin_s < 2 * SLOW, "the waiter slept on"


@scenario("a key of another type is in the way: busy, then taken when it goes")
def wrong_type(run):
    in_the_way(run, lambda node: node.cmd("LPUSH", "job", "x"))


@scenario("a key without expiry is in the way: busy, and never slept on")
def no_expiry(run):
    in_the_way(run, lambda node: node.cmd("SET", "job", "x"))


@scenario("another client's lock is in the way: busy, then taken when it is released early")
def other_client(run):
    in_the_way(run, lambda node: node.cmd("SET", "job", "x", "PX", 3_600_000))


# --- nodes that answer with an error -------------------------------------------------------------------


def with_one_bad_node(run, spoil, error_class):
    """One node answers writes with an error: the others carry the lock, and `nodes` tells the error."""
    run.redis(3)
    start(run)
    holder = run.holder()
    spoil(run.nodes[2])
    begin_s = time.monotonic()
    holder.acquire("job", 0, 5000)
    assert time.monotonic() - begin_s < 1 * SLOW, "the bad node delayed the others"
    stays_held(holder, TTL_S * 1.2)
    wait_node(run, "n3", error_class=error_class)
    holder.release()
    assert counters(run)["losses"] == 0


@scenario("a node without memory (OOM) is a no of that node and nothing else")
def node_oom(run):
    def spoil(node):
        node.cmd("CONFIG", "SET", "maxmemory-policy", "noeviction")
        node.cmd("CONFIG", "SET", "maxmemory", "1")

    with_one_bad_node(run, spoil, "oom")


@scenario("a node that wants replicas (NOREPLICAS) is a no of that node and nothing else")
def node_no_replicas(run):
    with_one_bad_node(run, lambda node: node.cmd("CONFIG", "SET", "min-replicas-to-write", "1"), "noreplicas")


@scenario("a node that runs a long script (BUSY) is a no of that node and nothing else")
def node_busy(run):
    def spoil(node):
        node.cmd("CONFIG", "SET", "busy-reply-threshold", "50")
        client = node.client()
        client.send("EVAL", "while true do end", 0)
        time.sleep(0.2)

    with_one_bad_node(run, spoil, "busy")


if __name__ == "__main__":
    main()
