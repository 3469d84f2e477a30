#!/usr/bin/env python3
"""A long job's keys: renewed every third of the TTL on every node, and gone with the job.

HOLDFAST_SOAK=SECONDS makes the job that long (1800 is the half hour); HOLDFAST_FULL=1 makes it 20 s, and has nodes stop and go
on under 50,000 leases for half a minute.
"""
import collections
import contextlib
import os
import pathlib
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from rig import BUILD, SLOW, agent_env, boottime_ns, main, scenario, wait_until  # noqa: E402
from views import counters  # noqa: E402

TTL_S = 3
JOB_S = int(os.environ.get("HOLDFAST_SOAK", 0)) or (20 if os.environ.get("HOLDFAST_FULL") else 12)
SAMPLE_S = 0.05
GONE_S = 0.5  # after the child's exit


class Sampler:
    """PTTL of a key, read on every node at an even pace on open connections."""

    def __init__(self, stack, nodes, key):
        self.key = key
        self.clients = {node.id: stack.enter_context(node.client()) for node in nodes}
        self.samples = {node_id: [] for node_id in self.clients}

    def sample(self):
        for client in self.clients.values():
            client.send("PTTL", self.key)
        for node_id, client in self.clients.items():
            self.samples[node_id].append(client.read())

    def present(self):
        for client in self.clients.values():
            client.send("EXISTS", self.key)
        return sum(client.read() for client in self.clients.values())

    def pexpires(self):
        return {node_id: client.calls("pexpire") for node_id, client in self.clients.items()}


@scenario("a job that is longer than its TTL: no key ever falls below half of it, and all go with the job")
def long_job(run):
    run.redis(3)
    run.agent()
    with contextlib.ExitStack() as stack:
        sampler = Sampler(stack, run.nodes, "job")
        job = run.start_holdfast("run", "-t", f"{TTL_S}s", "job", "sleep", str(JOB_S))
        wait_until(lambda: sampler.present() == 3, what="the keys are on all nodes", interval_s=0.005)
        before, begin_s = sampler.pexpires(), time.monotonic()
        while time.monotonic() - begin_s < JOB_S - 0.5:
            sampler.sample()
            time.sleep(SAMPLE_S)
        after, seconds = sampler.pexpires(), time.monotonic() - begin_s
        assert job.running, job.err
        rows = {node["id"]: [row for row in node["renewals"] if not row["heal"]]
                for node in run.holdfast("nodes", "--history", "--count", "200", "--json").json["nodes"]}
        noticed = counters(run)["held_notices"]

        assert job.wait(10) == 0, job.err
        ended_ns = boottime_ns()
        wait_until(lambda: sampler.present() == 0, what="the keys go", interval_s=0.002)
        gone_s = (boottime_ns() - ended_ns) / 1e9

    print(f"# gone {gone_s * 1000:.1f} ms after the end")
    for node in run.nodes:
        samples, hits = sampler.samples[node.id], after[node.id] - before[node.id]
        times = sorted(int(row["at_ns"]) / 1e9 for row in rows[node.id])
        gaps = [later - earlier for earlier, later in zip(times, times[1:])]
        again = sum(row["outcome"] != "answered" for row in rows[node.id]) + noticed
        print(f"# {node.id}: {len(samples)} samples of PTTL, least {min(samples)} ms, median {statistics.median(samples):.0f} ms; "
              f"{len(times)} renewals, {hits} PEXPIRE in {seconds:.1f} s; {min(gaps):.2f} to {max(gaps):.2f} s apart; {again} asked again")
        assert len(samples) >= seconds / SAMPLE_S / (2 * SLOW), "the samples are too thin"
        assert min(samples) >= TTL_S * 1000 / 2, f"{node.id}: PTTL fell to {min(samples)} ms"
        # The node counts what the agent says it sent, and a few PEXPIREs of records.
        assert len(times) - 1 <= hits <= len(times) + 5, f"{node.id}: {hits} PEXPIRE in {len(times)} renewals"
        # One every T/3, later by a tenth of it at most. Earlier, but no earlier than 2/5 of it, after one that was late.
        assert len(times) >= seconds / (TTL_S / 3) / 1.1 - 2, f"{node.id}: {len(times)} renewals"
        early = sum(gap < 0.4 * TTL_S / 3 - 0.05 for gap in gaps)
        assert early <= again, f"{node.id}: renewals {gaps} s apart"
    assert gone_s < GONE_S * SLOW, f"the keys outlived the job by {gone_s:.3f} s"


MANY, SCRIPT, UNANSWERED = 4000, 128, 4  # leases; keys of a script, and scripts of a node, at most
MANY_TTL_S = 6


def scripts(run, node):
    """The renew scripts of the last T/3, the newest first."""
    nodes = run.holdfast("nodes", "--history", "--count", "200", "--json").json["nodes"]
    rows = [row for row in next(n for n in nodes if n["id"] == node.id)["renewals"] if not row["heal"]]
    newest = int(rows[0]["at_ns"])
    return [row for row in rows if newest - int(row["at_ns"]) < MANY_TTL_S / 3 * 1e9]


