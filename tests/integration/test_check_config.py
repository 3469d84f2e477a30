#!/usr/bin/env python3
"""holdfastd --check-config: what is wrong with a file, what a restart with it would do to leases, what the nodes say. It
changes neither agent, leases, files nor nodes.
"""
import contextlib
import os
import pathlib
import re
import socket
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from rig import BUILD, OTHER_UID, Redis, Result, free_port, main, scenario, wait_until  # noqa: E402

GOOD, USAGE, NO_QUORUM, BAD = 0, 64, 69, 78
TTL_MAX_S = 6


def config(run, nodes=None, label="a", **settings):
    """A file; a setting of None is left out."""
    settings = {"name": f"{run.tag}-{label}", "runtime_dir": run.runtime_dir, "ttl": "3s", "ttl_max": f"{TTL_MAX_S}s",
                "capacity": 64, **settings}
    lines = [f"{key} = {value}" for key, value in settings.items() if value is not None]
    lines += [f"node = {node if isinstance(node, str) else node.spec}" for node in (run.nodes if nodes is None else nodes)]
    return write(run, "\n".join(lines) + "\n")


def write(run, text):
    path = run.dir / f"{run.serial()}.conf"
    path.write_text(text)
    path.chmod(0o600)
    return path


def check(run, path, code, *words, options=(), env=None):
    """Checks the file; every word is in one line of what is said."""
    process = run.spawn(BUILD / "bin" / "holdfastd", "--check-config", path, *options, label="check", env=env)
    result = Result(process.wait(), process.out, process.err)
    assert result.rc == code, result
    for word in words:
        assert re.search(word, result.out + result.err, re.M), f"{word!r} is not in {result}"
    assert all(line.isprintable() for line in (result.out + result.err).splitlines()), result
    return result


def line_of(path, key):
    return next(i for i, line in enumerate(path.read_text().splitlines(), 1) if line.startswith(key))


def start(run, **settings):
    """An agent with such a file."""
    path = config(run, **settings)
    return path, run.agent(nodes=[], fresh=True, options=["--config", path])


def state_of(run, agent):
    """Of everything that a check could change by mistake: files (the journal's too, but for renewals), table, nodes."""
    folder = run.runtime_dir / agent.name
    table = pathlib.Path("/dev/shm") / f"holdfast{'' if os.geteuid() == 0 else f'-{os.geteuid()}'}.{agent.name}"
    files = {path.name: (path.stat().st_ino, path.stat().st_size, path.stat().st_mode) for path in folder.iterdir()}
    return files, table.stat().st_ino, [node.cmd("HGETALL", "holdfast:node") for node in run.nodes]


@contextlib.contextmanager
def unchanged(run, agent, *holders):
    """The agent runs on, and its leases are held and renewed."""
    before, pid = state_of(run, agent), agent.pid
    yield
    assert agent.running and agent.pid == pid and state_of(run, agent) == before
    time.sleep(3.2)  # longer than the TTL
    assert all(holder.held() for holder in holders)
    assert not re.search("error|lost", agent.err), agent.err


# --- the file ------------------------------------------------------------------------------------------


@scenario("a good file: exit 0, and nothing is made")
def good(run):
    run.redis(3)
    result = check(run, config(run), GOOD, r"agent: no \S+ runs", "nodes: 3 of 3 answer", r"\.conf: good$")
    assert not result.err, result
    assert not list(run.runtime_dir.iterdir())
    assert all(node.cmd("DBSIZE") == 0 for node in run.nodes), "a sentinel was made"
    result = check(run, config(run), GOOD, r"\.conf: good$", options=["--offline"])
    assert "nodes" not in result.out and "agent" not in result.out, result


@scenario("a typo, an unknown key, a range and an inequality: each with its line and the remedy")
def one_fault(run):
    for text, line, words in [("ttl_mx = 5s", 2, "there is no setting 'ttl_mx'; did you mean 'ttl_max'"),
                              ("colour = red", 2, r"there is no setting 'colour'; see holdfast.conf\(5\)"),
                              ("capacity = 0", 2, "capacity: give a number from 1 to 1048576: '0' is none"),
                              ("ttl = 2m", 2, "use a TTL of at most 60000 ms, the fleet's ttl_max, not 120000 ms"),
                              ("[agent]", 2, "remove this line: there are no"), ("ttl", 2, 'write "key = value"'),
                              ("node = a", 2, "the id 'a' is listed twice"),
                              ("name = \x1b[31m", 2, r"name: use letters, .*: '\\x1b\[31m' has others")]:
        path = write(run, f"node = a\n{text}\n")
        result = check(run, path, BAD, rf"^{path}:{line}: .*{words}", "1 fault: do not use it")
        assert len(result.err.splitlines()) == 2 and not result.out, result


