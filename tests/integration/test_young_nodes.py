#!/usr/bin/env python3
"""A node that forgot is written to at once, and counts for a lease once it is old enough: rivals that had its vote from
before have decided by then. And what that does to nodes that are restarted one after the other.

HOLDFAST_FULL=1 also finds how short a TTL may be for that: tests/integration/test_young_nodes.py -k shortest
"""
import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from proxy import Proxy  # noqa: E402
from rig import main, scenario, skip, wait_until  # noqa: E402
from views import counters  # noqa: E402

HOLDER_TTL_MS = 1000
RIVAL_TTL_MS = 60_000  # an acquire has a fifteenth of that: 4 s


def stopped(nodes):
    for node in nodes:
        node.sigstop()


def rivals_round(run, befall, options=()):
    """The holder has its lock on nodes 1, 2 and 3, a rival's round has the votes of 4 and 5, it hears nothing of 1 and 2,
    and 3 is stopped with the rival's command in its socket. `befall` is done to node 4 then; the holder's key lapses on 3, and 3 goes on.

    Returns the rival's command once it ended, and the holder."""
    nodes = run.redis(5, clock=True, options=options)
    a = run.agent("a", ttl=f"{HOLDER_TTL_MS}ms")
    proxies = [Proxy(node.address) for node in nodes[:2]]
    theirs = [proxy.spec(node) for node, proxy in zip(nodes, proxies)]
    b = run.agent("b", nodes=[*theirs, *nodes[2:]], ttl=f"{RIVAL_TTL_MS}ms")  # it looks at nodes every 5 s only
    for proxy in proxies:
        proxy.lose_replies(b"job")
    holder = run.holder(a)
    holder.acquire("job", HOLDER_TTL_MS)
    wait_until(lambda: run.holders_of("job") == 5, what="the key is on all nodes")
    stopped(nodes[3:])
    time.sleep(HOLDER_TTL_MS * 1.1 / 1000)  # its keys lapse there
    stopped(nodes[2:3])
    rival = run.start_holdfast("run", "-n", "-t", f"{RIVAL_TTL_MS}ms", "job", "sleep", "1", agent=b)
    time.sleep(0.1)
    for node in nodes[3:]:
        node.sigcont()
    theirs = wait_until(lambda: nodes[3].get("job"), what="node 4 votes")
    assert theirs != nodes[0].get("job") and nodes[4].get("job") == theirs, "the rival has the votes of 4 and 5"
    befall(nodes[3])
    time.sleep(HOLDER_TTL_MS * 1.2 / 1000)
    nodes[2].sigcont()
    return rival, holder, b


def both_hold(run, holder, agent, for_s=1.5):
    """Whether at some moment both believed in it."""
    end = time.monotonic() + for_s
    while time.monotonic() < end:
        shown = run.show("job", agent)
        if shown and holder.held():
            return shown
        time.sleep(0.02)
    return None


@scenario("a rival's round has the vote of a node from before it forgot: the node healed since does not count",
          sanitizers=False)
def vote_from_before(run):
    # A node that tells of changes tells of this one, too, and the rival's agent asks it at once.
    rival, holder, b = rivals_round(run, lambda node: node.cmd("FLUSHALL"), ["--rename-command", "CLIENT", ""])
    shown = both_hold(run, holder, b)
    assert not shown, f"two holders: {shown}"
    rival.wait()
    assert counters(run, b)["grants"] == 1, "the rival's round was to be granted, once the holder's lease was over"


@scenario("the same where the node's clock stepped, and the rival's key went by that", sanitizers=False)
def key_gone_by_a_step(run):
    rival, holder, b = rivals_round(run, lambda node: node.shift_clock(2 * RIVAL_TTL_MS / 1000))
    shown = both_hold(run, holder, b)
    assert not shown, f"two holders: {shown}"
    rival.wait()
    assert counters(run, b)["grants"] == 1, "the rival's round was to be granted, once the holder's lease was over"