def is_spread(rows):
    """No tenth of T/3 has a third of them, which are scripts with many keys."""
    tenth = MANY_TTL_S / 3 * 1e9 / 10
    tenths = collections.Counter(int(row["at_ns"]) // tenth for row in rows)
    return sum(row["keys"] for row in rows) > MANY * 0.8 and max(tenths.values()) < len(rows) / 3


@scenario("many leases: full scripts, few of them at a time, and spread again after a pause of the agent or a node", sanitizers=False)
def many(run):
    run.redis(3)
    agent = run.agent(ttl=f"{MANY_TTL_S}s", options=("--capacity", str(2 * MANY)))
    holder = run.spawn(BUILD / "bin/bench", "hold", agent.name, "many", "0", str(MANY), env=agent_env(agent), label="bench",
                       stdin=subprocess.PIPE)
    holder.wait_out('"leases":')

    def wait_spread():
        for node in run.nodes:
            wait_until(lambda: is_spread(scripts(run, node)), timeout_s=30 * SLOW, what=f"{node.id} has an even load")
            rows = scripts(run, node)
            assert max(row["keys"] for row in rows) <= SCRIPT, rows
            assert statistics.mean(row["keys"] for row in rows) > SCRIPT / 4, rows

    def wait_renewed():
        for node in run.nodes:
            before = node.calls("pexpire")
            wait_until(lambda: node.calls("pexpire") - before >= MANY / 4, what=f"{node.id} is renewed")

    wait_spread()
    agent.sigstop()
    time.sleep(1)
    agent.sigcont()
    wait_renewed()
    wait_spread()
    stopped = run.nodes[0]
    stopped.sigstop()
    time.sleep(1)
    stopped.sigcont()
    wait_renewed()
    wait_spread()
    counters = run.holdfast("status", "--json").json["counters"]
    assert counters["losses"] == 0 and counters["leases"] == MANY, counters
    holder.kill()


# Leases, TTL, how long nodes are stopped and go on, how often.
PULSES = (50_000, 12, 3.0, 3.0, 6) if os.environ.get("HOLDFAST_FULL") else (MANY, MANY_TTL_S, 1.0, 1.0, 2)


@scenario("nodes that stop and go on, a majority at a time: whatever waited is renewed in time", sanitizers=False)
def pulses(run):
    """Renewals are due 1.03 T/3 after the one before as a rule; nobody may wait until 0.69 T."""
    leases, ttl_s, stopped_s, going_s, count = PULSES
    run.redis(3)
    agent = run.agent(ttl=f"{ttl_s}s", options=("--capacity", str(2 * leases)))
    holder = run.spawn(BUILD / "bin/bench", "hold", agent.name, "pulses", "0", str(leases), env=agent_env(agent), label="bench",
                       stdin=subprocess.PIPE)
    holder.wait_out('"leases":', timeout_s=60)
    for pulse in range(count):
        for i in range(2):
            run.nodes[(pulse + i) % 3].sigstop()
        time.sleep(stopped_s)
        for i in range(2):
            run.nodes[(pulse + i) % 3].sigcont()
        time.sleep(going_s)
        counters = run.holdfast("status", "--json").json["counters"]
        print(f"# pulse {pulse}: renewed {counters['renew_overdue_max_ns'] / 1e6:.0f} ms late at most, of which the agent's are "
              f"{counters['renew_lag_max_ns'] / 1e6:.0f} ms; {counters['losses']} lost")
    assert counters["losses"] == 0 and counters["leases"] == leases, counters
    for node in run.nodes:
        before = node.calls("pexpire")
        wait_until(lambda: node.calls("pexpire") - before >= leases / 4, what=f"{node.id} is renewed")
    holder.kill()


@scenario("a node that answers nothing gets no more than a few scripts, and the others are renewed", sanitizers=False)
def unanswered(run):
    run.redis(3)
    agent = run.agent(ttl=f"{MANY_TTL_S}s", options=("--capacity", str(2 * MANY)))
    holder = run.spawn(BUILD / "bin/bench", "hold", agent.name, "many", "0", str(MANY), env=agent_env(agent), label="bench",
                       stdin=subprocess.PIPE)
    holder.wait_out('"leases":')
    silent, other = run.nodes[0], run.nodes[1]
    before = silent.calls("pexpire")
    silent.sigstop()
    others = other.calls("pexpire")
    wait_until(lambda: other.calls("pexpire") - others >= MANY, what="the other node is renewed")
    agent.sigstop()
    silent.sigcont()
    wait_until(lambda: silent.calls("pexpire") > before, what="what was sent is done")
    time.sleep(0.1)
    done = silent.calls("pexpire") - before
    agent.sigcont()
    print(f"# {done} keys were on their way")
    assert done <= (UNANSWERED + 1) * SCRIPT, done
    holder.kill()


if __name__ == "__main__":
    main()
