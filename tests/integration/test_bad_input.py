#!/usr/bin/env python3
"""Bad input: the message names the thing, the limit and the remedy, the exit code is the documented one, and
a lease that is held meanwhile stays held.

Elsewhere: names and options of the reading subcommands, no agent for them, and tables that are none, that are
squatted, truncated or of another version as a reader meets them: test_readers.py. A command that is missing or
cannot be executed: test_run.py. Nodes that nobody answers at, that are replicas, in cluster mode, not Redis,
one server under two names, or want another password: test_nodes.py. Fewer than q nodes at the start:
test_faults.py. A second agent of the same name: test_broker.py.
"""
import contextlib
import fcntl
import os
import pathlib
import shutil
import signal
import socket
import struct
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from manager import Manager  # noqa: E402
from rig import (BUILD, OTHER_UID, ROOT, SLOW, HolderError, Process, agent_env, main, scenario, skip,  # noqa: E402
                 wait_until)

TTL_MAX_S = 5
ENAME, ETTL, EPERM = -102, -103, -104
ENOAGENT, EFULL, EVERSION = -301, -305, -307

WIRE_MAGIC = 0x31574648  # shm/wire.h
JOB_MAGIC = 0x424a4648  # libclient/holdfast_run.h


def ready(run, *options, **more):
    run.redis(3)
    return run.agent(ttl="3s", options=["--ttl-max", f"{TTL_MAX_S}s", *options], **more)


@contextlib.contextmanager
def nothing_lost(run, agent=None):
    """A lease that is held all the while, on every node that it was on."""
    holder = run.holder(agent, label="bystander")
    holder.acquire("bystander")
    before = run.holders_of("bystander")
    yield
    assert holder.held(), holder.cmd("reason")
    assert run.holders_of("bystander") >= before, "a key is gone"
    assert holder.release()["value"] == 0


def refused(holder, code, words, *command):
    """The library's refusal and its message."""
    try:
        answer = holder.cmd(*command)
    except HolderError as error:
        assert error.code == code, error
        said(error.text, *words)
        return
    raise AssertionError(f"{command} was granted: {answer}")


def said(text, *words):
    """A message of one line that has all of these words, and nothing that a terminal obeys."""
    for word in words:
        assert word in text, f"{word!r} is not in {text!r}"
    assert text.rstrip("\n").isprintable(), repr(text)


def daemon(run, *args, label="refused", env=None):
    """holdfastd with these words, to its end: the exit code and what it said."""
    argv = [BUILD / "bin" / "holdfastd", "--name", f"{run.tag}-{label}", "--runtime-dir", run.runtime_dir, *args]
    process = Process(run, argv, f"agent-{label}", env=env)
    code = process.wait()
    left = run.runtime_dir / f"{run.tag}-{label}"
    assert not left.exists(), f"it left {list(left.iterdir())}"
    return code, process.err


# --- names ---------------------------------------------------------------------------------------------


@scenario("a name is 1 to 255 bytes and not one of the agent's own: refused by the library and by run")
def bad_names(run):
    ready(run)
    with nothing_lost(run):
        holder = run.holder()
        for name, words in [("%", ("empty", "255")), ("x" * 256, ("not 256", "255 bytes")),
                            ("holdfast:x", ("holdfast:", "another name")), ("holdfast:node", ("holdfast:",))]:
            refused(holder, ENAME, words, "acquire", name, 0, 0)
            result = run.holdfast("run", name.replace("%", ""), "true")
            assert result.rc == 64, result
            said(result.err, words[-1])
        assert holder.acquire("x" * 255)
        assert all(node.get("x" * 255) for node in run.nodes)


@scenario("a key format that makes a name one of the agent's own: the name is refused")
def bad_formatted_name(run):
    ready(run, "--key-format", "hold%s")
    holder = run.holder()
    refused(holder, ENAME, ("holdfast:", "another name"), "acquire", "fast:node", 0, 0)
    holder.acquire("job")
    assert run.holders_of("holdjob") == 3


