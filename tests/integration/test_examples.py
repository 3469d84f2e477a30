#!/usr/bin/env python3
"""The examples of docs/examples do what they say, with an agent on real nodes; what docs/OPERATIONS.md says is so."""
import configparser
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from rig import BUILD, ROOT, Redis, Result, agent_env, main, scenario, skip, wait_until  # noqa: E402

EXAMPLES = ROOT / "docs" / "examples"


def command(run, name, text):
    """A command on the PATH of what start() starts."""
    path = run.dir / "bin" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def start(run, *argv, agent=None, more=None, **options):
    path = f"{run.dir}/bin:{BUILD}/bin:{os.environ['PATH']}"
    return run.spawn(*argv, label=pathlib.Path(str(argv[0])).name, env={"PATH": path, **agent_env(agent), **(more or {})}, **options)


def done(process, code=0):
    got = process.wait()
    assert got == code, f"{process.label} ended with {got}: {process.out} {process.err}"
    return process.out


@scenario("the calls of the library, one after the other")
def calls(run):
    run.redis(3)
    run.agent()
    out = done(start(run, BUILD / "examples" / "example"))
    for text in ("worked with fence", "held by example", "slot ", "guardian: state 3", "example/seen: pid"):
        assert text in out, out


@scenario("a program in Python takes a lock, checks it and beats by the library's functions", sanitizers=False)
def other_language(run):
    run.redis(3)
    agent = run.agent()
    env = {"LD_LIBRARY_PATH": str(BUILD / "lib"), **agent_env(agent)}
    out = done(run.spawn(sys.executable, EXAMPLES / "worker.py", "app/worker", label="worker", env=env))
    steps, left = re.fullmatch(r"(\d+) steps with fence \d+, (\d+) ms left\n", out).groups()
    assert int(steps) == 1000 and 0 < int(left) <= 30000, out


SECTION = """
. {examples}/section.sh
section_begin "$@" app/section || exit
echo "in with $section_fence"
section_held && echo held
read -r word
echo "after $word"
section_end
echo "out with $?"
holdfast held -q --fence "$section_fence" app/section || echo "not held"
"""


def section(run, shell, *args, text=SECTION, **options):
    script = run.dir / "section"
    script.write_text(text.format(examples=EXAMPLES))
    return start(run, shell, script, *args, stdin=subprocess.PIPE, **options)


@scenario("a section of a shell script under a lock: taken, checked, kept from others, released", sanitizers=False)
def shell_section(run):
    run.redis(3)
    run.agent()
    for shell in ("bash", "dash", "sh"):
        script = section(run, shell)
        script.wait_out("held\n")
        fence = run.show("app/section")["fence"]
        assert f"in with {fence}\n" in script.out and run.show("app/section")["command"] in (shell, "section"), script.out
        done(section(run, shell, "-n"), 75)
        assert done(section(run, shell, "-n", "-E", "9"), 9) == ""
        script.popen.stdin.write(b"word\n")
        script.popen.stdin.flush()
        assert done(script).endswith("after word\nout with 0\nnot held\n"), script.out
        for end in (signal.SIGTERM, signal.SIGKILL):  # of a script that never comes to its end
            script = section(run, shell)
            script.wait_out("held\n")
            script.signal(end)
            wait_until(lambda: not run.show("app/section"), what="it is released")


SECOND = """
. {examples}/section.sh
section_begin app/first || exit
fence=$section_fence
section_begin app/second; echo "second $?"
section_begin app/second || echo refused
holdfast run -n app/first true; echo "first $?"
holdfast run -n app/second true; echo "free $?"
section_held && [ "$section_fence" = "$fence" ] && echo held
section_end; echo "out $?"
section_begin -n app/second && echo "in again"
section_begin app/first || echo refused
section_end; echo "out $?"
holdfast run app/other sh -c '. {examples}/section.sh && section_begin app/first && section_end'; echo "inner $?"
"""


@scenario("a section within a section is refused, and leaves the first one's lock as it is", sanitizers=False)
def shell_section_second(run):
    run.redis(3)
    run.agent()
    for shell in ("bash", "dash"):
        script = section(run, shell, text=SECOND)
        assert done(script).splitlines() == ["second 64", "refused", "first 75", "free 0", "held", "out 0",
                                             "in again", "refused", "out 0", "inner 0"], (shell, script.out, script.err)
        said = [line for line in script.err.splitlines() if "one section at a time" in line]
        assert len(said) == 3 and "call section_end first" in said[0] and "app/first" in said[0] and "app/second" in said[2], script.err
        # With set -eu it comes as far as the first lock's being taken.
        done(section(run, shell, text="set -eu" + SECOND.replace("section_begin app/second; echo", "section_begin app/second || echo")), 75)
        run.keys_gone("app/first")  # what holds it ends after the script


