#!/usr/bin/env python3
"""Net. A running agent is killed between any two of its stores.

A preloaded library keeps the state of its table and journal after each; tests/torture/agent.c judges them: as readers
see them, as the next agent recovers them, and as yet another finds them when that one is killed at any of its stores.
"""
import ast
import hashlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from rig import BUILD, HolderError, Process, main, scenario, wait_until  # noqa: E402
from views import counters  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SCRIPTS = ("acquire", "raise", "heal", "renew", "release", "sentinel", "fleet", "query", "listing",
           "force", "once")  # enum script
BUSY, FULL = -201, -305
GENERATIONS = (1 << 24) - 1  # of a slot
SCRIBBLES = 3000 if os.environ.get("HOLDFAST_FULL") else 100  # damaged tables that the next agent finds
LONG = "a-name-of-two-units-" + 70 * "x"
TTL_MS = 3000  # of leases whose renewals and losses are waited for
AGAIN = 8  # of every such moment the recovery is killed at every store, too


def script_sums():
    """Of the scripts as they are sent."""
    made = (BUILD / "generated/agent/scripts.h").read_text()
    texts = {name: "".join(ast.literal_eval(line.strip().rstrip(";")) for line in body.strip().splitlines())
             for name, body in re.findall(r"script_(\w+)\[\] =\n((?: +\".*\";?\n)+)", made)}
    return ",".join(hashlib.sha1(texts[name].encode()).hexdigest() for name in SCRIPTS)


