"""The rig of the integration tests: real redis-servers, agents, commands and holders, all of one scenario.

    from rig import main, scenario, wait_until

    @scenario("a lock is on every node while it is held")
    def held_everywhere(run):
        run.redis(3)
        run.agent()
        holder = run.holder()
        holder.acquire("job")
        assert run.holders_of("job") == 3

    if __name__ == "__main__":
        main()

Each scenario has a Run of its own: a folder, a tag that is in every name it makes, and an environment that
marks its processes. Whatever is left at its end is removed, and a process that is left is a failure.
"""
import argparse
import contextlib
import json
import mmap
import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import traceback
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import dispositions  # noqa: E402
import leftovers  # noqa: E402
from resp import Resp, RespError  # noqa: E402,F401

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("HOLDFAST_BUILD", ROOT / "build")).resolve()
SANITIZE = os.environ.get("HOLDFAST_SANITIZE", "")
SLOW = 4 if SANITIZE else 1  # how much longer a test waits for what has no time of its own
IS_ROOT = os.geteuid() == 0
OTHER_UID = 65534  # `nobody`, for scenarios of two users
os.umask(0o022)  # whatever the caller's is: scenarios look at modes


class Skip(Exception):
    """Raised by skip(): the scenario cannot run here."""


def skip(reason):
    raise Skip(reason)


def boottime_ns():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def wait_until(condition, timeout_s=10.0, what="", interval_s=None):
    """The first true value of condition(); AssertionError when it does not come in time. Without an interval a condition that
    runs a command takes a third of the time at most, so that the scenarios beside this one have a processor."""
    began = time.monotonic()
    deadline = began + timeout_s * SLOW
    while True:
        value = condition()
        if value:
            return value
        asked = time.monotonic()
        if asked > deadline:
            raise AssertionError(f"not within {timeout_s * SLOW:g} s: {what or condition.__name__}")
        time.sleep(max(0.02, min(2 * (asked - began), 0.5)) if interval_s is None else interval_s)
        began = time.monotonic()


