#!/usr/bin/env python3
"""A change of the fleet that cannot end, or is not wanted any more: given up, or carried on without a server that is gone; and a
fleet that has forgotten its record.
"""
import os
import pathlib
import socket
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from changing import (NOT_NOW, TTL_S, USAGE, change, done, fleet_of, grants_and_holds, host, refused, server,  # noqa: E402
                      settled, version, votes)
from events import history  # noqa: E402
from rig import main, scenario, wait_until  # noqa: E402


def stuck(run, *words, silent=2):
    """Two hosts, a lease of the second one, and a change that is put and waits for a node which is stopped; the command that
    began it."""
    run.redis(3)
    agents = [host(run, label) for label in ("a", "b")]
    for agent in agents:
        votes(run, agent=agent)
    holder = run.holder(agents[1])
    holder.acquire("held")
    run.nodes[silent].sigstop()
    command = run.start_holdfast("fleet", *words, agent=agents[0])
    wait_until(lambda: all(version(node) == 2 for i, node in enumerate(run.nodes) if i != silent), 20, "it is under way")
    for agent in agents:
        wait_until(lambda: "changing" in run.holdfast("fleet", agent=agent).out, 10, "the agents go by it")
    return agents, command, holder


# --- given up --------------------------------------------------------------------------------------------


@scenario("a move that is under way is given up: the command that began it says so, leases stay, the old server is a node as before")
def given_up(run):
    agents, command, holder = stuck(run, "remove", "n2")
    result = run.start_holdfast("fleet", "abort", agent=agents[1])
    wait_until(lambda: version(run.nodes[0]) == 3, 20, "the way back is under way")
    for agent in agents:
        wait_until(lambda: run.holdfast("fleet", "--json", agent=agent).json["record"]["version"] == 3, 10, "the agents go by it")
        refused(run, "abort", agent=agent, silent=run.nodes[2], says=["version 3 of the fleet is the way back already", "mark-dead"])
    run.nodes[2].sigcont()
    assert result.wait(60) == 0, result.err
    assert "version 3 is complete and settled: the fleet is as it was before the change" in result.out, result.out
    assert command.wait(60) == NOT_NOW and "this change was given up" in command.err, (command.out, command.err)
    assert holder.held(), "the lease is lost"
    for agent in agents:
        votes(run, agent=agent)
    grants_and_holds(run, *agents)
    assert len({node.record for node in run.nodes}) == 1
    assert all(f"seat {node.id} " in run.nodes[0].record for node in run.nodes), run.nodes[0].record


@scenario("a move to a server that dies is given up with --old-server-dead, which is refused while that server takes connections")
def new_server_is_gone(run):
    agents, other = [], None

    run.redis(3)
    other = server(run, "other")
    agents = [host(run, label) for label in ("a", "b")]
    for agent in agents:
        votes(run, agent=agent)
    run.nodes[2].sigstop()
    command = run.start_holdfast("fleet", "move", f"n2={other.address}", agent=agents[0])
    wait_until(lambda: version(run.nodes[0]) == 2 and version(run.nodes[1]) == 2, 20, "it is under way")
    wait_until(lambda: "changing" in run.holdfast("fleet", agent=agents[1]).out, 10, "the other agent goes by it")
    refused(run, "abort", "--old-server-dead", agent=agents[1], silent=run.nodes[2],
            says="leave --old-server-dead away, or stop the server for good first")
    other.kill()
    back = run.start_holdfast("fleet", "abort", "--old-server-dead", agent=agents[1])
    wait_until(lambda: version(run.nodes[0]) == 3, 20, "the way back is under way")
    run.nodes[2].sigcont()
    assert back.wait(60) == 0, back.err
    command.wait(60)
    for agent in agents:
        votes(run, agent=agent)
    grants_and_holds(run, *agents)


@scenario("a new ttl_max is given up: the old one is in force again, and quarantines were the larger one's meanwhile")
def ttl_max_given_up(run):
    agents, command, holder = stuck(run, "ttl-max", f"{2 * TTL_S}s")
    back = run.start_holdfast("fleet", "abort", agent=agents[0])
    wait_until(lambda: version(run.nodes[0]) == 3, 20, "the way back is under way")
    run.nodes[2].sigcont()
    assert back.wait(60) == 0, back.err
    command.wait(60)
    assert holder.held()
    assert f"ttl_max {TTL_S * 1000}\n" in run.nodes[0].record, run.nodes[0].record
    assert "it takes 9.1s at the least" in back.out, back.out
    events = [event for event in history(run, agent=agents[0]) if event["event"] == "fleet"]
    steps = [(event["version"], event["step"]) for event in events]
    assert steps[0] == (1, "complete") and steps[1] == (2, "changing") and steps[-1] == (3, "settled"), steps
    assert events[1]["text"] == socket.gethostname() and events[1]["uid"] == os.getuid(), events[1]
    out = run.holdfast("history", agent=agents[0]).out
    assert f"version 2 is on its way (changing), by user {os.getuid()} on {socket.gethostname()}\n" in out, out


