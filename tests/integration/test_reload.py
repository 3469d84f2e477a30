#!/usr/bin/env python3
"""The configuration is read again while locks are held: what is applied, what is refused, and that nothing is lost."""
import os
import pathlib
import re
import signal
import socket
import stat
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from events import history  # noqa: E402
from manager import Manager  # noqa: E402
from rig import OTHER_UID, HolderError, Redis, Resp, free_port, main, scenario, wait_until  # noqa: E402
from views import counters, node_rows, wait_node  # noqa: E402

ELIMIT = "the limit"


class File:
    """A configuration file: one line for each setting, a list for each node."""

    def __init__(self, run, **settings):
        self.path = run.dir / "agent.conf"
        self.nodes = {node.id: node.address for node in run.nodes}
        self.settings = {"ttl": "10s", "ttl_max": "20s", **settings}
        self.write()

    def text(self):
        return "".join([f"node = {node_id}={address}\n" for node_id, address in self.nodes.items()] +
                       [f"{key} = {value}\n" for key, value in self.settings.items() if value is not None])

    def write(self, text=None, **settings):
        self.settings.update(settings)
        new = self.path.with_suffix(".new")
        new.write_text(self.text() if text is None else text)
        new.rename(self.path)


def begin(run, count=3, options=(), env=None, nodes=None, uid=None, **settings):
    """Nodes, a file, an agent that reads it."""
    if nodes is None:
        run.redis(count)
    file = File(run, **settings)
    if uid is not None:
        run.runtime_dir.chmod(0o777)
    agent = run.agent(nodes=[], options=("--config", file.path, *options), env=env, uid=uid)
    return file, agent


def reload(run, **options):
    return run.holdfast("reload", **options)


def applied(run, *words):
    result = reload(run)
    assert result.rc == 0 and not result.err and result.out.startswith("reloaded: "), result
    for word in words:
        assert word in result.out, (word, result)
    return result


def refused(run, *words):
    """All of the words are said, by the command and by the agent."""
    result = reload(run)
    assert result.rc == 78 and not result.out, result
    assert result.err.startswith("holdfast reload: refused, and nothing changes: "), result
    for word in words:
        assert word in result.err, (word, result)
    said = result.err.partition("changes: ")[2].strip()
    wait_until(lambda: said[:400] in run.agents[0].err, 5, "the agent says the same")  # its log cuts lines
    return result


def agent_json(run, **options):
    return run.holdfast("status", "--json", **options).json["agent"]


def connections(node):
    return {line.split()[0] for line in node.cmd("CLIENT", "LIST").decode().splitlines() if "name=holdfast" in line}


# --- applied ---------------------------------------------------------------------------------------------


@scenario("what a reload changes is in force at once, and a lease that is held keeps its own TTL")
def at_once(run):
    file, agent = begin(run)
    holder = run.holder()
    holder.acquire("before")
    assert agent_json(run)["config"]["last_reload"] == "none"
    applied(run, "nothing has changed")
    file.write(ttl="5s", clients_max="77", log_level="debug", max_hold="90s")
    said = applied(run).out
    assert said == "reloaded: ttl = 5s (was 10s); max_hold = 90s (was 0s); clients_max = 77 (was 1024); " \
        "log_level = debug (was info)\n", said
    holder.acquire("after")
    assert run.show("before")["ttl_ms"] == 10000 and run.show("after")["ttl_ms"] == 5000
    shown = agent_json(run)
    assert shown["ttl_ms"] == 5000 and shown["config"]["last_reload"] == "applied", shown
    assert shown["config"]["refused_at"] is None and shown["config"]["loaded_at"], shown
    assert counters(run)["clients_max"] == 77 and counters(run)["reloads"] == 2
    assert "config    reloaded 20" in run.holdfast("status").out
    told = [event for event in history(run) if event["event"] == "reloaded"]
    assert [event["text"] for event in told] == ["nothing has changed", told[1]["text"]], told
    assert told[1]["text"].startswith("ttl = 5s (was 10s); max_hold = 90s"), told
    assert agent.err.count("the configuration is reloaded") == 2, agent.err
    file.write(leases_per_uid="2")
    applied(run, "leases_per_uid = 2 (was 0)")
    try:
        holder.acquire("one-more", 0, 0)
        raise AssertionError("a third lease")
    except HolderError as error:
        assert ELIMIT in error.text, error
    file.write(leases_per_uid=None)
    applied(run, "leases_per_uid = 0 (was 2)")
    holder.acquire("one-more", 0, 0)
    assert all(holder.held(i) for i in range(3))


