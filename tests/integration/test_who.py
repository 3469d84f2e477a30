#!/usr/bin/env python3
"""Who holds a name on any host: show, list --all-hosts, wait, and release --force, with two agents on the same nodes."""
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from rig import BUILD, IS_ROOT, OTHER_UID, SLOW, HolderError, boottime_ns, main, scenario, wait_until  # noqa: E402

TTL_S = 3


def two_hosts(run, nodes=3, **options):
    """Agents a and b; to the nodes they are two hosts."""
    run.redis(nodes)
    return run.agent("a", **options), run.agent("b", **options)


def elsewhere(run, name, host="far-away", since_ms=None):
    """Makes the holder's record say another host than this one, and another time of the grant."""
    for node in run.nodes:
        if node.process.running:
            text = node.cmd("HGET", f"holdfast:fence:{name}", "holder").split(b"\n")
            text[4] = host.encode()
            text[3] = b"%d" % since_ms if since_ms else text[3]
            node.cmd("HSET", f"holdfast:fence:{name}", "holder", b"\n".join(text))


def anywhere(run, agent, name):
    result = run.holdfast("show", "--json", name, agent=agent)
    assert result.rc in (0, 3), result
    return result.json["anywhere"]


def id_of(value):
    return hashlib.sha1(value if isinstance(value, bytes) else value.encode()).hexdigest()


def listed(run, agent, *prefix, everything=False):
    """Name to number of nodes."""
    result = run.holdfast("list", "--all-hosts", "--json", *prefix, agent=agent)
    assert result.rc == 0, result
    return {lease["name"]: lease["holding"] for lease in result.json["leases"] if lease["held"] or everything}


# --- who ------------------------------------------------------------------------------------------------


@scenario("show and the conflict line name host, process, user, command, note, since and fence of a holder elsewhere")
def named(run):
    a, b = two_hosts(run)
    job = run.start_holdfast("run", "--note", "deploy 771", "db/migrate", "sleep", "60", agent=a)
    here = wait_until(lambda: run.show("db/migrate", agent=a), what="the lock is held")
    facts = anywhere(run, b, "db/migrate")
    assert facts["held"] and facts["state"] == "held" and facts["fence"] == here["fence"], facts
    assert facts["pid"] == here["pid"] and facts["uid"] == here["uid"] and facts["note"] == "deploy 771", facts
    assert facts["user"] == here["user"] and facts["command"] == here["command"] and facts["since"], facts
    wait_until(lambda: anywhere(run, b, "db/migrate")["holding"] == 3, what="all three nodes have it")
    facts = anywhere(run, b, "db/migrate")
    assert facts["nodes"] == 3 and facts["quorum"] == 2 and facts["answered"] == 3 and facts["free"] == 0, facts
    assert 0 < facts["left_ms"] <= 30000 and facts["expires"] and facts["forced"] == 0, facts
    assert facts["id"] == id_of(run.nodes[0].get("db/migrate")), facts
    elsewhere(run, "db/migrate")
    wanted = [" far-away pid ", str(here["pid"]), f"(uid {here['uid']})", "command sleep", "note deploy 771", here["fence"],
              "since 20"]
    for result in (run.holdfast("run", "-n", "db/migrate", "true", agent=b),
                   run.holdfast("run", "-w", "0.3", "db/migrate", "true", agent=b)):
        assert result.rc == 75, result
        for part in wanted:
            assert part in result.err.splitlines()[-1], (part, result.err)
    result = run.holdfast("show", "db/migrate", agent=b)
    assert result.rc == 3 and "this host" not in result.out, result
    for part in ("far-away", str(here["pid"]), "deploy 771", here["fence"], f"(uid {here['uid']})", "3 of 3 keep it for that holder"):
        assert part in result.out, (part, result.out)
    assert anywhere(run, b, "db/migrate")["user"] is None
    elsewhere(run, "db/migrate", since_ms=10 ** 14)
    assert "(by a clock that is ahead of this host's)" in run.holdfast("show", "db/migrate", agent=b).out
    # On its own host it is one's own lease that is shown.
    assert run.holdfast("show", "db/migrate", agent=a).rc == 0
    job.signal(15)
    job.wait()


