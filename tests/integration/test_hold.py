#!/usr/bin/env python3
"""`holdfast hold` on real nodes: what its lines say, and that its output ends before another can have the lock.

With T for the TTL, `losing` is told at V - 0.3 T, and `lost` with the end of the output at V - 0.1 T.
"""
import contextlib
import fcntl
import json
import os
import pathlib
import select
import signal
import subprocess
import sys
import termios
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from jobs import NOISE_S, TTL_S, S, Watcher, assert_at, children, keeps_its_pages, ready  # noqa: E402
from rig import BUILD, SANITIZE, SLOW, alive, boottime_ns, main, scenario, wait_until  # noqa: E402


class Hold:
    """A `holdfast hold --json` with pipes; `within` are words of a command that executes it."""

    def __init__(self, run, *args, within=(), stdin=subprocess.PIPE, **options):
        self.process = run.spawn(*within, BUILD / "bin" / "holdfast", "hold", "--json", *args, label="holdfast",
                                 stdin=stdin, stdout=subprocess.PIPE, bufsize=0, **options)
        self.out, self.pid = self.process.popen.stdout, self.process.pid

    def line(self, timeout_s=15.0):
        """The next event; None at the end."""
        assert select.select([self.out], [], [], timeout_s * SLOW)[0], f"no line\n{self.process.err}"
        line = self.out.readline()
        assert not line or line.endswith(b"\n"), line
        return json.loads(line) if line else None

    def expect(self, event, **options):
        got = self.line(**options)
        assert got and got["event"] == event, f"{got}\n{self.process.err}"
        return got

    def granted(self):
        self.fence = self.expect("granted")["fence"]
        return self

    def end(self):
        """Closes its input; the exit code."""
        self.process.popen.stdin.close()
        return self.process.wait()

    def over_ns(self, meanwhile=lambda: None, timeout_s=30.0):
        """When its output ended; the events until then."""
        data, deadline = b"", time.monotonic() + timeout_s * SLOW
        while time.monotonic() < deadline:
            if select.select([self.out], [], [], 0.02)[0]:
                got = os.read(self.out.fileno(), 65536)
                if not got:
                    return boottime_ns(), [json.loads(line) for line in data.splitlines()]
                data += got
            meanwhile()
        raise AssertionError(f"it goes on: {data}\n{self.process.err}")


def free_after(run, name="job", options=("-n",)):
    return run.holdfast("run", *options, name, "true")


# --- what it says -------------------------------------------------------------------------------------------------


@scenario("hold says that it was granted and released, and holds until its input ends")
def holds(run):
    ready(run)
    hold = Hold(run, "job")
    got = hold.expect("granted")
    assert got["name"] == "job" and got["ttl_ms"] == TTL_S * 1000 and 0 < got["remaining_ms"] < 900 * TTL_S, got
    shown = run.show("job")
    assert (shown["fence"], shown["pid"]) == (got["fence"], hold.pid) and shown["command"].startswith("python"), shown
    assert free_after(run).rc == 75
    assert SANITIZE or keeps_its_pages(hold.pid), "a page of a file system that hangs"
    assert hold.end() == 0
    assert hold.line() == {"event": "released"} and hold.line() is None
    assert free_after(run).rc == 0


@scenario("a signal releases it, also from the table's word for its pid")
def signals(run):
    ready(run)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        hold = Hold(run, "job").granted()
        os.kill(run.show("job")["pid"], number)
        assert hold.process.wait() == 0
        hold.expect("released")
        assert free_after(run).rc == 0
    hold = Hold(run, "job").granted()
    hold.process.signal(signal.SIGUSR1)
    assert hold.process.wait() == 128 + signal.SIGUSR1


@scenario("while it waits it says for whom, once; -n and -w end with 75, and so does an input that ends")
def waits(run):
    ready(run)
    first = Hold(run, "--note", 'say "x"', "job").granted()
    second = Hold(run, "job")
    got = second.expect("waiting")
    assert got["name"] == "job" and got["place"] == 1 and got["holder"]["fence"] == first.fence, got
    assert got["holder"]["pid"] == first.pid and got["holder"]["note"] == 'say "x"', got
    assert run.holdfast("hold", "-n", "job", stdin=subprocess.PIPE).rc == 75
    in_vain = run.holdfast("hold", "-w", "0.3", "-E", "9", "job", stdin=subprocess.PIPE)
    assert in_vain.rc == 9 and f"pid {first.pid}" in in_vain.err and not in_vain.out, in_vain
    third = Hold(run, "job")
    third.expect("waiting")
    assert third.end() == 75 and "nobody waits" in third.process.err and third.line() is None
    assert first.end() == 0
    second.granted()
    assert second.end() == 0
    busy = Hold(run, "job").granted()
    fourth = Hold(run, "job")
    fourth.expect("waiting")
    fourth.process.signal(signal.SIGTERM)
    assert fourth.process.wait() == 128 + signal.SIGTERM
    assert busy.end() == 0


