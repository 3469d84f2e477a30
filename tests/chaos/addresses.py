"""F22: a host's configuration leads to other servers than the fleet's, a replica is promoted beside its living master, and changes
of the fleet are asked for with servers that cannot be nodes. The fleet's record tells who its servers are."""
import contextlib
import socket
import time

from cases import case
from criteria import Expected
from rig import Agent, Redis, boottime_ns, wait_until

TTL_S = 2
REFUSED = (75, 78)


def start_on(fleet, host, specs):
    """The host's next agent, with these nodes in its configuration."""
    argv = fleet.run.agent_argv(host.label, specs, f"{fleet.ttl_s}s", False, options=fleet.agent_options)
    host.agent = Agent(fleet.run, argv, f"{fleet.run.tag}-{host.label}", host.label)
    fleet.run.agents.append(host.agent)


def mislead(fleet, host, specs, told, seconds):
    """The configuration is wrong from one restart to the next but one."""
    fleet.tell(f"host {host.label}: {told}")
    host.agent.kill()
    start_on(fleet, host, specs)
    time.sleep(seconds)
    host.agent.kill()
    fleet.start_agent(host, fresh=False, wait=False)


def specs_with(fleet, others):
    """The fleet's nodes, with other servers behind some of their ids."""
    return [f"{node.id}={others[node.id].address}" if node.id in others else node.spec for node in fleet.nodes]


def prepared(lab):
    fleet = lab.fleet(ttl_s=TTL_S, nodes=5, holders=6, locks=12)
    fleet.start_crew(hold_ms=1, pause_ms=4, long_ms=400 * TTL_S)
    return fleet


def judged(lab, fleet, complaints=()):
    calm_ns = boottime_ns()
    rest_s = fleet.quarantine_s + 2 * TTL_S + 2
    time.sleep(rest_s)
    lab.row.add(fleet.finish(), Expected(losses=None, calm_ns=calm_ns, back_s=rest_s, everyone=True, wait_s=None))
    lab.row.blame({"P6": list(complaints)})


@case("F22", "one host's configuration leads to empty servers, or to another node's")
def empty_servers(lab):
    fleet = prepared(lab)
    empty = {f"n{i}": Redis(lab.run, f"empty{i}").start() for i in range(1, 6)}
    end = time.monotonic() + lab.seconds
    while time.monotonic() < end:
        host, count = fleet.random.choice(fleet.hosts), fleet.random.randrange(1, 6)
        ids = fleet.random.sample(sorted(empty), count)
        if fleet.random.random() < 0.3:  # two ids are exchanged
            first, second = fleet.random.sample(fleet.nodes, 2)
            others, told = {first.id: second, second.id: first}, "two addresses are exchanged"
        else:
            others, told = {node_id: empty[node_id] for node_id in ids}, f"{count} empty servers"
        mislead(fleet, host, specs_with(fleet, others), told, fleet.random.uniform(0.2, 1.5) * TTL_S)
        time.sleep(fleet.random.uniform(0.1, 1.0) * TTL_S)
    judged(lab, fleet, [f"{server.id} has a lock: {keys}" for server in empty.values() if (keys := locks_on(server))])


@case("F22", "one host's configuration leads to nodes of another fleet, whose job goes on")
def another_fleet(lab):
    fleet = prepared(lab)
    theirs = [Redis(lab.run, f"their{i}").start() for i in range(1, 4)]
    argv = lab.run.agent_argv("other", [f"n{i}={node.address}" for i, node in enumerate(theirs, 1)], f"{TTL_S}s", True,
                              options=fleet.agent_options)
    other = Agent(lab.run, argv, f"{lab.run.tag}-other", "other").wait_ready()
    lab.run.agents.append(other)
    holder = lab.run.holder(other)
    holder.acquire("theirs")
    before = {node.id: node.record for node in theirs}
    end = time.monotonic() + lab.seconds
    while time.monotonic() < end:
        host, count = fleet.random.choice(fleet.hosts), fleet.random.randrange(1, 4)
        others = {f"n{i + 1}": node for i, node in enumerate(theirs[:count])}
        mislead(fleet, host, specs_with(fleet, others), f"{count} nodes of another fleet", fleet.random.uniform(0.2, 1.5) * TTL_S)
        time.sleep(fleet.random.uniform(0.1, 1.0) * TTL_S)
    complaints = [] if holder.held() else ["the other fleet's lock is lost"]
    complaints += [f"{node.id} has another record" for node in theirs if node.record != before[node.id]]
    complaints += [f"{node.id} has a lock of ours: {keys}" for node in theirs if (keys := locks_on(node) - {"theirs"})]
    holder.close()
    judged(lab, fleet, complaints)


