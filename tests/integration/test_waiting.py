#!/usr/bin/env python3
"""Who waits for a lock on this host: `list` and `show` tell it, also of an agent that hangs."""
import os
import pathlib
import re
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from rig import OTHER_UID, ROOT, main, scenario, wait_until  # noqa: E402


def waiters(run, *words, command="list"):
    return run.holdfast(command, "--json", *words).json["waiters"]


def waits(run, name, *options, **more):
    """A `run` of that name that waits, once the table says so."""
    before = len(waiters(run))
    job = run.start_holdfast("run", *options, os.fsdecode(name), "true", **more)
    wait_until(lambda: len(waiters(run)) == before + 1, what=f"one more waits for {name}")
    return job


def end(job):
    """By a signal, which both of its processes hear of."""
    job.signal(signal.SIGTERM)
    job.wait()


@scenario("list and show tell who waits: process, user, command, for how long, when it gives up, its place")
def who_waits(run):
    run.redis(3)
    run.agent()
    holder = run.holder()
    holder.acquire("job")
    assert waiters(run) == [] and "WAITED FOR" not in run.holdfast("list").out
    first, second, other = waits(run, "job"), waits(run, "job", "-w", "60"), waits(run, "job", "-w", "90")
    told = waiters(run)
    assert [(one["name"], one["place"]) for one in told] == [("job", 1), ("job", 2), ("job", 3)], told
    assert [one["pid"] for one in told] == [first.pid, second.pid, other.pid], told
    assert told[0]["gives_up_ms"] is None and 50_000 < told[1]["gives_up_ms"] <= 60_000, told
    assert all(one["uid"] == os.geteuid() and one["command"] == "true" and one["run"] for one in told), told
    time.sleep(0.3)
    assert waiters(run)[0]["waits_ms"] >= 300 and waiters(run, "x") == [] and len(waiters(run, "jo")) == 3
    assert [one["pid"] for one in waiters(run, "job", command="show")] == [first.pid, second.pid, other.pid]
    shown = run.holdfast("show", "job").out
    assert re.search(rf"waits +1\. pid {first.pid} \(user .*\) command true for", shown), shown
    assert re.search(rf"waits +2\. pid {second.pid} .*, gives up in 5\d\.", shown), shown
    listed = run.holdfast("list").out
    assert "WAITED FOR" in listed and listed.count("job ") == 4, listed
    second.kill()
    wait_until(lambda: [one["pid"] for one in waiters(run)] == [first.pid, other.pid], what="the killed one is gone")
    assert [one["place"] for one in waiters(run)] == [1, 2]
    holder.release()
    assert first.wait() == 0 and other.wait() == 0
    wait_until(lambda: waiters(run) == [], what="nobody waits")


@scenario("a lock that another host holds: show tells its holder and who waits for it here")
def held_elsewhere(run):
    run.redis(3)
    run.agent()
    there = run.agent("b")
    run.holder(there).acquire("job")
    job = waits(run, "job")
    result = run.holdfast("show", "job")
    assert result.rc == 3 and f"pid {job.pid}" in result.out and "this host" in result.out, result
    assert [one["pid"] for one in waiters(run, "job", command="show")] == [job.pid]
    end(job)


@scenario("an agent that hangs, and one that was killed: who waited is told, and that nobody can tell")
def agent_away(run):
    run.redis(3)
    agent = run.agent()
    run.holder().acquire("job")
    job = waits(run, "job")
    agent.sigstop()
    wait_until(lambda: run.holdfast("status").rc == 3, what="it is found to hang")
    assert [one["pid"] for one in waiters(run)] == [job.pid]
    agent.sigcont()
    agent.kill()
    assert waiters(run) is None and "WAITED FOR" not in run.holdfast("list").out
    run.agent()
    wait_until(lambda: [one["pid"] for one in waiters(run) or []] == [job.pid], what="it waits for the next agent")
    end(job)


@scenario("names and commands of hostile bytes are escaped, and every member is in docs/JSON.md")
def hostile_names(run):
    run.redis(3)
    run.agent()
    name = b"a\nb\x1b[2J\xff"
    run.holder().acquire(name)
    job = waits(run, name)
    for command in (["list"], ["show", "-e", r"a\nb\x1b[2J\xff"]):
        out = run.holdfast(*command).out
        assert "\x1b" not in out and "waits" in out.lower(), out
    one, = waiters(run)
    assert one["name"] == r"a\nb\x1b[2J\xff" and one["name_hex"] == name.hex(), one
    known = set(re.findall(r"`([a-z_.]+)`", (ROOT / "docs" / "JSON.md").read_text()))
    assert {*one, "waiters"} <= known, set(one) - known
    end(job)


@scenario("another user's request is told with its user", needs_root=True)
def another_user(run):
    run.redis(3)
    agent = run.agent(system=True)
    run.holder().acquire("job")
    job = waits(run, "job", uid=OTHER_UID, env={"HOLDFAST_AGENT": run.runtime_dir / agent.name / "sock"})
    one, = waiters(run)
    assert (one["uid"], one["user"]) == (OTHER_UID, "nobody"), one
    end(job)


if __name__ == "__main__":
    main()
