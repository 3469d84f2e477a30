"""F17 to F19: what operators and service managers do, and the check meanwhile (P7)."""
import pathlib
import re
import shutil
import time

from cases import case
from criteria import Expected
from manager import Manager
from rig import BUILD, Agent, wait_until

TTL_S = 3
CHECK_MOST_NS = 400  # ten times what is promised of hf_held()


# --- F17: hosts that do not agree ----------------------------------------------------------------------


def disagreeing(lab, nodes_of, options, code, says):
    """A fourth host comes with another configuration. It gets no lock, says why, and harms nobody."""
    fleet = lab.fleet(ttl_s=TTL_S, holders=3)
    fleet.start_crew()
    fleet.tell("another configuration")
    argv = lab.run.agent_argv("odd", nodes_of(fleet.nodes), f"{TTL_S}s", True, options=options)
    odd = Agent(lab.run, argv, f"{lab.run.tag}-odd", "odd")
    complaints = []
    if code == 64:  # it does not even start
        if odd.wait() != code or says not in odd.err:
            complaints.append(f"the odd agent: {odd.popen.returncode}, {odd.err}")
    else:
        time.sleep(1)
        for i in range(20):
            result = lab.run.holdfast("run", "-n", f"lock-{i % fleet.locks}", "true", agent=odd)
            if result.rc != code or says not in result.err:
                complaints.append(f"the odd host: {result}")
        odd.stop()
    time.sleep(TTL_S)
    lab.row.add(fleet.finish(), Expected(losses=0))
    lab.row.blame({"P1": complaints})


def fleet_nodes(nodes):
    return nodes


for _title, _nodes, _options, _code, _says in (
        ("another ttl_max", fleet_nodes, ["--ttl-max", f"{2 * TTL_S}s"], 78, "ttl_max"),
        ("fewer nodes", lambda nodes: nodes[:3], ["--ttl-max", f"{TTL_S}s"], 78, ""),
        ("the nodes in another order", lambda nodes: nodes[::-1], ["--ttl-max", f"{TTL_S}s"], 78, ""),
        ("another id for one node", lambda nodes: [f"other={nodes[0].address}", *nodes[1:]], ["--ttl-max", f"{TTL_S}s"], 78,
         ""),
        ("one node twice", lambda nodes: [*nodes[:4], f"n5={nodes[0].address}"], ["--ttl-max", f"{TTL_S}s"], 64, "twice")):
    case("F17", f"a host with {_title}")(
        lambda lab, n=_nodes, o=_options, c=_code, s=_says: disagreeing(lab, n, o, c, s))


# --- F18: upgrades, and a full /dev/shm ----------------------------------------------------------------


def replaced(lab, stop, programs):
    """The agents are replaced one after the other under load: no lease is lost."""
    fleet = lab.fleet(ttl_s=TTL_S)
    fleet.start_crew(long_ms=1000)
    for host in fleet.hosts:
        fleet.start_keepers(host, 1, careless=0)
    for program in programs:
        for host in fleet.hosts:
            fleet.tell(f"replace agent {host.label}")
            stop(host.agent)
            fleet.start_agent(host, fresh=False, program=program)
            time.sleep(0.5)
    time.sleep(1)
    lab.row.add(fleet.finish(), Expected(losses=0))


LATER = BUILD / "tests" / "holdfastd_minor"
case("F18", "agents stopped with SIGTERM and started again")(
    lambda lab: replaced(lab, lambda agent: agent.stop(), [None, None]))
case("F18", "agents killed, a later minor version, and back")(
    lambda lab: replaced(lab, lambda agent: agent.kill(), [LATER, None, LATER]))


@case("F18", "/dev/shm is full", needs_root=True)
def full_shm(lab):
    """A fourth host has no room for its table: it says so, and is not killed by SIGBUS."""
    fleet = lab.fleet(ttl_s=TTL_S, holders=3)
    fleet.start_crew()
    fleet.tell("full /dev/shm")
    argv = lab.run.agent_argv("odd", fleet.nodes, f"{TTL_S}s", True, options=fleet.agent_options)
    small = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs -o size=128k none /dev/shm && exec "$@"', "sh"]
    odd = Agent(lab.run, small + argv, f"{lab.run.tag}-odd", "odd")
    code = odd.wait()
    lab.row.add(fleet.finish(), Expected(losses=0))
    lab.row.blame({"P6": [] if code > 0 and "shm" in odd.err else [f"it ended with {code}: {odd.err}"]})


@case("F18", "a client cannot write to the table")
def read_only(lab):
    """No contender has a writable mapping of an agent's table."""
    fleet = lab.fleet(ttl_s=TTL_S, holders=3)
    fleet.start_crew()
    time.sleep(1)
    seen, complaints = 0, []
    for process in (process for host in fleet.hosts for process in host.crew):
        for row in pathlib.Path(f"/proc/{process.pid}/maps").read_text().splitlines():
            if "/dev/shm/holdfast" in row:
                seen += 1
                complaints += [row] if " rw" in row or " -w" in row else []
    lab.row.figures["mappings"] = seen
    fleet.tell("look at mappings")
    lab.row.add(fleet.finish(), Expected(losses=0))
    lab.row.blame({"P1": complaints + ([] if seen else ["no mapping of a table was found"])})