@scenario("NUL and newline are legal in a name: the key is the very bytes, and every output has them escaped")
def strange_names(run):
    agent = ready(run)
    holder, other = run.holder(), run.holder()
    name, shown = b"a\0b\nc\x1b[1m", r"a\x00b\nc\x1b[1m"
    holder.acquire(name)
    assert all(node.get(name) for node in run.nodes)
    assert not any(node.get(b"a") for node in run.nodes), "cut at the NUL"
    try:
        other.acquire(name, 0, 0)
        raise AssertionError("granted twice")
    except HolderError as error:
        assert error.code == -201, error
    for command in ("list", "status"):
        result = run.holdfast(command)
        assert shown in result.out and "\x1b" not in result.out and "\0" not in result.out, result
    for node in run.nodes[:2]:
        node.cmd("SET", name, "another's token", "XX", "PX", "20000")
    wait_until(lambda: not holder.held(), what="the lease is lost")
    assert "\x1b" not in agent.err and "\0" not in agent.err and "b\nc" not in agent.err, agent.err
    result = run.holdfast("run", "-n", "b\nc\x1b[1m", "sh", "-c", "exit 75")
    assert result.rc == 75 and "\x1b" not in result.err, result


# --- times ---------------------------------------------------------------------------------------------

TIMES = [
    ("0", ("0", "30s")),
    ("-1", ("-1", "30s")),
    ("-5s", ("-5s", "30s")),
    ("soon", ("soon", "30s")),
    ("", ("''", "30s")),
    ("3 s", ("3 s", "30s")),
    ("99999999999h", ("99999999999h", "30s")),
    ("100ms", ("1.1 T/3", "100 ms", "at least 500 ms")),
    ("499ms", ("499 ms", "at least 500 ms")),
    ("6s", ("at most 5000 ms", "6000 ms", "ttl_max")),
]


@scenario("a TTL that is zero, negative, no time, too short or above ttl_max: run refuses it with 64")
def bad_ttl(run):
    ready(run)
    with nothing_lost(run):
        for ttl, words in TIMES:
            result = run.holdfast("run", "-t", ttl, "job", "true")
            assert result.rc == 64, (ttl, result)
            said(result.err, *words)
        holder = run.holder()
        refused(holder, ETTL, ("at least 500 ms",), "acquire", "job", 1, 0)
        refused(holder, ETTL, ("ttl_max", "5000 ms"), "acquire", "job", TTL_MAX_S * 1000 + 1, 0)
        assert run.holders_of("job") == 0
        for ttl in ("500ms", f"{TTL_MAX_S}s"):
            result = run.holdfast("run", "-n", "-t", ttl, "job", "true")
            assert result.rc == 0 or (SLOW > 1 and result.rc == 69), result


@scenario("holdfastd refuses such a TTL with 64, one from its file with 78 and the line, and leaves nothing behind")
def bad_agent_ttl(run):
    node = f"unix:{run.dir}/sock"
    for ttl, words in TIMES:
        code, text = daemon(run, "--node", node, "--ttl-max", f"{TTL_MAX_S}s", "--ttl", ttl)
        assert code == 64, (ttl, code, text)
        said(text, "holdfastd: ", *words)
    code, text = daemon(run, "--node", node, "--ttl-max", "25h")
    assert code == 64, (code, text)
    said(text, "ttl_max", "25h", "86400s")
    file = run.dir / "holdfast.conf"
    for settings, words in [(f"node = {node}\nttl = soon\n", (f"{file}:2", "soon", "30s")),
                            (f"node = {node}\nttl_max = 5s\nttl = 6s\n", ("at most 5000 ms", "6000 ms")),
                            (f"node = {node}\nttel = 6s\n", (f"{file}:2", "ttel"))]:
        file.write_text(settings)
        code, text = daemon(run, "--config", file)
        assert code == 78, (code, text)
        said(text, *words)


# --- options and addresses -----------------------------------------------------------------------------


