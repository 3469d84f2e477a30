"""Shared and exclusive locks beside plain ones: time and commands of each when nobody else wants it, and how long both kinds wait in
a crowd of two hosts with 20 that share on each, which hold for 20 ms without a pause, and one that wants to be alone."""
from fleet import Fleet, difference


def measure(lines, options):
    cycles, turns = (100, 1) if options.quick else (1000, 5)
    with Fleet(options.build, 3, agents=2, lines=lines) as fleet:
        for turn in range(turns):
            with lines.tagged(turn=turn):
                plain = None
                for kind in "plain", "shared", "exclusive":
                    before = fleet.commands()
                    got = fleet.measure("shared", "cost", fleet.names[0], kind, cycles)
                    sent = difference(fleet.commands(), before)
                    plain = plain or got
                    lines.say({"bench": "shared ratio", "kind": kind, "scripts_per_node": round(sent["evalsha"] / 3 / cycles, 2),
                               "acquire_to_plain": round(got["acquire_p50_us"] / plain["acquire_p50_us"], 2),
                               "cycle_to_plain": round(got["p50_us"] / plain["p50_us"], 2)})
        one, other = fleet.names
        for _ in range(1 if options.quick else 3):
            fleet.measure("shared", "crowd", 2 if options.quick else 20, 20_000, f"{one}=1", f"{one}=20", f"{other}=20")
