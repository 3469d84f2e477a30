"""A fleet to break: five nodes, three agents that stand for hosts, and contenders on each.

A host is an agent with holders of its own; all are processes of one machine, so the times of all histories are of one
clock. What breaks something is a method here, so that each injection is counted and told.
"""
import contextlib
import json
import mmap
import os
import pathlib
import random
import signal
import struct
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import history  # noqa: E402
import tokens  # noqa: E402
from network import Network  # noqa: E402
from rig import BUILD, Agent, agent_env, boottime_ns, stat_letter, wait_until  # noqa: E402
from views import counters  # noqa: E402

S = 1_000_000_000
EVENTS_LONG = 30_000_000                # bytes
EVERYDAY = ("granted", "released")


class Host:
    """One agent at a time, and contenders."""

    def __init__(self, fleet, number):
        self.fleet, self.number = fleet, number
        self.label = "abcdefgh"[number] if number < 8 else f"h{number}"
        self.agent, self.watch, self.crew, self.patient = None, None, [], None
        self.sharers = []  # of readers.py

    @property
    def name(self):
        return self.agent.name

    def processes(self):
        """What runs on it besides its agent."""
        return [*self.crew, *self.sharers, *([self.patient] if self.patient else [])]


class Fleet:
    """`ttl_s` is the TTL and the fleet's longest. Each of the hosts has `holders` contenders for `locks` locks."""

    def __init__(self, run, seed=0, ttl_s=3, nodes=5, hosts=3, holders=4, locks=6, clock=False, node_options=(),
                 agent_options=(), network=False, suspendable=False):
        self.run, self.ttl_s, self.locks, self.holders = run, ttl_s, locks, holders
        self.random = random.Random(seed)
        self.agent_options = ["--ttl-max", f"{ttl_s}s", *agent_options]
        self.suspendable = suspendable
        self.network = Network(run, nodes, hosts) if network else None
        self.told, self.shifts = [], {}
        self.histories, self.monitors, self.patient, self.fresh = [], [], {}, []
        self.witness = run.dir / "witness"
        self.folder = run.dir / "histories"
        self.folder.mkdir()
        self.nodes = []
        for i in range(nodes):
            more = {"bind": Network.node_address(i), "prefix": self.network.prefix("nodes")} if network else {}
            self.nodes += run.redis(1, clock=clock, options=node_options, **more)
        self.hosts = [Host(self, number) for number in range(hosts)]
        self.started_ns = boottime_ns()
        for host in self.hosts:
            self.start_agent(host, wait=False)
        for host in self.hosts:
            host.agent.wait_ready()
            host.events_path = run.dir / f"events-{host.label}"
            with open(host.events_path, "wb") as out:
                host.watch = run.start_holdfast("watch", "--json", agent=host.agent, stdout=out)

    # --- starting ---

    @property
    def quorum(self):
        return len(self.nodes) // 2 + 1

    @property
    def quarantine_s(self):
        return 1.02 * self.ttl_s + 1

    def start_agent(self, host, fresh=True, wait=True, program=None, env=None):
        place = f"host{host.number}" if host in self.hosts else "nodes"
        prefix = self.network.prefix(place) if self.network else []
        argv = prefix + self.run.agent_argv(host.label, self.nodes, f"{self.ttl_s}s", fresh, options=self.agent_options)
        if program:
            argv[len(prefix)] = program
        host.agent = Agent(self.run, argv, f"{self.run.tag}-{host.label}", host.label,
                           env={**self.clock_env(host), **(env or {})})
        self.run.agents.append(host.agent)
        if wait:
            host.agent.wait_ready()

    def clock_env(self, host):
        """Of a host that can be suspended: what makes its processes read the clocks that suspend() sets."""
        if not self.suspendable:
            return {}
        host.clock_file = self.run.dir / f"clock-{host.label}"
        if not host.clock_file.exists():
            host.clock_file.write_bytes(bytes(24))
        return {"LD_PRELOAD": BUILD / "tests" / "clockshift.so", "CLOCKSHIFT_FILE": host.clock_file}

    def start_crew(self, hold_ms=2, long_ms=None, pause_ms=20, careless=0, idle_us=1000, wait_ms=0, spin=True, lock=True):
        """Contenders on all hosts, in their agent's queue, or with `spin` half of them not; they stop with finish()."""
        self.work = ["--name", "lock", "--locks", self.locks, "--witness", self.witness, "--rough",
                     "--hold-us", int(hold_ms * 1000), "--pause-us", int(pause_ms * 1000), "--idle-us", idle_us,
                     "--careless", careless, "--wait-ms", wait_ms]
        if long_ms is None:
            long_ms = 800 * self.ttl_s
        self.work += ["--long-us", int(long_ms * 1000)] + ([] if lock else ["--no-lock"])
        for host in self.hosts:
            for i in range(self.holders):
                self.start_contender(host, spin and i % 2)
            if lock:
                self.start_patient(host)

    def start_patient(self, host):
        """One that waits without end, in its agent's queue, for a lock that is never held for more than moments."""
        path = self.folder / f"{len(self.histories)}"
        argv = [BUILD / "tests" / "contender", "--history", path, "--host", host.number, "--name", "lock", "--lock", self.locks,
                "--witness", self.witness, "--rough", "--patient", "--hold-us", 10_000, "--idle-us", 2_000, "--pause-us", 50_000]
        host.patient = self.run.spawn(*argv, label=f"patient-{host.label}", env={**agent_env(host.agent), **self.clock_env(host)})
        self.patient[host.patient.pid] = boottime_ns()
        self.histories.append(path)

    def start_keepers(self, host, count=3, careless=2, wait=True):
        """Contenders that hold for four TTLs, half of the times carelessly; with `wait` returns when they hold."""
        before = self.grants(host)
        for _ in range(count):
            self.start_contender(host, False, ["--hold-us", 4_000_000 * self.ttl_s, "--careless", careless])
        if not wait:
            return
        wait_until(lambda: self.grants(host) > before + count, what="keepers hold")

    def start_newcomer(self):
        """A host that has never seen these nodes, or no more, wants every lock: its agent is told nothing of them."""
        host = self.start_stranger()
        self.want_all(host)
        return host

    def start_stranger(self):
        """Such a host, on which nobody wants anything yet."""
        self.tell("newcomer")
        host = Host(self, len(self.hosts) + len(self.fresh))
        self.fresh.append(host)
        self.start_agent(host, fresh=False, wait=False)
        return host

    def retire(self, host):
        """Ends that host in good order; what its contenders wrote is kept."""
        for process in host.processes():
            process.popen.terminate()
            process.wait(60)
        host.crew, host.sharers = [], []
        host.agent.stop()

    def start_idler(self):
        """A host whose agent sees everything and holds nothing; see restart_idler()."""
        host = Host(self, len(self.hosts) + len(self.fresh))
        self.fresh.append(host)
        self.start_agent(host)
        return host

    def restart_idler(self, host):
        """Stopped in good order with nothing held, started again, and it wants every lock."""
        self.tell("restart of an idle agent")
        host.agent.stop()
        self.start_agent(host, fresh=False, wait=False)
        self.want_all(host)

    def want_all(self, host):
        for _ in range(2):
            self.start_contender(host, True, ["--long-us", 0])

    def force(self, host, lock):
        """From that host an operator ends whatever hold of the lock there is, by its fence."""
        shown = self.run.holdfast("show", "--json", f"lock-{lock}", agent=host.agent)
        fence = shown.out and (shown.json["anywhere"] or {}).get("fence")  # of a hold elsewhere
        if fence:
            self.tell(f"force lock-{lock}")
            self.run.holdfast("release", "--force", "--fence", fence, f"lock-{lock}", agent=host.agent)

    def start_contender(self, host, spin, more=()):
        path = self.folder / f"{len(self.histories)}"
        argv = [BUILD / "tests" / "contender", "--history", path, "--host", host.number, *self.work, *more]
        if spin:
            argv += ["--spin-us", 20_000]
        process = self.run.spawn(*argv, label=f"contender-{host.label}",
                                 env={**agent_env(host.agent), **self.clock_env(host)})
        process.spin, process.more = spin, more
        host.crew.append(process)
        self.histories.append(path)

    def start_monitors(self, count=None):
        """What each node, or the first ones, are told, for the judgement of tokens."""
        for node in self.nodes[:count]:
            self.monitor(node)

    def monitor(self, node):
        path = self.run.dir / f"monitor-{node.id}"
        with open(path, "ab") as out:
            process = self.run.spawn("redis-cli", "-s", f"{node.dir}/sock", "MONITOR", label=f"monitor-{node.id}",
                                     stdout=out)
        self.monitors.append((node, path, process))

    # --- breaking ---

    def tell(self, text):
        """Counts one fault."""
        self.told.append((boottime_ns(), text))

    def restart(self, node, away_s=0.0):
        """A node comes back empty."""
        self.tell(f"restart {node.id}")
        self.kill_node(node, quiet=True)
        time.sleep(away_s)
        self.start_node(node)

    def kill_node(self, node, quiet=False):
        if not quiet:
            self.tell(f"kill {node.id}")
        node.kill()

    def start_node(self, node):
        node.start()
        if any(monitored is node for monitored, _, _ in self.monitors):
            self.monitor(node)

    def flush(self, node):
        self.tell(f"flush {node.id}")
        node.cmd("FLUSHALL")

    def step(self, node, seconds):
        self.tell(f"step {node.id} {seconds:+g}s")
        self.shifts[node.id] = self.shifts.get(node.id, 0) + seconds
        node.shift_clock(self.shifts[node.id])

    def stop_nodes(self, nodes, seconds):
        self.tell(f"stop {','.join(node.id for node in nodes)} {seconds:.2f}s")
        for node in nodes:
            node.sigstop()
        time.sleep(seconds)
        for node in nodes:
            node.sigcont()

    def stop_agent(self, host, seconds):
        self.tell(f"stop agent {host.label} {seconds:.2f}s")
        host.agent.sigstop()
        time.sleep(seconds)
        host.agent.sigcont()

    def kill_agent(self, host, away_s):
        self.tell(f"kill agent {host.label} {away_s:.2f}s")
        host.agent.kill()
        time.sleep(away_s)
        self.start_agent(host, fresh=False, wait=False)

    def kill_holder(self, host):
        self.tell(f"kill holder {host.label}")
        victim = self.random.choice(host.crew)
        host.crew.remove(victim)
        victim.kill()
        self.start_contender(host, victim.spin, victim.more)

    def stop_holders(self, processes, seconds):
        self.tell(f"stop {len(processes)} holders {seconds:.2f}s")
        for process in processes:
            process.sigstop()
        time.sleep(seconds)
        for process in processes:
            process.sigcont()

    def suspend(self, host, seconds, others=()):
        """As a suspended machine: nothing of the host runs, and afterwards CLOCK_MONOTONIC says that no time passed, while
        CLOCK_BOOTTIME went on. The agent goes on last, so that nobody hears from it that time passed. `others`: pids of the
        host besides its agent and contenders."""
        self.tell(f"suspend host {host.label} {seconds:.1f}s")
        pids = [*others, *(process.pid for process in host.processes()), host.agent.pid]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(seconds)
        with open(host.clock_file, "r+b") as file, mmap.mmap(file.fileno(), 24) as shifts:
            before_us, = struct.unpack("<q", shifts[8:16])
            shifts[8:16] = struct.pack("<q", before_us - int(seconds * 1_000_000))
        for pid in pids:
            if pid == host.agent.pid:
                time.sleep(0.1)
            with contextlib.suppress(ProcessLookupError):  # a guardian that goes on ends others of its job
                os.kill(pid, signal.SIGCONT)

    # --- looking ---

    def grants(self, host=None):
        """Holds so far."""
        total = 0
        for agent in self.hosts if host is None else [host]:
            total += counters(self.run, agent.agent)["grants"]
        return total

    def keys(self):
        """Keys of locks on all nodes that answer."""
        found = []
        for node in self.nodes:
            if node.process.running and stat_letter(node.pid) != "T":
                found += [f"{node.id}:{key.decode()}" for key in node.cmd("KEYS", "*") if not key.startswith(b"holdfast:")]
        return found

    # --- the end ---

    def finish(self):
        """Ends the contenders and reads what they left: a Record of the whole run."""
        healed_ns = boottime_ns()
        for host in self.hosts + self.fresh:
            for process in host.processes():
                process.sigcont()
                process.popen.terminate()
        for host in self.hosts + self.fresh:
            for process in host.processes():
                code = process.wait(60)
                assert code == 0, f"{process.label} ended with {code}: {process.err}"
        ended_ns = boottime_ns()
        orphans = self.orphans()
        for _, _, process in self.monitors:
            if process.running:
                process.popen.terminate()
                process.popen.wait()
        record = Record(self, healed_ns, ended_ns, orphans)
        record.events = {host.number: self.events(host) for host in self.hosts}
        record.logs = {}
        for node_id, path in {node.id: path for node, path, _ in self.monitors}.items():
            record.logs[node_id] = tokens.parse(path.read_text(errors="replace"))
        for path in self.histories:
            holds, sightings, unused = history.read(path)
            record.holds += holds
            record.sightings += sightings
            record.unused += unused
            with contextlib.suppress(OSError):
                path.unlink()
        if self.witness.exists():
            record.stores = history.read_stores(self.witness)
        return record

    def events(self, host):
        """What its agents told; of a long run only what is not the everyday."""
        if host.watch.running:
            host.watch.signal(signal.SIGINT)
            host.watch.wait()
        found = []
        with open(host.events_path) as file:
            long = os.fstat(file.fileno()).st_size > EVENTS_LONG
            for line in file:
                if not long or not any(f'"event": "{word}"' in line or f'"event":"{word}"' in line for word in EVERYDAY):
                    found.append(json.loads(line))
        return found

    def orphans(self):
        """Keys that are left a TTL and a second after everybody ended."""
        with contextlib.suppress(AssertionError):
            wait_until(lambda: not self.keys(), self.ttl_s + 1, interval_s=0.1)
        return self.keys()