@scenario("a section whose lock is lost is stopped, with what it has started, before another has the lock", sanitizers=False)
def shell_section_lost(run):
    run.redis(3)
    run.agent(ttl="3s")
    deaf = SECTION.replace("read -r word", "trap '' TERM; sleep 60 & sleep 60; sleep 60; sleep 60")
    for shell, text, code in (("bash", SECTION, 128 + signal.SIGTERM), ("dash", SECTION, 128 + signal.SIGTERM),
                              ("bash", deaf, 128 + signal.SIGKILL), ("dash", deaf, 128 + signal.SIGKILL)):
        script = section(run, shell, text=text)
        script.wait_out("held\n")
        other = start(run, BUILD / "bin" / "holdfast", "run", "app/section", "sh", "-c", f"ps -o args= -g {script.pid}; true")
        other.wait_err("waiting")
        run.holdfast("release", "app/section")
        got = script.wait()
        assert got in (code, 128 - code), (shell, got, script.err)
        assert "somebody asked the holder to stop" in script.err and "stopping" in script.err, script.err
        assert not [line for line in done(other).splitlines() if "defunct" not in line and re.search("sleep|section", line)], other.out


@scenario("a section of a Python program under a lock, over holdfast hold", sanitizers=False)
def python_section(run):
    run.redis(3)
    run.agent(ttl="3s")

    def program():
        process = start(run, sys.executable, EXAMPLES / "hold.py", "app/section", stdin=subprocess.PIPE)
        process.wait_out(r"1000 steps with fence \d+\n")
        assert run.show("app/section")["fence"] in process.out
        return process

    process = program()
    busy = start(run, BUILD / "bin" / "holdfast", "run", "-n", "app/section", "true")
    done(busy, 75)
    process.popen.stdin.close()
    done(process)
    assert run.holdfast("run", "-n", "app/section", "true").rc == 0
    process = program()
    run.holdfast("release", "app/section")
    done(process, 124)


@scenario("the program of libholdfast(3) compiles without a warning, and does what it says", sanitizers=False)
def manual(run):
    run.redis(3)
    agent = run.agent()
    page = (ROOT / "docs" / "man" / "libholdfast.3").read_text()
    program, = re.findall(r"\n\.Bd -literal\n(.*?)\n\.Ed\n", page, re.S)
    source, binary = run.dir / "program.c", run.dir / "program"
    source.write_text(program.replace("\\e", "\\") + "\n")
    subprocess.run(["cc", "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I", ROOT / "libclient", "-o", binary, source,
                    f"-L{BUILD}/lib", "-lholdfast"], check=True)
    env = {"LD_LIBRARY_PATH": str(BUILD / "lib"), **agent_env(agent)}
    out = done(run.spawn(binary, label="program", env=env))
    assert re.fullmatch(r"1000 steps with fence \d+\n", out), out


GO = """package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"
)

func say(what string, err error) {
	var exit *exec.ExitError
	code := 0
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	}
	fmt.Printf("%s %t %t %d %q\\n", what, errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled), code, fmt.Sprint(err))
}

func main() {
	all := context.Background()
	lock, err := Hold(all, "app/go")
	say("hold", err)
	soon, end := context.WithTimeout(all, 100*time.Millisecond)
	_, err = Hold(soon, "app/go")
	say("deadline", err)
	end()
	canceled, cancel := context.WithCancel(all)
	time.AfterFunc(100*time.Millisecond, cancel)
	_, err = Hold(canceled, "app/go")
	say("cancel", err)
	_, err = Hold(canceled, "app/free")
	say("canceled before", err)
	_, err = Hold(all, "app/go", "-n")
	say("busy", err)
	_, err = Hold(all, "app/go", "--none")
	say("usage", err)
	say("release", lock.Release())
	say("again", lock.Release())
	lock, err = Hold(all, "app/go", "--max-hold", "100ms")
	say("short", err)
	<-lock.Context.Done()
	<-lock.over
	say("lost", lock.Release())
	say("lost again", lock.Release())
	lock, err = Hold(all, "app/go")
	say("last", err)
	lock.cmd.Process.Kill()
	<-lock.Context.Done()
	say("killed", lock.Release())
}
"""


