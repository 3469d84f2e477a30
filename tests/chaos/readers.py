"""F20 of shared and exclusive locks: who shares and who is alone, while everything breaks at random from one seed."""
import mix
import sharing
from cases import case
from rig import IS_ROOT, boottime_ns

SHARE, ALONE = 6, 2  # processes of each host
LONG_TTLS = 0.8      # how long one of each kind holds, on the first host


class Trouble(mix.Trouble):
    """What may befall a fleet, and those processes."""

    def __init__(self, fleet, crew):
        super().__init__(fleet)
        self.crew = crew

    def kill_holder(self):
        host = self.host()
        victim = self.random.choice(host.sharers)
        self.fleet.tell(f"kill one that shares or is alone on host {host.label}")
        host.sharers.remove(victim)
        victim.kill()
        self.crew.killed.append(victim)
        host.sharers.append(self.crew.again(host, victim))

    def stop_holders(self):
        host = self.host()
        self.fleet.stop_holders(self.random.sample(host.sharers, self.random.randint(1, len(host.sharers))), self.upto(2))

    def newcomer(self):
        """One that shares and one that is alone, on a host that has never seen these nodes."""
        if self.fleet.fresh:
            self.fleet.retire(self.fleet.fresh[-1])
        host = self.fleet.start_stranger()
        for shares in (True, False):
            host.sharers.append(self.crew.let_go(self.crew.begin(host, shares, False)))

    def force(self):
        """The hold of NAME itself or of a slot: of an exclusive hold one of its locks."""
        name = self.random.choice(("db", f"db#{self.random.randrange(64)}"))
        shown = self.fleet.run.holdfast("show", "--json", name, agent=self.host().agent)
        fence = shown.out and (shown.json["anywhere"] or shown.json).get("fence")
        if fence:
            self.fleet.tell(f"force {name}")
            self.fleet.run.holdfast("release", "--force", "--fence", fence, name, agent=self.host().agent)

    def delete(self):
        node = self.node()
        name = self.random.choice(("db", f"db#{self.random.randrange(64)}"))
        self.fleet.tell(f"delete {name} on {node.id}")
        node.cmd("DEL", name)


class Crew(sharing.Sharers):
    """Of all hosts of a fleet. Those that are killed are followed by others."""

    def __init__(self, fleet):
        super().__init__(fleet.run, "db")
        self.fleet, self.kinds, self.killed = fleet, {}, []
        for host in fleet.hosts:
            host.sharers = [self.begin(host, i < SHARE, not host.number and i in (0, SHARE)) for i in range(SHARE + ALONE)]
        self.start()

    def begin(self, host, shares, long):
        hold_us = int(LONG_TTLS * self.fleet.ttl_s * 1_000_000) if long else 5000
        process = (self.share if shares else self.alone)(
            host.agent, "--rough", "--hold-us", hold_us, "--pause-us", 10_000_000 if long else 10_000 if shares else 150_000,
            env=self.fleet.clock_env(host))
        self.kinds[process] = shares, long
        return process

    def again(self, host, victim):
        return self.let_go(self.begin(host, *self.kinds[victim]))

    @staticmethod
    def let_go(process):
        process.wait_out("ready", 60)
        process.popen.stdin.close()
        return process


def mixed(lab, seconds, gap_s=10.0, **options):
    """Breaks a fleet for so long, at most gap_s between two faults, lets it come to rest, and judges."""
    fleet = lab.fleet(clock=True, suspendable=True, ttl_s=2, holders=1, locks=2, **options)
    crew = Crew(fleet)
    trouble = Trouble(fleet, crew)
    mix.break_for(fleet, trouble, seconds, gap_s)
    calm_ns = boottime_ns()
    mix.come_to_rest(fleet)
    fleet.finish()
    crew.finish(killed=crew.killed)
    judge(lab.row, fleet, crew, calm_ns)


def judge(row, fleet, crew, calm_ns):
    late = [kind for kind, holds in (("shares", crew.shared_holds), ("is alone", crew.alone_holds))
            if not any(hold.first_ns > calm_ns for hold in holds)]
    row.acquisitions += len(crew.holds)
    row.faults += len(fleet.told)
    row.overlaps += len(crew.faults())
    row.blame({
        "P1": [f"fence {a.fence} (pid {a.pid}, lock {a.lock}) held until {(a.last_ns - b.first_ns) / 1e6:.3f} ms after fence {b.fence} "
               f"(pid {b.pid}, lock {b.lock}) began" for a, b in crew.faults()],
        "P2": [f"fence {b.fence} follows {a.fence}" for a, b in sharing.fence_faults(crew.holds)],
        "P3": [f"key {key} is left" for key in fleet.orphans()],
        "P6": [f"nobody {kind} any more" for kind in late],
    })
    row.figures |= {"shared": len(crew.shared_holds), "alone": len(crew.alone_holds), "seconds": round(crew.span_s),
                    "kinds": "/".join(sorted({text.partition(" ")[0] for _, text in fleet.told}))}


@case("F20", "those who share and those who are alone")
def readers(lab):
    """As root with partitions."""
    mixed(lab, lab.seconds, network=IS_ROOT and mix.HAS_NFT)
