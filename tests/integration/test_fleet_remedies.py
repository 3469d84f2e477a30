#!/usr/bin/env python3
"""What operators are told of a fleet that is in trouble, followed to the letter: afterwards locks are granted."""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from changing import (NOT_NOW, TTL_S, USAGE, change, done, grants_and_holds, host, refused, server, version,  # noqa: E402
                      votes)
from rig import main, scenario, wait_until  # noqa: E402


def waits(run, agent, *parts):
    """The sentence behind "waits:", when it has these parts."""
    def sentence():
        found = re.search(r"(?m)^waits: (.*)$", run.holdfast("fleet", agent=agent).out)
        return found[1] if found and all(part in found[1] for part in parts) else None

    wait_until(sentence, 15, f"it says {parts}")
    return sentence()


def move(run, agent, number):
    """That node to a new server; which is returned."""
    new = server(run, f"m{number}")
    result = change(run, "move", f"n{number}={new.address}", agent=agent, timeout_s=60)
    done(result, version(new))
    votes(run, agent=agent)
    return new


def two_hosts(run):
    run.redis(3)
    agents = [host(run, label) for label in "ab"]
    for agent in agents:
        votes(run, agent=agent)
    return agents


# --- the fleet went on without a host --------------------------------------------------------------------


@scenario("a host that was away while all nodes moved, their old servers stopped, is told what to do, and that is all it needs")
def left_behind(run):
    a, b = two_hosts(run)
    b.stop()
    new = []
    for number in (2, 3, 1):  # n1 tells the version
        new.append(move(run, a, number))
    for node in run.nodes:
        node.kill()
    run.agents = [a]
    specs = [f"n{number}={node.address}" for number, node in sorted(zip((2, 3, 1), new), key=lambda pair: pair[0])]
    b = host(run, "b", fresh=False, wait=False, nodes=specs)
    said = waits(run, b, "remove the file fleet in its runtime directory")
    assert all(f"n{number}={node.seat}" in said for number, node in zip((2, 3, 1), new)), said
    assert f"ttl_max {TTL_S * 1000} ms" in said, said
    doctor = run.holdfast("doctor", agent=b).out
    assert "this host remembers version 1 of the fleet, which is at version 4" in doctor, doctor
    assert "> configure n" not in doctor and "all its hosts have the same nodes" not in doctor, doctor
    b.stop()
    (run.runtime_dir / b.name / "fleet").unlink()
    run.agents = [a]
    b = host(run, "b", fresh=False, nodes=specs)
    votes(run, agent=b)
    grants_and_holds(run, a, b)


@scenario("a host that is rebooted with an old file, most old servers stopped, is told the addresses that a node tells")
def rebooted(run):
    a, _ = two_hosts(run)
    new = [move(run, a, 2), move(run, a, 3)]
    for node in run.nodes[1:]:
        node.kill()
    c = host(run, "c", fresh=False, wait=False)
    said = waits(run, c, "into this host's configuration file")
    doctor = run.holdfast("doctor", agent=c).out
    assert "> found the fleet" not in doctor, doctor
    c.wait_err("into this host's configuration file")
    specs = re.match(r"put (\S+), (\S+) into", said).groups()
    assert specs == tuple(f"n{i}={node.seat}" for i, node in zip((2, 3), new)), said
    c.stop()
    run.agents = run.agents[:2]
    c = host(run, "c", fresh=False, nodes=[run.nodes[0].spec, *specs])
    votes(run, agent=c)