@scenario("an error of the lock for Go tells a wait that was cancelled from a lock that another has, in one line", sanitizers=False)
def go_errors(run):
    if not shutil.which("go"):
        skip("no Go")
    run.redis(3)
    run.agent(ttl="3s")
    (run.dir / "main.go").write_text(GO)
    shutil.copy(EXAMPLES / "holdfast.go", run.dir)
    env = {**os.environ, "GOCACHE": str(run.dir / "gocache"), "GOFLAGS": "-mod=mod", "GO111MODULE": "off"}
    subprocess.run(["go", "build", "-o", "go-errors", "main.go", "holdfast.go"], cwd=run.dir, env=env, check=True)
    out = done(start(run, run.dir / "go-errors"))
    said = {what: (deadline == "true", canceled == "true", int(code), text) for what, deadline, canceled, code, text in
            re.findall(r'^(.*) (true|false) (true|false) (-?\d+) "(.*)"$', out, re.M)}
    nothing = (False, False, 0, "<nil>")
    assert all(said[what] == nothing for what in ("hold", "release", "again", "short", "last")), out
    assert said["deadline"][:3] == (True, False, 0) and "app/go" in said["deadline"][3], out
    assert said["cancel"][:3] == (False, True, 0) and said["canceled before"][:3] == (False, True, 0), out
    assert said["busy"][:3] == (False, False, 75) and "held by" in said["busy"][3], out
    assert said["usage"][:3] == (False, False, 64) and "--none" in said["usage"][3], out
    assert said["lost"][2] == 124 and said["lost again"] == said["lost"] and said["killed"][2] == -1, out
    for what, (*_, text) in said.items():
        assert "\\n" not in text and "exit status" not in text and "Wait was" not in text and text, (what, text)
        words = text.split()
        assert len(words) < 4 or text.count(" ".join(words[-3:])) == 1, f"{what} says it twice: {text}"


# --- one job in several languages


def reporters(run):
    """The job in each language, as the start of a command line; those whose language is not here are told."""
    python = ["env", f"PYTHONPATH={ROOT / 'libclient' / 'python'}", f"LD_LIBRARY_PATH={BUILD / 'lib'}", sys.executable]
    found = {"C++": [BUILD / "examples" / "report"], "Python": [*python, EXAMPLES / "report.py"], "bash": [EXAMPLES / "report.sh"]}
    if shutil.which("node"):
        found["Node.js"] = ["node", EXAMPLES / "report.js"]
    if shutil.which("go"):
        env = {**os.environ, "GOCACHE": str(run.dir / "gocache"), "GOFLAGS": "-mod=mod", "GO111MODULE": "off"}
        subprocess.run(["go", "vet", "report.go", "holdfast.go"], cwd=EXAMPLES, env=env, check=True)
        subprocess.run(["go", "build", "-o", run.dir / "report-go", "report.go", "holdfast.go"], cwd=EXAMPLES, env=env, check=True)
        found["Go"] = [run.dir / "report-go"]
    missing = {"C++", "bash", "Node.js", "Go"} - set(found)
    if missing:
        print(f"# without {', '.join(sorted(missing))}: apt-get install nodejs golang-go", flush=True)
    return found


@scenario("a report that is not told where to write says how to call it, and takes no lock", sanitizers=False)
def reports_usage(run):
    path = run.dir / "report"
    for label, argv in reporters(run).items():
        for args in ((), (path, "many"), (path, "-1"), (path, "3", "more")):
            process = start(run, *argv, *args)  # without an agent: they do not come so far
            done(process, 64)
            usage = process.err.strip()
            assert re.fullmatch(r"usage: report\S* FILE \[STEPS\]", usage) and not path.exists(), (label, args, process.err)


