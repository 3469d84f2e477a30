#!/usr/bin/env python3
"""Two builds in one fleet: agents, clients and readers of this build and of one with a later minor version of the table, one
after the other on a host and side by side on two.
"""
import hashlib
import pathlib
import re
import signal
import subprocess
import sys
import time
import typing

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from history import changes_of, fence_faults, overlaps, read  # noqa: E402
from rig import BUILD, HolderError, agent_env, main, scenario, wait_until  # noqa: E402
from views import counters, node_rows, wait_node  # noqa: E402

TTL_S = 2  # also the fleet's longest
QUARANTINE_S = 1.02 * TTL_S + 1
CONTEND_S = 10
NAMES = ("job", "client", "later")
BUSY = -201
COMMAND = BUILD / "bin" / "holdfast"


class Build(typing.NamedTuple):
    agent: pathlib.Path
    command: pathlib.Path


LATER = Build(BUILD / "tests" / "holdfastd_minor", BUILD / "tests" / "holdfast_minor")


def host(run, build=None, label="a", fresh=False, **more):
    """An agent of that build; without one, of this."""
    return run.agent(label, ttl=f"{TTL_S}s", options=("--ttl-max", f"{TTL_S}s"), fresh=fresh,
                     program=build and build.agent, **more)


def is_founded(nodes):
    records = {node.record for node in nodes}
    return len(records) == 1 and "\nstate complete\n" in (records.pop() or "")


def wait_founded(run, timeout_s=10.0):
    wait_until(lambda: is_founded(run.nodes), timeout_s, "the same complete record is on all nodes")
    return run.nodes[0].record


def refused(holder, name, codes=(BUSY,)):
    try:
        lease = holder.cmd("try", name)
    except HolderError as error:
        assert error.code in codes, error
        return error.text
    raise AssertionError(f"granted beside another holder: {lease}")


# --- what is held while agents come and go -------------------------------------------------------------


class Held:
    """A lease of a job of that build's command, and two of clients; for one of them another client waits."""

    def __init__(self, run, build, agent):
        self.run = run
        self.job = run.spawn(build.command, "run", "job", "--", "sleep", "600", label="run", env=agent_env(agent))
        self.client = run.holder(agent)
        self.client.acquire("client", 0, 5000)
        self.later = run.holder(agent)
        self.later.acquire("later", 0, 5000)
        self.waiter = run.holder(agent, label="waiter")
        wait_until(lambda: run.show("job"), what="the job has its lock")
        self.fences = self.shown()
        assert sorted(self.fences) == sorted(NAMES), self.fences
        self.tokens = self.on_nodes()
        self.waiter.send("acquire", "client", 0, 60_000)
        wait_until(lambda: counters(self.run)["waiters"] == 1, what="one waits")

    def shown(self, command=COMMAND):
        listed = self.run.holdfast("list", "--json", program=command)
        assert listed.rc == 0, listed
        return {row["name"]: int(row["fence"]) for row in listed.json["leases"]}

    def on_nodes(self):
        return {name: {node.get(name) for node in self.run.nodes if node.process.running} for name in NAMES}

    def stand(self, for_s=0):
        """All are held, for that long, as what they were."""
        end = time.monotonic() + for_s
        while True:
            assert self.client.held(), self.client.cmd("reason")
            assert self.later.held(), self.later.cmd("reason")
            assert self.job.running, self.job.err
            if time.monotonic() > end:
                break
            time.sleep(0.02)
        assert self.shown() == self.fences
        assert self.client.cmd("fence")["value"] == self.fences["client"]

    def are_extended(self):
        """For longer than any validity lasts, with the same tokens."""
        until = self.client.cmd("until")["value"], self.later.cmd("until")["value"]
        self.stand(1.2 * TTL_S)
        assert self.client.cmd("until")["value"] > until[0] and self.later.cmd("until")["value"] > until[1]
        wait_until(lambda: self.on_nodes() == self.tokens, TTL_S, "the keys are those of the first grants")

    def end(self):
        """Each is released, the waiter gets its turn, and all are free again."""
        self.client.release()
        fence = self.waiter.answer()["fence"]
        assert fence > self.fences["client"], "fences did not rise"
        self.waiter.release()
        self.later.release()
        self.job.signal(signal.SIGTERM)
        self.job.wait()
        for name in NAMES:
            self.run.keys_gone(name, 0.5 * TTL_S)
        for one, other in ((self.client, self.later), (self.later, self.client)):
            fence, before = one.acquire("client", 0, 5000)["fence"], fence
            assert fence > before, "fences did not rise"
            refused(other, "client")
            one.release()


