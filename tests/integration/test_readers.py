#!/usr/bin/env python3
"""status, list, show, check, nodes, release and doctor: on an agent that is well, stopped, killed, or not there, and
on tables that are not what they should be.
"""
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from rig import BUILD, OTHER_UID, ROOT, SLOW, main, scenario, wait_until  # noqa: E402

HOLDFAST = BUILD / "bin" / "holdfast"
READERS = (["status"], ["list"], ["show", "x"], ["nodes"], ["held", "x"])
NASTY = b"a\0b\nc\x1b[2J"
NASTY_SHOWN = r"a\x00b\nc\x1b[2J"


def ready(run, nodes=3, **options):
    run.redis(nodes)
    return run.agent(**options)


def names(result):
    return [lease["name"] for lease in result.json["leases"]]


def one_line(text):
    """A message for people: one line, nothing that a terminal obeys."""
    assert text.endswith("\n") and text.count("\n") == 1 and text[:-1].isprintable(), repr(text)
    return text


def table_path(agent):
    uid = os.geteuid()
    return pathlib.Path(f"/dev/shm/holdfast{f'-{uid}' if uid else ''}.{agent}")


def findings(result, check):
    return [finding for finding in result.json["findings"] if finding["check"] == check]


def level(result, check):
    levels = {finding["level"] for finding in findings(result, check)}
    assert len(levels) == 1, (check, result.json)
    return levels.pop()


# --- an agent that is well -----------------------------------------------------------------------------


@scenario("status shows agent, nodes and leases, for people and as JSON")
def status_alive(run):
    agent = ready(run)
    holder = run.holder()
    holder.acquire("db/migrate")
    result = run.holdfast("status")
    assert result.rc == 0 and result.err == "", result
    for part in (agent.name, "alive", f"pid {agent.pid}", "renewal", "3 of 3 vote", "db/migrate", str(holder.pid)):
        assert part in result.out, (part, result.out)
    facts = run.holdfast("status", "--json").json
    assert facts["agent"]["state"] == "alive" and facts["agent"]["pid"] == agent.pid
    assert facts["agent"]["quorum"] == 2 and facts["counters"]["leases"] == 1
    assert facts["totals"] == {"leases": 1, "late": 0, "losing": 0}, facts
    assert all(age < 3000 * SLOW for age in facts["agent"]["heartbeat_age_ms"].values()), facts["agent"]
    assert [node["id"] for node in facts["nodes"]] == ["n1", "n2", "n3"]
    assert all(node["votes"] and node["version"] for node in facts["nodes"]), facts["nodes"]
    lease, = facts["leases"]
    assert lease["name"] == "db/migrate" and lease["pid"] == holder.pid and lease["state"] == "held"
    assert 0 < lease["left_ms"] <= lease["ttl_ms"] and lease["votes"] >= 2


@scenario("list shows leases in force by prefix, and those that are over when asked")
def list_leases(run):
    ready(run)
    holder = run.holder()
    for name in ("a/1", "a/2", "b/1"):
        holder.acquire(name)
    assert sorted(names(run.holdfast("list", "--json"))) == ["a/1", "a/2", "b/1"]
    assert sorted(names(run.holdfast("list", "--json", "a/"))) == ["a/1", "a/2"]
    assert names(run.holdfast("list", "--json", "a/1x")) == []
    holder.release()
    assert sorted(names(run.holdfast("list", "--json"))) == ["a/1", "a/2"]
    result = run.holdfast("list", "b")
    assert result.rc == 0 and result.out.count("\n") == 1 and result.out.startswith("NAME"), result


@scenario("fences are text in JSON, and the same as the job's HOLDFAST_FENCE")
def fences(run):
    ready(run)
    result = run.holdfast("run", "job", "sh", "-c", f"echo $HOLDFAST_FENCE; {HOLDFAST} show --json job")
    fence, _, shown = result.out.partition("\n")
    assert json.loads(shown)["fence"] == fence and int(fence) > 0, result