@scenario("track_held, from 0 and back: held keys are tracked from the reload on, and no more")
def track_held(run):
    file, _ = begin(run, track_held="0")
    holder = run.holder()
    holder.acquire("job")

    def noticed():
        """Whether the agent hears within a second that somebody deletes the key."""
        before = counters(run)["held_notices"]
        run.nodes[0].cmd("DEL", "job")
        end = time.monotonic() + 1
        while time.monotonic() < end and counters(run)["held_notices"] == before:
            time.sleep(0.05)
        wait_until(lambda: run.nodes[0].get("job"), 15, "the key is written again")
        return counters(run)["held_notices"] > before

    assert not noticed()
    file.write(track_held="1000")
    applied(run, "track_held = 1000 (was 0)")
    time.sleep(4)  # a renewal is tracked
    assert noticed()
    file.write(track_held="0")
    applied(run, "track_held = 0 (was 1000)")
    assert not noticed() and holder.held()


@scenario("the command line goes before the file, at a reload as at the start")
def command_line(run):
    file, _ = begin(run, options=("--ttl", "7s"))
    file.write(ttl="9s", max_hold="60s")
    assert applied(run).out == "reloaded: max_hold = 60s (was 0s)\n"
    assert agent_json(run)["ttl_ms"] == 7000


@scenario("group and table_mode: who may attach and read changes with the reload, and what fails changes nothing",
          needs_root=True)
def group(run):
    file, agent = begin(run, options=("--system",))
    other = run.holder(uid=OTHER_UID, label="other")
    other.acquire("theirs")
    table = pathlib.Path(f"/dev/shm/holdfast.{agent.name}")
    sock = run.runtime_dir / agent.name / "sock"

    def modes():
        return [(stat.S_IMODE(path.stat().st_mode), path.stat().st_gid) for path in (table, sock)]

    assert modes() == [(0o644, 0), (0o666, 0)], modes()
    file.write(group="0", table_mode="0640")
    applied(run, "group = 0 (was unset)", "table_mode = 0640 (was 0644)")
    assert modes() == [(0o640, 0), (0o660, 0)], modes()
    try:
        run.holder(uid=OTHER_UID, label="late")
        raise AssertionError("it attached")
    except HolderError:
        pass
    assert other.held()  # who is attached stays
    assert run.holdfast("list", uid=OTHER_UID).rc != 0
    file.write(group=str(OTHER_UID))
    applied(run, f"group = {OTHER_UID} (was 0)")
    run.holder(uid=OTHER_UID, label="again").acquire("more")
    file.write(group=None, table_mode=None)
    applied(run, "group = unset")
    assert modes() == [(0o644, 0), (0o666, 0)], modes()


@scenario("a group that the agent's user is not in: refused, and permissions and all else are as before", needs_root=True)
def group_denied(run):
    file, agent = begin(run, uid=OTHER_UID)
    sock = run.runtime_dir / agent.name / "sock"
    before = sock.stat()
    file.write(group="0", ttl="5s")
    result = reload(run, uid=OTHER_UID)
    assert result.rc == 78 and "must be a member of the group" in result.err, result
    after = sock.stat()
    assert (before.st_mode, before.st_gid) == (after.st_mode, after.st_gid)
    assert agent_json(run, uid=OTHER_UID)["ttl_ms"] == 10000


# --- refused ---------------------------------------------------------------------------------------------


