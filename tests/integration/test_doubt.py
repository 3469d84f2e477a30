#!/usr/bin/env python3
"""Commands whose answer never came: they may have run, or may run later. None of them leaves a key behind.

The TTL is so long that no key is gone because it lapsed; the deadline of an acquire is 2 s.
"""
import contextlib
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from proxy import Proxy  # noqa: E402
from rig import SLOW, HolderError, main, scenario, wait_until  # noqa: E402
from views import counters, wait_node  # noqa: E402

TTL_S = 30
DEADLINE_S = TTL_S / 15
HOLDER = b"holder"  # the command's name is in an acquire or heal, and in nothing else that an agent sends
NO_QUORUM = -303


@contextlib.contextmanager
def proxies(run):
    """Three nodes, each behind a proxy."""
    run.redis(3)
    made = [Proxy(node.address) for node in run.nodes]
    try:
        yield made
    finally:
        for proxy in made:
            proxy.close()


def start(run, made, ttl_s=TTL_S, **options):
    nodes = [proxy.spec(node) for node, proxy in zip(run.nodes, made)]
    return run.agent(nodes=nodes, ttl=f"{ttl_s}s", options=("--ttl-max", f"{TTL_S}s"), **options)


def refused(holder):
    try:
        holder.answer()
    except HolderError as error:
        assert error.code == NO_QUORUM, error
    else:
        raise AssertionError("granted without an answer")


def unanswered(run, made, holder):
    """An acquire that every node does, and whose answers are lost."""
    for proxy in made:
        proxy.lose_replies(HOLDER)
    holder.send("try", "job")
    wait_until(lambda: run.holders_of("job") == 3, what="all nodes have done it")


def lost_on_its_way(made, holder):
    """An acquire that is held back on its way to every node, and whose connections break. Returns when it began."""
    for proxy in made:
        proxy.hold_requests(HOLDER)
    began = time.monotonic()
    holder.send("try", "job")
    wait_until(lambda: all(proxy.held() for proxy in made), what="the acquire is on its way")
    for proxy in made:
        proxy.break_held()
    refused(holder)
    return began


def all_gone(run, name="job"):
    """Within two deadlines, and for good."""
    run.keys_gone(name, 2 * DEADLINE_S + 1)
    time.sleep(0.3)
    assert run.holders_of(name) == 0


def run_now(run, began, deadline_s=DEADLINE_S, nodes=None):
    """The nodes run what they were just given, or it was late: then the machine was too slow for the case. The fence
    record stays when the key is released again."""
    if time.monotonic() - began > deadline_s - 0.5:
        print("# delivered too late to be run")
        return
    wait_until(lambda: all(node.cmd("EXISTS", "holdfast:fence:job") for node in nodes or run.nodes),
               what="the nodes run it now")


def usable(run, holder, name="job"):
    lease = holder.acquire(name, 0, 10_000)
    holder.release()
    return lease


@scenario("the answers to an acquire are lost: it fails, every key goes soon, and the next acquire is granted",
          sanitizers=False)
def lost_answers(run):
    with proxies(run) as made:
        start(run, made)
        holder = run.holder()
        unanswered(run, made, holder)
        for proxy in made:
            proxy.break_held()
        refused(holder)
        all_gone(run)
        usable(run, holder)
        assert counters(run)["acquires_in_doubt"] == 3


@scenario("answers are lost without an end of the connection: the keys go as soon as the connection does",
          sanitizers=False)
def silent_answers(run):
    with proxies(run) as made:
        start(run, made)
        holder = run.holder()
        for proxy in made[:2]:
            proxy.lose_replies(HOLDER)
        holder.send("try", "job")
        refused(holder)
        for proxy in made:
            proxy.break_held()
        all_gone(run)
        usable(run, holder)


@scenario("DEL overtakes SET: the node runs an acquire after its release, before its deadline: the second release takes it",
          sanitizers=False)