@scenario("as words: the event, the fence, the name")
def words(run):
    ready(run)
    process = run.start_holdfast("hold", "two words", stdin=subprocess.PIPE)
    shown = wait_until(lambda: run.show("two words"), what="it is held")
    process.popen.stdin.close()
    assert process.wait() == 0
    granted, released = process.out.splitlines()
    assert granted.startswith(f"granted {shown['fence']} two words: ") and released == "released", process.out


@scenario("an input that cannot stay open is refused: it would release the lock at once")
def refused(run):
    ready(run)
    for stdin in (subprocess.DEVNULL, open(__file__, "rb")):  # noqa: SIM115
        result = run.holdfast("hold", "job", stdin=stdin)
        assert result.rc == 64 and "--no-stdin" in result.err and not result.out, result
    for args, text in ((("job", "true"), "holdfast run"), ((), "NAME"), (("-s", "TERM", "job"), "invalid option"),
                       (("--no-stdin", "--heartbeat", "1s", "job"), "--heartbeat")):
        result = run.holdfast("hold", *args, stdin=subprocess.PIPE)
        assert result.rc == 64 and text in result.err, (args, result)


@scenario("several names are granted together, a line each, and lost together")
def several(run):
    ready(run)
    hold = Hold(run, "--also", "b", "a")
    got = [hold.expect("granted") for _ in range(2)]
    assert [g["name"] for g in got] == ["a", "b"] and run.show("b")["fence"] == got[1]["fence"], got
    run.holdfast("release", "b")
    losing = hold.expect("losing")
    assert losing["name"] == "b" and losing["reason"], losing
    assert hold.end() == 0
    assert free_after(run, "a").rc == 0 and free_after(run, "b").rc == 0
    slot = Hold(run, "--slots", "2", "c")
    assert slot.expect("granted")["name"] in ("c#0", "c#1")
    assert slot.end() == 0


@scenario("shared and alone: a line with the slot, or one for all locks of the name, and lost when one of these is")
def shared_and_alone(run):
    ready(run)
    shared = Hold(run, "--shared", "c")
    name = shared.expect("granted")["name"]
    assert name.startswith("c#") and run.show(name)["state"] == "held", name
    refused = Hold(run, "-n", "--exclusive", "c")
    assert refused.process.wait() == 75 and "c is held shared by 1: c#" in refused.process.err, refused.process.err
    assert shared.end() == 0
    alone = Hold(run, "--exclusive", "c")
    got = alone.expect("granted")
    assert got["name"] == "c" and got["fence"] == run.show("c")["fence"], got
    assert run.holdfast("run", "-n", "--shared", "c", "true").rc == 75
    assert run.holdfast("release", "c#40").rc == 0
    assert alone.expect("losing")["name"] == "c#40"
    assert alone.end() == 0
    assert free_after(run, "c").rc == 0 and run.holdfast("run", "-n", "--shared", "c", "true").rc == 0


# --- the loss -----------------------------------------------------------------------------------------------------


def assert_lost_in_time(run, hold, watcher, from_v, other=None):
    """The output ends at V - `from_v` T, and nobody has the lock before V."""
    over_ns, events = hold.over_ns(meanwhile=watcher.look)
    assert_at("the end of the output", over_ns, watcher.valid_ns - int(from_v * TTL_S * S))
    assert over_ns < watcher.valid_ns
    if other:
        other.granted()
        assert boottime_ns() >= watcher.valid_ns, f"{(watcher.valid_ns - boottime_ns()) / S:.3f} s before V"
        assert other.end() == 0
    return events


@scenario("when nodes are out of reach it says late, losing and lost, and its output ends in time")
def lost(run):
    ready(run)
    watcher = Watcher(run)
    hold = Hold(run, "job").granted()
    watcher.look()
    for node in run.nodes[:2]:
        node.process.signal(signal.SIGSTOP)
    events = assert_lost_in_time(run, hold, watcher, 0.1)
    for node in run.nodes[:2]:
        node.process.signal(signal.SIGCONT)
    assert [e["event"] for e in events] == ["late", "losing", "lost"], events
    assert all(e["name"] == "job" for e in events) and events[1]["reason"] and events[2]["reason"], events
    assert 0 < events[1]["remaining_ms"] <= 200 * TTL_S + 1, events
    assert hold.process.wait() == 124 and "lost" in hold.process.err


