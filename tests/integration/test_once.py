#!/usr/bin/env python3
"""Once in a period: a job that three hosts start, by clocks that differ by up to a second, runs once in each round.

HOLDFAST_FULL=1 plays 1,000 rounds of each kind; a round is three starts of one name on three agents.
"""
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from jobs import trace  # noqa: E402
from proxy import Proxy  # noqa: E402
from rig import BUILD, OTHER_UID, HolderError, agent_env, main, scenario, stat_letter, wait_until  # noqa: E402
from views import wait_node  # noqa: E402

ROUNDS = 1000 if os.environ.get("HOLDFAST_FULL") else 24
NAMES = 20  # rounds of so many names are played side by side
SKEW_S = 1.0
PERIOD_S = 3.0
# A round's first start may be its last host's, and the next round's the first one's: a tenth of so short a period leaves no
# room for that.
ROUND_S = PERIOD_S + SKEW_S + 0.5
TTL = "3s"
BUSY, NO_AGENT = 75, 69


# --- rounds --------------------------------------------------------------------------------------------


class Rounds:
    """Each name has a thread that plays its rounds: one start on each agent, the skews drawn."""

    def __init__(self, run, agents, options, rounds, codes):
        self.run, self.agents, self.options, self.codes = run, agents, options, codes
        self.left = rounds
        self.lock = threading.Lock()
        self.ran = []  # how often, of each round
        self.strange = []

    def take(self):
        with self.lock:
            self.left -= 1
            return self.left >= 0

    def start(self, agent, name, log):
        return subprocess.Popen(
            [BUILD / "bin" / "holdfast", "run", *self.options, name, "--", "sh", "-c", f"echo ran >>{log}; sleep 0.01"],
            env=self.run.env(agent_env(agent)), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            text=True)

    def play(self, name, log):
        began = time.monotonic()
        skews = sorted((random.uniform(0, SKEW_S), agent) for agent in random.sample(self.agents, len(self.agents)))
        processes = []
        for skew, agent in skews:
            time.sleep(max(0.0, began + skew - time.monotonic()))
            processes.append(self.start(agent, name, log))
        for process in processes:
            err = process.communicate(timeout=60)[1]
            if process.returncode not in self.codes:
                self.strange.append(f"{name}: exit {process.returncode}: {err}")
        time.sleep(max(0.0, began + ROUND_S - time.monotonic()))

    def names_rounds(self, name):
        log = self.run.dir / f"ran-{name}"
        log.touch()
        before = 0
        while self.take():
            self.play(name, log)
            after = log.read_text().count("ran")
            self.ran.append(after - before)
            before = after

    def all(self):
        threads = [threading.Thread(target=self.names_rounds, args=(f"job{i}",)) for i in range(NAMES)]
        for thread in threads:
            thread.start()
        return threads

    def figures(self, what):
        counts = {n: self.ran.count(n) for n in sorted(set(self.ran))}
        print(f"# {what}: {len(self.ran)} rounds of {len(self.agents)} starts up to {SKEW_S:g} s apart, ran "
              + ", ".join(f"{n} times in {rounds}" for n, rounds in counts.items()), flush=True)
        return counts


def hosts(run):
    run.redis(3)
    return [run.agent(label, ttl=TTL, options=("--ttl-max", "4s")) for label in "abc"]


def in_peace(run, what, *options, codes=(0, BUSY)):
    rounds = Rounds(run, hosts(run), options, ROUNDS, codes)
    for thread in rounds.all():
        thread.join()
    counts = rounds.figures(what)
    assert counts == {1: ROUNDS}, counts
    assert not rounds.strange, rounds.strange[:3]


def amid_faults(run, what, *options):
    """An agent is killed and started again every second or two, a node is killed and comes back empty after its quarantine."""
    agents = hosts(run)
    rounds = Rounds(run, agents, options, ROUNDS, (0, BUSY, NO_AGENT, 124, 125))
    threads = rounds.all()
    killed = 0
    while any(thread.is_alive() for thread in threads):
        victim = random.randrange(4)
        if victim < 3:
            agents[victim].kill()
            time.sleep(random.uniform(0, 0.3))
            agents[victim] = rounds.agents[victim] = run.agent("abc"[victim], ttl=TTL, fresh=False, options=("--ttl-max", "4s"))
        else:
            node = random.choice(run.nodes)
            node.restart()
            time.sleep(5.5)  # its quarantine: never two at a time
        killed += 1
        time.sleep(random.uniform(0.5, 1.5))
    counts = rounds.figures(f"{what}, {killed} agents and nodes killed meanwhile")
    assert max(counts) <= 1, counts
    assert counts[1] >= ROUNDS * 9 // 10, counts


