"""From the death of a holder to the release of its lock on a quorum of nodes, by turns with a round trip to a quorum."""
from fleet import Fleet

PAUSE_US = 2000


def measure(lines, options):
    rounds, turns = (10, 1) if options.quick else (150, 5)
    for nodes in (3,) if options.quick else (3, 5):
        with lines.tagged(nodes=nodes), Fleet(options.build, nodes, agents=1, lines=lines) as fleet:
            for turn in range(turns):
                with lines.tagged(turn=turn):
                    fleet.measure("floor", "scripts", "rtt", rounds, PAUSE_US, *fleet.paths)
                    fleet.measure("death", fleet.names[0], rounds, PAUSE_US, *fleet.paths)