@scenario("several faults at once: all are told; a start names the first and how many there are")
def many_faults(run):
    path = write(run, "ttl = 0\nlog_level = loud\nnode = h:x\nttl_mx = 1\n")
    result = check(run, path, BAD, "4 faults: do not use it")
    assert [int(number) for number in re.findall(rf"(?m)^{path}:(\d+): ", result.err)] == [1, 2, 3, 4], result
    agent = run.spawn(BUILD / "bin" / "holdfastd", "--config", path, label="start")
    assert agent.wait() == BAD
    assert re.search(rf"holdfastd: {path}:1: ttl: .* \(and 3 more: --check-config FILE shows all\)$", agent.err.strip()), agent.err


@scenario("an empty file, a directory, a file that is missing or cannot be read: said so, exit 78; options: exit 64")
def no_file(run):
    check(run, write(run, ""), BAD, "write node = ADDRESS for each Redis master: no nodes are given")
    check(run, run.dir, BAD, "cannot read it: it is not a regular file")
    check(run, run.dir / "none", BAD, "cannot read it: No such file or directory")
    for options, words in [(["--check-config"], "--check-config needs a value: FILE"),
                           (["--offline"], "--offline goes with --check-config"),
                           (["--check-confg", "x"], "did you mean '--check-config'"),
                           (["--check-config", "x", "--config", "y"], "a file is given already: 'x'")]:
        process = run.spawn(BUILD / "bin" / "holdfastd", *options, label="usage")
        assert process.wait() == USAGE and words in process.err, process.err
    path = config(run, nodes=["a"])
    check(run, path, USAGE, "holdfastd: capacity: give a number from 1 to 1048576: 'x' is none", options=["--capacity", "x"])


@scenario("warnings: passwords that all can read, an even number of nodes, a TTL that is too short; exit 0")
def warnings(run):
    path = config(run, nodes=["a=redis://:secret@127.0.0.1:1", "b=127.0.0.1:2"], ttl="1s")
    path.chmod(0o644)
    result = check(run, path, GOOD, "warning: .*it has passwords and every user can read it", "warning: use an odd number",
                   "warning: use a TTL of at least", "good, with 3 warnings", options=["--offline"])
    assert "secret" not in result.err + result.out


# --- the agent and its leases --------------------------------------------------------------------------


@scenario("a running agent with leases: a restart readopts them, and does; the check changes nothing")
def running(run):
    run.redis(3)
    path, agent = start(run)
    holders = [run.holder(label=f"h{i}") for i in range(3)]
    for i, holder in enumerate(holders):
        holder.acquire(f"job{i}")
    with unchanged(run, agent, *holders):
        for _ in range(3):
            result = check(run, path, GOOD, rf"runs \(pid {agent.pid}\); a restart readopts 3 of its 3 leases$", "good$")
            assert not result.err, result
    holders[0].release()
    check(run, path, GOOD, "readopts 2 of its 2 leases")
    agent.stop()
    check(run, path, GOOD, r"no \S+ runs; a start readopts 2 of the 2 leases that the last one left")
    agent = run.agent(nodes=[], fresh=False, options=["--config", path])
    assert "2 leases readopted" in agent.err, agent.err
    assert holders[1].held() and holders[2].held()
    for holder in holders[1:]:
        holder.release()
    check(run, path, GOOD, rf"runs \(pid {agent.pid}\) and holds no lease")