@scenario("nodes that come back: late, then held again")
def held_again(run):
    ready(run)
    hold = Hold(run, "-t", "6s", "job").granted()
    for node in run.nodes[:2]:
        node.process.signal(signal.SIGSTOP)
    assert hold.expect("late")["remaining_ms"] > 0
    for node in run.nodes[:2]:
        node.process.signal(signal.SIGCONT)
    hold.expect("held")
    assert hold.end() == 0


@scenario("who is asked to stop has until V - 0.1 T; a hold that ends by losing is not released before V")
def asked(run):
    ready(run)
    watcher = Watcher(run)
    hold = Hold(run, "job").granted()
    other = Hold(run, "job")
    other.expect("waiting")
    watcher.look()
    run.holdfast("release", "job")
    events = assert_lost_in_time(run, hold, watcher, 0.1, other)
    assert [e["event"] for e in events] == ["losing", "lost"], events
    assert hold.process.wait() == 124


@scenario("whoever ends its input while the lock is being lost has released it in time")
def ends_in_time(run):
    ready(run)
    hold = Hold(run, "--max-hold", "500ms", "job").granted()
    hold.expect("losing")
    assert hold.end() == 0
    hold.expect("released")
    assert free_after(run).rc == 0


@scenario("a release may take as long as the nodes do")
def slow_release(run):
    ready(run)
    hold = Hold(run, "job").granted()
    for node in run.nodes[:2]:
        node.sigstop()
    hold.process.popen.stdin.close()
    time.sleep(TTL_S / 12)  # what is asked of nodes has T/15 at least
    for node in run.nodes[:2]:
        node.sigcont()
    assert hold.expect("released") and hold.process.wait() == 0, hold.process.err


@scenario("deleted keys: lost at once, and said")
def deleted(run):
    ready(run)
    hold = Hold(run, "job").granted()
    assert run.holdfast("release", "--force", "--yes", "job").rc == 0
    over_ns, events = hold.over_ns()
    assert over_ns and events and events[-1]["event"] in ("lost", "losing"), events
    assert hold.process.wait() == 124


@scenario("an agent that dies: the loss is told by the local clock")
def without_agent(run):
    ready(run)
    watcher = Watcher(run)
    hold = Hold(run, "job").granted()
    watcher.look()
    run.agents[0].kill()
    over_ns, events = hold.over_ns()
    assert over_ns <= watcher.valid_ns and [e["event"] for e in events][-2:] == ["losing", "lost"], events
    assert hold.process.wait() == 124


@scenario("an agent that starts again keeps it, and it can be released")
def agent_again(run):
    ready(run)
    hold = Hold(run, "-t", "6s", "job").granted()
    run.agents[0].kill()
    run.agent(ttl=f"{TTL_S}s", fresh=False)
    wait_until(lambda: (run.show("job") or {}).get("fence") == hold.fence, what="the lease is readopted")
    assert hold.end() == 0
    assert free_after(run, options=("-w", "10")).rc == 0


# --- hold is killed or stopped, or its agent is --------------------------------------------------------------------


@scenario("kill -9 of hold frees the lock at once, alone and with its process group")
def killed(run):
    ready(run)
    for kill in (os.kill, os.killpg):
        hold = Hold(run, "-t", "30s", "job").granted()
        assert not children(hold.pid), children(hold.pid)
        kill(hold.pid, signal.SIGKILL)
        assert free_after(run, options=("-w", f"{5 * SLOW}")).rc == 0, kill
        assert hold.line() is None


@scenario("without its agent its output ends in time, whatever was killed that it had started")
def alone(run):
    ready(run)
    watcher = Watcher(run)
    hold = Hold(run, "job").granted()
    watcher.look()
    run.agents[0].kill()
    assert hold.expect("late") and hold.expect("losing")
    for child in children(hold.pid):
        os.kill(child, signal.SIGKILL)
    events = assert_lost_in_time(run, hold, watcher, 0.1)
    assert events[-1]["event"] == "lost", events
    assert hold.process.wait() == 124


