"""What is aimed at, and what a run's lines say of it. Each goal is a function of the lines that returns the value as text and
whether the goal is met; its docstring has the two columns before, what it is about and what it should be."""
from rows import Missing

GOALS = []


def goal(what, aim):
    def add(function):
        GOALS.append((what, aim, function))
        return function
    return add


def judged(rows, before=None):
    """Rows of a table: what, aim, value, "met" or "**not met**", and the value of a run before."""
    for what, aim, function in GOALS:
        value, met = judge(function, rows)
        yield [what, aim, value, met] + ([judge(function, before)[0]] if before else [])


def judge(function, rows):
    try:
        value, met = function(rows)
        return value, "met" if met else "**not met**"
    except Missing:
        return "-", "not measured"


def us(value):
    return f"{value / 1000:.2f} ms" if value >= 1000 else f"{value:.0f} us" if value >= 10 else f"{value:.2f} us"


# --- the owner's check ---------------------------------------------------------------------------------


@goal("owner's check, hot", "at most 1.1 clock reads")
def check_hot(rows):
    row = rows.where(bench="check").one()
    return f"{row['ratio']:.2f} ({row['held_ns']:.1f} ns, a clock read {row['clock_ns']:.1f} ns)", row["ratio"] <= 1.1


@goal("... system calls in it, by strace", "none")
def check_calls(rows):
    row = rows.where(bench="system calls").one()
    if row["calls"] is None:
        raise Missing
    return f"{row['calls']} in {row['checks']:,} checks", row["calls"] == 0


@goal("owner's check, one of 1,000,000 at random", "at most 1.1 times a clock read and a random cache line of the same memory")
def check_random(rows):
    row = rows.where(bench="table").one()
    reference = min(row["line_and_clock_ns"], row["line_ns"] + row["clock_ns"])
    return (f"{row['check_ns'] / reference:.2f} ({row['check_ns']:.0f} ns; where the handle is no more at hand than the lease, "
            f"{row['handle_ns']:.0f} ns)"), row["check_ns"] <= 1.1 * reference


@goal("look-up of a name in a table of 1,000,000", "at most 4 random cache lines and a clock read")
def lookup(rows):
    row = rows.where(bench="table").one()
    lines = (row["find_ns"] - row["clock_ns"]) / row["line_ns"]
    return f"{lines:.1f} lines and a clock read ({row['find_ns']:.0f} ns, a line {row['line_ns']:.0f} ns)", lines <= 4


# --- lock and unlock -----------------------------------------------------------------------------------


class One:
    """What one client's locks and unlocks took and cost, and what they are read beside."""

    def __init__(self, rows, nodes, net="tcp", **more):
        self.rows = rows.where(part="lock1", nodes=nodes, net=net, beside=None, **more)
        self.ours, self.work = self.rows.where(bench="lock"), self.rows.where(bench="work")
        self.scripts, self.plain = (self.rows.where(kind=kind, what="lat") for kind in ("scripts", "plain"))
        self.scripts_paced, self.plain_paced = (self.rows.where(kind=kind, what="pace") for kind in ("scripts", "plain"))

    def with_futex(self):
        """p50 over that of the floor with the shipped scripts and two futex round trips, and the latter."""
        trip = self.rows.where(bench="futex", apart=True).median("p50_us")
        floor = self.scripts.median("p50_us") + 2 * trip
        return self.ours.median("p50_us") / floor, f"{us(floor)}, two round trips of {us(trip)} within"


@goal("a node's CPU per lock+unlock, 3 nodes", "at most 1.7 times that of plain SET and checked DEL")
def node_cpu(rows):
    one = One(rows, 3)
    ours, plain = one.work.median("node_cpu_us"), one.plain.median("node_cpu_us")
    return (f"{one.work.ratio(one.plain, 'node_cpu_us'):.2f} ({us(ours)}, plain {us(plain)}, the shipped scripts from the floor's client "
            f"{us(one.scripts.median('node_cpu_us'))}); at the same pace {one.work.ratio(one.plain_paced, 'node_cpu_us'):.2f} (plain "
            f"{us(one.plain_paced.median('node_cpu_us'))}, the shipped scripts {us(one.scripts_paced.median('node_cpu_us'))})"),\
        one.work.ratio(one.plain, "node_cpu_us") <= 1.7