@scenario("a smaller ttl_max: which leases a restart would end, and which not")
def smaller_ttl_max(run):
    run.redis(3)
    path, agent = start(run)
    holder, longer = run.holder(), run.holder(label="longer")
    holder.acquire("short", 2000)
    longer.acquire("long", 5000)
    path = config(run, ttl_max="4s")
    with unchanged(run, agent, holder, longer):
        check(run, path, BAD,
              rf"{path}:{line_of(path, 'ttl_max')}: a restart would end 1 of the 2 leases that are held, such as long, held by "
              rf"pid {longer.pid}: use a TTL of at most 4000 ms, the fleet's ttl_max, not 5000 ms",
              rf"{path}:{line_of(path, 'ttl_max')}: ttl_max is 6000 ms on node n1 and 4000 ms here \(also n2, n3\); use what "
              r"the fleet has, or stop all its agents for 8 s",
              "a restart readopts 1 of its 2 leases")
        check(run, path, BAD, "--reset-fleet replaces that", "2 faults|1 fault", options=["--reset-fleet"])
    agent.stop()
    agent = run.agent(nodes=[], fresh=False, options=["--config", path], wait=False)  # as the check said
    agent.wait_err("1 leases readopted, 0 released, 1 lost")


@scenario("another capacity: all leases are kept, as a restart shows")
def another_capacity(run):
    run.redis(3)
    path, agent = start(run)
    holders = [run.holder(label=f"h{i}") for i in range(3)]
    for i, holder in enumerate(holders):
        holder.acquire(f"job{i}")
    larger = config(run, capacity=1_000_000)
    path = config(run, capacity=2)
    with unchanged(run, agent, *holders):
        for file in (path, larger):
            check(run, file, GOOD, "readopts 3 of its 3 leases", "[.]conf: good")
    agent.stop()
    agent = run.agent(nodes=[], fresh=False, options=["--config", path])
    agent.wait_err("leases of an earlier agent are in 3 slots, more than the capacity of 2")
    assert "3 leases readopted" in agent.err and all(holder.held() for holder in holders), agent.err


@scenario("other nodes or key formats: an agent would not start while leases are held, and does not")
def other_list(run):
    run.redis(4)
    path, agent = start(run, nodes=run.nodes[:3])
    holder = run.holder()
    holder.acquire("job")
    changed = config(run, nodes=[*run.nodes[:2], run.nodes[3]])
    swapped = config(run, nodes=[run.nodes[1], run.nodes[0], run.nodes[2]])
    keys = config(run, nodes=run.nodes[:3], key_format="x:%s")
    with unchanged(run, agent, holder):
        check(run, changed, BAD,
              rf"{changed}:{line_of(changed, 'node = n4')}: an agent would not start while leases of the running one \(pid "
              rf"{agent.pid}\) are held, 1 now: its nodes are n1, n2, n3, and those of the file are n1, n2, n4; let them end",
              "node n1 belongs to a list with other ids or another order: number 3 is n3 there and n4 here")
        check(run, swapped, BAD, "its nodes are n1, n2, n3, and those of the file are n2, n1, n3; let")
        check(run, keys, BAD, rf"{keys}:{line_of(keys, 'key_format')}: an agent would not start .* its key_format or",
              "the other hosts of node n1 have no key_format")
        check(run, config(run, nodes=run.nodes[:2], key_format="x:%s"), BAD, "are n1, n2; its key formats differ, too")
    agent.stop()
    check(run, changed, BAD, r"would not start for \d s, until 1 leases of the agent that ended are over: its nodes are n1")
    refused = run.spawn(BUILD / "bin" / "holdfastd", "--config", changed, label="start")
    assert refused.wait() == 71 and "another list of nodes" in refused.err, refused.err
    agent = run.agent(nodes=[], fresh=False, options=["--config", path])
    assert holder.held()
    holder.release()
    check(run, changed, BAD, r"runs \(pid \d+\) and holds no lease")  # the nodes' sentinels are left


@scenario("a journal that is a copy: a warning, and the file is left alone")
def copied_journal(run):
    run.redis(3)
    path, agent = start(run)
    holder = run.holder()
    holder.acquire("job")
    agent.kill()
    journal = run.runtime_dir / agent.name / "journal"
    copy = journal.with_name("copy")
    copy.write_bytes(journal.read_bytes())
    copy.chmod(0o600)
    copy.rename(journal)
    before = journal.read_bytes()
    result = check(run, path, GOOD, rf"warning: {journal} is a copy of a journal: its leases are neither readopted nor released", "none left leases that are held")
    assert journal.read_bytes() == before, result
    holder.close()