class Torturer(Process):
    def __init__(self, run, agent):
        copy_dir = run.dir / "copy"
        copy_dir.mkdir()
        prefix = "/holdfast." if os.geteuid() == 0 else f"/holdfast-{os.geteuid()}."
        super().__init__(run, [BUILD / "tests" / "torture_agent", log_of(run), prefix + agent.name,
                               run.runtime_dir / agent.name, f"{prefix}{run.tag}-copy", copy_dir, script_sums(),
                               "--", *agent.argv[1:]],
                         "torturer", stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self.points = 0

    def cmd(self, line):
        self.popen.stdin.write(f"{line}\n".encode())
        answer = self.popen.stdout.readline().decode().split(None, 1)
        assert answer, f"the torturer ended: {self.wait()}: {self.err}"
        assert answer[0] == "ok", " ".join(answer)
        return {key: int(value) for key, value in (word.split("=") for word in answer[1:] and answer[1].split())}

    def watch(self):
        self.cmd("watch")

    def judge(self, title, *words):
        """Of what was stored since watch()."""
        seen = self.cmd("stop")
        begun = time.monotonic()
        points = self.cmd(" ".join(("judge", *words)))["points"]
        again = self.cmd(f"again {AGAIN}")["points"]
        print(f"# {title}: {points} fault points, {again} more in recoveries ({seen}, {time.monotonic() - begun:.1f} s)")
        self.points += points + again
        return seen


def holder_try(holder, name):
    try:
        holder.cmd("try", name)
    except HolderError as error:
        return error.code
    return 0


def keys_go(run, *names):
    for name in names:
        run.keys_gone(name)


def log_of(run):
    return run.dir / "stores"


def tortured_agent(run, **options):
    return run.agent(env={"LD_PRELOAD": BUILD / "tests" / "everystore.so", "HOLDFAST_STORES": log_of(run)}, **options)


@scenario("killed at any store of an acquire, a renewal, a release, an undone round: nothing is lost or doubled",
          sanitizers=False)
def every_store(run):
    nodes = run.redis(3)
    agent = tortured_agent(run, ttl="30s", options=("--capacity", 4))
    holder = run.holder()
    holder.acquire("first")
    holder.acquire("kept")
    torturer = Torturer(run, agent)

    torturer.watch()
    holder.release(0)
    torturer.judge("a release before a lease that stands", "kept")

    torturer.watch()
    holder.acquire("a")
    seen = torturer.judge("an acquire", "kept")
    assert seen["acquires"] == 3, seen
    assert torturer.cmd(f"scribble {SCRIBBLES}")["points"] == SCRIBBLES
    caught = torturer.cmd("control")
    assert caught["caught"] == caught["of"], caught

    torturer.watch()
    holder.release()
    seen = torturer.judge("a release", "kept")
    assert seen["releases"] == 3, seen

    torturer.watch()
    holder.acquire("a")
    torturer.judge("the next lease of a name", "kept")

    for node in nodes:
        node.cmd("SET", "b", "another's", "PX", "60000")
    torturer.watch()
    assert holder_try(holder, "b") == BUSY
    seen = torturer.judge("a round that is undone", "kept")
    assert seen["acquires"] == 3 and seen["releases"] >= 0, seen

    # The slot of "first", before those that stand; its text needs more room than the one before.
    torturer.watch()
    holder.acquire(LONG)
    torturer.judge("a slot for another name", "kept", "a")

    holder.acquire("short", TTL_MS)
    torturer.watch()
    before = counters(run)["renewed"]
    wait_until(lambda: counters(run)["renewed"] >= before + 3)
    seen = torturer.judge("renewals", "kept", "a", LONG)
    assert seen["renewals"] >= 3, seen

    torturer.watch()
    holder.kill()
    keys_go(run, "kept", "a", "short", LONG)
    torturer.judge("a holder that dies")
    print(f"# {torturer.points} fault points, 0 violations")


@scenario("killed at any store while leases are lost and votes voided", sanitizers=False)
def every_store_of_a_loss(run):
    nodes = run.redis(3)
    agent = tortured_agent(run, ttl="30s", options=("--capacity", 4))
    holder = run.holder()
    holder.acquire("kept")
    holder.acquire("voided", TTL_MS)
    torturer = Torturer(run, agent)

    torturer.watch()
    nodes[0].cmd("SET", "voided", "another's", "PX", "60000")
    wait_until(lambda: run.show("voided")["votes"] == 2)
    torturer.judge("a vote that another's key voids", "fall", "kept")
    torturer.watch()
    nodes[1].cmd("SET", "voided", "another's", "PX", "60000")
    wait_until(lambda: not holder.held())
    torturer.judge("a loss by others' keys", "fall", "kept")

    holder.acquire("late", TTL_MS)
    torturer.watch()
    for node in nodes[:2]:
        node.sigstop()
    wait_until(lambda: not holder.held())
    torturer.judge("late, losing, lost", "kept")
    for node in nodes[:2]:
        node.sigcont()

    torturer.watch()
    agent.stop()
    torturer.judge("a clean end", "kept")
    print(f"# {torturer.points} fault points, 0 violations")


@scenario("killed at any store of a heal, a lock handed to a waiter, a holder that is asked to stop, a job", sanitizers=False)
def every_store_of_a_life(run):
    nodes = run.redis(3)
    agent = tortured_agent(run, ttl="30s", options=("--capacity", 4))
    holder, waiter = run.holder(), run.holder(label="waiter")
    holder.acquire("kept", TTL_MS)
    holder.acquire("wanted")
    torturer = Torturer(run, agent)

    torturer.watch()
    nodes[0].cmd("DEL", "kept")
    wait_until(lambda: nodes[0].get("kept") is not None)
    torturer.judge("a heal", "fall", "kept", "wanted")

    waiter.cmd("start", "wanted", 20_000, -1)
    torturer.watch()
    holder.release()
    waiter.cmd("result", 0, 10_000)
    seen = torturer.judge("a lock that a waiter gets by a round", "kept")
    assert seen["releases"] >= 2 and seen["acquires"] == 3, seen

    operation = holder.cmd("start", "wanted", 20_000, -1)["op"]
    torturer.watch()
    waiter.release()
    holder.cmd("result", operation, 10_000)
    seen = torturer.judge("a lock handed to a waiter", "kept")
    assert seen["releases"] == seen["acquires"] == 0, seen
    assert counters(run)["handoffs"] == 1
    operation = waiter.cmd("start", "wanted", 20_000, -1)["op"]
    torturer.watch()
    holder.release()
    waiter.cmd("result", operation, 10_000)
    torturer.judge("and back", "kept")

    torturer.watch()
    holder.cmd("ask", "wanted")
    wait_until(lambda: run.show("wanted")["state"] == "losing")
    torturer.judge("a holder that is asked to stop", "fall", "kept", "wanted")

    torturer.watch()
    job = run.start_holdfast("run", "job", "--", "sleep", "60")
    wait_until(lambda: run.show("job"))
    torturer.judge("a job's lease", "kept", "wanted")
    torturer.watch()
    job.signal(signal.SIGTERM)
    job.wait()
    run.keys_gone("job")
    torturer.judge("the end of a job", "kept")

    torturer.watch()
    nodes[1].restart()
    wait_until(lambda: counters(run)["heals"] >= 2)
    torturer.judge("a node that comes back empty", "fall", "kept")
    print(f"# {torturer.points} fault points, 0 violations")


@scenario("a slot whose generations are used up: the name moves, killed at any store of it", sanitizers=False)
def generations_used_up(run):
    run.redis(3)
    options = ("--capacity", 4)
    run.agent(ttl="30s", options=options).kill()
    agent = run.agents.pop()
    for slot, left in ((0, 2), (2, 0)):
        tool = run.spawn(BUILD / "tests" / "torture_generation", run.runtime_dir / agent.name, slot, GENERATIONS - left,
                         "--", *agent.argv[1:])
        assert tool.wait() == 0, tool.err
    agent = tortured_agent(run, ttl="30s", options=options)
    holder = run.holder()
    for generation in (GENERATIONS - 1, GENERATIONS):
        holder.acquire("n")
        assert (run.show("n")["slot"], run.show("n")["generation"]) == (0, generation)
        old = holder.cmd("fence")["value"]
        if generation != GENERATIONS:
            holder.release()
    torturer = Torturer(run, agent)

    torturer.watch()
    holder.release()
    torturer.judge("the last lease of a slot")
    torturer.watch()
    holder.acquire("n")
    torturer.judge("the first in another slot")
    assert (run.show("n")["slot"], run.show("n")["generation"]) == (1, 1)
    assert holder.cmd("fence")["value"] > old and holder.held()
    holder.acquire("m")
    assert run.show("m")["slot"] == 3, "the slots 0 and 2 are for nobody any more"
    assert holder_try(holder, "o") == FULL


if __name__ == "__main__":
    main()