@scenario("what no restart mends: the units do not start an agent again that ended so")
def not_restarted(run):
    path = run.dir / "bad.conf"
    path.write_text("no_such_key = 1\n")
    codes = {run.spawn(BUILD / "bin" / "holdfastd", *words, label="holdfastd").wait() for words in (["--config", path], ["--nonsense"])}
    assert codes == {64, 78}, codes
    for unit in ("holdfastd.service.in", "holdfastd-user.service.in"):
        line, = [line for line in (ROOT / "packaging" / unit).read_text().splitlines() if line.startswith("RestartPreventExit")]
        assert set(map(int, line.partition("=")[2].split())) == codes, line


@scenario("an unknown option or subcommand: 64, the word, and where to read on")
def unknown_options(run):
    ready(run)
    with nothing_lost(run):
        for command in ([], ["run"], ["status"], ["list"], ["show"], ["held"], ["nodes"], ["release"], ["doctor"]):
            result = run.holdfast(*command, "--no-such", "x")
            assert result.rc == 64 and result.out == "", result
            assert "--no-such" in result.err and "--help" in result.err, result
        for word, remedy in (("frobnicate", "--help"), ("ru\nn", "did you mean 'run'?"), ("lst", "did you mean 'list'?"),
                             ("stat", "did you mean 'status'?"), ("--list", "--help")):
            result = run.holdfast(word)
            assert result.rc == 64, result
            said(result.err, word.replace("\n", r"\n"), remedy)
        code, text = daemon(run, "--no-such")
        assert code == 64, text
        said(text, "--no-such", "--help")
        code, text = daemon(run, "--ttl")
        assert code == 64, text
        said(text, "--ttl", "TIME")


@scenario("a node address that is none, or listed twice: holdfastd refuses it with 64, and says what is wrong")
def bad_addresses(run):
    for address, words in [
        ("", ("empty",)),
        ("host:99999", ("host:99999", "1 to 65535")),
        ("host:0", ("host:0", "1 to 65535")),
        ("host:six", ("host:six", "1 to 65535")),
        ("unix:relative", ("unix:relative", "absolute")),
        ("unix:/" + "x" * 120, ("107",)),
        ("[::1", ("[::1", "bracket")),
        ("http://host", ("http://host", "redis://")),
        ("a b=host", ("a b", "letters")),
        ("h\nost:1", (r"h\nost",)),
    ]:
        code, text = daemon(run, "--node", "n1=unix:/good", "--node", address)
        assert code == 64, (address, code, text)
        said(text, "holdfastd: ", *words)
    code, text = daemon(run, "--node", "n1=unix:/a", "--node", "n1=unix:/b")
    assert code == 64, text
    said(text, "'n1'", "listed twice")
    code, text = daemon(run, "--node", "n1=unix:/a", "--node", "n2=unix:/a")
    assert code == 64, text
    said(text, "unix:/a", "listed twice")
    secret = "redis://user:hunter2@host:99999"
    code, text = daemon(run, "--node", secret)
    assert code == 64 and "hunter2" not in text, text
    code, text = daemon(run)
    assert code == 64, text
    said(text, "--node", "--dev")


# --- whom to speak to ----------------------------------------------------------------------------------


@scenario("no agent: the library says where it looked")
def no_agent(run):
    holder = run.holder(connect=False)
    refused(holder, ENOAGENT, (f"{run.runtime_dir}/nobody/sock", "No such file"), "connect", "nobody")
    refused(holder, ENOAGENT, (f"{run.dir}/other/sock",), "connect", f"{run.dir}/other/sock")
    refused(holder, -101, ("longer than 107 bytes",), "connect", f"{run.dir}/{'x' * 120}/sock")


@scenario("--agent with an agent's directory: 69, and the name of the socket in it")
def agents_directory(run):
    result = run.holdfast("run", "--agent", run.dir, "job", "true")
    assert result.rc == 69 and f"{run.dir} is a directory; name the socket in it, {run.dir}/sock" in result.err, result