@scenario("names with NUL, newline and escape sequences are printed escaped, and found with -e")
def nasty_names(run):
    ready(run)
    holder = run.holder()
    holder.acquire(NASTY)
    for command in (["status"], ["list"], ["show", "-e", NASTY_SHOWN]):
        result = run.holdfast(*command)
        assert result.rc == 0 and NASTY_SHOWN in result.out, result
        assert "\x1b" not in result.out and "\0" not in result.out, result
    assert names(run.holdfast("list", "--json")) == [NASTY.decode()]
    assert names(run.holdfast("list", "--json", "-e", r"a\x00")) == [NASTY.decode()]
    assert run.holdfast("show", "--json", "-e", NASTY_SHOWN).json["name"] == NASTY.decode()
    assert run.holdfast("show", NASTY_SHOWN).rc == 3  # another name: with a backslash
    result = run.holdfast("release", "-e", NASTY_SHOWN)
    assert result.rc == 0 and NASTY_SHOWN in one_line(result.out), result


@scenario("a name that is not UTF-8 is escaped in JSON, with its bytes beside it")
def not_utf8(run):
    ready(run)
    holder = run.holder()
    holder.acquire(b"\xff\xfe")
    lease, = run.holdfast("list", "--json").json["leases"]
    assert lease["name"] == r"\xff\xfe" and lease["name_hex"] == "fffe", lease


@scenario("show: everything on one lease; 3 for one that is not held here, a lost one with its reason")
def show(run):
    ready(run, ttl="2s")
    holder = run.holder()
    holder.acquire("job")
    result = run.holdfast("show", "job")
    assert result.rc == 0 and f"pid {holder.pid}" in result.out and "fence" in result.out, result
    assert run.show("job")["held"] is True
    result = run.holdfast("show", "other")
    assert result.rc == 3 and result.out == "" and "other is not held" in one_line(result.err), result
    for node in run.nodes:
        node.cmd("SET", "job", "another's")
    # The word falls first: for an instant it has lapsed, and nobody says why.
    result = wait_until(lambda: (r := run.holdfast("show", "--json", "job")).rc == 3 and r.json["state"] != "lapsed" and r,
                        what="the loss")
    lost = result.json
    assert lost["held"] is False and lost["state"] == "lost" and lost["reason"] == "foreign", lost
    assert "another holder's keys" in run.holdfast("show", "job").out


@scenario("check: 0 for the holder's descendants, 3 for anybody else, silent with -q")
def check(run):
    ready(run)
    code = ("import subprocess, sys; "
            f"print(subprocess.run(['setsid', '-w', '{HOLDFAST}', 'held', '-q', 'job']).returncode)")
    result = run.holdfast("run", "job", sys.executable, "-c", code)
    assert result.out == "0\n", result
    holder = run.holder()
    holder.acquire("job")
    result = run.holdfast("held", "job")
    assert result.rc == 3 and f"pid {holder.pid}" in one_line(result.err), result
    result = run.holdfast("held", "-q", "job")
    assert (result.rc, result.out, result.err) == (3, "", ""), result
    result = run.holdfast("held", "other")
    assert result.rc == 3 and "not held" in one_line(result.err), result


@scenario("every member, check and word of the JSON output is in docs/JSON.md")
def documented(run):
    ready(run)
    run.holder().acquire(b"\xff")
    words = set()
    for command in ("status", "doctor"):
        collect(run.holdfast(command, "--json").json, words)
    documented = set(re.findall(r"`([a-z_.]+)`", (ROOT / "docs" / "JSON.md").read_text()))
    assert len(words) > 60 and words <= documented, words - documented


def collect(value, words):
    """Keys, and the values that come from a list of words."""
    if isinstance(value, list):
        for element in value:
            collect(element, words)
    elif isinstance(value, dict):
        for key, element in value.items():
            words.add(key)
            if key in ("state", "process", "level", "check"):
                words.add(element)
            elif key != "counters":
                collect(element, words)


