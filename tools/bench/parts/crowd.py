"""64 processes of three hosts that want one lock and hold it for 5 ms: waits in turns (wall time / grants; 64 are fair), each
host's share, CPU, commands to the nodes per grant. Then names that are held on one host and waited for on two: commands
and CPU per second of waiting."""
import time

from fleet import Fleet, difference, result_of

CROWD, HOSTS, HOLD_US = 64, 3, 5000


def counted(fleet, work):
    """What the work gave, commands per kind that the nodes got meanwhile, and CPU seconds of agents and nodes."""
    before, cpu = fleet.commands(), fleet.cpu_s()
    result = work()
    sent = difference(fleet.commands(), before)
    return result, sent, tuple(b - a for a, b in zip(cpu, fleet.cpu_s()))


def total(sent):
    return sum(calls for name, calls in sent.items() if name != "inner")


def crowd(fleet, seconds, lines):
    each = [CROWD // HOSTS + (i < CROWD % HOSTS) for i in range(HOSTS)]
    members = [f"{name}={count}" for name, count in zip(fleet.names, each)]
    got, sent, cpu = counted(fleet, lambda: fleet.measure("crowd", seconds, HOLD_US, *members))
    lines.say({"bench": "crowd cost", "sent": sent, "commands_per_grant": total(sent) / got["grants"] / len(fleet.paths),
               "agents_cpu_us": cpu[0] / got["grants"] * 1e6, "nodes_cpu_us": cpu[1] / got["grants"] * 1e6})


def queue(fleet, names, seconds, lines):
    prefix, nodes = f"bench/queue/{names}", len(fleet.paths)
    with fleet.begin("queue", "hold", fleet.names[0], prefix, names) as holder:
        holder.stdout.readline()
        _, idle, idle_cpu = counted(fleet, lambda: time.sleep(seconds))
        with fleet.begin("queue", "wait", fleet.names[1], prefix, names) as one, \
                fleet.begin("queue", "wait", fleet.names[2], prefix, names) as two:
            for waiter in one, two:
                waiter.stdout.readline()
            time.sleep(min(1, seconds))
            _, sent, cpu = counted(fleet, lambda: time.sleep(seconds))
            for waiter in one, two:
                result_of(waiter, lines=lines)
        result_of(holder, lines=lines)
    lines.say({"bench": "queue cost", "names": names, "idle": idle, "sent": sent,
               "commands_per_s": (total(sent) - total(idle)) / nodes / seconds,
               "agents_cpu_percent": (cpu[0] - idle_cpu[0]) / seconds * 100,
               "node_cpu_percent": (cpu[1] - idle_cpu[1]) / seconds / nodes * 100})


def measure(lines, options):
    for nodes in (3,) if options.quick else (3, 5):
        with lines.tagged(nodes=nodes), Fleet(options.build, nodes, agents=HOSTS, lines=lines) as fleet:
            crowd(fleet, 1 if options.quick else 20, lines)
            for names in (10,) if options.quick else (1, 1000):
                if nodes == 3:
                    queue(fleet, names, 0.2 if options.quick else 10, lines)
