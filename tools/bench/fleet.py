"""Private redis-servers and agents to measure, and what they say of themselves. For the programs beside it."""
import contextlib
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


class Failed(Exception):
    """A measurement, or what it needs, ended badly; it says why on stderr."""


class Fleet:
    """N nodes on unix sockets and some agents on them, which stand for hosts. Ends all of them at its end."""

    def __init__(self, build, nodes, agents, flags=(), lines=None):
        self.build, self.flags, self.lines = build, list(flags), lines or Lines()
        self.processes, self.names = [], []
        # The journal belongs on tmpfs, as in /run.
        tmpfs = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.directory = tempfile.mkdtemp(prefix=f"holdfast-bench{TAG}-", dir=tmpfs)
        self.env = {**os.environ, "HOLDFAST_RUNTIME_DIR": self.directory}
        try:
            self.paths = [self.start_node(i) for i in range(nodes)]
            for path in self.paths:
                await_true(lambda: os.path.exists(path), f"redis-server makes {path}")
            self.names = [f"bench{TAG}-{os.getpid()}-{i}" for i in range(agents)]
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
        args = ["redis-server", "--port", "0", "--unixsocket", path, "--save", "", "--appendonly", "no", "--dir", self.directory]
        self.processes.append(subprocess.Popen(args, stdout=subprocess.DEVNULL))
        return path

    def start_agent(self, name, flags=("--assume-fresh",)):
        args = [f"{self.build}/bin/holdfastd", "--name", name, "--runtime-dir", self.directory, *self.flags, *flags]
        for i, path in enumerate(self.paths):
            args += ["--node", f"n{i}=unix:{path}"]
        log = self.log_of(name)
        with log.open("a") as stderr:
            before = stderr.tell()
            agent = subprocess.Popen(args, stderr=stderr)
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

    def calls(self, command):
        """How often each node carried this command out so far, in scripts or not."""
        return [dict(command_stats(path)).get(command, 0) for path in self.paths]

    def cpu_s(self):
        """Of the agents, and of the nodes, so far."""
        agents = [process.pid for process in self.agents]
        nodes = [process.pid for process in self.processes if process not in self.agents]
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


# Whatever agents send by itself; all else are calls of their scripts.
SENT = {"evalsha", "eval", "script", "client", "ping", "info", "config", "auth", "select", "hello", "subscribe", "publish"}


def result_of(process, args=(), lines=None):
    out = process.communicate()[0].strip()
    if process.returncode != 0:
        raise Failed(f"{' '.join(map(str, args))} ended with {process.returncode}")
    return (lines or Lines()).say(json.loads(out))


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


def difference(after, before):
    return {name: calls - before.get(name, 0) for name, calls in after.items() if calls > before.get(name, 0)}


def median(rows, key):
    return statistics.median(row[key] for row in rows)