@scenario("a journal that is damaged: what a start would say, and the file is left alone")
def damaged_journal(run):
    run.redis(3)
    path, agent = start(run)
    holder = run.holder()
    holder.acquire("job")
    agent.kill()
    journal = run.runtime_dir / agent.name / "journal"
    whole = journal.read_bytes()
    journal.write_bytes(b"x" + whole[1:])
    check(run, path, BAD, "an agent would not start: .*journal is damaged.*remove it")
    assert journal.read_bytes() == b"x" + whole[1:]
    journal.write_bytes(whole)
    check(run, path, GOOD, "a start readopts 1 of the 1 leases")
    holder.kill()
    check(run, path, GOOD, "and none left leases that are held")


@scenario("the table is gone: a restart would end the leases")
def no_table(run):
    run.redis(3)
    path, agent = start(run)
    holder = run.holder()
    holder.acquire("job")
    agent.kill()
    os.unlink(f"/dev/shm/holdfast{'' if os.geteuid() == 0 else f'-{os.geteuid()}'}.{agent.name}")
    check(run, path, BAD, "a restart would end the 1 leases that are held: there is no /dev/shm/holdfast",
          "a start readopts 0 of the 1 leases")


@scenario("something else has the table's name: what a start would say, and it is left alone")
def squatted_table(run):
    run.redis(3)
    path = config(run)
    squatter = pathlib.Path(f"/dev/shm/holdfast{'' if os.geteuid() == 0 else f'-{os.geteuid()}'}.{run.tag}-a")
    os.mkfifo(squatter)
    try:
        check(run, path, BAD, "an agent would not start: .* is a named pipe .* where the table should be: .*remove it")
        assert squatter.is_fifo()
    finally:
        squatter.unlink()
    folder = run.runtime_dir / f"{run.tag}-a"
    folder.mkdir(mode=0o700)
    (folder / "nodes").write_text("")
    (folder / "nodes").chmod(0o644)
    check(run, path, BAD, "an agent would not start: look at .*/nodes and remove it: it is not a private file")
    (folder / "nodes").unlink()
    folder.chmod(0o777)
    check(run, path, BAD, r"may be written by others \(mode 0777\); use chmod go-w")


@scenario("root checks the file of another user's agent: with that user's eyes", needs_root=True,
          sanitizers=False)  # LeakSanitizer cannot look into a process that has changed its user
def as_root(run):
    run.redis(3)
    run.runtime_dir.chmod(0o777)
    path = config(run)
    path.chmod(0o644)
    agent = run.agent(nodes=[], options=["--config", path], uid=OTHER_UID)
    holder = run.holder(uid=OTHER_UID)
    holder.acquire("job")
    check(run, path, GOOD, rf"runs \(pid {agent.pid}\); a restart readopts 1 of its 1 leases")
    path.chmod(0o600)
    check(run, path, BAD, rf"the agent's user \(uid {OTHER_UID}\) cannot read it")
    assert holder.held()


# --- nodes ---------------------------------------------------------------------------------------------


