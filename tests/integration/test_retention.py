#!/usr/bin/env python3
"""Fence records of locks that are held for long. Nodes drop a record seven days after it was written last; agents write those
of their leases again about daily. Here records are deleted by hand, and the agent comes by every lease after a second or two
(holdfastd_refresh)."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from rig import BUILD, main, scenario, wait_until  # noqa: E402
from views import counters  # noqa: E402

TTL = "3s"
SOON_S = 6  # a lap, and a renewal behind it
KEPT_MS = 8 * 24 * 3600 * 1000
RECORD = "holdfast:fence:job"


def refreshing(run, label="a", **options):
    return run.agent(label, ttl=TTL, program=BUILD / "tests" / "holdfastd_refresh", **options)


def anywhere(run, agent):
    result = run.holdfast("show", "--json", "job", agent=agent)
    assert result.rc in (0, 3), result
    return result.json["anywhere"]


def lapse(run):
    """Every node's retention is over."""
    for node in run.nodes:
        node.cmd("DEL", RECORD)


def grow_old(node):
    """Its record was last kept on another day, and has a minute left."""
    node.cmd("HINCRBY", RECORD, "day", -1)
    node.cmd("PEXPIRE", RECORD, 60000)


def recorded(run, fence):
    """On how many nodes the record says that fence."""
    return sum(int(node.cmd("HGET", RECORD, "fence") or 0) == fence >> 10 for node in run.nodes)


@scenario("a lock that is held for longer than the retention: other hosts know its holder again, and list and force it")
def known_again(run):
    run.redis(3)
    a, b = refreshing(run), run.agent("b", ttl=TTL)
    holder = run.holder(a)
    fence = holder.acquire("job")["fence"]
    wait_until(lambda: recorded(run, fence) == 3, what="all nodes have the record")
    for node in run.nodes:
        grow_old(node)
    wait_until(lambda: min(node.pttl(RECORD) for node in run.nodes) > KEPT_MS - 60000, SOON_S, "the retention begins anew")
    lapse(run)
    wait_until(lambda: recorded(run, fence) == 3, SOON_S, "the record is written again")
    facts = anywhere(run, b)
    assert facts["held"] and int(facts["fence"]) == fence and facts["pid"] == holder.pid, facts
    listed = run.holdfast("list", "--all-hosts", "--json", agent=b).json["leases"]
    assert [int(lease["fence"]) for lease in listed if lease["held"]] == [fence], listed
    assert holder.held() and counters(run, a)["losses"] == 0
    assert run.holdfast("release", "--force", "--fence", fence, "job", agent=b).rc == 0
    wait_until(lambda: not holder.held(), what="it is lost")
    assert "forced" in holder.cmd("reason")["text"]


@scenario("a restarted agent writes the records of the leases that it takes over")
def after_a_restart(run):
    run.redis(3)
    a = run.agent("a", ttl=TTL)
    holder = run.holder(a)
    fence = holder.acquire("job")["fence"]
    a.kill()
    lapse(run)
    refreshing(run, fresh=False)
    wait_until(lambda: recorded(run, fence) == 3, SOON_S, "the record is written again")
    assert holder.held()


@scenario("another's higher fence on a minority, as after a split, is no loss; nor is one token's on a majority, as after a try and a lie; on all three nodes it is one: reason fence")
def later_grant(run):
    run.redis(3)
    a = refreshing(run)
    job = run.start_holdfast("run", "job", "sleep", "60", agent=a)
    wait_until(lambda: run.holders_of("job") == 3, what="it is held")
    fence = int(run.show("job", agent=a)["fence"])

    def outbid(node, tag):
        node.cmd("HSET", RECORD, "fence", (fence >> 10) + 7, "tag", tag)

    outbid(run.nodes[0], "1" * 40)
    outbid(run.nodes[1], "2" * 40)
    grow_old(run.nodes[2])
    wait_until(lambda: run.nodes[2].pttl(RECORD) > KEPT_MS - 60000, SOON_S, "the records were looked at")
    assert job.running and run.show("job", agent=a)["votes"] == 3
    outbid(run.nodes[1], "1" * 40)
    grow_old(run.nodes[2])
    wait_until(lambda: run.nodes[2].pttl(RECORD) > KEPT_MS - 60000, SOON_S, "the records were looked at again")
    assert job.running and run.show("job", agent=a)["votes"] == 3
    outbid(run.nodes[2], "1" * 40)
    assert job.wait(2 * SOON_S) == 124, job.err
    assert "a higher fence" in job.err, job.err
    history = run.holdfast("history", "job", agent=a).out
    assert "lost" in history and "higher fence" in history, history
    assert counters(run, a)["losses"] == 1
    run.keys_gone("job")


@scenario("who is outbid does not heal over it: keys that go one after the other, with another's grant in between")
def not_healed_over(run):
    run.redis(3)
    a = run.agent("a", ttl=TTL)
    holder = run.holder(a)
    fence = holder.acquire("job")["fence"]
    wait_until(lambda: run.holders_of("job") == 3, what="it is held")
    for node in run.nodes:
        node.cmd("HSET", RECORD, "fence", (fence >> 10) + 7, "tag", "1" * 40)
    for node in run.nodes[:2]:
        node.cmd("DEL", "job")
        wait_until(lambda: run.holders_of("job") == 3, what="it is written again")
        assert holder.held()
    run.nodes[2].cmd("DEL", "job")
    wait_until(lambda: not holder.held(), what="it is lost")
    assert "higher" in holder.cmd("reason")["text"]
    run.keys_gone("job")


if __name__ == "__main__":
    main()
