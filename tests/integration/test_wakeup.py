#!/usr/bin/env python3
"""Waiting for another host's lock: woken by what nodes tell, and by time where they do not."""
import os
import pathlib
import statistics
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from events import await_event, history, those  # noqa: E402
from history import longest_wait, read  # noqa: E402
from rig import BUILD, SLOW, agent_env, boottime_ns, main, scenario, wait_until  # noqa: E402
from views import counters, node_rows, wait_node  # noqa: E402

FULL = bool(os.environ.get("HOLDFAST_FULL"))
MANY, ONE = 65531, 65532  # users
POLL_S = 0.25  # the longest time between rounds for a waiter whom nobody tells


# --- the stage -------------------------------------------------------------------------------------------


def tell(run, agent, count=3):
    """Waits until that many nodes tell this agent of changes."""
    wait_until(lambda: sum(row["tracking"] == "on" for row in node_rows(run, agent).values()) >= count,
               what=f"{agent.name}: {count} nodes tell")


def hosts(run, *labels, nodes=3, telling=None, **options):
    run.redis(nodes)
    agents = [run.agent(label, **options) for label in labels]
    for agent in agents:
        tell(run, agent, nodes if telling is None else telling)
    return agents


def begin_to_wait(run, agent, waiter, name, ttl_ms=0):
    """The waiter's first round is over, and it sleeps."""
    rounds = counters(run, agent)["acquire_rounds"]
    waiter.send("acquire", name, ttl_ms, -1)
    wait_until(lambda: counters(run, agent)["acquire_rounds"] > rounds, what="its first round")
    time.sleep(0.1)


def granted_after(waiter, change):
    """Seconds from a change to the grant."""
    start = boottime_ns()
    change()
    waiter.answer()
    return (boottime_ns() - start) / 1e9


def wakes(run, a, b):
    """What one host releases wakes who waits on the other."""
    holder, waiter = run.holder(a), run.holder(b)
    renewed = counters(run, a)["renewed"]
    holder.acquire("x")
    # The first renewals, 100 ms after the grant, are milliseconds apart: a waiter that gets little time for itself takes
    # them for a release. A node that did not vote in time has none.
    end = time.monotonic() + 2 * SLOW
    while counters(run, a)["renewed"] < renewed + len(run.nodes) and time.monotonic() < end:
        time.sleep(0.02)
    begin_to_wait(run, b, waiter, "x")
    woken = counters(run, b)["wakeups"]
    assert granted_after(waiter, holder.release) < 5 * SLOW
    assert counters(run, b)["wakeups"] > woken, "it polled"