@scenario("a host that reaches nodes by links of its own: after a move doctor says when fleet_address= may name the new seat, and vouches for no old server")
def as_seat(run):
    run.redis(3)
    a = host(run, "a")
    votes(run, agent=a)
    links, specs = [], []
    for node in run.nodes:
        links.append(run.dir / f"to-{node.id}")
        links[-1].symlink_to(node.dir / "sock")
        specs.append(f"{node.id}=unix:{links[-1]},fleet_address={node.seat}")
    b = host(run, "b", nodes=specs)
    votes(run, agent=b)
    new = move(run, a, 2)
    wait_until(lambda: "nodes.addresses   n2" in run.holdfast("doctor", agent=b).out, 15, "doctor sees it")
    doctor = run.holdfast("doctor", agent=b).out
    found = re.search(rf"> let (\S+) lead to the server at {re.escape(new.seat)} first; only then configure (\S+)$", doctor, re.M)
    assert found and found[1].endswith(str(links[1])), doctor
    assert f"{run.nodes[1].seat},fleet_address=" not in doctor, doctor
    b.stop()
    links[1].unlink()
    links[1].symlink_to(new.dir / "sock")
    specs[1] = found[2]
    run.agents = [a]
    b = host(run, "b", fresh=False, nodes=specs)
    votes(run, agent=b)
    grants_and_holds(run, a, b)


@scenario("doctor names the plain seat to a host whose file has the old address")
def plain_seat(run):
    a, b = two_hosts(run)
    new = move(run, a, 2)
    doctor = run.holdfast("doctor", agent=b).out
    assert f"> configure n2={new.seat}\n" in doctor and "fleet_address=" not in doctor, doctor


# --- more than one server is dead ---------------------------------------------------------------------------


@scenario("two of five servers are dead for good: an empty server where one was, then the other one moves, and the lease stays")
def two_dead(run):
    run.redis(5)
    a = host(run)
    votes(run, 5)
    holder = run.holder(a)
    holder.acquire("held")
    for node in run.nodes[3:]:
        node.kill()
    wait_until(lambda: run.holdfast("nodes").out.count("state     down") == 2, 10, "two are down")
    new = server(run, "new")
    refused(run, "move", f"n4={new.address}", "--old-server-dead", code=NOT_NOW, says=f"start an empty server at {run.nodes[4].seat}")
    refused(run, "remove", "n5", "--old-server-dead", code=NOT_NOW, says=f"start an empty server at {run.nodes[3].seat}")
    run.nodes[4].start()
    votes(run, 4)
    done(change(run, "move", f"n4={new.address}", "--old-server-dead", timeout_s=60))
    votes(run, 5)
    assert holder.held(), "the lease is lost"


@scenario("the first two of five servers die in a change: an empty server where one was carries it on, and then a word of the other")
def first_two_dead(run):
    run.redis(5)
    host(run)
    votes(run, 5)
    run.nodes[4].sigstop()
    run.start_holdfast("fleet", "ttl-max", f"{TTL_S + 1}s")
    wait_until(lambda: all(version(node) == 2 for node in run.nodes[:4]), 20, "it is under way")
    wait_until(lambda: run.holdfast("fleet", "--json").json["record"]["version"] == 2, 10, "the agent goes by it")
    for node in run.nodes[:2]:
        node.kill()
    said = waits(run, None, f"start an empty server at {run.nodes[0].seat}")
    assert "--old-server-dead" not in said, said
    for words, at in ((["mark-dead", "n1"], 1), (["mark-dead", "n2"], 0), (["abort"], 0)):
        refused(run, *words, code=NOT_NOW, silent=run.nodes[4], says=f"start an empty server at {run.nodes[at].seat}")
    run.nodes[4].sigcont()
    run.nodes[0].start()
    wait_until(lambda: version(run.nodes[0]) == 2, 20, "the empty server is told of the change")
    done(change(run, "mark-dead", "n2", timeout_s=60))


# --- a ttl_max by mistake ----------------------------------------------------------------------------------


