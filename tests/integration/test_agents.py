#!/usr/bin/env python3
"""`agents`: which agents are on this host, whatever has become of them, and whatever others put beside their tables."""
import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from rig import BUILD, OTHER_UID, ROOT, SANITIZE, main, scenario, wait_until  # noqa: E402

SHM = pathlib.Path("/dev/shm")


def listed(run, **options):
    result = run.holdfast("agents", "--json", **options)
    return result.rc, {agent["name"]: agent for agent in result.json["agents"]}


@scenario("none: 69, and the remedy; of other directories none is shown")
def none_here(run):
    result = run.holdfast("agents")
    assert result.rc == 69 and "start holdfastd" in result.err and result.out.count("\n") == 1, result
    assert listed(run) == (69, {})


@scenario("agents that run, hang, are killed, have ended: each with its state, process, leases; 3 while one hangs or is dead")
def several(run):
    run.redis(1)
    agents = {label: run.agent(label) for label in ("a", "b", "c", "d")}
    holder = run.holder(agents["b"])
    holder.acquire("job")
    run.holder(agents["a"]).acquire("one")
    waiting = run.start_holdfast("run", "one", "true", agent=agents["a"])
    wait_until(lambda: listed(run)[1][agents["a"].name]["waiters"] == 1, what="one waits")
    code, seen = listed(run)
    assert code == 0 and sorted(seen) == sorted(agent.name for agent in agents.values()), seen
    alive = seen[agents["a"].name]
    assert (alive["state"], alive["pid"], alive["uid"]) == ("alive", agents["a"].pid, os.geteuid()), alive
    assert (alive["leases"], alive["nodes"], alive["voting"], alive["dev"]) == (1, 1, 1, False), alive
    assert alive["directory"] == str(run.runtime_dir / agents["a"].name) and alive["why"] is None, alive
    run.holder(agents["d"]).acquire("kept")  # else its table would end with it
    agents["b"].sigstop()
    agents["c"].kill()
    agents["d"].stop()
    wait_until(lambda: listed(run)[1][agents["b"].name]["state"] == "hung", what="it is found to hang")
    code, seen = listed(run)
    states = {label: seen[agent.name]["state"] for label, agent in agents.items() if agent.name in seen}
    assert code == 3 and states == {"a": "alive", "b": "hung", "c": "dead", "d": "ended"}, states
    assert seen[agents["b"].name]["process"] == "stopped" and seen[agents["b"].name]["leases"] == 1, seen
    result = run.holdfast("agents")
    lines = result.out.splitlines()
    assert result.rc == 3 and len(lines) == 5 and lines[0].startswith("AGENT"), result
    for label, words in (("a", ("alive", str(agents["a"].pid))), ("b", ("hung", "its process is stopped")), ("c", ("dead",)),
                         ("d", ("ended",))):
        line = next(line for line in lines if line.split()[0] == agents[label].name)
        assert all(word in line for word in words), line
    agents["b"].sigcont()
    assert waiting.running


@scenario("every member of the JSON is in docs/JSON.md, and every state")
def documented(run):
    run.redis(1)
    run.agent()
    document = run.holdfast("agents", "--json").json
    members = set(document) | set(document["agents"][0]) | {"alive", "hung", "dead", "ended", "unreadable", "no_table"}
    known = set(re.findall(r"`([a-z_.]+)`", (ROOT / "docs" / "JSON.md").read_text()))
    assert len(members) > 20 and members <= known, members - known