def locks_on(server):
    keys = {key if isinstance(key, str) else key.decode() for key in server.cmd("KEYS", "*")}
    return {key for key in keys if not key.startswith("holdfast:")}


@case("F22", "a replica is promoted beside its living master, and one host's configuration leads to it")
def promoted(lab):
    fleet = prepared(lab)
    replica = Redis(lab.run, "replica", tcp=True).start()
    master = fleet.nodes[1]
    end = time.monotonic() + lab.seconds
    while time.monotonic() < end:
        fleet.tell("replica of n2")
        port = master_port(master)
        replica.cmd("REPLICAOF", "127.0.0.1", port)
        with contextlib.suppress(AssertionError):
            wait_until(lambda: "master_link_status:up" in info(replica), 5)
        time.sleep(fleet.random.uniform(0.1, 0.5) * TTL_S)
        fleet.tell("promotion")
        replica.cmd("REPLICAOF", "NO", "ONE")
        mislead(fleet, fleet.random.choice(fleet.hosts), specs_with(fleet, {"n2": replica}), "the promoted replica",
                fleet.random.uniform(0.5, 1.5) * TTL_S)
        if fleet.random.random() < 0.5:  # it comes back as nobody's master
            fleet.restart(master, 0.2)
        time.sleep(fleet.random.uniform(0.1, 1.0) * TTL_S)
    fleet.restart(master)  # (!) a node that ever had a replica stays refused
    judged(lab, fleet)


def info(server):
    text = server.cmd("INFO", "replication")
    return text if isinstance(text, str) else text.decode()


def master_port(node):
    """It takes connections over TCP, too, as a replica needs."""
    found = node.cmd("CONFIG", "GET", "port")[1]
    if int(found) == 0:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            found = probe.getsockname()[1]
        node.cmd("CONFIG", "SET", "bind", "127.0.0.1")
        node.cmd("CONFIG", "SET", "port", str(found))
    return str(int(found))


@case("F22", "changes to servers that cannot be nodes are refused, and change nothing")
def wrong_changes(lab):
    fleet = prepared(lab)
    run = lab.run
    replica = Redis(run, "replica").start()
    free = Redis(run, "free", tcp=True).start()
    replica.cmd("REPLICAOF", *free.address.split(":"))
    theirs = Redis(run, "theirs").start()
    theirs.cmd("HSET", "holdfast:node", "nonce", "0" * 32, "created_us", "1", "created_wall_ms", "1", "ttl_max_ms", "2000", "nodes", "1",
               "list_hash", "0" * 40)
    asked = refused = 0
    complaints = []
    with socket.socket(socket.AF_UNIX) as deaf, socket.socket() as closed:
        deaf.bind(str(run.dir / "deaf"))
        deaf.listen(64)  # it takes connections and says nothing
        closed.bind(("127.0.0.1", 0))
        wrong = {"a member": fleet.nodes[2].address, "a replica": replica.address, "a master with replicas": free.address,
                 "another fleet's": theirs.address, "no Redis": f"unix:{run.dir}/deaf",
                 "nobody": f"127.0.0.1:{closed.getsockname()[1]}"}
        record = lambda: {node.record for node in fleet.nodes}  # noqa: E731
        wait_until(lambda: len(record()) == 1, 15)
        before, end = record(), time.monotonic() + lab.seconds
        while time.monotonic() < end:
            for what, address in wrong.items():
                words = fleet.random.choice((["move", f"n1={address}"], ["add", f"n6={address}"]))
                fleet.tell(f"{words[0]} to {what}")
                result = run.holdfast("fleet", *words, agent=fleet.random.choice(fleet.hosts).agent, timeout_s=40)
                asked += 1
                refused += result.rc in REFUSED and "nothing changes" in result.err
                if result.rc not in REFUSED or "nothing changes" not in result.err:
                    complaints.append(f"{' '.join(words)} ({what}): {result}")
        if record() != before:
            complaints.append(f"the record has changed: {record()}")
    lab.row.figures["refused"] = f"{refused} of {asked}"
    judged(lab, fleet, complaints)