# --- release -------------------------------------------------------------------------------------------


@scenario("release asks the holder to stop: its lease is losing, and a job gets its signal")
def release(run):
    ready(run)
    holder = run.holder()
    holder.acquire("mine")
    result = run.holdfast("release", "mine")
    assert result.rc == 0 and f"asked pid {holder.pid} " in one_line(result.out) and "until" in result.out, result
    lease = run.show("mine")
    assert lease["state"] == "losing" and lease["reason"] == "asked" and lease["held"], lease
    job = run.start_holdfast("run", "job", "sh", "-c", "echo up; exec sleep 100")
    job.wait_out("up")
    assert run.holdfast("release", "job").rc == 0
    assert job.wait() == 124, job.err
    run.keys_gone("job")


@scenario("release of what nobody holds is 3, here and with --force on any host")
def release_nothing(run):
    ready(run)
    result = run.holdfast("release", "job")
    assert result.rc == 3 and "nobody on this host holds job" in one_line(result.err), result
    result = run.holdfast("release", "--force", "job")
    assert result.rc == 3 and "nobody on any host holds job" in one_line(result.err), result


@scenario("another user sees the system's leases, and is not allowed to stop them", needs_root=True)
def another_user(run):
    run.redis(3)
    agent = run.agent(options=["--system"])
    run.holder().acquire("job")
    env = {"HOLDFAST_AGENT": run.runtime_dir / agent.name / "sock"}
    result = run.holdfast("list", "--json", uid=OTHER_UID, env=env)
    assert result.rc == 0 and names(result) == ["job"], result
    assert run.holdfast("status", uid=OTHER_UID, env=env).rc == 0
    result = run.holdfast("release", "job", uid=OTHER_UID, env=env)
    assert result.rc == 77 and "job" in one_line(result.err), result
    assert run.show("job")["state"] == "held"


@scenario("an agent whose socket or whole directory was removed: status and doctor say that no program can attach, and a restart helps")
def shut(run):
    agent = ready(run)
    holder = run.holder()
    holder.acquire("kept")
    directory = run.runtime_dir / agent.name
    time.sleep(1.1)
    assert run.holdfast("status").rc == 0 and level(run.holdfast("doctor", "--json"), "agent.directory") == "ok"
    (directory / "sock").rename(directory / "away")
    for gone in ("the socket", "the directory"):
        if gone == "the directory":
            shutil.rmtree(directory)
        status, doctor = run.holdfast("status"), run.holdfast("doctor")
        assert status.rc == 3 and "kept" in status.out, status
        assert f"pid {agent.pid}" in one_line(status.err) and f"nothing listens at {directory}/sock; restart" in status.err, status
        assert doctor.rc == 3 and "fail  agent.directory" in doctor.out and f"{directory}/sock" in doctor.out, doctor
        assert run.holdfast("run", "-n", "job", "true").rc == 69
    assert holder.held()


# --- an agent that does not answer ---------------------------------------------------------------------


@scenario("a stopped agent: status says so with the age, and everything can still be read")
def stopped_agent(run):
    agent = ready(run)
    holder = run.holder()
    holder.acquire("job")
    agent.sigstop()
    time.sleep(1.2)
    result = run.holdfast("status")
    assert result.rc == 3 and f"(pid {agent.pid} is stopped)" in one_line(result.err), result
    assert "is not answering: last sign of life 1." in result.err or SLOW > 1, result
    assert "job" in result.out
    facts = run.holdfast("status", "--json")
    assert facts.rc == 3 and facts.json["agent"]["state"] == "hung", facts
    assert facts.json["agent"]["last_sign_age_ms"] >= 1000
    for command in (["list"], ["nodes"]):
        result = run.holdfast(*command)
        assert result.rc == 0 and "not answering" in one_line(result.err), result
    assert run.holdfast("show", "job").rc == 0
    result = run.holdfast("doctor", "--json")
    assert result.rc == 3 and level(result, "agent.alive") == "fail", result
    agent.sigcont()
    wait_until(lambda: run.holdfast("status").rc == 0, what="the agent is alive again")