@scenario("the socket of another user's agent is not trusted: 77, naming both users", needs_root=True)
def foreign_socket(run):
    run.redis(3)
    run.runtime_dir.chmod(0o777)
    ours = run.agent("ours", ttl="3s", options=["--ttl-max", f"{TTL_MAX_S}s"])
    theirs = run.agent("theirs", ttl="3s", options=["--ttl-max", f"{TTL_MAX_S}s"], uid=OTHER_UID)
    with nothing_lost(run, ours):
        # Root does not take a lock from just anybody.
        for agent in (theirs.name, f"{run.runtime_dir}/{theirs.name}/sock"):
            result = run.holdfast("run", "job", "true", env={"HOLDFAST_AGENT": agent})
            assert result.rc == 77, result
            said(result.err, f"uid {OTHER_UID}", "uid 0")
            refused(run.holder(connect=False), EPERM, (f"uid {OTHER_UID}",), "connect", agent)
        # Nor is root's own agent, which serves itself alone, open to others.
        result = run.holdfast("run", "job", "true", agent=ours, uid=OTHER_UID)
        assert result.rc == 77, result
        said(result.err, "Permission denied")
        refused(run.holder(ours, connect=False, uid=OTHER_UID), EPERM, ("Permission denied",), "connect")
    # An agent does not start in another user's directory either.
    code = run.spawn(*run.agent_argv("theirs"), label="second")
    assert code.wait() == 77, code.err
    said(code.err, f"uid {OTHER_UID}", "--runtime-dir")
    assert theirs.running


# --- shared memory -------------------------------------------------------------------------------------


@scenario("a name in /dev/shm that is squatted: holdfastd ends with 71, names the owner, and leaves no trace",
          needs_root=True)
def squatted(run):
    agent = ready(run)
    path = pathlib.Path(f"/dev/shm/holdfast.{run.tag}-squat")
    node_args = [word for node in run.nodes for word in ("--node", node.spec)]

    def refuses(*words):
        with nothing_lost(run, agent):
            code, text = daemon(run, *node_args, label="squat")
            assert code == 71, (code, text)
            said(text, path.name, "another agent name", *words)
            assert os.path.lexists(path), "it removed what is not its own"
        path.unlink()

    path.write_bytes(b"x" * 65536)
    os.chown(path, OTHER_UID, OTHER_UID)
    refuses(f"uid {OTHER_UID}")
    os.symlink(f"/dev/shm/holdfast.{agent.name.rpartition('-')[0]}-a", path)
    refuses("symbolic link")
    os.mkfifo(path)
    refuses("named pipe")


