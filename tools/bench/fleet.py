"""Private redis-servers and agents to measure, and what they say of themselves. For the programs beside it."""
import contextlib
import itertools
import json
import os
import pathlib
import shutil
import signal
import socket
import statistics
import subprocess
import tempfile
import time

from lines import Lines

BUILD = pathlib.Path(__file__).resolve().parents[2] / "build"
TAG = os.environ.get("HOLDFAST_TEST_TAG", "")  # by which a test finds what a killed run left


NUMBERS = itertools.count(1)  # of fleets, of which there may be several at a time


class Failed(Exception):
    """A measurement, or what it needs, ended badly; it says why on stderr."""


class Silence:
    @staticmethod
    def say(row):
        return row


class Fleet:
    """N nodes and some agents on them, which stand for hosts. Ends all of them at its end. Whoever locks reaches the nodes at
    `addresses`: by TCP on the loopback, as most do, with `tcp`, else by unix sockets; by TCP `delay_us` later each way, or with
    `last_away` the last agent alone does. By `paths`, their unix sockets, they are asked how they are."""

    def __init__(self, build, nodes, agents, flags=(), lines=None, tcp=False, delay_us=0, last_away=False):
        self.build, self.flags, self.lines = build, list(flags), lines or Lines()
        self.ports = free_ports(2 * nodes) if tcp else []
        self.processes, self.nodes, self.names = [], [], []
        # The journal belongs on tmpfs, as in /run.
        tmpfs = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.directory = tempfile.mkdtemp(prefix=f"holdfast-bench{TAG}-", dir=tmpfs)
        self.env = {**os.environ, "HOLDFAST_RUNTIME_DIR": self.directory}
        try:
            self.paths = [self.start_node(i) for i in range(nodes)]
            for path in self.paths:
                await_true(lambda: os.path.exists(path), f"redis-server makes {path}")
            self.addresses = self.paths
            away = self.relay(delay_us) if delay_us else []
            if tcp:
                self.addresses = [str(port) for port in (away if away and not last_away else self.ports[:nodes])]
            number = next(NUMBERS)
            self.names = [f"bench{TAG}-{os.getpid()}-{number}-{i}" for i in range(agents)]
            self.away = {self.names[-1]: away} if last_away else {}
            self.agents = [self.start_agent(name) for name in self.names]
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def start_node(self, i):
        path = f"{self.directory}/n{i}.sock"
        port = str(self.ports[i]) if self.ports else "0"
        args = ["redis-server", "--port", port, "--bind", "127.0.0.1", "--unixsocket", path, "--save", "", "--appendonly", "no", "--dir", self.directory]
        self.nodes.append(subprocess.Popen(args, stdout=subprocess.DEVNULL))
        self.processes.append(self.nodes[-1])
        return path

    def relay(self, delay_us):
        """Ports at which the nodes are so much farther away."""
        near, far = self.ports[:len(self.paths)], self.ports[len(self.paths):]
        relay = self.begin("relay", delay_us, *(f"{there}={here}" for there, here in zip(far, near)))
        relay.stdout.readline()
        self.processes.append(relay)
        return far

    def start_agent(self, name, flags=("--assume-fresh",)):
        args = [f"{self.build}/bin/holdfastd", "--name", name, "--runtime-dir", self.directory, *self.flags, *flags]
        for i, address in enumerate(self.addresses):
            args += ["--node", f"n{i}=unix:{address}" if address.startswith("/") else f"n{i}=127.0.0.1:{address}"]
            if name in self.away:
                args[-1] = f"n{i}=127.0.0.1:{self.away[name][i]},fleet_address=127.0.0.1:{address}"
        log = self.log_of(name)
        with log.open("a") as stderr:
            before = stderr.tell()
            agent = subprocess.Popen([*own_host(name), *args], stderr=stderr)
        self.processes.insert(0, agent)  # ends before its nodes
        await_true(lambda: "holdfastd: ready" in log.read_text()[before:] or agent.poll() is not None, f"{name} is ready", 60)
        if agent.poll() is not None:
            raise Failed(f"{name} ended: {log.read_text()}")
        return agent

    def log_of(self, name):
        return pathlib.Path(f"{self.directory}/{name}.log")

    def kill_agent(self, i):
        agent = self.agents[i]
        agent.kill()
        agent.wait()
        self.processes.remove(agent)

    def measure(self, *args):
        """Runs a measurement to its end: its line of JSON."""
        with self.begin(*args) as process:
            return result_of(process, args, self.lines)

    def measure_silently(self, *args):
        """The same for a measurement that something slows down: it says nothing."""
        with self.begin(*args) as process:
            return result_of(process, args, Silence())

    def begin(self, *args):
        """A measurement that goes on until its stdin ends. It ends with this program."""
        argv = [f"{self.build}/bin/bench", *map(str, args)]
        return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=self.env, text=True)

    def command(self, *args):
        """What `holdfast ... --json` prints, as text."""
        argv = [f"{self.build}/bin/holdfast", *args, "--json", "--agent", self.names[0]]
        return subprocess.run(argv, stdout=subprocess.PIPE, env=self.env, check=True).stdout

    def counters(self):
        argv = [f"{self.build}/bin/bench", "counters", self.names[0]]
        return json.loads(subprocess.run(argv, stdout=subprocess.PIPE, check=True).stdout)

    @contextlib.contextmanager
    def apart(self):
        """Meanwhile the nodes have the last processor to themselves, and the agents and what is measured the others."""
        every = os.sched_getaffinity(0)
        if len(every) < 2:
            raise Failed("one processor is too few")
        ours = [os.getpid(), *(agent.pid for agent in self.agents)]
        try:
            for pid in [node.pid for node in self.nodes]:
                set_processors(pid, {max(every)})
            for pid in ours:
                set_processors(pid, every - {max(every)})
            yield
        finally:
            for pid in [*ours, *(node.pid for node in self.nodes)]:
                set_processors(pid, every)

    def commands(self):
        """Commands that were sent to the nodes so far, all nodes together, by name; not INFO, which asks. What scripts call
        in a node counts as "inner"."""
        sent = {}
        for path in self.paths:
            for name, calls in command_stats(path):
                name = name if name.split("|")[0] in SENT else "inner"
                sent[name] = sent.get(name, 0) + calls
        sent.pop("info", None)
        return sent

    def work(self, turn, cycles):
        """What a lock and unlock costs while `turn()` does `cycles` of them: processor time of the agent and of one node, and
        switches of the agent's threads to another task."""
        agents_s, nodes_s = self.cpu_s()
        switches = sum(map(switches_of, (agent.pid for agent in self.agents)))
        turn()
        after = self.cpu_s()
        switches = sum(map(switches_of, (agent.pid for agent in self.agents))) - switches
        self.lines.say({"bench": "work", "agent_cpu_us": (after[0] - agents_s) / cycles * 1e6,
                        "node_cpu_us": (after[1] - nodes_s) / len(self.paths) / cycles * 1e6, "agent_switches": switches / cycles})

    def system_calls(self, turn, cycles):
        """System calls of the agent per lock and unlock. By perf, as they are; and by strace, beside which the agent polls less for what
        comes, since each of its calls takes longer. Without these programs, or where they may not look: none are
        told. Returns the row that tells most."""
        told = None
        for by, count in ("strace", self.calls_by_strace), ("perf", self.calls_by_perf):
            total, counts = count(turn)
            if total:
                most = {name: round(count / cycles, 1) for name, count in counts.items() if count > cycles / 2}
                told = self.lines.say({"bench": "system calls of the agent", "by": by, "per_cycle": total / cycles, "most": most})
        return told

    def calls_by_strace(self, turn):
        summary = pathlib.Path(f"{self.directory}/strace")
        run_beside(["strace", "-f", "-c", "-o", summary, "-p", str(self.agents[0].pid)], turn)
        rows = [line.split() for line in summary.read_text().splitlines()] if summary.exists() else []
        counts = {row[-1]: int(row[3]) for row in rows if len(row) >= 5 and row[3].isdigit() and row[-1] != "total"}
        return sum(counts.values()), counts

    def calls_by_perf(self, turn):
        summary = pathlib.Path(f"{self.directory}/perf")
        events = ",".join(["raw_syscalls:sys_enter", *(f"syscalls:sys_enter_{name}" for name in LIKELY_CALLS)])
        run_beside(["perf", "stat", "-x", " ", "-o", summary, "-e", events, "-p", str(self.agents[0].pid)], turn)
        rows = [line.split() for line in summary.read_text().splitlines()] if summary.exists() else []
        counts = {row[1].partition("sys_enter")[2].strip("_"): int(row[0]) for row in rows if len(row) >= 2 and row[0].isdigit()}
        return counts.pop("", 0), counts

    def calls(self, command):
        """How often each node carried this command out so far, in scripts or not."""
        return [dict(command_stats(path)).get(command, 0) for path in self.paths]

    def cpu_s(self):
        """Of the agents, and of the nodes, so far."""
        agents = [process.pid for process in self.agents]
        nodes = [process.pid for process in self.nodes]
        return sum(map(cpu_of, agents)), sum(map(cpu_of, nodes))

    def close(self):
        """Agents may end clean, unless that takes them long: what they hold need not be released. Nodes keep nothing."""
        for process in self.processes:
            process.send_signal(signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(timeout=2)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)
        for name in self.names:  # of an agent that was killed
            for table in pathlib.Path("/dev/shm").glob(f"holdfast*.{name}"):
                table.unlink()