@scenario("show tells free, foreign, another type, split and unknown apart", sanitizers=False)
def states(run):
    two_hosts(run)
    agent = run.agents[1]
    result = run.holdfast("show", "none", agent=agent)
    assert result.rc == 3 and result.out == "" and "none is not held on any host" in result.err, result
    assert anywhere(run, agent, "none")["state"] == "free"
    for node in run.nodes:
        node.cmd("SET", "foreign", "another-program")
        node.cmd("HSET", "hash", "a", "1")
    facts = anywhere(run, agent, "foreign")
    assert facts["state"] == "held" and facts["fence"] is None and facts["pid"] is None and facts["expires"] is False, facts
    assert facts["id"] == id_of("another-program"), facts
    assert "never expires" in run.holdfast("show", "foreign", agent=agent).out
    assert anywhere(run, agent, "hash")["id"] is None
    for node, value in zip(run.nodes, ("x", "y")):
        node.cmd("SET", "split", value, "PX", "60000")
    assert anywhere(run, agent, "split")["state"] == "split"
    run.nodes[0].cmd("SET", "remain", "x", "PX", "60000")
    assert anywhere(run, agent, "remain")["state"] == "free"
    run.nodes[2].stop()
    wait_until(lambda: anywhere(run, agent, "split")["answered"] == 2, what="the node is away")
    facts = anywhere(run, agent, "remain")  # held, if the third had it, too
    assert facts["state"] == "unknown" and facts["holding"] == 1 and facts["free"] == 1, facts
    assert anywhere(run, agent, "foreign")["state"] == "held"
    assert run.holdfast("wait", "-w", "0", "remain", agent=agent).rc == 69


@scenario("who waits for another program's lock, or is refused it, hears how long its key still lasts", sanitizers=False)
def foreign_left(run):
    run.redis(3)
    run.agent()
    for node in run.nodes:
        node.cmd("SET", "job", "another-program", "PX", "20000")
        node.cmd("SET", "ever", "another-program")
    line = r"job is held by another that left no record, and its key has (\d+\.\d)s left unless that is renewed"
    for command, said in ((("run", "-n", "job", "true"), line), (("run", "-w", "2", "job", "true"), line + "; the wait is over"),
                          (("wait", "-w", "2", "job"), line + "; the wait is over"), (("wait", "-w", "0", "job"), line)):
        result = run.holdfast(*command)
        left_ms = run.nodes[0].pttl("job")
        match = re.search(said + "$", result.err, re.M)
        assert result.rc == 75 and match, (command, result)
        assert abs(float(match.group(1)) - left_ms / 1000) < 1, (command, left_ms, result)
        if "2" in command:
            assert re.search(line + "; waiting$", result.err, re.M), result
    for command in (("run", "-n", "ever", "true"), ("wait", "-w", "1", "ever")):
        result = run.holdfast(*command)
        assert result.rc == 75 and "ever is held by another that left no record, and its key never expires" in result.err, result


@scenario("a node that has forgotten is not believed that nobody holds it", sanitizers=False)
def forgetful(run):
    run.redis(1)
    agent = run.agent()
    assert anywhere(run, agent, "job")["state"] == "free"
    run.nodes[0].cmd("FLUSHALL")
    wait_until(lambda: run.holdfast("run", "-n", "other", "true").rc == 69, what="the quarantine")
    assert anywhere(run, agent, "job")["state"] == "unknown"


# --- list -----------------------------------------------------------------------------------------------


