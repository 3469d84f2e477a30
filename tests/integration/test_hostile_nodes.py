#!/usr/bin/env python3
"""One node of three means ill: what it gets of an agent's memory and time, and what the others' locks notice."""
import contextlib
import os
import pathlib
import re
import socket
import ssl
import statistics
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from certificates import Authority  # noqa: E402
from events import history  # noqa: E402
from hostile_node import HostileNode  # noqa: E402
from rig import BUILD, SLOW, HolderError, agent_env, main, scenario, wait_until  # noqa: E402
from views import counters, node_rows, wait_node  # noqa: E402

MIB = 1024 * 1024


def resident(process):
    return 1024 * int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{process.pid}/status").read_text()).group(1))


def processor_time(process):
    """Seconds."""
    fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def beside(run, *does, ttl="3s", options=(), **more):
    """An agent of three nodes, of which the third does what is said (hostile_node.py)."""
    run.redis(3, tcp=True)
    run.found()
    with HostileNode(run.nodes[2].address, *does, **more) as hostile:
        yield hostile, run.agent(nodes=[*run.nodes[:2], hostile.spec(run.nodes[2])], ttl=ttl, options=options, wait=False).wait_ready()


def locks_well(run, agent=None):
    holder = run.holder(agent)
    holder.acquire("job")
    began = time.monotonic()
    while time.monotonic() < began + 3:
        assert holder.held()
        time.sleep(0.05)
    holder.release()
    holder.close()


def endless(run, does, command="EVALSHA"):
    with beside(run, does, command) as (hostile, agent):
        before = resident(agent)
        locks_well(run)
        wait_until(lambda: hostile.begun, what="it begins")
        time.sleep(1)
        assert resident(agent) - before < 8 * MIB * SLOW, f"{before} bytes and {resident(agent)}"
        # The sockets have room for some of it, too.
        assert hostile.sent < hostile.begun * 12 * MIB, (hostile.sent, hostile.begun)
        assert hostile.begun < 20, f"it is connected to without pause: {hostile.begun}"
        told = [line for line in agent.err.splitlines() if "longer than" in line]
        assert 1 <= len(told) <= 5, told
        return told


for kind in ("bulk", "line", "nest"):
    @scenario(f"an answer without end ({kind}): the connection ends within 1 MiB, it is told, and locks go on")
    def answer_without_end(run, kind=kind):
        bound = "a line of an answer is longer than 16 KiB" if kind == "line" else "an answer is longer than 1 MiB"
        assert bound in endless(run, kind)[0]
        assert node_rows(run)["n3"]["state"] == "down"


@scenario("a notice without end: its connection ends within 64 KiB, it is told once, and locks go on")
def notice_without_end(run):
    told = endless(run, "bulk", "SUBSCRIBE")
    assert len(told) == 1 and "a notice is longer than 64 KiB" in told[0], told
    assert node_rows(run)["n3"]["state"] == "up"


@scenario("notices without end: the agent reads few of them, ends the connection, tells it once, and locks go on", sanitizers=False)
def flood_of_notices(run):
    with beside(run, "flood", "SUBSCRIBE") as (hostile, agent):
        wait_until(lambda: hostile.begun, what="it begins")
        began, used = time.monotonic(), processor_time(agent)
        time.sleep(4)
        share = (processor_time(agent) - used) / (time.monotonic() - began)
        print(f"# {share:.3f} processors, {hostile.sent / 1e6:.1f} MB of notices")
        agent.wait_err("node n3 does not tell of changed keys .*more notices than", 60)
        locks_well(run)
        assert share < 0.3, share
        assert agent.err.count("more notices than") == 1, agent.err
        assert node_rows(run)["n3"]["state"] == "up"


@scenario("one node tells of flush after flush: an agent with 1,000 leases and as many waits passes on ten a second, serves others as before, "
          "and ends the connection", sanitizers=False)