LIKELY_CALLS = ("epoll_wait", "read", "write", "futex", "sched_yield", "sendto", "recvfrom")


def run_beside(argv, turn):
    """Does `turn()` while a program watches; where that one cannot, does nothing more than the turn."""
    try:
        watcher = subprocess.Popen(argv, stderr=subprocess.DEVNULL)
    except FileNotFoundError:
        return
    time.sleep(1)
    turn()
    watcher.send_signal(signal.SIGINT)
    watcher.wait()


# Whatever agents send by itself; all else are calls of their scripts.
SENT = {"evalsha", "eval", "script", "client", "ping", "info", "config", "auth", "select", "hello", "subscribe", "publish"}


def result_of(process, args=(), lines=None):
    out = process.communicate()[0].strip()
    if process.returncode != 0:
        raise Failed(f"{' '.join(map(str, args))} ended with {process.returncode}")
    return (lines or Lines()).say(json.loads(out))


def own_host(name):
    """In front of a command: gives it a host name of its own, where that is allowed."""
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    words = ["unshare", *user, "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', name]
    return words if subprocess.run([*words, "true"], stderr=subprocess.DEVNULL, check=False).returncode == 0 else []


def await_true(condition, what, seconds=15):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise Failed(f"not within {seconds} s: {what}")
        time.sleep(0.01)


def command_stats(path):
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as node:
        node.connect(path)
        node.sendall(b"INFO commandstats\r\n")
        with node.makefile("rb") as answer:
            text = answer.read(int(answer.readline()[1:])).decode()
    for line in text.splitlines():
        if line.startswith("cmdstat_"):
            name, _, values = line[len("cmdstat_"):].partition(":")
            yield name, int(values.split(",")[0].partition("=")[2])


def cpu_of(pid):
    """CPU seconds of a process so far, to the nanosecond: the clock that clock_getcpuclockid(3) names."""
    return time.clock_gettime((~pid << 3) | 2)


def set_processors(pid, processors):
    """Of all its threads."""
    for task in os.listdir(f"/proc/{pid}/task"):
        os.sched_setaffinity(int(task), processors)


def switches_of(pid):
    """How often the threads of a process gave the processor to another task so far."""
    text = "".join(path.read_text() for path in pathlib.Path(f"/proc/{pid}/task").glob("*/status"))
    return sum(int(line.split()[1]) for line in text.splitlines() if "ctxt_switches" in line)


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def difference(after, before):
    return {name: calls - before.get(name, 0) for name, calls in after.items() if calls > before.get(name, 0)}


def median(rows, key):
    return statistics.median(row[key] for row in rows)
