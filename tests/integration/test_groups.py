#!/usr/bin/env python3
"""Processes of a job that its guardians cannot kill or do not see, and guardians that are not there: what the job's control group and
the agent are for."""
import contextlib
import json
import os
import pathlib
import re
import select
import shutil
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from events import await_event, faults, history  # noqa: E402
from jobs import (ROUNDING_S, TTL_S, Job, S, Watcher, assert_at, assert_killed_in_time, children, group_of, kill_both,  # noqa: E402
                  needs_groups, python, ready, remove_group, tough)  # noqa: E402
from rig import BUILD, OTHER_UID, SLOW, alive, boottime_ns, main, scenario, skip, wait_until  # noqa: E402

# A grandchild in the PID namespace of another process: when its parent ends it is that namespace's, not the guardians'.
GONE_ELSEWHERE = """
import ctypes, os, signal, sys, time
libc = ctypes.CDLL(None, use_errno=True)
namespace = os.open("/proc/%d/ns/pid", os.O_RDONLY)
if libc.setns(namespace, 0x20000000):
    sys.exit("setns: " + os.strerror(ctypes.get_errno()))
if os.fork() == 0:
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(0.2)
        print("up", flush=True)
        time.sleep(120)
    os._exit(0)
os.wait()
time.sleep(%s)
"""


# Only its child, which left it, has nobody to die with.
LEFT = """
import os, time
if os.fork() == 0:
    os.setsid()
    print("up", flush=True)
time.sleep(120)
"""


# Its main thread has ended, as by pthread_exit(): the kernel shows a dead leader, and cgroup.kill does not end the thread that goes on.
# The thread says so all the time.
HEADLESS = """
import ctypes, os, signal, sys, threading, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
def work():
    while True:
        os.write(1, b"on\\n")
        time.sleep(0.01)
def lose_head():
    threading.Thread(target=work).start()
    ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[os.uname().machine], 0)
"""

# One of them in the PID namespace of another process, and nobody's child here.
HEADLESS_ELSEWHERE = HEADLESS + """
namespace = os.open("/proc/%d/ns/pid", os.O_RDONLY)
if ctypes.CDLL(None, use_errno=True).setns(namespace, 0x20000000):
    sys.exit("setns: " + os.strerror(ctypes.get_errno()))
if os.fork() == 0:
    if os.fork() == 0:
        os.setsid()
        time.sleep(0.2)
        lose_head()
    os._exit(0)
os.wait()
time.sleep(120)
"""


@contextlib.contextmanager
def delegated(run, uid):
    """The words of a command that executes another as that user, in a control group that is the user's."""
    group = needs_groups() / f"holdfast-test-{run.tag}"
    group.mkdir()
    try:
        for path in (group, group / "cgroup.procs", group / "cgroup.subtree_control"):
            os.chown(path, uid, uid)
        yield as_user(uid, f"echo $$ > {group}/cgroup.procs; ")
    finally:
        (group / "cgroup.kill").write_text("1")
        wait_until(lambda: "populated 0" in (group / "cgroup.events").read_text(), what="the group is empty")
        for path in (*group.iterdir(), group):
            if path.is_dir():
                path.rmdir()


def as_user(uid, first=""):
    return ["sh", "-c", f'{first}exec setpriv --reuid {uid} --regid {uid} --clear-groups "$@"', "sh"]


def set_uid(run):
    """A program of root's that everybody may run as root."""
    program = run.dir / "rootling"
    shutil.copyfile(BUILD / "tests" / "rootling", program)
    program.chmod(0o4755)
    probe = run.spawn(program, uid=OTHER_UID)
    probe.wait_out("root|user")
    if "user" in probe.out:
        probe.kill()
        skip("set-uid programs are not let here (nosuid)")
    probe.kill()
    return program


def system_agent(run, ttl_s=TTL_S):
    run.redis(3)
    return run.agent(ttl=f"{ttl_s}s", system=True)


# --- what the guardians do with it ---------------------------------------------------------------------


@scenario("a set-uid child of an ordinary user's job is dead before V, where the user can make a control group", needs_root=True)
def set_uid_child(run):
    system_agent(run)
    program = set_uid(run)
    with delegated(run, OTHER_UID) as within:
        watcher = Watcher(run)
        job = Job(run, "-t", f"{TTL_S}s", "job", "sh", "-c", f"trap '' TERM; {program} & wait; wait", within=within)
        assert job.line() == "root"
        assert run.holdfast("release", "job").rc == 0
        assert_killed_in_time(job, watcher, late_s=TTL_S / 10)
        assert job.wait() == 124, job.process.err
        run.keys_gone("job")


def init_elsewhere(run):
    """The first process of another PID namespace."""
    elsewhere = run.spawn("unshare", "--pid", "--fork", "--kill-child", "sleep", "300")
    return wait_until(lambda: children(elsewhere.pid), what="the other namespace")[0]