def flush_after_flush(run):
    many, options = 1000, ["--capacity", 3000]

    def bench(agent, *args):
        return run.spawn(BUILD / "bin" / "bench", *args, stdin=subprocess.PIPE, label="-".join(map(str, args[:2])), env=agent_env(agent))

    def acquires():
        """Milliseconds, and processors of the agent."""
        took, began, used = [], time.monotonic(), processor_time(agent)
        while time.monotonic() < began + 3:
            before = time.monotonic()
            holder.acquire("other")
            took.append(1e3 * (time.monotonic() - before))
            holder.release()
            time.sleep(0.01)
        return statistics.median(took), (processor_time(agent) - used) / (time.monotonic() - began)

    with beside(run, "flushes", "SUBSCRIBE", ttl="30s", options=options) as (hostile, agent):
        bench(agent, "hold", agent.name, "held", 0, many).wait_out('"bench":"hold"', 60)
        other = run.agent("b", ttl="30s", options=options)
        bench(other, "queue", "hold", other.name, "waited", many).wait_out("ready", 60)
        bench(agent, "queue", "wait", agent.name, "waited", many).wait_out("ready", 60)
        holder = run.holder(agent)
        quiet, quiet_share = acquires()
        before, began, hostile.bad = counters(run, agent), time.monotonic(), True
        took, share = acquires()
        told = counters(run, agent)["held_notices"] - before["held_notices"]
        print(f"# an acquire {quiet:.2f} ms, {took:.2f} ms; processors {quiet_share:.3f}, {share:.3f}; {told} of {hostile.sent // 98} flushes told")
        assert 2 <= told <= 10 * (time.monotonic() - began) + 3, told
        assert took < 5 * quiet + 10 * SLOW, (quiet, took)
        agent.wait_err("node n3 does not tell of changed keys .*more notices than", 30)


@scenario("--check-config asks a node that answers without end: it says so")
def checked(run):
    run.redis(3, tcp=True)
    with HostileNode(run.nodes[2].address, "bulk", "INFO") as hostile:
        path = run.dir / "holdfast.conf"
        path.write_text("".join(f"node = {spec}\n" for spec in [*(node.spec for node in run.nodes[:2]), hostile.spec(run.nodes[2])]))
        path.chmod(0o600)
        process = run.spawn(BUILD / "bin" / "holdfastd", "--check-config", path, label="check")
        process.wait()
        assert "an answer is longer than 1 MiB" in process.out + process.err, process.out + process.err


@scenario("a listing without end: list --all-hosts ends, and names the node, with what the others have")
def listing_without_end(run):
    run.redis(3, tcp=True)
    run.found()
    with HostileNode(run.nodes[2].address, "round") as hostile:
        run.agent(nodes=[*run.nodes[:2], hostile.spec(run.nodes[2])])
        holder = run.holder()
        holder.acquire("job")
        listed = run.holdfast("list", "--all-hosts", timeout_s=20 * SLOW)
        assert hostile.begun and listed.rc == 0 and "job" in listed.out, listed
        assert "only 2 of 3 nodes could be listed: node n3 does not end its listing; " in listed.err, listed
        assert holder.held()


@scenario("a listing of ever more names: list --all-hosts waits for the other nodes with little memory, has their locks, and names the node",
          sanitizers=False)
