#!/usr/bin/env python3
"""What the command says to people: what it killed, for whom it waits, what was meant, and names on a terminal."""
import fcntl
import json
import os
import pathlib
import re
import select
import subprocess
import sys
import termios
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from jobs import Job, ready  # noqa: E402
from rig import BUILD, SLOW, main, scenario, wait_until  # noqa: E402

HOLDFAST = str(BUILD / "bin" / "holdfast")


class Terminal:
    """A command with a terminal of its own as its three streams."""

    def __init__(self, run, *argv, locale="C.UTF-8", columns=200, more=None):
        ours, theirs = os.openpty()
        subprocess.run(["stty", "cols", str(columns), "-opost"], stdin=theirs, check=True)
        self.process = run.spawn("sh", "-c", 'exec "$@" 2>&1', "sh", *argv, label="typed", stdin=theirs, stdout=theirs,
                                 preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
                                 env={"LC_ALL": locale, "TERM": "xterm", "LANG": "", **(more or {})})
        os.close(theirs)
        self.fd, self.data = ours, b""

    def read(self, until=None, timeout_s=15.0):
        """All that came until the end, or until a pattern does."""
        deadline = time.monotonic() + timeout_s * SLOW
        while time.monotonic() < deadline:
            if until and re.search(until, self.data):
                break
            if select.select([self.fd], [], [], 0.1)[0]:
                try:
                    got = os.read(self.fd, 65536)
                except OSError:  # the other end is closed
                    break
                if not got:
                    break
                self.data += got
        assert not until or re.search(until, self.data), self.data
        return self.data


# --- what run says ------------------------------------------------------------------------------------------------


@scenario("run says what it ends of what a command left behind, and nothing when nothing was left")
def leftovers(run):
    ready(run)
    left = run.holdfast("run", "job", "sh", "-c", "sleep 300 & sleep 301 & sleep 0.3; exit 3")
    assert left.rc == 3 and re.search(r"job: the command has ended and left processes behind; SIGTERM to 2 processes: "
                                      r"\d+ \(sleep\), \d+ \(sleep\)\n", left.err), left.err
    assert "SIGKILL" not in left.err, left.err
    deaf = run.holdfast("run", "job", "sh", "-c",
                        "(trap '' TERM; while :; do sleep 0.2; done) & echo $!; trap '' TERM; sleep 0.3")
    pid = deaf.out.strip()
    assert deaf.rc == 0 and re.search(rf"SIGKILL to what the command has left behind, .*\b{pid} \(sh\)", deaf.err), deaf.err
    quiet = run.holdfast("run", "job", "sh", "-c", "sleep 0.1 & wait")
    assert quiet.rc == 0 and not quiet.err, quiet.err
    many = run.holdfast("run", "job", "sh", "-c", "for i in 1 2 3 4 5 6; do sleep 300 & done; sleep 0.3")
    assert "SIGTERM to 6 processes" in many.err and many.err.count("(sleep)") == 4 and ", ..." in many.err, many.err


@scenario("a run within a job that has the lock says so, and does not wait for itself")
def nested(run):
    ready(run)
    for options in ((), ("-n",), ("-w", "60")):
        began = time.monotonic()
        inner = run.holdfast("run", "job", HOLDFAST, "run", *options, "job", "true")
        assert inner.rc == 75 and "job which this command is part of" in inner.err, (options, inner)
        assert time.monotonic() - began < 20 * SLOW
    deep = run.holdfast("run", "--also", "b", "a", "sh", "-c", f"sh -c '{HOLDFAST} run c {HOLDFAST} run -E 9 --also b d true'")
    assert deep.rc == 9 and "b is held by" in deep.err and "part of" in deep.err, deep
    hold = run.holdfast("run", "job", HOLDFAST, "hold", "job", stdin=subprocess.PIPE)
    assert hold.rc == 75 and "part of" in hold.err, hold
    # Another's lock is waited for, whatever the environment says; and a slot has others beside it.
    other = Job(run, "job", "sh", "-c", "echo up; read x", stdin=subprocess.PIPE).up()
    env = {"HOLDFAST_NAME": "job", "HOLDFAST_FENCE": "1"}
    busy = run.holdfast("run", "-n", "job", "true", env=env)
    assert busy.rc == 75 and "part of" not in busy.err, busy
    other.process.popen.stdin.close()
    other.wait()
    assert run.holdfast("run", "--slots", "2", "job", HOLDFAST, "run", "--slots", "2", "job", "true").rc == 0


