#!/usr/bin/env python3
"""Secrets and rights: passwords in files and credentials, what shows them (nothing), their rotation while locks are held;
the least rights that a node's user needs, and who names those that are missing."""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from rig import BUILD, main, scenario, wait_until  # noqa: E402

OLD, NEW = "Geheim; ;Eins", "Geheim Zwei%20"


def write(path, text, mode=0o600):
    path.write_text(text)
    path.chmod(mode)
    return path


def config(run, nodes=None, **settings):
    lines = [f"{key} = {value}" for key, value in settings.items()]
    lines += [f"node = {node}" for node in (nodes or [f"{node.id}={node.address}" for node in run.nodes])]
    return write(run.dir / "holdfast.conf", "\n".join(lines) + "\n")


def passwords(run, add=None, remove=None):
    """As an administrator rotates them."""
    for node in run.nodes:
        for word, sign in ((add, ">"), (remove, "<")):
            if word:
                node.cmd("ACL", "SETUSER", "default", f"{sign}{word}")
        if add:
            node.password = add


def connections(node):
    return {line.split()[0] for line in node.cmd("CLIENT", "LIST").decode().splitlines() if "name=holdfast-" in line}


def shows_no_secret(run, agent):
    """Whatever a user or an administrator looks at."""
    texts = [agent.err, agent.out, pathlib.Path(f"/proc/{agent.pid}/cmdline").read_bytes().decode()]
    for words in (["nodes"], ["nodes", "--json"], ["doctor"], ["history"], ["fleet"], ["status"]):
        shown = run.holdfast(*words)
        texts += [shown.out, shown.err]
    check = run.spawn(BUILD / "bin" / "holdfastd", "--check-config", run.dir / "holdfast.conf", "--print-config", label="check",
                      env={"CREDENTIALS_DIRECTORY": run.dir})
    check.wait()
    for text in [*texts, check.out, check.err]:
        assert "eheim" not in text and "Eins" not in text and "Zwei" not in text, text


