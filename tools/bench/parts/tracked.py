"""What it costs agent and nodes that held keys are tracked (`track_held`): the renewals of as many leases with it and without, by
turns. A renewal is that of one lease on all nodes; a node's CPU is one node's."""
import time

from fleet import Fleet
from parts.held import holding, renewals

NODES, TTL_S = 3, 12


def measure(lines, options):
    leases, turns, seconds = (1000, 1, 0.5) if options.quick else (20_000, 5, 8)
    flags = ["--capacity", str(leases + 1000), "--ttl", f"{TTL_S}s"]
    with Fleet(options.build, NODES, agents=1, flags=[*flags, "--track-held", "100000"], lines=lines) as tracked, \
            Fleet(options.build, NODES, agents=1, flags=[*flags, "--track-held", "0"], lines=lines) as untracked, \
            holding(tracked, "tracked", leases, 4, lines), holding(untracked, "untracked", leases, 4, lines):
        time.sleep(seconds / 2)
        for turn in range(turns):
            for fleet in tracked, untracked:
                with lines.tagged(turn=turn, tracked=fleet is tracked):
                    lines.say(renewals(fleet, leases, TTL_S, lambda: time.sleep(seconds)))