@scenario("an agent whose table is gone, or is a later version's, or nobody's: told, with the reason")
def without_table(run):
    run.redis(1)
    agent = run.agent()
    table, = SHM.glob(f"holdfast*.{agent.name}")
    with open(table, "rb") as file:
        start = file.read(8192)
    table.unlink()
    code, seen = listed(run)
    assert code == 0 and (seen[agent.name]["state"], seen[agent.name]["pid"]) == ("no_table", agent.pid), seen
    assert "starting" in seen[agent.name]["why"] and seen[agent.name]["table"] is None, seen
    for content, words in ((b"x" * 5, "less than a header"), (b"x" * 8192, "no table"), (start, "")):
        table.write_bytes(content)
        table.chmod(0o644)
        code, seen = listed(run)
        assert seen[agent.name]["state"] == "unreadable" and seen[agent.name]["leases"] is None, seen
        assert len(seen[agent.name]["why"]) > 20 and run.holdfast("agents").out.isascii(), seen
    table.unlink()
    agent.stop()


@scenario("another user's object with the name of an agent's table is told as that, not as the agent", needs_root=True)
def squatted(run):
    run.redis(1)
    agent = run.agent()
    name = f"{run.tag}-x"
    table, = SHM.glob(f"holdfast*.{agent.name}")
    (run.runtime_dir / name).mkdir()
    shutil.chown(run.runtime_dir / name, OTHER_UID)
    squat = SHM / f"holdfast-{OTHER_UID - 1}.{name}"
    try:
        subprocess.run(["cp", table, squat], check=True)  # with its holes
        squat.chmod(0o644)
        shutil.chown(squat, OTHER_UID)
        seen = listed(run)[1][name]
    finally:
        squat.unlink()
    assert (seen["state"], seen["uid"], seen["pid"]) == ("unreadable", OTHER_UID, None) and "squats" in seen["why"], seen


@scenario("another user's object with the name of a system agent's table: its kind is a user's", needs_root=True)
def users_kind(run):
    name = f"{run.tag}-x"
    (run.runtime_dir / name).mkdir(parents=True)
    shutil.chown(run.runtime_dir / name, OTHER_UID)
    garbage = SHM / f"holdfast.{name}"
    try:
        garbage.write_bytes(b"x" * 8192)
        assert listed(run)[1].get(name, {"system": True})["system"]
        shutil.chown(garbage, OTHER_UID)
        seen = listed(run)[1][name]
    finally:
        garbage.unlink()
    assert (seen["state"], seen["uid"], seen["system"]) == ("unreadable", OTHER_UID, False), seen


@scenario("an ordinary user sees the system's agents, but not what a mode keeps from them", needs_root=True)
def ordinary_user(run):
    run.redis(1)
    agent = run.agent(system=True)
    code, seen = listed(run, uid=OTHER_UID)
    assert code == 0 and (seen[agent.name]["state"], seen[agent.name]["system"]) == ("alive", True), seen
    table, = SHM.glob(f"holdfast*.{agent.name}")
    table.chmod(0o600)
    code, seen = listed(run, uid=OTHER_UID)
    assert seen[agent.name]["state"] == "unreadable" and "not allowed" in seen[agent.name]["why"], seen


@scenario("usage: no operand, and no --agent")
def usage(run):
    for words in (["x"], ["--agent", "x"], ["-n", "1"]):
        result = run.holdfast("agents", *words)
        assert result.rc == 64 and result.out == "", result
    assert "--agent" not in run.holdfast("agents", "--help").out.replace("what --agent takes", "")


CUTTER = """
import os, random, sys, threading, time
def pieces(fd, size):
    at = 0
    while at < size:
        try:
            begin = os.lseek(fd, at, os.SEEK_DATA)
        except OSError:
            return
        at = os.lseek(fd, begin, os.SEEK_HOLE)
        yield begin, os.pread(fd, at - begin, begin)
def fill(fd, size, room, whole):
    os.ftruncate(fd, size)
    os.posix_fallocate(fd, 0, room)  # a table with too little memory is refused
    for at, piece in whole:
        os.pwrite(fd, piece, at)
def cut(fd, *rest):
    while True:
        time.sleep(random.random() / 500)
        os.ftruncate(fd, 0)
        fill(fd, *rest)
fd = os.open(sys.argv[1], os.O_RDONLY)
status = os.fstat(fd)
facts = status.st_size, status.st_blocks * 512 + 65536, list(pieces(fd, status.st_size))
copies = [os.open(path, os.O_RDWR | os.O_CREAT, 0o644) for path in sys.argv[2:]]
for copy in copies:
    os.fchmod(copy, 0o644)
    fill(copy, *facts)
print("filled", flush=True)
sys.stdin.readline()
for copy in copies:
    threading.Thread(target=cut, args=(copy, *facts), daemon=True).start()
print("cuts", flush=True)
sys.stdin.read()
"""