def alive(pid):
    """Whether a process exists and is no zombie."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def encode(name):
    """A name as the holder program reads it."""
    if isinstance(name, str):
        name = name.encode()
    return urllib.parse.quote_from_bytes(name, safe="") or "%"


# --- processes -----------------------------------------------------------------------------------------


class Process:
    """A child with its output in files."""

    def __init__(self, run, argv, label, uid=None, env=None, **options):
        self.run, self.label, self.argv = run, label, [str(arg) for arg in argv]
        serial = run.serial()
        self.out_path = run.dir / f"{serial}-{label}.out"
        self.err_path = run.dir / f"{serial}-{label}.err"
        if uid is not None:
            options = {"user": uid, "group": uid, "extra_groups": [], **options}
            self.argv = [run.for_others(arg) for arg in self.argv]
        options.setdefault("stdin", subprocess.DEVNULL)
        with open(self.err_path, "wb") as err, open(self.out_path, "wb") as out:
            options.setdefault("stdout", out)
            self.popen = subprocess.Popen(self.argv, stderr=err, env=run.env(env), cwd=run.dir, start_new_session=True,
                                          **options)
        self.pid = self.popen.pid
        run.processes.append(self)

    @property
    def out(self):
        return self.out_path.read_text(errors="replace")

    @property
    def err(self):
        return self.err_path.read_text(errors="replace")

    @property
    def running(self):
        return self.popen.poll() is None

    def signal(self, number):
        self.popen.send_signal(number)

    def sigstop(self):
        self.signal(signal.SIGSTOP)
        wait_until(lambda: stat_letter(self.pid) == "T", what=f"{self.label} stops")

    def sigcont(self):
        self.signal(signal.SIGCONT)

    def kill(self):
        """SIGKILL, and waits for the end."""
        self.signal(signal.SIGKILL)
        self.popen.wait()

    def wait(self, timeout_s=30.0):
        """The exit code, -N for an end by signal N."""
        try:
            return self.popen.wait(timeout_s * SLOW)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.label} did not end within {timeout_s * SLOW:g} s\n{self.err}") from None

    def wait_err(self, pattern, timeout_s=10.0):
        """The match of a regular expression on stderr."""
        return wait_until(lambda: re.search(pattern, self.err), timeout_s, f"{pattern!r} on stderr of {self.label}")

    def wait_out(self, pattern, timeout_s=10.0):
        return wait_until(lambda: re.search(pattern, self.out), timeout_s, f"{pattern!r} on stdout of {self.label}")


def stat_letter(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0]
    except OSError:
        return ""


class Result:
    def __init__(self, rc, out, err):
        self.rc, self.out, self.err = rc, out, err

    def __repr__(self):
        return f"exit {self.rc}, out {self.out!r}, err {self.err!r}"

    @property
    def json(self):
        return json.loads(self.out)


# --- nodes ---------------------------------------------------------------------------------------------


class Redis:
    """One redis-server without persistence, on a unix socket or on a free TCP port of the loopback.

    With `bind` it has port 6379 of that address for agents, and the unix socket for tests; `prefix` is put before its
    command, such as one that enters a network namespace."""

    def __init__(self, run, node_id, tcp=False, password=None, clock=False, options=(), bind=None, prefix=()):
        self.run, self.id, self.tcp, self.password = run, node_id, tcp, password
        self.options, self.bind, self.prefix = list(options), bind, list(prefix)
        self.dir = run.dir / node_id
        self.dir.mkdir()
        if not tcp:
            self.address = f"unix:{self.dir}/sock"
        else:
            self.address = f"127.0.0.1:{free_port()}"
        self.clock_file = None
        if clock:
            self.clock_file = self.dir / "clockshift"
            self.clock_file.write_bytes(bytes(16))
        self.process = None

    @property
    def spec(self):
        """As --node takes it."""
        return f"{self.id}={self.bind}:6379" if self.bind else f"{self.id}={self.address}"

    @property
    def seat(self):
        """As the fleet's record names it."""
        return f"{self.bind}:6379" if self.bind else self.address.removeprefix("unix:")

    @property
    def pid(self):
        return self.process.pid

    def start(self):
        argv = [*self.prefix, "redis-server", "--save", "", "--appendonly", "no", "--dir", self.dir, "--daemonize", "no",
                "--loglevel", "warning"]
        if self.bind:
            argv += ["--port", "6379", "--bind", self.bind, "--protected-mode", "no"]
        if self.tcp:
            argv += ["--port", self.address.rpartition(":")[2], "--bind", "127.0.0.1"]
        else:
            argv += [] if self.bind else ["--port", "0"]
            argv += ["--unixsocket", f"{self.dir}/sock", "--unixsocketperm", "777"]
        if self.password:
            argv += ["--requirepass", self.password]
        env = {}
        if self.clock_file:
            argv += ["--jemalloc-bg-thread", "no"]  # by a clock that was shifted it waits without a pause
            env = {"LD_PRELOAD": str(BUILD / "tests" / "clockshift.so"), "CLOCKSHIFT_FILE": str(self.clock_file)}
        self.process = Process(self.run, argv + self.options, f"redis-{self.id}", env=env)
        wait_until(self.answers, what=f"node {self.id} answers")
        return self

    def answers(self):
        if not self.process.running:
            raise AssertionError(f"redis-server ended: {self.process.out} {self.process.err}")
        with contextlib.suppress(OSError, RespError), self.client() as client:
            return client.cmd("PING") == "PONG"

    def client(self, timeout_s=10.0):
        client = Resp(self.address, timeout_s)
        if self.password:
            client.cmd("AUTH", self.password)
        return client

    def cmd(self, *args):
        with self.client() as client:
            return client.cmd(*args)

    def get(self, key):
        return self.cmd("GET", key)

    @property
    def record(self):
        """The fleet's record, as the node has it; None: it has none."""
        text = self.cmd("HGET", "holdfast:node", "record")
        return text and text.decode()

    def pttl(self, key):
        return self.cmd("PTTL", key)

    def calls(self, command):
        with self.client() as client:
            return client.calls(command)

    def stop(self):
        """SHUTDOWN, as an operator does it."""
        self.process.sigcont()
        self.process.signal(signal.SIGTERM)
        self.process.wait()

    def kill(self):
        self.process.kill()

    def restart(self):
        """Comes back empty on the same address."""
        if self.process.running:
            self.kill()
        return self.start()

    def sigstop(self):
        self.process.sigstop()

    def sigcont(self):
        self.process.sigcont()

    def shift_clock(self, seconds):
        """Steps the node's wall clock to this far from the real one; only if made with clock=True."""
        with open(self.clock_file, "r+b") as file, mmap.mmap(file.fileno(), 16) as shifts:
            shifts[0:8] = struct.pack("<q", int(seconds * 1_000_000))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