@scenario("another user reads the table of the system's agent, wherever its directory is, while it hangs", needs_root=True)
def systems_agent_hangs(run):
    agent = ready(run, system=True)
    run.dir.chmod(0o755)
    run.runtime_dir.chmod(0o755)
    run.holder(uid=None).acquire("job")
    agent.sigstop()
    for uid in (OTHER_UID, None):
        wait_until(lambda: run.holdfast("status", uid=uid).rc == 3, what="the agent is seen to hang")
        assert names(run.holdfast("list", "--json", uid=uid)) == ["job"]
        assert run.holdfast("show", "job", uid=uid).rc == 0
        result = run.holdfast("doctor", "--json", uid=uid)
        assert "is not answering" in findings(result, "agent.alive")[0]["text"], result
    elsewhere = run.dir / "elsewhere"  # root's socket of that name, and another agent's
    (elsewhere / agent.name).mkdir(parents=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as other:
        other.bind(str(elsewhere / agent.name / "sock"))
        (elsewhere / agent.name / "sock").chmod(0o666)
        result = run.holdfast("status", uid=OTHER_UID, env={"HOLDFAST_RUNTIME_DIR": elsewhere})
    assert result.rc == 69, result
    agent.sigcont()


@scenario("a killed agent: the lease that is left counts until its deadline, for check too, and no longer")
def killed_agent(run):
    agent = ready(run, ttl="4s")
    code = ("echo up; while :; do "
            f"{HOLDFAST} held -q job || echo not $?; sleep 0.1; done")
    job = run.start_holdfast("run", "job", "sh", "-c", code)
    job.wait_out("up")
    holder = run.holder()
    holder.acquire("other")
    agent.kill()
    result = run.holdfast("status")
    assert result.rc == 3 and f"(pid {agent.pid} is gone)" in one_line(result.err), result
    assert run.holdfast("status", "--json").json["agent"]["state"] == "dead"
    assert sorted(names(run.holdfast("list", "--json"))) == ["job", "other"]
    assert run.holdfast("show", "other").rc == 0
    assert job.wait() == 124, job.err
    assert "not" not in job.out, job.out  # the job held it to its end
    wait_until(lambda: names(run.holdfast("list", "--json")) == [], what="both lapse")
    assert sorted(names(run.holdfast("list", "--json", "--all"))) == ["job", "other"]
    assert run.holdfast("show", "--json", "other").json["state"] == "lapsed"
    assert run.holdfast("held", "other").rc == 3


@scenario("a dead agent: no command says what its nodes are now, only what they were")
def nodes_are_unknown(run):
    agent = ready(run)
    run.holder().acquire("job")
    nodes = run.holdfast("status", "--json").json["nodes"]
    assert all(n["state"] == n["last_state"] == "up" and n["votes"] and n["last_votes"] for n in nodes), nodes
    agent.kill()
    for command in ("status", "nodes"):
        nodes = run.holdfast(command, "--json").json["nodes"]
        assert all((n["state"], n["votes"], n["last_state"], n["last_votes"]) == ("unknown", False, "up", True) for n in nodes), nodes
    for command in (("status",), ("nodes",), ("top", "--count", "1"), ("doctor",)):
        out = run.holdfast(*command).out
        assert "was up" in out and not re.search(r"\d vote\b|nodes vote\b|nodes may vote, | is up|state +up|^n\d +up", out, re.M), out
    count = len(nodes)
    assert f"nodes     unknown, the agent is dead; {count} of {count} voted " in run.holdfast("status").out
    seen, = [a for a in run.holdfast("agents", "--json").json["agents"] if a["name"] == agent.name]
    assert seen["voting"] is None and f" -/{count} " in run.holdfast("agents").out, seen


@scenario("an agent that ended clean with leases is said to be stopped")
def ended_agent(run):
    agent = ready(run)
    holder = run.holder()
    holder.acquire("job")
    agent.stop()
    result = run.holdfast("status")
    assert result.rc == 3 and f"agent {agent.name} was stopped" in one_line(result.err), result
    assert names(run.holdfast("list", "--json")) == ["job"]
    assert "nodes     unknown, the agent is ended; " in run.holdfast("status").out


@scenario("no agent: every command says so, with 69, and check with 4")
def no_agent(run):
    env = {"HOLDFAST_AGENT": f"{run.tag}-none"}
    for command in READERS:
        result = run.holdfast(*command, env=env)
        assert result.rc == (4 if command[0] == "held" else 69), result
        assert result.out == "" and f"{run.tag}-none" in one_line(result.err), result
    assert run.holdfast("release", "x", env=env).rc == 69
    result = run.holdfast("doctor", env=env)
    assert result.rc == 3 and "fail  agent.alive" in result.out, result


# --- bad words, bad tables -----------------------------------------------------------------------------


@scenario("bad names and options are 64")
def usage(run):
    for command in ("show", "held", "release"):
        for name in ("", "x" * 256, "holdfast:node"):
            result = run.holdfast(command, name)
            assert result.rc == 64 and command in one_line(result.err), result
        assert run.holdfast(command).rc == 64
        assert run.holdfast(command, "a", "b").rc == 64
        assert run.holdfast(command, "-e", r"bad\q").rc == 64
    for command in ("status", "list", "nodes", "doctor", "show", "held", "release"):
        result = run.holdfast(command, "--no-such-option")
        assert result.rc == 64 and f"holdfast {command}:" in result.err, result
        result = run.holdfast(command, "--help")
        assert result.rc == 0 and result.out.startswith(f"Usage: holdfast {command}") and result.err == "", result
    assert run.holdfast("list", "x" * 256).rc == 64
    for command in READERS:
        result = run.holdfast(*command, "--agent", "not/../a name")
        assert result.rc in (64, 4, 69), result
        result = run.holdfast(*command, "--agent", "no\nname")
        assert result.rc == 64 and r"no\nname" in one_line(result.err), result


def refuses(run, agent, code, words):
    for command in READERS:
        result = run.holdfast(*command, env={"HOLDFAST_AGENT": agent})
        assert result.rc == (4 if command[0] == "held" else code), result
        assert words in one_line(result.err), result
    result = run.holdfast("doctor", "--json", env={"HOLDFAST_AGENT": agent})
    assert result.rc == 3 and level(result, "agent.table") == "fail", result
    assert words in findings(result, "agent.table")[0]["text"], result


@scenario("a table that another user squats is refused, naming the owner", needs_root=True)
def squatted(run):
    agent = ready(run)
    path = table_path(f"{run.tag}-squat")
    shutil.copyfile(table_path(agent.name), path)
    os.chmod(path, 0o644)
    os.chown(path, OTHER_UID, OTHER_UID)
    refuses(run, f"{run.tag}-squat", 125, f"belongs to uid {OTHER_UID}")


@scenario("a link, a pipe and a table that others may write to are refused")
def not_a_table(run):
    agent = ready(run)
    path = table_path(f"{run.tag}-other")
    path.symlink_to(table_path(agent.name))
    refuses(run, f"{run.tag}-other", 125, "squats the name")
    path.unlink()
    os.mkfifo(path)
    refuses(run, f"{run.tag}-other", 125, "a named pipe")
    path.unlink()
    shutil.copyfile(table_path(agent.name), path)
    path.chmod(0o666)
    refuses(run, f"{run.tag}-other", 125, "others could have written")


@scenario("a truncated table, one of another version and one that is none are refused")
def damaged(run):
    agent = ready(run)
    good = table_path(agent.name).read_bytes()
    path = table_path(f"{run.tag}-bad")

    def put(data):
        path.write_bytes(data)
        path.chmod(0o644)

    put(good)
    assert run.holdfast("list", env={"HOLDFAST_AGENT": f"{run.tag}-bad"}).rc == 0
    for size in (0, 100, 4096, len(good) // 2):
        put(good[:size])
        refuses(run, f"{run.tag}-bad", 125, f"/dev/shm/{path.name}")
    put(good[:8] + struct.pack("<H", 99) + good[10:])
    refuses(run, f"{run.tag}-bad", 125, "version 99")
    put(b"x" * len(good))
    refuses(run, f"{run.tag}-bad", 125, "not a Holdfast table")


@scenario("a full disk behind stdout is a failure, and no half a list is taken for a whole one")
def output_full(run):
    ready(run)
    with open("/dev/full", "wb") as full:
        for command in (["status"], ["list"], ["nodes", "--json"], ["doctor"]):
            process = run.start_holdfast(*command, stdout=full)
            assert process.wait() == 125 and "cannot write" in process.err, process.err


# --- nodes and doctor ----------------------------------------------------------------------------------


@scenario("nodes: one that is down is named with its error, and doctor with what to do")
def node_down(run):
    ready(run)
    run.nodes[1].kill()

    def down():
        nodes = run.holdfast("nodes", "--json").json["nodes"]
        return nodes[1]["state"] in ("down", "connecting") and nodes[1]["error"] and nodes

    nodes = wait_until(down, what="the node is down")
    assert [node["votes"] for node in nodes] == [True, False, True], nodes
    assert nodes[1]["error_class"] in ("connect", "broken"), nodes[1]
    result = run.holdfast("nodes")
    assert result.rc == 0 and "n2" in result.out and "error" in result.out, result
    assert "2 of 3 vote" in run.holdfast("status").out
    result = run.holdfast("doctor", "--json")
    assert result.rc == 3 and level(result, "nodes.quorum") == "ok", result
    bad, = [f for f in findings(result, "node.state") if f["level"] != "ok"]
    assert bad["text"].startswith("n2 is") and bad["remedy"], bad


@scenario("nodes: a quarantine is shown with its reason and what is left of it")
def quarantine(run):
    run.redis(3)
    run.agent(fresh=False, wait=False)

    def quarantined():
        result = run.holdfast("nodes", "--json")
        return result.rc == 0 and all(n["state"] == "quarantined" and "age" in n["quarantine_reasons"]
                                      for n in result.json["nodes"]) and result.json

    nodes = wait_until(quarantined, what="all nodes are in quarantine for their age")["nodes"]
    assert all(0 < node["quarantine_left_ms"] <= 62200 for node in nodes), nodes
    assert "votes again in" in run.holdfast("nodes").out
    result = run.holdfast("doctor", "--json")
    assert result.rc == 3 and level(result, "nodes.quorum") == "fail", result


@scenario("doctor: all is well with three good nodes, and says what it cannot see")
def doctor_well(run):
    ready(run)
    result = run.holdfast("doctor", "--json")
    levels = [f for f in result.json["findings"] if f["level"] not in ("ok", "note")]
    assert not levels or SLOW > 1, levels
    assert result.rc == (3 if levels else 0), result
    assert level(result, "agent.alive") == "ok" and level(result, "limits.pause") == "note"
    assert "alive" in run.holdfast("doctor").out


def clock_findings(run, timex):
    result = run.holdfast("doctor", "--json", env={"LD_PRELOAD": BUILD / "tests" / "slewed.so", "HOLDFAST_SLEWED": timex})
    return [f for f in result.json["findings"] if f["check"] == "host.clock"]


@scenario("doctor: a host's clock that is slewed faster than locks allow for", sanitizers=False)
def doctor_slewed(run):
    ready(run)
    for timex in ("10000 0 1", "10000 -6553600 1", "9990 0 1", "10040 32768000 1"):  # up to 4500 ppm
        assert [f["level"] for f in clock_findings(run, timex)] == ["ok"], timex
    for timex, percent in (("10833 2184533 1", "8.33 %"), ("9167 0 1", "-8.33 %"), ("10060 0 1", "0.60 %")):
        finding, = clock_findings(run, timex)
        assert finding["level"] == "warn" and percent in finding["text"] and "maxslewrate" in finding["remedy"], finding
    synced, unsynced = clock_findings(run, "10000 0 64")
    assert synced["level"] == "ok" and unsynced["level"] == "note", unsynced
    finding, = clock_findings(run, "refused")
    assert finding["level"] == "note" and "cannot be read" in finding["text"], finding


@scenario("doctor: an even number of nodes, one listed twice, and one that may evict")
def doctor_nodes(run):
    first, second, third = run.redis(3)
    third.cmd("CONFIG", "SET", "maxmemory", "100mb")
    third.cmd("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    again = f"again=unix:{first.dir}/./sock"
    run.agent(nodes=[first.spec, second.spec, third.spec, again], wait=False)

    def judged():
        result = run.holdfast("nodes", "--json")
        nodes = result.json["nodes"] if result.rc == 0 else []
        return {node["refusal"] for node in nodes} >= {"duplicate", "eviction"} and nodes

    wait_until(judged, what="both are refused")
    result = run.holdfast("doctor", "--json")
    assert result.rc == 3 and level(result, "nodes.count") == "warn", result
    remedies = " ".join(f["remedy"] or "" for check in ("node.state", "node.twins") for f in findings(result, check))
    assert "noeviction" in remedies and "list each server once" in remedies, remedies


@scenario("doctor: what killed agents left is named, and --clean removes it once no lease is in force")
def doctor_leftovers(run):
    agent = run.dev_agent()
    holder = run.holder(agent)
    holder.acquire("job", 3000)
    dev_dir, = (run.runtime_dir / agent.name).glob("dev-*")
    assert level(run.holdfast("doctor", "--json"), "leftovers") == "ok"
    agent.kill()
    result = run.holdfast("doctor", "--json", "--clean")
    assert result.rc == 3 and "still in force" in findings(result, "leftover.table")[0]["text"], result
    assert table_path(agent.name).exists() and not dev_dir.exists()
    assert level(result, "leftover.nodes") == "ok", result
    wait_until(lambda: names(run.holdfast("list", "--json")) == [], what="the lease lapses")
    result = run.holdfast("doctor", "--json")
    assert level(result, "leftover.table") == "note" and table_path(agent.name).exists(), result
    assert "--clean" in findings(result, "leftover.table")[0]["remedy"]
    result = run.holdfast("doctor", "--json", "--clean")
    assert level(result, "leftover.table") == "ok" and not table_path(agent.name).exists(), result


@scenario("doctor --clean leaves a living and a stopped agent alone")
def doctor_clean_alive(run):
    agent = run.dev_agent()
    agent.sigstop()
    result = run.holdfast("doctor", "--json", "--clean")
    assert level(result, "leftovers") == "ok" and level(result, "agent.alive") == "fail", result
    agent.sigcont()
    wait_until(lambda: run.holdfast("status").rc == 0, what="the agent is alive again")
    assert run.holdfast("run", "-n", "job", "true").rc == 0


@scenario("doctor --clean leaves an agent alone whose process and directory it cannot see, and that is silent")
def doctor_clean_unseen(run):
    agent = run.dev_agent()
    agent.sigstop()
    with table_path(agent.name).open("r+b") as table:  # as from another PID namespace
        table.seek(136)
        table.write(struct.pack("=I", 0x3fffffff))
    elsewhere = run.dir / "elsewhere"
    elsewhere.mkdir()
    env = {"HOLDFAST_RUNTIME_DIR": elsewhere}
    result = run.holdfast("doctor", "--json", "--clean", env=env)
    assert level(result, "leftovers") == "ok", result
    assert table_path(agent.name).exists()
    agent.sigcont()
    wait_until(lambda: run.holdfast("status").rc == 0, what="the agent is alive again")


if __name__ == "__main__":
    main()
