#!/usr/bin/env python3
"""`top`: plain frames, and the live view on a terminal, which gets its screen and modes back however top ends."""
import contextlib
import fcntl
import os
import pathlib
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
import xml.etree.ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from rig import BUILD, ROOT, SANITIZE, main, scenario, stat_letter, wait_until  # noqa: E402

ENTER, LEAVE = b"\x1b[?1049h", b"\x1b[?1049l"
CONTROLS = re.compile(rb"\x1b\[[0-9;?]*[a-zA-Z]")
TTY = {"TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}


class Terminal:
    """A pseudo-terminal with `top` on it, as its foreground process."""

    def __init__(self, run, *words, columns=80, lines=24, env=None, program=None):
        self.master, self.slave = pty.openpty()
        self.resize(columns, lines)
        self.before = self.modes()
        self.got = b""
        argv = [BUILD / "bin" / "holdfast", "top", *words]
        if program:  # a shell with job control, in which it can be stopped
            argv = [program, "-mc", '"$@"; echo stopped; read line; fg', program, *argv]
        self.process = run.spawn(*argv, label="top", stdin=self.slave, stdout=self.slave, env={**TTY, **(env or {})},
                                 preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))

    def modes(self):
        return termios.tcgetattr(self.slave)

    def resize(self, columns, lines):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def pump(self):
        while select.select([self.master], [], [], 0)[0]:
            try:
                self.got += os.read(self.master, 65536)
            except OSError:
                break
        return self.got

    def frames(self):
        """The whole ones, without control sequences."""
        return [CONTROLS.sub(b"", frame).decode().replace("\r", "") for frame in self.pump().split(b"\x1b[H")[1:-1]]

    def wait(self, text, since=0):
        """A frame behind the first `since` ones that has this text."""
        return wait_until(lambda: next((f for f in self.frames()[since:] if text in f), None), what=f"a frame with {text!r}")

    def type(self, keys):
        os.write(self.master, keys)

    def ended(self, code):
        got = self.process.wait()
        assert got == code, (got, self.process.err)
        self.is_given_back()

    def is_given_back(self):
        assert self.pump().count(ENTER) == self.got.count(LEAVE) >= 1, self.got[-200:]
        assert self.got.rstrip().endswith(LEAVE) or self.got.rfind(LEAVE) > self.got.rfind(b"\x1b[H"), self.got[-200:]
        assert self.modes() == self.before, "the terminal's modes are others than before"

    def close(self):
        for fd in (self.master, self.slave):
            with contextlib.suppress(OSError):
                os.close(fd)


@contextlib.contextmanager
def terminal(run, *words, **more):
    its = Terminal(run, "-d", "100ms", *words, **more)
    try:
        yield its
    finally:
        its.close()


def ready(run):
    run.redis(3)
    agent = run.agent()
    holder = run.holder()
    holder.acquire("job")
    return agent, holder


# --- plain ---------------------------------------------------------------------------------------------


@scenario("not on a terminal: one plain frame with agent, nodes, leases and who waits; -n for more of them")
def plain(run):
    agent, holder = ready(run)
    job = run.start_holdfast("run", "job", "true")
    wait_until(lambda: run.holdfast("list", "--json").json["waiters"], what="one waits")
    for words in ([], ["--once"], ["-n", "1"]):
        result = run.holdfast("top", *words, env={"TERM": "xterm"})
        assert result.rc == 0 and result.err == "" and "\x1b" not in result.out, result
        for part in (f"{agent.name} on ", "alive", "3 of 3 nodes vote", "n1 ", "n3 ", "VALIDITY", "job", str(holder.pid), str(job.pid)):
            assert part in result.out, (part, result.out)
        assert all(len(line) <= 80 for line in result.out.splitlines()), result.out
    wide = run.holdfast("top", env={"COLUMNS": "200"}).out
    assert "NOTE" in wide and "NOTE" not in run.holdfast("top", env={"COLUMNS": "60"}).out
    began = time.monotonic()
    assert run.holdfast("top", "-n", "3", "-d", "200ms").out.count("VALIDITY") == 3 and time.monotonic() - began >= 0.35
    assert "none with that prefix" in run.holdfast("top", "x").out and " job" not in run.holdfast("top", "x").out
    holder.release()
    assert job.wait() == 0


@scenario("bad options and no agent are told; a reader that goes away is no failure")
def usage(run):
    result = run.holdfast("top")
    assert result.rc == 69 and "no agent" in result.err, result
    run.redis(1)
    run.agent()
    for words, says in ((["-d", "10ms"], "at least 100 ms"), (["--once", "-n", "2"], "leave out -n"), (["-n", "0"], "give a number from 1 on as count"),
                        (["-d", "x"], "give a time such as 30, 500ms or 5m: 'x' is none"), (["a", "b"], "unexpected argument"), (["--json"], "--json")):
        result = run.holdfast("top", *words)
        assert result.rc == 64 and says in result.err and result.out == "", result
    began = time.monotonic()
    pipe = run.spawn("sh", "-c", "\"$0\" top -n 1000 -d 100ms | head -n 1; echo \"${PIPESTATUS:-0}\"", BUILD / "bin" / "holdfast")
    assert pipe.wait() == 0 and time.monotonic() - began < 20, pipe.out
    assert pipe.err == "", pipe.err


