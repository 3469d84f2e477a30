"""F1, F4 to F7: nodes that go, forget, or tell another time."""
import threading
import time

import events
from cases import case
from criteria import Expected
from rig import HolderError, boottime_ns, wait_until

TTL_S = 3
BUSY_S = 6     # of contention under a fault
SLOW_MS = 100  # half of what an attempt is given: an acquire that waits for a node that is away takes longer


class Steady:
    """Leases that nobody gives up, one for each of 8 names on each host, and rivals that want them all the while."""

    def __init__(self, fleet):
        self.fleet, self.leases = fleet, []
        for host in fleet.hosts:
            holder = fleet.run.holder(host.agent, label="steady")
            for i in range(8):
                name = f"steady-{host.label}{i}"
                self.leases.append((holder, name, holder.acquire(name)))
        wait_until(lambda: len(fleet.keys()) >= len(fleet.nodes) * len(self.leases), what="the keys are everywhere")
        self.refusals = 0

    def lost(self):
        return [name for holder, name, lease in self.leases if not holder.held(lease["lease"])]

    def rival(self):
        """Tries everything once, from the next host; complaints of what was granted."""
        complaints = []
        for i, (_, name, _) in enumerate(self.leases):
            rival = self.leases[(i + 8) % len(self.leases)][0]
            try:
                rival.cmd("try", name)
                complaints.append(f"{name} was granted to another host")
            except HolderError:
                self.refusals += 1
        return complaints

    def end(self):
        for holder in {lease[0] for lease in self.leases}:
            holder.close()


# --- F1: a minority is away ----------------------------------------------------------------------------


def minority(lab, count, break_it, mend, ttl_s=TTL_S, **options):
    """Under contention a minority breaks, and is mended: nothing is lost, and it goes on as fast as before."""
    fleet = lab.fleet(ttl_s=ttl_s, **options)
    fleet.start_monitors()
    fleet.start_crew()
    time.sleep(2)
    away = fleet.nodes[:count]
    broken_ns = boottime_ns()
    for node in away:
        break_it(fleet, node)
    time.sleep(BUSY_S)
    calm_ns = boottime_ns()
    for node in away:
        mend(fleet, node)
    time.sleep(fleet.quarantine_s + 1)
    record = fleet.finish()
    lab.row.add(record, Expected(losses=0, calm_ns=calm_ns, back_s=ttl_s + 0.5))
    undelayed(lab.row, record, broken_ns, calm_ns)


def undelayed(row, record, broken_ns, calm_ns):
    """P6: acquires wait for no node that is away."""
    before, during = record.acquire_ms(0, broken_ns), record.acquire_ms(broken_ns, calm_ns)
    row.figures["acquire"] = f"{before:.1f} ms, then {during:.1f} ms"
    if during > SLOW_MS:
        row.blame({"P6": [f"half of the acquires took longer than {during:.0f} ms"]})


def stop_one(fleet, node):
    fleet.tell(f"stop {node.id}")
    node.sigstop()


for _count in (1, 2):
    case("F1", f"{_count} of 5 nodes killed")(
        lambda lab, n=_count: minority(lab, n, lambda fleet, node: fleet.kill_node(node),
                                       lambda fleet, node: fleet.start_node(node)))
    case("F1", f"{_count} of 5 nodes stopped")(
        lambda lab, n=_count: minority(lab, n, stop_one, lambda fleet, node: node.sigcont()))


# --- F4: commands that run late ------------------------------------------------------------------------


@case("F4", "SET after SIGCONT, DEL overtakes SET")
def late_set(lab):
    """Two nodes are stopped again and again, for longer than an acquire's deadline, so that acquires wait in them while
    their leases come and go on the others. Short holds: most are over when the node goes on."""
    fleet = lab.fleet(ttl_s=TTL_S)
    fleet.start_monitors()
    fleet.start_crew(long_ms=0, pause_ms=10)
    for _ in range(12):
        fleet.stop_nodes(fleet.random.sample(fleet.nodes, 2), fleet.random.uniform(0.05, 0.9))
        time.sleep(0.3)
    time.sleep(0.5)
    lab.row.add(fleet.finish(), Expected(losses=0))


# --- F5: nodes that restart ----------------------------------------------------------------------------


