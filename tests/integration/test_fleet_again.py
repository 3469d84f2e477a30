#!/usr/bin/env python3
"""The agent starts again by another record of its fleet: the process stays, and what its clients have goes on. What a file says
beside the record: at a restart, a reload and a check.
"""
import json
import pathlib
import re
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from rig import BUILD, Redis, boottime_ns, main, scenario, wait_until  # noqa: E402
from views import counters, wait_node  # noqa: E402

TTL_S = 4  # also the fleet's longest: it settles after 5.1 s
LIMITS = ("--ttl-max", f"{TTL_S}s")


def start(run, count=3, options=LIMITS, **more):
    run.redis(count)
    agent = run.agent(ttl=f"{TTL_S}s", options=options, **more)
    wait_votes(run, count)
    return agent


def wait_votes(run, count):
    def they_do():
        shown = run.holdfast("nodes", "--json")
        return shown.rc == 0 and sum(row["votes"] for row in shown.json["nodes"]) == count

    wait_until(they_do, 15, f"{count} nodes vote")


def server(run, name):
    return Redis(run, name).start()


def change(run, *words, meanwhile=lambda: None):
    """Until it has settled; `meanwhile` is called all the time."""
    command = run.start_holdfast("fleet", *words)
    wait_until(lambda: meanwhile() or not command.running, 60, "the change has settled", interval_s=0.005)
    assert command.wait() == 0, (command.out, command.err)


def starts(agent):
    return len(re.findall("starting again by it", agent.err))


@scenario("leases, waiters and jobs outlive it: a lease is held at every instant, a waiter keeps its place, no job is stopped, and "
          "the process is the same")
def all_goes_on(run):
    agent = start(run)
    pid = agent.pid
    holder, waiter = run.holder(), run.holder(label="waiter")
    for i in range(20):
        holder.acquire(f"held{i}")
    job = run.start_holdfast("run", "-n", "job", "sleep", "60")
    wait_until(lambda: run.show("job"), what="the job has its lock")
    waiter.send("acquire", "held19", 0, 60_000)
    wait_until(lambda: counters(run)["waiters"] == 1, what="one waits")

    def is_held():
        assert holder.held(), "a lease is lost"
        assert job.running, job.err

    change(run, "move", f"n2={server(run, 'other').address}", meanwhile=is_held)
    assert starts(agent) == 3, agent.err  # changing, complete, settled
    assert agent.running and agent.pid == pid
    assert len(re.findall("21 leases readopted, 0 released, 0 lost", agent.err)) == 3, agent.err
    holder.release()
    assert waiter.answer()["fence"], "who waited gets the lock"
    job.signal(15)
    job.wait()


@scenario("programs that begin meanwhile find the agent, and take and release locks as ever")
def new_programs(run):
    agent = start(run)

    def another():
        result = run.holdfast("run", "-n", "short", "true")
        assert result.rc == 0, result

    change(run, "ttl-max", f"{TTL_S + 1}s", meanwhile=another)
    assert starts(agent) == 3, agent.err


def hammered(run, commands, meanwhile):
    """Runs each command again and again, all at once, while `meanwhile` runs. What came back other than it may."""
    over, wrong = threading.Event(), []

    def hammer(words, codes):
        done = 0
        while not (over.is_set() and done > 3):
            result = run.holdfast(*words)
            done += 1
            if result.rc not in codes:
                wrong.append((words, result.rc, result.err or result.out[-300:]))

    threads = [threading.Thread(target=hammer, args=command) for command in commands]
    for thread in threads:
        thread.start()
    try:
        meanwhile()
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert not wrong, "\n".join(f"{words[0]} {rc}: {said.strip()}" for words, rc, said in wrong[:12])


def commands_find_the_agent(run, held):
    """`fleet` and `doctor` end with 3 while the fleet changes."""
    agent = start(run)
    job = run.start_holdfast("run", "-n", "job", "sleep", "60") if held else None
    if job:
        wait_until(lambda: run.show("job"), what="the job has its lock")
    commands = [(("fleet",), (0, 3)), (("reload",), (0, 78)), (("status",), (0,)), (("nodes",), (0,)), (("list",), (0,)),
                (("show", "job"), (0,) if held else (3,)), (("held", "job"), (3,)), (("wait", "nobody's"), (0,)),
                (("doctor",), (0, 3)), (("history",), (0,))]
    if held:
        commands.append((("run", "-n", "short", "true"), (0,)))
    words = ("ttl-max", f"{TTL_S + 1}s") if held else ("add", f"n4={server(run, 'four').address}")
    hammered(run, commands, lambda: change(run, *words))
    assert starts(agent) == 3, agent.err
    assert not job or job.running, job.err
    if job:
        job.signal(15)
        job.wait()