@scenario("a report has each hold's lines together, whatever language a host writes it in, and refuses an old fence", sanitizers=False)
def reports(run):
    run.redis(3)
    agents = [run.agent(label) for label in "ab"]
    path = run.dir / "report"
    found = reporters(run)
    crew = [(label, start(run, *argv, path, agent=agents[i % 2])) for i in range(4) for label, argv in found.items()]
    for _, process in crew:
        done(process)
    lines = [line.split() for line in path.read_text().splitlines()]
    assert [word for _, word in lines] == ["begin", "end"] * len(crew), "two holders overlap"
    fences = [int(fence) for fence, _ in lines]
    assert fences[::2] == fences[1::2] and fences[::2] == sorted(set(fences)), "fences did not rise"
    path.write_text(f"{2**62 + 1} end\n")
    for label, argv in found.items():
        late = start(run, *argv, path)
        done(late, 1)
        assert "refused: a later holder has written" in late.err and path.read_text() == f"{2**62 + 1} end\n", (label, late.err)


@scenario("a report stops when its lock is asked for, and when what holds it dies", sanitizers=False)
def reports_stop(run):
    run.redis(3)
    agent = run.agent()
    path = run.dir / "report"
    for label, argv in reporters(run).items():
        for end in ("asked", "killed") if label not in ("C++", "Python") else ("asked",):
            path.write_text("")
            process = start(run, *argv, path, 1000)
            wait_until(lambda: "begin" in path.read_text(), what=f"{label} begins")
            if end == "asked":
                run.holdfast("release", "nightly/report")
            else:
                lease, = run.holdfast("list", "--json").json["leases"]
                os.kill(lease["pid"], signal.SIGKILL)
            assert process.wait(10) != 0, (label, end)
            assert path.read_text().split()[1:] == ["begin"], (label, end)
            assert end == "killed" or re.search("stopped: the lock is being lost|asked the holder to stop", process.err), (label, process.err)
            wait_until(lambda: not run.holdfast("list", "--json").json["leases"], what=f"{label} leaves nothing held")


@scenario("a report whose host has no agent says so, and one that is killed leaves no lock behind", sanitizers=False)
def reports_fail(run):
    run.redis(3)
    path = run.dir / "report"
    found = reporters(run)
    for label, argv in found.items():
        process = start(run, *argv, path, more={"HOLDFAST_AGENT": f"{run.tag}-none"})
        assert process.wait(10) != 0 and "no agent answers at" in process.err, (label, process.err)
    run.agent()
    for label, argv in found.items():
        path.write_text("")
        process = start(run, *argv, path, 1000)
        wait_until(lambda: "begin" in path.read_text(), what=f"{label} begins")
        process.kill()
        wait_until(lambda: not run.holdfast("list", "--json").json["leases"], what=f"{label} leaves nothing held")


@scenario("the cron job runs on one of three hosts", sanitizers=False)
def cron(run):
    run.redis(3)
    agents = [run.agent(label) for label in "abc"]
    lines = (EXAMPLES / "nightly.crontab").read_text().splitlines()
    job, = [line for line in lines if re.match(r"[0-9*]", line)]
    *when, user, line = job.split(None, 6)
    assert len(when) == 5 and user == "root" and "%" not in line, job  # cron turns a % into a newline
    command(run, "nightly-report", f"echo ran >>{run.dir}/report")
    command(run, "logger", f"cat >>{run.dir}/log-$$")
    for process in [start(run, "sh", "-c", line, agent=agent) for agent in agents]:
        done(process)
    assert (run.dir / "report").read_text() == "ran\n"
    logs = [path.read_text() for path in run.dir.glob("log-*")]
    assert sum("nightly/report is held by " in text or "nightly/report: not run: " in text for text in logs) == 2, logs


@scenario("the leader is followed by another when it dies, and when it ends")
def leader(run):
    run.redis(3)
    run.agent()
    crew = [start(run, BUILD / "examples" / "leader", "app/leader") for _ in range(3)]

    def leading():
        return [process for process in crew if process.running and re.search(r"leading with fence (\d+)\n$", process.out)]

    fences = []
    for end in (lambda process: process.kill(), lambda process: process.signal(signal.SIGTERM), None):
        first, = wait_until(leading, what="one leads")
        fences.append(int(re.findall(r"fence (\d+)", first.out)[-1]))
        others = [process for process in crew if process.running and process is not first]
        for other in others:
            other.wait_out(rf"leads, pid {first.pid}\n")
        if end:
            end(first)
            wait_until(lambda: not first.running)
    assert fences == sorted(set(fences)), fences
    last, = leading()
    asked = run.holdfast("release", "app/leader")
    assert asked.rc == 0, asked
    last.wait_out("no longer leading: somebody asked the holder to stop")
    last.wait_out(r"(?s)no longer.*leading with fence")  # nobody else is there
    last.signal(signal.SIGTERM)
    done(last)