VIEWER = """
import ctypes, sys
library, view, beat = ctypes.CDLL(sys.argv[1]), ctypes.c_void_p(), ctypes.c_int64()
opened = library.hf_view_open(sys.argv[2].encode(), ctypes.byref(view))
before = library.hf_view_heartbeat_ns(view, ctypes.byref(beat)) if opened == 0 else opened
print("open", opened, before, flush=True)
sys.stdin.read()
after = library.hf_view_heartbeat_ns(view, ctypes.byref(beat))
print("cut", after, flush=True)
sys.exit(not (before == 0 and after < 0))
"""


@scenario("a user cuts tables while they are opened and read: root's commands end with words, never by SIGBUS", needs_root=True)
def cut_tables(run):
    run.redis(1)
    agent = run.agent(options=["--capacity", "64"])
    table, = SHM.glob(f"holdfast*.{agent.name}")
    copies = [SHM / f"holdfast-{OTHER_UID}.{run.tag}-cut{i}" for i in range(16)]
    for copy in copies:
        place = run.runtime_dir / copy.name.partition(".")[2]
        place.mkdir()
        (place / "sock").touch()
        for path in (place, place / "sock"):
            os.chown(path, OTHER_UID, OTHER_UID)
    try:
        cutter = run.spawn("python3", "-c", CUTTER, table, *copies, uid=OTHER_UID, label="cutter", stdin=subprocess.PIPE)
        cutter.wait_out("filled")
        assert "unreadable" not in run.holdfast("agents").out, run.holdfast("agents").out
        # A program of root's that uses the library has no handler for SIGBUS.
        if not SANITIZE:
            path = run.runtime_dir / copies[0].name.partition(".")[2] / "sock"
            viewer = run.spawn("python3", "-c", VIEWER, BUILD / "lib" / "libholdfast.so.1", path, label="viewer", stdin=subprocess.PIPE)
            viewer.wait_out("open")
            os.truncate(copies[0], 0)
            viewer.popen.stdin.close()
            assert viewer.wait() == 0, (viewer.out, viewer.err)
        cutter.popen.stdin.write(b"\n")
        cutter.popen.stdin.flush()
        cutter.wait_out("cuts")
        for _ in range(10):
            result = run.holdfast("agents")
            assert result.rc >= 0 and agent.name in result.out, result
            for copy in copies[:2]:
                shown = run.holdfast("status", "--agent", run.runtime_dir / copy.name.partition(".")[2] / "sock")
                assert shown.rc in (0, 3, 69, 125), shown
    finally:
        for copy in copies:
            copy.unlink(missing_ok=True)
    cutter.kill()


FIELDS = {"pid": 136, "main_beat_ns": 192, "broker_beat_ns": 200, "renewal_beat_ns": 208}  # docs/SHM.md


@contextlib.contextmanager
def false_tables(run, table, count):
    """Another user's copies of a table, and directories of that user for them."""
    copies = [SHM / f"holdfast-{OTHER_UID}.{run.tag}-z{i}" for i in range(count)]
    for copy in copies:
        place = run.runtime_dir / copy.name.partition(".")[2]
        place.mkdir()
        os.chown(place, OTHER_UID, OTHER_UID)
    try:
        cutter = run.spawn("python3", "-c", CUTTER, table, *copies, uid=OTHER_UID, label="copier", stdin=subprocess.PIPE)
        cutter.wait_out("filled")
        for copy in copies:
            with open(copy, "r+b", buffering=0) as file:
                for field, at in FIELDS.items():
                    os.pwrite(file.fileno(), (3999999).to_bytes(4, "little") if field == "pid" else (2**62).to_bytes(8, "little"), at)
        yield copies
        cutter.kill()
    finally:
        for copy in copies:
            copy.unlink(missing_ok=True)


