#!/usr/bin/env python3
"""holdfast drain and undrain: a host that grants nothing new, and keeps what it has."""
import pathlib
import re
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from events import history  # noqa: E402
from manager import Manager  # noqa: E402
from rig import BUILD, IS_ROOT, OTHER_UID, Result, main, scenario, wait_until  # noqa: E402

TTL_S = 3
SENTENCE = r"this host is drained since 20\d\d-\S+Z by user \d+: it grants no lock until holdfast undrain"


def start(run, fresh=True, **options):
    return run.agent(ttl=f"{TTL_S}s", options=("--ttl-max", f"{TTL_S}s"), fresh=fresh, **options)


def job(run, name, *command, agent=None):
    """A job that holds the lock by now."""
    started = run.start_holdfast("run", name, *(command or ("sleep", "60")), agent=agent)
    wait_until(lambda: run.show(name, agent=agent), what=f"{name} is held")
    return started


def end(process, number=None):
    if number:
        process.signal(number)
    return Result(process.wait(), process.out, process.err)


def drained(run):
    return run.holdfast("status", "--json").json["agent"]["drained"]


def waiters(run, agent=None):
    return run.holdfast("status", "--json", agent=agent).json["counters"]["waiters"]


def ok(result):
    assert result.rc == 0, result
    return result


@scenario("a drained host refuses tries at once, in words, and keeps and renews what is held")
def refuses(run):
    run.redis(3)
    start(run)
    held = job(run, "held")
    result = ok(run.holdfast("drain"))
    assert result.out.startswith("this host is drained: it grants no lock until holdfast undrain\n1 lock is still held:\n"), result
    assert re.search(r"  held is held by \S+ pid \d+ \(user \S+\) command sleep since ", result.out), result
    for name in ("new", "held"):
        began = time.monotonic()
        result = run.holdfast("run", "-n", name, "true")
        assert result.rc == 69 and re.search(SENTENCE, result.err) and time.monotonic() - began < 5, result
    assert run.holdfast("run", "-n", "-E", "9", "new", "true").rc == 69
    time.sleep(TTL_S * 1.5)
    assert run.show("held")["held"] and run.holders_of("held") == 3
    ok(run.holdfast("list"))
    assert run.holdfast("held", "held").rc == 3
    end(held, signal.SIGTERM)
    wait_until(lambda: run.holders_of("held") == 0, what="its release goes as ever")
    result = ok(run.holdfast("drain"))
    assert re.match(r"this host is drained already since 20\S+ \(\S+\) by user \S+ \(pid \d+\); holdfast undrain ends that\n"
                    r"no lock is held\n$", result.out), result
    assert re.match(r"this host grants locks again; it was drained since 20\S+ \(\S+\) by user ", ok(run.holdfast("undrain")).out)
    assert ok(run.holdfast("undrain")).out == "this host was not drained\n"
    ok(run.holdfast("run", "-n", "new", "true"))


@scenario("who waits is told of a drain, waits to its end, or gets the lock after undrain")
def told(run):
    run.redis(3)
    start(run)
    ok(run.holdfast("drain"))
    result = run.holdfast("run", "-w", "0.4", "a", "true")
    assert result.rc == 69, result
    waiting, over = result.err.splitlines()
    assert re.search("a: waiting: " + SENTENCE, waiting) and re.search("a: " + SENTENCE, over), result
    one = run.start_holdfast("run", "b", "echo", "one")
    slot = run.start_holdfast("run", "--slots", "2", "c", "echo", "slot")
    wait_until(lambda: waiters(run) >= 3, what="they wait")
    ok(run.holdfast("undrain"))
    for started, said in ((one, "one"), (slot, "slot")):
        result = end(started)
        assert result.rc == 0 and said in result.out and len(re.findall(SENTENCE, result.err)) == 1, result


@scenario("a set that waits gives back its part while the host is drained, and is whole after undrain")
def sets(run):
    run.redis(3)
    start(run)
    z = job(run, "z")
    both = run.start_holdfast("run", "--also", "z", "a", "echo", "both")
    wait_until(lambda: run.show("a"), what="the set has its first part")
    ok(run.holdfast("drain"))
    wait_until(lambda: not run.show("a"), what="it has given that back")
    end(z, signal.SIGTERM)
    ok(run.holdfast("drain", "--wait", "--timeout", "10"))
    ok(run.holdfast("undrain"))
    assert end(both).rc == 0