@scenario("what went to another PID namespace and left its parents is dead before the lock is free", needs_root=True)
def other_namespace(run):
    needs_groups()
    ready(run)
    init = init_elsewhere(run)
    # It is left behind by a job that ends, and then by one that is stopped.
    for i, seconds in enumerate(("0.5", "120")):
        job = Job(run, "-t", f"{TTL_S}s", f"job{i}", *python(GONE_ELSEWHERE % (init, seconds))).up()
        far = [pid for pid in children(init) if alive(pid)]
        assert len(far) == 1, far
        if i == 1:
            assert run.holdfast("release", f"job{i}").rc == 0
        wait_until(lambda: run.holders_of(f"job{i}") < 2, 3 * TTL_S, "the lock is free", interval_s=0.002)  # noqa: B023
        assert not alive(far[0]), "a process of the job outlived its lock"
        assert job.wait() == (124 if i else 0), job.process.err
        run.keys_gone(f"job{i}")
        assert not group_of(job)


@scenario("with --no-new-privs a set-uid program in the job is its user's, and dead before V without any control group", needs_root=True)
def no_new_privs(run):
    system_agent(run)
    program = set_uid(run)
    watcher = Watcher(run)
    job = Job(run, "-t", f"{TTL_S}s", "--no-new-privs", "job", "sh", "-c", f"trap '' TERM; {program} & wait; wait", within=as_user(OTHER_UID))
    assert job.line() == "user"
    assert run.holdfast("release", "job").rc == 0
    assert_killed_in_time(job, watcher, late_s=TTL_S / 10)
    assert job.wait() == 124, job.process.err
    run.keys_gone("job")
    told = run.holdfast("run", "-v", "job", "true", uid=OTHER_UID)
    assert told.rc == 0 and "--no-new-privs" in told.err, told


# --- what the agent does with it -----------------------------------------------------------------------


@scenario("both guardians of another user's job killed: its group is not the agent's to kill, and its lock lapses", needs_root=True)
def others_orphan(run):
    system_agent(run)
    violations = run.holdfast("status", "--json").json["counters"]["client_violations"]
    program = set_uid(run)
    with delegated(run, OTHER_UID) as within:
        job = Job(run, "-t", f"{TTL_S}s", "job", program, within=within)
        assert job.line() == "root"
        kill_both(job)
        wait_until(lambda: run.holders_of("job") == 0, 3 * TTL_S, "the lock lapses")
        status = run.holdfast("status", "--json").json["counters"]
        assert status["client_violations"] == violations and "cannot be used" not in run.agents[0].err
        assert not select.select([job.out], [], [], 0)[0], "the agent killed it"
    job.death_ns(5)  # with its group, as the test leaves
    job.wait()


@scenario("both guardians killed: the agent kills the tree, and then the lock is free", needs_root=True)
def both_killed(run):
    needs_groups()
    ready(run)
    job = Job(run, "-t", "30s", "job", *python(LEFT), within=("sh", "-c", 'umask 077; exec "$@"', "sh")).up()
    assert all(group.stat().st_mode & 0o777 == 0o755 for group in group_of(job)), "an agent of another user cannot look into it"
    began_ns = boottime_ns()
    kill_both(job)
    assert_at("the end of the tree", job.death_ns(), began_ns, early_s=0, late_s=5 * SLOW)
    run.keys_gone("job")
    assert (boottime_ns() - began_ns) / S < 5 * SLOW
    job.wait()
    remove_group(job)


@scenario("both guardians stopped until after V: the agent has killed the tree before V", needs_root=True)
def both_stopped(run):
    needs_groups()
    ready(run)
    watcher = Watcher(run)
    job = tough(run)
    pids = (job.pid, job.inner())
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    assert run.holdfast("release", "job").rc == 0  # V stands still
    valid_ns = assert_killed_in_time(job, watcher, late_s=TTL_S / 10)
    killed = await_event(run, "job_killed")
    assert killed["name"] == "job" and int(killed["at_ns"]) < valid_ns, killed
    assert run.holders_of("job") >= 2, "released without the guardians' word"
    for pid in pids:
        os.kill(pid, signal.SIGCONT)
    assert job.wait() == 124, job.process.err
    run.keys_gone("job")
    assert not faults(history(run)), history(run)


def last_words_ns(job, silence_s=1.0, timeout_s=20.0):
    """When the job wrote for the last time: it is silent for a while, or dead."""
    last = boottime_ns()
    deadline = time.monotonic() + timeout_s * SLOW
    while select.select([job.out], [], [], silence_s * SLOW)[0]:
        if not os.read(job.out.fileno(), 65536):
            break
        last = boottime_ns()
        assert time.monotonic() < deadline, "the job goes on"
    return last