def listing_of_ever_more(run):
    run.redis(3, tcp=True)
    run.found()
    run.nodes[1].cmd("EVAL", "for i = 1, 4000 do redis.call('SET', 'other' .. i, 'x') end", 0)  # some ten pages
    with HostileNode(run.nodes[1].address, "late") as late, HostileNode(run.nodes[2].address, "names") as hostile:
        run.agent(nodes=[run.nodes[0], late.spec(run.nodes[1]), hostile.spec(run.nodes[2])])
        holder = run.holder()
        holder.acquire("job")
        began = time.monotonic()
        command = run.start_holdfast("list", "--all-hosts", "--json")
        most = 0

        def ended():
            nonlocal most
            with contextlib.suppress(OSError, AttributeError):  # it has ended
                status = pathlib.Path(f"/proc/{command.pid}/status").read_text()
                most = max(most, int(re.search(r"VmHWM:\s+(\d+)", status).group(1)))
            return not command.running

        wait_until(ended, 20, "it ends")
        names = hostile.begun  # thousands
        print(f"# {time.monotonic() - began:.1f} s, {most / 1024:.0f} MB, {names},000 names of the bad node")
        listed = run.holdfast("list", "--all-hosts")
        assert listed.rc == 0 and "job" in listed.out, listed
        assert ("only 2 of 3 nodes could be listed: node n3 names more than 100000 locks that no other node has; "
                "find out what answers at its address") in listed.err, listed
        assert 100 < names <= 102, names
        assert most < 200 * 1024, most
        # What it alone names is not said of it either.
        answer = run.holdfast("list", "--all-hosts", "--json").json
        found = [(lease["name"], lease["holding"]) for lease in answer["leases"]]
        assert found == [("job", 2)] and answer["listed"] == 2, (found[:3], answer["listed"])
        assert holder.held()


@scenario("a node that hangs up at each acquire is tried again ever later, tells little in the log, and pushes nothing out of the history",
          sanitizers=False)
def hangs_up(run):
    with beside(run, "hang up") as (hostile, agent):
        wait_node(run, "n3", state="up")
        assert run.holdfast("drain").rc == 0 and run.holdfast("undrain").rc == 0
        began = time.monotonic()
        assert run.holder().cmd("cycle", 4000, "job", 3000, 3000, 1000)["done"] == 4000
        took_s = time.monotonic() - began
        assert 3 <= hostile.begun < 12 + 2 * took_s, f"{hostile.begun} connections in {took_s:.0f} s"
        assert agent.err.count("n3 is ") < 70, agent.err
        assert {"drained", "undrained"} <= {event["event"] for event in history(run)}, "pushed out"


@scenario("a node on which no script runs is not shown as one that votes, though plain commands do", sanitizers=False)
def no_scripts(run):
    with beside(run, "error") as (hostile, _):
        wait_node(run, "n3", state="up")
        hostile.bad = True
        wait_node(run, "n3", state="unwritable")
        assert "2 of 3 vote" in run.holdfast("status").out
        assert "no script runs here" in run.holdfast("doctor").out
        hostile.bad = False
        wait_node(run, "n3", state="up")


@scenario("a node that refuses releases is asked by one at a time, doctor and the counts of errors tell, and it gets them when it takes them",
          sanitizers=False)
def no_release(run):
    def told():
        return [f for f in run.holdfast("doctor", "--json").json["findings"] if f["check"] == "node.releases"]

    with beside(run, "no release", ttl="30s") as (hostile, agent):
        wait_node(run, "n3", state="up")
        hostile.bad = True
        assert run.holder().cmd("cycle", 1000, "job", 30000, 3000, 1000)["done"] == 1000
        time.sleep(1)
        before, began, used = hostile.begun, time.monotonic(), processor_time(agent)
        time.sleep(3)
        took = time.monotonic() - began
        print(f"# {hostile.begun - before} releases in {took:.1f} s, {(processor_time(agent) - used) / took:.3f} processors")
        assert 1 <= hostile.begun - before <= 15 * took, hostile.begun - before
        finding, = wait_until(told, what="doctor tells")
        assert "n3 refuses releases" in finding["text"] and "no release here" in finding["text"], finding
        assert node_rows(run)["n3"]["errors"] >= before, (node_rows(run)["n3"], before)
        assert agent.err.count("n3 refuses releases") <= 3, agent.err
        hostile.bad = False
        wait_until(lambda: not told(), what="doctor has nothing to tell")
        wait_until(lambda: not [key for key in run.nodes[2].cmd("KEYS", "*") if not key.startswith(b"holdfast:")], 10, "the keys are gone")


@scenario("INFO of half a million lines, and scripts that are never there: the connection ends, the log says why, and it comes back ever later",
          sanitizers=False)