@scenario("list --all-hosts: what every host holds, by a prefix of any characters, and not what is only on one node")
def lists(run):
    a, b = two_hosts(run)
    names = [f"a/{i:03}" for i in range(150)] + ["a*[b]?\\x", "a*[b]?\\y", "aX", "b"]
    holders = [run.holder(a), run.holder(b)]
    for i, name in enumerate(names):
        holders[i % 2].acquire(name)
    wait_until(lambda: sorted(listed(run, b).items()) == sorted((name, 3) for name in names), what="all are listed")
    assert sorted(listed(run, a, "a/")) == names[:150]
    assert sorted(listed(run, a, "a*[b]?\\")) == ["a*[b]?\\x", "a*[b]?\\y"]
    assert sorted(listed(run, a, "a/00")) == names[:10] and listed(run, a, "c") == {}
    text = run.holdfast("list", "--all-hosts", "a/", agent=b).out.splitlines()
    assert len(text) == 151 and text[0].startswith("NAME") and text[1].startswith("a/000 ") and " 3/3 " in text[1], text[:3]
    # One node's word is no quorum: for JSON only.
    run.nodes[0].cmd("SET", "half", "a-token", "PX", "60000")
    run.nodes[0].cmd("HSET", "holdfast:fence:half", "fence", "7", "tag", id_of("a-token"))
    assert "half" not in listed(run, a) and listed(run, a, everything=True)["half"] == 1
    for node in run.nodes:
        node.cmd("SET", "aX", "another-program")  # its record is of the one before
    assert "aX" not in listed(run, a, everything=True)
    run.nodes[0].cmd("DEL", "half")
    for holder in holders:
        holder.close()
    wait_until(lambda: listed(run, a, everything=True) == {}, what="nothing is held")


@scenario("list --all-hosts knows keys by their formats, and says which nodes could not be asked", sanitizers=False)
def lists_formats(run):
    run.redis(3)
    formats = ["--key-format", "lock:%s:x", "--key-format-for", "q/* queue:%s"]
    agent, other = run.agent(options=formats), run.agent("b", options=formats)
    holder = run.holder(agent)
    holder.acquire("job")
    wait_until(lambda: listed(run, agent) == {"job": 3} and listed(run, other, "jo") == {"job": 3}, what="it is listed")
    second = run.holder(other)
    second.acquire("q/1")
    wait_until(lambda: listed(run, other) == {"job": 3, "q/1": 3}, what="both are")
    run.nodes[0].stop()
    result = wait_until(lambda: (r := run.holdfast("list", "--all-hosts", agent=agent)).err and r, what="a node less")
    assert result.rc == 0 and "only 2 of 3 nodes" in result.err and "job" in result.out, result
    run.nodes[1].stop()
    result = wait_until(lambda: (r := run.holdfast("list", "--all-hosts", agent=agent)).rc == 69 and r, what="too few")
    assert "n1" in result.err or "n2" in result.err, result


# --- wait -----------------------------------------------------------------------------------------------


@scenario("wait: 0 once nobody holds it, at once on the holder's host and soon elsewhere; 75 when the wait is over; takes nothing")
def waits(run):
    a, b = two_hosts(run)
    assert run.holdfast("wait", "job").rc == 0 and run.holdfast("wait", "-w", "0", "job").rc == 0
    holder = run.holder(a)
    holder.acquire("job")
    for agent in (a, b):
        result = run.holdfast("wait", "-w", "0.2", "job", agent=agent)
        assert result.rc == 75 and "the wait is over" in result.err and str(holder.pid) in result.err, result
        assert run.holdfast("wait", "-w", "0", "-q", "job", agent=agent).rc == 75
    lease = holder.cmd("release")
    took = {}
    for agent in (a, b):
        best = []
        for _ in range(3):
            holder.acquire("job")
            waiter = run.start_holdfast("wait", "job", agent=agent)
            waiter.wait_err("; waiting")
            began = time.monotonic()
            holder.release()
            assert waiter.wait() == 0, waiter.err
            best.append(time.monotonic() - began)
        took[agent.label] = min(best)
    print(f"# release to the end of wait: {', '.join(f'{label} {s * 1000:.1f} ms' for label, s in took.items())}")
    assert min(took.values()) < 0.5 * SLOW and max(took.values()) < 2 * SLOW, took
    assert run.holders_of("job") == 0, lease