@contextlib.contextmanager
def impostor(speak):
    """Accepts on a port, and says that, or nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server, contextlib.ExitStack() as peers:
        def accept():
            with contextlib.suppress(OSError):
                while True:
                    peer = peers.enter_context(server.accept()[0])
                    peer.sendall(speak)

        threading.Thread(target=accept, daemon=True).start()
        yield "127.0.0.1:%d" % server.getsockname()[1]


@scenario("nodes that are replicas, have replicas, evict, have no scripts, are one server twice: told at their lines, with the remedy")
def wrong_roles(run):
    run.redis(3, tcp=True)
    port = run.nodes[0].address.rpartition(":")[2]
    copy = Redis(run, "copy", tcp=True, options=["--replicaof", "127.0.0.1", port]).start()
    evicts = Redis(run, "evicts", options=["--maxmemory", "10mb", "--maxmemory-policy", "allkeys-lru"]).start()
    cluster = Redis(run, "cluster", tcp=True, options=["--cluster-enabled", "yes", "--cluster-port", str(free_port())]).start()
    lacking = Redis(run, "lacking", options=["--rename-command", "SCRIPT", ""]).start()
    twin = f"twin={run.nodes[1].address.replace('127.0.0.1', 'localhost')}"
    wait_until(lambda: b"state=online" in run.nodes[0].cmd("INFO", "replication"), what="the replica is attached")
    path = config(run, nodes=[*run.nodes, copy, evicts, cluster, lacking, twin])
    check(run, path, BAD,
          rf"{path}:{line_of(path, 'node = n1')}: node n1 \(127.0.0.1:{port}\): it has replicas, or had a failover.*detach",
          rf"{path}:{line_of(path, 'node = copy')}: node copy .*: it is a replica; name its master",
          "node evicts .*maxmemory-policy may evict locks; set noeviction",
          r"node cluster .*: it is in cluster mode", r"node twin .*: it says that it is the same server as node n2 .*list each server once",
          "node lacking .*: allow SCRIPT LOAD there", "6 faults")
    check(run, config(run, nodes=[*run.nodes, evicts, "x=127.0.0.1:1"], allow_eviction="yes", allow_replicas="yes"), GOOD,
          "nodes: 4 of 5 answer")
    assert all(node.cmd("DBSIZE") == 0 for node in run.nodes), "something was written"


@scenario("nodes that are down, hang, are no Redis or want another password: warnings for what may pass, faults for the rest")
def no_answers(run):
    run.redis(3, tcp=True, password="right")
    run.nodes[2].sigstop()
    right = [f"{node.id}=redis://:right@{node.address}" for node in run.nodes]
    wrong = f"w=redis://:wr0ng@{run.nodes[0].address}"
    began = time.monotonic()
    with impostor(b"SSH-2.0-OpenSSH_9.2\r\n") as ssh, impostor(b"") as silent:
        path = config(run, nodes=[*right, f"ssh={ssh}", f"silent={silent}", "down=127.0.0.1:1", "u=unix:/none",
                                  f"none={run.nodes[1].address.replace('127.0.0.1', 'localhost')}"])
        result = check(run, path, BAD, "node n3 .* does not answer: no answer within 2 s",
                       rf"{path}:{line_of(path, 'node = ssh')}: node ssh .*: what answers there is no Redis",
                       "warning: node silent .*: no answer within 2 s", "warning: node down .*: Connection refused",
                       "warning: node u .*: No such file", r"node none .*: give this node's user and password, which it wants \(INFO: auth",
                       r"warning: 2 of 8 nodes answer as they should, and 5 are needed")
        assert time.monotonic() - began < 6, "one after the other"
        assert "right" not in result.err, result
    run.nodes[2].sigcont()
    result = check(run, config(run, nodes=[*right[1:], wrong]), BAD, "node w .*: AUTH: user or password is wrong")
    assert "wr0ng" not in result.err + result.out, result
    check(run, config(run, nodes=right), GOOD, "nodes: 3 of 3")
    run.nodes[2].kill()
    check(run, config(run, nodes=right), GOOD, "warning: node n3 .* does not answer: Connection refused", "nodes: 2 of 3",
          "good, with 1 warning")
    run.nodes[1].kill()
    result = check(run, config(run, nodes=right), NO_QUORUM, "warning: 1 of 3 nodes answer as they should, and 2 are needed",
                   "no quorum: with these nodes no lock can be had now")
    assert "good" not in result.out + result.err, result


@scenario("nodes of another fleet: how they differ, and the remedy; those alike are one line")
def another_fleet(run):
    run.redis(4)
    run.agent(nodes=run.nodes[:3], ttl="2s", options=["--ttl-max", "5s"])
    path = config(run, nodes=run.nodes[:3], label="b")
    ttl_max = line_of(path, "ttl_max")
    result = check(run, path, BAD, rf"{path}:{ttl_max}: ttl_max is 5000 ms on node n1 and 6000 ms here \(also n2, n3\); use what")
    assert "(also" in result.err and len(result.err.splitlines()) == 2, result
    check(run, config(run, label="b", ttl_max="5s"), BAD, "node n1 belongs to a list of 3 nodes, ours has 4", r"also n2, n3\)")
    check(run, config(run, nodes=run.nodes[1:], label="b", ttl_max="5s"), BAD, r"node n2 belongs to a list with other ids",
          r"\(also n3\)")
    check(run, config(run, nodes=run.nodes[:3], label="b", ttl_max="5s"), GOOD, "nodes: 3 of 3 answer as they should")
    run.nodes[0].cmd("DEL", "holdfast:node")
    run.nodes[0].cmd("SET", "holdfast:node", "x")
    check(run, config(run, nodes=run.nodes[:3], label="b", ttl_max="5s"), BAD, "node n1 .*: its key holdfast:node is no agent's: WRONGTYPE")


if __name__ == "__main__":
    main()