@scenario("both guardians killed, and the main thread of a process of the job has ended: it is stopped for good, told with the remedy, "
          "and keeps its lock until that lapses", needs_root=True)
def headless_orphan(run):
    needs_groups()
    system_agent(run)
    watcher = Watcher(run)
    job = Job(run, "-t", f"{TTL_S}s", "job", *python(HEADLESS + "if os.fork() == 0:\n    os.setsid()\n    lose_head()\ntime.sleep(120)"))
    assert job.line() == "on"
    began_ns = boottime_ns()
    kill_both(job)
    watcher.look()
    assert_at("the last act of the job", last_words_ns(job), began_ns, early_s=0, late_s=5 * SLOW)
    text = wait_until(lambda: re.search(r"it is frozen, .*end it as root: (.*)", run.agents[0].err), what="the agent tells it")
    assert watcher.valid_ns
    run.keys_gone("job", 3 * TTL_S)
    assert boottime_ns() >= watcher.valid_ns - ROUNDING_S * S, "released while a process of the job is there"
    assert not faults(history(run)), history(run)
    doctor = run.spawn("env", "-u", "HOLDFAST_RUNTIME_DIR", BUILD / "bin" / "holdfast", "doctor", "--json", label="doctor")
    doctor.wait()
    found = [one for one in json.loads(doctor.out)["findings"] if one["check"] == "leftover.job" and text[1] in one["remedy"]]
    assert len(found) == 1 and found[0]["level"] == "warn", doctor.out
    assert run.spawn("sh", "-c", text[1], label="remedy").wait() == 0
    job.death_ns(5)
    job.wait()
    remove_group(job)


@scenario("what went to another PID namespace, and whose main thread has ended, is dead before V, with its agent killed", needs_root=True)
def headless_elsewhere(run):
    needs_groups()
    ready(run)
    init = init_elsewhere(run)
    watcher = Watcher(run)
    job = Job(run, "-t", f"{TTL_S}s", "job", *python(HEADLESS_ELSEWHERE % init))
    assert job.line() == "on"
    run.agents[0].kill()
    watcher.look()
    late_s = (last_words_ns(job, timeout_s=3 * TTL_S) - watcher.valid_ns) / S
    assert late_s < 0, f"{late_s:.3f} s after V"
    job.death_ns(5)
    assert job.wait() == 124, job.process.err
    assert not group_of(job)


@scenario("a tree that ends together with its container: the lock is free at once", needs_root=True)
def container_ends(run):
    needs_groups()
    ready(run)
    job = Job(run, "-t", "30s", "job", *python("print('up', flush=True)\nimport time\ntime.sleep(120)"),
              within=("unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", '"$@"; exit $?', "sh")).up()
    init = children(job.pid)[0]
    os.kill(init, signal.SIGKILL)
    run.keys_gone("job")
    job.wait()
    remove_group(job, 2)


# A job that makes a group of its own, which stays empty, and says where.
MAKES_A_GROUP = """
import os, time
places = [place for place in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified") if os.path.exists(place + "/cgroup.controllers")]
own = open("/proc/self/cgroup").read().partition("0::/")[2].splitlines()[0]
os.mkdir(f"{places[0]}/{own}/mine")
print(f"{places[0]}/{own}/mine", flush=True)
time.sleep(120)
"""


@scenario("the next run removes the group of a run that ended with its container, whose number another process has here, and leaves that of "
          "a living one alone", needs_root=True)
def swept(run):
    needs_groups()
    ready(run)
    within = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", '"$@"; exit $?', "sh")
    living, job = (Job(run, "-t", "30s", name, *python(MAKES_A_GROUP), within=within) for name in ("lives", "job"))
    mine, left = (pathlib.Path(one.line()) for one in (living, job))

    def end(job, name):
        os.kill(children(job.pid)[0], signal.SIGKILL)
        run.keys_gone(name)
        job.wait()

    def is_swept(group):
        assert run.holdfast("run", "next", "--", "true").rc == 0
        return not group.exists()
    end(job, "job")
    wait_until(lambda: is_swept(left.parent), what="the agent has closed it, and a run removes it")
    assert mine.exists()
    end(living, "lives")
    wait_until(lambda: is_swept(mine.parent), what="that one is removed, too")


@scenario("the next agent is handed the group, too", needs_root=True)
def after_a_restart(run):
    needs_groups()
    ready(run)
    job = Job(run, "-t", "30s", "job", *python(LEFT)).up()
    run.agents[0].kill()
    run.agent("a", ttl=f"{TTL_S}s", fresh=False)
    wait_until(lambda: run.holdfast("status", "--json").json["counters"]["clients"] == 2, what="both guardians are back")
    kill_both(job)
    job.death_ns()
    run.keys_gone("job")
    job.wait()
    remove_group(job)


if __name__ == "__main__":
    main()
