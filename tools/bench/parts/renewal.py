"""CPU of agent and nodes per renewal of a lease, beside the bare loop that renews as many keys with batches of 128: at the same
pace and in any order, as leases fall due; as fast as it goes; in the order in which the keys were set; and with one script
for each. A renewal is that of one lease on all nodes; a node's CPU is one node's."""
import time

from fleet import Fleet
from parts.held import holding, renewals

NODES, TTL_S = 3, 12
PACED = f"paced:{TTL_S * 1000 // 3}"
FLOORS = ("plain", PACED, 128), ("scripts", "renew", 128), ("scripts", "shuffled", 128), ("scripts", PACED, 128), ("scripts", "shuffled", 1)


def measure(lines, options):
    leases, turns, seconds = (1000, 1, 0.5) if options.quick else (100_000, 5, 8)
    flags = ["--capacity", str(leases + 1000), "--ttl", f"{TTL_S}s"]
    with Fleet(options.build, NODES, agents=1, flags=flags, lines=lines) as fleet, \
            Fleet(options.build, NODES, agents=0, lines=lines) as bare, holding(fleet, "renewal", leases, 4, lines):
        time.sleep(seconds / 2)
        for turn in range(turns):
            with lines.tagged(turn=turn):
                for kind, order, batch in FLOORS:
                    bare.measure("floor", kind, order, leases // 4 if batch == 1 else leases, batch, *bare.paths)
                lines.say(renewals(fleet, leases, TTL_S, lambda: time.sleep(seconds)))