@scenario("a release that gets no answer ends the output in time, too")
def unanswered_release(run):
    ready(run)
    watcher = Watcher(run)
    hold = Hold(run, "job").granted()
    run.agents[0].sigstop()
    watcher.look()
    hold.process.signal(signal.SIGTERM)
    events = assert_lost_in_time(run, hold, watcher, 0.1)
    assert hold.process.wait() == 0
    assert events == [{"event": "released"}] and "not released" in hold.process.err, (events, hold.process.err)
    run.agents[0].sigcont()


@scenario("a hold that has ended its output lives until V, so that its death releases nothing")
def lives_until_v(run):
    ready(run)
    watcher = Watcher(run)
    hold = Hold(run, "job").granted()
    watcher.look()
    run.holdfast("release", "job")
    assert_lost_in_time(run, hold, watcher, 0.1)
    assert hold.process.running and hold.process.wait() == 124
    assert boottime_ns() >= watcher.valid_ns - S // 100, f"{(watcher.valid_ns - boottime_ns()) / S:.3f} s before V"
    second = Hold(run, "job").granted()
    run.holdfast("release", "job")
    second.expect("losing")
    assert second.expect("lost") and second.line() is None
    assert second.end() == 124
    assert free_after(run).rc == 0


@scenario("a hold that was stopped and goes on in time says what it missed")
def stopped_for_a_while(run):
    ready(run)
    hold = Hold(run, "-t", "20s", "--max-hold", "1s", "job").granted()
    hold.process.signal(signal.SIGSTOP)
    time.sleep(1.5)
    hold.process.signal(signal.SIGCONT)
    hold.expect("losing")
    assert hold.end() == 0


# --- its streams --------------------------------------------------------------------------------------------------


