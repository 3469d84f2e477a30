"""What a run may not show. Pure functions of a Record (fleet.py) and of what was expected of the fault.

Each judges one criterion and gives a list of complaints; an empty one is good.

  P1 exclusion: no two holds of a lock have an instant in common, and no holder sees another's word in the witness
  P2 fences rise from hold to hold, and the store refuses what comes late
  P3 nothing is leaked: no key is left one TTL after everybody ended; a waiter gets a released lock soon
  P4 no resurrection: no node is told to set or extend a token that was released or lost (tokens.py)
  P5 a job is dead before its V, and told before (tickers.py)
  P6 liveness: no loss that the fault does not explain, and everybody gets locks again after it
  P7 the check: right beside what the holder did, and cheap
  P8 every loss has one event, with a reason
  P9 nobody waits for longer than a TTL for a lock that is only held for moments, but for what the fault explains
"""
import collections
import dataclasses
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import events  # noqa: E402
import history  # noqa: E402
import tokens  # noqa: E402

S = 1_000_000_000
ENDINGS = ("granted", "readopted", "late", "losing", "lost", "released")
CRITERIA = ("P1", "P2", "P3", "P4", "P5", "P6", "P7", "P8", "P9")
PAUSE_S = 0.25  # of a patient contender between a hold and its next wait, and the noise of a busy machine


@dataclasses.dataclass
class Expected:
    losses: object = 0           # how many at most; or the reasons that may be; or None: not judged
    fences: bool = True          # False where fences are beyond the promise
    calm_ns: int = 0             # the last fault ended
    back_s: float = 0            # a waiter gets a lock so long after that; 0: not judged
    everyone: bool = False       # every host had a lock after that
    handover_s: float = 0        # from a release to a waiter's hold, the 99th percentile; 0: not judged
    events: bool = True          # every loss has its event
    wait_s: float = 0            # how long who waits for moments may wait, in calm; 0: a TTL; None: not judged


def exclusion(record):
    complaints = []
    for lock, holds in sorted(record.of_lock().items()):
        for before, after in history.overlaps(holds):
            complaints.append(f"lock {lock}: fence {before.fence} (pid {before.pid}) held until "
                              f"{(before.last_ns - after.first_ns) / 1e6:.3f} ms after fence {after.fence} "
                              f"(pid {after.pid}) began")
    for seen in history.proven(record.sightings, record.holds):
        complaints.append(f"lock {seen.lock}: pid {seen.pid} held, and found what "
                          f"pid {seen.word >> history.WORD_PID_SHIFT} wrote while it held")
    return complaints


def fences(record):
    complaints = []
    for lock, holds in sorted(record.of_lock().items()):
        for before, after in history.fence_faults(holds):
            complaints.append(f"lock {lock}: fence {after.fence} follows {before.fence}")
        highest = max(hold.fence for hold in holds)
        if record.stores and record.stores[lock][0] < highest:
            complaints.append(f"lock {lock}: the store never saw {highest}")
    return complaints


def leaks(record, expected):
    complaints = [f"key {key} is left" for key in record.orphans]
    times = handovers(record)
    if expected.handover_s and times and percentile(times, 99) > expected.handover_s:
        complaints.append(f"99 % of handovers took up to {percentile(times, 99):.3f} s")
    return complaints


def handovers(record):
    """Seconds from each answered release to the next hold of the lock, if its holder had asked before."""
    found = []
    for holds in record.of_lock().values():
        ordered = history.in_grant_order(holds)
        for before, after in zip(ordered, ordered[1:]):
            if before.end == history.RELEASED and after.ask_ns < before.last_ns:
                found.append(max(after.first_ns - before.end_ns, 0) / S)
    return found