def everywhere(run, *command):
    """The same command on all nodes, at one moment."""
    clients = [node.client() for node in run.nodes]
    threads = [threading.Thread(target=client.cmd, args=command) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for client in clients:
        client.close()


def commands(run):
    """How many commands the nodes have run, without those inside of scripts."""
    return sum(node.calls(command) for node in run.nodes for command in ("evalsha", "client|caching"))


def notice_clients(node):
    """Ids of the connections on which the node tells."""
    lines = node.cmd("CLIENT", "LIST", "TYPE", "pubsub")
    lines = lines.decode() if isinstance(lines, bytes) else lines
    return [line.split("id=", 1)[1].split()[0] for line in lines.splitlines()]


# --- woken -----------------------------------------------------------------------------------------------


@scenario("a release on one host wakes who waits on another, and nobody polls", sanitizers=False)
def woken(run):
    a, b = hosts(run, "a", "b")
    holder, waiter = run.holder(a), run.holder(b)
    took = []
    for _ in range(10):
        holder.acquire("x")
        begin_to_wait(run, b, waiter, "x")
        took.append(granted_after(waiter, holder.release))
        waiter.release()
    seen = counters(run, b)
    print(f"# release to grant {statistics.median(took) * 1000:.1f} ms, in the middle; "
          f"{seen['wakeups']} wake-ups, {seen['looks']} looks, {seen['polls']} polls")
    assert statistics.median(took) < 0.1 * SLOW, took
    assert seen["wakeups"] >= 8 and seen["polls"] <= 2, seen


@scenario("notices that are lost are made up for by polling, and come again", sanitizers=False)
def lost_notices(run):
    a, b = hosts(run, "a", "b")
    holder, waiter = run.holder(a), run.holder(b)
    holder.acquire("x")
    begin_to_wait(run, b, waiter, "x")
    for node in run.nodes:
        assert len(notice_clients(node)) == 4, "of broker and renewal thread of either agent"
        for client in notice_clients(node):
            node.cmd("CLIENT", "KILL", "ID", client)
    assert granted_after(waiter, holder.release) < 4 * POLL_S * SLOW
    waiter.release()
    tell(run, b)
    looks = counters(run, b)["looks"]
    holder.acquire("x")
    begin_to_wait(run, b, waiter, "x")
    for node in run.nodes:
        for client in notice_clients(node):
            node.cmd("CLIENT", "KILL", "ID", client)
    wait_until(lambda: counters(run, b)["looks"] >= looks + 3, what="the nodes are looked at again")
    tell(run, b)
    time.sleep(0.1)
    wakeups = counters(run, b)["wakeups"]
    granted_after(waiter, holder.release)
    assert counters(run, b)["wakeups"] > wakeups, "it was woken again"


@scenario("nodes that allow no tracking are polled, and `nodes` says so")
def refused(run):
    for node in run.redis(3):
        node.cmd("ACL", "SETUSER", "default", "-client|tracking")
    a, b = run.agent("a"), run.agent("b")
    for node in run.nodes:
        wait_node(run, node.id, b, tracking="refused")
    text = run.holdfast("nodes", agent=b).out
    assert "poll" in text, text
    holder, waiter = run.holder(a), run.holder(b)
    holder.acquire("x")
    begin_to_wait(run, b, waiter, "x")
    assert granted_after(waiter, holder.release) < 2 * POLL_S * SLOW
    assert counters(run, b)["polls"] >= 1
    for node in run.nodes:
        node.cmd("ACL", "SETUSER", "default", "+client|tracking")
    tell(run, b)


@scenario("one node that tells nothing changes nothing", sanitizers=False)
def one_is_deaf(run):
    run.redis(3)
    run.nodes[1].cmd("ACL", "SETUSER", "default", "resetchannels")
    a, b = run.agent("a"), run.agent("b")
    tell(run, b, 2)
    wait_node(run, run.nodes[1].id, b, tracking="refused")
    wakes(run, a, b)
    assert counters(run, b)["polls"] == 0


@scenario("nodes behind TCP and a password tell, too", sanitizers=False)
def with_password(run):
    specs = [f"{node.id}=redis://:sesame@{node.address}" for node in run.redis(3, tcp=True, password="sesame")]
    a, b = run.agent("a", nodes=specs), run.agent("b", nodes=specs)
    tell(run, b)
    wakes(run, a, b)
    assert counters(run, b)["wakeups"] == 1, counters(run, b)


@scenario("a key that nobody releases is taken when it expires, and one without expiry is polled for", sanitizers=False)
def foreign_keys(run):
    (agent,) = hosts(run, "a")
    waiter = run.holder(agent)
    everywhere(run, "SET", "x", "another's", "PX", "1500")
    begin = boottime_ns()
    waiter.acquire("x")
    took = (boottime_ns() - begin) / 1e9
    assert 1.3 < took < 1.5 + 0.5 * SLOW, took
    assert counters(run, agent)["polls"] <= 2, "until then it slept"
    waiter.release()
    everywhere(run, "SET", "y", "another's")
    polls = counters(run, agent)["polls"]
    waiter.send("acquire", "y", 0, -1)
    time.sleep(1.2)
    assert counters(run, agent)["polls"] > polls, "never slept on"
    woken = counters(run, agent)["wakeups"]
    assert granted_after(waiter, lambda: everywhere(run, "DEL", "y")) < 5 * SLOW
    assert counters(run, agent)["wakeups"] > woken, "it polled"


@scenario("who comes later is told at once who has the lock, and its own place", sanitizers=False)
def place(run):
    a, b = hosts(run, "a", "b")
    holder = run.holder(a)
    holder.acquire("x")
    waiting = []
    for expected in ("; waiting\n", "; waiting, place 2 on this host\n", "; waiting, place 3 on this host\n"):
        waiting.append(run.start_holdfast("run", "x", "true", agent=b))
        waiting[-1].wait_err(expected, 2 * SLOW)
        assert f"pid {holder.pid} " in waiting[-1].err, waiting[-1].err
    holder.release()
    assert [process.wait() for process in waiting] == [0, 0, 0]


# --- what it costs ---------------------------------------------------------------------------------------


@scenario("a holder's renewals make no waiting host spin", sanitizers=False)
def renewals(run):
    a, b = hosts(run, "a", "b", ttl="1s")
    holder, waiter = run.holder(a), run.holder(b)
    holder.acquire("x")
    begin_to_wait(run, b, waiter, "x")
    seconds = 10 if FULL else 3
    before, rows = commands(run), counters(run, b)
    time.sleep(seconds)
    sent, seen = commands(run) - before, counters(run, b)
    told = {key: seen[key] - rows[key] for key in ("notices", "looks", "polls", "wakeups")}
    print(f"# TTL 1 s, {seconds} s: {sent / 3 / seconds:.1f} commands per second on each node, holder and waiter; "
          f"the waiting host: {told}")
    assert told["looks"] >= 3 * seconds, "each node renews three times a second, and is queried after it"
    assert told["looks"] <= 3 * 6 * seconds and told["polls"] + told["wakeups"] <= 2 * seconds, told
    assert sent / 3 / seconds < 30, "two scripts for a renewal, two for a query, and as many CLIENT CACHING"


@scenario("a thousand names that are waited for cost the nodes no more than the budget", sanitizers=False)
def thousand(run):
    count = 1000 if FULL else 300
    (agent,) = hosts(run, "a")
    with run.nodes[0].client() as one, run.nodes[1].client() as two, run.nodes[2].client() as three:
        for i in range(count):
            for client in (one, two, three):
                client.cmd("SET", f"many{i}", "another's")
    waiters = run.holder(agent)
    for i in range(count):
        waiters.cmd("start", f"many{i}", 0, -1)
    wait_until(lambda: counters(run, agent)["acquire_rounds"] >= count, 30, "all have begun")
    before, begun = commands(run), boottime_ns()
    time.sleep(2)
    seconds = (boottime_ns() - begun) / 1e9
    rate = (commands(run) - before) / 3 / seconds
    print(f"# {count} names without expiry: {rate:.0f} commands per second on each node")
    assert rate < 2 * 200 * 1.5, "200 scripts and their CLIENT CACHING"
    assert counters(run, agent)["polls"] > 0
    # However many wait, who is told is served at once.
    everywhere(run, "DEL", "many7")
    wait_until(lambda: run.show("many7", agent), 5 * SLOW, "it is granted")


@scenario("one user's thousand names that are waited for do not delay the polls for another user's", needs_root=True, sanitizers=False)
def thousand_of_one_user(run):
    run.redis(3)
    run.runtime_dir.chmod(0o755)
    run.dir.chmod(0o755)
    agent = run.agent(system=True)
    count = 1000
    for node in run.nodes:
        # Among so many keys a node does not find by itself that one has expired, so no notice makes up for a late poll.
        node.cmd("EVAL", "for i = 1, 50000 do redis.call('SET', 'other' .. i, 'x', 'PX', 600000) end", 0)
        node.cmd("EVAL", f"for i = 0, {count} do redis.call('SET', 'many' .. i, 'x') end", 0)
    many, one = (run.holder(uid=uid, connect=False) for uid in (MANY, ONE))
    for holder in (many, one):
        holder.cmd("connect", run.runtime_dir / agent.name / "sock")
    for i in range(count):
        many.cmd("start", f"many{i}", 0, -1)
    wait_until(lambda: many.cmd("dispatch") and counters(run, agent)["waiters"] >= count, 30, "all wait")
    late = []
    for i in range(3):
        everywhere(run, "SET", f"one{i}", "another's", "PX", 1000)
        late.append(granted_after(one, lambda i=i: one.send("acquire", f"one{i}", 0, -1)) - 1)
        one.release()
    print(f"# found free {', '.join(f'{1000 * s:.0f}' for s in late)} ms after its keys expired, beside {count} names of another user")
    # Polls of the crowd take 5 s in all.
    assert max(late) < 0.5 * SLOW, late


# --- losing early ----------------------------------------------------------------------------------------


@scenario("keys that are deleted by hand are a loss within milliseconds, and another host's chance")
def deleted(run):
    a, b = hosts(run, "a", "b")
    holder, waiter = run.holder(a), run.holder(b)
    holder.acquire("x")
    begin_to_wait(run, b, waiter, "x")
    time.sleep(0.2)  # renewed once, so its key is tracked
    took = granted_after(waiter, lambda: [node.cmd("DEL", "x") for node in run.nodes])
    assert took < 2 * SLOW, took
    wait_until(lambda: not holder.held(), what="the holder knows")
    lost = await_event(run, "lost", agent=a)
    # The other host may have its key there before the holder's agent looks.
    assert lost["reason"] in ("missing", "foreign"), lost


@scenario("a key that is deleted on one node is found missing at once, and written again", sanitizers=False)
def deleted_on_one(run):
    (agent,) = hosts(run, "a")
    holder = run.holder(agent)
    holder.acquire("x")
    time.sleep(0.3)
    run.nodes[0].cmd("DEL", "x")
    wait_until(lambda: run.nodes[0].get("x"), 3 * SLOW, "it is written again")
    assert holder.held()
    assert those(history(run, agent=agent), "vote_void", reason="missing")


@scenario("a key that another program writes again and again costs ten renewals a second", sanitizers=False)
def hammered(run):
    (agent,) = hosts(run, "a")
    holder = run.holder(agent)
    holder.acquire("x")
    time.sleep(0.3)
    calls, end = run.nodes[0].calls("evalsha"), boottime_ns() + 10**9
    with run.nodes[0].client() as client:
        while boottime_ns() < end:
            client.cmd("PEXPIRE", "x", 30000)
    calls = run.nodes[0].calls("evalsha") - calls
    assert 3 <= calls <= 30, calls
    assert holder.held()


@scenario("FLUSHALL on one node: its sentinel is read at once, and the lease lives on the others")
def flushed(run):
    a, b = hosts(run, "a", "b")
    holder, waiter = run.holder(a), run.holder(b)
    holder.acquire("x")
    begin_to_wait(run, b, waiter, "x")
    time.sleep(0.2)
    run.nodes[0].cmd("FLUSHALL")
    for agent in (a, b):
        wait_node(run, run.nodes[0].id, agent, 3 * SLOW, state="quarantined")
    wait_until(lambda: run.nodes[0].get("x"), 3 * SLOW, "it is healed")
    assert holder.held()
    assert granted_after(waiter, holder.release) < 5 * SLOW


# --- a herd ----------------------------------------------------------------------------------------------


@scenario("three hosts that wait for one name: one of them has it soon after each release", sanitizers=False)
def herd(run):
    agents = hosts(run, "a", "b", "c")
    keeper = run.holder(agents[0])
    waiters = [run.holder(agent) for agent in agents]
    took = []
    for _ in range(10):
        everywhere(run, "SET", "x", "another's", "PX", "60000")
        for agent, waiter in zip(agents, waiters):
            begin_to_wait(run, agent, waiter, "x")
        times = []

        def served(waiter):
            waiter.answer()
            times.append(boottime_ns())
            waiter.release()

        threads = [threading.Thread(target=served, args=(waiter,)) for waiter in waiters]
        for thread in threads:
            thread.start()
        start = boottime_ns()
        everywhere(run, "DEL", "x")
        for thread in threads:
            thread.join()
        took.append([(at - start) / 1e6 for at in sorted(times)])
    print("# first, second and third grant after the release, in the middle: "
          + ", ".join(f"{statistics.median(column):.1f} ms" for column in zip(*took)))
    assert statistics.median(row[0] for row in took) < 50 * SLOW, took
    assert max(row[2] for row in took) < 2000 * SLOW, took
    keeper.close()


@scenario("a node that hangs does not hold up who shares the others with another host", sanitizers=False)
def hangs_beside_a_split(run):
    (agent,) = hosts(run, "a")
    waiter = run.holder(agent)
    run.nodes[1].cmd("SET", "x", "another's", "PX", "60000")
    run.nodes[2].sigstop()
    waiter.send("acquire", "x", 0, -1)
    time.sleep(0.3)
    took = granted_after(waiter, lambda: run.nodes[1].cmd("DEL", "x"))
    print(f"# granted {took * 1000:.0f} ms after the other's release; the node has {30_000 / 15:.0f} ms for an answer")
    assert took < 1, took


# --- turns -----------------------------------------------------------------------------------------------


def turns(run, agents, waiters, seconds, trouble=None, hold_us=10_000):
    """Processes of all hosts take one lock again and again, without pauses: (longest wait of any, in seconds, and how often
    each host had it), also printed."""
    crews = []
    for agent in agents:
        for _ in range(waiters):
            path = run.dir / f"holds-{run.serial()}"
            crews.append((agent, path, run.spawn(
                BUILD / "tests" / "contender", "--name", "x", "--history", path, "--for-ms", 60_000, "--hold-us", hold_us,
                "--idle-us", 2000, "--queue", label="contender", env=agent_env(agent), stdin=subprocess.PIPE)))
    for _, _, process in crews:
        process.wait_out("ready", 30)
    begin = boottime_ns()
    for _, _, process in crews:
        process.popen.stdin.close()
    if trouble:
        time.sleep(1)
        trouble()
    time.sleep(max(0, seconds - (boottime_ns() - begin) / 1e9))
    end = boottime_ns()
    for _, _, process in crews:
        process.signal(15)
    holds = [(agent, [hold for hold in read(path)[0] if hold.first_ns < end]) for agent, path, _ in crews]
    longest = max(longest_wait(mine, begin, end) for _, mine in holds) / 1e9
    shares = [sum(len(mine) for who, mine in holds if who is agent) for agent in agents]
    for _, _, process in crews:
        process.kill()  # it may have to wait for its turn to end
    print(f"# {len(run.nodes)} nodes, {len(agents)} hosts with {waiters} waiters each, {seconds} s: longest wait {longest:.2f} s, "
          f"holds of each host {shares}")
    return longest, shares


def hang(run, way, count):
    """The last nodes of the list are killed, or stopped: those accept and say nothing."""

    def trouble():
        for node in run.nodes[-count:]:
            node.kill() if way == "killed" else node.sigstop()

    return trouble


def take_turns(run, nodes, way, labels, waiters):
    agents = hosts(run, *labels, nodes=nodes)
    longest, shares = turns(run, agents, waiters, 20 if FULL else 7, hang(run, way, nodes - (nodes // 2 + 1)))
    assert longest < 2, "a host was not woken"
    assert max(shares) < 3 * min(shares), "a host had too little"


@scenario("one of three nodes is killed: two hosts take turns", sanitizers=False)
def turns_of_two_one_killed(run):
    take_turns(run, 3, "killed", "ab", 1)


@scenario("one of three nodes hangs: three hosts with two waiters each take turns", sanitizers=False)
def turns_of_three_one_hangs(run):
    take_turns(run, 3, "hangs", "abc", 2)


@scenario("two of five nodes are killed: three hosts take turns", sanitizers=False)
def turns_of_three_two_killed(run):
    take_turns(run, 5, "killed", "abc", 1)


@scenario("two of five nodes hang: two hosts with four waiters each take turns", sanitizers=False)
def turns_of_two_two_hang(run):
    take_turns(run, 5, "hangs", "ab", 4)


if __name__ == "__main__":
    main()