@scenario("-n with -w is refused, and a '--' in the wrong place is explained")
def meant(run):
    ready(run)
    for args, text in (
        (("-n", "-w", "3", "job", "true"), "give -n or -w, not both"),
        (("-w", "3", "-n", "job", "true"), "give -n or -w, not both"),
        (("--", "backup"), "give a NAME before the '--': holdfast run NAME -- backup"),
        (("--", "job", "true"), "put the '--' behind NAME: holdfast run job -- COMMAND; if job is the command"),
        (("-w", "3", "--", "job", "true", "x"), "put the '--' behind NAME"),
        (("job", "--wait", "5", "--", "true"), "put options before NAME: --wait would be the command; if it is one, put '--' before it"),
        (("job", "-n", "true"), "put options before NAME"),
    ):
        result = run.holdfast("run", *args)
        assert result.rc == 64 and text in result.err, (args, result)
    for args in (("--", "-odd", "true"), ("--", "job", "--", "true"), ("job", "--", "true"), ("--", "-odd", "--", "true"), ("-w", ".3", "job", "true")):
        assert run.holdfast("run", *args).rc == 0, args
    began = time.monotonic()
    other = Job(run, "job", "sh", "-c", "echo up; read x", stdin=subprocess.PIPE).up()
    assert run.holdfast("run", "-w", ".3", "job", "true").rc == 75 and time.monotonic() - began < 10 * SLOW
    other.process.popen.stdin.close()
    other.wait()


@scenario("help NAME shows a subcommand's help")
def helps(run):
    for words in (("run",), ("hold",), ("fleet",), ("fleet", "move"), ("list",), ("beat",)):
        asked = run.holdfast("help", *words)
        assert asked.rc == 0 and asked.out == run.holdfast(*words, "--help").out and "Usage: holdfast" in asked.out, asked
    assert run.holdfast("help").out == run.holdfast("--help").out
    unknown = run.holdfast("help", "nosuch")
    assert unknown.rc == 64 and "nosuch" in unknown.err, unknown


# --- names on a terminal ------------------------------------------------------------------------------------------


@scenario("names are UTF-8 on a terminal that is, and can be pasted back; elsewhere they are escaped")
def utf8(run):
    ready(run)
    names = ("caf\u00e9/\u65e5\u672c", "plain")
    jobs = [Job(run, name, "sh", "-c", "echo up; read x", stdin=subprocess.PIPE).up() for name in names]
    shown = Terminal(run, HOLDFAST, "list").read().decode()
    assert names[0] in shown, shown
    columns = {line.replace("\u65e5", "xx").replace("\u672c", "xx").find("held ") for line in shown.splitlines()[1:3]}
    assert len(columns) == 1, shown
    for options in ((), ("-e",)):  # what was printed
        again = Terminal(run, HOLDFAST, "show", *options, names[0])
        assert again.process.wait() == 0 and f"name      {names[0]}" in again.read().decode(), again.data
    busy = Terminal(run, HOLDFAST, "run", "-n", names[0], "true").read().decode()
    assert f"{names[0]} is held by" in busy, busy
    escaped = "caf\\xc3\\xa9/\\xe6\\x97\\xa5\\xe6\\x9c\\xac"
    assert escaped in Terminal(run, HOLDFAST, "list", locale="C").read().decode()
    assert escaped in run.holdfast("list", env={"LC_ALL": "C.UTF-8"}).out  # a pipe
    for job in jobs:
        job.process.popen.stdin.close()
        job.wait()