# --- agents and holders --------------------------------------------------------------------------------


class Agent(Process):
    READY = r"(?m)^(<\d>|\S+Z )?holdfastd: (\w+: )?ready"

    def __init__(self, run, argv, name, label, uid=None, env=None):
        self.name = name
        super().__init__(run, argv, f"agent-{label}", uid=uid, env=env)

    def wait_ready(self, timeout_s=15.0):
        def is_ready():
            if re.search(self.READY, self.err):
                return True
            assert self.running, f"holdfastd ended with {self.popen.returncode}: {self.err}"
            return False

        wait_until(is_ready, timeout_s, "holdfastd is ready")
        return self

    def stop(self, expect=0):
        """SIGTERM, and a clean end."""
        if self.running:
            self.sigcont()
            self.signal(signal.SIGTERM)
        code = self.wait(20)
        assert code == expect, f"holdfastd ended with {code} on SIGTERM: {self.err}"


class DevAgent(Agent):
    """`--dev`: the process that was started is a wrapper (agent/dev/dev.h), and the agent is its child."""

    @property
    def agent_pid(self):
        """The child that is no private node; None: it has ended."""
        for entry in pathlib.Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and alive(entry.name):
                    command, fields = re.match(r"\d+ \((.*)\) \S (.*)", (entry / "stat").read_text(), re.S).groups()
                    if int(fields.split()[0]) == self.pid and command.startswith("holdfast"):
                        return int(entry.name)
        return None

    def kill(self):
        """SIGKILL for the wrapper, and waits for the end of the agent, too."""
        agent = self.agent_pid
        super().kill()
        wait_until(lambda: agent is None or not alive(agent), what="the agent ends with its wrapper")

    def sigstop(self):
        agent = self.agent_pid
        os.kill(agent, signal.SIGSTOP)
        wait_until(lambda: stat_letter(agent) == "T", what="the agent stops")

    def sigcont(self):
        agent = self.agent_pid
        if agent:
            os.kill(agent, signal.SIGCONT)


class HolderError(AssertionError):
    def __init__(self, code, text):
        super().__init__(f"{code}: {text}")
        self.code, self.text = code, text


