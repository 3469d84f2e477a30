#!/usr/bin/env python3
"""What lock libraries of this family are tested for, on real nodes; ../BEHAVIOURS.md has the whole list.

HOLDFAST_FULL=1 keeps 100,000 leases renewed at once, instead of 2,000 (a minute, 150 MiB of /dev/shm).
"""
import itertools
import os
import pathlib
import re
import select
import signal
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from rig import SLOW, HolderError, boottime_ns, encode, main, scenario, wait_until  # noqa: E402
from views import counters, node_rows, wait_node  # noqa: E402

MS = 1_000_000
TTL_MS = 1500 if SLOW == 1 else 3000
TTL_S = TTL_MS / 1000
QUARANTINE_S = 1.02 * TTL_S + 1
EBUSY, ENOQUORUM, ELOST = -201, -303, -401
LOST = 4  # HF_STATE_LOST
FOREIGN = b"another's"
FOREIGN_MS = 60_000
MANY = 100_000 if os.environ.get("HOLDFAST_FULL") else 2000
HOLDER_MOST = 4000  # leases of one holder program


def agent_of(run, label="a", nodes=None):
    """An agent for which every node votes: it is ready with a quorum of them."""
    agent = run.agent(label, nodes=nodes, ttl=f"{TTL_MS}ms", options=["--ttl-max", f"{TTL_MS}ms"])
    wait_until(lambda: all(row["state"] == "up" for row in node_rows(run, agent).values()), what="all nodes vote")
    return agent


def ready(run, labels=("a",), nodes=3):
    """Nodes, and agents on all of them."""
    run.redis(nodes)
    return [agent_of(run, label) for label in labels]


def attempt(holder, name, wait_ms=0):
    """0 if it is granted, else why not."""
    try:
        holder.acquire(name, 0, wait_ms)
    except HolderError as error:
        return error.code
    return 0


def release(holder, *lease):
    try:
        return holder.release(*lease)["value"]
    except HolderError as error:
        return error.code


def on_every_node(run, name):
    """One and the same token."""
    values = {node.get(name) for node in run.nodes}
    return None not in values and len(values) == 1


def take(nodes, name, ttl_ms=FOREIGN_MS):
    """As a contender that is no agent of ours."""
    for node in nodes:
        node.cmd("SET", name, FOREIGN, "PX", ttl_ms)


def renewed(nodes, rounds=2):
    """Comes back when each of these nodes has renewed that often."""
    before = [node.calls("pexpire") for node in nodes]
    wait_until(lambda: all(node.calls("pexpire") >= n + rounds for node, n in zip(nodes, before)),
               TTL_S * rounds, "renewals")


# --- who gets it ---------------------------------------------------------------------------------------


