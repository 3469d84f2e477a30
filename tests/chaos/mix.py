"""F20: everything at random, from one seed.

Nodes' clocks are stepped forward only: fences that were made of a clock that then goes back, on a majority that then
forgets, are beyond the promise.
"""
import random
import shutil
import threading
import time

from cases import case
from criteria import Expected, S
from rig import IS_ROOT, boottime_ns, wait_until
from tickers import Job, Observer, in_time


class Trouble:
    """One fault after the other; the seed gives the same ones again, but for their timing."""

    def __init__(self, fleet):
        self.fleet, self.random, self.ttl_s = fleet, fleet.random, fleet.ttl_s

    def next(self):
        kinds = [self.restart, self.flush, self.step, self.delete, self.stop_minority, self.stop_majority, self.stop_agent,
                 self.kill_agent, self.kill_holder, self.stop_holders, self.amnesia, self.amnesia, self.away, self.suspend, self.force,
                 self.force, self.newcomer]
        if self.fleet.network:
            kinds += [self.cut, self.cut, self.refuse, self.lossy]
        self.random.choice(kinds)()

    def node(self):
        return self.random.choice(self.fleet.nodes)

    def host(self):
        return self.random.choice(self.fleet.hosts)

    def nodes(self, count):
        return self.random.sample(self.fleet.nodes, count)

    def upto(self, ttls):
        return self.random.uniform(0.05, ttls * self.ttl_s)

    def restart(self):
        self.fleet.restart(self.node())

    def away(self):
        self.fleet.restart(self.node(), self.upto(1.5))

    def flush(self):
        self.fleet.flush(self.node())

    def step(self):
        self.fleet.step(self.node(), self.random.choice((0.5, 1, self.ttl_s, 5)))

    def delete(self):
        """On one node: on more the lease would be lost, by somebody who may write to lock keys."""
        node = self.node()
        self.fleet.tell(f"delete on {node.id}")
        node.cmd("DEL", f"lock-{self.random.randrange(self.fleet.locks)}")

    def stop_minority(self):
        self.fleet.stop_nodes(self.nodes(self.random.randint(1, len(self.fleet.nodes) - self.fleet.quorum)), self.upto(1.5))

    def stop_majority(self):
        self.fleet.stop_nodes(self.nodes(self.fleet.quorum), self.upto(1.2))

    def stop_agent(self):
        self.fleet.stop_agent(self.host(), self.upto(2))

    def kill_agent(self):
        self.fleet.kill_agent(self.host(), self.upto(1.3))

    def kill_holder(self):
        self.fleet.kill_holder(self.host())

    def stop_holders(self):
        crew = self.host().crew
        self.fleet.stop_holders(self.random.sample(crew, self.random.randint(1, len(crew))), self.upto(2))

    def suspend(self):
        self.fleet.suspend(self.host(), self.upto(1.5))

    def force(self):
        self.fleet.force(self.host(), self.random.randrange(self.fleet.locks))

    def newcomer(self):
        """Never seen before, after whatever just happened; one at a time, the one before ends in good order."""
        if self.fleet.fresh:
            self.fleet.retire(self.fleet.fresh[-1])
        self.fleet.start_newcomer()

    def cut(self):
        """A host and some nodes, both ways or one way."""
        direction, nodes = self.random.choice(("both", "to", "from")), self.random.sample(range(5), self.random.randint(1, 5))
        self.partition(f"cut {direction} {len(nodes)} nodes", lambda net, host: net.cut(host, nodes, direction))

    def refuse(self):
        self.partition("refuse", lambda net, host: net.cut(host, range(5), "to", "reject with tcp reset"))

    def lossy(self):
        self.partition("lose 40 %", lambda net, host: net.lose(host, range(5), 40))

    def partition(self, text, do):
        host = self.host()
        self.fleet.tell(f"{text} of host {host.label}")
        do(self.fleet.network, host.number)
        time.sleep(self.upto(1.5))
        self.fleet.network.mend(host.number)

    def amnesia(self):
        """While a host hangs, a majority forgets the keys of its leases, which are valid all the same."""
        fleet, host = self.fleet, self.host()
        fleet.tell(f"hang agent {host.label}")
        host.agent.sigstop()
        for node in self.nodes(fleet.quorum):
            self.random.choice((fleet.restart, fleet.flush, lambda n: fleet.step(n, 1.2 * self.ttl_s)))(node)
        time.sleep(self.upto(0.9))
        host.agent.sigcont()


class Jobs:
    """One `holdfast run` after the other on each host, until end(): dead before V, whatever breaks. `complaints`: P5."""

    def __init__(self, lab, fleet):
        self.lab, self.fleet, self.over = lab, fleet, threading.Event()
        self.complaints, self.count, self.lost = [], 0, 0
        self.threads = [threading.Thread(target=self.loop, args=(host,)) for host in fleet.hosts]
        for thread in self.threads:
            thread.start()

    def loop(self, host):
        while not self.over.is_set():
            try:
                self.one(host)
            except (AssertionError, OSError) as error:
                self.complaints.append(f"a job on host {host.label}: {error}")

    def one(self, host):
        name = f"job-{host.label}"
        observer = Observer(self.lab.run, name, host.agent)
        job = Job(self.lab.run, name, host.agent, self.fleet.ttl_s, patience_s=60)
        self.count += 1
        self.over.wait(random.uniform(0.5, 5 * self.fleet.ttl_s))
        if job.process.running:
            job.kill()
        else:
            self.lost += 1
            wait_until(lambda: job.dead, 5, "the job is dead")
            self.complaints += in_time(job, observer.last_valid_ns(), told_ttls=0)
        observer.close()

    def end(self):
        self.over.set()
        for thread in self.threads:
            thread.join()


HAS_NFT = bool(shutil.which("nft"))


def break_for(fleet, trouble, seconds, gap_s):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(fleet.random.uniform(0, gap_s))
        trouble.next()


def come_to_rest(fleet):
    """Seconds that it took, after the last fault."""
    for host in fleet.hosts:
        host.agent.wait_ready(60)
    rest_s = fleet.quarantine_s + 2 * fleet.ttl_s + 2
    time.sleep(rest_s)
    return rest_s


def mixed(lab, seconds, gap_s=10.0, **options):
    """Breaks a fleet for so long, at most gap_s between two faults, lets it come to rest, and judges."""
    fleet = lab.fleet(clock=True, suspendable=True, **options)
    fleet.start_crew(careless=50, long_ms=800 * fleet.ttl_s)
    for host in fleet.hosts:
        fleet.start_keepers(host, 1, wait=False)
    trouble, jobs = Trouble(fleet), Jobs(lab, fleet)
    try:
        break_for(fleet, trouble, seconds, gap_s)
        calm_ns = boottime_ns()
        rest_s = come_to_rest(fleet)
    finally:
        jobs.end()
    record = fleet.finish()
    kinds = sorted({text.partition(" ")[0] for _, text in record.told})
    lab.row.figures["kinds"] = "/".join(kinds)
    lab.row.add(record, Expected(losses=None, calm_ns=calm_ns, back_s=rest_s, everyone=True))
    lab.row.blame({"P5": jobs.complaints})
    lab.row.figures["jobs"] = f"{jobs.count}, {jobs.lost} ended by a loss"
    lab.row.figures["seconds"] = round((record.ended_ns - record.started_ns) / S)


@case("F20", "random mix")
def random_mix(lab):
    """As root with partitions."""
    mixed(lab, lab.seconds, ttl_s=2, holders=6, locks=9, network=IS_ROOT and HAS_NFT)