@scenario("wait sleeps: the nodes are asked a bounded number of times, the process not at all", sanitizers=False)
def wait_is_idle(run):
    a, b = two_hosts(run)
    holder = run.holder(a)
    holder.acquire("job")
    waiters = [run.start_holdfast("wait", "job", agent=b) for _ in range(20)]
    for waiter in waiters:
        waiter.wait_err("; waiting")
    before = [node.calls("evalsha") for node in run.nodes]
    ticks = [cpu_ticks(waiter.pid) for waiter in waiters]
    time.sleep(2)
    asked = [now - then for now, then in zip([node.calls("evalsha") for node in run.nodes], before)]
    spent = sum(cpu_ticks(waiter.pid) for waiter in waiters) - sum(ticks)
    print(f"# 20 waits for 2 s: scripts per node {asked}, {spent} ticks of the waiting processes")
    assert max(asked) <= 450 and spent <= 10, (asked, spent)
    holder.release()
    for waiter in waiters:
        assert waiter.wait() == 0, waiter.err


def cpu_ticks(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


@scenario("wait goes on over a restart of its agent; without one, or with too few nodes, it is 69", sanitizers=False)
def wait_restart(run):
    a, b = two_hosts(run)
    holder = run.holder(a)
    holder.acquire("job")
    waiter = run.start_holdfast("wait", "job", agent=b)
    waiter.wait_err("; waiting")
    b.kill()
    again = run.agent("b", fresh=False)
    time.sleep(0.3)
    assert waiter.running, waiter.err
    holder.release()
    assert waiter.wait() == 0, waiter.err
    assert run.holdfast("wait", "job", env={"HOLDFAST_AGENT": f"{run.tag}-none"}).rc == 69
    for node in run.nodes[1:]:
        node.stop()
    result = run.holdfast("wait", "-w", "0.5", "job", agent=again)
    assert result.rc == 69 and "1 of 3 nodes answered" in result.err, result


# --- force ----------------------------------------------------------------------------------------------


def fence_of(run, agent, name):
    return run.show(name, agent=agent)["fence"]


@scenario("release --force asks the holder on its own host, and elsewhere says what to type; the fence must be the hold's own")
def force_in_steps(run):
    a, b = two_hosts(run)
    holder = run.holder(a)
    holder.acquire("job")
    fence = fence_of(run, a, "job")
    result = run.holdfast("release", "job", agent=b)
    assert result.rc == 3 and "--force" in result.err, result
    result = run.holdfast("release", "--force", "job", agent=b)
    assert result.rc == 75 and f"--force --fence {fence} " in result.out and f"pid {holder.pid}" in result.out, result
    wrong = int(fence) + (1 << 10)
    result = run.holdfast("release", "--force", "--fence", wrong, "job", agent=b)
    assert result.rc == 75 and "another hold" in result.err and fence in result.out, result
    result = run.holdfast("release", "--force", "--id", "0" * 39 + "1", "job", agent=b)
    assert result.rc == 75, result
    assert holder.held() and run.holders_of("job") >= 2
    assert run.holdfast("release", "--force", "--fence", fence, "other", agent=b).rc == 3
    assert run.holdfast("release", "--force", "other", agent=b).rc == 3
    for words in (["--fence", "x", "--force"], ["--fence", "0", "--force"], ["--yes"], ["--force", "--yes", "--fence", "7"],
                  ["--force", "--id", "xyz"]):
        assert run.holdfast("release", *words, "job", agent=b).rc == 64, words
    # Here it is asked first.
    result = run.holdfast("release", "--force", "job", agent=a)
    assert result.rc == 0 and "asked pid" in result.out and f"--fence {fence}" in result.out, result


@scenario("what release --force says to type is what a shell needs, whatever the name is", sanitizers=False)
def force_typed(run):
    a, b = two_hosts(run)
    holder = run.holder(a)
    for name in ("plain/name-1.2", "with blank", "a'b$(touch x);*", b"\xff\n\\"):
        holder.acquire(name)
        shown = ["-e", r"\xff\n\\"] if isinstance(name, bytes) else [name]
        result = run.holdfast("release", "--force", *shown, agent=b)
        assert result.rc == 75, result
        command = result.out.splitlines()[-1].partition(": holdfast ")[2]
        path = {**run.env({"HOLDFAST_AGENT": b.name}), "PATH": f"{BUILD / 'bin'}:{os.environ['PATH']}"}
        done = subprocess.run(["sh", "-c", f"holdfast {command}"], env=path, capture_output=True, text=True, check=False,
                              timeout=30)
        assert done.returncode == 0 and "forced out on" in done.stdout, (command, done)
        wait_until(lambda: not holder.held(), what="it is lost")
        release_code(holder)


@scenario("a forced-out job is dead before another host gets its lock; both agents tell")
def force_a_job(run):
    a, b = two_hosts(run, ttl=f"{TTL_S}s")
    trace = run.dir / "trace"
    job = run.start_holdfast("run", "job", "sh", "-c", f"while :; do date +%s%N >> {trace}; sleep 0.01; done", agent=a)
    wait_until(trace.exists, what="the job runs")
    fence = fence_of(run, a, "job")
    waiter = run.start_holdfast("run", "job", "date", "+%s%N", agent=b)
    waiter.wait_err("waiting")
    result = run.holdfast("release", "--force", "--fence", fence, "job", agent=b)
    assert result.rc == 0 and re.search(r"on [23] of 3 nodes", result.out), result
    assert job.wait() == 124, job.err
    assert waiter.wait(TTL_S + 10) == 0, waiter.err
    last, first = int(trace.read_text().split()[-1]), int(waiter.out)
    print(f"# {(first - last) / 1e6:.0f} ms from the job's last act to the next holder's first")
    assert last < first < last + TTL_S * 10**9 // 2 * SLOW, (last, first)
    history = run.holdfast("history", "job", agent=a).out
    assert "forced it out" in history, history
    history = run.holdfast("history", "job", agent=b).out
    assert re.search(rf" forced .*{fence}", history), history
    assert "forced out the hold of job" in b.err, b.err


@scenario("nobody gets a forced-out lock while its holder's agent is stopped and may believe in it")
def force_a_stopped_agent(run):
    a, b = two_hosts(run, ttl=f"{TTL_S}s")
    holder = run.holder(a)
    holder.acquire("job")
    fence = fence_of(run, a, "job")
    a.sigstop()
    result = run.holdfast("release", "--force", "--yes", "job", agent=b)
    assert result.rc == 0 and fence in result.out, result
    taken = run.start_holdfast("run", "job", "true", agent=b)
    while taken.running:
        standing = run.holders_of("job")  # before the question: both end soon after each other
        assert standing >= 2 or not holder.held(), "the key is free while the lock is held"
        time.sleep(0.02)
    assert taken.wait() == 0 and not holder.held(), taken.err
    a.sigcont()


@scenario("nobody gets a forced-out lock before V when its holder died while the agent hung, for the job may live")
def force_while_the_holder_dies(run):
    a, b = two_hosts(run, ttl=f"{TTL_S}s")
    holder, rival = run.holder(a), run.holder(b, label="rival")
    holder.acquire("job", 0, -1, "run")
    wait_until(lambda: run.holders_of("job") == 3, what="all nodes have it")
    a.sigstop()
    until_ns = holder.cmd("until")["value"]
    result = run.holdfast("release", "--force", "--yes", "job", agent=b)
    assert result.rc == 0, result
    holder.kill()
    a.sigcont()  # it learns of the death, and of the forced release
    wait_until(lambda: is_granted(rival, "job"), 10, "the other host gets it")
    won_ns = boottime_ns()
    assert won_ns > until_ns, f"{(until_ns - won_ns) / 1e9:.1f} s before the holder's V"


@scenario("where a node's record is another's, as after a split, a forced-out lock is nobody's before V all the same")
def force_where_records_differ(run):
    a, b = two_hosts(run, nodes=5, ttl="4s")
    holder, rival = run.holder(a), run.holder(b, label="rival")
    holder.acquire("job")
    wait_until(lambda: run.holders_of("job") == 5, what="all nodes have it")
    fence = fence_of(run, a, "job")
    for node in run.nodes[3:]:  # somebody's attempt that lost
        node.cmd("HSET", "holdfast:fence:job", "fence", (int(fence) >> 10) + 5, "tag", "0" * 40)
    a.sigstop()
    until_ns = holder.cmd("until")["value"]
    for node in run.nodes[:2]:  # they have lost it: a minority may
        node.cmd("DEL", "job", "holdfast:fence:job")
    result = run.holdfast("release", "--force", "--fence", fence, "job", agent=b)
    assert result.rc == 0 and "on 3 of 5 nodes" in result.out, result
    left = float(re.search(r"for ([0-9.]+)s at most", result.out)[1])
    begin_ns = boottime_ns()
    wait_until(lambda: is_granted(rival, "job"), 10, "the other host gets it")
    won_ns = boottime_ns()
    print(f"# granted {(won_ns - until_ns) / 1e6:.0f} ms after V, told {left} s")
    assert won_ns > until_ns, f"{(until_ns - won_ns) / 1e9:.1f} s before the holder's V"
    assert 2 < left <= 4, result.out
    assert won_ns - begin_ns < (left + 1.5 * SLOW) * 1e9
    assert not holder.held()
    a.sigcont()


@scenario("a lock whose records are gone is forced out by its id, and is nobody's before V either", sanitizers=False)
def force_without_records(run):
    a, b = two_hosts(run, ttl=f"{TTL_S}s")
    holder, rival = run.holder(a), run.holder(b, label="rival")
    holder.acquire("job")
    wait_until(lambda: run.holders_of("job") == 3, what="all nodes have it")
    for node in run.nodes:
        node.cmd("DEL", "holdfast:fence:job")
    a.sigstop()
    until_ns = holder.cmd("until")["value"]
    result = run.holdfast("release", "--force", "job", agent=b)
    assert result.rc == 75 and "--id " in result.out, result
    result = run.holdfast("release", "--force", "--yes", "job", agent=b)
    assert result.rc == 0 and "nobody else gets it for" in result.out, result
    wait_until(lambda: is_granted(rival, "job"), 10, "the other host gets it")
    won_ns = boottime_ns()
    assert won_ns > until_ns, f"{(until_ns - won_ns) / 1e9:.1f} s before the holder's V"
    assert not holder.held()
    a.sigcont()


@scenario("release --force never ends a newer hold than the one that was seen")
def force_races(run):
    a, b = two_hosts(run)
    holder = run.holder(a)
    for _ in range(20):
        holder.acquire("job")
        fence = fence_of(run, a, "job")
        holder.release()
        holder.acquire("job")
        result = run.holdfast("release", "--force", "--fence", fence, "job", agent=b)
        assert result.rc == 75 and holder.held(), result
        holder.release()
    # The same while holds come and go all the time: whoever is forced out had that fence.
    stop, forced = threading.Event(), []

    def force_on():
        while not stop.is_set():
            facts = anywhere(run, b, "race")
            if facts["held"] and run.holdfast("release", "--force", "--fence", facts["fence"], "race", agent=b).rc == 0:
                forced.append(facts["fence"])

    thread = threading.Thread(target=force_on)
    thread.start()
    lost = []
    try:
        deadline = time.monotonic() + 3
        while time.monotonic() < deadline:
            fence = str(holder.acquire("race")["fence"])
            time.sleep(0.2)  # its agent watches the keys from 0.1 s on
            code = release_code(holder)
            assert code in (0, -401), code
            if code:
                lost.append(fence)
    finally:
        stop.set()
        thread.join()
    print(f"# {len(forced)} forced out, {len(lost)} of them before they were released")
    assert lost and set(lost) <= set(forced), (lost, forced)


@scenario("a hold that was handed on on its host is another one there, though the nodes do not know", sanitizers=False)
def force_handed_on(run):
    a, b = two_hosts(run)
    first, second = run.holder(a), run.holder(a)
    first.acquire("job")
    fence = int(fence_of(run, a, "job"))
    second.cmd("start", "job", 0, -1)
    wait_until(lambda: run.holdfast("status", "--json", agent=a).json["counters"]["waiters"] == 1, what="it waits")
    first.release()
    second.cmd("result", 0, 5000)
    assert int(fence_of(run, a, "job")) == fence + 1
    result = run.holdfast("release", "--force", "--fence", fence, "job", agent=a)
    assert result.rc == 75 and "another hold" in result.err, result
    assert second.held()
    assert int(anywhere(run, b, "job")["fence"]) == fence  # elsewhere they are one
    assert run.holdfast("release", "--force", "--fence", fence + 1, "job", agent=a).rc == 0
    wait_until(lambda: not second.held(), what="it is lost")


def is_granted(holder, name):
    try:
        holder.cmd("try", name)
    except HolderError as error:
        assert error.code == -201, error
        return False
    return True


def release_code(holder):
    try:
        holder.release()
    except Exception as error:  # noqa: BLE001
        return getattr(error, "code", None)
    return 0


@scenario("another program's lock is ended by its id alone, and is free after a second", sanitizers=False)
def force_foreign(run):
    run.redis(3)
    agent = run.agent()
    for node in run.nodes:
        node.cmd("SET", "job", "another-program")
    result = run.holdfast("release", "--force", "job")
    assert result.rc == 75 and f"--id {id_of('another-program')}" in result.out, result
    assert run.holdfast("release", "--force", "--fence", "7", "job").rc == 75
    result = run.holdfast("release", "--force", "--id", id_of("another-program"), "job")
    assert result.rc == 0 and "does not know" in result.out, result
    assert run.holdfast("wait", "-w", "5", "job").rc == 0
    for node in run.nodes:
        node.cmd("HSET", "hash", "a", "1")
    result = run.holdfast("release", "--force", "--yes", "hash")
    assert result.rc == 77 and "another type" in result.err, result
    assert agent.running


@scenario("a hold that is forced out on too few nodes stays, and its keys come back", sanitizers=False)
def force_on_too_few(run):
    a, b = two_hosts(run, ttl=f"{TTL_S}s")
    holder = run.holder(a)
    holder.acquire("job")
    fence = fence_of(run, a, "job")
    # Agent b reaches one node only.
    wait_until(lambda: run.holders_of("job") == 3, what="all three have it")
    mark = f"holdfast:forced:{id_of(run.nodes[0].get('job'))}"
    run.nodes[0].cmd("SET", "job", mark, "PX", "1000")
    time.sleep(TTL_S)
    assert holder.held() and fence_of(run, a, "job") == fence
    wait_until(lambda: run.nodes[0].get("job") not in (None, mark.encode()), TTL_S * 3, "the key is written again")


@scenario("release --force is for root and the agent's user: 77 for others", needs_root=True, sanitizers=False)
def force_not_allowed(run):
    run.redis(3)
    agent = run.agent(system=IS_ROOT)
    run.runtime_dir.chmod(0o755)
    run.dir.chmod(0o755)
    holder = run.holder(agent)
    holder.acquire("job")
    fence = fence_of(run, agent, "job")
    program = run.for_others(BUILD / "bin" / "holdfast")
    process = run.spawn(program, "release", "--force", "--fence", fence, "job", uid=OTHER_UID)
    assert process.wait() == 77 and "only root" in process.err and f"user {OTHER_UID}" in process.err, process.err
    process = run.spawn(program, "wait", "-w", "0", "job", uid=OTHER_UID)
    assert process.wait() == 75, process.err
    assert holder.held()


INTERRUPTED = """
import ctypes, signal, sys
lib = ctypes.CDLL("libholdfast.so.1")
client = ctypes.c_void_p()
assert lib.hf_connect(None, ctypes.byref(client)) == 0
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
for i in range(100):
    status = lib.hf_wait_free(client, b"job", ctypes.c_size_t(3), ctypes.c_int64(-1), None, None)
    assert status == -205, (i, status)
signal.setitimer(signal.ITIMER_REAL, 0)
"""


@scenario("a wait that a signal handler ends is no question of the agent's any more: there may be 64 of a connection", sanitizers=False)
def interrupted(run):
    run.redis(3)
    agent = run.agent()
    run.holder(agent).acquire("job")
    env = {"LD_LIBRARY_PATH": str(BUILD / "lib"), "HOLDFAST_AGENT": agent.name}
    process = run.spawn(sys.executable, "-c", INTERRUPTED, label="interrupted", env=env)
    assert process.wait() == 0, process.err


if __name__ == "__main__":
    main()