@scenario("no name fools a terminal: controls, directions, what is not seen and bytes that are no UTF-8 stay escaped")
def hostile(run):
    ready(run)
    bad = [b"\x1b[2J", b"\xc2\x9b2J", b"a\xe2\x80\xaeb", b"a\xe2\x80\x8bb", b"\xd7\x90\xd7\x91 1", b"\xff\xfe", b"e\xcc\x81",
           b"a\xf3\xa0\x81\x81", b"\xe2\x81\xa6x", b"a\xe3\x80\x80b", b"\xc3", b"\xed\xa0\x80", b"\x7f"]
    for name in bad:
        job = Job(run, os.fsdecode(name), "sh", "-c", "echo up; read x", stdin=subprocess.PIPE).up()
        listed = Terminal(run, HOLDFAST, "list").read()
        assert listed.isascii() and b"\x1b" not in listed and b"\x7f" not in listed and b"\\x" in listed, (name, listed)
        for words in (("list", "--json"), ("history", "--json")):
            document = Terminal(run, HOLDFAST, *words).read().decode()  # UTF-8, whatever the name is
            assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u0590-\u05ff\u200b-\u206f\u3000\U000e0041]", document), (name, document)
            rows = json.loads(document)["leases"] if words[0] == "list" else [json.loads(line) for line in document.splitlines()]
            assert name.hex() in [row.get("name_hex") or row.get("name", "").encode().hex() for row in rows], (name, document)
        printed = listed.splitlines()[1].rpartition(b"  held")[0].rstrip().decode()
        assert run.holdfast("show", "-e", printed).rc == 0, (name, printed)
        job.process.popen.stdin.close()
        job.wait()


@scenario("colours are for terminals, and NO_COLOR takes them away")
def colours(run):
    ready(run)
    for words in (("list",), ("status",), ("doctor",), ("nodes",), ("history",), ("top", "--once")):
        assert "\x1b" not in run.holdfast(*words, env={"TERM": "xterm"}).out, words
        without = Terminal(run, HOLDFAST, *words, more={"NO_COLOR": "1"}).read()
        assert not re.search(rb"\x1b\[[0-9;]*[1-9][0-9;]*m", without), (words, without)


# --- a long wait --------------------------------------------------------------------------------------------------


@scenario("a long wait tells on a terminal since when, at which place and for whom, in one line that goes; in a pipe it does not")
def long_wait(run):
    ready(run)
    other = Job(run, "job", "sh", "-c", "echo up; read x", stdin=subprocess.PIPE).up()
    typed = Terminal(run, HOLDFAST, "run", "job", "echo", "ran")
    narrow = Terminal(run, HOLDFAST, "run", "-w", "10m", "job", "echo", "ran", columns=40)
    dumb = Terminal(run, HOLDFAST, "run", "job", "echo", "ran", more={"TERM": "dumb"})
    piped = run.start_holdfast("run", "job", "true")
    shown = typed.read(rb"waiting for 5\.\ds, place \d: job is held by \S+ pid \d+").decode()
    assert shown.count("\n") == 1, shown  # that of the first line: the others stand in one place
    narrow.read(rb"\r\x1b\[Kwaiting for 5\.\ds of 10m0s, place \d")
    other.process.popen.stdin.close()
    other.wait()
    for terminal in (typed, narrow):
        *lines, last = terminal.read(rb"ran\n").decode().replace("\n", "\r").split("\r")
        assert lines[-1] == "\x1b[Kran" or lines[-2:] == ["\x1b[K", "ran"] and not last, lines
    assert max(len(part) for part in narrow.data.decode().split("\r\x1b[K")[1:-1]) < 40, narrow.data
    assert "waiting for" not in dumb.read(rb"ran\n").decode() and b"\x1b" not in dumb.data, dumb.data
    for terminal in (typed, narrow, dumb):  # each has still to give up its lock
        assert terminal.process.wait() == 0, terminal.data
    assert piped.wait() == 0 and piped.err.count("\n") == 1 and "\x1b" not in piped.err, piped.err


if __name__ == "__main__":
    main()