@scenario("TERM=dumb is plain; NO_COLOR has a screen without colours")
def no_colours(run):
    ready(run)
    with terminal(run, env={"TERM": "dumb"}) as dumb:
        assert dumb.process.wait() == 0 and b"\x1b" not in dumb.pump() and b"job" in dumb.got, dumb.got
    for no_colour, coloured in (("", True), ("1", False)):
        with terminal(run, env={"NO_COLOR": no_colour}) as its:
            its.wait("job")
            assert (b"\x1b[32m" in its.got) == coloured, its.got
            its.type(b"q")
            its.ended(0)
    with terminal(run, "--once") as once:  # in place, with colours, no screen of its own
        assert once.process.wait() == 0 and ENTER not in once.pump() and b"\x1b[32m" in once.got, once.got


# --- live ----------------------------------------------------------------------------------------------


@scenario("live: leases come and go, q ends it, and the terminal is as before")
def live(run):
    _, holder = ready(run)
    with terminal(run) as its:
        its.wait("job")
        assert not its.modes()[3] & (termios.ECHO | termios.ICANON)
        holder.acquire("another")
        its.wait("another")
        holder.release()
        shown = len(its.frames())
        wait_until(lambda: len(its.frames()) > shown + 2 and "another" not in its.frames()[-1], what="it is gone")
        its.type(b"xyz\x1b[A")  # no keys of top's
        time.sleep(0.3)
        assert its.process.running
        its.type(b"q")
        its.ended(0)


@scenario("live: another size of the terminal is heeded at once")
def resized(run):
    ready(run)
    with terminal(run, "-d", "60", columns=120, lines=30) as its:
        wait_until(lambda: b"HELD" in its.pump(), what="a frame")
        for columns in (40, 41):  # the second one ends the first one's frame
            shown = its.pump().count(b"\x1b[H")
            its.resize(columns, 8)
            wait_until(lambda before=shown: its.pump().count(b"\x1b[H") > before, what="a frame of the new size")
        frame = its.frames()[-1]
        assert "HELD" not in frame and all(len(line) <= 40 for line in frame.splitlines()) and len(frame.splitlines()) <= 8, frame
        its.type(b"q")
        its.ended(0)


@scenario("live: every signal that ends it gives the terminal back", sanitizers=False)
def signals(run):
    ready(run)
    ends = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
    deaths = (signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGUSR1, signal.SIGALRM, signal.SIGXCPU,
              signal.SIGSYS, signal.SIGRTMIN + 3)
    for number in (*ends, *deaths):
        with terminal(run) as its:
            its.wait("job")
            its.process.signal(number)
            its.ended(0 if number in ends else -number)
    with terminal(run) as its:
        its.wait("job")
        its.type(b"\x03")
        its.ended(0)
    with terminal(run) as its:  # not by its word that it goes on
        its.wait("job")
        its.process.signal(signal.SIGCONT)
        time.sleep(0.2)
        its.type(b"q")
        its.ended(0)


@scenario("live: ^Z gives the terminal to the shell, fg takes it again", sanitizers=False)
def stopped(run):
    ready(run)
    with terminal(run, program="sh") as its:
        its.wait("job")
        its.type(b"\x1a")
        wait_until(lambda: b"stopped" in its.pump(), what="the shell goes on")
        its.is_given_back()
        its.type(b"\n")
        wait_until(lambda: its.pump().count(ENTER) == 2, what="it goes on")
        shown = len(its.frames())
        its.wait("job", since=shown)
        assert not its.modes()[3] & termios.ECHO
        its.type(b"q")
        its.ended(0)


@scenario("live: a terminal that goes away ends it")
def hung_up(run):
    ready(run)
    its = Terminal(run, "-d", "100ms")
    its.wait("job")
    os.close(its.slave)
    os.close(its.master)
    assert its.process.wait() in (0, -signal.SIGHUP), its.process.err


@scenario("an agent that hangs: the view goes on and says so; the next agent is shown when it is there")
def agent_away(run):
    agent, holder = ready(run)
    with terminal(run) as its:
        its.wait("alive")
        agent.sigstop()
        frame = its.wait("is not answering")
        assert "hung" in frame and "job" in frame and str(holder.pid) in frame, frame
        agent.kill()
        its.wait("dead")
        shown = len(its.frames())
        agent = run.agent()
        its.wait(f"alive, pid {agent.pid}", since=shown)
        agent.stop()
        its.type(b"q")
        its.ended(0)
    assert not SANITIZE or its.process.err == ""


@scenario("the pictures of the documents are made by tools/capture", sanitizers=False)
def captured(run):
    for name, words in (("top", ("default on host7", "VALIDITY", "db/migrate", "losing", "down", "WAITED FOR", "max_hold", "\u2588")),
                        ("doctor", ("$ holdfast doctor", "b is down", "node.notices", "&__redis__:invalidate", "2 of 3 nodes may vote"))):
        picture = run.dir / f"{name}.svg"
        capture = run.spawn(ROOT / "tools" / "capture", name, picture, label="capture", env={"HOLDFAST_BUILD": BUILD})
        assert capture.wait(60) == 0, capture.err
        for drawing in (picture, ROOT / "docs" / "pictures" / f"{name}.svg"):
            root = xml.etree.ElementTree.parse(drawing).getroot()
            text = " ".join("".join(element.itertext()) for element in root.iter("{http://www.w3.org/2000/svg}text"))
            for word in words:
                assert word in text, (drawing, word, text)
            assert "capture-" not in text, text


if __name__ == "__main__":
    main()