@scenario("an own table that is truncated, of another version or none: the agent makes it anew")
def damaged_table(run):
    first = ready(run)
    user = f"-{os.geteuid()}" if os.geteuid() else ""
    good = pathlib.Path(f"/dev/shm/holdfast{user}.{first.name}").read_bytes()
    path = pathlib.Path(f"/dev/shm/holdfast{user}.{run.tag}-b")
    for table in (b"", good[:100], good[:len(good) // 2], good[:8] + struct.pack("<H", 99) + good[10:],
                  b"x" * len(good)):
        path.write_bytes(table)
        path.chmod(0o644)
        with nothing_lost(run, first):
            agent = run.agent("b", ttl="3s", options=["--ttl-max", f"{TTL_MAX_S}s"])
            assert run.holdfast("run", "-n", "job", "true", agent=agent).rc == 0
            assert run.holdfast("list", agent=agent).rc == 0
            agent.stop()


@scenario("/dev/shm is full: holdfastd ends with 71, says how much it needs, and leaves no trace", needs_root=True)
def shm_full(run):
    argv = [BUILD / "bin" / "holdfastd", "--name", f"{run.tag}-full", "--runtime-dir", run.runtime_dir,
            "--node", f"unix:{run.dir}/sock"]
    small = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs -o size=1m none /dev/shm && exec "$@"', "sh"]
    process = run.spawn(*small, *argv, label="agent-full")
    assert process.wait() == 71, process.err
    said(process.err, "/dev/shm", "8192 leases", "1024 KiB", "enlarge", "capacity")
    assert not (run.runtime_dir / f"{run.tag}-full").exists(), "it left its directory"
    # The same place is enough for few leases.
    process = run.spawn(*small, "timeout", "1", *argv, "--capacity", "64", label="agent-full")
    process.wait()
    assert "is full" not in process.err, process.err


# --- limits --------------------------------------------------------------------------------------------


@scenario("more leases than the capacity: 69, the limit by its name, and those that are held stay")
def capacity(run):
    ready(run, "--capacity", "4")
    holder = run.holder()
    leases = [holder.acquire(f"job{i}")["lease"] for i in range(4)]
    refused(holder, EFULL, ("4 leases", "capacity"), "acquire", "one-more", 0, 0)
    refused(holder, EFULL, ("4 leases", "capacity"), "acquire", "one-more", 0, 60000)
    result = run.holdfast("run", "one-more", "true")
    assert result.rc == 69, result
    said(result.err, "one-more", "4 leases", "capacity")
    assert all(holder.held(lease) for lease in leases)
    assert run.holders_of("one-more") == 0
    assert holder.release(leases[0])["value"] == 0
    wait_until(lambda: run.holdfast("run", "-n", "one-more", "true").rc == 0, what="its place is free again")
    assert all(holder.held(lease) for lease in leases[1:])


@scenario("names so long that the table has no room for one more: 69, how much there is, and those that are held stay",
          sanitizers=False)
def long_names(run):
    ready(run, "--capacity", "16")
    holder, name = run.holder(), "x" * 254
    leases = [holder.acquire(f"{name}{i}")["lease"] for i in range(7)]  # 272 bytes each of 2048
    refused(holder, EFULL, ("name and note", "128 bytes", "capacity", "/dev/shm"), "acquire", f"{name}7", 0, 0)
    result = run.holdfast("run", "-n", f"{name}7", "true")
    assert result.rc == 69, result
    said(result.err, "name and note", "capacity")
    assert run.holders_of(f"{name}7") == 0
    assert all(holder.held(lease) for lease in leases)
    assert holder.release(leases.pop())["value"] == 0
    wait_until(lambda: run.holdfast("run", "-n", f"{name}7", "true").rc == 0, what="its room is free again")
    holder.acquire("short")
    assert all(holder.held(lease) for lease in leases)


@scenario("more leases than one user may have: 69, the limit by its name; another user's are not counted",
          needs_root=True)
def user_limits(run):
    ready(run, "--leases-per-uid", "2", system=True)
    place = f"{run.runtime_dir}/{run.agents[0].name}/sock"
    run.runtime_dir.chmod(0o755)
    run.dir.chmod(0o755)
    holder, other = run.holder(), run.holder(uid=OTHER_UID, connect=False)
    other.cmd("connect", place)
    leases = [holder.acquire(f"job{i}")["lease"] for i in range(2)]
    refused(holder, -306, ("user 0", "2 locks", "leases_per_uid"), "acquire", "one-more", 0, 0)
    result = run.holdfast("run", "one-more", "true")
    assert result.rc == 69, result
    said(result.err, "2 locks", "leases_per_uid")
    other.acquire("one-more")
    holder.release(leases.pop())
    for words in (["run", "-n"], ["run"]):
        result = run.holdfast(*words, "--exclusive", "alone", "true")
        assert result.rc == 69, result
        said(result.err, "to be alone takes 65 locks", "leases_per_uid")
    assert all(holder.held(lease) for lease in leases)


@scenario("more clients than there are places: 69, the limit by its name, and those that are there stay")
def clients(run):
    ready(run, "--clients-max", "3")
    with nothing_lost(run):
        second = run.holder()
        second.acquire("job2")
        result = run.holdfast("run", "-n", "job", "sh", "-c", "echo ran")
        assert result.rc == 0 and result.out == "ran\n", result  # one place is left, which the second guardian shares
        run.keys_gone("job")
        third = run.holder()
        refused(run.holder(connect=False), EFULL, ("3 places", "clients_max"), "connect")
        assert second.held()
        result = run.holdfast("run", "-n", "job", "true")
        assert result.rc == 69, result
        said(result.err, "3 places", "clients_max")
        third.cmd("disconnect")
        wait_until(lambda: run.holder(connect=False).cmd("connect"), what="its place is free again")


@scenario("a wait waits for a place, and for the end of a user's other waits; -n, and a wait's end, give the limit's name")
def waits_for_room(run):
    ready(run, "--clients-max", "2", "--waiters-per-uid", "1")
    job = run.spawn(BUILD / "bin" / "holdfast", "run", "first", "--", "sleep", "2", label="holdfast")
    wait_until(lambda: run.show("first"), what="it is held")
    waiter = run.start_holdfast("run", "-w", "60", "first", "true")
    waiter.wait_err("waiting")
    limits = ("2 places", "waiters_per_uid")
    for options, code in ((("-n",), 69), (("-w", "0.5"), 69)):
        result = run.holdfast("run", *options, "second", "true")
        assert result.rc == code and any(limit in result.err for limit in limits), (options, result)
    patient = [run.start_holdfast(*words) for words in (("run", "-w", "60", "second", "true"), ("wait", "-w", "60", "second"),
                                                         ("run", "fourth", "true"))]
    for process in patient:
        assert process.wait(30 * SLOW) == 0, process.err
    assert job.wait() == 0 and waiter.wait(30 * SLOW) == 0, (job.err, waiter.err)


def descriptors_at_rest(agent):
    """How many it has, once that does not change any more: its last connections may still be on their way."""
    counts = [-1]

    def same_again():
        time.sleep(0.1)
        counts.append(len(os.listdir(f"/proc/{agent.pid}/fd")))
        return len(counts) > 3 and counts[-1] == counts[-2] == counts[-3]

    wait_until(same_again)
    return counts[-1]


@scenario("more clients than descriptors have room for: refused with the remedy, as many as doctor says come in", sanitizers=False)
def descriptors(run):
    run.redis(3)
    few, fit = 64 + 4 * 3 + 4 * 5, 5
    program = run.dir / "with-few-descriptors"
    program.write_text(f'#!/bin/sh\nulimit -n {few}\nexec "{BUILD}/bin/holdfastd" "$@"\n')
    program.chmod(0o755)
    agent = run.agent(program=program)
    said(agent.err.splitlines()[0], f"room for {fit} clients")
    own = descriptors_at_rest(agent)
    holders = [run.holder(label=f"client-{i}") for i in range(fit)]
    holders[0].acquire("held")
    assert len(os.listdir(f"/proc/{agent.pid}/fd")) <= own + 2 * fit
    line, = (line for line in run.holdfast("doctor").out.splitlines() if "descriptors has room" in line)
    said(line, f"a limit of {few} descriptors", f"room for {fit} clients", f"{fit} are attached")
    for i in range(3):
        refused(run.holder(connect=False, label=f"more-{i}"), EFULL, (f"{fit} places", "LimitNOFILE"), "connect")
    assert holders[0].held()
    holders[1].cmd("disconnect")
    wait_until(lambda: run.holder(connect=False).cmd("connect"), what="its place is free again")


@scenario("a limit of descriptors without room for one client: the agent says so at its start; with room it serves that one")
def no_descriptors(run):
    run.redis(3)
    least = 64 + 4 * 3 + 4
    program = run.dir / "with-few-descriptors"
    for limit in (33, 64, least - 1, least):
        program.write_text(f'#!/bin/sh\nulimit -n {limit}\nexec "{BUILD}/bin/holdfastd" "$@"\n')
        program.chmod(0o755)
        agent = run.agent(program=program)
        if limit < least:
            said(agent.err.splitlines()[0], f"limit of {limit} descriptors has no room for a client", "LimitNOFILE")
        else:
            said(agent.err.splitlines()[0], "room for 1 clients")
            holder = run.holder()
            holder.acquire("held")
            refused(run.holder(connect=False, label="more"), EFULL, ("1 places", "LimitNOFILE"), "connect")
            assert holder.held()
        agent.stop()


@scenario("a limit of descriptors that is too low for the agent itself ends it with 78 and the number; just above that each client is told "
          "the limit and the remedy, at once and every time")
def hardly_any_descriptors(run):
    run.redis(3)
    least = 20 + 4 * 3
    program = run.dir / "with-hardly-any-descriptors"

    def start(limit, **options):
        program.write_text(f'#!/bin/sh\nulimit -n {limit}\nexec "{BUILD}/bin/holdfastd" "$@"\n')
        program.chmod(0o755)
        return run.agent(program=program, **options)

    for limit in (12, 22, least - 1):
        agent = start(limit, wait=False)
        assert agent.wait() == 78, (limit, agent.err)
        said(agent.err, f"the limit of {limit} descriptors is too low: an agent with 3 nodes needs {least} for itself", "LimitNOFILE", "ulimit -n")
    for limit in (least, least + 2):
        agent = start(limit)
        for _ in range(4):
            result = run.holdfast("run", "-n", "job", "true")
            assert result.rc == 69, result
            said(result.err, f"the agent has no descriptors left, its limit is {limit}; raise LimitNOFILE= in its unit, or ulimit -n, and restart it")
        wait_until(lambda: len(os.listdir(f"/proc/{agent.pid}/fd")) <= least, 5,
                   "no client's descriptor is left")
        agent.stop()
    for limit in range(least + 4, least + 10):  # with one client attached, in some of these none is left to accept another with
        agent = start(limit)
        one = run.holder(connect=False, label=f"one-{limit}")
        try:
            one.cmd("connect")
        except HolderError as error:
            said(error.text, f"its limit is {limit}", "LimitNOFILE", "ulimit -n")
        else:
            refused(run.holder(connect=False, label=f"two-{limit}"), EFULL, ("LimitNOFILE", "ulimit -n"), "connect")
        one.close()
        agent.stop()


# --- versions and clocks -------------------------------------------------------------------------------


def attach_socket():
    return socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)


