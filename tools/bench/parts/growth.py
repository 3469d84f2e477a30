"""Growth: the agent's CPU per renewal against the number of leases, and per lock and unlock against the number of clients;
against the number of nodes part lock1 has it. `million` is the last point of the first curve."""
import time

from fleet import Fleet
from parts.held import holding, renewals

TTL_S = 12


def by_leases(lines, options):
    for leases in (100,) if options.quick else (100, 300, 1000, 3000, 10_000, 30_000, 100_000):
        flags = ["--capacity", str(leases + 1000), "--ttl", f"{TTL_S}s"]
        with lines.tagged(curve="leases"), Fleet(options.build, 3, agents=1, flags=flags, lines=lines) as fleet, \
                holding(fleet, "growth", leases, 4, lines):
            time.sleep(0.2 if options.quick else TTL_S / 3)
            lines.say(renewals(fleet, leases, TTL_S, lambda: time.sleep(0.2 if options.quick else TTL_S / 2)))


def by_clients(lines, options):
    flags = ["--clients-max", "3900", "--capacity", "20000"]
    with lines.tagged(curve="clients"), Fleet(options.build, 3, agents=1, flags=flags, lines=lines) as fleet:
        for clients in (1, 16) if options.quick else (1, 4, 16, 64, 250, 1000, 3000, 3800):
            agent_s, nodes_s = fleet.cpu_s()
            got = fleet.measure("many", fleet.names[0], clients, 200 if options.quick else 4000)
            agent_s, nodes_s = (b - a for a, b in zip((agent_s, nodes_s), fleet.cpu_s()))
            lines.say({"bench": "cost", "clients": clients, "agent_cpu_us": agent_s / got["cycles"] * 1e6,
                       "node_cpu_us": nodes_s / 3 / got["cycles"] * 1e6, "cycles_per_s": got["cycles_per_s"],
                       "in_vain": got["in_vain"]})


def measure(lines, options):
    by_leases(lines, options)
    by_clients(lines, options)