def looked(run):
    begun = time.monotonic()
    result = run.holdfast("agents", "--json")
    return time.monotonic() - begun, result.json


@scenario("another user's false tables, with signs of life to come: root waits for none, is shown 64, and is told of the others", needs_root=True)
def false_signs_of_life(run):
    run.redis(1)
    agents = [run.agent(label, options=["--capacity", "8"]) for label in "ab"]
    table, = SHM.glob(f"holdfast*.{agents[0].name}")
    with false_tables(run, table, 100) as copies:
        assert looked(run)[0] < 5  # was 30
        _, seen = looked(run)
        false = [agent for agent in seen["agents"] if agent["uid"] == OTHER_UID]
        assert len(false) == 64 and {(agent["state"], agent["last_sign_age_ms"]) for agent in false} == {("dead", None)}, false[0]
        left, = seen["left_out"]
        assert (left["uid"], left["agents"]) == (OTHER_UID, 36), left
        assert {agent.name for agent in agents} <= {agent["name"] for agent in seen["agents"]}, seen
        last = run.holdfast("agents").out.splitlines()[-1]
        assert last == f"and 36 more of user {left['user']}", last
        agents[1].sigstop()  # a sign of life that continues is waited for, once
        assert looked(run)[0] < 5
        agents[1].sigcont()
        for copy in copies[64:]:
            copy.unlink()
        assert looked(run)[1]["left_out"] == []


LOCKER = """
import fcntl, os, struct, sys, time
held = []
for path in sys.argv[1:]:
    held.append(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    os.write(held[-1], f"{os.getpid()}".encode())
    fcntl.fcntl(held[-1], fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))
print("locked", flush=True)
time.sleep(600)
"""


@scenario("another user's false directories: a file `lock` is no agent, one that is locked is, and most are not looked at", needs_root=True)
def false_directories(run):
    run.redis(1)
    agent = run.agent()
    table, = SHM.glob(f"holdfast*.{agent.name}")
    table.unlink()

    def make(name, pid):
        place = run.runtime_dir / f"{run.tag}-{name}"
        place.mkdir()
        if pid:
            (place / "lock").write_text(f"{pid}")
            os.chown(place / "lock", OTHER_UID, OTHER_UID)
        os.chown(place, OTHER_UID, OTHER_UID)
        return place / "lock"

    process = run.spawn("sleep", "600", uid=OTHER_UID, label="sleeper")
    for i in range(500):
        make(f"q{i}", process.pid)
    assert list(listed(run)[1]) == [agent.name], listed(run)
    locks = [make(f"r{i}", None) for i in range(100)]
    run.spawn("python3", "-c", LOCKER, *locks, uid=OTHER_UID, label="locker").wait_out("locked")
    _, seen = looked(run)
    others = [row for row in seen["agents"] if row["uid"] == OTHER_UID]
    assert len(others) == 64 and {row["state"] for row in others} == {"no_table"}, seen
    assert [left["agents"] for left in seen["left_out"]] == [36], seen
    for i in range(500, 3000):
        make(f"q{i}", process.pid)
    took, seen = looked(run)
    assert took < 5 and agent.name in {row["name"] for row in seen["agents"]}, (took, seen)
    rows = len(seen["agents"]) - 1
    assert rows <= 64 and 3100 - 1024 <= seen["left_out"][0]["agents"] <= 3100 - rows, seen["left_out"]
    for lock in locks:
        lock.write_text("1")  # a process of root's
    assert not [row for row in listed(run)[1].values() if row["uid"] == OTHER_UID]
    agent.stop()


if __name__ == "__main__":
    main()