@scenario("every command finds the agent while it starts again, and none takes it for ended", sanitizers=False)
def commands(run):
    commands_find_the_agent(run, held=True)


@scenario("the same while no lock is held, when nothing has to outlive a start", sanitizers=False)
def commands_of_nobody(run):
    commands_find_the_agent(run, held=False)


@scenario("the history of before names the nodes of then, by text, as JSON and for --node")
def told_by_then(run):
    start(run, 4)
    run.nodes[2].kill()
    wait_node(run, "n3", state="down")
    assert run.holdfast("run", "-n", "first", "true").rc == 0
    run.nodes[2].start()
    wait_votes(run, 4)
    change(run, "remove", "n1")
    wait_votes(run, 3)
    told = [json.loads(line) for line in run.holdfast("history", "--json").out.splitlines()]
    assert [event["node"] for event in told if event["event"] == "node_down"] == ["n3"], told
    first = next(event for event in told if event["event"] == "granted" and event.get("name") == "first")
    assert "n3" not in first["voting"] and set(first["voting"]) <= {"n1", "n2", "n4"}, first
    ups = [event["node"] for event in told if event["event"] == "node_up"]
    assert sorted(ups[:5]) == ["n1", "n2", "n3", "n3", "n4"] and "n1" not in ups[-3:], ups
    assert "node_down" in run.holdfast("history", "--node", "n3").out
    left = run.holdfast("history", "--node", "n1")
    assert left.rc == 0 and "node_up" in left.out and re.search("node_place +n1  node 1 of the list until here", left.out), left
    assert run.holdfast("history", "--node", "n9").rc == 64


@scenario("ttl_max becomes a shorter one: longer leases are kept, and no key ends sooner than before")
def shorter(run):
    run.redis(3)
    run.agent(ttl="2s", options=LIMITS)
    other = run.agent("b", ttl="2s", options=LIMITS)  # whose leases the command does not know of
    wait_votes(run, 3)
    holder = run.holder(other)
    holder.acquire("held", TTL_S * 1000)
    ends = {node.id: 0 for node in run.nodes}

    def ends_no_sooner():
        assert holder.held(), "the lease is lost"
        for node in run.nodes:
            asked = boottime_ns() // 1_000_000
            left = node.pttl("held")
            now = boottime_ns() // 1_000_000
            assert now + left > ends[node.id] - 50, f"the key of {node.id} ends {ends[node.id] - now - left} ms sooner"
            ends[node.id] = max(ends[node.id], asked + left)

    change(run, "ttl-max", "2s", meanwhile=ends_no_sooner)
    assert all(0 < node.pttl("held") <= 2000 for node in run.nodes), [node.pttl("held") for node in run.nodes]
    assert holder.held()
    assert run.show("held", agent=other)["ttl_ms"] == 2000
    holder.release()


@scenario("a restart with the file of before goes by the record: the new nodes, the new ttl_max, and the leases", sanitizers=False)
def restarted(run):
    agent = start(run)
    holder = run.holder()
    holder.acquire("held")
    four = server(run, "four")
    change(run, "add", f"n4={four.address}")
    wait_votes(run, 4)
    agent.kill()
    agent = run.agent(ttl=f"{TTL_S}s", options=LIMITS, fresh=False)
    assert "ready: " in agent.err and "4 nodes, quorum 3" in agent.err, agent.err
    assert "1 leases readopted" in agent.err and holder.held(), agent.err
    wait_until(lambda: four.get("held"), 5, "the lease is on the new node, too")
    assert "of another list of nodes" not in agent.err


@scenario("the word --reset-fleet is about the first start: the records of later changes are gone by, and a reload is none about it",
          sanitizers=False)
def reset_fleet(run):
    path = run.dir / "agent.conf"
    run.redis(3)
    lines = [f"ttl = {TTL_S}s", f"ttl_max = {TTL_S}s", *(f"node = {node.spec}" for node in run.nodes)]
    path.write_text("\n".join(lines) + "\n")
    path.chmod(0o600)
    agent = run.agent(nodes=[], options=["--config", path, "--reset-fleet"])
    wait_votes(run, 3)
    change(run, "add", f"n4={server(run, 'four').address}")
    wait_votes(run, 4)
    for written, says in ((lines, "nothing has changed"), ([*lines, f"node = n4={run.dir}/four/sock"], "nothing has changed"),
                          (["ttl = 3s", *lines[1:]], "ttl = 3s")):
        path.write_text("\n".join(written) + "\n")
        result = run.holdfast("reload")
        assert result.rc == 0 and says in result.out, result
    change(run, "remove", "n4")
    wait_votes(run, 3)
    assert starts(agent) == 6, agent.err