@scenario("once per period: a job of 10 ms runs once in each round", sanitizers=False)
def once_per(run):
    in_peace(run, "--once-per", "--once-per", f"{PERIOD_S:g}s", codes=(0,))


@scenario("once per period: never twice while agents and nodes are killed", sanitizers=False)
def once_per_faults(run):
    amid_faults(run, "--once-per", "-w", "10", "--once-per", f"{PERIOD_S:g}s")


# --- the record ----------------------------------------------------------------------------------------


def tries(run, agent, *options, command=("true",), name="job"):
    return run.holdfast("run", "-v", "--once-per", "1h", *options, name, "--", *command, agent=agent)


def has_run(result):
    return "the job ended" in result.err


@scenario("a second run in the period is skipped with 0, or with the code that is wanted, and says so only where asked")
def skipped(run):
    run.redis(3)
    agents = [run.agent(label) for label in "ab"]
    assert has_run(tries(run, agents[0]))
    for agent in agents:
        again = tries(run, agent)
        assert again.rc == 0 and "it has run in this period: it was started 0." in again.err and not has_run(again), again
    quiet = run.start_holdfast("run", "--once-per", "1h", "--done-exit-code", "9", "job", "--", "false", agent=agents[1])
    assert quiet.wait() == 9 and quiet.err == "", quiet.err
    wait_until(lambda: not left_of(quiet), what="both guardians are gone")
    assert run.show("job", agent=agents[1]) is None
    assert has_run(tries(run, agents[0], name="other"))
    assert run.holdfast("run", "job", "--", "true", agent=agents[1]).rc == 0, "without the option it runs"


@scenario("after nine tenths of the period it runs again")
def next_period(run):
    run.redis(3)
    agent = run.agent()
    for _ in range(2):
        began = time.monotonic()
        done = run.holdfast("run", "-v", "--once-per", "20s", "job", "--", "true", agent=agent)
        assert has_run(done), done
        # A little early. After 18 s it may; slow answers may have put the record up to 1 s ahead.
        time.sleep(max(0.0, began + 19.6 - time.monotonic()))


@scenario("a job that failed counts as run, unless it is to be tried again")
def failed(run):
    run.redis(3)
    agent = run.agent()
    assert tries(run, agent, command=("false",)).rc == 1
    assert not has_run(tries(run, agent))
    for _ in range(2):
        assert tries(run, agent, "--retry-failed", command=("false",), name="again").rc == 1
    assert has_run(tries(run, agent, "--retry-failed", name="again"))
    assert not has_run(tries(run, agent, "--retry-failed", name="again"))


@scenario("one node that remembers is enough, and the others are told again")
def one_remembers(run):
    run.redis(3)
    agents = [run.agent(label, options=("--ttl-max", "2s"), ttl="2s") for label in "ab"]
    assert has_run(tries(run, agents[0]))
    for node in run.nodes[:2]:
        node.cmd("DEL", "holdfast:once:job")
    assert not has_run(tries(run, agents[1]))
    wait_until(lambda: all(node.cmd("HGET", "holdfast:once:job", "at") for node in run.nodes), what="all nodes have it again")


@scenario("a node that remembers and is refused has no vote, and the run that it tells of counts")
def refused_remembers(run):
    run.redis(3)
    agent = run.agent(options=("--ttl-max", "2s"), ttl="2s")
    assert has_run(tries(run, agent))
    for node in run.nodes[:2]:
        node.cmd("DEL", "holdfast:once:job")
    for setting in (("maxmemory", "1gb"), ("maxmemory-policy", "allkeys-lru")):
        run.nodes[2].cmd("CONFIG", "SET", *setting)
    wait_until(lambda: [row["votes"] for row in run.holdfast("nodes", "--json", agent=agent).json["nodes"]] == [True, True, False],
               what="it is refused")
    assert not has_run(tries(run, agent))


@scenario("two nodes came back empty and vote again: the third alone knows of the run, and no job starts without its answer")
def came_back(run):
    run.redis(3)
    agent = run.agent(options=("--ttl-max", "1s"), ttl="1s")
    assert has_run(tries(run, agent))
    for node in run.nodes[:2]:
        node.kill()
        node.restart()
        wait_node(run, node.id, agent, votes=True)
    run.nodes[2].sigstop()
    result = tries(run, agent, "-w", "1s")
    assert result.rc == NO_AGENT and "may know whether the job has run" in result.err, result
    run.nodes[2].sigcont()
    wait_node(run, run.nodes[2].id, agent, votes=True)
    assert not has_run(tries(run, agent))
    # Nobody knows of this one, and all say so.
    assert has_run(tries(run, agent, name="another"))