@scenario("whichever nodes others hold, of three and of five: granted if and only if a quorum is free")
def every_subset(run):
    for count in (3, 5):
        nodes = run.redis(count)
        holder = run.holder(agent_of(run, f"of{count}", nodes))
        for mask in itertools.product("-x", repeat=count):
            name = "".join(mask)
            taken = [node for node, sign in zip(nodes, mask) if sign == "x"]
            take(taken, name)
            code = attempt(holder, name)
            assert code == (0 if count - len(taken) > count // 2 else EBUSY), (name, code)
            if code == 0:
                assert holder.held() and release(holder) == 0
            wait_until(lambda: all(node.get(name) == (FOREIGN if node in taken else None) for node in nodes),
                       what=f"only the others' keys are left of {name}")


@scenario("another's key on a minority is left as it is by acquire, renewal and release; on a majority nothing of "
          "ours stays")
def others_keys(run):
    ready(run)
    holder = run.holder()
    take(run.nodes[:1], "job")
    taken_ns = boottime_ns()
    assert attempt(holder, "job") == 0
    renewed(run.nodes[1:])
    assert holder.held() and release(holder) == 0
    assert run.nodes[0].get("job") == FOREIGN
    age_ms = (boottime_ns() - taken_ns) / 1e6
    assert run.nodes[0].pttl("job") <= FOREIGN_MS - age_ms + 50, "somebody renewed it"
    wait_until(lambda: run.holders_of("job") == 1, what="ours are gone")
    take(run.nodes[:2], "job2")
    assert attempt(holder, "job2") == EBUSY
    wait_until(lambda: run.nodes[2].get("job2") is None, what="ours is gone")
    assert [node.get("job2") for node in run.nodes[:2]] == [FOREIGN] * 2


@scenario("contenders on five hosts at once, again and again: never two winners, and all get it in the end")
def race(run):
    holders = [run.holder(agent) for agent in ready(run, "abcde", nodes=5)]
    for round_number in range(6):
        name = f"race{round_number}"
        for holder in holders:
            holder.send("acquire", name, 0, 0)
        codes = []
        for holder in holders:
            try:
                holder.answer()
                codes.append(0)
            except HolderError as error:
                codes.append(error.code)
        assert codes.count(0) <= 1, codes
        assert set(codes) <= {0, EBUSY, ENOQUORUM}, codes
        for holder, code in zip(holders, codes):
            if code == 0:
                assert holder.held() and release(holder) == 0
    fences = []
    for holder in holders:
        holder.send("acquire", "job", 0, 30_000)
    waiting = list(holders)
    while waiting:
        # The answers come in any order: read those that can be.
        holder = next(h for h in waiting if h.lines in readable([h.lines for h in waiting]))
        fences.append(holder.answer()["fence"])
        assert holder.held() and release(holder) == 0
        waiting.remove(holder)
    assert fences == sorted(set(fences)), fences


def readable(files):
    ready_files, _, _ = select.select(files, [], [], 30 * SLOW)
    assert ready_files, "nobody gets it"
    return ready_files


# --- nodes go and come ---------------------------------------------------------------------------------


@scenario("all nodes are restarted empty, one after the other: healed each time, held throughout, never another's")
def rolling_outage(run):
    first, second = ready(run, "ab")
    holder, contender = run.holder(first), run.holder(second)
    fence = holder.acquire("job")["fence"]
    for node in run.nodes:
        node.kill()
        assert attempt(contender, "job") in (EBUSY, ENOQUORUM)
        node.start()
        wait_until(lambda: on_every_node(run, "job"), TTL_S * 3, f"{node.id} is healed")
        assert attempt(contender, "job") in (EBUSY, ENOQUORUM)
        assert holder.held()
    renewed(run.nodes)
    assert holder.held() and holder.cmd("fence")["value"] == fence
    for node in run.nodes:
        wait_node(run, node.id, agent=second, timeout_s=QUARANTINE_S + 10, state="up")
    assert attempt(contender, "job") == EBUSY
    assert release(holder) == 0
    assert contender.acquire("job", 0, 10_000)["fence"] > fence


@scenario("the quorum dies: the loss is told, our key goes from the survivor, and nobody else gets the lock")
def quorum_dies(run):
    first, second = ready(run, "ab")
    holder, contender = run.holder(first), run.holder(second)
    holder.acquire("job")
    for node in run.nodes[1:]:
        node.kill()
    spun = holder.cmd("spin", int(TTL_MS * 2))
    assert spun["held"] == 0 and spun["last_held_ns"] < spun["valid_until_ns"], spun
    wait_until(lambda: run.nodes[0].get("job") is None, what="the survivor is clean")
    assert attempt(contender, "job") == ENOQUORUM
    assert release(holder) == ELOST


@scenario("a majority hangs: an acquire fails within its budget, not after the hang")
def majority_hangs(run):
    ready(run)
    holder = run.holder()
    for node in run.nodes[1:]:
        node.sigstop()
    for name in ("one", "two"):
        began = time.monotonic()
        assert attempt(holder, name) == ENOQUORUM
        assert time.monotonic() - began < TTL_S, "it waited for the hanging ones"
        began = time.monotonic()
        assert attempt(holder, name, 700) == ENOQUORUM
        assert 0.6 < time.monotonic() - began < 0.7 + TTL_S
    for node in run.nodes[1:]:
        node.sigcont()
    assert attempt(holder, "one", 20_000) == 0


@scenario("an acquire that was slower than its budget leaves no key, though every node would have said yes")
def too_slow(run):
    ready(run)
    holder = run.holder()
    for node in run.nodes:
        node.sigstop()
    assert attempt(holder, "job") == ENOQUORUM
    for node in run.nodes:
        node.sigcont()
    # What they find in their sockets is late: none of it may be written, or what is must go.
    assert attempt(holder, "other", 20_000) == 0
    wait_until(lambda: run.holders_of("job") == 0, what="nothing is left")
    assert on_every_node(run, "other")


@scenario("nodes that answer after the acquire failed: their keys are released, and the next acquire is granted "
          "at once")
def late_success(run):
    ready(run)
    holder = run.holder()
    for turn in range(3):
        for node in run.nodes[1:]:
            node.sigstop()
        holder.send("acquire", "job", 0, 0)
        # Some answers come just in time, some just too late.
        time.sleep(0.03 * (turn + 1))
        for node in run.nodes[1:]:
            node.sigcont()
        try:
            holder.answer()
            assert release(holder) == 0
        except HolderError as error:
            assert error.code == ENOQUORUM, error
        assert attempt(holder, "job", 5000 * SLOW) == 0, turn
        assert release(holder) == 0
        run.keys_gone("job")


@scenario("servers go away and come back: the next acquire works without a restart of the agent")
def come_back(run):
    ready(run)
    holder = run.holder()
    assert attempt(holder, "job") == 0 and release(holder) == 0
    for node in run.nodes:
        node.kill()
    assert attempt(holder, "job") == ENOQUORUM
    for node in run.nodes:
        node.start()
    assert attempt(holder, "job", int((QUARANTINE_S + 10) * 1000 * SLOW)) == 0
    renewed(run.nodes)
    assert holder.held() and on_every_node(run, "job")


# --- the end of a lease --------------------------------------------------------------------------------


@scenario("an agent that slept through the TTL renews nothing: not what is free, not what another has, not what "
          "another had")
def extend_after_expiry(run):
    first, second = ready(run, "ab")
    holder, other = run.holder(first), run.holder(second)
    names = ("free", "taken", "taken before")
    leases = {name: holder.acquire(name)["lease"] for name in names}
    fences = {name: holder.cmd("fence", leases[name])["value"] for name in names}
    first.sigstop()
    assert attempt(other, "taken", 20_000) == 0
    assert attempt(other, "taken before", 20_000) == 0 and release(other) == 0
    wait_until(lambda: run.holders_of("free") == 0)
    assert not any(holder.held(leases[name]) for name in names), "the clock alone decides"
    # A node whose clock lets the earlier key lapse last is given the new one with the next renewal.
    wait_until(lambda: len({node.get("taken") for node in run.nodes}) == 1)
    theirs = run.nodes[0].get("taken")
    first.sigcont()
    time.sleep(TTL_S)
    assert not any(holder.held(leases[name]) for name in names)
    assert [release(holder, leases[name]) for name in names] == [ELOST] * 3
    assert run.holders_of("free") == run.holders_of("taken before") == 0, "one was brought back"
    assert other.held(0) and {node.get("taken") for node in run.nodes} == {theirs}
    for name in ("free", "taken before"):
        assert holder.acquire(name)["fence"] > fences[name]


@scenario("a lease lost with its nodes: release says so, and the same name taken anew is renewed as ever")
def anew(run):
    ready(run)
    holder = run.holder()
    fence = holder.acquire("job")["fence"]
    for node in run.nodes:
        node.kill()
    wait_until(lambda: not holder.held(), TTL_S * 2, "it is lost")
    assert release(holder) == ELOST
    for node in run.nodes:
        node.start()
    # Nodes that remember nothing: the fence rises all the same.
    assert holder.acquire("job", 0, int((QUARANTINE_S + 10) * 1000 * SLOW))["fence"] > fence
    until = time.monotonic() + 2 * TTL_S
    while time.monotonic() < until:
        assert holder.held() and run.holders_of("job") >= 2
        time.sleep(0.1)
    assert release(holder) == 0


@scenario("a cancelled acquire: no key afterwards, whether it was waiting or in the middle of its round")
def cancelled(run):
    first, second = ready(run, "ab")
    holder, other = run.holder(first), run.holder(second)
    other.acquire("job")
    holder.cmd("start", "job", 0, -1)
    time.sleep(0.3)
    holder.cmd("cancel")
    for node in run.nodes[1:]:
        node.sigstop()
    holder.cmd("start", "job2", 0, -1)
    holder.cmd("cancel")
    for node in run.nodes[1:]:
        node.sigcont()
    assert release(other) == 0
    wait_until(lambda: run.holders_of("job") == 0 and run.holders_of("job2") == 0)
    until = time.monotonic() + TTL_S
    while time.monotonic() < until:
        assert run.holders_of("job") == 0 and run.holders_of("job2") == 0, "somebody took it for the dead request"
        time.sleep(0.05)
    wait_until(lambda: counters(run, first)["waiters"] == 0 and counters(run, first)["leases"] == 0)


@scenario("a release while a renewal is under way: the key goes and stays away, and no loss is told")
def release_in_renewal(run):
    ready(run)
    holder = run.holder()
    for turn in range(3):
        holder.acquire("job")
        run.nodes[turn].sigstop()
        time.sleep(TTL_S * 0.4)  # its renewal hangs now
        assert holder.held() and release(holder) == 0
        run.nodes[turn].sigcont()
        run.keys_gone("job")
        assert counters(run)["losses"] == 0
        time.sleep(TTL_S * 0.4)
        assert run.holders_of("job") == 0, "it came back"


@scenario("a node slower than the renewals' period: its renewals do not pile up, the others' go on as ever")
def slow_renewals(run):
    ready(run)
    holder = run.holder()
    holder.acquire("job")
    renewed(run.nodes)
    slow, *others = run.nodes
    scripts = slow.calls("evalsha")
    slow.sigstop()
    least = min(sampled(lambda: min(node.pttl("job") for node in others), 2 * TTL_S))
    slow.sigcont()
    assert least > TTL_MS / 2 or SLOW > 1, f"PTTL fell to {least} ms"
    renewed(run.nodes)
    assert holder.held()
    # An attempt takes T/15, and the next one begins when it is given up.
    assert slow.calls("evalsha") - scripts < 15 * 2 + 20, slow.calls("evalsha") - scripts


def sampled(value, seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        yield value()
        time.sleep(0.02)


@scenario("lost by the clock and lost to another: each is told once, with its reason, and already not held")
def told_once(run):
    ready(run)
    holder = run.holder()
    by_clock, to_another = (holder.acquire(name)["lease"] for name in ("by the clock", "to another"))
    for lease in (by_clock, to_another):
        holder.cmd("watch", lease)
    take(run.nodes[:2], "to another", 3 * FOREIGN_MS)
    holder.cmd("dispatch", int(TTL_MS * 0.8))
    for node in run.nodes:
        node.sigstop()
    holder.cmd("dispatch", int(TTL_MS * 1.5))
    for node in run.nodes:
        node.sigcont()
    holder.cmd("dispatch", int(TTL_MS * 0.5))
    ends = {}
    for line in holder.more:
        if f"state={LOST} " in line:
            lease = int(line.partition("lease=")[2].split()[0])
            assert lease not in ends, f"told twice: {holder.more}"
            ends[lease] = line
    assert set(ends) == {by_clock, to_another}, holder.more
    assert all("held=0" in line for line in ends.values()), ends
    assert ends[by_clock].partition("reason=")[2] != ends[to_another].partition("reason=")[2], ends
    assert "another" in ends[to_another], ends


@scenario("who begins to watch a lease that is lost already is told at once, and once; a watched one can be freed")
def late_subscriber(run):
    ready(run)
    holder = run.holder()
    lost = holder.acquire("job")["lease"]
    take(run.nodes[:2], "job")
    wait_until(lambda: not holder.held(lost))
    holder.cmd("watch", lost)
    for _ in range(2):
        holder.cmd("dispatch", 300)
    told = [line for line in holder.more if line.startswith(f"change lease={lost} ")]
    assert len(told) == 1 and f"state={LOST} held=0" in told[0], told
    watched = holder.acquire("other")["lease"]
    holder.cmd("watch", watched)
    holder.cmd("free", watched)
    take(run.nodes, "other")
    holder.cmd("dispatch", TTL_MS)
    assert not any(line.startswith(f"change lease={watched} ") for line in holder.more), holder.more


@scenario("the agent is killed: its holder's lock is free after the validity, not before")
def not_before_expiry(run):
    first, second = ready(run, "ab")
    holder, contender = run.holder(first), run.holder(second)
    holder.acquire("job")
    first.kill()
    contender.send("acquire", "job", 0, int(TTL_MS * 3 * SLOW))
    spun = holder.cmd("spin", int(TTL_MS * 2))
    assert spun["held"] == 0, spun
    contender.answer()
    began_ns = contender.cmd("until")["value"] - TTL_MS * MS  # not before this
    assert spun["last_held_ns"] < spun["valid_until_ns"] <= began_ns, (spun, began_ns)


# --- under load ----------------------------------------------------------------------------------------


@scenario("SCRIPT FLUSH all the time: nothing is lost and nothing loops")
def script_flush(run):
    ready(run)
    holder = run.holder()
    for node in run.nodes:
        node.cmd("SCRIPT", "FLUSH")
    lease = holder.acquire("job")["lease"]
    stop = threading.Event()

    def flush():
        with run.nodes[0].client() as a, run.nodes[1].client() as b, run.nodes[2].client() as c:
            while not stop.wait(0.005):
                for client in (a, b, c):
                    client.cmd("SCRIPT", "FLUSH")

    flusher = threading.Thread(target=flush)
    flusher.start()
    try:
        until = time.monotonic() + 2 * TTL_S
        while time.monotonic() < until:
            assert holder.held(lease)
            time.sleep(0.05)
    finally:
        stop.set()
        flusher.join()
    assert release(holder, lease) == 0
    run.keys_gone("job")
    # At most one reload for each of a few hundred flushes; in a loop it would be tens of thousands.
    assert all(node.calls("evalsha") + node.calls("eval") < 2000 for node in run.nodes)


@scenario("a hundred waiters, three times over: each gets the lock once, and nothing of them is left")
def hundred_waiters(run):
    ready(run)
    owner = run.holder()
    holders = [run.holder(label=f"waiter{i}") for i in range(5)]
    for _ in range(3 if SLOW == 1 else 1):
        owner.acquire("job")
        for holder in holders:
            for _ in range(20):
                holder.cmd("start", "job", 0, -1)
        wait_until(lambda: counters(run)["waiters"] == 100)
        assert release(owner) == 0
        served = [threading.Thread(target=serve, args=(holder, 20)) for holder in holders]
        for thread in served:
            thread.start()
        for thread in served:
            thread.join()
        for holder in holders:
            assert holder.served == 20, holder.served
            holder.cmd("disconnect")
            holder.connect()
        wait_until(lambda: counters(run)["waiters"] == 0 and counters(run)["leases"] == 0)
    run.keys_gone("job")


def serve(holder, count):
    """Takes what comes to this holder's operations, and gives it back."""
    holder.served, open_ops = 0, list(range(count))
    until = time.monotonic() + 60 * SLOW
    while open_ops and time.monotonic() < until:
        for op in open_ops:
            try:
                lease = holder.cmd("result", op, 5)["lease"]
            except HolderError:
                continue
            assert holder.held(lease)
            assert release(holder, lease) == 0
            holder.served += 1
            open_ops.remove(op)
            break


@scenario("thousands of leases at once: every one is renewed, and a change waits for none of them")
def many_leases(run):
    count = MANY if SLOW == 1 else 500
    ttl_s = 30 if count > 10_000 else 6
    run.redis(3)
    run.agent(ttl=f"{ttl_s}s", options=["--ttl-max", f"{ttl_s}s", "--capacity", str(count + 10)])
    firsts = range(0, count, HOLDER_MOST)
    holders = [run.holder(label=f"holder{first}") for first in firsts]
    for first, holder in zip(firsts, holders):
        holder.cmd("many", min(HOLDER_MOST, count - first), f"many{first}-", 0)
    other = run.holder(label="other")
    slowest = max(sampled(lambda: cycle_s(other), ttl_s))
    figures = counters(run)
    print(f"# {count} leases: lock and unlock in {slowest * 1000:.1f} ms at most, "
          f"a renewal {figures['renew_lag_max_ns'] / MS:.1f} ms late at most")
    assert figures["leases"] == count and figures["losses"] == 0, figures
    assert slowest < 1 * SLOW and figures["renew_lag_max_ns"] < ttl_s * 1000 * MS / 10 * SLOW, figures
    assert all(holder.held(lease) for holder in holders for lease in (0, 1))
    for node in run.nodes:
        assert min(node.pttl(f"many{first}-{i}") for first in firsts for i in (0, 7, 99)) > ttl_s * 1000 / 2


def cycle_s(holder):
    began = time.monotonic()
    lease = holder.acquire("one-more", 0, 5000)["lease"]
    assert release(holder, lease) == 0
    time.sleep(0.1)
    return time.monotonic() - began - 0.1


# --- figures and bytes ---------------------------------------------------------------------------------


@scenario("the validity that a holder is told is never longer than its key lives on a quorum of nodes")
def told_validity(run):
    ready(run)
    holder = run.holder()
    holder.acquire("job")
    run.nodes[0].sigstop()
    for turn in range(40):
        began = time.monotonic()
        left_ms = holder.cmd("remaining")["value"]
        # The keys' ends only ever move away.
        lives_ms = min(node.pttl("job") for node in run.nodes[1:])
        read_ms = (time.monotonic() - began) * 1000
        assert 0 < left_ms <= TTL_MS * 0.99 - 2, left_ms
        assert left_ms - read_ms < lives_ms + 1, (left_ms, read_ms, lives_ms)
        time.sleep(TTL_S / 20)
    run.nodes[0].sigcont()
    assert holder.held()


@scenario("a renewal sets the TTL and does not add to it")
def ttl_is_set(run):
    ready(run)
    run.holder().acquire("job")
    most = max(sampled(lambda: max(node.pttl("job") for node in run.nodes), 3 * TTL_S))
    assert TTL_MS / 2 < most <= TTL_MS, most


@scenario("the bytes of a name are the key whatever the locale, and letters of two cases are two locks")
def locale_bytes(run):
    ready(run)
    env = {"LC_ALL": "tr_TR.UTF-8", "LANG": "tr_TR.UTF-8"}
    names = ("İIıi", "İIIi", "iIıi")
    holder = run.holder()
    jobs = []
    for name in names:
        jobs.append(run.start_holdfast("run", "-n", name, "sh", "-c", "echo up; exec sleep 60", env=env))
        jobs[-1].wait_out("up")
        assert on_every_node(run, name.encode())
        assert attempt(holder, name) == EBUSY
    for name in names:
        holder.cmd("find", encode(name))
    assert len(holder.more) == 3 and run.holdfast("show", "--json", "İIıi").json["name"] == "İIıi"
    for job in jobs:
        job.signal(signal.SIGTERM)
        assert job.wait() == 128 + signal.SIGTERM, job.err


@scenario("every test that BEHAVIOURS.md names exists")
def named_tests(_run):
    tests = pathlib.Path(__file__).resolve().parent.parent
    text, named = "", 0
    for words in re.findall(r"`([^`]+)`", (tests / "BEHAVIOURS.md").read_text().partition("| 1 |")[2]):
        words = " ".join(words.split())
        file, colon, title = words.partition(": ")
        if colon:
            path = tests / (f"{file}.c" if file.startswith("unit/") else f"integration/{file}.py")
            text = re.sub(r'"\n\s*"', "", path.read_text())
        elif "=" not in words:
            title = words
        assert title in text, f"{words!r} is not in {path}"
        named += bool(title)
    assert named > 26, named


if __name__ == "__main__":
    main()