# --- rolling restarts ----------------------------------------------------------------------------------

LEASES = 20


def of_age_s(ttl_max_s):
    """agent/core/timing.h: timing_age()"""
    return 2.04 * ttl_max_s / 15 + 0.2


def rolling(run, ttl_s, ttl_max_s, restarts, nodes=3):
    """Restarts nodes empty in turn, one per T/2. How many leases were kept, the least validity that one had ahead, as a
    part of the TTL, and the longest that a node was away."""
    fleet = run.redis(nodes)
    agent = run.agent(f"ttl-{ttl_s}", nodes=fleet, ttl=f"{int(ttl_s * 1000)}ms", options=("--ttl-max", f"{ttl_max_s}s"))
    holder = run.holder(agent)
    leases = [holder.acquire(f"job{i}")["lease"] for i in range(LEASES)]
    least, away, begin = 1.0, 0.0, time.monotonic()

    def look_until(end):
        nonlocal least
        while time.monotonic() < end:
            lefts = [holder.cmd("remaining", lease)["value"] for lease in leases if holder.held(lease)]
            least = min([least, *(left / 1e3 / ttl_s for left in lefts)])
            time.sleep(0.02)

    for i in range(restarts):
        look_until(begin + (i + 1) * ttl_s / 2)
        node, down = fleet[i % nodes], time.monotonic()
        node.restart()
        away = max(away, time.monotonic() - down)
    look_until(time.monotonic() + ttl_s)
    return sum(holder.held(lease) for lease in leases), least, away


@scenario("nodes are restarted empty one after the other, one per T/2: every lease is kept", sanitizers=False)
def one_after_the_other(run):
    kept, least, away = rolling(run, 4, 4, 7)
    print(f"# T = ttl_max = 4 s, 7 restarts, one every 2 s, away for {away:.2f} s at most: {kept} of {LEASES} leases kept, "
          f"never less than {least:.2f} T ahead")
    assert kept == LEASES, kept
    assert counters(run)["losses"] == 0
    assert least > 0.3, "none was about to be lost"


@scenario("the same with a TTL that is short beside ttl_max: the leases are lost, and that is known in time",
          sanitizers=False)
def too_short(run):
    """A node that is restarted alone costs nothing; two within the time that one needs to come of age are a majority."""
    kept, _, _ = rolling(run, 3, 60, 1)
    assert kept == LEASES, "one node of three"
    for node in run.nodes[1:2]:
        node.restart()
    wait_until(lambda: counters(run)["losses"] == LEASES, 3 * 1.5, "all are lost")


@scenario("a single node is restarted empty: what has time until it is of age is kept", sanitizers=False)
def single_node(run):
    kept, least, away = rolling(run, 6, 6, 1, nodes=1)
    print(f"# N = 1, T = ttl_max = 6 s, away for {away:.2f} s: {kept} of {LEASES} kept, never less than {least:.2f} T ahead")
    assert kept == LEASES, kept
    assert counters(run)["losses"] == 0


@scenario("the shortest TTL that outlasts restarts one per T/2", sanitizers=False)
def shortest(run):
    if not os.environ.get("HOLDFAST_FULL"):
        skip("HOLDFAST_FULL=1 runs it")
    ttl_max_s = 12
    ages = of_age_s(ttl_max_s)
    for ttl_s in (1, 1.5, 2, 2.5, 3, 4, 6, 12):
        kept, least, away = rolling(run, ttl_s, ttl_max_s, 9)
        bound = (away + ages) / ttl_s
        print(f"# ttl_max = 12 s, T = {ttl_s} s: {kept} of {LEASES} kept, never less than {least:.2f} T ahead; a node is "
              f"away for {away:.2f} s and of age after {ages:.2f} s: {bound:.2f} T", flush=True)
        assert kept == LEASES or bound > 0.7, "0.8 T is what the page says"


if __name__ == "__main__":
    main()