@scenario("what a reload cannot change is refused as a whole, by name, with what a restart would do; leases live")
def needs_restart(run):
    file, _ = begin(run)
    holder = run.holder()
    holder.acquire("job")
    keys = {"ttl_max": "30s", "capacity": "10000", "key_format": "x:%s", "key_format_for": "a* y:%s", "name": "another",
            "runtime_dir": "/tmp", "system": "yes", "allow_eviction": "yes", "allow_replicas": "yes",
            "lock_memory": "yes", "renewal_priority": "10"}
    for key in ("name", "runtime_dir"):
        del keys[key]  # on this agent's command line
    for key, value in keys.items():
        if key == "system" and os.geteuid() == 0:
            continue
        file.write(**{key: value, "ttl": "5s"})
        refused(run, f"{file.path}: only a restart changes this: ", f"{key} = {value}")
        file.write(**{key: None, "ttl_max": "20s"})
    file.write(capacity="10000", allow_replicas="yes")
    refused(run, "capacity = 10000 (now 8192): a restart keeps all leases", "allow_replicas = yes (now no)")
    file.write(capacity=None, allow_replicas=None)
    nodes = dict(file.nodes)
    for changed in ({"n1": nodes["n1"]}, {**nodes, "n4": "127.0.0.1:1"}, dict(reversed(nodes.items())),
                    {**{key: value for key, value in nodes.items() if key != "n3"}, "x3": nodes["n3"]}):
        file.nodes = changed
        file.write()
        refused(run, "only a restart changes this: node = ", "stop the agents of all hosts")
    other = {node.id: f"redis+{node.address.replace(':', '://', 1)}?db=1" for node in run.nodes}
    file.nodes = {**nodes, "n2": other["n2"]}
    file.write()
    refused(run, "use one database on all nodes, as on the other hosts: 'n1' has 0, 'n2' has 1")
    file.nodes = other
    file.write()
    refused(run, "another database")
    assert agent_json(run)["ttl_ms"] == 10000 and holder.held()
    assert agent_json(run)["config"]["last_reload"] == "refused"
    assert "the last reload was refused" in run.holdfast("status").out
    file.nodes = nodes
    file.write()
    applied(run, "ttl = 5s")
    assert agent_json(run)["config"]["last_reload"] == "applied"
    assert "refused" not in run.holdfast("status").out


@scenario("a file that is faulty, gone, a directory, a pipe, unreadable or empty: refused, with the line; nothing changes")
def bad_file(run):
    file, agent = begin(run)
    holder = run.holder()
    holder.acquire("job")
    good = file.text()
    for text, word in (
            (good + "ttlmax = 3s\n", f"{file.path}:6: there is no setting 'ttlmax'"),
            (good.replace("ttl = 10s", "ttl = 10x"), f"{file.path}:4: ttl: give a time"),
            (good.replace("ttl = 10s", "ttl = 40s"), f"{file.path}:4: use a TTL of at most"),
            (good + "nonsense\n", f"{file.path}:6: write \"key = value\""),
            (good + "assume_fresh = yes\n", f"{file.path}:6: give 'assume_fresh' on the command line"),
            (good + "group = no-such-group\n", "there is no group 'no-such-group'"),
            (good + "# " + 1000 * "x" + "\n", f"{file.path}:6: shorten it: the line is longer"),
            ("", f"{file.path}: write node = ADDRESS for each Redis master: no nodes are given")):
        file.write(text)
        refused(run, word)
    file.path.unlink()
    refused(run, f"{file.path}: cannot read it: No such file")
    file.path.mkdir()
    refused(run, "not a regular file")
    file.path.rmdir()
    os.mkfifo(file.path)
    refused(run, "not a regular file")
    file.path.unlink()
    file.path.symlink_to("nowhere")
    refused(run, "No such file")
    file.path.unlink()
    assert agent_json(run)["ttl_ms"] == 10000 and holder.held() and agent.running
    assert counters(run)["reloads_refused"] == 12 and counters(run)["reloads"] == 0
    file.write(good)
    applied(run, "nothing has changed")
    assert len([event for event in history(run) if event["event"] == "reload_refused"]) == 12


@scenario("an agent that cannot read its file any more", needs_root=True)
def unreadable(run):
    file, _ = begin(run, uid=OTHER_UID)
    file.path.chmod(0o600)
    result = reload(run, uid=OTHER_UID)
    assert result.rc == 78 and "Permission denied" in result.err, result


@scenario("an agent with options only has no file to read, and --dev says what to do instead")
def no_file(run):
    run.redis(3)
    run.agent(ttl="5s")
    result = reload(run)
    assert result.rc == 78 and "start the agent with --config FILE" in result.err, result
    dev = run.dev_agent()
    result = reload(run, agent=dev)
    assert result.rc == 78 and "restart the agent instead" in result.err, result


@scenario("no agent: 69; another user's: 77", needs_root=True)
def exit_codes(run):
    result = reload(run, env={"HOLDFAST_AGENT": f"{run.tag}-none"})
    assert result.rc == 69 and "no agent" in result.err, result
    begin(run, options=("--system",))
    result = reload(run, uid=OTHER_UID)
    assert result.rc == 77 and "only root and the agent's own user" in result.err, result
    assert run.holdfast("reload", "more").rc == 64