@scenario("the service's unit runs it on one host at a time", sanitizers=False)
def unit(run):
    run.redis(3)
    agents = [run.agent(label) for label in "ab"]
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str
    parser.read(EXAMPLES / "leader.service")
    assert parser["Service"]["KillMode"] == "mixed"
    argv = shlex.split(parser["Service"]["ExecStart"])
    assert argv[0] == "/usr/bin/holdfast" and argv[-2:] == ["/usr/local/bin/app", "--serve"], argv
    argv = [str(BUILD / "bin" / "holdfast"), *argv[1:-2], "sh", "-c", "echo serving; exec sleep 60"]
    first = start(run, *argv, agent=agents[0])
    first.wait_out("serving")
    second = start(run, *argv, agent=agents[1])
    second.wait_err("app/leader is held by .* note systemd unit app; waiting")
    first.signal(signal.SIGTERM)
    done(first, 128 + signal.SIGTERM)
    second.wait_out("serving")
    second.signal(signal.SIGTERM)
    done(second, 128 + signal.SIGTERM)


@scenario("each migration runs once, whoever starts them", sanitizers=False)
def migration(run):
    run.redis(3)
    agents = [run.agent(label) for label in "ab"]
    folder = run.dir / "migrations"
    folder.mkdir()
    for name in ("01-first", "02-second", "03-third"):
        (folder / name).write_text(f"echo {name} >>{run.dir}/ran\nsleep 0.05\n")
    crew = [start(run, EXAMPLES / "migrate.sh", run.dir / "store.db", folder, agent=agents[i % 2]) for i in range(6)]
    said = "".join(done(process) for process in crew)
    assert (run.dir / "ran").read_text().split() == ["01-first", "02-second", "03-third"]
    assert said.count("running ") == 3, said
    (folder / "04-bad").write_text("exit 7\n")
    assert start(run, EXAMPLES / "migrate.sh", run.dir / "store.db", folder).wait() == 7
    (folder / "04-bad").write_text("true\n")
    assert done(start(run, EXAMPLES / "migrate.sh", run.dir / "store.db", folder)) == "running 04-bad\n"


@scenario("the store refuses a holder that woke up too late", sanitizers=False)
def fenced(run):
    run.redis(3)
    run.agent()
    store = [str(EXAMPLES / "fenced_store.py"), str(run.dir / "store.db")]
    late = start(run, BUILD / "bin" / "holdfast", "run", "thing", *store, "put", "x", "1")
    done(late)
    # It reads its number, and is "paused" until another had the lock: a later run hands its old number on.
    old = done(start(run, BUILD / "bin" / "holdfast", "run", "thing", "sh", "-c", "echo $HOLDFAST_FENCE")).strip()
    done(start(run, BUILD / "bin" / "holdfast", "run", "thing", *store, "put", "x", "2"))
    refused = start(run, "env", "HOLDFAST_NAME=thing", f"HOLDFAST_FENCE={old}", *store, "put", "x", "late")
    done(refused, 3)
    assert "refused: thing had a later holder" in refused.err, refused.err
    assert done(start(run, *store, "get", "x")) == "2\n"
    done(start(run, BUILD / "bin" / "holdfast", "run", "other", *store, "put", "y", "3"))  # a lock of its own
    done(start(run, *store, "put", "x", "4"), 1)
    done(start(run, *store, "get", "z"), 1)


@scenario("of the counted workers three work at a time, each with its own licence", sanitizers=False)
def workers(run):
    run.redis(3)
    agents = [run.agent(label) for label in "ab"]
    # With its licence for a directory a worker would find it there if two had the same.
    command(run, "work", f"mkdir {run.dir}/licence$LICENCE || echo twice >>{run.dir}/wrong; sleep 0.2; "
                         f"rmdir {run.dir}/licence$LICENCE; echo $1 >>{run.dir}/done")
    crew = [start(run, EXAMPLES / "workers.sh", "work", *(f"{agent.name}-{i}" for i in range(6)), agent=agent)
            for agent in agents]
    out = "".join(done(process) for process in crew)
    assert len(set((run.dir / "done").read_text().split())) == 12
    assert not (run.dir / "wrong").exists()
    assert set(re.findall(r"licence (\d) of 3", out)) == {"0", "1", "2"}, out


