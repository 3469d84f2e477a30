"""Histories of holds, as contender.c writes them (witness.h), and what may not be in one. Pure functions but read().

Times are CLOCK_BOOTTIME nanoseconds, so the holds of all processes of one machine are on one line of time. Functions
that judge holds take those of one lock.
"""
import pathlib
import struct
import typing

HOLD, SIGHTING, UNUSED = 1, 2, 3              # kinds of records
UNENDED, RELEASED, LOST, UNSURE = range(4)    # ends of a hold
CONTENDED, CARELESS = 1, 2                    # flags
RECORD = struct.Struct("<6IQ4q2QI44s")
WITNESS = struct.Struct("<4Q32x")
WORD_PID_SHIFT = 40


class Hold(typing.NamedTuple):
    pid: int
    fence: int
    first_ns: int  # the first reading after the lease was held
    last_ns: int   # the last reading before its release or loss
    contended: bool = False
    lock: int = 0
    host: int = 0
    ask_ns: int = 0
    end_ns: int = 0
    end: int = RELEASED
    reason: str = ""
    careless: bool = False
    first_word: int = 0
    word: int = 0
    refused: int = 0


class Sighting(typing.NamedTuple):
    """A holder of `lock` found a word in the witness that another had written."""
    pid: int
    fence: int
    lock: int
    at_ns: int
    word: int


def parse(data):
    """The holds, sightings and unused grants of one history file."""
    holds, sightings, unused = [], [], []
    for fields in RECORD.iter_unpack(data[:len(data) // RECORD.size * RECORD.size]):
        (kind, flags, pid, host, lock, end, fence, ask_ns, first_ns, last_ns, end_ns, first_word, word, refused,
         reason) = fields
        if kind == SIGHTING:
            sightings.append(Sighting(pid, fence, lock, first_ns, word))
        elif kind in (HOLD, UNUSED):
            (holds if kind == HOLD else unused).append(
                Hold(pid, fence, first_ns, last_ns, bool(flags & CONTENDED), lock, host, ask_ns, end_ns, end,
                     reason.partition(b"\0")[0].decode(), bool(flags & CARELESS), first_word, word, refused))
    return holds, sightings, unused


def format_hold(hold):
    """The record of a hold."""
    flags = CONTENDED * hold.contended | CARELESS * hold.careless
    return RECORD.pack(HOLD, flags, hold.pid, hold.host, hold.lock, hold.end, hold.fence, hold.ask_ns, hold.first_ns,
                       hold.last_ns, hold.end_ns, hold.first_word, hold.word, hold.refused, hold.reason.encode())


def read(path):
    """The same of a file, up to where it is written: the rest is a hole."""
    with open(path, "rb") as file:
        parts = []
        while (part := file.read(RECORD.size * 4096)).strip(b"\0"):
            parts.append(part)
    return parse(b"".join(parts))


def read_stores(path):
    """Per lock what the witness's store has seen: (highest fence, accepted writes, refused writes)."""
    rows = WITNESS.iter_unpack(pathlib.Path(path).read_bytes())
    return [(fence, accepted, refused) for _, fence, accepted, refused in rows]


def in_grant_order(holds):
    return sorted(holds, key=lambda hold: (hold.first_ns, hold.last_ns))


def overlaps(holds):
    """Pairs of holds that had one instant or more in common: each hold with the one before it that ended last."""
    found, latest = [], None
    for hold in in_grant_order(holds):
        if latest and hold.first_ns <= latest.last_ns:
            found.append((latest, hold))
        if not latest or hold.last_ns > latest.last_ns:
            latest = hold
    return found


def fence_faults(holds):
    """Neighbours in grant order whose fence did not rise."""
    ordered = in_grant_order(holds)
    return [(before, after) for before, after in zip(ordered, ordered[1:]) if after.fence <= before.fence]


def proven(sightings, holds):
    """Sightings of a word whose writer, after it had written it, still held. A word that was written late (by a
    process that was paused after it had asked) is what the fence is for, and no fault of the lock."""
    spans = {}
    for hold in holds:
        spans.setdefault(hold.pid, []).append((hold.first_word, hold.word))
    return [seen for seen in sightings
            if any(first <= seen.word <= last for first, last in spans.get(seen.word >> WORD_PID_SHIFT, ()))]


def contended_share(holds):
    return sum(hold.contended for hold in holds) / len(holds) if holds else 0.0


def changes_of(holds, group_of):
    """How often the lock went from one group to another, e.g. from agent to agent; `group_of` is {pid: group}."""
    groups = [group_of[hold.pid] for hold in in_grant_order(holds)]
    return sum(before != after for before, after in zip(groups, groups[1:]))


def longest_wait(holds, begin_ns, end_ns):
    """Of one process that wanted the lock all the time between these: the longest it did not have it, in ns."""
    longest, last = 0, begin_ns
    for hold in in_grant_order(holds):
        longest, last = max(longest, hold.first_ns - last), hold.last_ns
    return max(longest, end_ns - last)