@case("F5", "nodes restart empty, two amnesiacs in turn")
def amnesiacs(lab):
    fleet = lab.fleet(ttl_s=TTL_S)
    fleet.start_monitors()
    fleet.start_crew()
    for i in range(4):
        for node in (fleet.nodes[i], fleet.nodes[(i + 1) % 5]):
            fleet.restart(node)
            time.sleep(fleet.random.uniform(0.1, 0.5))
        time.sleep(fleet.quarantine_s / 2)
    calm_ns = boottime_ns()
    time.sleep(fleet.quarantine_s + 1)
    lab.row.add(fleet.finish(), Expected(losses=0, calm_ns=calm_ns, back_s=fleet.quarantine_s + TTL_S))


def majority_forgets(lab, forget):
    """A majority forgets while the agent of holders hangs, so that it heals nothing. Its leases are valid all the same, also
    for agents that knew nothing of these nodes before, or have forgotten it by a restart. Nothing is young when it happens."""
    fleet = lab.fleet(ttl_s=TTL_S, clock=True)
    fleet.start_crew(long_ms=300)
    idlers = [fleet.start_idler() for _ in range(3)]
    time.sleep(fleet.quarantine_s + 1)
    for i in range(3):
        host = fleet.hosts[i]
        fleet.start_keepers(host, 2, careless=0)
        host.agent.sigstop()
        for node in fleet.random.sample(fleet.nodes, 3):
            forget(fleet, node)
        time.sleep(0.2)
        fleet.start_newcomer()
        fleet.restart_idler(idlers[i])
        time.sleep(0.6 * TTL_S)
        host.agent.sigcont()
        time.sleep(fleet.quarantine_s)
    calm_ns = boottime_ns()
    time.sleep(2 * TTL_S)
    lab.row.add(fleet.finish(), Expected(losses=("quorum", "unrenewed", "late_reply", "missing", "clock", "away"),
                                         calm_ns=calm_ns, back_s=2 * TTL_S))


for _fault, _title, _forget in (("F5", "restarts empty", lambda fleet, node: fleet.restart(node)),
                                ("F6", "is flushed", lambda fleet, node: fleet.flush(node)),
                                ("F7", "steps its clocks past the keys", lambda fleet, node: fleet.step(node, 1.2 * TTL_S))):
    case(_fault, f"a majority {_title} while an agent hangs")(lambda lab, f=_forget: majority_forgets(lab, f))


def persistent(lab, policy):
    """Nodes with an append-only file are killed and come back with it, into quarantine."""
    fleet = lab.fleet(ttl_s=TTL_S, node_options=["--appendonly", "yes", "--appendfsync", policy])
    fleet.start_crew()
    time.sleep(1)
    for node in fleet.nodes:
        fleet.restart(node)
        time.sleep(fleet.quarantine_s)
    record = fleet.finish()
    lab.row.add(record, Expected(losses=0))
    complaints = []
    for host, told in record.events.items():
        for node in fleet.nodes:
            if not events.those(told, "quarantine", node=node.id):
                complaints.append(f"host {host} did not put {node.id} into quarantine")
    lab.row.blame({"P1": complaints})


case("F5", "kill -9 and restart, appendfsync everysec: quarantined")(lambda lab: persistent(lab, "everysec"))
case("F5", "kill -9 and restart, appendfsync always: quarantined")(lambda lab: persistent(lab, "always"))