def overtaken(run):
    with proxies(run) as made:
        start(run, made)
        holder = run.holder()
        began = lost_on_its_way(made, holder)
        wait_until(lambda: all(proxy.has_passed(b"job") for proxy in made), what="the first release is sent")
        time.sleep(0.1)
        for proxy in made:
            proxy.deliver()
        run_now(run, began)
        all_gone(run)
        usable(run, holder)


@scenario("SET runs late: the node gets an acquire after its deadline, and writes nothing", sanitizers=False)
def too_late(run):
    with proxies(run) as made:
        start(run, made)
        holder = run.holder()
        lost_on_its_way(made, holder)
        time.sleep(DEADLINE_S + 0.5)
        for proxy in made:
            proxy.deliver()
        end = time.monotonic() + 0.5
        while time.monotonic() < end:
            assert run.holders_of("job") == 0, "an acquire past its deadline was run"
        usable(run, holder)


@scenario("the agent is killed before it hears the answers: the next one releases what its journal says was under way",
          sanitizers=False)
def killed_before_answers(run):
    with proxies(run) as made:
        agent = start(run, made)
        holder = run.holder()
        unanswered(run, made, holder)
        token = run.nodes[0].get("job")
        agent.kill()
        for proxy in made:
            proxy.break_held()
        start(run, made, fresh=False)
        # Its holder asks again, and may have another by then.
        wait_until(lambda: token not in [node.get("job") for node in run.nodes], 2 * DEADLINE_S + 1, "the token goes from all nodes")
        time.sleep(0.3)
        assert token not in [node.get("job") for node in run.nodes]
        with contextlib.suppress(HolderError):  # given up, or granted by the next agent
            holder.answer()
            holder.release()
        usable(run, run.holder(label="next"))


def killed_then_delivered(run, ttl_s, ttl_ms):
    """An acquire reaches the nodes after its agent was killed, and after the next one's first release."""
    with proxies(run) as made:
        agent = start(run, made, ttl_s)
        holder = run.holder()
        for proxy in made:
            proxy.hold_requests(HOLDER)
        began = time.monotonic()
        holder.send("acquire", "job", ttl_ms, 0)
        wait_until(lambda: all(proxy.held() for proxy in made), what="the acquire is on its way")
        agent.kill()
        holder.kill()
        for proxy in made:
            proxy.break_held()
        start(run, made, ttl_s, fresh=False)
        wait_until(lambda: all(proxy.has_passed(b"job") for proxy in made), what="the first release is sent")
        time.sleep(max(0.6 - (time.monotonic() - began), 0.1))
        for proxy in made:
            proxy.deliver()
        run_now(run, began)
        all_gone(run)
        usable(run, run.holder(label="next"))


@scenario("the agent is killed, and the nodes run its acquire after the next one's release: the second release takes it",
          sanitizers=False)
def killed_and_overtaken(run):
    killed_then_delivered(run, TTL_S, 0)


@scenario("the same of a lease with a longer TTL than the agent's own: its deadline counts", sanitizers=False)
def killed_and_overtaken_long(run):
    killed_then_delivered(run, 3, TTL_S * 1000)


@scenario("a heal is under way as the agent is killed, and runs after the release by the next one: no key stays")
def killed_with_a_heal(run):
    ttl_s = 15  # healed after 5 s, within 1 s
    with proxies(run) as made:
        agent = start(run, made, ttl_s)
        holder = run.holder()
        holder.acquire("job")
        wait_until(lambda: run.holders_of("job") == 3, what="the key is everywhere")
        made[2].hold_requests(HOLDER)
        run.nodes[2].cmd("DEL", "job")
        wait_until(made[2].held, ttl_s, "the heal is on its way", interval_s=0.005)
        began = time.monotonic()
        agent.kill()
        made[2].break_held()
        agent = start(run, made, ttl_s, fresh=False)
        holder.release()
        time.sleep(0.05)
        made[2].deliver()
        late = time.monotonic() - began > ttl_s / 15 - 0.1
        if not late:
            wait_until(lambda: run.nodes[2].get("job"), 1, "the heal ran")
        print(f"# the heal ran {'too late' if late else 'in time'}")
        all_gone(run)