def readers_agree(run, build, agent):
    """Commands of both builds say the same of this agent."""
    names = set()
    for command in (COMMAND, build.command):
        def ask(*words, rc=(0,)):
            result = run.holdfast(*words, agent=agent, program=command)  # noqa: B023
            assert result.rc in rc, (command, words, result)
            return result

        status = ask("status", "--json").json
        assert status["totals"]["leases"] == len(NAMES) and not status["totals"]["losing"], status
        assert {row["state"] for row in ask("nodes", "--json").json["nodes"]} <= {"up", "down"}
        names.add(tuple(sorted((row["name"], row["fence"], row["pid"]) for row in ask("list", "--json").json["leases"])))
        for name in NAMES:
            assert ask("show", "--json", name).json["name"] == name
        ask("history", "--json", "-n", "5")
        ask("doctor", rc=(0, 1))
    assert len(names) == 1, names


def take_over(run, agent, build, how, held):
    """The agent ends, and one of that build (None: this one) comes. Waiting clients wait on."""
    if how == "SIGTERM":
        agent.stop()
    else:
        agent.kill()
    agent = host(run, build)
    agent.wait_err(rf"{len(NAMES)} leases readopted, 0 released, 0 lost")
    wait_until(lambda: counters(run)["waiters"] == 1, what="one waits")
    assert "gives no votes" not in agent.err, f"a node is met for the first time: {agent.err}"
    return agent


def upgrade(run, how):
    """There and back: what is held is kept, and the fleet stays what it was."""
    run.redis(3)
    agent = host(run, fresh=True)
    record = wait_founded(run)
    held = Held(run, LATER, agent)
    memory = run.runtime_dir / agent.name / "fleet"
    remembered = memory.read_bytes()
    for build in (LATER, None):
        agent = take_over(run, agent, build, how, held)
        held.are_extended()
        readers_agree(run, LATER, agent)
        assert run.holdfast("fleet", agent=agent).rc == 0
    assert {node.record for node in run.nodes} == {record}
    assert memory.read_bytes() == remembered
    held.end()
    assert counters(run)["losses"] == 0


@scenario("an upgrade and a downgrade: the agent ends at SIGTERM, the next one keeps, extends and releases what was held",
          sanitizers=False)
def upgraded(run):
    upgrade(run, "SIGTERM")


@scenario("the same after a kill", sanitizers=False)
def upgraded_after_a_kill(run):
    upgrade(run, "SIGKILL")


# --- side by side --------------------------------------------------------------------------------------


def exclude_each_other(run, agents):
    """What one host holds, the other does not get, both ways, and for longer than a validity lasts."""
    holders = [run.holder(agent) for agent in agents]
    fence = 0
    for mine, theirs in (holders, holders[::-1]):
        before, fence = fence, mine.acquire("long", 0, 5000)["fence"]
        assert fence > before, "fences did not rise"
        end = time.monotonic() + 1.2 * TTL_S
        while time.monotonic() < end:
            refused(theirs, "long")
            assert mine.held(), mine.cmd("reason")
            time.sleep(0.05)
        mine.release()


class Crew:
    """Two processes that contend on a host for so long."""

    def __init__(self, run, agent, for_s):
        self.agent, self.members = agent, []
        for spins in ((), ("--spin-us", "1000")):
            path = run.dir / f"history{run.serial()}"
            process = run.spawn(BUILD / "tests" / "contender", "--name", "short", "--history", path, "--for-ms", int(for_s * 1000), "--hold-us", 300,
                                "--pause-us", 1500, *spins, label="contender", env=agent_env(agent),
                                stdin=subprocess.PIPE)
            self.members.append((process, path))
        for process, _ in self.members:
            process.wait_out("ready")
            process.popen.stdin.close()

    def end(self):
        """{pid: agent}, and what was held."""
        holds = []
        for process, path in self.members:
            assert process.wait() == 0, f"a contender ended: {process.err}"
            holds += read(path)[0]
        return {process.pid: self.agent.name for process, _ in self.members}, holds