# --- the nodes -------------------------------------------------------------------------------------------


@scenario("a node's address in other words, to the same server: the fleet's is gone on with, no quarantine, no lease is lost")
def same_server(run):
    file, agent = begin(run, ttl="3s")
    holder = run.holder()
    holder.acquire("job")
    other = run.dir / "other.sock"
    other.symlink_to(run.nodes[1].dir / "sock")
    file.nodes["n2"] = f"unix:{other}"
    file.write()
    applied(run, f"node = n2=unix:{other} (was n2={run.nodes[1].address})")
    other.unlink()
    run.nodes[1].cmd("CLIENT", "KILL", "TYPE", "normal")
    wait_until(lambda: connections(run.nodes[1]), what="it is connected to again")
    row = wait_node(run, "n2", state="up")
    assert row["address"].removeprefix("unix:") == run.nodes[1].seat, row
    assert not [event for event in history(run) if event["event"] == "quarantine" and event["node"] == "n2"]
    voting = wait_until(lambda: run.show("job")["votes"] == 3, 10, "all nodes vote")
    assert voting and holder.held()
    run.nodes[0].kill()  # n2 is wanted now
    wait_node(run, "n1", state="down")
    holder.acquire("another")
    time.sleep(3)
    assert holder.held(0) and holder.held(1)


@scenario("a node's address that leads to another server is refused, whichever server that is, and it never gets a vote")
def other_server(run):
    file, _ = begin(run)
    fresh = Redis(run, "fresh").start()
    was = dict(file.nodes)

    def wants(address, *words):
        file.nodes = {**was, "n2": address}
        file.write()
        refused(run, "node n2", *words)

    wants(fresh.address, "is another server than the fleet's", "holdfast fleet move")
    alias = run.dir / "alias.sock"
    alias.symlink_to(run.nodes[0].dir / "sock")
    wants(f"unix:{alias}", "leads to the server of node n1")
    wants(f"127.0.0.1:{free_port()}", "cannot be reached at")
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        wants(f"127.0.0.1:{silent.getsockname()[1]}", "cannot be reached at", "no answer")
    # not even when the node that it was is gone: other hosts may be the ones that reach it
    run.nodes[1].kill()
    wait_node(run, "n2", state="down")
    wants(fresh.address, "is another server")
    holder = run.holder()
    holder.acquire("job")
    assert fresh.get("job") is None and node_rows(run)["n2"]["address"] == was["n2"]
    assert fresh.calls("evalsha") <= 2  # the trials' looks at the sentinel
    # the next agent goes by the fleet's record, too
    run.agents[0].stop()
    run.agent(nodes=[], options=("--config", file.path), fresh=False)
    wait_node(run, "n2", state="down")
    assert holder.held()
    assert fresh.get("job") is None and not fresh.record
    run.nodes[1].start()
    wait_node(run, "n2", state="quarantined")


@scenario("the server of a node at another address, while another one has come to its present address: refused")
def swapped(run):
    file, _ = begin(run)
    node = run.nodes[1]
    kept = run.dir / "kept.sock"
    (node.dir / "sock").rename(kept)  # the agent's connections stay; the server lives on there
    stranger = Redis(run, "stranger").start()
    (node.dir / "sock").symlink_to(stranger.dir / "sock")
    file.nodes["n2"] = f"unix:{kept}"
    file.write()
    refused(run, "node n2: another server than before answers at its present address")
    (node.dir / "sock").unlink()
    applied(run, "node = n2=")
    wait_node(run, "n2", state="down")  # to the fleet it is where it was
    kept.rename(node.dir / "sock")
    wait_node(run, "n2", state="up")