@scenario("a client of another version, or one that talks nonsense, is told so, and nobody else notices")
def other_client(run):
    agent = ready(run)
    with nothing_lost(run):
        for hello in (struct.pack("<IHH", WIRE_MAGIC, 2, 0).ljust(128, b"\0"),  # another major
                      struct.pack("<IHHQ", WIRE_MAGIC, 1, 0, 99).ljust(128, b"\0"),  # another layout
                      struct.pack("<IHH", WIRE_MAGIC, 1, 0).ljust(64, b"\0"),  # another size
                      b"GET / HTTP/1.0\r\n\r\n", b"x", b"\xff" * 4096):
            with attach_socket() as client:
                client.settimeout(10)
                client.connect(str(run.runtime_dir / agent.name / "sock"))
                client.send(hello)
                welcome = client.recv(4096)
                magic, status, major, _ = struct.unpack_from("<IiHH", welcome)
                assert (magic, status, major) == (WIRE_MAGIC, EVERSION, 1), welcome
                text = welcome[80:].split(b"\0")[0].decode()
                said(text, "Holdfast", "wire 1.", "update")
                assert client.recv(4096) == b"", "not hung up"


@scenario("an agent of another version, or something that is none: 125, and both versions are named")
def other_agent(run):
    place = run.runtime_dir / f"{run.tag}-other"
    place.mkdir(mode=0o700)
    env = {"HOLDFAST_AGENT": place.name}
    welcome = struct.pack("<IiHHIQIIIIII16s16s176s", WIRE_MAGIC, 0, 7, 5, 0, 0, 0, 32, 0, 0, 0, 0, b"", b"9.9.9", b"")
    with attach_socket() as server:
        server.bind(str(place / "sock"))
        server.listen()
        server.settimeout(20 * SLOW)
        for answer, words in [(welcome, ("9.9.9", "protocol 7.5", "this library")), (b"220 mail.example ESMTP\r\n", ("welcome",))]:
            process = run.start_holdfast("run", "job", "true", env=env)
            client, _ = server.accept()
            client.recv(4096)
            client.send(answer)
            assert process.wait() == 125, process.err
            said(process.err, *words)
            client.close()