@scenario("a node forgets between its vote and the decision: its vote does not count, and too few others vote",
          sanitizers=False)
def forgets_after_its_vote(run):
    with proxies(run) as made:
        start(run, made)
        holder, other = run.holder(), run.holder(label="other")
        for proxy in made[1:]:
            proxy.hold_requests(HOLDER)
        holder.send("try", "job")
        wait_until(lambda: run.nodes[0].get("job"), what="the first node votes")
        run.nodes[0].cmd("FLUSHALL")
        other.send("try", "whatever")  # its answer shows that the sentinel is gone
        wait_node(run, "n1", state="quarantined")
        made[1].deliver()
        wait_until(lambda: run.nodes[1].get("job"), what="the second node votes")
        refused(holder)
        refused(other)


@scenario("a release overtakes an acquire that a grant did without: the next one follows it on its own connection",
          sanitizers=False)
def overtaken_after_a_grant(run):
    with proxies(run) as made:
        start(run, made)
        holder = run.holder()
        made[2].hold_requests(HOLDER)
        made[2].lose_replies(HOLDER)  # a late answer would have the key released, too
        began = time.monotonic()
        holder.acquire("job", 0, -1, "hold=20000")  # no plain one: the renewal thread has it at once
        wait_until(made[2].held, what="the acquire is on its way")
        holder.release()
        wait_until(lambda: made[2].has_passed(b"job"), what="the release goes by another connection")
        made[2].deliver()
        run_now(run, began, nodes=run.nodes[2:])
        run.keys_gone("job", DEADLINE_S)  # sooner than that connection ends for its silence


@scenario("a job's lock is lost, and an earlier agent's acquire left a key on a node that was away: it goes, too",
          sanitizers=False)
def left_by_an_earlier_agent(run):
    with proxies(run) as made:
        agent = start(run, made)
        for ttl_ms in (4000, 8000, 16000):  # where a slow machine's key lapsed first, one with more time tells
            name = f"job-{ttl_ms}"
            holder = run.holder(label=name)
            made[2].lose_replies(HOLDER)
            holder.acquire(name, ttl_ms, -1, "run")
            time.sleep(ttl_ms / 6000)
            wait_until(lambda: run.nodes[2].pttl(name) > ttl_ms - 300, what="another heal", interval_s=0.005)
            agent.kill()
            made[2].break_held()
            made[2].hold_requests(b"INFO")
            others_ms = max(node.pttl(name) for node in run.nodes[:2])
            told_apart = run.nodes[2].pttl(name) > others_ms + ttl_ms / 10
            agent = start(run, made, fresh=False)
            for node in run.nodes[:2]:
                node.cmd("SET", name, "another's", "PX", "60000")
            wait_until(lambda: not holder.held(), ttl_ms / 1000, "it is lost")
            made[2].deliver()
            left_ms = 0
            while (ms := run.nodes[2].pttl(name)) > 0:
                left_ms = ms
                time.sleep(0.01)
            print(f"# it had {left_ms} ms left{'' if told_apart else ', but none more than the others'}")
            if told_apart and left_ms > 100:
                return
    assert not told_apart, "it lapsed"


@scenario("the answer to a release is lost: it is sent again, and is one")
def lost_release(run):
    with proxies(run) as made:
        start(run, made)
        holder = run.holder()
        holder.acquire("job")
        for proxy in made[:2]:
            proxy.lose_replies(b"job")
        holder.send("release")
        wait_until(lambda: run.holders_of("job") == 0, what="the nodes have done it")
        for proxy in made:
            proxy.break_held()
        assert holder.answer() == {"value": 0}
        usable(run, holder)


if __name__ == "__main__":
    main()
