"""Histories of holds, as contender.c writes them, and what may not be in one. Pure functions.

Times are CLOCK_BOOTTIME nanoseconds, so the holds of all processes of one host are on one line of time.
"""
import typing


class Hold(typing.NamedTuple):
    pid: int
    fence: int
    first_ns: int  # the first reading after the lease was held
    last_ns: int   # the last reading before its release
    contended: bool


def parse(text):
    """The holds of one history file."""
    holds = []
    for line in text.splitlines():
        pid, fence, first_ns, last_ns, contended = (int(word) for word in line.split())
        holds.append(Hold(pid, fence, first_ns, last_ns, bool(contended)))
    return holds


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


def contended_share(holds):
    return sum(hold.contended for hold in holds) / len(holds) if holds else 0.0


def changes_of(holds, group_of):
    """How often the lock went from one group to another, e.g. from agent to agent; `group_of` is {pid: group}."""
    groups = [group_of[hold.pid] for hold in in_grant_order(holds)]
    return sum(before != after for before, after in zip(groups, groups[1:]))