@scenario("a release of a drained host goes to no waiter of it; another host has the lock then")
def others(run):
    run.redis(3)
    a, b = start(run, label="a"), start(run, label="b")
    held = job(run, "x", agent=a)
    waiter = run.start_holdfast("run", "x", "true", agent=a)
    wait_until(lambda: waiters(run, agent=a) == 1, what="somebody waits")
    ok(run.holdfast("drain", agent=a))
    end(held, signal.SIGTERM)
    ok(run.holdfast("run", "-w", "10", "x", "true", agent=b))
    result = ok(run.holdfast("drain", "--wait", agent=a))
    assert result.out.endswith("no lock is held\n"), result
    ok(run.holdfast("undrain", agent=a))
    assert end(waiter).rc == 0


@scenario("drain --wait tells of each change, ends when nothing is held, and at its time says what is left")
def waits(run):
    run.redis(3)
    start(run)
    first, second = job(run, "first"), job(run, "second")
    result = run.holdfast("drain", "--wait", "--timeout", "0.5")
    assert result.rc == 75, result
    assert "waiting until nothing is held, at most 500ms; ending this command leaves the host drained" in result.out, result
    assert "the time (500ms) is over, and this host stays drained; 2 locks are still held:" in result.err, result
    assert "  first is held by " in result.err and "  second is held by " in result.err, result
    drain = run.start_holdfast("drain", "--wait")
    time.sleep(0.5)
    end(first, signal.SIGTERM)
    wait_until(lambda: run.holders_of("first") == 0, what="it is released")
    time.sleep(0.5)
    end(second, signal.SIGTERM)
    result = end(drain)
    assert result.rc == 0 and "\n1 lock is still held: second\nno lock is held\n" in result.out, result
    # Whoever ends the command leaves the host drained; whoever undrains it ends the command.
    ok(run.holdfast("undrain"))
    third = job(run, "third")
    drain = run.start_holdfast("drain", "--wait")
    wait_until(lambda: drained(run), what="it is drained")
    drain.kill()
    assert drained(run)
    drain = run.start_holdfast("drain", "--wait")
    time.sleep(0.5)
    ok(run.holdfast("undrain"))
    result = end(drain)
    assert result.rc == 3 and "somebody has undrained this host meanwhile" in result.err, result
    end(third, signal.SIGTERM)


@scenario("of many locks that are held ten are told, and how many more there are")
def many(run):
    run.redis(3)
    start(run)
    holder = run.holder()
    for i in range(12):
        holder.acquire(f"lock{i:02}")
    result = ok(run.holdfast("drain"))
    assert "\n12 locks are still held:\n" in result.out and result.out.count(" is held by ") == 10, result
    assert result.out.endswith("\n  ... and 2 more: holdfast list\n"), result
    drain = run.start_holdfast("drain", "--wait")
    drain.wait_out("waiting until")
    holder.release(0)
    drain.wait_out(r"11 locks are still held: (lock\d\d, ){9}lock\d\d and 1 more\n")
    holder.close()
    assert end(drain).rc == 0


@scenario("drain --stop-jobs asks jobs and programs to stop")
def stops(run):
    run.redis(3)
    start(run)
    held = job(run, "job")
    holder = run.holder()
    holder.acquire("lock")
    drain = run.start_holdfast("drain", "--wait", "--timeout", "20", "--stop-jobs")
    result = end(held)
    assert "somebody asked the holder to stop" in result.err, result
    result = end(drain)  # the program does not release: its lease ends at V
    assert result.rc == 0 and "asked 2 holders to stop" in result.out, result
    assert not holder.held()