class Holder(Process):
    """A process that uses the library (tests/support/holder.c). Answers are dicts; a refusal raises."""

    def __init__(self, run, agent, label="holder", uid=None, program=None, **options):
        super().__init__(run, [program or BUILD / "tests" / "holder"], label, uid=uid, env=agent_env(agent),
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, **options)
        self.lines = self.popen.stdout
        self.more = []  # lines that were not the answer: change, hold, miss, row

    def send(self, *words):
        self.popen.stdin.write((" ".join(str(word) for word in words) + "\n").encode())

    def answer(self):
        while True:
            line = self.lines.readline().decode(errors="replace").strip()
            if not line:
                raise AssertionError(f"{self.label} ended with {self.popen.wait()}: {self.err}")
            word, _, rest = line.partition(" ")
            if word == "ok":
                return values_of(rest)
            if word == "err":
                match = re.match(r"\S+ code=(-?\d+) (.*)", rest)
                raise HolderError(int(match.group(1)), match.group(2))
            self.more.append(line)

    def cmd(self, *words):
        self.send(*words)
        return self.answer()

    def connect(self):
        return self.cmd("connect")

    def acquire(self, name, ttl_ms=0, wait_ms=-1, *more):
        return self.cmd("acquire", encode(name), ttl_ms, wait_ms, *more)

    def release(self, *lease):
        return self.cmd("release", *lease)

    def held(self, *lease):
        return self.cmd("held", *lease)["value"] == 1

    def close(self):
        """Lets it disconnect and end."""
        self.popen.stdin.close()
        return self.wait()


def values_of(text):
    """KEY=VALUE... as a dict; whole numbers as int; the last value may have spaces."""
    values = {}
    for match in re.finditer(r"(\w+)=(.*?)(?= \w+=|$)", text):
        value = match.group(2)
        values[match.group(1)] = int(value) if re.fullmatch(r"-?\d+", value) else value
    return values


def agent_env(agent):
    return {"HOLDFAST_AGENT": agent.name} if agent else {}


# --- the run of one scenario ---------------------------------------------------------------------------


