"""F1, F3, F12: the network between hosts and nodes. Needs root."""
import time

from cases import case
from criteria import Expected
from nodes import undelayed
from rig import boottime_ns

TTL_S = 3
BROKEN_S = 6
CUT_OFF = ("quorum", "unrenewed", "forced")


def everywhere(fleet, cut):
    for host in fleet.hosts:
        cut(host.number)


def broken(lab, breaks, mends, text, seconds=BROKEN_S, losses=0, long_ms=None, back_s=TTL_S + 0.5):
    """Under contention the network breaks and is mended. Where leases may be lost, the first host has some."""
    fleet = lab.fleet(ttl_s=TTL_S, network=True)
    fleet.start_monitors()
    fleet.start_crew(long_ms=long_ms)
    if losses == CUT_OFF:
        fleet.start_keepers(fleet.hosts[0])
    time.sleep(2)
    fleet.tell(text)
    broken_ns = boottime_ns()
    breaks(fleet)
    if losses == CUT_OFF:  # whom the cut-off agent cannot hear of it
        time.sleep(TTL_S / 4)
        for lock in range(fleet.locks):
            fleet.force(fleet.hosts[1], lock)
    time.sleep(seconds)
    calm_ns = boottime_ns()
    mends(fleet)
    time.sleep(back_s + TTL_S)
    record = fleet.finish()
    lab.row.add(record, Expected(losses=losses, calm_ns=calm_ns, back_s=back_s))
    if losses == 0:
        undelayed(lab.row, record, broken_ns, calm_ns)


def mend_all(fleet):
    everywhere(fleet, fleet.network.mend)


# --- a minority ----------------------------------------------------------------------------------------


for _count in (1, 2):
    case("F1", f"{_count} of 5 nodes blackholed", needs_root=True)(
        lambda lab, n=_count: broken(lab, lambda fleet: everywhere(fleet, lambda host: fleet.network.cut(host, range(n))),
                                     mend_all, f"blackhole {n}"))


def delayed(lab, count):
    def breaks(fleet):
        for i in range(count):
            fleet.network.delay(i, 800)

    def mends(fleet):
        for i in range(count):
            fleet.network.undelay(i)

    broken(lab, breaks, mends, f"delay {count} by 800 ms")


for _count in (1, 2):
    case("F1", f"{_count} of 5 nodes answer 800 ms late", needs_root=True)(lambda lab, n=_count: delayed(lab, n))

for _direction, _title in (("from", "answers"), ("to", "questions")):
    case("F3" if _direction == "from" else "F12", f"{_title} of 2 of 5 nodes lost", needs_root=True)(
        lambda lab, d=_direction: broken(
            lab, lambda fleet: everywhere(fleet, lambda host: fleet.network.cut(host, range(2), d)), mend_all,
            f"cut {d} 2 nodes", long_ms=300))


# --- a majority, or a host -----------------------------------------------------------------------------

@case("F3", "answers of all nodes lost: SET done, and never known", needs_root=True)
def answers_lost(lab):
    """Each time for half a TTL, so that no lease ends and what was half won must be undone."""
    fleet = lab.fleet(ttl_s=TTL_S, network=True)
    fleet.start_monitors()
    fleet.start_crew(long_ms=0, pause_ms=10)
    for _ in range(6):
        time.sleep(1)
        fleet.tell("cut from all nodes")
        everywhere(fleet, lambda host: fleet.network.cut(host, range(5), "from"))
        time.sleep(0.4 * TTL_S)
        mend_all(fleet)
    calm_ns = boottime_ns()
    time.sleep(TTL_S + 1)
    lab.row.add(fleet.finish(), Expected(losses=CUT_OFF, calm_ns=calm_ns, back_s=TTL_S + 0.5))


@case("F12", "one host cut off from all nodes, both ways", needs_root=True)
def host_cut(lab):
    broken(lab, lambda fleet: fleet.network.cut(0, range(5)), mend_all, "cut off host 0", 2 * TTL_S, CUT_OFF)


@case("F12", "one host hears no answers", needs_root=True)
def host_deaf(lab):
    broken(lab, lambda fleet: fleet.network.cut(0, range(5), "from"), mend_all, "host 0 deaf", 2 * TTL_S, CUT_OFF)


@case("F12", "one host is not heard", needs_root=True)
def host_mute(lab):
    broken(lab, lambda fleet: fleet.network.cut(0, range(5), "to"), mend_all, "host 0 mute", 2 * TTL_S, CUT_OFF)


@case("F12", "one host's cable pulled", needs_root=True)
def cable(lab):
    broken(lab, lambda fleet: fleet.network.unplug(0), lambda fleet: fleet.network.unplug(0, plugged=True), "unplug host 0",
           2 * TTL_S, CUT_OFF)


@case("F12", "connections of one host refused", needs_root=True)
def refused(lab):
    broken(lab, lambda fleet: fleet.network.cut(0, range(5), "to", "reject with tcp reset"), mend_all, "reset host 0",
           2 * TTL_S, CUT_OFF)


@case("F12", "hosts see different majorities", needs_root=True)
def islands(lab):
    """Each host is cut off from another pair of nodes: every quorum is another one."""
    def breaks(fleet):
        for host, pair in enumerate(((0, 1), (1, 2), (3, 4))):
            fleet.network.cut(host, pair)

    broken(lab, breaks, mend_all, "islands")


@case("F12", "a third of all answers lost", needs_root=True)
def lossy(lab):
    broken(lab, lambda fleet: everywhere(fleet, lambda host: fleet.network.lose(host, range(5), 33)), mend_all,
           "lose 33 %", losses=None, back_s=2 * TTL_S)


@case("F12", "one host's network flaps, 0.5 to 7 s", needs_root=True)
def flapping(lab):
    fleet = lab.fleet(ttl_s=TTL_S, network=True)
    fleet.start_monitors()
    fleet.start_crew()
    for away_s in (0.5, 1, 2, 4, 7, 0.5, 1, 2):
        time.sleep(fleet.random.uniform(0.3, 1.5))
        fleet.start_keepers(fleet.hosts[0], 1)
        fleet.tell(f"cut off host 0 for {away_s} s")
        fleet.network.cut(0, range(5))
        time.sleep(away_s)
        fleet.network.mend(0)
    calm_ns = boottime_ns()
    time.sleep(TTL_S + 1)
    lab.row.add(fleet.finish(), Expected(losses=CUT_OFF, calm_ns=calm_ns, back_s=TTL_S + 0.5))
