"""The pictures of docs/PERFORMANCE.md, from a run's lines."""
from chart import line_chart
from rows import Missing


def curve(rows, x, y):
    """Medians of `y` for each `x`."""
    if not rows:
        raise Missing
    return [(value, rows.where(**{x: value}).median(y)) for value in sorted({row[x] for row in rows})]


def lock_by_nodes(rows):
    rows = rows.where(part="lock1", net="tcp", beside=None)
    series = [("Holdfast", rows.where(bench="lock"), False), ("floor, shipped scripts", rows.where(kind="scripts", what="lat"), True),
              ("floor, plain SET", rows.where(kind="plain", what="lat"), True)]
    series += [(peer, rows.where(peer=peer), False) for peer in ("node-redlock", "redis-semaphore", "redis-py")]
    series = [(label, curve(some, "nodes", "p50_us"), dashed) for label, some, dashed in series if some]
    if not series:
        raise Missing
    return line_chart("Lock and unlock by one client", "p50 by whole fan-out; the floor is a bare quorum lock with nothing around it",
                      "nodes", "microseconds", series, x_marks=[1, 3, 5, 7, 9])


def renewal_by_leases(rows):
    found = rows.where(part="growth", curve="leases", bench="renewals") + rows.where(part="million", bench="renewals", after=None)
    found = type(rows)(found)
    floor = rows.where(part="renewal", what="paced", kind="scripts", batch=128)
    series = [("agent, on 3 nodes", curve(found, "leases", "agent_cpu_us"), False), ("one node", curve(found, "leases", "node_cpu_us"), False)]
    ends = [series[0][1][0][0], series[0][1][-1][0]]
    series += [("floor's client", [(x, floor.median("client_cpu_us")) for x in ends], True),
               ("floor's node", [(x, floor.median("node_cpu_us")) for x in ends], True)]
    return line_chart("CPU per renewal of a lease", "few leases are due at a time where few are held, so a script carries few keys",
                      "leases held", "microseconds", series, log_x=True, log_y=True)


def cost_by_clients(rows):
    found = rows.where(part="growth", curve="clients", bench="cost")
    return line_chart("CPU per lock and unlock", "by clients that take locks all the time, each a process, on 3 nodes", "clients", "microseconds",
                      [("agent", curve(found, "clients", "agent_cpu_us"), False), ("one node", curve(found, "clients", "node_cpu_us"), False)],
                      log_x=True)


def rate_by_clients(rows):
    found = rows.where(part="growth", curve="clients", bench="cost")
    floor = rows.where(part="lock64", nodes=3, kind="scripts").median("cycles_per_s")
    return line_chart("Locks and unlocks a second", "clients, nodes and agent share the cores of one machine", "clients", "a second",
                      [("Holdfast", curve(found, "clients", "cycles_per_s"), False)], log_x=True, limit=("floor, 64 in flight", floor))


def million_pttl(rows):
    rows = rows.where(part="million")
    if rows.where(bench="taken").one("leases") < 1_000_000:
        raise Missing
    asked, ttl_s = rows.where(bench="pttl", after=None), rows.where(bench="renewals").one("ttl_s")
    if not asked:
        raise Missing
    nodes = range(len(asked[0]["nodes"]))
    series = [(f"node {i + 1}", [(second + 1, row["nodes"][i]["min_ms"] / 1000) for second, row in enumerate(asked)], False) for i in nodes]
    return line_chart("A million leases: the shortest time that a key had left", "of 1,000 random keys a second on each node; TTL 60 s, renewed at T/3",
                      "seconds", "seconds left", series, limit=("renewed T/10 late", ttl_s * (1 - 1.1 / 3 - 0.1)))


PICTURES = {"lock-by-nodes.svg": lock_by_nodes, "renewal-by-leases.svg": renewal_by_leases, "cost-by-clients.svg": cost_by_clients,
            "rate-by-clients.svg": rate_by_clients, "million-pttl.svg": million_pttl}


def draw(rows):
    for path, make in PICTURES.items():
        try:
            yield path, make(rows)
        except Missing:
            pass