@goal("the agent's CPU per lock+unlock, 3 nodes", "at most 1.4 times that of the bare quorum lock's client")
def agent_cpu(rows):
    one = One(rows, 3)
    ours, plain = one.work.median("agent_cpu_us"), one.plain.median("client_cpu_us")
    return (f"{ours / plain:.2f} ({us(ours)}, bare {us(plain)}; {one.work.median('agent_switches'):.1f} task switches; the program's own "
            f"{us(one.ours.median('client_cpu_us'))}); bare at the same pace {us(one.plain_paced.median('client_cpu_us'))}"), ours <= 1.4 * plain


@goal("... its system calls", "at most 17")
def agent_calls(rows):
    told = One(rows, 3).rows.where(bench="system calls of the agent")
    texts = [f"{row['per_cycle']:.1f} by {row['by']} (" + ", ".join(f"{name} {count:g}" for name, count in row["most"].items()) + ")"
             for row in told]
    return "; ".join(texts), told.where(by="strace").one("per_cycle") <= 17


@goal("io_uring for sends and receives, by the bare quorum lock, 3 nodes", "the agent would need 15 % less CPU with it")
def by_uring(rows):
    agent, rows = One(rows, 3).work.median("agent_cpu_us"), rows.where(part="lock1", beside="uring")
    texts, saved = [], 0
    for kind in "plain", "scripts":
        calls, ring = rows.where(kind=kind, what="lat"), rows.where(kind=kind, what="uring")
        saved = calls.median("client_cpu_us") - ring.median("client_cpu_us")
        texts.append(f"{kind}: {us(ring.median('client_cpu_us'))} of the client's CPU, {us(calls.median('client_cpu_us'))} without; p50 "
                     f"{ring.ratio(calls, 'p50_us'):.2f} times")
    return f"{'; '.join(texts)}; {100 * saved / agent:.0f} % of the agent's {us(agent)}", saved >= 0.15 * agent


def floor_goal(nodes):
    @goal(f"lock+unlock, one client, {nodes} nodes, p50", "at most 1.2 times the floor with the shipped scripts and two futex round trips")
    def p50(rows):
        one = One(rows, nodes)
        ratio, floor = one.with_futex()
        return (f"{ratio:.2f} ({us(one.ours.median('p50_us'))}, floor {floor}); {one.ours.ratio(one.scripts, 'p50_us'):.2f} times the floor "
                f"with the scripts alone"), ratio <= 1.2

    @goal("... and of plain SET, p50", "at most 2 times the bare quorum lock")
    def p50_plain(rows):
        one = One(rows, nodes)
        ratio = one.ours.ratio(one.plain, "p50_us")
        return f"{ratio:.2f} (bare {us(one.plain.median('p50_us'))})", ratio <= 2

    @goal("... p99", "at most 2 times the floor with the shipped scripts")
    def p99(rows):
        one = One(rows, nodes)
        ratio = one.ours.ratio(one.scripts, "p99_us")
        return (f"{ratio:.2f} ({us(one.ours.median('p99_us'))}, floor {us(one.scripts.median('p99_us'))}); "
                f"{one.ours.ratio(one.plain, 'p99_us'):.2f} times with plain SET"), ratio <= 2

    @goal("... than other libraries and loops like theirs, by whole fan-out, p50", "faster than each")
    def peers(rows):
        one = One(rows, nodes)
        ours, found = one.ours.median("p50_us"), {}
        for name, what in ("waiting for all nodes (redsync)", "all"), ("one node after the other (redlock-py, -cpp)", "turn"):
            found[name] = one.rows.where(kind="plain", what=what).median("p50_us")
        for row in one.rows.where(bench="peer"):
            found[row["peer"]] = one.rows.where(peer=row["peer"]).median("p50_us")
        return (f"{us(ours)}; " + ", ".join(f"{name} {us(value)}" for name, value in found.items()), all(ours < value for value in found.values()))


floor_goal(3)
floor_goal(5)


@goal("lock+unlock, 3 nodes that are 1 ms away each way, p50", "at most 1.05 times the floor with the shipped scripts")
def far_away(rows):
    ones = [(delay_us, One(rows, 3, net="far", delay_us=delay_us)) for delay_us in (200, 1000, 10_000)]
    ratios = {delay_us: one.ours.ratio(one.scripts, "p50_us") for delay_us, one in ones if one.ours}
    if 1000 not in ratios:
        raise Missing
    return (", ".join(f"{ratio:.3f} at {delay_us / 1000:g} ms" for delay_us, ratio in ratios.items()), ratios[1000] <= 1.05)