@scenario("a ttl_max more than ten times as long is asked for twice; every file has to follow, of which doctor and --check-config warn")
def long_ttl_max(run):
    run.redis(3)
    host(run)
    votes(run)
    result = change(run, "ttl-max", "24h")
    assert result.rc == USAGE and "say --yes, too" in result.err, result
    assert version(run.nodes[0]) == 1
    done(change(run, "ttl-max", f"{TTL_S + 2}s", timeout_s=60))
    doctor = run.holdfast("doctor").out
    assert f"> write ttl_max = {(TTL_S + 2) * 1000}ms into its configuration file" in doctor, doctor
    votes(run)
    assert change(run, "ttl-max", "24h", "--yes", "--no-wait").rc == 0
    wait_until(lambda: '"complete"' in run.holdfast("fleet", "--json").out and
               all(version(node) == 3 and "state complete" in node.record for node in run.nodes), 20, "complete, on each node")
    result = refused(run, "abort", says=f"(holdfast fleet ttl-max {(TTL_S + 2) * 1000}ms) in 88")
    assert "keep the nodes up" in result.err, result
    refused(run, "ttl-max", "4s", code=NOT_NOW, says=["wait 88", "keep the nodes up"])


# --- this host's configuration file ----------------------------------------------------------------------


@scenario("a file with the addresses of two nodes the other way round: the log, status, fleet and doctor name both, the file and the lines; "
          "corrected it is well, by a reload and by a restart")
def swapped_addresses(run):
    run.redis(3)
    votes(run, agent=host(run, "a"))
    a, b, c = run.nodes
    file = run.dir / "agent.conf"

    def write(one, two):
        file.write_text(f"# Two lines of remarks.\n#\nnode = n1={one.address}\nnode = n2={two.address}\nnode = n3={c.address}\n"
                        f"ttl = {TTL_S}s\nttl_max = {TTL_S}s\n")

    told = (f"this host's configuration has the addresses of nodes n1 and n2 the other way round (lines 3 and 4 of {file}); "
            f"write n1={a.seat} and n2={b.seat} there, and restart the agent")
    for again in ("reload", "restart"):
        write(b, a)
        agent = run.agent("b", nodes=[], options=["--config", file], wait=False)
        for node in ("n1", "n2"):
            agent.wait_err(re.escape(f"node {node} is refused: {told}"))
        assert "fleet_address=" not in agent.err and "another ttl_max" not in agent.err, agent.err
        rows = run.holdfast("status", agent=agent).out
        assert rows.count("this host's configuration has the addresses of n1 and n2 the other way round; holdfast doctor names the lines") == 2, rows
        nodes = run.holdfast("nodes", "--json", agent=agent).json["nodes"]
        assert [node["refusal"] for node in nodes] == ["misplaced", "misplaced", None], nodes
        shown, fleet = (run.holdfast("fleet", *words, agent=agent) for words in ([], ["--json"]))
        assert shown.rc == fleet.rc == 3 and told in shown.out, shown
        assert [re.search(rf"^{node} .* (yes|no)$", shown.out, re.M).group(1) for node in ("n1", "n2", "n3")] == ["no", "no", "yes"], shown
        assert fleet.json["misplaced"] == [told] and not fleet.json["well"], fleet
        assert [node["counts"] for node in fleet.json["nodes"]] == [False, False, True], fleet
        found = {(one["text"], one["remedy"]) for one in run.holdfast("doctor", "--json", agent=agent).json["findings"]}
        assert tuple(told.split("; ")) in found, found
        assert not [remedy for _, remedy in found if remedy and ("fleet_address=" in remedy or "ttl_max" in remedy)], found
        write(a, b)
        if again == "reload":
            assert run.holdfast("reload", agent=agent).rc == 0
        else:
            agent.stop()
            agent = run.agent("b", nodes=[], options=["--config", file], wait=False)
        votes(run, agent=agent)
        fleet = run.holdfast("fleet", "--json", agent=agent)
        assert fleet.rc == 0 and fleet.json["well"] and not fleet.json["misplaced"], fleet
        assert all(node["counts"] for node in fleet.json["nodes"]), fleet
        agent.stop()


main()