@scenario("no run without a majority that took it down, and none counts that did not begin")
def no_majority(run):
    run.redis(3)
    agent = run.agent()
    holder = run.holder(agent)
    holder.acquire("job")
    for node in run.nodes[1:]:
        node.cmd("CONFIG", "SET", "min-replicas-to-write", "1")
    try:
        holder.cmd("once", 3_600_000)
        raise AssertionError("it was told to run")
    except HolderError as error:
        assert "fewer than 2 of 3 nodes" in error.text, error.text
    for node in run.nodes[1:]:
        node.cmd("CONFIG", "SET", "min-replicas-to-write", "0")
    assert holder.cmd("once", 3_600_000)["before"] == 0
    try:
        holder.cmd("once", 3_600_000)
        raise AssertionError("the same holder was told to run twice")
    except HolderError as error:
        assert "it has run in this period" in error.text, error.text


@scenario("five starts on one host within a second run once, in each round", sanitizers=False)
def one_host(run):
    """They follow each other by hand-offs, so all have the same fence on the nodes."""
    run.redis(3)
    agent = run.agent()
    rounds = 100 if os.environ.get("HOLDFAST_FULL") else 15
    ran = []
    for number in range(rounds):
        name = f"job{number}"
        log = run.dir / f"ran-{name}"
        log.touch()
        starts = [run.start_holdfast("run", "--once-per", "1d", name, "--", "sh", "-c", f"echo ran >>{log}; sleep 0.05", agent=agent)
                  for _ in range(5)]
        for start in starts:
            assert start.wait() == 0, start.err
        ran.append(log.read_text().count("ran"))
    print(f"# {rounds} rounds of five starts on one host: ran {sorted(set(ran))} times")
    assert set(ran) == {1}, ran


@scenario("jobs of up to T/2 on one host run once, too", sanitizers=False)
def one_host_long(run):
    run.redis(3)
    agent = run.agent(ttl=TTL)
    starts = {}
    for length in (0.2, 0.8, 1.4):
        for _ in range(3):
            log = run.dir / f"ran-{length * 1000:g}ms"
            starts[run.start_holdfast("run", "--once-per", "1d", f"job{length * 1000:g}", "--", "sh", "-c", f"echo ran >>{log}; sleep {length}",
                                      agent=agent)] = log
    for start, log in starts.items():
        assert start.wait() == 0, start.err
    for log in set(starts.values()):
        assert log.read_text().count("ran") == 1, (log, log.read_text())


@scenario("a shorter period does not shorten how long a record is kept, whether or not the job runs")
def kept_as_long(run):
    run.redis(3)
    agent = run.agent()
    day_ms = 24 * 3600 * 1000
    assert has_run(run.holdfast("run", "-v", "--once-per", "28d", "job", "--", "true", agent=agent))
    before = [node.pttl("holdfast:once:job") for node in run.nodes]
    assert min(before) > 56 * day_ms, before
    assert not has_run(tries(run, agent))
    time.sleep(2.2)  # the time in a record is up to a second ahead
    assert has_run(run.holdfast("run", "-v", "--once-per", "1s", "job", "--", "true", agent=agent))
    after = [node.pttl("holdfast:once:job") for node in run.nodes]
    assert min(after) > 56 * day_ms, after


def events(run, agent, name="job"):
    shown = run.holdfast("history", "--json", name, agent=agent)
    return [json.loads(line) for line in shown.out.splitlines()]


def last_run(run, agent, name="job"):
    return run.holdfast("show", "--json", name, agent=agent).json["last_run"]


@scenario("a command that is not there, or cannot be executed, uses up no period")
def typo(run):
    run.redis(3)
    agent = run.agent()
    assert tries(run, agent, command=("no-such-command",)).rc == 127
    assert tries(run, agent, command=("/etc/passwd",)).rc == 126
    assert tries(run, agent, command=("sh", "-c", "no-such-command 2>/dev/null")).rc == 127
    assert last_run(run, agent) is None
    assert has_run(tries(run, agent))
    assert not has_run(tries(run, agent, command=("no-such-command",)))


