"""A lock and its unlock, one after the other, by one client, on 1 to 9 nodes over TCP, in turns with the bare quorum lock: plain
SET, and the scripts that ship, at once and at the pace of the agent's; with a futex round trip between processes on two processors, of which a lock and unlock through another
process has two; and, on 3 and 5 nodes, with loops as other libraries have them and with other libraries, by whole fan-out. On 3 nodes, too: the bare
lock through io_uring (`beside`); over unix sockets, and over TCP with nodes that are so much farther away. Lines say which by `net`: tcp,
unix or far."""
import contextlib

from fleet import Failed, Fleet
from parts import peers

FAR_US = (200, 1000, 10_000)  # each way


def measure(lines, options):
    cycles, turns = (150, 1) if options.quick else (3000, 7)
    for nodes in (3,) if options.quick else (1, 3, 5, 7, 9):
        with lines.tagged(nodes=nodes, net="tcp"), Fleet(options.build, nodes, agents=1, lines=lines, tcp=True) as fleet:
            by_turns(fleet, lines, cycles, turns)
            if nodes in (3, 5):
                beside_others(fleet, lines, cycles, 1 if options.quick else 3)
            if nodes == 3:
                by_uring(fleet, lines, cycles, turns)
                fleet.system_calls(lambda: fleet.measure_silently("lock", fleet.names[0], cycles), cycles)
    with lines.tagged(nodes=3, net="unix"), Fleet(options.build, 3, agents=1, lines=lines) as fleet:
        by_turns(fleet, lines, cycles, turns)
    for delay_us in FAR_US[1:2] if options.quick else FAR_US:
        with (lines.tagged(nodes=3, net="far", delay_us=delay_us),
              Fleet(options.build, 3, agents=1, lines=lines, tcp=True, delay_us=delay_us) as fleet):
            by_turns(fleet, lines, min(cycles, 2_000_000 // delay_us // 4), min(turns, 3))


def by_turns(fleet, lines, cycles, turns):
    for turn in range(turns):
        with lines.tagged(turn=turn):
            for kind in "plain", "scripts":
                fleet.measure("floor", kind, "lat", cycles, *fleet.addresses)
            fleet.measure("futex", cycles, 0, "apart")
            taken = []
            fleet.work(lambda: taken.append(fleet.measure("lock", fleet.names[0], cycles)), cycles)
            for kind in "plain", "scripts":  # nodes rest as long between as with the agent
                fleet.measure("floor", kind, f"pace:{round(taken[0]['p50_us'] / 2)}", cycles, *fleet.addresses)


def by_uring(fleet, lines, cycles, turns):
    """The bare quorum lock by write(), poll() and read(), and through io_uring, where the kernel lets us."""
    with contextlib.suppress(Failed):
        for turn in range(turns):
            with lines.tagged(turn=turn, beside="uring"):
                for kind in "plain", "scripts":
                    for what in "lat", "uring":
                        fleet.measure("floor", kind, what, cycles, *fleet.addresses)


def beside_others(fleet, lines, cycles, turns):
    for turn in range(turns):
        with lines.tagged(turn=turn):
            for fan in "all", "turn":
                fleet.measure("floor", "plain", fan, cycles, *fleet.addresses)
            peers.take_turns(fleet, lines, "one", cycles)