def long_info(run):
    with beside(run, "long info", ttl="30s") as (hostile, agent):
        wait_node(run, "n3", state="up")
        hostile.bad = True
        began, used = time.monotonic(), processor_time(agent)
        assert run.holder().cmd("cycle", 1000, "job", 30000, 3000, 1000)["done"] == 1000
        took = time.monotonic() - began
        time.sleep(max(0, 3 - took))
        took = time.monotonic() - began
        print(f"# {hostile.begun} INFOs in {took:.1f} s, {(processor_time(agent) - used) / took:.3f} processors")
        agent.wait_err("node n3 is down: protocol: its answer to INFO is longer than 64 KiB", 10)
        assert 2 <= hostile.begun <= 4 + 2 * took, hostile.begun  # of two connections
        assert node_rows(run)["n3"]["state"] == "down"


@scenario("INFO of half a million lines from the beginning: few connections, though none ever stood", sanitizers=False)
def long_info_first(run):
    run.redis(3, tcp=True)
    run.found()
    with HostileNode(run.nodes[2].address, "long info") as hostile:
        hostile.bad = True
        agent = run.agent(nodes=[*run.nodes[:2], hostile.spec(run.nodes[2])], ttl="3s", wait=False).wait_ready()
        began = time.monotonic()
        time.sleep(3)
        assert 2 <= hostile.begun <= 4 + 2 * (time.monotonic() - began), hostile.begun  # of two connections
        agent.wait_err("node n3 is down: protocol: its answer to INFO is longer than 64 KiB", 10)


@scenario("a vote whose answer has another record's digest does not count", sanitizers=False)
def another_record(run):
    with beside(run, "record", ttl="30s") as (hostile, _):
        run.nodes[0].sigstop()
        assert run.holdfast("run", "-w", "5s", "before", "true").rc == 0
        hostile.bad = True
        for _ in range(3):
            assert run.holdfast("run", "-n", "job", "true").rc == 69
        assert hostile.begun
        run.nodes[0].sigcont()
        assert run.holdfast("run", "-w", "5s", "job", "true").rc == 0, "by the honest two"


@scenario("a node whose clock is further back in each answer is not asked without a pause", sanitizers=False)
def ever_earlier(run):
    def scripts():
        stats = run.nodes[2].cmd("INFO", "commandstats").decode()
        return int(re.search(r"cmdstat_evalsha:calls=(\d+)", stats).group(1))

    with beside(run, "earlier") as (hostile, _):
        wait_node(run, "n3", state="up")
        holder = run.holder()
        for i in range(3):
            holder.acquire(f"job-{i}")
        time.sleep(2)
        before, began = scripts(), time.monotonic()
        time.sleep(4)
        a_second = (scripts() - before) / (time.monotonic() - began)
        assert hostile.begun >= 3, hostile.begun
        assert a_second < 100, a_second
        assert all(holder.held(i) for i in range(3))


# --- whose server it is --------------------------------------------------------------------------------------


def of_twins(run):
    return [f for f in run.holdfast("doctor", "--json").json["findings"] if f["check"] == "node.twins"]


@scenario("the first node says that it is the second one: locks are had and renewed with the honest two, a restart of the agent loses "
          "none, liar and honest one together are no majority, and doctor names both")
def claims_another(run):
    run.redis(3, tcp=True)
    run.found()
    with HostileNode(run.nodes[0].address, "claim", claimed=run.nodes[1]) as hostile:
        agent = run.agent(nodes=[hostile.spec(run.nodes[0]), *run.nodes[1:]], ttl="3s", wait=False).wait_ready()
        agent.wait_err("n2 .* says that it is the same server as node n1")
        wait_node(run, "n2", state="up")
        locks_well(run)
        finding, = wait_until(lambda: of_twins(run), what="doctor tells")
        assert "n1" in finding["text"] and "n2" in finding["text"] and "stop the one that lies" in finding["remedy"], finding
        assert finding["level"] == "fail", finding
        holder = run.holder()
        holder.acquire("kept")
        agent.kill()
        run.agent(nodes=[hostile.spec(run.nodes[0]), *run.nodes[1:]], ttl="3s", wait=False, fresh=False).wait_ready()
        began = time.monotonic()
        while time.monotonic() < began + 4:
            assert holder.held()
            time.sleep(0.05)
        holder.release()
        run.nodes[2].stop()
        # The liar is really another server; it counts as the one that it says it is.
        again = run.holder()
        try:
            again.acquire("alone", 0, 1500)
            raise AssertionError("a server and the node that claims to be it were a majority")
        except HolderError:
            pass