@scenario("two hosts, one of each build: they exclude each other", sanitizers=False)
def side_by_side(run):
    run.redis(3)
    old, new = host(run, LATER, "old", fresh=True), host(run, label="new", fresh=True)
    record = wait_founded(run)
    crews = [Crew(run, agent, CONTEND_S) for agent in (old, new)]
    host_of, holds = {}, []
    for crew in crews:
        pids, held = crew.end()
        host_of.update(pids)
        holds += held
    changes = changes_of(holds, host_of)
    print(f"# {len(holds)} holds, {changes} times from host to host")
    assert not overlaps(holds), f"{len(overlaps(holds))} overlaps, the first: {overlaps(holds)[0]}"
    assert not fence_faults(holds), f"{len(fence_faults(holds))} fences did not rise: {fence_faults(holds)[0]}"
    assert changes >= 20, f"the lock went {changes} times from host to host"
    exclude_each_other(run, [old, new])
    assert {node.record for node in run.nodes} == {record}
    assert counters(run, old)["losses"] == 0 and counters(run, new)["losses"] == 0


@scenario("a node is restarted empty beside hosts of both builds: it gets the record again, and both keep what they hold",
          sanitizers=False)
def emptied_beside_both(run):
    run.redis(3)
    old, new = host(run, LATER, "old", fresh=True), host(run, label="new", fresh=True)
    record = wait_founded(run)
    holders = [run.holder(old), run.holder(new)]
    for holder, name in zip(holders, ("olds", "news")):
        holder.acquire(name, 0, 5000)
    run.nodes[2].restart()
    wait_until(lambda: run.nodes[2].record == record, what="the record is there again")
    for agent in (old, new):
        wait_node(run, "n3", agent, QUARANTINE_S + 5, state="up", votes=True)
    for holder in holders:
        assert holder.held(), holder.cmd("reason")
    run.nodes[0].kill()  # n3 is wanted now
    exclude_each_other(run, [old, new])
    for holder in holders:
        assert holder.held(), holder.cmd("reason")


# --- a fleet of a later build --------------------------------------------------------------------------


def put_later(nodes):
    """A record that a later build wrote."""
    text = "holdfast-fleet 9\nwhat this says nobody knows yet\n"
    digest = hashlib.sha1(text.encode()).hexdigest()[:8]
    for node in nodes:
        node.cmd("HSET", "holdfast:node", "record", text, "digest", digest, "record_by", "later 0 0")
    return text


def refuses_in_words(run, agent, text):
    def says_why():
        result = run.holdfast("run", "-n", "other", "true", agent=agent)
        assert result.rc in (69, 78), result
        return "upgrade this host" in result.err and "later version of Holdfast" in result.err

    wait_until(says_why, what="the reason")  # a try that is the first to meet the record is told of too few nodes
    assert run.holders_of("other") == 0
    assert {node.record for node in run.nodes} == {text}, "overwritten"


@scenario("a record of a later format: a host that comes grants nothing, names the remedy, and writes no other over it",
          sanitizers=False)
def later_format(run):
    run.redis(3)
    run.found(ttl=f"{TTL_S}s", options=("--ttl-max", f"{TTL_S}s"))
    text = put_later(run.nodes)
    for label, options in (("a", ()), ("fresh", ("--assume-fresh",))):
        agent = run.agent(label, ttl=f"{TTL_S}s", options=("--ttl-max", f"{TTL_S}s", *options), fresh=False, wait=False)
        agent.wait_err("upgrade this host: .*later version of Holdfast", QUARANTINE_S + 5)
        refuses_in_words(run, agent, text)
        rows = node_rows(run, agent)
        assert not any(row["votes"] for row in rows.values()), rows
        agent.stop()


@scenario("the fleet's record becomes one of a later format under a lease: it is held no longer than what was counted before, and "
          "the agent goes on when this host's is there again", sanitizers=False)
def later_format_under_a_lease(run):
    run.redis(3)
    agent = host(run, fresh=True)
    record = wait_founded(run)
    holder = run.holder()
    holder.acquire("job")
    fields = run.nodes[0].cmd("HMGET", "holdfast:node", "record", "digest", "record_by")
    text = put_later(run.nodes)
    began = time.monotonic()
    refuses_in_words(run, agent, text)
    wait_until(lambda: not holder.held(), 2 * TTL_S, "the lease ends")
    assert time.monotonic() - began < TTL_S + 0.5
    agent.kill()
    again = host(run, wait=False)
    again.wait_err("upgrade this host: .*later version of Holdfast")
    refuses_in_words(run, again, text)
    for node in run.nodes:
        node.cmd("HSET", "holdfast:node", "record", fields[0], "digest", fields[1], "record_by", fields[2])
    again.wait_ready()
    assert run.holdfast("run", "-w", "10s", "job", "true", agent=again).rc == 0
    assert {node.record for node in run.nodes} == {record}


if __name__ == "__main__":
    main()
