"""A million leases with a TTL of a minute on three nodes, taken through the library by four processes and held for
--minutes: are they renewed in time, what does it cost, and what becomes of everything else meanwhile."""
import contextlib
import json
import pathlib
import shutil
import time

from fleet import Fleet, await_true
from parts.held import holding, renewals

NODES, TTL_S, PROCESSES, PREFIX = 3, 60, 4, "million"
PTTL_PER_SECOND = 1000  # random keys on each node


def memory(fleet):
    """Bytes of the agent: its own, by PSS; the blocks of its table; those of its journal."""
    smaps = pathlib.Path(f"/proc/{fleet.agents[0].pid}/smaps_rollup").read_text()
    kib = {line.split(":")[0]: int(line.split()[1]) for line in smaps.splitlines()[1:]}
    tables = list(pathlib.Path("/dev/shm").glob(f"holdfast*.{fleet.names[0]}"))
    journal = pathlib.Path(fleet.directory, fleet.names[0], "journal")
    return {"bench": "memory", "own_bytes": (kib["Pss_Anon"] + kib["Pss_File"]) * 1024,
            "table_bytes": sum(path.stat().st_blocks * 512 for path in tables), "tables": len(tables),
            "journal_bytes": journal.stat().st_blocks * 512, "pss_bytes": kib["Pss"] * 1024}


def watch(fleet, leases, seconds, lines):
    """Samples PTTL once a second meanwhile."""
    with fleet.begin("pttl", PREFIX, leases, PTTL_PER_SECOND, *fleet.paths) as asker:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            lines.say(json.loads(asker.stdout.readline()))
        asker.stdin.close()


def look(fleet, leases, lines):
    """How long the readers take, and whether they tell the same."""
    def timed(*args):
        start = time.monotonic()
        out = fleet.command(*args)
        return time.monotonic() - start, json.loads(out)

    few = f"{PREFIX}/{'0' * (32 - len(PREFIX) - 1 - 3)}"  # and three digits: a thousand names
    status_s, status = timed("status")
    list_s, listed = timed("list")
    prefix_s, prefixed = timed("list", few)
    listed = listed["leases"]
    lines.say({"bench": "look", "status_s": status_s, "list_s": list_s, "list_prefix_s": prefix_s,
               "prefix_rows": len(prefixed["leases"]), "walked": len(listed), "held": sum(row["held"] for row in listed),
               "status_leases": status["totals"]["leases"], "least_left_ms": min(row["left_ms"] for row in listed)})


def acquires(fleet, lines, options, what):
    """Where the scheduler puts everything; then with the nodes on a processor of their own, so that waits are the agent's."""
    for turn in range(1 if options.quick else 5):
        for apart in False, True:
            with lines.tagged(beside=what, turn=turn, apart=apart), fleet.apart() if apart else contextlib.nullcontext():
                fleet.measure("floor", "scripts", "lat", 200 if options.quick else 3000, *fleet.paths)
                fleet.measure("lock", fleet.names[0], 200 if options.quick else 3000)


def restart(fleet, lines):
    """The agent is killed and started again."""
    leases, start = fleet.counters()["leases"], time.monotonic()
    fleet.kill_agent(0)
    fleet.agents[0] = fleet.start_agent(fleet.names[0], flags=())
    ready_s = time.monotonic() - start
    await_true(lambda: fleet.counters()["leases"] >= leases, "all leases taken over", 120)
    lines.say({"bench": "restart", "leases": leases, "ready_s": ready_s, "all_s": time.monotonic() - start})


def keep_log(fleet, options, lines):
    log = fleet.log_of(fleet.names[0])
    kept = options.out.with_suffix(".agent.log")
    shutil.copyfile(log, kept)
    with log.open() as text:
        lines.say({"bench": "agent log", "file": kept.name, "lines": sum(1 for _ in text)})


def measure(lines, options):
    leases = 1000 if options.quick else options.leases
    seconds = 1 if options.quick else options.minutes * 60
    flags = ["--capacity", str(leases + leases // 50 + 1000), "--ttl", f"{TTL_S}s"]
    with Fleet(options.build, NODES, agents=1, flags=flags, lines=lines) as fleet:
        acquires(fleet, lines, options, "nothing")
        lines.say({**memory(fleet), "leases": 0})
        start = time.monotonic()
        with holding(fleet, PREFIX, leases, PROCESSES, lines):
            lines.say({"bench": "taken", "leases": leases, "seconds": time.monotonic() - start})
            lines.say({**memory(fleet), "leases": leases})
            if not options.quick:
                time.sleep(TTL_S / 3)
            lines.say(renewals(fleet, leases, TTL_S, lambda: watch(fleet, leases, seconds, lines)))
            acquires(fleet, lines, options, "million")
            look(fleet, leases, lines)
            with lines.tagged(after="restart"):
                restart(fleet, lines)
                time.sleep(0.2 if options.quick else TTL_S / 3)
                look(fleet, leases, lines)
                lines.say(renewals(fleet, leases, TTL_S, lambda: watch(fleet, leases, 1 if options.quick else TTL_S / 3, lines)))
                lines.say({**memory(fleet), "leases": leases})
        keep_log(fleet, options, lines)
