"""Locks and unlocks of 64 clients at a time, by turns with the bare quorum lock with 64 in flight on one connection per node;
a client is a process, and nodes are reached by TCP. Then one process that takes 64 with one call, and 64 at a time of other libraries."""
from fleet import Fleet
from parts import peers

CLIENTS = 64


def measure(lines, options):
    turns, cycles, span_ms = (1, 2000, 300) if options.quick else (5, 30_000, 2000)
    for nodes in (3,) if options.quick else (3, 5):
        with lines.tagged(nodes=nodes), Fleet(options.build, nodes, agents=1, lines=lines, tcp=True) as fleet:
            for turn in range(turns):
                with lines.tagged(turn=turn):
                    for kind in "plain", "scripts":
                        fleet.measure("floor", kind, "tput", cycles, CLIENTS, *fleet.addresses)
                    agent_s, _ = fleet.cpu_s()
                    got = fleet.measure("many", fleet.names[0], CLIENTS, span_ms)
                    lines.say({"bench": "agent cpu", "us_per_cycle": (fleet.cpu_s()[0] - agent_s) / got["cycles"] * 1e6})
                    fleet.measure("many", fleet.names[0], 1, span_ms, CLIENTS)
                    if nodes == 3:
                        peers.take_turns(fleet, lines, "many", span_ms, CLIENTS)