@scenario("--check-config judges as a start would: by the record, and says where the file differs from it", sanitizers=False)
def checked(run):
    path = run.dir / "agent.conf"
    run.redis(3)
    agent_name = f"{run.tag}-a"
    path.write_text("\n".join([f"name = {agent_name}", f"runtime_dir = {run.runtime_dir}", f"ttl = {TTL_S}s",
                               f"ttl_max = {TTL_S}s", *(f"node = {node.spec}" for node in run.nodes)]) + "\n")
    path.chmod(0o600)
    agent = run.agent(nodes=[], options=["--config", path])
    wait_votes(run, 3)
    holder = run.holder()
    holder.acquire("held")
    other, four = server(run, "other"), server(run, "four")
    change(run, "add", f"n4={four.address}")
    change(run, "move", f"n2={other.address}")
    change(run, "ttl-max", f"{TTL_S + 1}s")
    process = run.spawn(BUILD / "bin" / "holdfastd", "--check-config", path, label="check")
    rc, said = process.wait(), process.out + process.err
    assert rc == 0, said
    for text in (f"node n4 is at {four.seat} for this fleet, and not in this file",
                 f"node n2 is at {other.seat} for this fleet, and this leads to ",
                 f"ttl_max is {TTL_S + 1}.0 s for this fleet, write that here, too: by the {TTL_S}.0 s of this file",
                 "a restart readopts 1 of its 1 leases",
                 "nodes: 4 of 4 answer as they should, 3 are needed"):
        assert text in said, (text, said)
    assert agent.running and holder.held()


@scenario("--check-config of a file with another list than the fleet has by now goes by the record, as its nodes tell or as this host "
          "remembers, and says who is where", sanitizers=False)
def checked_lists(run):
    run.redis(3)
    agents = [run.agent(label, ttl=f"{TTL_S}s", options=LIMITS) for label in ("a", "b")]
    wait_votes(run, 3)
    four = server(run, "four")
    specs, seven = [node.spec for node in run.nodes], f"n7={run.dir}/seven/sock"

    def checked(nodes, says, absent=(), known="as its nodes tell"):
        path = run.dir / f"{run.serial()}.conf"
        path.write_text("\n".join([f"name = {agents[0].name}", f"runtime_dir = {run.runtime_dir}", f"ttl = {TTL_S}s",
                                   f"ttl_max = {TTL_S}s", *(f"node = {node}" for node in nodes)]) + "\n")
        path.chmod(0o600)
        process = run.spawn(BUILD / "bin" / "holdfastd", "--check-config", path, label="check")
        rc = process.wait()
        said = process.out + process.err
        assert rc == 0, said
        for text in (*says, f" version 2, {known}", "nodes: 4 of 4 answer as they should, 3 are needed"):
            assert text in said, (text, said)
        for text in absent:
            assert text not in said, (text, said)

    def lists(known):
        joined = f"node n4 is at {four.seat} for this fleet, and not in this file"
        checked(specs, [joined], known=known)
        checked([specs[2], specs[0], f"n4={four.address}", specs[1]], [], ["not in this file", "not of this fleet"], known=known)
        checked([specs[2], specs[1]], [joined, "node n1 is at "], ["2 nodes stand"], known=known)
        checked([specs[0], seven, specs[2]], [joined, "node n7 is not of this fleet"], ["does not answer"], known=known)

    agents[0].stop()  # it has not seen the change
    command = run.start_holdfast("fleet", "add", f"n4={four.address}", agent=agents[1])
    assert command.wait(60) == 0, command.err
    lists("as its nodes tell")
    agents[0] = run.agent("a", ttl=f"{TTL_S}s", options=LIMITS, fresh=False)
    wait_until(lambda: "version 2" in run.holdfast("fleet", agent=agents[0]).out, 15, "it has seen the change")
    lists("as this host remembers")


@scenario("a watch that goes on while the fleet grows and shrinks names each node by the list of the event's time")
def watched(run):
    start(run)
    watch = run.start_holdfast("watch", "--json")
    wait_until(lambda: '"watching"' in watch.out, what="watch begins")
    new = server(run, "n4")
    change(run, "add", f"n4={new.address}")
    wait_votes(run, 4)
    new.kill()
    wait_until(lambda: node_events(watch, "n4"), 15, f"it tells of the new node: {watch.out}")
    new.start()
    wait_votes(run, 4)
    change(run, "remove", "n1")
    wait_votes(run, 3)
    run.nodes[1].kill()  # n2, which has the place of n1 now
    wait_until(lambda: node_events(watch, "n2"), 15, f"it tells of the node that took the place: {watch.out}")
    assert not [event for event in node_events(watch, "n1") if event["event"] == "node_down"], watch.out


def node_events(watch, node):
    events = [json.loads(line) for line in watch.out.splitlines() if line.endswith("}")]
    return [event for event in events if event.get("node") == node and event["event"].startswith("node")]


if __name__ == "__main__":
    main()