@scenario("somebody at the present address who does not say who it is is not nobody: refused")
def unknown_at_present(run):
    nodes = run.redis(3, password="one")
    file = File(run)
    file.nodes = {node.id: f"redis+unix://:one@{node.dir}/sock" for node in nodes}
    file.write()
    run.agent(nodes=[], options=("--config", file.path))
    node, kept = nodes[1], run.dir / "kept.sock"
    (node.dir / "sock").rename(kept)
    file.nodes["n2"] = f"redis+unix://:one@{kept}"
    file.write()
    stranger = Redis(run, "stranger", password="two").start()
    (node.dir / "sock").symlink_to(stranger.dir / "sock")
    refused(run, "node n2: it cannot be told which server is at its present address", "stop it first")
    stranger.sigstop()
    refused(run, "node n2: it cannot be told which server is at its present address", "no answer", "stop it first")
    stranger.sigcont()
    (node.dir / "sock").unlink()
    applied(run, "node = n2=")
    # the same server at both, which wants another password by now
    with Resp(f"unix:{kept}") as client:
        client.cmd("AUTH", "one")
        client.cmd("CONFIG", "SET", "requirepass", "three")
    (node.dir / "sock").symlink_to(kept)
    file.nodes["n2"] = f"redis+unix://:three@{node.dir}/sock"
    file.write()
    applied(run, "node = n2=", "node n2: another user or password")
    wait_node(run, "n2", state="up")


@scenario("a node that was never up has no known server: its address is not changed")
def never_up(run):
    run.redis(3)
    run.found(options=("--ttl-max", "20s"))
    run.nodes[2].kill()
    file, _ = begin(run, nodes=run.nodes)
    run.nodes[2].start()
    file.nodes["n3"] = run.nodes[2].address
    other = Redis(run, "other").start()
    run.nodes[2].kill()
    file.nodes["n3"] = other.address
    file.write()
    said = refused(run, "node n3").err
    assert "is another server" in said or "has not been up since this agent began" in said, said


