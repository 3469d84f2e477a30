"""Release to grant between two processes of one host, and of two, by turns with a futex round trip between two processes (each
on a processor of its own, and where the scheduler puts them: both on one, often, which spares them most of it) and with one
acquire script to a quorum; after pauses as long, brisk or at rest."""
from fleet import Fleet

PAUSES_US = {"brisk": 300, "at rest": 20000}  # before each release: caches are warm, or not


def measure(lines, options):
    rounds, turns = (6, 1) if options.quick else (100, 5)
    for nodes in (3,) if options.quick else (3, 5):
        with lines.tagged(nodes=nodes), Fleet(options.build, nodes, agents=2, lines=lines) as fleet:
            one, other = fleet.names
            for turn in range(turns):
                with lines.tagged(turn=turn):
                    for pace, pause_us in PAUSES_US.items():
                        with lines.tagged(pace=pace):
                            fleet.measure("futex", rounds, pause_us)
                            fleet.measure("futex", rounds, pause_us, "apart")
                            fleet.measure("floor", "scripts", "rtt", rounds, pause_us, *fleet.paths)
                            fleet.measure("turns", one, one, rounds, pause_us)
                            fleet.measure("turns", one, other, rounds, pause_us)