@goal("lock+unlock over unix sockets, 3 nodes, p50", "stated")
def by_unix(rows):
    one = One(rows, 3, net="unix")
    ratio, floor = one.with_futex()
    return (f"{us(one.ours.median('p50_us'))}; {one.ours.ratio(one.plain, 'p50_us'):.2f} times plain SET, {one.ours.ratio(one.scripts, 'p50_us'):.2f} "
            f"times the floor with the shipped scripts, {ratio:.2f} with two futex round trips ({floor})"), True


@goal("lock+unlock, 64 clients, 3 nodes", "at least 0.7 of the floor with the shipped scripts, 64 in flight")
def sixty_four(rows):
    rows = rows.where(part="lock64", nodes=3)
    ours, sets = rows.where(bench="many", clients=64), rows.where(bench="many", clients=1)
    scripts, plain = rows.where(kind="scripts"), rows.where(kind="plain")
    ratio, key = ours.ratio(scripts, "cycles_per_s"), "cycles_per_s"
    return (f"{ratio:.2f} ({ours.median(key):,.0f} of {scripts.median(key):,.0f} a second; {ours.ratio(plain, key):.2f} of plain SET; "
            f"one process with 64 in a call: {sets.ratio(scripts, key):.2f})"), ratio >= 0.7


@goal("... than other libraries, 64 at a time", "at least 3 times node-redlock, 10 times redis-py")
def sixty_four_peers(rows):
    rows = rows.where(part="lock64", nodes=3)
    key = "cycles_per_s"
    ours = max(rows.where(bench="many", clients=clients).median(key) for clients in (64, 1))  # or one that takes 64 with one call
    theirs = {name: rows.where(peer=name).median(key) for name in ("node-redlock", "redis-py")}
    also, plain = rows.where(peer="redis-semaphore").median(key), rows.where(kind="plain").median(key)
    return (", ".join(f"{ours / value:.1f} times {name} ({value:,.0f}/s)" for name, value in theirs.items())
            + f", {ours / also:.1f} times redis-semaphore; the floor with plain SET is {plain / theirs['node-redlock']:.1f} times node-redlock", ours >= 3 * theirs["node-redlock"] and ours >= 10 * theirs["redis-py"])


# --- renewal -------------------------------------------------------------------------------------------


def renewal_floor(rows, batch, order="paced"):
    """At the same pace and in any order, as leases fall due. Caches make a loop without a rest cheaper, and more so where keys are
    renewed in the order in which a node's memory has them."""
    return rows.where(part="renewal", what=order, kind="scripts", batch=batch)


@goal("renewal, the agent's CPU per lease", "at most 2 times the floor's client, batches of 128")
def renewal_agent(rows):
    ours, floor = rows.where(part="renewal", bench="renewals"), renewal_floor(rows, 128).median("client_cpu_us")
    value, fast = ours.median("agent_cpu_us"), renewal_floor(rows, 128, "shuffled").median("client_cpu_us")
    lost = sum(row["lost"] for row in rows.where(part="renewal", bench="held"))
    return (f"{value / floor:.2f} ({value:.2f} us, floor at the same pace {floor:.2f} us, without a rest {fast:.2f} us)"
            + (f"; {lost:,} leases were LOST meanwhile" if lost else ""), value <= 2 * floor and not lost)


@goal("renewal, a node's CPU per lease", "at most 1.1 times the floor's")
def renewal_node(rows):
    ours, floor = rows.where(part="renewal", bench="renewals"), renewal_floor(rows, 128).median("node_cpu_us")
    value = ours.median("node_cpu_us")
    fast, ordered = (renewal_floor(rows, 128, order).median("node_cpu_us") for order in ("shuffled", "renew"))
    return (f"{value / floor:.2f} ({value:.2f} us, floor at the same pace {floor:.2f} us, without a rest {fast:.2f} us, and in the order of "
            f"the keys' setting {ordered:.2f} us)"), value <= 1.1 * floor


@goal("... than one EVALSHA per lease", "at least 2 times less")
def renewal_single(rows):
    value, single = rows.where(part="renewal", bench="renewals").median("node_cpu_us"), renewal_floor(rows, 1, "shuffled").median("node_cpu_us")
    return f"{single / value:.1f} times less ({single:.2f} us)", single >= 2 * value