# --- F19: service managers, and no memory --------------------------------------------------------------


@case("F19", "restarts by a service manager within T/2: READY, WATCHDOG, STOPPING")
def managed(lab):
    """As systemd does it: SIGTERM, start, wait for READY=1; and a watchdog that is fed."""
    fleet = lab.fleet(ttl_s=TTL_S)
    fleet.start_crew(long_ms=1000)
    host = fleet.hosts[0]
    fleet.start_keepers(host, 2, careless=0)
    complaints = []
    for _ in range(4):
        manager = Manager(lab.run)
        fleet.tell("restart by a service manager")
        host.agent.stop()
        fleet.start_agent(host, fresh=False, env={"NOTIFY_SOCKET": manager.address, "WATCHDOG_USEC": 400_000})
        manager.wait("(?m)^READY=1")
        time.sleep(1.5)
        if manager.read().count("WATCHDOG=1") < 3:
            complaints.append(f"in 1.5 s it only said {manager.said}")
        host.agent.sigstop()
        before = manager.read().count("WATCHDOG=1")
        time.sleep(0.5)
        if manager.read().count("WATCHDOG=1") > before:
            complaints.append("WATCHDOG=1 from a stopped agent")
        host.agent.sigcont()
        host.agent.stop()
        manager.wait("(?m)^STOPPING=1")
        manager.socket.close()
        fleet.start_agent(host, fresh=False)
    lab.row.add(fleet.finish(), Expected(losses=0))
    lab.row.blame({"P6": complaints})


@case("F19", "the agent is killed for want of memory", needs_root=True)
def no_memory(lab):
    """In a memory cgroup that has no room it is killed as the kernel does it, and comes back outside in time."""
    folder = pathlib.Path("/sys/fs/cgroup/memory") / lab.run.tag
    try:
        folder.mkdir()
    except OSError:
        lab.skip("no cgroup v1 memory controller")
    fleet = lab.fleet(ttl_s=TTL_S)
    fleet.start_crew(long_ms=500)
    host = fleet.hosts[0]
    fleet.start_keepers(host, 2, careless=0)
    victim = host.agent
    try:
        (folder / "memory.limit_in_bytes").write_text("1M")
        (folder / "cgroup.procs").write_text(str(victim.pid))
        fleet.tell("no memory")
        eater = lab.run.holder(victim, label="eater")
        eater.send("many", 3000, "many", 0)
        wait_until(lambda: not victim.running, 20, "the kernel kills the agent")
        fleet.start_agent(host, fresh=False)
        time.sleep(1)
        eater.kill()
    finally:
        wait_until(lambda: not (folder / "cgroup.procs").read_text(), 5)
        folder.rmdir()
    complaints = [] if victim.popen.returncode == -9 else [f"it ended with {victim.popen.returncode}"]
    lab.row.add(fleet.finish(), Expected(losses=0))
    lab.row.blame({"P6": complaints})


# --- P7: the check while its agent is gone -------------------------------------------------------------


def checked(lab, do, undo, value):
    """What hf_held() costs and says meanwhile, and that it makes no system call, the clock's included."""
    fleet = lab.fleet(ttl_s=5, hosts=1, holders=1)
    fleet.start_crew()
    host = fleet.hosts[0]
    holder = lab.run.holder(host.agent)
    holder.acquire("checked")
    do(fleet, host)
    cost = holder.cmd("cost")
    complaints = []
    if shutil.which("strace"):
        trace = lab.run.dir / "trace"
        tracer = lab.run.spawn("strace", "-o", trace, "-p", holder.pid, label="strace")
        tracer.wait_err("attached", 5)
        calls = calls_of(trace)
        spun = holder.cmd("cost")
        during = [line for line in calls_of(trace)[len(calls):] if not re.match(r"(read|write|restart_syscall)\(", line)]
        tracer.signal(2)
        tracer.wait()
        lab.row.figures["system calls"] = len(during)
        complaints += during[:3]
        assert spun["held"] == value
    else:
        lab.row.figures["system calls"] = "not traced"
    undo(fleet, host)
    lab.row.figures["hf_held"] = f"{cost['held_ns']} ns, clock {cost['clock_ns']} ns"
    if float(cost["held_ns"]) > CHECK_MOST_NS:
        complaints.append(f"hf_held() took {cost['held_ns']} ns")
    if cost["held"] != value:
        complaints.append(f"hf_held() said {cost['held']}")
    holder.close()
    lab.row.add(fleet.finish(), Expected(losses=None))
    lab.row.blame({"P7": complaints})


def calls_of(trace):
    return trace.read_text().splitlines() if trace.exists() else []


def hang(fleet, host):
    fleet.tell("hang the agent")
    host.agent.sigstop()


case("F8", "the check while the agent hangs")(lambda lab: checked(lab, hang, lambda fleet, host: host.agent.sigcont(), 1))
case("F8", "the check while there is no agent")(
    lambda lab: checked(lab, lambda fleet, host: (fleet.tell("kill the agent"), host.agent.kill()),
                        lambda fleet, host: fleet.start_agent(host, fresh=False), 1))