@scenario("a client in another time namespace: 125, and why", needs_root=True)
def other_time_namespace(run):
    agent = ready(run)
    shifted = ["unshare", "--time", "--boottime", "100", "--fork"]
    if not pathlib.Path("/proc/self/ns/time").exists() or run.spawn(*shifted, "true").wait() != 0:
        skip("no time namespaces here")
    with nothing_lost(run):
        for command, words in [(["run", "job", "true"], ("time namespace", "run an agent in")),
                               (["list"], ("time namespace",))]:
            process = run.spawn(*shifted, BUILD / "bin" / "holdfast", *command, env=agent_env(agent))
            assert process.wait() == 125, process.err
            said(process.err, *words)
        assert run.holders_of("job") == 0


@scenario("somebody squats the table's name: under a service manager the agent says so once, and ends after seconds only")
def squatted(run):
    manager = Manager(run)
    name = f"{run.tag}-refused"
    table = pathlib.Path("/dev/shm") / f"holdfast{'' if os.geteuid() == 0 else f'-{os.geteuid()}'}.{name}"
    argv = [BUILD / "bin" / "holdfastd", "--name", name, "--runtime-dir", run.runtime_dir, "--node", "a=127.0.0.1:1"]
    table.mkdir()
    try:
        began = time.monotonic()
        alone = run.spawn(*argv, label="alone")
        assert alone.wait() == 71 and "squats the name" in alone.err, alone.err
        assert time.monotonic() - began < 3 * SLOW, "it waits for nobody"
        began = time.monotonic()
        held = run.spawn(*argv, label="held", env={"NOTIFY_SOCKET": manager.address})
        manager.wait("STATUS=Refused to start")
        assert held.wait() == 71 and held.err.count("squats the name") == 1, held.err
        assert time.monotonic() - began > 4, "the service manager would start it ten times a second"
        told = run.spawn(*argv, label="told", env={"NOTIFY_SOCKET": manager.address})
        told.wait_err("the next start is in")
        told.signal(signal.SIGTERM)
        assert told.wait(3) == 71, told.err
    finally:
        table.rmdir()