# --- fences -----------------------------------------------------------------------------------------------

LAST = 2 ** 53 - 1
DAY_US = 24 * 3600 * 10 ** 6


def node_part(lease):
    return lease["fence"] >> 10


def findings(run):
    return [f for f in run.holdfast("doctor", "--json").json["findings"] if f["check"] == "node.fence"]


@scenario("a node that shows the last fence of all: nobody is raised to it, fences rise with the clock, and doctor tells")
def fence_beyond_belief(run):
    with beside(run, "fence", fence=LAST) as (hostile, agent):
        wait_node(run, "n3", state="up")
        holder, last = run.holder(), 0
        for _ in range(5):
            fence = node_part(holder.acquire("job"))
            assert last < fence < time.time() * 10 ** 6 + DAY_US, fence
            last = fence
            holder.release()
        assert hostile.low < 40, f"{hostile.low} answers to 5 acquires"
        assert all(int(node.cmd("HGET", "holdfast:fence:job", "fence") or 0) <= last for node in run.nodes)
        wait_until(lambda: findings(run), what="doctor tells")
        assert 'DEL "holdfast:fence:job"' in findings(run)[0]["remedy"], findings(run)
        assert sum("fence far ahead" in line for line in agent.err.splitlines()) == 1, agent.err


@scenario("a poisoned fence record on one node of three: the others grant, and the command that doctor gives mends it")
def poisoned_record(run):
    run.redis(3)
    run.agent(ttl="3s")
    run.nodes[2].cmd("HSET", "holdfast:fence:job", "fence", LAST, "tag", "a" * 40, "holder", "x", "day", "0")
    holder = run.holder()
    first = node_part(holder.acquire("job"))
    assert first < time.time() * 10 ** 6 + DAY_US
    holder.release()
    wait_until(lambda: findings(run), what="doctor tells")
    command = re.search(r'DEL "([^"]+)"', findings(run)[0]["remedy"]).group(1)
    assert run.nodes[2].cmd("DEL", command) == 1
    assert node_part(holder.acquire("job")) > first
    wait_until(lambda: run.nodes[2].cmd("HGET", "holdfast:fence:job", "fence"), what="the node has the fence")
    holder.release()
    wait_until(lambda: not findings(run), what="doctor has nothing to tell")


@scenario("the command that doctor gives runs nothing of a name in a shell, and redis-cli takes it for that name")
def poisoned_name(run):
    run.redis(3)
    run.agent(ttl="3s")
    name = "a$(touch x)`y`\"!z"
    run.nodes[2].cmd("HSET", f"holdfast:fence:{name}", "fence", LAST, "tag", "a" * 40, "holder", "x", "day", "0")
    holder = run.holder()
    holder.acquire(name)
    wait_until(lambda: findings(run), what="doctor tells")
    word = re.search(r'DEL (".+");', findings(run)[0]["remedy"]).group(1)
    assert not set("$`!") & set(word) and word.count('"') == 2, word
    cli = subprocess.run(["redis-cli", "-s", f"{run.nodes[2].dir}/sock"], input=f"DEL {word}\n", capture_output=True, text=True, check=False)
    assert cli.stdout.strip() in ("1", "(integer) 1"), (word, cli)


@scenario("clocks of a majority were far ahead and are set right: fences rise above what the majority shows")
def majority_ahead(run):
    run.redis(3)
    run.agent(ttl="3s")
    ahead = int(time.time() * 10 ** 6) + 30 * DAY_US
    for node in run.nodes[:2]:
        node.cmd("HSET", "holdfast:fence:job", "fence", ahead, "tag", "a" * 40, "holder", "x", "day", "0")
    holder = run.holder()
    assert node_part(holder.acquire("job")) == ahead + 1
    holder.release()
    assert node_part(holder.acquire("job")) == ahead + 2
    assert not findings(run)