class Record:
    """What a run left, for criteria.py."""

    def __init__(self, fleet, healed_ns, ended_ns, orphans):
        self.ttl_s, self.told, self.orphans = fleet.ttl_s, fleet.told, orphans
        self.boot_wall_s = time.time() - boottime_ns() / S
        self.started_ns, self.healed_ns, self.ended_ns = fleet.started_ns, healed_ns, ended_ns
        self.agents, self.patient = len(fleet.hosts), fleet.patient
        self.events, self.logs = {}, {}
        self.holds, self.sightings, self.unused, self.stores = [], [], [], []

    def of_lock(self):
        """{lock: its holds}, without those of careless holders: they do not say how long they held."""
        found = {}
        for hold in self.holds:
            if not hold.careless:
                found.setdefault(hold.lock, []).append(hold)
        return found

    def acquire_ms(self, since_ns, until_ns):
        """Median of the acquires in between that found nobody in their way."""
        took = sorted((hold.first_ns - hold.ask_ns) / 1e6 for hold in self.holds
                      if not hold.contended and since_ns < hold.ask_ns < until_ns)
        return took[len(took) // 2] if took else 0.0

    @property
    def losses(self):
        """{reason: how many} as the holders saw them."""
        found = {}
        for hold in self.holds + self.unused:
            if hold.end == history.LOST:
                found[hold.reason or "unsaid"] = found.get(hold.reason or "unsaid", 0) + 1
        return found
