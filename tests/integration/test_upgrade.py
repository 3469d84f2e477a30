#!/usr/bin/env python3
"""Two builds in one fleet: agents, clients and readers of an earlier build and of this one, one after the other on a host and
side by side on two.
"""
import hashlib
import pathlib
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import earlier  # noqa: E402
from earlier import BEFORE_FLEET, BEFORE_RELOAD  # noqa: E402
from history import changes_of, fence_faults, overlaps, read  # noqa: E402
from rig import BUILD, HolderError, agent_env, main, scenario, wait_until  # noqa: E402
from views import counters, node_rows, wait_node  # noqa: E402

TTL_S = 2  # also the fleet's longest
QUARANTINE_S = 1.02 * TTL_S + 1
CONTEND_S = 10
NAMES = ("job", "client", "later")
BUSY, GOING = -201, -302
COMMAND = BUILD / "bin" / "holdfast"


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
    """A lease of a job, one of a client with the earlier library, for which another such client waits, and one of a client with
    this library."""

    def __init__(self, run, build, agent):
        self.run = run
        self.job = run.spawn(build.command, "run", "job", "--", "sleep", "600", label="run", env=agent_env(agent))
        self.client = run.holder(agent, program=build.holder)
        self.client.acquire("client", 0, 5000)
        self.later = run.holder(agent)
        self.later.acquire("later", 0, 5000)
        self.waiter = run.holder(agent, label="waiter", program=build.holder)
        wait_until(lambda: run.show("job"), what="the job has its lock")
        self.fences = self.shown()
        assert sorted(self.fences) == sorted(NAMES), self.fences
        self.tokens = self.on_nodes()
        self.wait_on()

    def wait_on(self):
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
        """Each is released, the waiter gets its turn, and all are free for clients of both libraries."""
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


def take_over(run, agent, build, how, held, wait=True):
    """The agent ends, and one of that build (None: this one) comes. Who waits is told of a good end, and else waits on."""
    if how == "SIGTERM":
        agent.stop()
        try:
            raise AssertionError(f"granted by an agent that ends: {held.waiter.answer()}")
        except HolderError as error:
            assert error.code == GOING, error
    else:
        agent.kill()
    agent = host(run, build, wait=wait)
    agent.wait_err(rf"{len(NAMES)} leases readopted, 0 released, 0 lost")
    if how == "SIGTERM":
        held.wait_on()
    wait_until(lambda: counters(run)["waiters"] == 1, what="one waits")
    assert not wait or "gives no votes" not in agent.err, f"a node is met for the first time: {agent.err}"
    return agent


def upgrade(run, commit, how):
    build = earlier.build(commit)
    run.redis(3)
    agent = host(run, build, fresh=True)
    held = Held(run, build, agent)
    readers_agree(run, build, agent)
    for word in ("fleet", "drain", "reload") if commit == BEFORE_RELOAD else ("fleet",):
        unknown = run.holdfast(word, agent=agent)
        assert unknown.rc in (69, 125) and re.search("restart holdfastd|start a newer agent", unknown.err), unknown
    assert not run.nodes[0].record
    agent = take_over(run, agent, None, how, held)
    held.stand()
    wait_founded(run)
    held.are_extended()
    readers_agree(run, build, agent)
    assert run.holdfast("fleet", agent=agent).rc == 0
    held.end()
    assert counters(run)["losses"] == 0


@scenario("an upgrade: the agent ends at SIGTERM, this build's keeps, extends and releases what was held, and founds the fleet",
          sanitizers=False)
def upgraded(run):
    upgrade(run, BEFORE_FLEET, "SIGTERM")


@scenario("the same after a kill", sanitizers=False)
def upgraded_after_a_kill(run):
    upgrade(run, BEFORE_FLEET, "SIGKILL")


@scenario("an upgrade from before reloads and drains", sanitizers=False)
def upgraded_from_afar(run):
    upgrade(run, BEFORE_RELOAD, "SIGTERM")


@scenario("the same after a kill, from before reloads and drains", sanitizers=False)
def upgraded_from_afar_after_a_kill(run):
    upgrade(run, BEFORE_RELOAD, "SIGKILL")


# --- a node is away meanwhile --------------------------------------------------------------------------


def upgrade_without_a_node(run, commit, how):
    """What is held goes on. New locks wait for the fleet to be founded, and so for the node."""
    build = earlier.build(commit)
    run.redis(3)
    agent = host(run, build, fresh=True)
    held = Held(run, build, agent)
    run.nodes[1].kill()
    agent = take_over(run, agent, None, how, held, wait=False)
    agent.wait_err("waiting: .*n2")
    held.are_extended()
    result = run.holdfast("run", "-n", "other", "true")
    assert result.rc == 69 and not run.holders_of("other"), result
    assert re.search("n2.*a fleet is founded once, with all its nodes up", agent.err + result.err), result
    assert not run.nodes[0].record and not run.nodes[2].record, "a record, and not all nodes are up"
    run.nodes[1].restart()
    held.stand(0.5)
    wait_founded(run, QUARANTINE_S + 5)
    agent.wait_ready()
    held.are_extended()
    held.end()
    assert counters(run)["losses"] == 0