@scenario("the only node has the last fence of all: no acquire is granted, and a waiter costs few scripts")
def nothing_above(run):
    node = run.redis(1)[0]
    run.agent(ttl="3s")
    node.cmd("HSET", "holdfast:fence:job", "fence", LAST, "tag", "a" * 40, "holder", "x", "day", "0")
    holder, before = run.holder(), node.calls("evalsha")
    try:
        holder.acquire("job", 0, 2000)
        raise AssertionError("granted")
    except HolderError as error:
        assert error.code == -303 and "n1 has a fence that is not believed" in error.text, error
    assert node.calls("evalsha") - before < 200 * SLOW
    assert 'DEL "holdfast:fence:job"' in findings(run)[0]["remedy"], findings(run)
    node.cmd("DEL", "holdfast:fence:job")
    holder.acquire("job")


# --- refusals ---------------------------------------------------------------------------------------------


@scenario("a wait ends while most nodes do not answer, though all may vote: the refusal names them")
def refusal(run):
    run.redis(3)
    run.agent(ttl="30s")
    holder = run.holder()
    for node in run.nodes[1:]:
        node.cmd("CLIENT", "PAUSE", "3000", "ALL")
    began = time.monotonic()
    try:
        holder.acquire("job", 0, 1500)
        raise AssertionError("granted")
    except HolderError as error:
        assert error.code == -303, error
        assert "1 of 3 voted, 2 are needed; n2 has not answered in time; n3 has not answered in time" in error.text, error.text
    assert time.monotonic() - began > 1.4, "it had time"
    holder.acquire("job", 0, 20000)


# --- TLS --------------------------------------------------------------------------------------------------


class Asker:
    """It sends HelloRequest after HelloRequest, as fast as it can, to whoever begins TLS."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"rediss://localhost:{self.listener.getsockname()[1]}"
        self.sent, self.connections = 0, 0
        threading.Thread(target=self.go, daemon=True).start()

    def go(self):
        try:
            while True:
                connection, _ = self.listener.accept()
                self.connections += 1
                threading.Thread(target=self.talk, args=(connection,), daemon=True).start()
        except OSError:
            pass

    def talk(self, connection):
        words = b"\x16\x03\x03\x00\x04\x00\x00\x00\x00" * 7000
        try:
            with connection:
                connection.recv(65536)
                while True:
                    connection.sendall(words)
                    self.sent += len(words)
        except OSError:
            pass


@scenario("a peer without any certificate asks for TLS handshakes without end: the agent's threads do not stand still, and it is told")
def hello_requests(run):
    run.redis(2, tcp=True)
    authority = Authority(run.dir)
    run.found(nodes=[*run.nodes, run.redis(1, tcp=True)[0]])
    asker = Asker()
    path = run.dir / "holdfast.conf"
    third = run.nodes[2]
    path.write_text(f"tls_ca_file = {authority.path}\nttl = 3s\n" + "".join(f"node = {node.spec}\n" for node in run.nodes[:2]) +
                    f"node = n3={asker.address},fleet_address={third.seat}\n")
    path.chmod(0o600)
    agent = run.agent(nodes=[], options=("--config", path), wait=False).wait_ready()
    wait_until(lambda: asker.connections, what="it is connected to")
    locks_well(run)
    turn = counters(run)["renewal_turn_max_ns"] / 1e6
    print(f"# {asker.sent / 1e6:.0f} MB in {asker.connections} connections; longest turn {turn:.0f} ms")
    assert turn < 300 * SLOW, f"{turn} ms"
    wait_node(run, "n3", error_class="tls", state="down")
    assert re.search("n3 is down: tls: (the TLS handshake takes too long|its part of the TLS handshake is longer than 64 KiB)", agent.err)
    asker.listener.close()


if __name__ == "__main__":
    main()
