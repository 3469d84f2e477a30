"""A whole process: `holdfast run NAME -- true` by turns with `flock FILE true`, and with `true` alone."""
from fleet import Fleet


def measure(lines, options):
    rounds, turns = (5, 1) if options.quick else (60, 5)
    with Fleet(options.build, 3, agents=1, lines=lines) as fleet:
        holdfast = [f"{fleet.build}/bin/holdfast", "run", "--agent", fleet.names[0], "bench/run/%d", "--", "true"]
        for turn in range(turns):
            with lines.tagged(turn=turn):
                fleet.measure("spawn", "true", rounds, "true")
                fleet.measure("spawn", "flock", rounds, "flock", f"{fleet.directory}/flock", "true")
                fleet.measure("spawn", "holdfast", rounds, *holdfast)
