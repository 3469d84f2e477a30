"""A lock and its unlock, one after the other, by one client, on 1 to 9 nodes, in turns with the bare quorum lock: plain
SET, and the scripts that ship; and with a futex round trip between processes on two processors, of which a lock and unlock through another
process has two. On 3 and 5 nodes other libraries take their turns, too, by whole fan-out."""
from fleet import Fleet
from parts import peers


def measure(lines, options):
    cycles, turns = (150, 1) if options.quick else (3000, 7)
    for nodes in (3,) if options.quick else (1, 3, 5, 7, 9):
        with lines.tagged(nodes=nodes), Fleet(options.build, nodes, agents=1, lines=lines) as fleet:
            for turn in range(turns):
                with lines.tagged(turn=turn):
                    for kind in "plain", "scripts":
                        fleet.measure("floor", kind, "lat", cycles, *fleet.paths)
                    fleet.measure("futex", cycles, 0, "apart")
                    agent_s, _ = fleet.cpu_s()
                    fleet.measure("lock", fleet.names[0], cycles)
                    lines.say({"bench": "agent cpu", "us_per_cycle": (fleet.cpu_s()[0] - agent_s) / cycles * 1e6})
            if nodes in (3, 5):
                for turn in range(1 if options.quick else 3):
                    with lines.tagged(turn=turn):
                        peers.take_turns(fleet, lines, "one", cycles)