@scenario("a password that is rotated: old connections stay, new ones use the new one; a wrong one is refused before use")
def passwords(run):
    run.redis(3, password="one")
    nodes = {node.id: f"redis+unix://:one@{node.dir}/sock" for node in run.nodes}
    file = File(run, ttl="3s")
    file.nodes = dict(nodes)
    file.write()
    file.path.chmod(0o600)
    agent = run.agent(nodes=[], options=("--config", file.path))
    holder = run.holder()
    holder.acquire("job")
    file.nodes["n2"] = nodes["n2"].replace(":one@", ":two@")
    file.write()
    refused(run, "node n2 refuses the new user or password")
    for node in run.nodes:
        node.cmd("CONFIG", "SET", "requirepass", "two")
        node.password = "two"
    before = [connections(node) for node in run.nodes]
    file.nodes = {key: value.replace(":one@", ":two@") for key, value in nodes.items()}
    file.write()
    applied(run, "node n1: another user or password; node n2: another", "node n3: another")
    assert ":one" not in agent.err and ":two" not in agent.err, agent.err
    assert [connections(node) & was for node, was in zip(run.nodes, before)] == before, "connections stay"
    run.nodes[0].cmd("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    wait_until(lambda: connections(run.nodes[0]) - before[0], 10, "new connections, with the new password")
    wait_node(run, "n1", state="up")
    time.sleep(3)
    assert holder.held()


@scenario("a password for a node that is away cannot be tried: it is applied, and said; a wrong one shows in nodes")
def password_untried(run):
    run.redis(3)
    file, _ = begin(run, nodes=run.nodes)
    run.nodes[2].kill()
    wait_node(run, "n3", state="down")
    file.nodes["n3"] = f"redis+unix://:wrong@{run.nodes[2].dir}/sock"
    file.write()
    applied(run, "node n3: another user or password", "not tried, because nobody answers there: node n3")
    run.nodes[2].options += ["--requirepass", "right"]
    run.nodes[2].password = "right"
    run.nodes[2].start()
    wait_node(run, "n3", state="down", error_class="auth")


# --- at the same time ------------------------------------------------------------------------------------


@scenario("SIGHUP reloads, says so once, and tells the service manager of begin and end")
def hangup(run):
    manager = Manager(run)
    file, agent = begin(run, env={"NOTIFY_SOCKET": manager.address})
    manager.wait("(?m)^READY=1")
    for settings, word, status in (({"ttl": "5s"}, r"reloaded from .*: ttl = 5s \(was 10s\)", "Reloaded"),
                                   ({"ttl": "x"}, "not reloaded, and nothing changes: .*conf:4: ttl", "Reload refused")):
        manager.read()
        manager.said.clear()
        file.write(**settings)
        began_us = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        agent.signal(signal.SIGHUP)
        agent.wait_err(word)
        heard = manager.wait(rf"(?m)^RELOADING=1\nMONOTONIC_USEC=(\d+)\n(.*\n)*READY=1\nSTATUS={status}")
        assert began_us <= int(heard.group(1)) <= began_us + 10_000_000, heard
        assert manager.read().count("READY=1") == 1
        assert len(re.findall(word, agent.err)) == 1, agent.err
    assert run.holdfast("drain").rc == 0
    manager.wait("STATUS=Ready, but this host is drained")
    refused(run, "ttl")
    manager.wait("STATUS=Reload refused: .*; this host is drained")
    file.write(ttl="6s")
    applied(run)
    manager.wait("STATUS=Reloaded; this host is drained")


@scenario("two at once: the second one sees what the file has by then, and both hear of theirs")
def two_at_once(run):
    file, _ = begin(run)
    with socket.socket() as silent:  # a trial of it takes two seconds
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        good = dict(file.nodes)
        file.nodes["n2"] = f"127.0.0.1:{silent.getsockname()[1]}"
        file.write()
        first = run.start_holdfast("reload")
        _tried = silent.accept()
        file.nodes = good
        file.write(ttl="5s")
        more = [run.start_holdfast("reload") for _ in range(5)]
        assert first.wait() == 78 and "cannot be reached" in first.err, first.err
        assert [process.wait() for process in more] == 5 * [0]
        assert {process.out for process in more} == {"reloaded: ttl = 5s (was 10s)\n"}, [p.out for p in more]
    assert counters(run)["reloads"] == 1


@scenario("a storm of SIGHUPs and reloads while 50 jobs run and locks are taken and given: none is lost")
def storm(run):
    file, agent = begin(run, ttl="5s")
    jobs = [run.start_holdfast("run", "-n", f"job-{i}", "--", "sleep", "120") for i in range(50)]
    wait_until(lambda: run.holdfast("status", "--json").json["totals"]["leases"] == 50, 60, "50 jobs hold their locks")
    holder = run.holder()
    other = run.dir / "other.sock"
    other.symlink_to(run.nodes[1].dir / "sock")
    was = file.nodes["n2"]
    for i in range(100):
        file.nodes["n2"] = f"unix:{other}" if i // 10 % 2 else was
        file.write(ttl=f"{5 + i % 3}s", track_held=str(1000 * (i % 2)), log_level="warn" if i % 2 else "info")
        agent.signal(signal.SIGHUP)
        lease = holder.acquire(f"short-{i % 5}")
        if i % 10 == 0:
            assert reload(run).rc == 0
        assert holder.held(lease["lease"]) if "lease" in lease else holder.held()
        holder.release()
    time.sleep(6)  # longer than a TTL
    assert run.holdfast("status", "--json").json["totals"]["leases"] == 50
    assert all(job.running for job in jobs) and agent.running
    assert counters(run)["losses"] == 0 and counters(run)["reloads_refused"] == 0
    for job in jobs:
        job.signal(signal.SIGTERM)
    for job in jobs:
        job.wait()


@scenario("the agent ends while a reload tries a node: at once, and cleanly; leases are for the next agent")
def ends(run):
    file, agent = begin(run)
    holder = run.holder()
    holder.acquire("job")
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        was = dict(file.nodes)
        file.nodes["n2"] = f"127.0.0.1:{silent.getsockname()[1]}"
        file.write()
        asking = run.start_holdfast("reload")
        _tried = silent.accept()
        agent.stop()
        assert asking.wait() == 69 and "no answer" in asking.err, asking.err
        file.nodes = was
        file.write()
    run.agent(nodes=[], options=("--config", file.path), fresh=False)
    assert holder.held()


@scenario("a reload that is given up by who asked for it goes on; a stopped command holds up nobody")
def hangs_up(run):
    file, _ = begin(run)
    file.write(ttl="5s")
    control = run.runtime_dir / run.agents[0].name / "control"
    with socket.socket(socket.AF_UNIX) as asking:
        asking.connect(str(control))
        asking.send(b"reload\n")
    wait_until(lambda: agent_json(run)["ttl_ms"] == 5000, 10, "it is applied")
    stopped = [socket.socket(socket.AF_UNIX) for _ in range(12)]  # more than there are places
    for one in stopped:
        one.connect(str(control))
        one.send(b"reload\n")
    applied(run, "nothing has changed")
    for one in stopped:
        one.close()


if __name__ == "__main__":
    main()