@scenario("a set-uid program does not open for its caller what HOLDFAST_BEAT_PATH names", needs_root=True)
def set_uid_beat(run):
    fd = os.memfd_create("beats", os.MFD_ALLOW_SEALING)
    os.write(fd, struct.pack("<II", JOB_MAGIC, 0))
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
    before = os.pread(fd, 8, 0)
    path = f"/proc/{os.getpid()}/fd/{fd}"
    program = run.dir / "beat"
    shutil.copyfile(BUILD / "bin" / "holdfast", program)
    program.chmod(0o755)
    assert run.spawn(program, "beat", env={"HOLDFAST_BEAT_PATH": path}).wait() == 0
    once = os.pread(fd, 8, 0)
    assert once != before, "nothing was beaten"
    program.chmod(0o4755)
    process = run.spawn(program, "beat", uid=OTHER_UID, env={"HOLDFAST_BEAT_PATH": path})
    assert process.wait() == 69, process.err
    assert os.pread(fd, 8, 0) == once, "root's file was written to"
    os.close(fd)


@scenario("the agent's memory is nobody's: its own user cannot look at it, and there is no core; commands work as before",
          needs_root=True)
def not_dumpable(run):
    run.runtime_dir.chmod(0o777)
    agent = run.agent("user", nodes=["a=127.0.0.1:1"], fresh=False, uid=OTHER_UID, wait=False)
    agent.wait_err("waiting")
    proc = pathlib.Path(f"/proc/{agent.pid}")
    assert proc.stat().st_uid == OTHER_UID and (proc / "environ").stat().st_uid == 0
    peek = run.spawn("cat", proc / "environ", proc / "auxv", uid=OTHER_UID, label="peek")
    assert peek.wait() == 1 and "denied" in peek.err, peek.err
    listed = run.spawn(BUILD / "bin" / "holdfast", "agents", uid=OTHER_UID, label="agents")
    assert listed.wait() == 0 and f" {agent.pid} " in listed.out, (listed.out, listed.err)


if __name__ == "__main__":
    main()