def percentile(values, percent):
    ordered = sorted(values)
    return ordered[min(len(ordered) * percent // 100, len(ordered) - 1)]


def liveness(record, expected):
    complaints = []
    losses = record.losses
    if isinstance(expected.losses, int):
        if sum(losses.values()) > expected.losses:
            complaints.append(f"losses {losses}, {expected.losses} are explained")
    elif expected.losses is not None and not set(losses) <= {*expected.losses, "released too late"}:
        complaints.append(f"losses {losses}, only {sorted(expected.losses)} are explained")
    if expected.back_s:
        late_ns = expected.calm_ns + int(expected.back_s * S)
        if not any(expected.calm_ns < hold.first_ns < late_ns for hold in record.holds):
            complaints.append(f"nobody got a lock within {expected.back_s:.1f} s after the fault")
    for host in range(record.agents if expected.everyone else 0):
        if not any(hold.host == host and hold.last_ns > expected.calm_ns for hold in record.holds):
            complaints.append(f"host {host} never had a lock after the fault")
    return complaints


def waits(record, from_ns=0):
    """Seconds for which each patient contender waited in one piece after that time, also for what it never got."""
    found = []
    for pid, began_ns in sorted(record.patient.items()):
        since_ns = max(began_ns, from_ns)
        for hold in history.in_grant_order(hold for hold in record.holds if hold.pid == pid):
            found.append((hold.first_ns - since_ns) / S)
            since_ns = max(hold.end_ns or hold.last_ns, from_ns)
        found.append((record.healed_ns - since_ns) / S)
    return [seconds for seconds in found if seconds > 0]


def longest_wait(record, expected):
    most_s = (expected.wait_s or record.ttl_s) + PAUSE_S
    from_ns = expected.calm_ns and expected.calm_ns + int(expected.back_s * S)
    return [f"somebody waited for {seconds:.2f} s, {most_s:.2f} s at most are explained"
            for seconds in waits(record, from_ns) if seconds > most_s]


def told_losses(record):
    """Every loss that a holder saw has one event, with a reason; and no event is told twice or out of order."""
    complaints = []
    for host, told in record.events.items():
        lost = events.those(told, "lost")
        complaints += [f"host {host}: a loss of {e['name']} without a reason" for e in lost if not e["reason"]]
        if events.those(told, "overwritten"):
            continue
        for part in tables(told):
            complaints += [f"host {host}: {fault}" for fault in events.faults(part)]
        counts = collections.Counter((e["name"], int(e["fence"])) for e in lost)
        for hold in record.holds + record.unused:
            lease = f"lock-{hold.lock}", hold.fence
            if hold.host == host and hold.end == history.LOST and counts[lease] != 1:
                words = events.words_of(events.those(told, *ENDINGS, name=lease[0], fence=str(hold.fence)))
                # An agent that is killed before it answers has released it, and the next one knows of none.
                if hold.reason == "released too late" and words[-1:] == ["released"]:
                    continue
                complaints.append(f"host {host}: the loss of {lease} ({hold.reason}) has {counts[lease]} events: {words}")
    return complaints


def tables(told):
    """The events of each table: an agent that begins a new one counts from 1 again."""
    parts = [[]]
    for e in told:
        if e["event"] == "watching":
            parts.append([])
        parts[-1].append(e)
    return parts


def resurrections(record):
    """A token ends with the last of the holds that it was handed to; they differ in the fence's low part."""
    ends, unended = {}, set()
    for hold in record.holds + record.unused:
        lease = f"lock-{hold.lock}", hold.fence >> 10
        ends[lease] = max(ends.get(lease, 0), record.boot_wall_s + hold.end_ns / S)
        if not hold.end_ns:
            unended.add(lease)
    return tokens.faults(record.logs, {lease: at_s for lease, at_s in ends.items() if lease not in unended}, record.ttl_s)


def judge(record, expected):
    """{criterion: complaints} of what a record can show."""
    found = {"P1": exclusion(record), "P3": leaks(record, expected), "P6": liveness(record, expected)}
    if expected.fences:
        found["P2"] = fences(record)
    if expected.events:
        found["P8"] = told_losses(record)
    if record.logs:
        found["P4"] = resurrections(record)
    if record.patient and expected.wait_s is not None:
        found["P9"] = longest_wait(record, expected)
    return found