@goal("... of a tracked lease, a node's CPU (`track_held`)", "at most 2 times that of one that is not tracked")
def renewal_tracked(rows):
    rows = rows.where(part="tracked", bench="renewals")
    tracked, untracked = rows.where(tracked=True), rows.where(tracked=False)
    ratio = tracked.ratio(untracked, "node_cpu_us")
    return (f"{ratio:.2f} ({us(tracked.median('node_cpu_us'))}, untracked {us(untracked.median('node_cpu_us'))}); the agent's "
            f"{tracked.ratio(untracked, 'agent_cpu_us'):.2f}"), ratio <= 2


# --- a million -----------------------------------------------------------------------------------------


def million(rows):
    """The part's lines, and what was renewed in its time, of a million leases only: a short run says nothing of these goals."""
    rows = rows.where(part="million")
    if rows.where(bench="taken").one("leases") < 1_000_000:
        raise Missing
    return rows, rows.where(bench="renewals", after=None).one()


@goal("1,000,000 leases, TTL 60 s, 3 nodes: renewals on each node", "at least 0.97 of what T/3 asks")
def million_hits(rows):
    _, row = million(rows)
    return f"{row['hits_share_min']:.3f} of {row['hits_asked']:,} in {row['seconds']:.0f} s", row["hits_share_min"] >= 0.97


@goal("... the latest renewal, by PTTL of 1,000 random keys a second and node", "not later than T/10 after its time")
def million_late(rows):
    rows, row = million(rows)
    asked = rows.where(bench="pttl", after=None)
    if not asked:
        raise Missing
    least = min(node["min_ms"] for sample in asked for node in sample["nodes"])
    missing = sum(node["missing"] for sample in asked for node in sample["nodes"])
    ttl_ms = row["ttl_s"] * 1000
    late = max(0, ttl_ms - ttl_ms / 3 * 1.1 - least)  # its time is T/3, 10 % more at most
    count = sum(sample["asked"] * len(sample["nodes"]) for sample in asked)
    return f"{late:.0f} ms late (least PTTL {least / 1000:.1f} s, {count:,} asked, {missing} missing)", late <= ttl_ms / 10 and not missing


@goal("... lost", "none")
def million_lost(rows):
    rows, _ = million(rows)
    held = rows.where(bench="held")
    if not held:
        raise Missing
    lost, leases = sum(row["lost"] for row in held), sum(row["leases"] for row in held)
    return f"{lost} of {leases:,}, looked at each second by their holders", lost == 0


@goal("... CPU of agent and of each node", "stated")
def million_cpu(rows):
    _, row = million(rows)
    return (f"agent {row['agent_cpu_percent']:.0f} % of a core ({row['agent_cpu_us']:.2f} us per renewal of a lease), "
            f"node {row['node_cpu_percent']:.0f} % ({row['node_cpu_us']:.2f} us)"), True


def acquire_goal(what, apart):
    @goal(what, "at most 2 times its idle p99")
    def million_acquire(rows):
        rows = million(rows)[0].where(apart=apart)
        idle, busy = (rows.where(bench="lock", beside=beside) for beside in ("nothing", "million"))
        floor = rows.where(bench="floor")
        ratio = busy.median("acquire_p99_us") / idle.median("acquire_p99_us")
        floors = [floor.where(beside=beside).median("p99_us") for beside in ("million", "nothing")]
        return (f"{ratio:.2f} ({us(busy.median('acquire_p99_us'))}, idle {us(idle.median('acquire_p99_us'))}; "
                f"p50 {us(busy.median('acquire_p50_us'))}, idle {us(idle.median('acquire_p50_us'))}); lock and unlock of the floor, which asks no agent: "
                f"{floors[0] / floors[1]:.2f} ({us(floors[0])}, idle {us(floors[1])})"), ratio <= 2


acquire_goal("acquire while they are renewed, p99", False)
acquire_goal("... with the nodes on a processor of their own", True)


@goal("memory per lease, 32-byte names", "at most 512 bytes and the name")
def million_memory(rows):
    row = [row for row in million(rows)[0].where(bench="memory", after=None) if row["leases"]]
    if not row:
        raise Missing
    row = row[-1]
    own, table, journal = (row[f"{kind}_bytes"] / row["leases"] for kind in ("own", "table", "journal"))
    return (f"{own + table:.0f} bytes: agent {own:.0f}, shared memory {table:.0f}; the journal {journal:.0f} more",
            own + table <= 512 + 32)