class Run:
    def __init__(self, run_id):
        self.id = run_id
        self.tag = leftovers.tag(run_id)
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="s-"))
        self.dir.chmod(0o777 if IS_ROOT else 0o700)
        self.runtime_dir = self.dir / "run"
        self.runtime_dir.mkdir()
        self.processes, self.nodes, self.agents = [], [], []
        self.serials = 0

    def serial(self):
        self.serials += 1
        return self.serials

    def env(self, more=None):
        env = dict(os.environ)
        for name in ("XDG_RUNTIME_DIR", "NOTIFY_SOCKET", "HOLDFAST_AGENT"):
            env.pop(name, None)
        env.update({**leftovers.marks(self.id), "HOLDFAST_RUNTIME_DIR": str(self.runtime_dir), "TMPDIR": str(self.dir)})
        if self.agents:
            env["HOLDFAST_AGENT"] = self.agents[0].name
        env.update({key: str(value) for key, value in (more or {}).items()})
        return env

    def for_others(self, arg):
        """A program of the build as another user can run it: a copy, where that user cannot reach the build."""
        program = pathlib.Path(arg)
        if BUILD not in program.parents or all(path.stat().st_mode & 0o001 for path in (program, *program.parents)):
            return arg
        for source in (program, *(BUILD / "lib").glob("*.so*")):
            copy = self.dir / "build" / source.relative_to(BUILD)
            if not copy.exists():
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, copy)
                copy.chmod(0o755)
        return str(self.dir / "build" / program.relative_to(BUILD))

    def redis(self, count=3, **options):
        """Starts nodes n1, n2, ...; they are what run.agent() uses."""
        made = [Redis(self, f"n{len(self.nodes) + i + 1}", **options).start() for i in range(count)]
        self.nodes += made
        return made

    def agent_argv(self, label="a", nodes=None, ttl=None, fresh=True, system=False, options=(), program=None):
        argv = [program or BUILD / "bin" / "holdfastd", "--name", f"{self.tag}-{label}", "--runtime-dir", self.runtime_dir]
        for node in self.nodes if nodes is None else nodes:
            argv += ["--node", node if isinstance(node, str) else node.spec]
        if ttl:
            argv += ["--ttl", ttl]
        if fresh:
            argv += ["--assume-fresh"]
        if system:
            argv += ["--system"]
        return argv + list(options)

    def agent(self, label="a", nodes=None, ttl=None, fresh=True, system=False, options=(), wait=True, uid=None, env=None,
              program=None):
        """Starts an agent on the run's nodes. The first one is what commands and holders speak to.

        An agent is its user's alone; system=True makes one that serves every user of the host."""
        argv = self.agent_argv(label, nodes, ttl, fresh, system, options, program)
        agent = Agent(self, argv, f"{self.tag}-{label}", label, uid=uid, env=env)
        self.agents.append(agent)
        if wait:
            agent.wait_ready()
            if fresh:  # not one that comes back: seconds count then
                self.wait_judged(agent)
        return agent

    def found(self, nodes=None, ttl=None, options=()):
        """Founds the fleet, which takes all its nodes: for a scenario that begins without one of them."""
        argv = self.agent_argv("founder", nodes, ttl, options=options)
        founder = Agent(self, argv, f"{self.tag}-founder", "founder").wait_ready()
        for node in self.nodes if nodes is None else nodes:
            if isinstance(node, Redis):
                wait_until(lambda: "state complete" in (node.record or ""), what=f"node {node.id} has the fleet's record")
        founder.stop()
        shutil.rmtree(self.runtime_dir / founder.name)

    def wait_judged(self, agent):
        """A quorum is enough to be ready. Scenarios count on every node that is well: those still being looked at (one
        in forty starts has one) get a moment more."""
        def judged():
            shown = self.holdfast("nodes", "--json", agent=agent)
            return shown.rc != 0 or not any(
                row["state"] == "connecting" or row["state"] == "quarantined" and not row["quarantine_reasons"]
                for row in shown.json["nodes"])

        with contextlib.suppress(AssertionError):
            wait_until(judged, 0.3)

    def dev_agent(self, count=None, label="dev", options=(), wait=True, env=None):
        argv = [BUILD / "bin" / "holdfastd", "--name", f"{self.tag}-{label}", "--runtime-dir", self.runtime_dir,
                "--dev", *([str(count)] if count else []), *options]
        agent = DevAgent(self, argv, f"{self.tag}-{label}", label, env=env)
        self.agents.append(agent)
        return agent.wait_ready(30) if wait else agent

    def holder(self, agent=None, connect=True, **options):
        holder = Holder(self, agent, **options)
        if connect:
            holder.connect()
        return holder

    def spawn(self, *argv, label="process", **options):
        return Process(self, argv, label, **options)

    def start_holdfast(self, *args, agent=None, env=None, program=None, **options):
        """Begins a `holdfast` command; see Process."""
        return Process(self, [program or BUILD / "bin" / "holdfast", *args], "holdfast",
                       env={**agent_env(agent), **(env or {})}, **options)

    def holdfast(self, *args, timeout_s=30.0, **options):
        """Runs a `holdfast` command to its end."""
        process = self.start_holdfast(*args, **options)
        return Result(process.wait(timeout_s), process.out, process.err)

    def show(self, name, agent=None):
        """`show --json NAME`, or None when nobody here holds it."""
        result = self.holdfast("show", "--json", name, agent=agent)
        return result.json if result.rc == 0 else None

    def holders_of(self, name):
        """On how many of the nodes that answer the key exists."""
        count = 0
        for node in self.nodes:
            if node.process.running and stat_letter(node.pid) != "T":
                count += node.get(name) is not None
        return count

    def keys_gone(self, name, timeout_s=10.0):
        wait_until(lambda: self.holders_of(name) == 0, timeout_s, f"the key {name!r} goes from all nodes")

    # --- the end ---

    def finish(self):
        """Stops and removes everything; returns what was wrong with that."""
        complaints = []
        first_servers = [p for p in self.processes if isinstance(p, Agent)]
        others = [p for p in self.processes if not isinstance(p, Agent) and not p.label.startswith("redis-")]
        for process in others:
            self.end_client(process)
        for agent in first_servers:
            try:
                if agent.running:
                    agent.stop()
            except AssertionError as error:
                complaints.append(str(error))
        for process in self.processes:
            if process.running:
                process.kill()
            for pipe in (process.popen.stdin, process.popen.stdout):
                if pipe:
                    with contextlib.suppress(OSError):
                        pipe.close()
        left = self.left_processes()
        leftovers.remove(self.id, pids=left)
        return complaints + [f"left behind: process {pid}: {command}" for pid, command in left.items()]

    @staticmethod
    def end_client(process):
        """A holder gets the chance to end by itself, for the sanitizers' sake."""
        if process.running and process.popen.stdin and stat_letter(process.pid) != "T":
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                process.popen.stdin.close()
                process.popen.wait(2 * SLOW)
        if process.running:
            process.kill()

    def left_processes(self):
        """What has not ended after a moment: {pid: command line}."""
        deadline = time.monotonic() + 2.0 * SLOW
        while (left := leftovers.processes(self.id)) and time.monotonic() < deadline:
            time.sleep(0.02)
        return left

    def logs(self):
        """The end of every output, for a failure's report; but for what redis-server says at every start."""
        text = []
        for path in sorted(self.dir.glob("*-*.*"), key=lambda p: int(p.name.partition("-")[0])):
            if path.suffix in (".out", ".err") and "-redis-" not in path.name and path.stat().st_size:
                text.append(f"--- {path.name}")
                text += path.read_text(errors="replace").splitlines()[-40:]
        return text

    def remove(self):
        shutil.rmtree(self.dir, ignore_errors=True)