@scenario("readers of a release run beside each other and see one release to their end; whoever puts one is alone", sanitizers=False)
def releases(run):
    run.redis(3)
    agents = [run.agent(label) for label in "ab"]
    target = run.dir / "site"
    for number in range(3):
        source = run.dir / f"release{number}"
        source.mkdir()
        for part in "xyz":
            (source / part).write_text(f"{number}\n")
    done(start(run, EXAMPLES / "release.sh", "put", run.dir / "release0", target, agent=agents[0]))
    reads = ("sh", "-c", 'echo up; for i in 1 2 3 4 5 6 7 8; do cat "$0"/x "$0"/y "$0"/z; sleep 0.05; done | sort -u', target)
    for number in (1, 2):
        readers = [start(run, EXAMPLES / "release.sh", "read", *reads, agent=agents[i % 2]) for i in range(6)]
        for reader in readers[:3]:
            reader.wait_out("up")
        put = start(run, EXAMPLES / "release.sh", "put", run.dir / f"release{number}", target, agent=agents[number % 2])
        saw = {" ".join(set(done(reader).split()) - {"up"}) for reader in readers}
        done(put)
        assert saw <= {str(number - 1), str(number)}, saw
        assert str(number - 1) in saw, "those who read first saw the release before"
    late = start(run, EXAMPLES / "release.sh", "put", run.dir / "release0", target, agent=agents[0])
    done(late)
    fence = (target / ".fence").read_text()
    (target / ".fence").write_text(str(int(fence) * 2) + "\n")
    refused = start(run, EXAMPLES / "release.sh", "put", run.dir / "release1", target, agent=agents[0])
    done(refused, 1)
    assert "a later release is there" in refused.err and (target / "x").read_text() == "0\n"


@scenario("each name has one cell, whoever asks; a new cell takes names from the others, and they exchange none", sanitizers=False)
def cells(run):
    names = [f"job/{i}" for i in range(60)]

    def cell_of(name, *cells):
        return done(start(run, EXAMPLES / "cell_of.sh", name, more={"HOLDFAST_CELLS": " ".join(cells)})).strip()

    two = {name: cell_of(name, "cell1", "cell2") for name in names}
    three = {name: cell_of(name, "cell3", "cell1", "cell2") for name in names}
    assert set(two.values()) == {"cell1", "cell2"} and set(three.values()) == {"cell1", "cell2", "cell3"}, (two, three)
    assert all(three[name] in (two[name], "cell3") for name in names), (two, three)
    assert start(run, EXAMPLES / "cell_of.sh", "x").wait() != 0
    nodes = run.redis(6)
    fleets = {"cell1": nodes[:3], "cell2": nodes[3:]}
    hosts = [{cell: run.agent(f"{host}-{cell}", nodes=[node.spec for node in fleet]) for cell, fleet in fleets.items()} for host in "ab"]
    held = [next(name for name in names if two[name] == cell) for cell in fleets]
    for name in held:
        job = start(run, BUILD / "bin" / "holdfast", "run", name, "sh", "-c", "echo runs; exec sleep 60", agent=hosts[0][two[name]])
        job.wait_out("runs")
        other = start(run, BUILD / "bin" / "holdfast", "run", "-n", name, "true", agent=hosts[1][two[name]])
        done(other, 75)
        job.signal(signal.SIGTERM)
        done(job, 128 + signal.SIGTERM)


# --- docs/OPERATIONS.md


def guide():
    return (ROOT / "docs" / "OPERATIONS.md").read_text()


def secret(run, name):
    path = run.dir / name
    path.write_text("PASSWORD\n")
    path.chmod(0o600)
    return path


def blocks():
    return re.findall(r"^```\n(.*?)^```$", guide(), re.M | re.S)


@scenario("the operations guide names each alert once, and no other")
def alerts(run):
    rules = (ROOT / "packaging" / "prometheus" / "holdfast.rules.yml").read_text()
    assert sorted(re.findall(r"^\| `(Holdfast\w+)` \|", guide(), re.M)) == sorted(re.findall(r"- alert: (\w+)", rules))


@scenario("the operations guide gives the rights that the manual gives")
def least_rights(run):
    line, = re.findall(r"^user holdfast on >PASSWORD (.*)$", guide(), re.M)
    manual, = re.findall(r"^ACL SETUSER holdfast on >PASSWORD (.*)$", (ROOT / "docs" / "man" / "holdfastd.8").read_text(), re.M)
    assert line == manual


