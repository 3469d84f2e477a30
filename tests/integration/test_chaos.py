#!/usr/bin/env python3
"""Net. The judge of tests/chaos, with histories made up for it, and a short random mix. The long runs: tests/chaos/run."""
import os
import pathlib
import random
import sys
import time

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS / "support"), str(TESTS / "chaos")]
import addresses  # noqa: E402
import criteria  # noqa: E402
import mix  # noqa: E402
import nodes  # noqa: E402
import partitions  # noqa: E402
import readers  # noqa: E402
import table  # noqa: E402
import tokens  # noqa: E402
from cases import perform  # noqa: E402
from criteria import Expected  # noqa: E402
from fleet import Fleet, Record  # noqa: E402
from history import LOST, WORD_PID_SHIFT, Hold, Sighting  # noqa: E402
from rig import main, scenario, skip  # noqa: E402

S = 1_000_000_000
MIX_S = 8 if os.environ.get("HOLDFAST_ONE_RUN") else 15


class MadeUp:
    """A Record that no fleet made."""

    def __init__(self, holds, sightings=(), unused=(), **more):
        self.holds, self.sightings, self.unused = list(holds), list(sightings), list(unused)
        self.orphans, self.stores, self.events, self.logs = [], [], {0: [], 1: []}, {}
        self.agents, self.ttl_s, self.boot_wall_s = 2, 3, 1000.0
        self.patient, self.healed_ns = {}, 10 * S
        self.__dict__.update(more)

    of_lock, losses = Record.of_lock, Record.losses