# --- scenarios -----------------------------------------------------------------------------------------

SCENARIOS = []


def scenario(title, needs_root=False, sanitizers=True):
    """Registers a function of one Run. With sanitizers=False it is skipped where they slow everything."""

    def register(function):
        SCENARIOS.append((title, function, needs_root, sanitizers))
        return function

    return register


def processor_s():
    """Of this process and of all that it has waited for."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def run_one(title, function, needs_root, sanitizers, run_id):
    if needs_root and not IS_ROOT:
        print(f"skip {title}: needs root", flush=True)
        return True
    if not sanitizers and SANITIZE:
        print(f"skip {title}: not with a sanitizer", flush=True)
        return True
    run = Run(run_id)
    trouble, skipped, began, used = [], None, time.monotonic(), processor_s()
    try:
        function(run)
    except Skip as reason:
        skipped = reason
    except Exception:
        trouble = traceback.format_exc().splitlines()
    complaints = run.finish()
    if trouble or complaints:
        print(f"not ok {title}")
        for line in [*trouble, *complaints, *run.logs()]:
            print(f"    {line}")
    elif skipped:
        print(f"skip {title}: {skipped}")
    else:
        print(f"ok {title}")
    print(f"# took {time.monotonic() - began:.1f} s, {processor_s() - used:.1f} s of a processor", flush=True)
    run.remove()
    return not (trouble or complaints)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-k", metavar="PATTERN", default="", help="only scenarios whose title contains it")
    parser.add_argument("--list", action="store_true", help="print the titles")
    parser.add_argument("--shard", metavar="I/N", help="every Nth scenario, from the Ith")
    parser.add_argument("--only", choices=("timed", "sanitized"), help="only scenarios that run without, or with, a sanitizer")
    options = parser.parse_args()
    dispositions.restore()
    shard, shards = (int(part) for part in (options.shard or "0/1").split("/"))
    those = [row for row in SCENARIOS if not options.only or row[3] == (options.only == "sanitized")]
    chosen = [(i, row) for i, row in enumerate(those) if options.k in row[0] and i % shards == shard]
    if not chosen and not options.shard:  # the runner, which has shards, sees that none of its programs ran any
        parser.error(f"no scenario has {options.k!r} in its title; --list prints the titles")
    if options.list:
        print("\n".join(row[0] for _, row in chosen))
        return
    outer = os.environ.get(leftovers.MARKER) or f"{os.getpid():x}-{pathlib.Path(sys.argv[0]).stem}"
    good = [run_one(*row, f"{outer}.{i}") for i, row in chosen]
    sys.exit(0 if all(good) else 1)
