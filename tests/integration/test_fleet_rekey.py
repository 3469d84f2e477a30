#!/usr/bin/env python3
"""The fleet's key formats change: no lock is held meanwhile, and no lock ever has two keys at once."""
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from changing import change, done, host, refused, version, votes  # noqa: E402
from rig import main, scenario, wait_until  # noqa: E402

NEW = "new:%s"


class File:
    """A host's configuration file: its key format, which has to come from a file."""

    def __init__(self, run, label):
        self.path = run.dir / f"{label}.conf"
        self.write()

    def write(self, key_format=None):
        self.path.write_text(f"key_format = {key_format}\n" if key_format else "# nothing\n")


def hosts(run, labels="ab"):
    run.redis(3)
    files = {label: File(run, label) for label in labels}
    agents = {label: host(run, label, options=("--config", str(files[label].path))) for label in labels}
    for agent in agents.values():
        votes(run, agent=agent)
    return agents, files


def drain(run, *agents):
    for agent in agents:
        assert run.holdfast("drain", "--wait", agent=agent).rc == 0


def again(run, label, files):
    """The service manager starts it again."""
    run.agents = [agent for agent in run.agents if agent.running]
    return host(run, label, options=("--config", str(files[label].path)), fresh=False, wait=False)


def keys_of(run):
    found = {key.decode() if isinstance(key, bytes) else key for node in run.nodes for key in node.cmd("KEYS", "*")}
    return {key for key in found if not key.startswith("holdfast:")}


def undrain(run, agent):
    wait_until(lambda: run.holdfast("undrain", agent=agent).rc == 0, 15, "the host is not drained any more")


@scenario("all hosts are drained, one asks for the file's key formats, the agents are restarted: locks have the new keys")
def all_is_well(run):
    agents, files = hosts(run)
    holder = run.holder(agents["a"])
    holder.acquire("job")
    assert "job" in keys_of(run)
    files["a"].write(NEW)
    refused(run, "rekey", says=["holdfast drain --wait on every host first", "this host is not drained"], agent=agents["a"])
    assert run.holdfast("drain", agent=agents["a"]).rc == 0
    refused(run, "rekey", says="this host holds 1 lock, which would be lost", agent=agents["a"])
    holder.release()
    drain(run, agents["b"])
    refused(run, "rekey", says="put the new key_format and key_format_for into this host's configuration file first",
            agent=agents["b"])
    files["b"].path.write_text("key_format = no percent\n")
    refused(run, "rekey", says=["correct the configuration, which has the key formats that come", "b.conf"], agent=agents["b"])
    files["b"].write(NEW)
    result = done(change(run, "rekey", agent=agents["a"], timeout_s=60))
    assert "restart the agents of all hosts" in result.out, result
    for label, agent in agents.items():
        assert "put the key_format, key_format_for and database of version" in run.holdfast("fleet", agent=agent).out, label
        assert run.holdfast("undrain", agent=agent).rc == 0
        result = run.holdfast("run", "-n", "job", "true", agent=agent)
        assert result.rc != 0 and "restart its agent" in result.err, result
        agent.stop()
        agents[label] = again(run, label, files)
    for agent in agents.values():
        agent.wait_ready(30)
        votes(run, agent=agent)
    holder = run.holder(agents["b"])
    holder.acquire("job")
    assert "new:job" in keys_of(run) and "job" not in keys_of(run), keys_of(run)
    assert run.holdfast("run", "-n", "job", "true", agent=agents["a"]).rc == 75
    holder.release()


@scenario("a host that was not drained loses its lock by the old key before anybody gets it by the new one")
def not_drained(run):
    agents, files = hosts(run, "abc")
    holder = run.holder(agents["b"])
    holder.acquire("job")
    drain(run, agents["a"], agents["c"])
    for file in files.values():
        file.write(NEW)
    command = run.start_holdfast("fleet", "rekey", agent=agents["a"])
    wait_until(lambda: all(version(node) == 2 for node in run.nodes), 20, "it is on all nodes")
    agents["c"].stop()
    agents["c"] = again(run, "c", files)
    undrain(run, agents["c"])
    lost = granted = None
    deadline = time.monotonic() + 60
    while granted is None and time.monotonic() < deadline:
        if lost is None and not holder.held():
            lost = time.monotonic()
        if run.holdfast("run", "-n", "job", "true", agent=agents["c"]).rc == 0:
            granted = time.monotonic()
    assert lost is not None and granted is not None and lost < granted, (lost, granted)
    assert command.wait(60) == 0, command.err
    assert agents["b"].running and "put the key_format, key_format_for and database of version" in run.holdfast("fleet", agent=agents["b"]).out


@scenario("a rekey that cannot end is given up: the old key formats hold again, and nobody took a lock meanwhile")
def given_up(run):
    agents, files = hosts(run)
    drain(run, *agents.values())
    files["a"].write(NEW)
    run.nodes[2].sigstop()
    command = run.start_holdfast("fleet", "rekey", agent=agents["a"])
    wait_until(lambda: version(run.nodes[0]) == 2, 20, "it has begun")
    command.kill()
    assert run.holdfast("undrain", agent=agents["b"]).rc == 0
    for label in agents:
        wait_until(lambda: "key formats: other ones than before" in run.holdfast("fleet", agent=agents[label]).out, 20,
                   "the agents go by it")
    assert run.holdfast("run", "-n", "job", "true", agent=agents["b"]).rc != 0
    back = run.start_holdfast("fleet", "abort", agent=agents["b"])
    wait_until(lambda: version(run.nodes[0]) == 3, 20, "the way back is under way")
    run.nodes[2].sigcont()
    assert back.wait(60) == 0, (back.out, back.err)
    files["a"].write()
    assert run.holdfast("undrain", agent=agents["a"]).rc == 0
    for label, agent in agents.items():
        votes(run, agent=agent)
        wait_until(lambda: run.holdfast("run", "-n", f"after-{label}", "true", agent=agent).rc == 0, 20, "it has settled here")
    holder = run.holder(agents["b"])
    holder.acquire("job")
    assert "job" in keys_of(run) and "new:job" not in keys_of(run)
    holder.release()


@scenario("a host that comes back with the old key formats takes no lock, and says what to do")
def old_file(run):
    agents, files = hosts(run)
    drain(run, *agents.values())
    agents["b"].stop()
    files["a"].write(NEW)
    done(change(run, "rekey", agent=agents["a"], timeout_s=60))
    agents["a"].stop()
    agents["a"] = again(run, "a", files).wait_ready(30)
    old = again(run, "b", files)
    undrain(run, old)
    result = run.holdfast("run", "-n", "job", "true", agent=old)
    assert result.rc != 0 and "key_format" in result.err, result
    old.wait_err("key_format")
    files["b"].write(NEW)
    old.stop()
    agents["b"] = again(run, "b", files).wait_ready(30)
    assert run.holdfast("undrain", agent=agents["a"]).rc == 0
    votes(run, agent=agents["b"])
    wait_until(lambda: run.holdfast("run", "-n", "job", "true", agent=agents["b"]).rc == 0, 20, "it has settled here")


if __name__ == "__main__":
    main()