@scenario("show and history tell the last run on any host, and a start that was skipped")
def told(run):
    run.redis(3)
    agents = [run.agent(label) for label in "ab"]
    assert "last run" not in run.holdfast("show", "job", agent=agents[1]).out
    job = run.start_holdfast("run", "--once-per", "1h", "job", "--", "sh", "-c", "touch begun; while [ ! -e go ]; do sleep 0.05; done; exit 3",
                             agent=agents[0])
    wait_until((run.dir / "begun").exists, what="the job runs")
    running = last_run(run, agents[1])
    assert running["end"] == "unknown" and running["pid"] == job.pid and running["host"], running
    (run.dir / "go").touch()
    assert job.wait() == 3
    for agent in agents:
        ended = last_run(run, agent)
        assert ended == {**running, "end": "exited", "code": 3}, ended
        for command in ("show", "history", "once"):
            shown = run.holdfast(command, "job", agent=agent)
            assert f"(pid {job.pid}, user {os.geteuid()}), ended with 3" in shown.out, shown
    again = tries(run, agents[1])
    assert not has_run(again) and " s ago on " in again.err, again
    seen = events(run, agents[1])
    skipped = [event for event in seen if event["event"] == "skipped"]
    assert len(skipped) == 1 and skipped[0]["name"] == "job" and skipped[0]["run_before_ms"] < 60000, seen
    assert seen[-1]["event"] == "last_run" and seen[-1]["code"] == 3, seen
    assert tries(run, agents[0], name="killed", command=("sh", "-c", "kill -9 $$")).rc == 137
    assert last_run(run, agents[1], "killed")["end"] == "killed" and last_run(run, agents[1], "killed")["code"] == 9


@scenario("a run that is taken back leaves the one before as the last run")
def before_it(run):
    run.redis(3)
    agent = run.agent()
    assert has_run(run.holdfast("run", "-v", "--once-per", "1s", "job", "--", "true", agent=agent))
    first = last_run(run, agent)
    time.sleep(1.5)
    assert run.holdfast("run", "--once-per", "1s", "--retry-failed", "job", "--", "false", agent=agent).rc == 1
    assert last_run(run, agent) == first


@scenario("once --forget: the next start runs, also where a node was away; without a run, or the right, it says so")
def forget(run):
    run.redis(3)
    agents = [run.agent(label) for label in "ab"]
    assert run.holdfast("once", "--forget", "job").rc == 3
    assert has_run(tries(run, agents[0]))
    run.nodes[2].sigstop()
    forgotten = run.holdfast("once", "--forget", "job", agent=agents[1])
    assert forgotten.rc == 0 and "forgotten" in forgotten.out, forgotten
    run.nodes[2].sigcont()
    wait_until(lambda: all(n["state"] == "up" for n in run.holdfast("nodes", "--json", agent=agents[0]).json["nodes"]), what="the node is back")
    assert run.holdfast("once", "job", agent=agents[0]).rc == 3
    assert last_run(run, agents[0]) is None
    assert has_run(tries(run, agents[0]))
    assert not has_run(tries(run, agents[1]))
    assert has_run(tries(run, agents[1], name="other"))


@scenario("once --forget under a running job is about that run, and a later start runs", sanitizers=False)
def forget_running(run):
    run.redis(3)
    agent = run.agent()
    job = run.start_holdfast("run", "--once-per", "1h", "job", "--", "sh", "-c", "touch begun; sleep 1", agent=agent)
    wait_until((run.dir / "begun").exists, what="the job runs")
    assert run.holdfast("once", "--forget", "job", agent=agent).rc == 0
    assert job.wait() == 0, job.err
    assert has_run(tries(run, agent))


@scenario("once --forget needs the right to force", needs_root=True)
def forget_right(run):
    run.redis(3)
    agent = run.agent(system=True)
    assert has_run(tries(run, agent))
    refused = run.holdfast("once", "--forget", "job", agent=agent, uid=OTHER_UID)
    assert refused.rc == 77 and "force" in refused.err, refused
    seen = run.holdfast("once", "job", agent=agent, uid=OTHER_UID)
    assert seen.rc == 0, seen


# --- nodes that answer late, and agents that start again ------------------------------------------------------

WRITES_TIME = ("sh", "-c", "date +%s%N >>ran")


def proxied(run):
    proxies = [Proxy(node.address) for node in run.nodes]
    return proxies, [proxy.spec(node) for proxy, node in zip(proxies, run.nodes)]


def slow_agent(run, *delays):
    """One for which each node's answers take so long, once it is ready."""
    proxies, nodes = proxied(run)
    agent = run.agent(nodes=nodes)
    for proxy, delay in zip(proxies, delays):
        proxy.delay_s = delay
    return agent