@scenario("the agent takes the configurations of the operations guide", sanitizers=False)
def configurations(run):
    found = re.findall(r"^# cat >(\S*\.conf) <<'END'\n(system = yes\n.*?)^END$", guide(), re.M | re.S)
    assert len(found) >= 2
    for path, text in found:
        conf = run.dir / pathlib.Path(path).name
        text = re.sub(r"(?m)^(password_file) = (.*)", lambda found: f"{found[1]} = {secret(run, pathlib.Path(found[2]).name)}", text)
        conf.write_text(text)
        conf.chmod(0o600)
        done(start(run, BUILD / "bin" / "holdfastd", "--check-config", conf, "--offline", "--name", f"{run.id}-{conf.stem}"))


@scenario("the command and the agent know the options that the operations guide gives them", sanitizers=False)
def options(run):
    commands = [line for block in blocks() for line in re.findall(r"^[#$] (.*)$", block, re.M)]
    known = {}
    for program, rest in re.findall(r"(?:^|\|\| |&& )(holdfastd?) ([^|&;\n]*)", "\n".join(commands), re.M):
        words = rest.split(" -- ")[0].split()
        name = " ".join([program, *re.match(r"(?:fleet [a-z][a-z-]+|\S*)", " ".join(words))[0].split()]) if program == "holdfast" else program
        if name not in known:
            argv = [BUILD / "bin" / program, *name.split()[1:], "--help"]
            known[name] = done(start(run, *argv))
        for option in re.findall(r"(?<!\S)--[a-z-]+", " ".join(words)):
            assert option in known[name], f"{name} knows no {option}"
    assert {"holdfastd", "holdfast run", "holdfast fleet move", "holdfast drain"} <= set(known), known.keys()


class Host:
    """A host on which the guide's commands are given."""

    def __init__(self, run, label):
        self.run, self.label = run, label
        self.units = run.dir / f"{label}.units"
        self.conf = run.dir / f"{label}.conf"
        self.write("")

    def write(self, more):
        self.conf.write_text("\n".join(["ttl = 2s", "ttl_max = 2s", *(f"node = {node.spec}" for node in self.run.nodes), more]) + "\n")
        self.conf.chmod(0o600)

    def start(self):
        given = re.findall(r"^ExecStart=/usr/sbin/holdfastd --system (.+)$", "".join(unit.read_text() for unit in self.units.glob("*.conf")), re.M)
        self.agent = self.run.agent(self.label, nodes=[], fresh=False, options=["--config", self.conf, *given], wait=False)
        return given

    def follow(self, command):
        for part in command.split(" && "):
            words = shlex.split(part)
            if words[0] == "holdfast":
                wait_until(lambda: self.run.holdfast(*words[1:], agent=self.agent).rc == 0, 30, what=part)
            elif words[:2] == ["systemctl", "stop"]:
                self.agent.stop()
            elif words[:2] == ["systemctl", "start"]:
                assert self.start() == ["--reset-fleet"]
            elif words[0] != "systemctl":
                subprocess.run(part.replace("/run/systemd/system/holdfastd.service.d", str(self.units)), shell=True, check=True)


@scenario("the operations guide resets a fleet, command by command: its hosts go by the new key format, and no lock is held meanwhile", sanitizers=False)
def reset_fleet(run):
    run.redis(3)
    hosts = [Host(run, label) for label in "ab"]
    for host in hosts:
        host.start()
        host.agent.wait_ready()
    steps = re.findall(r"^# (.*)$", re.search(r"^## Other key formats$(.*?)^## ", guide(), re.M | re.S)[1], re.M)
    assert len(steps) == 8, steps
    job = start(run, BUILD / "bin" / "holdfast", "run", "job", "--", "sleep", "2", agent=hosts[0].agent)
    wait_until(lambda: run.nodes[0].get("job"), what="the job runs")
    for step in steps:
        for host in hosts:
            host.follow(step)
        if step.startswith("systemctl stop"):
            done(job)
            assert not run.nodes[0].get("job")
            for host in hosts:
                host.write("key_format = new:%s")
            time.sleep(1.02 * 2 + 1)
    for host in hosts:
        host.agent.wait_ready()
    holder = run.holder(hosts[0].agent)
    holder.acquire("job", 0, 5000)
    wait_until(lambda: run.nodes[0].get("new:job"), what="the key has the new format")
    assert run.holdfast("run", "-n", "job", "true", agent=hosts[1].agent).rc == 75
    holder.release()
    for host in hosts:
        host.agent.stop()
        assert host.start() == []
        host.agent.wait_ready()
        assert run.holdfast("run", "-n", "job", "true", agent=host.agent).rc == 0