@scenario("an upgrade while one of three nodes is away: what is held goes on; the fleet is founded when the node is back",
          sanitizers=False)
def one_away(run):
    upgrade_without_a_node(run, BEFORE_FLEET, "SIGTERM")


@scenario("the same after a kill, from before reloads and drains, while one of three nodes is away", sanitizers=False)
def one_away_from_afar(run):
    upgrade_without_a_node(run, BEFORE_RELOAD, "SIGKILL")


@scenario("an upgrade while one of three nodes refuses writes: what is held goes on; the fleet is founded when it takes them",
          sanitizers=False)
def one_refuses_writes(run):
    build = earlier.build(BEFORE_FLEET)
    run.redis(3)
    agent = host(run, build, fresh=True)
    held = Held(run, build, agent)
    run.nodes[2].cmd("CONFIG", "SET", "min-replicas-to-write", "1")
    agent = take_over(run, agent, None, "SIGKILL", held, wait=False)
    held.stand(1.2 * TTL_S)
    result = run.holdfast("run", "-n", "other", "true")
    assert result.rc == 69 and "n3 refuses writes" in result.err, result
    assert not any(node.record for node in run.nodes), "founding was begun, and cannot end"
    run.nodes[2].cmd("CONFIG", "SET", "min-replicas-to-write", "0")
    wait_founded(run)
    agent.wait_ready()
    held.are_extended()
    held.end()
    assert counters(run)["losses"] == 0


# --- side by side --------------------------------------------------------------------------------------


def exclude_each_other(run, hosts):
    """What one host holds, the other does not get, both ways, and for longer than a validity lasts."""
    holders = [run.holder(agent, program=program) for agent, program in hosts]
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
    """Two processes that contend on a host for so long, with that program."""

    def __init__(self, run, agent, program, for_s):
        self.agent, self.members = agent, []
        for spins in ((), ("--spin-us", "1000")):
            path = run.dir / f"history{run.serial()}"
            process = run.spawn(program, "--name", "short", "--history", path, "--for-ms", int(for_s * 1000), "--hold-us", 300,
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


@scenario("two hosts, one of each build: they exclude each other, and the later one founds the fleet beside the other",
          sanitizers=False)
def side_by_side(run):
    build = earlier.build(BEFORE_FLEET)
    run.redis(3)
    old = host(run, build, "old", fresh=True)
    crews = [Crew(run, old, build.contender, QUARANTINE_S + 1 + CONTEND_S)]
    new = host(run, label="new")
    record = wait_founded(run)
    crews.append(Crew(run, new, BUILD / "tests" / "contender", CONTEND_S))
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
    exclude_each_other(run, [(old, build.holder), (new, None)])
    assert {node.record for node in run.nodes} == {record}
    assert counters(run, old)["losses"] == 0 and counters(run, new)["losses"] == 0


@scenario("a node is restarted empty beside hosts of both builds: it gets the record again, and both keep what they hold",
          sanitizers=False)
def emptied_beside_both(run):
    build = earlier.build(BEFORE_FLEET)
    run.redis(3)
    old, new = host(run, build, "old", fresh=True), host(run, label="new", fresh=True)
    record = wait_founded(run)
    holders = [run.holder(old, program=build.holder), run.holder(new)]
    for holder, name in zip(holders, ("olds", "news")):
        holder.acquire(name, 0, 5000)
    run.nodes[2].restart()
    wait_until(lambda: run.nodes[2].record == record, what="the record is there again")
    for agent in (old, new):
        wait_node(run, "n3", agent, QUARANTINE_S + 5, state="up", votes=True)
    for holder in holders:
        assert holder.held(), holder.cmd("reason")
    run.nodes[0].kill()  # n3 is wanted now
    exclude_each_other(run, [(old, build.holder), (new, None)])
    for holder in holders:
        assert holder.held(), holder.cmd("reason")


# --- and back ------------------------------------------------------------------------------------------


def there_and_back(run, commit, ends):
    build = earlier.build(commit)
    run.redis(3)
    agent = host(run, fresh=True)
    record = wait_founded(run)
    held = Held(run, build, agent)
    memory = run.runtime_dir / agent.name / "fleet"
    remembered = memory.read_bytes()
    for how in ends:
        agent = take_over(run, agent, build, how, held)
        held.are_extended()
        readers_agree(run, build, agent)
        agent = take_over(run, agent, None, how, held)
        held.are_extended()
        readers_agree(run, build, agent)
        assert run.holdfast("fleet", agent=agent).rc == 0
    assert {node.record for node in run.nodes} == {record}
    assert memory.read_bytes() == remembered
    held.end()
    assert counters(run)["losses"] == 0


@scenario("a downgrade and up again, twice: what is held is kept, and the fleet stays what it was", sanitizers=False)
def downgraded(run):
    there_and_back(run, BEFORE_FLEET, ("SIGTERM", "SIGKILL"))


@scenario("a downgrade to before reloads and drains, after a kill, and up again", sanitizers=False)
def downgraded_afar(run):
    there_and_back(run, BEFORE_RELOAD, ("SIGKILL",))


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
