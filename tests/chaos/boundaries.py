"""F2: a majority of nodes is away, and is back on either side of each instant of the timeline.

Each case begins right after a renewal, so that V stands. What happened is compared with the V that the table showed
then, within 100 ms: `late` at V - 0.5 T, SIGTERM at V - 0.3 T, SIGKILL at V - 0.1 T, lost at V.
"""
import time

from cases import case
from criteria import Expected, S
from tickers import HELD, LATE, LOSING, LOST, Job, Observer, in_time
from rig import boottime_ns, wait_until

TTL_S = 5
WITHIN_S = 0.1
# From the nodes' return to a boundary, and from a boundary to their return. Connections that were silent for T/3 are made
# anew, with up to T/10 between two attempts.
BEFORE_S, AFTER_S = 0.55, 0.3
BEFORE_V = {"late": 0.5, "TERM": 0.3, "KILL": 0.1, "lost": 0.0}


class Outage:
    """A lease, its observer, and three of five nodes that stop right after a renewal."""

    def __init__(self, lab, with_job, ttl_s=TTL_S):
        self.ttl_s, self.row = ttl_s, lab.row
        self.fleet = lab.fleet(ttl_s=ttl_s, hosts=1)
        agent = self.fleet.hosts[0].agent
        self.job = self.holder = None
        if with_job:
            self.job = Job(lab.run, "job", agent, ttl_s)
        else:
            self.holder = lab.run.holder(agent)
            self.holder.acquire("job")
        self.observer = Observer(lab.run, "job", agent)
        self.complaints = {"P5": [], "P6": [], "P8": [], "P1": []}

    def begin(self):
        """The nodes that were renewed longest ago stop, so that the others' renewals do not move V any more. Where one
        was about to be renewed, V moves all the same, and it is done again."""
        for _ in range(10):
            self.observer.wait_renewed()
            away = sorted(self.fleet.nodes, key=lambda node: node.pttl("job"))[:self.fleet.quorum]
            self.fleet.tell(f"stop {len(away)} of {len(self.fleet.nodes)} nodes")
            for node in away:
                node.sigstop()
            self.fault_ns = boottime_ns()
            time.sleep(0.02)
            self.valid_ns = self.observer.now().valid_ns
            time.sleep(0.37 * self.ttl_s)
            if self.observer.now().valid_ns == self.valid_ns:
                return self
            for node in away:
                node.sigcont()
        raise AssertionError("V never stood")

    def at(self, boundary):
        return self.valid_ns - int(BEFORE_V[boundary] * self.ttl_s * S)

    def back(self, boundary, side):
        """The nodes are back before (-1) or after (+1) the boundary."""
        away_s = -BEFORE_S if side < 0 else AFTER_S
        wait_until(lambda: boottime_ns() > self.at(boundary) + int(away_s * S), 3 * self.ttl_s, interval_s=0.002)
        for node in self.fleet.nodes:
            node.sigcont()

    def expect(self, criterion, boundary, at_ns):
        """That it happened then."""
        if not at_ns:
            self.complaints[criterion].append(f"no {boundary}")
            return
        off_s = (at_ns - self.at(boundary)) / S
        self.row.figures[boundary] = f"{off_s * 1000:+.0f} ms"
        if abs(off_s) > WITHIN_S:
            self.complaints[criterion].append(f"{boundary} {off_s * 1000:+.0f} ms off")

    def expect_none(self, criterion, boundary, happened):
        if happened:
            self.complaints[criterion].append(f"{boundary}, though the nodes were back before")

    def seen(self, state):
        return self.observer.first(state, self.fault_ns)

    def finish(self):
        if self.job and self.job.process.running:
            self.job.kill()
        if self.holder:
            self.holder.close()
        self.row.acquisitions += 1
        self.row.add(self.fleet.finish(), Expected(losses=None))
        self.row.blame(self.complaints)


def with_job(lab, boundary, side, ttl_s=TTL_S):
    """The job's side of it: which of late, SIGTERM and SIGKILL happened, and when."""
    outage = Outage(lab, True, ttl_s).begin()
    outage.back(boundary, side)
    job, order = outage.job, ["late", "TERM", "KILL"]
    reached = order.index(boundary) + (side > 0)
    if reached < 2:  # it recovers
        wait_until(lambda: outage.observer.now().valid_ns > outage.valid_ns and outage.observer.now().state == HELD,
                   ttl_s, "the lease recovers")
        time.sleep(ttl_s / 2)
        if not job.process.running:
            outage.complaints["P6"].append(f"the job ended: {job.process.err}")
    else:
        code = job.process.wait(3 * ttl_s)
        if code != 124:
            outage.complaints["P5"].append(f"exit {code}")
        outage.complaints["P5"] += in_time(job, outage.valid_ns)
        outage.expect("P5", "KILL", job.last_ns)  # TERM is terminal, and the job does not hear it
    if reached >= 1:
        outage.expect("P8", "late", outage.seen(LATE))
    else:
        outage.expect_none("P8", "late", outage.seen(LATE))
    if reached >= 2:
        outage.expect("P5", "TERM", job.term_ns)
    else:
        outage.expect_none("P6", "TERM", job.term_ns)
    outage.finish()


def with_holder(lab, boundary, side, ttl_s=TTL_S):
    """The same for a process that uses the library: `losing` is terminal, and the end is V."""
    outage = Outage(lab, False, ttl_s).begin()
    if side < 0:
        outage.back(boundary, side)
    wait_until(lambda: not outage.holder.held(), 2 * ttl_s, "the holder knows", interval_s=0.002)
    known_ns = boottime_ns()
    outage.back(boundary, side)
    outage.expect("P8", "late", outage.seen(LATE))
    outage.expect("P8", "TERM", outage.seen(LOSING))
    outage.expect("P1", "lost", known_ns)
    outage.expect("P8", "lost", wait_until(lambda: outage.seen(LOST), 2, "the table shows the loss"))
    outage.row.losses["quorum"] = 1
    outage.finish()


SIDES = {-1: "back before", 1: "back after"}

for _boundary in ("late", "TERM", "KILL"):
    for _side in SIDES:
        case("F2", f"3 of 5 nodes stopped, {SIDES[_side]} {_boundary}")(
            lambda lab, boundary=_boundary, side=_side: with_job(lab, boundary, side))
for _side in SIDES:
    case("F2", f"3 of 5 nodes stopped, a holder, {SIDES[_side]} lost")(
        lambda lab, side=_side: with_holder(lab, "lost", side))