@scenario("what the operations guide shows on the screen is what commands say", sanitizers=False)
def symptoms(run):
    text = guide()

    def says(words, result, rc):
        assert words in text, f"the guide does not have: {words}"
        assert result.rc == rc and words in result.out + result.err, (words, result)

    def check(node, words, rc=78):
        argv = run.agent_argv("checked", nodes=[node], fresh=False, options=("--check-config", conf))
        process = run.spawn(*argv, label="check")
        says(words, Result(process.wait(), process.out, process.err), rc)

    nodes = run.redis(3)
    conf = run.dir / "holdfast.conf"
    conf.write_text("")
    conf.chmod(0o600)
    agent = run.agent(ttl="10s")
    holder = run.holder()
    holder.acquire("job")
    says("is held by", run.holdfast("run", "-n", "job", "true"), 75)
    says("this host is drained: it grants no lock until holdfast undrain", run.holdfast("drain"), 0)
    says(": it grants no lock until holdfast undrain", run.holdfast("run", "-n", "other", "true"), 69)
    says("this host grants locks again; it was drained since ", run.holdfast("undrain"), 0)
    says("set ttl to ", run.holdfast("fleet", "ttl-max", "5s"), 78)
    says("no server answers at ", run.holdfast("fleet", "move", f"{nodes[0].id}=127.0.0.1:1"), 78)
    agent.sigstop()
    wait_until(lambda: run.holdfast("status").rc == 3, what="it is seen to hang")
    says("is not answering: last sign of life ", run.holdfast("status"), 3)
    agent.sigcont()
    wait_until(lambda: run.holdfast("status").rc == 0, what="it goes on")
    nodes[2].stop()
    wait_until(lambda: re.search(r"\n\S+ +down ", run.holdfast("status").out), what="the node is down")
    says("answer first; or, if that server is stopped for good, say --old-server-dead ", run.holdfast("fleet", "remove", nodes[2].id), 75)
    nodes[1].stop()
    wait_until(lambda: run.holdfast("run", "-n", "other", "true").rc == 69, what="no majority")
    says("1 of 3 nodes may vote, 2 are needed; 2 down", run.holdfast("run", "-n", "other", "true"), 69)
    holder.close()
    agent.stop()
    says("no agent answers at ", run.holdfast("run", "-n", "other", "true"), 69)
    says(" was stopped ", run.holdfast("status"), 3)
    assert run.holdfast("doctor", "--clean").rc == 3
    says("start holdfastd, or name another agent with --agent: no agent", run.holdfast("status"), 69)

    alone = Redis(run, "alone", tcp=True).start()
    check("alone=127.0.0.1:1", "does not answer: Connection refused", 69)
    alone.cmd("CONFIG", "SET", "maxmemory", "100mb", "maxmemory-policy", "allkeys-lru")
    check(alone, "its maxmemory-policy may evict locks; set noeviction, or allow_eviction with the weaker contract")
    alone.cmd("CONFIG", "SET", "maxmemory-policy", "noeviction")
    alone.cmd("ACL", "SETUSER", "default", "-evalsha")
    check(alone, "+evalsha: its user lacks these rights")
    alone.cmd("ACL", "SETUSER", "default", "+evalsha")
    conf.write_text("nod = x\n")
    check(alone, "there is no setting 'nod'; did you mean 'node'?")


@scenario("the scripts are sound", sanitizers=False)
def sound(run):
    for path in EXAMPLES.glob("*.sh"):
        subprocess.run(["bash" if path.read_text().startswith("#!/usr/bin/env bash\n") else "sh", "-n", path], check=True)
    for path in EXAMPLES.glob("*.py"):
        compile(path.read_text(), path, "exec")
    named = (EXAMPLES / "README.md").read_text()
    for path in EXAMPLES.iterdir():
        assert path.name == "README.md" or f"({path.name})" in named, f"docs/examples/README.md does not name {path.name}"


if __name__ == "__main__":
    main()