@scenario("a password file is rotated while a lock is held: what nodes refuse changes nothing, no connection ends")
def rotation(run):
    run.redis(3, password=OLD)
    file = write(run.dir / "password", OLD + "\n")
    path = config(run, password_file=file)
    agent = run.agent(nodes=[], ttl="3s", options=("--config", path))
    holder = run.holder()
    holder.acquire("job")
    write(file, NEW)
    refused = run.holdfast("reload")
    assert refused.rc == 78 and "refuses the new user or password" in refused.err, refused
    passwords(run, add=NEW)
    before = [connections(node) for node in run.nodes]
    applied = run.holdfast("reload")
    assert applied.rc == 0 and "node n1: another user or password; node n2: another" in applied.out + applied.err, applied
    passwords(run, remove=OLD)
    assert all(connections(node) >= was for node, was in zip(run.nodes, before)), "connections stay"
    run.nodes[0].cmd("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    wait_until(lambda: connections(run.nodes[0]) - before[0], 10, "new connections, with the new password")
    wait_until(lambda: run.holdfast("nodes", "--json").json["nodes"][0]["state"] == "up", 10, "n1 is up")
    wait_until(lambda: all(node.pttl("job") > 1000 for node in run.nodes), 10, "the lease is renewed everywhere")
    assert holder.held()
    shows_no_secret(run, agent)


@scenario("a file that is wrong at a reload is named, and nothing changes")
def bad_file(run):
    run.redis(3, password=OLD)
    file = write(run.dir / "password", OLD)
    agent = run.agent(nodes=[], options=("--config", config(run, password_file=file)))
    holder = run.holder()
    holder.acquire("job")
    for text, words in (("", "is empty"), (f"{NEW}\n{OLD}\n", "in its first line and nothing below")):
        write(file, text)
        refused = run.holdfast("reload")
        assert refused.rc == 78 and words in refused.err and str(file) in refused.err, refused
    file.unlink()
    assert "No such file" in run.holdfast("reload").err
    assert holder.held() and agent.running
    shows_no_secret(run, agent)


@scenario("a credential of the service, and a node with a file of its own")
def credential(run):
    run.redis(3, password=OLD)
    run.nodes[2].cmd("CONFIG", "SET", "requirepass", NEW)
    run.nodes[2].password = NEW
    write(run.dir / "redis", OLD + "\n")
    own = write(run.dir / "own", NEW)
    nodes = [f"{node.id}={node.address}" for node in run.nodes]
    path = config(run, nodes=[*nodes[:2], f"{nodes[2]},password_file={own}"], password_file="redis")
    start = run.spawn(BUILD / "bin" / "holdfastd", "--config", path, label="outside")
    assert start.wait() == 78 and "LoadCredential=redis:PATH" in start.err, start.err
    agent = run.agent(nodes=[], options=("--config", path), env={"CREDENTIALS_DIRECTORY": run.dir})
    assert {row["state"] for row in run.holdfast("nodes", "--json").json["nodes"]} == {"up"}
    shows_no_secret(run, agent)


@scenario("a password with a blank and a ; in the file's line: neither used, nor shown, and how to write it")
def cut(run):
    path = config(run, nodes=["a=redis://:Geheim; Eins@127.0.0.1:1", "b=redis://:Geheim ;Eins@127.0.0.1:1"])
    start = run.spawn(BUILD / "bin" / "holdfastd", "--check-config", path, "--offline", label="check")
    assert start.wait() == 78, start.err
    assert f"{path}:1: " in start.err and "%20" in start.err and f"{path}:2: node: write %3B" in start.err, start.err
    assert "Geheim" not in start.err and "Eins" not in start.err, start.err


# --- rights ----------------------------------------------------------------------------------------------

MANUAL = (pathlib.Path(__file__).resolve().parents[2] / "docs" / "man" / "holdfastd.8").read_text()
RIGHTS = re.search(r"^ACL SETUSER holdfast on >PASSWORD (.*)", MANUAL, re.M).group(1).split()
NEEDED = RIGHTS[3:RIGHTS.index("+scan")]
BETTER = RIGHTS[RIGHTS.index("+scan"):]


def users(run, *more):
    for node in run.nodes:
        node.cmd("ACL", "SETUSER", "holdfast", "reset", "on", ">Sesam", *RIGHTS, *more)
    return [f"{node.id}=redis://holdfast:Sesam@{node.address}" for node in run.nodes]


def denied(run):
    log = [line for node in run.nodes for line in node.cmd("ACL", "LOG")]
    return [dict(zip(entry[::2], entry[1::2])).get(b"object") for entry in log]


def check(run, nodes):
    process = run.spawn(BUILD / "bin" / "holdfastd", "--check-config", config(run, nodes=nodes), label="check")
    return process.wait(), process.err


@scenario("the rights of the manual's line are enough for all that an agent does, and none of them is too many")
def least_rights(run):
    run.redis(3, tcp=True)
    nodes = users(run)
    agents = [run.agent(label, nodes=nodes, ttl="3s", options=("--ttl-max", "6s")) for label in ("a", "b")]
    first, second = (run.holder(agent) for agent in agents)
    first.acquire("job")
    waiting = run.start_holdfast("run", "-w", "20s", "job", "--", "true", agent=agents[1])
    wait_until(lambda: all(node.pttl("job") > 2500 for node in run.nodes), 10, "the lease is renewed")
    run.nodes[0].cmd("DEL", "job")
    wait_until(lambda: run.nodes[0].get("job"), 10, "the key is healed")
    for words in (["list", "--all-hosts"], ["show", "job"], ["nodes"], ["doctor"], ["fleet"]):
        run.holdfast(*words, agent=agents[1])
    first.release()
    assert waiting.wait() == 0, waiting.err
    second.acquire("other")
    run.holdfast("release", "--force", "other", agent=agents[0])
    assert run.holdfast("fleet", "ttl-max", "7s").rc == 0
    run.nodes[1].cmd("CLIENT", "KILL", "USER", "holdfast")
    wait_until(lambda: run.holdfast("nodes", "--json").json["nodes"][1]["state"] == "up", 10, "n2 is up again")
    wait_until(lambda: all(row["tracking"] == "on" for row in run.holdfast("nodes", "--json").json["nodes"]), 10, "all nodes tell of keys")
    assert not denied(run), denied(run)
    assert check(run, [f"{node}/1" for node in users(run, "+select")]) == (0, ""), check(run, nodes)
    used = {line.split(":")[0].removeprefix("cmdstat_") for line in run.nodes[0].cmd("INFO", "commandstats").decode().splitlines()}
    assert {right.removeprefix("+") for right in RIGHTS[3:]} <= used, set(RIGHTS[3:]) - {f"+{word}" for word in used}


@scenario("each right that is missing is named: by --check-config, and where locks need it by nodes and doctor")
def missing_right(run):
    run.redis(3, tcp=True)
    nodes = users(run)
    for right in RIGHTS[3:]:
        if right in ("+subscribe",):
            continue  # it would leave the connection subscribed
        users(run, right.replace("+", "-", 1))
        code, said = check(run, nodes)
        assert code == (78 if right in NEEDED else 0), (right, code, said)
        assert f"ACL SETUSER holdfast {right}: its user lacks" in said, (right, said)
    for node in run.nodes:
        node.cmd("ACL", "SETUSER", "holdfast", "reset", "on", ">Sesam", *RIGHTS[1:], "~holdfast:other:*")
    assert "ACL SETUSER holdfast ~*: its user lacks" in check(run, nodes)[1]
    users(run)
    agent = run.agent(nodes=nodes, ttl="3s", options=("--ttl-max", "6s"))

    def found(check):
        return [f for f in run.holdfast("doctor", "--json").json["findings"] if f["check"] == check and f["text"].startswith("n3")]

    for lost in (["hset"], ["time", "hmget"], ["info"], ["evalsha"], ["script|load"], ["set", "pexpire"]):
        users(run)
        run.nodes[2].cmd("ACL", "SETUSER", "holdfast", *(f"-{right}" for right in lost))
        run.nodes[2].cmd("CLIENT", "KILL", "USER", "holdfast")
        wanted = "ACL SETUSER USER " + " ".join(f"+{right}" for right in lost)
        if lost != ["hset"]:
            wait_until(lambda: any(wanted in (f["remedy"] or "") for f in found("node.state")), 20, f"doctor says {wanted}")
            assert "its user lacks" in (run.holdfast("nodes", "--json").json["nodes"][2]["error"] or ""), lost
            continue
        holder = run.holder()  # only an acquire needs it
        wait_until(lambda: run.holdfast("nodes", "--json").json["nodes"][2]["state"] == "up", 10, "n3 is up")
        for _ in range(2):
            holder.acquire("job")
            holder.release()
            wait_until(lambda: run.holdfast("nodes", "--json").json["nodes"][2]["state"] == "unwritable", 10, "it refuses")
            run.nodes[2].cmd("CLIENT", "KILL", "USER", "holdfast")  # the survey
            wait_until(lambda: run.holdfast("nodes", "--json").json["nodes"][2]["state"] == "up", 10, "n3 is up")
        holder.acquire("job")
        wait_until(lambda: any(wanted in (f["remedy"] or "") for f in found("node.state")), 10, f"doctor says {wanted}")
    users(run)
    run.nodes[2].cmd("ACL", "SETUSER", "holdfast", "resetchannels")
    run.nodes[2].cmd("CLIENT", "KILL", "USER", "holdfast")
    wait_until(lambda: found("node.notices"), 10, "doctor names the channel")
    assert "&__redis__:invalidate" in found("node.notices")[0]["remedy"]
    assert "Sesam" not in agent.err


if __name__ == "__main__":
    main()
