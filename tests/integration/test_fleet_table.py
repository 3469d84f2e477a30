#!/usr/bin/env python3
"""Jobs on three hosts go on, and no two holds overlap, while the fleet changes in every way that there is.

HOLDFAST_FULL=1: 50 jobs with T = 10 s and every change of the long list, about 6 minutes; else 9 jobs, T = 4 s and the
short list. It prints a table: each change, how long it took beside its quarantine, jobs lost, overlaps.
"""
import os
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from history import fence_faults, overlaps, read  # noqa: E402
from rig import BUILD, Redis, agent_env, main, scenario, wait_until  # noqa: E402

FULL = bool(os.environ.get("HOLDFAST_FULL"))
TTL_S = 10 if FULL else 4
JOBS = 50 if FULL else 9
HOSTS = 3
PER_HOST = 2  # contenders for one lock


class Show:
    """The three hosts, what runs on them, and the table."""

    def __init__(self, run):
        self.run, self.made = run, []
        run.redis(3)
        self.files = [run.dir / f"host{i}.conf" for i in range(HOSTS)]
        self.capacity, self.password = 64, ""
        self.write_files()
        self.agents = [self.start(i) for i in range(HOSTS)]
        wait_until(lambda: all(self.votes(agent) == 3 for agent in self.agents), 90, "all nodes vote on all hosts")
        self.jobs = [run.start_holdfast("run", "-n", f"job{i}", "sleep", "3600", agent=self.agents[i % HOSTS])
                     for i in range(JOBS)]
        wait_until(lambda: all(run.show(f"job{i}", agent=self.agents[i % HOSTS]) for i in range(JOBS)), 30, "all jobs run")
        self.crew = [self.contender(i, k) for i in range(HOSTS) for k in range(PER_HOST)]
        print("# change                            took    quarantine  jobs alive")

    def write_files(self):
        nodes = [f"{n.id}=redis+unix://:{self.password}@{n.seat}" if self.password else n.spec for n in self.run.nodes[:3]]
        text = "".join(f"node = {node}\n" for node in nodes)
        for file in self.files:
            file.write_text(f"{text}ttl = {TTL_S}s\nttl_max = {TTL_S}s\ncapacity = {self.capacity}\n")
            file.chmod(0o600)

    def start(self, i, fresh=True):
        return self.run.agent(f"h{i}", nodes=[], fresh=fresh, wait=False, options=["--config", self.files[i]])

    def votes(self, agent):
        shown = self.run.holdfast("nodes", "--json", agent=agent)
        return shown.rc == 0 and sum(row["votes"] for row in shown.json["nodes"])

    def contender(self, i, k):
        path = self.run.dir / f"history{i}-{k}"
        argv = [BUILD / "tests" / "contender", "--name", "contended", "--history", path, "--for-ms", 3_600_000, "--rough",
                "--hold-us", 2000, "--pause-us", 20_000]
        process = self.run.spawn(*argv, label=f"contender{i}-{k}", env=agent_env(self.agents[i]), stdin=subprocess.PIPE)
        process.wait_out("ready")
        process.popen.stdin.close()
        return process, path

    def server(self):
        self.made.append(Redis(self.run, f"new{len(self.made) + 1}", password=self.password or None).start())
        return self.made[-1]

    # --- changes ---

    def alive(self):
        return sum(job.running for job in self.jobs)

    def row(self, what, began, quarantine_s=0.0):
        print(f"# {what:<32} {time.monotonic() - began:6.1f} s {quarantine_s:8.1f} s   {self.alive():3} of {JOBS}")
        assert self.alive() == JOBS, [job.err for job in self.jobs if not job.running]

    def change(self, host, *words, ttl_max_s=TTL_S):
        """Until all hosts have settled: the next one begins on any of them."""
        began = time.monotonic()
        result = self.run.holdfast("fleet", *words, agent=self.agents[host], timeout_s=200)
        assert result.rc == 0, result
        wait_until(lambda: all(self.is_settled(agent) for agent in self.agents), 30, "it has settled on all hosts")
        self.row(" ".join(words), began, 1.02 * ttl_max_s + 1)

    def is_settled(self, agent):
        shown = self.run.holdfast("fleet", "--json", agent=agent)
        record = shown.out and shown.json["record"]
        return (bool(record) and record["state"] == "complete" and record["settles_ms"] is None and
                self.votes(agent) == len(shown.json["nodes"]))

    def restart(self, host, kill):
        began = time.monotonic()
        (self.agents[host].kill if kill else self.agents[host].stop)()
        self.agents[host] = self.start(host, fresh=False)
        self.agents[host].wait_ready()
        self.row(f"host {host}: agent {'killed' if kill else 'ended'}, started", began)

    def rotate(self, password):
        """A new password on all servers, then in all files; connections that stand are not asked for it again."""
        began = time.monotonic()
        self.password = password
        for node in self.run.nodes[:3] + self.made:
            node.cmd("CONFIG", "SET", "requirepass", password)
            node.password = password
        self.write_files()
        for agent in self.agents:
            result = self.run.holdfast("reload", agent=agent)
            assert result.rc == 0, result
        self.row("another password, reloaded", began)

    def end(self):
        for process, _ in self.crew:
            process.kill()
        holds = [hold for _, path in self.crew for hold in read(path)[0]]
        print(f"# {len(holds)} holds of the contended lock, {len(overlaps(holds))} overlaps, "
              f"{len(fence_faults(holds))} fence faults; {self.alive()} of {JOBS} jobs alive")
        assert len(holds) > 100
        assert not overlaps(holds), f"{len(overlaps(holds))} overlaps, the first: {overlaps(holds)[0]}"
        assert not fence_faults(holds), f"{len(fence_faults(holds))} fences did not rise: {fence_faults(holds)[0]}"
        for job in self.jobs:
            job.signal(15)
        for job in self.jobs:
            job.wait()


def short_list(show):
    show.change(0, "move", f"n1={show.server().address}")
    show.restart(1, kill=True)
    show.rotate("first")
    show.change(1, "add", f"n4={show.server().address}")
    show.change(2, "remove", "n2")


def long_list(show):
    for i in (1, 2, 3):
        show.change(i % HOSTS, "move", f"n{i}={show.server().address}")
    for i in (4, 5):
        show.change(i % HOSTS, "add", f"n{i}={show.server().address}")
    for i in (1, 4):
        show.change(i % HOSTS, "remove", f"n{i}")
    show.change(0, "ttl-max", "60s", ttl_max_s=60)
    show.change(1, "ttl-max", "10s", ttl_max_s=60)
    show.rotate("first")
    show.rotate("second")
    show.capacity *= 2
    show.write_files()
    for i in range(HOSTS):
        show.restart(i, kill=i == 1)


@scenario("jobs on three hosts go on while the fleet changes, holds do not overlap and fences rise")
def jobs_go_on(run):
    show = Show(run)
    (long_list if FULL else short_list)(show)
    show.end()


if __name__ == "__main__":
    main()