@goal("`status` with them", "under a second, equal to a full walk")
def million_status(rows):
    rows = million(rows)[0].where(bench="look")
    if not rows:
        raise Missing
    row = rows[0]
    equal = all(row["status_leases"] == row["walked"] == row["held"] for row in rows)
    return (f"{row['status_s']:.2f} s, {'equal' if equal else 'NOT equal'} ({row['walked']:,}); `list` of all {row['list_s']:.1f} s, "
            f"of a prefix ({row['prefix_rows']:,} rows) {row['list_prefix_s']:.2f} s"), equal and row["status_s"] < 1


@goal("restart of the agent with them", "all taken over, none lost")
def million_restart(rows):
    rows = million(rows)[0].where(after="restart")
    row, look, held = rows.where(bench="restart").one(), rows.where(bench="look").one(), rows.where(bench="renewals").one()
    least = min(node["min_ms"] for sample in rows.where(bench="pttl") for node in sample["nodes"])
    return (f"{look['held']:,} held, {held['losses']} lost; ready after {row['ready_s']:.1f} s, all taken over after {row['all_s']:.1f} s, "
            f"least PTTL then {least / 1000:.0f} s"), look["held"] == look["walked"] == held["leases"] and not held["losses"]


# --- processes -----------------------------------------------------------------------------------------


@goal("`holdfast run NAME -- true`, whole process, p50", "at most 3 times `flock FILE true`")
def run(rows):
    rows = rows.where(part="run")
    ours, flock, true = (rows.where(what=what) for what in ("holdfast", "flock", "true"))
    ratio = ours.ratio(flock, "p50_us")
    return (f"{ratio:.2f} ({us(ours.median('p50_us'))}, flock {us(flock.median('p50_us'))}, `true` alone {us(true.median('p50_us'))})",
            ratio <= 3)


def death_goal(nodes):
    @goal(f"a holder's death to the release, {nodes} nodes, p50", "under 2 round trips to a quorum and 1 ms")
    def death(rows):
        rows = rows.where(part="death", nodes=nodes)
        ours, trip = rows.where(bench="death").median("p50_us"), rows.where(what="rtt").median("p50_us")
        return f"{us(ours)} (a round trip {us(trip)}); p99 {us(rows.where(bench='death').median('p99_us'))}", ours < 2 * trip + 1000


death_goal(3)
death_goal(5)


# --- waiting -------------------------------------------------------------------------------------------


def turns_goal(agents, reference, most, trips_are, beside=None, nodes=3):
    @goal(f"release to grant, {'one host' if agents == 1 else 'two hosts'}, {nodes} nodes, p50", f"at most {most} {trips_are}")
    def turns(rows):
        texts, met = [], True
        for pace in "brisk", "at rest":
            paced = rows.where(part="turns", nodes=nodes, pace=pace)
            ours, trips = paced.where(bench="turns", agents=agents), paced.where(**reference)
            ratio = ours.ratio(trips, "p50_us")
            met = met and ratio <= most
            texts.append(f"{pace} {ratio:.1f} ({us(ours.median('p50_us'))}"
                         + (f"; {ours.ratio(paced.where(**beside), 'p50_us'):.1f} of one where the scheduler puts them)" if beside else ")"))
        return ", ".join(texts), met


turns_goal(1, {"bench": "futex", "apart": True}, 5, "futex round trips between two processes, each on its processor",
           beside={"bench": "futex", "apart": False})
turns_goal(2, {"what": "rtt"}, 3, "round trips to a quorum")


def crowd_goal(nodes):
    @goal(f"64 processes on 3 hosts that want one lock, {nodes} nodes: longest wait", "at most 20 fair turns")
    def crowd(rows):
        row = rows.where(part="crowd", nodes=nodes, bench="crowd").one()
        if row["overlaps"]:
            return f"{row['overlaps']} OVERLAPS", False
        return (f"{row['fair_turns']:.1f}; {row['grants_per_s']:.0f} grants/s, shares {' '.join(f'{s:.2f}' for s in row['share'].values())}, "
                f"no overlap"), row["fair_turns"] <= 20


crowd_goal(3)
crowd_goal(5)