def full_pipe():
    """The ends of a pipe that has no room."""
    ours, theirs = os.pipe()
    os.set_blocking(theirs, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(theirs, b"\n" * 4096)
    os.set_blocking(theirs, True)
    return ours, theirs


@scenario("a reader that does not read delays nothing: neither a release nor a loss")
def full(run):
    ready(run)
    watcher = Watcher(run)
    for way in ("release", "lose"):
        ours, theirs = full_pipe()
        process = run.start_holdfast("hold", "job", stdin=subprocess.PIPE, stdout=theirs)
        os.close(theirs)
        wait_until(lambda: run.show("job"), what="it is held")
        if way == "release":
            process.popen.stdin.close()
            assert process.wait(5) == 0
            assert free_after(run).rc == 0
        else:
            end = select.poll()
            end.register(ours, 0)  # only the end of the last writer, not what it wrote
            watcher.look()
            run.holdfast("release", "job")
            while not end.poll(10):
                watcher.look()
            assert_at("its end", boottime_ns(), watcher.valid_ns - TTL_S * S // 10)
            assert process.wait() == 124
        os.close(ours)


@scenario("a reader that is gone changes nothing: the input decides")
def reader_gone(run):
    ready(run)
    hold = Hold(run, "job").granted()
    hold.out.close()
    run.holdfast("release", "job")  # has it write
    time.sleep(0.3)
    assert hold.process.running
    assert hold.end() == 0


@scenario("an output that takes nothing is refused, and the lock is free")
def full(run):
    ready(run)
    with open("/dev/full", "wb") as nowhere:
        hold = run.spawn(BUILD / "bin" / "holdfast", "hold", "job", label="holdfast", stdin=subprocess.PIPE, stdout=nowhere)
        assert hold.wait() == 125 and "the grant cannot be told: No space left on device" in hold.err, hold.err
    assert run.holdfast("run", "-n", "job", "--", "true").rc == 0


@scenario("its input stays open while any process has the other end, and its own copy of that does not count")
def inherited(run):
    ready(run)
    fifo = run.dir / "fifo"
    os.mkfifo(fifo)
    script = f'exec 9<>{fifo}; {BUILD}/bin/holdfast hold job <&9 & sleep 300 & echo $!; wait'
    shell = run.spawn("bash", "-c", script, label="shell", stdout=subprocess.PIPE, bufsize=0)
    child = int(shell.popen.stdout.readline())
    holder = wait_until(lambda: run.show("job"), what="it is held")["pid"]
    shell.signal(signal.SIGKILL)
    time.sleep(0.5)
    assert run.show("job"), "a child of the script has the pipe"
    os.kill(child, signal.SIGKILL)
    wait_until(lambda: not run.show("job"), what="it is released")
    wait_until(lambda: not alive(holder), what="hold ends")


@scenario("lines on its input are beats; without one the lock is lost")
def beats(run):
    ready(run)
    hold = Hold(run, "--heartbeat", "1s", "job").granted()
    for _ in range(10):
        time.sleep(0.3)
        hold.process.popen.stdin.write(b"\n")
    assert not select.select([hold.out], [], [], 0)[0], hold.line()
    hold.expect("losing")
    assert hold.end() == 0


@scenario("a signal to the process group of a script leaves its lock to it")
def group_signal(run):
    ready(run)
    script = f"trap 'sleep 1; echo cleaned' TERM; mkfifo {run.dir}/f; {BUILD}/bin/holdfast hold job <{run.dir}/f & " \
             f"exec 8>{run.dir}/f; read x"
    shell = run.spawn("sh", "-c", script, label="shell", stdin=subprocess.PIPE)
    wait_until(lambda: run.show("job"), what="it is held")
    os.killpg(shell.pid, signal.SIGTERM)
    time.sleep(0.5)
    assert run.show("job") and shell.running
    shell.wait()
    assert "cleaned" in shell.out
    wait_until(lambda: not run.show("job"), what="it is released")


@scenario("check --fence tells whether a hold lasts, whoever asks")
def check_fence(run):
    ready(run)
    hold = Hold(run, "job").granted()
    good = run.holdfast("held", "--fence", hold.fence, "job")
    assert good.rc == 0 and f"pid {hold.pid}" in good.out, good
    other = run.holdfast("held", "--fence", str(int(hold.fence) - 1), "job")
    assert other.rc == 3 and hold.fence in other.err, other
    assert run.holdfast("held", "job").rc == 3
    assert hold.end() == 0
    assert run.holdfast("held", "-q", "--fence", hold.fence, "job").rc == 3


@scenario("--no-stdin: until a signal, or until the process that called it ends")
def no_stdin(run):
    ready(run)
    hold = Hold(run, "--no-stdin", "job", stdin=subprocess.DEVNULL).granted()
    time.sleep(0.3)
    hold.process.signal(signal.SIGTERM)
    assert hold.process.wait() == 0
    script = f"{BUILD}/bin/holdfast hold --no-stdin job & wait"
    shell = run.spawn("sh", "-c", script, label="shell", stdin=subprocess.DEVNULL)
    holder = wait_until(lambda: run.show("job"), what="it is held")
    assert holder["command"] == "sh", holder
    shell.kill()
    wait_until(lambda: not run.show("job"), what="it is released")


@scenario("--no-stdin: a process that has ended already cannot be watched: refused, and nothing is held")
def no_stdin_of_an_orphan(run):
    ready(run)
    for i, script in enumerate(('exec setsid -f sh -c "$0"', '{ eval "$0"; } &')):
        words = run.dir / f"words{i}"
        wait = "while kill -0 $CALLER 2>/dev/null; do sleep 0.01; done"
        hold = f"exec {BUILD}/bin/holdfast hold --no-stdin job 2> {words}"
        shell = run.spawn("sh", "-c", f'unset INVOCATION_ID SYSTEMD_EXEC_PID; export CALLER=$$; {script}', f"{wait}; {hold}",
                          label=f"shell{i}", stdin=subprocess.DEVNULL)
        assert shell.wait() == 0, shell.err
        wait_until(lambda: words.exists() and "has ended already" in words.read_text(), what="it is refused")  # noqa: B023
        assert not run.show("job")


@scenario("on a terminal ^D and ^C release; ^C of a script's terminal is the script's")
def terminal(run):
    ready(run)
    for key in (b"\x04", b"\x03"):
        ours, theirs = os.openpty()
        process = run.start_holdfast("hold", "job", stdin=theirs,
                                     preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(theirs)
        wait_until(lambda: run.show("job"), what="it is held")
        os.write(ours, key)
        assert process.wait(10) == 0, (key, process.err)
        os.close(ours)
    code = """
import signal, subprocess, sys, time
hold = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
hold.stdout.readline()
signal.signal(signal.SIGINT, lambda *_: None)
time.sleep(60)
"""
    ours, theirs = os.openpty()
    script = run.spawn(sys.executable, "-c", code, BUILD / "bin" / "holdfast", "hold", "job", stdin=theirs, label="script",
                       preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
    os.close(theirs)
    wait_until(lambda: run.show("job"), what="it is held")
    time.sleep(0.3)
    os.write(ours, b"\x03")
    time.sleep(0.5)
    assert run.show("job"), script.err
    script.kill()
    wait_until(lambda: not run.show("job"), what="it is released")
    os.close(ours)


if __name__ == "__main__":
    main()