@scenario("abort is refused where nothing is under way, and where the change is complete already: with what to do")
def nothing_to_give_up(run):
    agent = fleet_of(run)
    votes(run)
    refused(run, "abort", says="no change of the fleet is under way")
    assert change(run, "ttl-max", f"{TTL_S + 1}s", "--no-wait", timeout_s=20).rc == 0
    wait_until(lambda: "settles" in run.holdfast("fleet").out and all("state complete" in node.record for node in run.nodes), 10,
               "it is complete, on all nodes")
    refused(run, "abort", says=[f"change the fleet back instead (holdfast fleet ttl-max {TTL_S * 1000}ms) in ", "when it has settled"])
    wait_until(lambda: settled(run, 2), 20, "it has settled")
    refused(run, "abort", says="change the fleet back instead", agent=agent)


# --- carried on ------------------------------------------------------------------------------------------


@scenario("a node that stays dies for good in the middle of a change: mark-dead, no lock until it has settled, then all is well, "
          "and that node is replaced")
def stayer_is_gone(run):
    run.redis(5)
    agents = [host(run, label) for label in ("a", "b")]
    for agent in agents:
        votes(run, count=5, agent=agent)
    holder = run.holder(agents[0])
    holder.acquire("held")
    run.nodes[3].sigstop()
    command = run.start_holdfast("fleet", "remove", "n5", agent=agents[0])
    wait_until(lambda: version(run.nodes[0]) == 2, 20, "it is under way")
    wait_until(lambda: "mark-dead n4" in run.holdfast("fleet", agent=agents[1]).out, 15, "the agent waits for the node")
    refused(run, "mark-dead", "n4", agent=agents[1], silent=run.nodes[3], says="node n4 still answers at ")
    run.nodes[3].kill()
    result = done(change(run, "mark-dead", "n4", agent=agents[1], timeout_s=60))
    assert "goes on without the server that was node n4" in result.out, result
    assert command.wait(60) == 0, command.err
    assert holder.held(), "three of the four that stay are a majority"
    for agent in agents:
        votes(run, agent=agent)
    other = server(run, "other")
    done(change(run, "move", f"n4={other.address}", "--old-server-dead", agent=agents[0], timeout_s=60), version_is=3)
    for agent in agents:
        votes(run, count=4, agent=agent)
    assert holder.held()
    grants_and_holds(run, *agents)


@scenario("of three nodes two are gone in a change: the second one is not left out, but replaced by an empty server at its address")
def two_are_gone(run):
    agent = fleet_of(run)
    votes(run)
    other = server(run, "other")
    run.nodes[1].kill()
    wait_until(lambda: "n2" in run.holdfast("nodes").out, what="it is away")
    run.nodes[2].sigstop()
    command = run.start_holdfast("fleet", "move", f"n2={other.address}", "--old-server-dead")
    wait_until(lambda: version(run.nodes[0]) == 2, 20, "it is under way")
    run.nodes[2].kill()
    refused(run, "mark-dead", "n3", says="no change of the fleet is under way")
    run.nodes[2].start()
    assert command.wait(60) == 0, command.err
    votes(run, count=3, agent=agent)


# --- a fleet that has forgotten --------------------------------------------------------------------------


@scenario("every node was emptied and one is gone: nothing is granted until an operator confirms, who is told what that means")
def confirmed(run):
    run.redis(3)
    agents = [host(run, label) for label in ("a", "b")]
    for agent in agents:
        votes(run, agent=agent)
    for word in ((), ("--yes",)):
        refused(run, "confirm", *word, agent=agents[0], says="leave it to the agents")
    run.nodes[2].kill()
    for agent in agents:  # or one node would give the other the record in between
        agent.sigstop()
    for node in run.nodes[:2]:
        node.cmd("FLUSHALL")
    for agent in agents:
        agent.sigcont()
    wait_until(lambda: "fleet confirm" in run.holdfast("fleet", agent=agents[0]).out, 15, "the agent waits for all nodes")
    asked = change(run, "confirm", agent=agents[0])
    assert asked.rc == USAGE and "say --yes, too, if this is so" in asked.err and "node n3 does not answer" in asked.err, asked
    assert not run.nodes[0].record and not run.nodes[1].record
    result = change(run, "confirm", "--yes", agent=agents[0])
    assert result.rc == 0 and "have version 1 again" in result.out, result
    for agent in agents:
        votes(run, count=2, agent=agent)
    grants_and_holds(run, *agents)


@scenario("confirm is refused where fewer than a majority answer, and where all do: agents do it by themselves")
def not_confirmed(run):
    agent = fleet_of(run)
    votes(run)
    for node in run.nodes[1:]:
        node.kill()
    run.nodes[0].cmd("FLUSHALL")
    wait_until(lambda: "fleet" in run.holdfast("fleet").out and not run.nodes[0].record, 10, "it is empty")
    wait_until(lambda: "1 of 3 answer" in change(run, "confirm", "--yes", agent=agent).err, 10, "it is refused")


if __name__ == "__main__":
    main()