def started_us(run):
    return [int(line) // 1000 for line in (run.dir / "ran").read_text().split()] if (run.dir / "ran").exists() else []


def not_after_its_record(run, agent):
    """The time in the record is the latest at which the job may start: the next start is judged by it."""
    assert has_run(run.holdfast("run", "-v", "--once-per", "10s", "job", "--", *WRITES_TIME, agent=agent))
    in_time(run)


def in_time(run):
    at = max(int(node.cmd("HGET", KEY, "at") or 0) for node in run.nodes[:2])
    late_s = (started_us(run)[-1] - at) / 1e6
    print(f"# the job started {late_s:+.3f} s after the time in its record")
    assert late_s <= 0, late_s


@scenario("one node answers 0.9 s late: the job starts at the time that its record has, and not that much later", sanitizers=False)
def late_node(run):
    run.redis(3)
    not_after_its_record(run, slow_agent(run, 0, 0, 0.9))


@scenario("two nodes answer 0.5 s late: the record has a later time, and the job starts before it", sanitizers=False)
def late_majority(run):
    run.redis(3)
    not_after_its_record(run, slow_agent(run, 0, 0.5, 0.5))


@scenario("a node that answers late brings no two starts on two hosts closer than nine tenths of the period", sanitizers=False)
def late_node_two_hosts(run):
    run.redis(3)
    agents = [slow_agent(run, 0, 0, 0.9), run.agent("b")]
    assert has_run(run.holdfast("run", "-v", "--once-per", "6s", "job", "--", *WRITES_TIME, agent=agents[0]))
    time.sleep(3)
    wait_until(lambda: run.holdfast("run", "--once-per", "6s", "job", "--", *WRITES_TIME, agent=agents[1]) and len(started_us(run)) > 1,
               what="the other host's run")
    first, second = started_us(run)
    print(f"# {(second - first) / 1e6:.3f} s apart")
    assert second - first >= 5.4 * 10 ** 6, (second - first) / 10 ** 6


@scenario("an agent is killed right after its word, and starts again 1.5 s later: the job starts at the time that its record has", sanitizers=False)
def killed_after_its_word(run):
    """Each connection to an agent takes 0.3 s, so that a guardian which joins after the word would find no agent."""
    run.redis(3)
    agent = run.agent()
    start = run.start_holdfast("run", "-v", "--once-per", "10s", "job", "--", *WRITES_TIME, agent=agent,
                               env={"LD_PRELOAD": BUILD / "tests" / "slowconnect.so"})
    wait_until(lambda: run.nodes[0].cmd("HGET", KEY, "at"), what="the record", interval_s=0.002)
    time.sleep(0.05)
    agent.kill()
    time.sleep(1.5)
    run.agent(fresh=False)
    assert start.wait() == 0 and has_run(start), start.err
    in_time(run)


def asking(run, agent, period):
    """A start that asks the nodes, of which none has its record yet."""
    start = run.start_holdfast("run", "-v", "--once-per", period, "job", "--", *WRITES_TIME, agent=agent)
    wait_until(lambda: run.nodes[0].cmd("HGET", KEY, "seen"), what="it asks", interval_s=0.005)
    return start


@scenario("a start that is stopped while it is answered begins no job by the old record: it asks again", sanitizers=False)
def stopped_meanwhile(run):
    run.redis(3)
    agent = slow_agent(run, 0.1, 0.1, 0.1)
    start = asking(run, agent, "10s")
    os.killpg(start.pid, signal.SIGSTOP)
    wait_until(lambda: run.nodes[0].cmd("HGET", KEY, "at"), what="the record")
    time.sleep(3)
    os.killpg(start.pid, signal.SIGCONT)
    assert start.wait() == 0 and has_run(start), start.err
    in_time(run)


def left_of(start):
    """Processes of its session, in which both guardians are until the job starts."""
    left = []
    for pid in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if os.getsid(int(pid.name)) == start.pid and stat_letter(pid.name) not in "Z":
                left.append(pid.name)
        except ProcessLookupError:
            pass
    return left


@scenario("run is killed while it asks: no guardian is left, no job starts, and the lock is released", sanitizers=False)
def killed_while_it_asks(run):
    run.redis(3)
    agent = slow_agent(run, 0.5, 0.5, 0.5)
    start = asking(run, agent, "1h")
    os.kill(start.pid, signal.SIGKILL)
    start.wait()
    wait_until(lambda: not left_of(start), what="no guardian is left")
    wait_until(lambda: run.show("job", agent=agent) is None, what="it is released")
    assert not started_us(run) and last_run(run, agent) is None


def amid_restarts(run, end, rounds):
    """The agent ends while the third node's answer is awaited. Its runs before had their locks for longer than this one."""
    run.redis(3)
    proxies, nodes = proxied(run)
    agent = run.agent(nodes=nodes)
    proxies[2].delay_s = 0.3
    for number in range(rounds):
        name = f"job{number}"
        assert run.holdfast("run", "--once-per", "1h", f"before{number}", "--", "sleep", "1.5", agent=agent).rc == 0
        wait_until(lambda: all(n["state"] == "up" for n in run.holdfast("nodes", "--json", agent=agent).json["nodes"]), what="all nodes up")
        start = run.start_holdfast("run", "-v", "--once-per", "1h", name, "--", "sh", "-c", "echo ran >>ran", agent=agent)
        wait_until(lambda: run.nodes[0].cmd("HGET", f"holdfast:once:{name}", "seen"), what="it asks", interval_s=0.005)
        time.sleep(random.uniform(0, 0.3))
        end(agent)
        agent = run.agent(nodes=nodes, fresh=False)
        assert start.wait() == 0 and has_run(start), start.err
    assert (run.dir / "ran").read_text().count("ran") == rounds


@scenario("an agent is killed while a start asks, and starts again: the job runs in that period, once", sanitizers=False)
def killed_meanwhile(run):
    amid_restarts(run, lambda agent: agent.kill(), 5)


@scenario("an agent ends in order while a start asks, and starts again: the job runs in that period, once", sanitizers=False)
def ended_meanwhile(run):
    amid_restarts(run, lambda agent: agent.stop(), 4)


@scenario("an agent is killed after it has overwritten an earlier run, which counts again once the job has failed")
def overwritten(run):
    run.redis(3)
    proxies, nodes = proxied(run)
    agent = run.agent(nodes=nodes)
    assert has_run(run.holdfast("run", "-v", "--once-per", "1h", "job", "--", "true", agent=agent))
    first = last_run(run, agent)
    for _ in range(2):
        time.sleep(3)  # a record is up to a second or two ahead of its write
        before = run.nodes[0].cmd("HGET", KEY, "at")
        for proxy in proxies:
            proxy.lose_replies(b"write")
        start = run.start_holdfast("run", "-v", "--once-per", "1s", "--retry-failed", "job", "--", "sh", "-c", "echo ran >>ran; false", agent=agent)
        wait_until(lambda: all(node.cmd("HGET", KEY, "at") != before for node in run.nodes), what="it is overwritten", interval_s=0.002)
        agent.kill()
        for proxy in proxies:
            proxy.break_held()
        agent = run.agent(nodes=nodes, fresh=False)
        assert start.wait() == 1, start.err
        assert last_run(run, agent) == first
    assert (run.dir / "ran").read_text().count("ran") == 2
    assert not has_run(run.holdfast("run", "-v", "--once-per", "1h", "job", "--", "true", agent=agent))


@scenario("a job that ended with 0 has run, though its lock was asked for, its max_hold was over, or its run was killed", sanitizers=False)
def worked_all_the_same(run):
    run.redis(3)
    agent = run.agent()

    def begun(name, *options, script):
        job = run.start_holdfast("run", "-v", "--once-per", "1h", "--retry-failed", *options, name, "--", "sh", "-c", script, agent=agent)
        job.wait_out("up")
        return job

    def counts(name):
        wait_until(lambda: run.show(name, agent=agent) is None, what="it is released")
        assert not has_run(run.holdfast("run", "-v", "--once-per", "1h", name, "--", "true", agent=agent)), name

    job = begun("max-hold", "--max-hold", "1s", script='trap "" TERM; echo up; sleep 1.5; exit 0')
    assert job.wait() == 124, job.err
    counts("max-hold")
    job = begun("asked", script='trap "exit 0" TERM; echo up; sleep 20 & wait')
    assert run.holdfast("release", "asked", agent=agent).rc == 0
    job.wait()
    counts("asked")
    job = begun("killed", script="echo up; sleep 20 & exit 0")
    time.sleep(0.3)
    os.kill(job.pid, signal.SIGKILL)
    job.wait()
    counts("killed")


@scenario("a job that ended with 0 while another process traced it has run, for nobody knows its end", needs_root=True, sanitizers=False)
def end_unknown(run):
    run.redis(3)
    agent = run.agent()
    once = ("run", "--once-per", "1h", "--retry-failed", "job", "--")
    job = run.start_holdfast(*once, "sh", "-c", f"echo ran >> {run.dir}/ran; echo $$; read x", agent=agent, stdin=subprocess.PIPE)
    pid = int(job.wait_out(r"^(\d+)\n").group(1))
    tracer = trace(run, pid)
    job.popen.stdin.close()
    assert job.wait(20) == 125, job.err
    assert not has_run(run.holdfast(*once, "sh", "-c", f"echo ran >> {run.dir}/ran", agent=agent))
    assert (run.dir / "ran").read_text() == "ran\n"
    tracer.kill()


@scenario("who asks again after too few answers finds its own record, and may start; who has started may not")
def asks_again(run):
    run.redis(3)
    proxies, nodes = proxied(run)
    agent = run.agent(nodes=nodes)
    holder = run.holder(agent)
    holder.acquire("job")
    for proxy in proxies:
        proxy.lose_replies(b"write")
        proxy.hold_requests(b"back")
    try:
        holder.cmd("once", 3_600_000)
        raise AssertionError("it was told to run")
    except HolderError as error:
        assert "fewer than 2 of 3 nodes" in error.text, error.text
    assert all(node.cmd("HGET", KEY, "at") for node in run.nodes), "no node has the record"
    for proxy in proxies:
        proxy.break_held()
    wait_until(lambda: all(n["state"] == "up" for n in run.holdfast("nodes", "--json", agent=agent).json["nodes"]), what="all nodes up")
    holder.cmd("once", 3_600_000)
    try:
        holder.cmd("once", 3_600_000)
        raise AssertionError("the same holder was told to run twice")
    except HolderError as error:
        assert "it has run in this period" in error.text, error.text


# --- clocks that disagree ---------------------------------------------------------------------------------


def wait_up(run, agent, *nodes):
    for node in nodes:
        wait_node(run, node.id, agent, state="up")


def scripts(node):
    return int(re.search(r"cmdstat_evalsha:calls=(\d+)", node.cmd("INFO", "commandstats").decode()).group(1))


@scenario("of two nodes that are left one is an hour behind, and the agent is new: no start in the period of the run before, and the node is named")
def clock_behind(run):
    short = {"ttl": "2s", "options": ("--ttl-max", "2s")}
    behind, right, dead = run.redis(3, clock=True)
    behind.shift_clock(-3600)
    agent = run.agent(**short)
    wait_up(run, agent, *run.nodes)
    assert has_run(run.holdfast("run", "-v", "--once-per", "30m", "job", "--", "true", agent=agent))
    dead.kill()
    new = run.agent("b", fresh=False, **short)
    wait_up(run, new, behind, right)
    before = scripts(right)
    starts = [run.start_holdfast("run", "-v", "--once-per", "30m", name, "--", "true", agent=at)
              for name, at in (("job", new), ("other", agent))]
    for start in starts:
        assert start.wait() == 69 and not has_run(start), start.err
        assert re.search(rf"node {behind.id}'s clock is 3[56]\d\d\.\d s behind; correct that server's clock", start.err), start.err
    assert scripts(right) - before < 400, "asked without a pause"
    dead.start()
    wait_up(run, new, dead)
    done = run.holdfast("run", "-v", "--once-per", "30m", "job", "--", "true", agent=new)
    assert done.rc == 0 and "it has run in this period" in done.err, done
    assert has_run(run.holdfast("run", "-v", "--once-per", "30m", "other", "--", "true", agent=new)), "two of three agree"


# --- one node that lies, or was written to -----------------------------------------------------------------

KEY = "holdfast:once:job"
LAST = 2 ** 53 - 1


def findings(run):
    return [f for f in run.holdfast("doctor", "--json").json["findings"] if f["check"] == "node.once"]


def now_us(ahead_s=0):
    return int((time.time() + ahead_s) * 10 ** 6)


def doctors_command(run):
    return re.search(r'DEL "([^"]+)"', findings(run)[0]["remedy"]).group(1)


@scenario("one node of three knows an asker of the far future: jobs start, nobody takes that over, and doctor's command mends it")
def seen_far_ahead(run):
    run.redis(3)
    agent = run.agent()
    run.nodes[2].cmd("HSET", KEY, "seen", LAST)
    assert has_run(tries(run, agent))
    assert not has_run(tries(run, agent))
    assert run.holdfast("once", "--forget", "job", agent=agent).rc == 0
    assert all(int(node.cmd("HGET", KEY, "seen")) < now_us(60) for node in run.nodes[:2])
    assert has_run(tries(run, agent))
    wait_until(lambda: findings(run), what="doctor tells")
    assert sum("run far ahead" in line for line in agent.err.splitlines()) == 1, agent.err
    assert run.nodes[2].cmd("DEL", doctors_command(run)) == 1
    assert not has_run(tries(run, agent)), "the others remember it"
    wait_until(lambda: run.nodes[2].cmd("HGET", KEY, "at"), what="the node has the run")
    wait_until(lambda: not findings(run), what="doctor has nothing to tell")


@scenario("one node of three has a run of the future: it neither stops a start nor hides a run, and is overwritten")
def start_far_ahead(run):
    run.redis(3)
    agent = run.agent()
    ahead = ("fence", LAST, "turn", 1, "at", now_us(1800))
    run.nodes[2].cmd("HSET", KEY, *ahead)
    assert has_run(tries(run, agent)), "a start in the future of less than the period"
    run.nodes[2].cmd("HSET", KEY, *ahead)
    assert not has_run(tries(run, agent)), "the run is not hidden"
    wait_until(lambda: int(run.nodes[2].cmd("HGET", KEY, "at")) < now_us(60), what="it has the run")
    assert all(int(node.cmd("HGET", KEY, "at")) < now_us(60) for node in run.nodes)


@scenario("a majority shows a run of the future, since clocks were set back: it stops the starts")
def majority_ahead(run):
    run.redis(3)
    agent = run.agent()
    for node in run.nodes[:2]:
        node.cmd("HSET", KEY, "fence", now_us(1800), "turn", 1, "at", now_us(1800))
    assert not has_run(tries(run, agent))
    assert not findings(run)


@scenario("one node of three says that a later asker did not run the job, or ran it long ago: the run counts")
def hidden(run):
    run.redis(3)
    agents = [run.agent(label) for label in "ab"]
    assert has_run(tries(run, agents[0]))
    for number, lie in enumerate((0, 1, now_us(-7200))):
        run.nodes[2].cmd("HSET", KEY, "fence", now_us(30), "turn", 1, "at", lie, "asker", 7)
        assert not has_run(tries(run, agents[number % 2])), lie


@scenario("a client takes back only the run that its own lease took, and what stood before is not its word")
def not_its_own(run):
    run.redis(3)
    agent = run.agent()
    assert has_run(tries(run, agent))
    first = last_run(run, agent)
    for before in (0, 1):
        holder = run.holder(agent)
        holder.acquire("job")
        try:
            holder.cmd("once-back", 3_600_000, 0, before)
            raise AssertionError("taken back")
        except HolderError as error:
            assert "no run that began under this lease" in error.text, error.text
        holder.release()
        holder.close()
    assert last_run(run, agent) == first
    time.sleep(2.2)
    holder = run.holder(agent)
    holder.acquire("job")
    holder.cmd("once", 1000)
    holder.cmd("once-back", 1000, 0, 0)
    holder.release()
    assert last_run(run, agent) == first
    assert not has_run(tries(run, agent))


@scenario("five starts of two hosts at once, while one node of three lies: each job runs once", sanitizers=False)
def rounds_with_a_liar(run):
    """A lease of 30 s, so that no node counts as silent on a busy machine: a node that is away beside one that lies is a fault too many."""
    run.redis(3)
    agents = [run.agent(label, ttl="30s") for label in "ab"]
    lies = [("seen", LAST), ("at", now_us(3600), "fence", LAST), ("fence", now_us(3600), "turn", 1, "at", 0, "asker", 7)]
    over, ran, strange = threading.Event(), [], []
    current = [0]

    def lie():
        while not over.is_set():
            run.nodes[2].cmd("HSET", f"holdfast:once:job{current[0]}", *lies[current[0] % len(lies)])
            time.sleep(random.uniform(0, 0.02))

    liar = threading.Thread(target=lie)
    liar.start()
    try:
        for number in range(240 if os.environ.get("HOLDFAST_FULL") else 24):
            current[0] = number
            log = run.dir / f"ran-job{number}"
            log.touch()
            starts = [run.start_holdfast("run", "-v", "--once-per", "1d", f"job{number}", "--", "sh", "-c", f"echo ran >>{log}; sleep 0.02",
                                         agent=agents[i % 2]) for i in range(5)]
            for start in starts:
                if start.wait() != 0:
                    strange.append((number, start.err))
            ran.append(log.read_text().count("ran"))
    finally:
        over.set()
        liar.join()
    counts = {n: ran.count(n) for n in sorted(set(ran))}
    print(f"# rounds of five starts on two hosts, one node lies: ran so many times in so many rounds: {counts}")
    assert max(counts) <= 1, (counts, ran)
    assert set(counts) == {1}, (counts, strange[:3])
    assert not strange, strange[:3]


@scenario("options that do not go together are refused")
def usage(run):
    run.redis(3)
    run.agent()
    for options in (["--slots", "2", "--once-per", "1h"], ["--shared", "--once-per", "1h"], ["--retry-failed"], ["--done-exit-code", "3"], ["--once-per", "0"]):
        assert run.holdfast("run", *options, "job", "--", "true").rc == 64, options


if __name__ == "__main__":
    main()