def hold(pid, fence, first_s, last_s, **more):
    more.setdefault("ask_ns", int(first_s * S) - S // 10)
    more.setdefault("end_ns", int(last_s * S) + 1000)
    return Hold(pid, fence, int(first_s * S), int(last_s * S), **more)


GOOD = [hold(1, 10, 1, 2, host=0), hold(2, 11, 2.1, 3, host=1), hold(1, 12, 3.1, 4, host=0)]


def bad(record, expected=Expected()):
    """The criteria that complain."""
    return {name for name, texts in criteria.judge(record, expected).items() if texts}


# --- the judge itself ----------------------------------------------------------------------------------


@scenario("the judge of chaos finds nothing in a good history")
def good(_run):
    assert bad(MadeUp(GOOD)) == set()
    assert bad(MadeUp(GOOD, stores=[(12, 5, 1)]), Expected(back_s=3, calm_ns=S, everyone=True, handover_s=0.2)) == set()
    assert bad(MadeUp([])) == set()


@scenario("the judge finds two holders at once, on one lock only")
def doubled(_run):
    assert bad(MadeUp([*GOOD, hold(9, 13, 3.9, 4.5)])) == {"P1"}
    assert bad(MadeUp([*GOOD, hold(9, 13, 3.9, 4.5, lock=1)])) == set()
    assert bad(MadeUp([*GOOD, hold(9, 13, 3.9, 4.5, careless=True)])) == set(), "nobody said how long that one held"


@scenario("the judge believes a foreign word in the witness, unless it was written late")
def foreign(_run):
    def seen(word_count):
        writer = hold(1, 10, 1, 2, first_word=(1 << WORD_PID_SHIFT) + 5, word=(1 << WORD_PID_SHIFT) + 8)
        return MadeUp([writer, *GOOD[1:]], [Sighting(2, 11, 0, 2 * S, (1 << WORD_PID_SHIFT) + word_count)])

    assert bad(seen(8)) == {"P1"} and bad(seen(5)) == {"P1"}
    assert bad(seen(9)) == set(), "after it the writer held no more"


@scenario("the judge finds a fence that did not rise, and a store that missed one")
def fences(_run):
    assert bad(MadeUp([*GOOD, hold(3, 12, 5, 6)])) == {"P2"}
    assert bad(MadeUp([*GOOD, hold(3, 11, 5, 6)])) == {"P2"}
    assert bad(MadeUp([*GOOD, hold(3, 11, 5, 6)]), Expected(fences=False)) == set()
    assert bad(MadeUp(GOOD, stores=[(11, 5, 0)])) == {"P2"}


@scenario("the judge finds a key that is left, and slow handovers")
def leaks(_run):
    assert bad(MadeUp(GOOD, orphans=["n1:lock-0"])) == {"P3"}
    slow = [hold(1, 10, 1, 2), hold(2, 11, 2.9, 3, ask_ns=S)]
    assert bad(MadeUp(slow), Expected(handover_s=0.5)) == {"P3"}
    late_asker = [hold(1, 10, 1, 2), hold(2, 11, 2.9, 3, ask_ns=int(2.8 * S))]
    assert bad(MadeUp(late_asker), Expected(handover_s=0.5)) == set()


@scenario("the judge finds losses that nothing explains, and a host that gets no lock any more")
def losses(_run):
    lost = [*GOOD, hold(3, 13, 5, 6, end=LOST, reason="quorum")]
    told = {0: [lost_event(13)]}
    assert bad(MadeUp(lost, events=told)) == {"P6"}
    assert bad(MadeUp(lost, events=told), Expected(losses=1)) == set()
    assert bad(MadeUp(lost, events=told), Expected(losses=("quorum",))) == set()
    assert bad(MadeUp(lost, events=told), Expected(losses=("clock",))) == {"P6"}
    assert bad(MadeUp(GOOD), Expected(back_s=1, calm_ns=int(3.5 * S))) == {"P6"}, "nobody came after it"
    assert bad(MadeUp(GOOD), Expected(back_s=1, calm_ns=int(2.5 * S))) == set()
    assert bad(MadeUp(GOOD), Expected(everyone=True, calm_ns=int(3.5 * S))) == {"P6"}, "host 1 is not back"


@scenario("the judge finds who waited for long, also who never got it, but not while the fault explains it")
def waited(_run):
    often = [hold(7, 10 + i, 1 + i, 1.5 + i) for i in range(9)]
    assert bad(MadeUp(often, patient={7: S})) == set()
    assert bad(MadeUp([*often[:3], *often[7:]], patient={7: S})) == {"P9"}, "5 s between two holds"
    assert bad(MadeUp([*often[:3], *often[7:]], patient={7: S}), Expected(calm_ns=5 * S, back_s=4)) == set()
    assert bad(MadeUp([*often[:3], *often[7:]], patient={7: S}), Expected(calm_ns=4 * S)) == {"P9"}
    assert bad(MadeUp(often[:3], patient={7: S})) == {"P9"}, "it waits still"
    assert bad(MadeUp(often[:3], patient={7: S}), Expected(wait_s=9)) == set()
    assert bad(MadeUp(often, patient={7: S, 8: S})) == {"P9"}, "it never got it"
    assert bad(MadeUp(often, patient={7: S, 8: S}), Expected(wait_s=None)) == set()


def lost_event(fence, number=1, **more):
    return {"event": "lost", "number": number, "name": "lock-0", "reason": "quorum", "fence": str(fence), "slot": 1,
            "generation": number, **more}


@scenario("the judge finds a loss that has no event, two, or one without a reason")
def untold(_run):
    lost = [*GOOD, hold(3, 13, 5, 6, end=LOST, reason="quorum")]

    def judged(*told):
        return bad(MadeUp(lost, events={0: list(told)}), Expected(losses=None))

    assert judged(lost_event(13)) == set()
    assert judged() == {"P8"} and judged(lost_event(12)) == {"P8"}
    assert judged(lost_event(13), lost_event(13, 2)) == {"P8"}
    assert judged(lost_event(13), lost_event(13, 2, name="job-a")) == set(), "another lock with the same number"
    assert judged(lost_event(13, reason=None)) == {"P8"}
    assert judged({"event": "overwritten", "count": 3}) == set(), "it was told, and overwritten"


TOKEN = "%040x" % 7
SCRIPT = '1005.{:03} [0 unix:/sock] "EVALSHA" "aa" "{}" "holdfast:node" "lock-0" {}'
TAKE_TAIL = '"holdfast:fence:lock-0" "%s" "3000" "1" "nonce" "%d" "tag" "holder"'


def monitored(*told):
    """A node's log: (ms, what) in its order."""
    lines = []
    for ms, what in told:
        if what == "take":
            lines.append(SCRIPT.format(ms, 3, TAKE_TAIL % (TOKEN, 12)))
        elif what == "set":
            lines.append(f'1005.{ms:03} [0 lua] "SET" "lock-0" "{TOKEN}" "NX" "PX" "3000"')
        elif what == "in the way":
            lines.append(f'1005.{ms:03} [0 lua] "GET" "lock-0"')
        elif what == "extend":
            lines.append(f'1005.{ms:03} [0 lua] "PEXPIRE" "lock-0" "3000"')
        else:
            lines.append(SCRIPT.format(ms, 2, f'"{TOKEN}"' + (' "0" "3000"' if what == "renew" else "")))
    return tokens.parse("\n".join(lines))


@scenario("the judge finds a token that is set or extended after its lease ended")
def resurrected(_run):
    ended = [hold(1, 12 << 10, 4, 5, end_ns=5 * S)]  # at 1005.000 of the nodes' clock

    def judged(*told):
        return bad(MadeUp(ended, logs={"n1": monitored((0, "take"), (0, "set"), *told)}))

    assert judged((0, "release")) == set()
    assert judged((0, "renew"), (0, "extend"), (1, "release")) == set()
    assert judged((0, "release"), (400, "take"), (400, "set"), (401, "release")) == {"P4"}, "set after the deadline"
    assert judged((0, "release"), (400, "take"), (401, "release")) == set(), "STALE"
    tried = ((0, "release"), (400, "take"), (400, "set"), (400, "in the way"))
    assert judged(*tried) == set(), "another's key was there"
    assert judged((0, "release"), (400, "release"), (400, "set")) == set(), "for a millisecond, for those who watch it"
    assert judged((0, "release"), (400, "renew")) == set(), "it extended nothing"
    assert judged((0, "release"), (400, "renew"), (400, "extend")) == {"P4"}
    assert judged((400, "renew"), (400, "extend"), (401, "release")) == set(), "it had waited in the node"
    ended += [hold(2, (12 << 10) + 1, 5.1, 5.6)]
    assert judged((400, "renew"), (400, "extend"), (601, "release")) == set(), "it was handed on"
    assert judged((601, "release"), (602, "renew"), (900, "extend")) == {"P4"}


# --- a fleet -------------------------------------------------------------------------------------------


@scenario("a fleet without locks: the judge sees overlaps, foreign words and fences that stay", sanitizers=False)
def unlocked(run):
    fleet = Fleet(run, ttl_s=2, nodes=3, hosts=2, locks=2)
    fleet.start_crew(long_ms=100, lock=False)
    for host in fleet.hosts:
        for process in host.crew:
            process.wait_out("ready")
    time.sleep(1)
    record = fleet.finish()
    assert record.holds and bad(record) >= {"P1", "P2"}, f"{len(record.holds)} holds: {bad(record)}"
    texts = criteria.exclusion(record)
    assert any("held until" in text for text in texts) and any("found what" in text for text in texts)


@scenario("a short random mix of faults on five nodes and three agents", sanitizers=False)
def short_mix(run):
    seed = int(os.environ.get("HOLDFAST_SEED", 0)) or random.randrange(1, 1_000_000)
    print(f"# HOLDFAST_SEED={seed}")
    row = perform(run, "F20", "short mix", lambda lab: mix.mixed(lab, MIX_S, gap_s=2.0), seed)
    print(f"# {table.HEAD}\n# {table.line(row)}")
    assert row.good, row.complaints[:10]
    assert row.acquisitions > 100, "hardly anything was locked"


@scenario("a short random mix of faults on those who share a lock and those who are alone: never both at a time", sanitizers=False)
def short_readers(run):
    seed = int(os.environ.get("HOLDFAST_SEED", 0)) or random.randrange(1, 1_000_000)
    print(f"# HOLDFAST_SEED={seed}")
    row = perform(run, "F20", "short mix", lambda lab: readers.mixed(lab, MIX_S, gap_s=2.0), seed)
    print(f"# {table.HEAD}\n# {table.line(row)}")
    assert row.good, row.complaints[:10]
    assert row.acquisitions > 100, "hardly anything was locked"


def judged(run, fault, title, function):
    """One case of tests/chaos/run."""
    row = perform(run, fault, title, function, random.randrange(1, 1_000_000))
    print(f"# {table.HEAD}\n# {table.line(row)}")
    assert row.good, row.complaints[:10]
    if row.skipped:
        skip(row.skipped)


@scenario("hosts whose configurations lead to another fleet's nodes: nobody holds twice, and nobody else is harmed", sanitizers=False)
def misled(run):
    row = perform(run, "F22", "another fleet", addresses.another_fleet, random.randrange(1, 1_000_000), 0.15)
    print(f"# {table.HEAD}\n# {table.line(row)}")
    assert row.good, row.complaints[:10]


@scenario("all five nodes restart empty, one each half TTL: no lease is lost, none is granted twice", sanitizers=False)
def rolling_restart(run):
    judged(run, "F5", "rolling restart", lambda lab: nodes.rolling(lab, 0.5))


@scenario("a host is cut off from all nodes: others get its locks, it knows", needs_root=True, sanitizers=False)
def host_cut_off(run):
    judged(run, "F12", "host cut off", partitions.host_cut)


if __name__ == "__main__":
    main()
