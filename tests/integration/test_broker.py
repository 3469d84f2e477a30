#!/usr/bin/env python3
"""The broker: clients that break the rules, agents that are killed and come back, waiters, nodes' sentinels."""
import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from rig import BUILD, IS_ROOT, HolderError, SLOW, alive, main, scenario, wait_until  # noqa: E402
from views import counters  # noqa: E402

LOST = 4  # enum hf_lease_state


def socket_of(run, agent):
    return run.runtime_dir / agent.name / "sock"


def cpu_s(process):
    with open(f"/proc/{process.pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def refused(call):
    """The code with which a holder's command is refused."""
    try:
        call()
    except HolderError as error:
        return error
    raise AssertionError("it was not refused")


# --- clients ---------------------------------------------------------------------------------------------


@scenario("a client that breaks the protocol is cut off, and nobody else")
def violations(run):
    run.redis(3)
    agent = run.agent()
    holder = run.holder()
    holder.acquire("kept")
    for kind in ("zero-id", "unknown-op", "long-note", "request-cursor", "completion-cursor", "datagram", "no-hello"):
        breaker = run.spawn(BUILD / "tests" / "breaker", socket_of(run, agent), kind, label=f"breaker-{kind}")
        assert breaker.wait() == 0, f"{kind}: not cut off"
        assert holder.held(), kind
    assert agent.running
    holder.release()


@scenario("the agent lets no guardian in that has another's cookie")
def stranger(run):
    run.redis(3)
    agent = run.agent()
    holder = run.holder()
    holder.acquire("kept")
    assert run.spawn(BUILD / "tests" / "breaker", socket_of(run, agent), "stranger", label="breaker").wait() == 0
    holder.release()


@scenario("500 processes attach at once, to an agent that stands still just then: all are let in", sanitizers=False)
def at_once(run):
    run.redis(1)
    agent = run.agent()
    agent.sigstop()
    crowd = run.spawn(BUILD / "tests" / "breaker", socket_of(run, agent), "at-once", 500, label="crowd")
    time.sleep(0.5)
    agent.sigcont()
    assert crowd.wait() == 0, crowd.err
    assert counters(run)["client_violations"] == 0


@scenario("answers that a client is slow to read all come, in order")
def unread_answers(run):
    run.redis(1)
    agent = run.agent()
    for count in (33, 1000):
        breaker = run.spawn(BUILD / "tests" / "breaker", socket_of(run, agent), "unread", count, label="unread")
        assert breaker.wait() == 0, count


@scenario("an event loop hears of all its grants, also of those that had to wait for room in the ring")
def grants_that_overflow(run):
    count = 100  # a ring has 32 places
    run.redis(1)
    run.agent()
    holder = run.holder()
    for i in range(count):
        holder.cmd("start", f"name-{i}", 0, -1)
        if i % 20 == 19:  # the other ring must not fill up
            wait_until(lambda: counters(run)["grants"] == i + 1)
    holder.cmd("dispatch", 1000 * SLOW)  # only when its descriptor says so
    for i in reversed(range(count)):  # asking reads a ring's worth by itself: the last first
        try:
            holder.cmd("result", i, 0)
        except HolderError as error:
            raise AssertionError(f"nobody told it of grant {i}: {error}") from None


@scenario("an agent that nobody asks any more sleeps, also where it never looks for what comes next", sanitizers=False)
def busy_poll(run):
    run.redis(3)
    for microseconds in (1000, 0):
        agent = run.agent(f"poll-{microseconds}", options=("--busy-poll-us", microseconds))
        holder = run.holder(agent)
        for i in range(100):
            holder.acquire("again")
            holder.release()
        time.sleep(0.1)
        before = cpu_s(agent)
        time.sleep(1)
        spent = cpu_s(agent) - before
        assert spent < 0.3, f"{spent} s of processor time in a second without a request"
        holder.acquire("again")  # its bell is heard
        holder.release()
        agent.stop()


@scenario("an agent without descriptors waits for some, and does not spin")
def no_descriptors(run):
    run.redis(1)
    agent = run.agent()
    holder = run.holder()
    holder.acquire("held")
    open_fds = {int(fd) for fd in os.listdir(f"/proc/{agent.pid}/fd")}
    limit = min(fd for fd in range(len(open_fds) + 1) if fd not in open_fds)
    subprocess.run(["prlimit", f"--pid={agent.pid}", f"--nofile={limit}:"], check=True)
    more = [run.holder(connect=False, label=f"more-{i}") for i in range(4)]
    for one in more:
        one.send("connect")
    agent.wait_err("no descriptors")
    before = cpu_s(agent)
    time.sleep(1)
    spent = cpu_s(agent) - before
    assert spent < 0.5, f"{spent:.2f} s of CPU in one second"
    assert holder.held()
    subprocess.run(["prlimit", f"--pid={agent.pid}", f"--nofile={limit + 200}:"], check=True)
    late = run.holder(label="late", connect=False)
    wait_until(lambda: connects(late), what="a client comes in again")


def connects(holder):
    with contextlib.suppress(HolderError):
        holder.connect()
        return True
    return False


@scenario("40 waiters of one client get the lock one after the other, while it releases")
def forty_waiters(run):
    run.redis(3)
    run.agent()
    holder = run.holder()
    first = holder.acquire("queue")
    ops = [holder.cmd("start", "queue", 0, -1)["op"] for _ in range(40)]
    fences = [first["fence"]]
    lease = first["lease"]
    started = time.monotonic()
    for op in ops:
        holder.release(lease)
        got = holder.cmd("result", op, 10_000)
        fences.append(got["fence"])
        lease = got["lease"]
    assert fences == sorted(set(fences)), "first come, first served, and fences rise"
    assert time.monotonic() - started < 8 * SLOW
    holder.release(lease)
    run.keys_gone("queue")


@scenario("100 acquires of other names from one client are all granted while 40 of its waiters wait")
def waiters_leave_room(run):
    run.redis(3)
    run.agent()
    owner, holder = run.holder(label="owner"), run.holder()
    owner.acquire("busy")
    for _ in range(40):
        holder.send("start", "busy", 0, -1)
        holder.answer()
    started = time.monotonic()
    holder.cmd("many", 100, "free-", 0)
    assert time.monotonic() - started < 5 * SLOW
    ops = [holder.cmd("start", f"bulk-{i}", 0, -1)["op"] for i in range(200)]
    for op in ops:
        holder.cmd("result", op, 10_000)


@scenario("a cancel that crosses its grant: the lease goes, though the client never looks again")
def cancel_crosses_grant(run):
    run.redis(3)
    run.agent(ttl="12s", options=["--ttl-max", "12s"])
    holder = run.holder()
    for turn in range(100):
        holder.cmd("start", f"crossed/{turn}", 0, -1)
        time.sleep(turn % 10 * 0.0003)
        holder.cmd("cancel")
    wait_until(lambda: not run.nodes[0].cmd("KEYS", "crossed/*"), timeout_s=8 * SLOW,
               what="no key of a cancelled acquire is left (its TTL is longer than this wait)")


@scenario("waiters of a client that ends are gone, those of others are served")
def waiters_of_the_dead(run):
    run.redis(3)
    run.agent()
    owner, dead, heir = (run.holder(label=label) for label in ("owner", "dead", "heir"))
    lease = owner.acquire("wanted")["lease"]
    for _ in range(30):
        dead.cmd("start", "wanted", 0, -1)
    heir.send("acquire", "wanted", 0, 20_000)
    time.sleep(0.2)
    owner.release(lease)
    time.sleep(0.05)
    dead.kill()
    assert heir.answer()["fence"] > 0
    heir.release()
    run.keys_gone("wanted")


@scenario("waiters of one host get the lock in the order in which they came")
def in_order(run):
    run.redis(3)
    run.agent()
    owner = run.holder(label="owner")
    owner.acquire("queued")
    waiters = [run.holder(label=f"waiter{i}") for i in range(4)]
    for i, waiter in enumerate(waiters):
        waiter.send("acquire", "queued", 0, 20_000)
        wait_until(lambda count=i + 1: counters(run)["waiters"] == count, what=f"{i + 1} wait")
    owner.release()
    fences = []
    for waiter in waiters:
        fences.append(waiter.answer()["fence"])
        waiter.release()
    assert fences == sorted(fences), fences


# --- tries and waits -------------------------------------------------------------------------------------


@scenario("many tries at once of a lock of another host end soon, busy, and say who has it")
def many_tries(run):
    run.redis(3)
    run.agent("a")
    other = run.agent("b")
    owner = run.holder(other, label="owner")
    owner.acquire("elsewhere")
    holder = run.holder()
    started = time.monotonic()
    ops = [holder.cmd("start", "elsewhere", 0, 0)["op"] for _ in range(200)]
    codes = {refused(lambda op=op: holder.cmd("result", op, 10_000)).code for op in ops}
    passed = time.monotonic() - started
    assert len(codes) == 1, codes
    assert passed < 3 * SLOW, f"{passed:.2f} s"
    rounds = sum(node.calls("evalsha") for node in run.nodes) / 3
    print(f"# 200 tries took {passed * 1000:.0f} ms and {rounds:.0f} scripts a node")


@scenario("the second of two waiters is told who has the lock, too, and its wait ends as one")
def second_waiter(run):
    run.redis(3)
    run.agent("a")
    other = run.agent("b")
    owner = run.holder(other, label="owner")
    owner.acquire("elsewhere", 0, -1, "noted")
    first = run.start_holdfast("run", "-w", "20", "elsewhere", "true")
    time.sleep(0.3)
    second = run.holdfast("run", "-w", "1", "elsewhere", "true")
    assert second.rc == 75, second
    assert str(owner.pid) in second.err, second
    owner.release()
    assert first.wait() == 0, first.err


@scenario("a waiter that saw too few nodes, and then a holder, ends as busy")
def waiter_after_outage(run):
    run.redis(3)
    run.agent("a", ttl="3s")
    other = run.agent("b", ttl="3s")
    owner = run.holder(other, label="owner")
    owner.acquire("elsewhere")
    for node in run.nodes[:2]:
        node.sigstop()
    waits = [run.start_holdfast("run", "-w", "4", "elsewhere", "true") for _ in range(2)]
    time.sleep(0.5)
    for node in run.nodes[:2]:
        node.sigcont()
    assert owner.held()
    for wait in waits:
        assert wait.wait() == 75, wait.err


@scenario("a wait that ends while nodes keep silent ends as one for nodes, not for a holder")
def silent_nodes(run):
    run.redis(3)
    run.agent()
    for node in run.nodes[:2]:
        node.sigstop()
    result = run.holdfast("run", "-w", "1", "free", "true")
    assert result.rc == 69, result
    for node in run.nodes[:2]:
        node.sigcont()
    assert run.holdfast("run", "-w", "10", "free", "true").rc == 0
    run.keys_gone("free")


# --- agents that end -------------------------------------------------------------------------------------


@scenario("kill -9 of the agent and a new one within V: the lease is kept, and released afterwards")
def killed_and_back(run):
    run.redis(3)
    agent = run.agent()
    holder = run.holder()
    holder.acquire("kept")
    token = run.nodes[0].get("kept")
    agent.kill()
    assert holder.held()
    run.agent()
    time.sleep(0.3)
    assert holder.held()
    assert [node.get("kept") for node in run.nodes] == [token] * 3
    holder.release()
    run.keys_gone("kept")
    assert run.holder().cmd("try", "kept")["fence"] > 0


@scenario("kill -9 of the agent: a waiter gets its lock from the next one")
def waiter_survives(run):
    run.redis(3)
    agent = run.agent()
    owner, waiter = run.holder(label="owner"), run.holder(label="waiter")
    fence = owner.acquire("wanted")["fence"]
    waiter.send("acquire", "wanted", 0, 30_000)
    time.sleep(0.2)
    agent.kill()
    run.agent()
    time.sleep(0.2)
    owner.release()
    assert waiter.answer()["fence"] > fence
    assert waiter.held()
    waiter.release()
    run.keys_gone("wanted")


@scenario("an agent that comes back after V: the lease is lost, and its keys go")
def back_too_late(run):
    run.redis(3)
    agent = run.agent(ttl="2s")
    holder = run.holder()
    holder.acquire("lost")
    agent.kill()
    wait_until(lambda: not holder.held(), 5, "the lease ends")
    run.agent(ttl="2s")
    assert not holder.held()
    assert holder.cmd("state")["value"] == LOST
    run.keys_gone("lost")
    assert run.holder().cmd("try", "lost")["fence"] > 0


@scenario("SIGTERM and a new agent: the lease is kept")
def restarted(run):
    run.redis(3)
    agent = run.agent()
    holder, waiter = run.holder(), run.holder(label="waiter")
    fence = holder.acquire("kept")["fence"]
    for _ in range(3):
        agent.stop()
        assert holder.held()
        agent = run.agent()
    assert holder.held()
    assert run.show("kept")["fence"] == str(fence)
    waiter.send("acquire", "kept", 0, 20_000)
    time.sleep(0.2)
    holder.release()
    assert waiter.answer()["fence"] > fence


@scenario("SIGTERM with an unanswered acquire of a stopped node: leases are kept, and the end comes soon")
def stopped_node_and_term(run):
    run.redis(3)
    agent = run.agent()
    run.nodes[2].sigstop()
    holder = run.holder()
    holder.acquire("kept")
    started = time.monotonic()
    agent.stop()
    assert time.monotonic() - started < 2.5 * SLOW
    run.agent()
    assert holder.held()
    run.nodes[2].sigcont()
    holder.release()
    run.keys_gone("kept")


@scenario("a holder that dies while there is no agent: the next one gives its lock back")
def died_meanwhile(run):
    run.redis(3)
    agent = run.agent()
    holder = run.holder()
    holder.acquire("orphan")
    agent.kill()
    holder.kill()
    run.agent()
    run.keys_gone("orphan")
    assert run.holder().cmd("try", "orphan")["fence"] > 0


@scenario("a holder that dies after the agent's restart, before it came back to it: its lock is given back")
def died_as_ghost(run):
    run.redis(3)
    agent = run.agent()
    holder = run.holder()
    holder.acquire("orphan")
    agent.kill()
    run.agent()
    assert run.holders_of("orphan") == 3
    holder.kill()
    run.keys_gone("orphan")


@scenario("after the agent's restart a guardian comes and goes before its holder is back: the lease is kept")
def guardian_of_a_ghost(run):
    run.redis(3)
    agent = run.agent()
    joiner = run.spawn(BUILD / "tests" / "joiner", "guarded", 2000, label="joiner", stdin=subprocess.PIPE)
    joiner.wait_out("ready")
    agent.kill()
    run.agent()
    joiner.popen.stdin.write(b"\n")
    joiner.popen.stdin.flush()
    assert joiner.wait() == 0, joiner.err
    run.keys_gone("guarded")


@scenario("a client that disconnects while the agent is started again: its lease goes, though its process lives on")
def disconnected_meanwhile(run):
    run.redis(3)
    agent = run.agent()
    holder = run.holder()
    holder.acquire("left")
    agent.kill()
    holder.send("disconnect")
    run.agent()
    holder.answer()
    run.keys_gone("left")
    assert holder.running


@scenario("kill -9 in the middle of acquires: what was half won is undone by the next agent")
def killed_in_acquire(run):
    run.redis(3)
    for turn in range(5):
        agent = run.agent()
        holder = run.holder(label=f"holder-{turn}")
        for node in run.nodes[:2]:  # one vote is won, the round cannot be decided
            node.sigstop()
        holder.send("acquire", f"half-{turn}", 0, 20_000)
        wait_until(lambda turn=turn: run.nodes[2].get(f"half-{turn}"), what="one node has it")
        agent.kill()
        holder.kill()
        for node in run.nodes[:2]:
            node.sigcont()
        agent = run.agent()
        run.keys_gone(f"half-{turn}")
        agent.stop()


@scenario("a second agent of the same name is refused, and harms nobody")
def second_agent(run):
    run.redis(3)
    agent = run.agent()
    holder = run.holder()
    holder.acquire("kept")
    second = run.agent(wait=False)
    run.agents.remove(second)
    assert second.wait() == 75, second.err
    assert str(agent.pid) in second.err
    assert int((run.runtime_dir / agent.name / "lock").read_text()) == agent.pid
    assert holder.held()
    holder.release()


def table_of(agent):
    table, = [path for path in pathlib.Path("/dev/shm").iterdir() if path.name.endswith(f".{agent.name}")]
    return table


def refused_second(run, agent, label="a"):
    second = run.agent(label, wait=False)
    run.agents.remove(second)
    assert second.wait() == 75 and f"pid {agent.pid}" in second.err, second.err
    return second.err


@scenario("whatever was removed, a second agent takes no file over that a living one writes; where all are gone the nodes keep them apart")
def removed_files(run):
    run.redis(3)
    agent = run.agent(ttl="6s")
    agent.kill()
    run.agents.remove(agent)
    agent = run.agent(ttl="6s")  # it owns files that it has not made
    directory, table = run.runtime_dir / agent.name, table_of(agent)
    holder = run.holder()
    holder.acquire("kept")
    for name in ("lock", "journal"):
        (directory / name).unlink(missing_ok=True)
        table.unlink(missing_ok=True)
        error = refused_second(run, agent)
        assert f"a living agent writes {directory}/{'journal' if name == 'lock' else 'nodes'}" in error, error
        assert sorted(path.name for path in directory.iterdir() if path.name in ("journal", "journal.new")) == (
            ["journal"] if name == "lock" else []), list(directory.iterdir())
        assert holder.held()
    (directory / "nodes").unlink()
    run.agent(ttl="6s")
    other = run.holder(label="other")
    until = time.monotonic() + 7
    while time.monotonic() < until:  # longer than the first one's V
        assert "held" in refused(lambda: other.cmd("try", "kept")).text and holder.held()
        time.sleep(0.2)
    holder.release()
    other.acquire("kept")
    other.release()


@scenario("a living agent's journal, or what it knows of the nodes, moved into another agent's directory: that one refuses to start")
def moved_files(run):
    run.redis(3)
    agent = run.agent()
    other = run.agent("b")
    other.stop()
    run.agents.remove(other)
    holder = run.holder(agent)
    holder.acquire("kept")
    for name in ("journal", "nodes"):
        ours, theirs = run.runtime_dir / agent.name / name, run.runtime_dir / other.name / name
        ours.rename(theirs)
        assert f"a living agent writes {theirs}" in refused_second(run, agent, "b")
        theirs.rename(ours)
        assert holder.held()
    agent.kill()
    run.agents.remove(agent)
    agent = run.agent(fresh=False)
    assert holder.held()
    holder.release()


@scenario("a second agent of the same name in another directory is refused with the first one's pid and directory, and harms nobody")
def second_directory(run):
    run.redis(3)
    agent = run.agent()
    directory = run.runtime_dir / agent.name
    holder = run.holder()
    holder.acquire("kept")
    other = run.dir / "other"
    argv = [other if arg == run.runtime_dir else arg for arg in run.agent_argv()]
    for more in ([], ["--dev"]):
        second = run.spawn(*(argv if not more else [*argv[:5], *more]), label="second")
        assert second.wait() == 75, second.err
        assert f"pid {agent.pid}, in {directory}" in second.err, second.err
    hidden = run.spawn("unshare", "--pid", "--fork", "--mount-proc", *argv, label="hidden") if IS_ROOT else None
    if hidden:  # no number of a process is asked
        assert hidden.wait() == 75 and f"in {directory}" in hidden.err, hidden.err
    assert holder.held()
    assert run.holdfast("run", "-n", "job", "true").rc == 0, "the table is another one"

    # Whoever looks in the other directory is told where the agent is.
    there = {"HOLDFAST_RUNTIME_DIR": other}
    status, tried, doctor = (run.holdfast(*args, env=there) for args in (("status",), ("run", "-n", "job", "true"), ("doctor",)))
    for result, code in ((status, 3), (tried, 69), (doctor, 3)):
        assert result.rc == code and str(directory) in result.out + result.err, result
    here = run.holdfast("status", "--json").json["agent"]
    listed = run.holdfast("agents", "--json").json["agents"]
    assert here["directory"] == str(directory) and [one["directory"] for one in listed] == [str(directory)]
    assert f"directory {directory}" in run.holdfast("status").out
    holder.release()

    # An agent that was killed keeps nobody away.
    agent.kill()
    third = run.spawn(*argv, label="third")
    third.wait_err(r"holdfastd: (\w+: )?ready")
    third.signal(signal.SIGTERM)
    assert third.wait() == 0, third.err


@scenario("a run whose outer guardian dies without an agent: no other has the lock before the job is dead")
def run_without_agent(run):
    run.redis(3)
    agent = run.agent(ttl="4s")
    pid_file = run.dir / "job.pid"
    job = run.start_holdfast("run", "guarded", "sh", "-c", f"echo $$ > {pid_file}; sleep 60")
    wait_until(lambda: pid_file.exists() and pid_file.read_text().strip(), what="the job runs")
    job_pid = int(pid_file.read_text())
    agent.kill()
    job.kill()
    run.agent(ttl="4s")
    waiter = run.holder(label="waiter")
    waiter.acquire("guarded", 0, 20_000)
    assert not os.path.exists(f"/proc/{job_pid}") or "Z" in open(f"/proc/{job_pid}/stat").read().rpartition(")")[2][:3]


@scenario("SIGTERM of a --dev agent stops its jobs first")
def dev_ends_jobs(run):
    agent = run.dev_agent()
    term = run.dir / "term"
    job = run.start_holdfast("run", "job", "sh", "-c", f"trap 'echo > {term}; exit 0' TERM; while :; do sleep 0.05; done")
    holder = run.holder()
    holder.acquire("held")
    wait_until(lambda: run.show("job"), what="the job has its lock")
    time.sleep(0.3)
    started = time.monotonic()
    agent.stop()
    assert time.monotonic() - started < 10 * SLOW
    assert job.wait() == 124, (job.wait(), job.err)
    assert term.exists()
    assert not holder.held()


@scenario("kill -9 of a --dev agent: the next one tells its leases lost")
def dev_killed(run):
    agent = run.dev_agent()
    holder = run.holder()
    holder.acquire("held")
    agent.kill()
    run.dev_agent()
    wait_until(lambda: not holder.held(), 3, "it is told lost")
    other = run.holder(label="other")
    assert other.acquire("held", 0, 10_000)["fence"] > 0


@scenario("kill -9 of a --dev agent under a job: no other has its lock while the job's tree may live")
def dev_killed_under_a_job(run):
    agent = run.dev_agent()
    pid = run.dir / "pid"
    job = run.start_holdfast("run", "job", "sh", "-c", f"echo $$ >{pid}.new; mv {pid}.new {pid}; exec sleep 120")
    wait_until(pid.exists, what="the job runs")
    sleeper = int(pid.read_text())
    inner = int(pathlib.Path(f"/proc/{sleeper}/stat").read_text().rpartition(")")[2].split()[1])
    job.sigstop()
    os.kill(inner, signal.SIGSTOP)
    agent.kill()
    agent = run.dev_agent()
    tried = run.holdfast("run", "-n", "job", "true")
    assert alive(sleeper) and tried.rc == 75, tried
    job.sigcont()
    os.kill(inner, signal.SIGCONT)
    assert job.wait() == 124, (job.wait(), job.err)
    assert not alive(sleeper)


def released_at_its_end(run, holder, name):
    """No sooner than its holder believes in it, and then soon."""
    while holder.held():
        before = run.holders_of(name)
        assert not holder.held() or before >= 2, "released while its holder may believe in it"
        time.sleep(0.05)
    run.keys_gone(name, 10)


@scenario("an old lease whose table was removed is not readopted, nor released before its end, by three agents in a row")
def table_removed(run):
    run.redis(3)
    agent = run.agent(ttl="6s")
    holder = run.holder()
    holder.acquire("believed")
    agent.kill()
    tables = [path for path in pathlib.Path("/dev/shm").iterdir() if agent.name in path.name]
    assert len(tables) == 1, tables
    tables[0].unlink()
    agent = run.agent(ttl="6s", wait=False)
    agent.wait_err("from an earlier agent")
    agent.kill()
    agent = run.agent(ttl="6s", wait=False)
    agent.wait_err("from an earlier agent")
    agent.stop()
    agent = run.agent(ttl="6s", wait=False)
    agent.wait_err("from an earlier agent")
    other = run.holder(label="other", connect=False)
    wait_until(lambda: connects(other), what="it can attach")
    started = time.monotonic()
    error = refused(lambda: other.cmd("try", "believed"))
    assert "may be in use" in error.text and time.monotonic() - started < 1, error
    released_at_its_end(run, holder, "believed")


@scenario("a copy of the table in its place is not the one that holders read: their leases end at their V, told as lost")
def table_copied(run):
    run.redis(3)
    agent = run.agent(ttl="3s")
    holder = run.holder()
    holder.acquire("believed")
    agent.kill()
    table, = [path for path in pathlib.Path("/dev/shm").iterdir() if agent.name in path.name]
    copy = table.with_name(f"{table.name}-copy")
    subprocess.run(["cp", table, copy], check=True)  # with its holes
    copy.rename(table)
    agent = run.agent(ttl="3s", wait=False)
    agent.wait_err("is a copy of a table")
    released_at_its_end(run, holder, "believed")


# --- nodes -----------------------------------------------------------------------------------------------


@scenario("a node that cannot write its sentinel is not asked without pause")
def unwritable_node(run):
    full = run.redis(3)[2]
    run.found()
    full.cmd("FLUSHALL")
    full.cmd("CONFIG", "SET", "min-replicas-to-write", "1")
    agent = run.agent()
    before, calls = cpu_s(agent), full.calls("evalsha")
    time.sleep(2)
    spent, asked = cpu_s(agent) - before, full.calls("evalsha") - calls
    assert asked < 50 and spent < 1, f"{asked} scripts and {spent:.2f} s of CPU in two seconds"
    holder = run.holder()
    holder.acquire("works")
    holder.release()


@scenario("constants that differ: refused with 78, also when the nodes were flushed; --reset-fleet after a drain makes ours the "
          "fleet's")
def fleet_differs(run):
    run.redis(3)
    run.agent("a", options=["--ttl-max", "40s"]).stop()
    ours = ["--ttl-max", "2s"]
    agent = run.agent("b", wait=False, ttl="2s", options=ours)
    agent.wait_err("ttl_max is 40000 ms on node")
    result = run.holdfast("run", "-n", "job", "true", agent=agent)
    assert result.rc == 78 and "40000 ms" in result.err and "2000 ms here" in result.err, result
    for node in run.nodes:
        node.cmd("FLUSHALL")
    for _ in range(20):
        result = run.holdfast("run", "-n", "job", "true", agent=agent)
        assert result.rc == 78, result
        time.sleep(0.1)
    agent.stop()
    run.agent("c", ttl="2s", options=[*ours, "--reset-fleet"])
    assert run.holdfast("run", "-n", "job", "true", agent=run.agents[-1]).rc == 0
    assert run.holdfast("run", "-n", "job", "true", agent=run.agent("d", ttl="2s", options=ours)).rc == 0


@scenario("key formats that differ do not exclude each other: such an agent grants nothing and says which has what",
          sanitizers=False)
def formats_differ(run):
    run.redis(3)
    short = ("--ttl-max", "2s")
    plain = run.agent("a", ttl="2s", options=short)
    ours = ("--key-format-for", "orders/* redlock:%s", *short)
    agent = run.agent("b", wait=False, ttl="2s", options=ours)
    agent.wait_err("have no key_format, key_format_for or database, and this host has one")
    result = run.holdfast("run", "-n", "orders/1", "true", agent=agent)
    assert result.rc == 78 and "key_format" in result.err, result
    for stopped in (agent, plain):
        stopped.stop()
    run.agent("c", ttl="2s", options=(*ours, "--reset-fleet"))
    other = run.agent("d", wait=False, ttl="2s", options=("--key-format", "lock:%s", *short))
    other.wait_err("have another key_format, key_format_for or database than this host")
    run.agent("e", ttl="2s", options=ours)


@scenario("one server named twice has one vote, also each time that it comes back")
def duplicate(run):
    first, second, third = run.redis(3)
    path = run.dir / "twin"
    nodes = [first, f"twin=unix:{path}", second]
    path.symlink_to(f"{third.dir}/sock")
    run.found(nodes)
    path.unlink()
    path.symlink_to(f"{first.dir}/sock")
    agent = run.agent(nodes=nodes)
    agent.wait_err("same server")
    holder = run.holder()
    holder.acquire("both")
    holder.release()
    second.stop()
    for _ in range(5):
        first.cmd("CLIENT", "KILL", "TYPE", "normal")
        for _ in range(30):
            refused(lambda: holder.cmd("try", "once"))


if __name__ == "__main__":
    main()