def rolling(lab, gap_ttls):
    """All five nodes restart empty, one after the other: no lease is lost, none is granted twice."""
    fleet = lab.fleet(ttl_s=TTL_S)
    fleet.start_crew(long_ms=0)
    steady = Steady(fleet)
    complaints = []

    def wait(seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            complaints.extend(steady.rival())
            time.sleep(0.1)

    for node in fleet.nodes:
        fleet.restart(node)
        wait(gap_ttls * TTL_S)
    wait(fleet.quarantine_s)
    lost = steady.lost()
    complaints += [f"{name} was lost" for name in lost]
    lab.row.figures.update({"steady leases": len(steady.leases), "lost": len(lost), "rivals refused": steady.refusals})
    steady.end()
    lab.row.acquisitions += len(steady.leases)
    lab.row.add(fleet.finish(), Expected(losses=0, wait_s=2 * fleet.quarantine_s))
    lab.row.blame({"P6": complaints})


case("F5", "rolling restart of all 5, one per TTL/2")(lambda lab: rolling(lab, 0.5))
case("F5", "rolling restart of all 5, one per 2 TTL")(lambda lab: rolling(lab, 2))


# --- F6: keys that go ----------------------------------------------------------------------------------


@case("F6", "FLUSHALL, on one node and on all at once")
def flush(lab):
    fleet = lab.fleet(ttl_s=TTL_S)
    fleet.start_crew()
    time.sleep(1)
    for nodes in (fleet.nodes[:1], fleet.nodes, fleet.nodes[2:4]):
        for node in nodes:
            fleet.flush(node)
        time.sleep(fleet.quarantine_s + 1)
    calm_ns = boottime_ns()
    time.sleep(2)
    lab.row.add(fleet.finish(), Expected(losses=0, calm_ns=calm_ns, back_s=TTL_S))


@case("F6", "a node may evict: it gives no votes")
def eviction(lab):
    fleet = lab.fleet(ttl_s=TTL_S)
    fleet.start_crew()
    time.sleep(1)
    for node in fleet.nodes[:2]:
        fleet.tell(f"eviction on {node.id}")
        node.cmd("CONFIG", "SET", "maxmemory-policy", "allkeys-random")
        node.cmd("CONFIG", "SET", "maxmemory", "2mb")
        node.cmd("CLIENT", "KILL", "TYPE", "normal")  # agents ask for it when they connect
    time.sleep(BUSY_S)
    lab.row.add(fleet.finish(), Expected(losses=0))


def deleted(lab, count):
    """Locks' keys are deleted by hand on so many nodes at once. Up to votes - q nothing comes of it, beyond that a loss."""
    fleet = lab.fleet(ttl_s=TTL_S)
    fleet.start_crew(careless=6)
    time.sleep(1)
    for _ in range(10):
        fleet.tell(f"delete on {count}")
        for node in fleet.nodes[:count]:
            node.cmd("DEL", *(f"lock-{lock}" for lock in range(fleet.locks)))
        time.sleep(1.2)
    lab.row.add(fleet.finish(), Expected(losses=0 if count <= len(fleet.nodes) - fleet.quorum else None))


for _count in (1, 2, 3):
    case("F6", f"keys deleted by hand on {_count} of 5")(lambda lab, n=_count: deleted(lab, n))


# --- F7: nodes' clocks ---------------------------------------------------------------------------------


def steps(lab, count, seconds, times=4):
    """The clocks of so many nodes are stepped, again and again."""
    fleet = lab.fleet(ttl_s=TTL_S, clock=True)
    fleet.start_crew()
    time.sleep(1)
    for i in range(times):
        for node in fleet.nodes[:count]:
            fleet.step(node, seconds)
        time.sleep(fleet.quarantine_s + 1 if i % 2 else 1)
    calm_ns = boottime_ns()
    time.sleep(fleet.quarantine_s + 1)
    losses = 0 if count <= 2 else ("clock", "quorum", "missing", "foreign")
    lab.row.add(fleet.finish(), Expected(losses=losses, calm_ns=calm_ns, back_s=fleet.quarantine_s + TTL_S))


for _count, _seconds in ((2, TTL_S), (2, -TTL_S), (2, 1), (3, TTL_S), (5, TTL_S), (5, -TTL_S)):
    case("F7", f"clocks of {_count} nodes step by {_seconds:+g} s")(lambda lab, n=_count, s=_seconds: steps(lab, n, s))


def moving(lab, move):
    """Clocks of two nodes move all the while; `move` gives their shift in seconds after so many."""
    fleet = lab.fleet(ttl_s=TTL_S, clock=True)
    fleet.start_crew()
    end = threading.Event()

    def mover():
        begin = time.monotonic()
        while not end.wait(0.01):
            for sign, node in ((1, fleet.nodes[0]), (-1, fleet.nodes[1])):
                node.shift_clock(sign * move(time.monotonic() - begin))

    thread = threading.Thread(target=mover)
    thread.start()
    fleet.tell("clocks move")
    try:
        time.sleep(4 * TTL_S)
    finally:
        end.set()
        thread.join()
    lab.row.add(fleet.finish(), Expected(losses=0))


case("F7", "clocks of 2 nodes run 0.8 % fast and slow")(lambda lab: moving(lab, lambda s: 0.008 * s))
case("F7", "clocks of 2 nodes jump to and fro by a TTL")(lambda lab: moving(lab, lambda s: TTL_S * (int(s * 5) % 2)))