@scenario("a drain outlives the end and the kill of its agent, and a record that cannot be read stands for one")
def restarts(run):
    run.redis(3)
    agent = start(run)
    held = job(run, "held")
    ok(run.holdfast("drain"))
    since = drained(run)
    agent.kill()
    agent = start(run, fresh=False)
    assert re.search(SENTENCE, agent.err), agent.err
    assert drained(run) == since and run.show("held")["held"]
    assert run.holdfast("run", "-n", "new", "true").rc == 69
    agent.stop()
    agent = start(run, fresh=False)
    assert drained(run) == since and run.show("held")["held"]
    end(held, signal.SIGTERM)
    record = run.runtime_dir / agent.name / "drain"
    assert record.is_file()
    agent.stop()
    record.write_bytes(b"nonsense")
    agent = start(run, fresh=False)
    assert drained(run) == {"since": None, "uid": None, "user": None, "pid": None}, drained(run)
    assert "since when is not known: its record cannot be read" in run.holdfast("status").out
    result = run.holdfast("run", "-n", "new", "true")
    assert result.rc == 69 and "this host is drained: it grants no lock until" in result.err, result
    assert run.holdfast("drain").out.startswith("this host is drained already; holdfast undrain ends that\n")
    assert drained(run)["since"]  # the record is a good one again
    record.unlink()
    assert run.holdfast("drain").out.startswith("this host is drained already since ")
    since = drained(run)
    agent.kill()
    agent = start(run, fresh=False)
    assert drained(run) == since
    ok(run.holdfast("undrain"))
    assert not record.exists()
    agent.stop()
    start(run, fresh=False)
    assert drained(run) is None
    ok(run.holdfast("run", "-n", "new", "true"))


@scenario("status, doctor, history and the metrics show a drain, since when and by whom")
def shown(run):
    run.redis(3)
    manager = Manager(run)
    agent = start(run, env={"NOTIFY_SOCKET": manager.address})
    assert drained(run) is None and "\ndrained " not in run.holdfast("status").out
    ok(run.holdfast("drain"))
    facts = drained(run)
    assert facts["since"].startswith("20") and facts["uid"] == facts["uid"] and facts["user"] and facts["pid"], facts
    assert f"\ndrained   since {facts['since']} (" in run.holdfast("status").out
    assert f"by user {facts['user']} (pid {facts['pid']}); no lock is granted until holdfast undrain" in run.holdfast("status").out
    result = run.holdfast("doctor")
    assert f"it is drained since {facts['since']} by user {facts['user']}: it grants no lock" in result.out, result
    manager.wait(r"STATUS=Ready, but " + SENTENCE)
    ok(run.holdfast("undrain"))
    manager.wait(r"(?s)but this host is drained.*STATUS=Ready($|\n)")
    events = [event for event in history(run) if event["event"] in ("drained", "undrained")]
    assert [event["event"] for event in events] == ["drained", "undrained"], events
    assert events[0]["uid"] == facts["uid"] and events[0]["pid"] == facts["pid"], events
    assert events[0]["at"][:19] == facts["since"][:19], (events, facts)
    assert re.search(r"  drained +-  by user %d \(pid %d\)\n" % (facts["uid"], facts["pid"]), run.holdfast("history").out)
    ok(run.holdfast("drain"))
    text = ok(run.holdfast("metrics")).out
    assert re.search(r'\nholdfast_drained\{agent="[^"]+"\} 1\n', text), text
    assert re.search(r'\nholdfast_drained_since_timestamp_seconds\{agent="[^"]+",uid="%d"\} \d+(\.\d+)?\n' % facts["uid"], text), text


@scenario("drain and undrain: bad input, no agent, and who may not")
def refused(run):
    result = run.holdfast("drain", "--agent", "no-such-agent")
    assert result.rc == 69 and result.err.startswith("holdfast drain: "), result
    assert run.holdfast("undrain", "--agent", "no-such-agent").rc == 69
    run.redis(3)
    agent = start(run)
    result = run.holdfast("drain", "--timeout", "3")
    assert result.rc == 64 and "give --wait, too" in result.err, result
    for bad in (("drain", "--wait", "--timeout", "soon"), ("drain", "name"), ("undrain", "name"), ("drain", "--force")):
        assert run.holdfast(*bad).rc == 64, bad
    assert drained(run) is None
    if IS_ROOT:
        agent.stop()
        agent = start(run, label="all", system=True, fresh=False)
        run.runtime_dir.chmod(0o755)
        run.dir.chmod(0o755)
        program = run.for_others(BUILD / "bin" / "holdfast")
        for command in ("drain", "undrain"):
            process = run.spawn(program, command, "--agent", agent.name, uid=OTHER_UID)
            assert process.wait() == 77 and "only root and the agent's user may" in process.err, process.err
        assert run.holdfast("status", "--json", agent=agent).json["agent"]["drained"] is None


if __name__ == "__main__":
    main()
