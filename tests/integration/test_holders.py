#!/usr/bin/env python3
"""Holders that hang, fork, exec, or stop; and how long a hung one keeps others out.

D is a heartbeat: a hang is found between D and 1.25 D after the last beat, 1.5 D for a job of `run`.
"""
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from rig import (BUILD, ROOT, SLOW, HolderError, alive, boottime_ns, main, scenario, skip, stat_letter,  # noqa: E402
                 wait_until)

S, MS = 1_000_000_000, 1_000_000
EFORKED = -403
LOSING, LOST = 3, 4
D_MS = 800 * SLOW
JOB_D_MS = 4000 * SLOW  # a job has to start within it
NOISE_S = 3 * SLOW


def ready(run, ttl_s=3, **options):
    run.redis(3)
    return run.agent(ttl=f"{min(ttl_s * SLOW, 60)}s", **options)


def reason(holder):
    return holder.cmd("reason")["text"]


# --- heartbeats of programs ----------------------------------------------------------------------------


@scenario("a holder that beats keeps its lock; one that stops beating loses it, and the next one gets it")
def hung_holder(run):
    ready(run)
    holder, other = run.holder(), run.holder(label="other")
    fence = holder.acquire("hang", 0, 0, f"beat={D_MS}")["fence"]
    other.send("acquire", "hang", 0, 60_000)
    kept = holder.cmd("beats", 0, D_MS // 6, 5 * D_MS // 2)
    assert kept["held"] == 1 and kept["told"] == 0, kept
    stopped_ns = boottime_ns()
    assert holder.cmd("wait", 0, 1, 10_000 * SLOW)["value"] == LOSING
    found_s = (boottime_ns() - stopped_ns) / S
    assert D_MS / 1000 * 0.8 <= found_s <= D_MS / 1000 * 1.25 + NOISE_S, f"found after {found_s:.3f} s"
    assert "heartbeat" in reason(holder), reason(holder)
    assert holder.held(), "held until V all the same"
    holder.cmd("beats", 0, D_MS // 6, D_MS)  # it wakes up again: too late
    assert other.answer()["fence"] > fence
    assert not holder.held() and holder.cmd("state")["value"] == LOST
    print(f"# a hang of D = {D_MS} ms was found after {found_s * 1000:.0f} ms; "
          f"the next one had it {(boottime_ns() - stopped_ns) / MS:.0f} ms after the last beat")


@scenario("a holder that never beats loses its lock D after the grant; others of the same process keep theirs", sanitizers=False)
def never_beats(run):
    ready(run)
    holder = run.holder()
    holder.acquire("silent", 0, 0, f"beat={D_MS}")
    holder.acquire("plain", 0, 0)
    holder.acquire("beating", 0, 0, f"beat={D_MS}")
    holder.cmd("beats", 2, D_MS // 6, 2 * D_MS)
    assert holder.cmd("state", 0)["value"] in (LOSING, LOST)
    assert holder.cmd("state", 1)["value"] == 1 and holder.cmd("state", 2)["value"] == 1


@scenario("a heartbeat below its least is refused in words", sanitizers=False)
def short_heartbeat(run):
    ready(run)
    holder = run.holder()
    try:
        holder.acquire("short", 0, 0, "beat=99")
    except HolderError as error:
        assert error.code == -101 and "use a heartbeat of at least 100 ms, not 99 ms" in error.text, error
    else:
        raise AssertionError("taken")


@scenario("the agent is killed and back: a holder that beats and is told of it keeps its lock, a hung one loses it")
def heartbeat_over_restart(run):
    agent = ready(run, 4)
    d_ms = 2 * D_MS
    beating, hung = run.holder(), run.holder(label="hung")
    beating.acquire("beats", 0, 0, f"beat={d_ms}")
    hung.acquire("hangs", 0, 0, f"beat={d_ms}")
    agent.kill()
    run.agent(ttl=f"{4 * SLOW}s", fresh=False)
    began_ns = boottime_ns()
    kept = beating.cmd("beats", 0, d_ms // 6, 5 * d_ms // 2)
    assert kept["held"] == 1 and kept["told"] >= 1, kept
    assert beating.cmd("beat")["value"] == 0
    assert not hung.held() or hung.cmd("state")["value"] == LOSING
    print(f"# {kept} {(boottime_ns() - began_ns) / S:.1f} s after the restart")
    stopped_ns = boottime_ns()
    assert beating.cmd("wait", 0, 1, 10_000 * SLOW)["value"] == LOSING  # the new agent reads the new words
    assert (boottime_ns() - stopped_ns) / S <= d_ms / 1000 * 1.25 + NOISE_S


@scenario("the agent is stopped for longer than D: holders that beat go on", sanitizers=False)
def agent_not_looking(run):
    agent = ready(run, 6)
    holder = run.holder()
    holder.acquire("beats", 0, 0, f"beat={D_MS}")
    agent.sigstop()
    holder.send("beats", 0, D_MS // 6, 5 * D_MS)
    time.sleep(3 * D_MS / 1000)
    agent.sigcont()
    assert holder.answer()["held"] == 1
    assert holder.cmd("state")["value"] == 1


# --- forks, exec, and numbers used again ---------------------------------------------------------------


@scenario("a forked child holds nothing; its end leaves its parent's lock alone, and so does its life after its parent")
def forked(run):
    ready(run, 30)
    holder = run.holder()
    fence = holder.acquire("fork", 0, 0)["fence"]
    first, second = (holder.cmd("child") for _ in range(2))
    for child in (first, second):
        assert child["found"] == 0 and child["held"] == 1, child
    os.kill(first["pid"], signal.SIGTERM)  # says goodbye with hf_disconnect() and exit()
    wait_until(lambda: stat_letter(first["pid"]) in ("Z", ""), what="the child ends")
    time.sleep(0.2)
    assert holder.held() and run.holders_of("fork") == 3
    began_ns = boottime_ns()
    holder.kill()  # the other child has its descriptors, the socket too
    run.keys_gone("fork")
    assert alive(second["pid"])
    print(f"# free {(boottime_ns() - began_ns) / MS:.1f} ms after the parent's end, the child alive")
    assert run.holder().acquire("fork", 0, 0)["fence"] > fence
    os.kill(second["pid"], signal.SIGTERM)
    wait_until(lambda: not alive(second["pid"]), what="the other child ends")


@scenario("a holder that executes another program gives its lock up, in the same process")
def executed(run):
    ready(run, 30)
    holder = run.holder()
    holder.acquire("exec", 0, 0)
    holder.send("exec", "sleep", "60")
    wait_until(lambda: pathlib.Path(f"/proc/{holder.pid}/comm").read_text() == "sleep\n", what="the exec")
    run.keys_gone("exec")
    assert holder.running
    links = [os.readlink(path) for path in pathlib.Path(f"/proc/{holder.pid}/fd").iterdir()]
    ours = ("/memfd:", "/dev/shm/", "socket:", "anon_inode:")  # ring, table, session
    assert not [link for link in links if link.startswith(ours)], links


@scenario("a process that gets a dead holder's number while there is no agent gets nothing else of it", needs_root=True)
def number_used_again(run):
    run.redis(3)
    argv = ["unshare", "--pid", "--fork", "--mount-proc", ROOT / "tests" / "support" / "pid_reuse.py",
            BUILD / "tests" / "holder", *run.agent_argv(ttl="20s")]
    process = run.spawn(*argv, env={"HOLDFAST_AGENT": f"{run.tag}-a"})
    code = process.wait()
    if "ns_last_pid" in process.err or "unshare" in process.err:
        skip(f"numbers of processes cannot be chosen here: {process.err.splitlines()[-1]}")
    assert code == 0, process.err
    assert process.out.startswith("reused"), process.out
    # Free at once, with the TTL of 20 s hardly begun, and by an acquire of its own.
    assert "ok acquire" in process.out, (process.out, process.err)
    assert "0 leases readopted, 1 released" in process.err, process.err


# --- /proc that hides processes ----------------------------------------------------------------------------

# Root without its right to look at others, which is then as the user of an agent of the system.
HIDING = ["unshare", "--mount", "sh", "-c",
          'mount -t proc -o hidepid=2,gid=12345 proc /proc && exec setpriv --bounding-set=-sys_ptrace "$@"', "sh"]


def agent_that_sees_nobody(run, serial=""):
    """An agent of the system in a mount namespace whose /proc has hidepid=2."""
    argv = run.agent_argv("a", ttl="5s", fresh=not serial, system=True)
    process = run.spawn(*HIDING, *argv, label=f"agent-a{serial}")
    wait_until(lambda: "ready:" in process.err or not process.running, what="the agent is ready")
    assert process.running, process.err
    return process


@scenario("where /proc hides processes, those of other users take locks; a remount and a new agent leave theirs with them", needs_root=True)
def hidden(run):
    run.redis(3)
    run.dir.chmod(0o755)
    run.runtime_dir.chmod(0o755)
    socket = run.runtime_dir / f"{run.tag}-a" / "sock"

    def holder_of(uid):
        holder = run.holder(uid=uid, connect=False)
        holder.cmd("connect", socket)
        return holder

    agent = agent_that_sees_nobody(run)
    one, other = holder_of(65533), holder_of(65532)
    lease = one.acquire("kept", 5000)["lease"]
    other.acquire("gone", 5000)
    agent.kill()
    other.kill()
    agent = agent_that_sees_nobody(run, "-again")
    wait_until(lambda: "leases readopted" in agent.err, what="the journal is read")
    assert "1 leases readopted, 1 released" in agent.err, agent.err
    time.sleep(3)  # it is renewed
    assert one.held(lease)
    third = holder_of(65532)
    third.acquire("gone", 5000)
    one.kill()
    third.acquire("kept", 5000, 5000)
    agent.signal(signal.SIGTERM)
    assert agent.wait() == 0


@scenario("where /proc hides processes and the kernel does not know who connects, agent and doctor say so, with the remedy", needs_root=True,
          sanitizers=False)
def hidden_from_old_kernels(run):
    run.redis(3)
    for path in (run.dir, run.runtime_dir):
        path.chmod(0o755)
    old = {"LD_PRELOAD": BUILD / "tests" / "nopeerpidfd.so"}
    hiding = [word.replace(",gid=12345", "") for word in HIDING]
    agent = run.spawn(*HIDING, *run.agent_argv("a", ttl="5s", system=True), label="agent-a", env=old)
    wait_until(lambda: "ready:" in agent.err or not agent.running, what="the agent is ready")
    assert "Linux 6.5: their programs are refused; mount /proc with gid=0, too" in agent.err, agent.err
    holder = run.holder(uid=65533, connect=False)
    refused = re.escape("its /proc is mounted with hidepid; mount it with gid=0, too")
    try:
        holder.cmd("connect", run.runtime_dir / f"{run.tag}-a" / "sock")
        raise AssertionError("it came in")
    except HolderError as error:
        assert re.search(refused, error.text), error.text
    words = [BUILD / "bin" / "holdfast", "doctor", "--json", "--agent", f"{run.tag}-a"]
    for env, within, said in ((old, hiding, True), (old, [], False), ({}, hiding, False)):
        doctor = run.spawn(*within, *words, label="doctor", env=env)
        doctor.wait()
        assert ("host.proc" in doctor.out) == said, (env, within, doctor.out, doctor.err)
        assert not said or "gid=" in doctor.out, doctor.out
    agent.signal(signal.SIGTERM)
    assert agent.wait() == 0


# --- stopped holders -----------------------------------------------------------------------------------


@scenario("a stopped holder keeps its lock for as long as it lives; with a heartbeat it loses it and knows when it goes on",
          sanitizers=False)
def stopped_holder(run):
    ready(run)
    plain, beating, other = run.holder(), run.holder(label="beating"), run.holder(label="other")
    plain.acquire("plain", 0, 0)
    fence = beating.acquire("beats", 0, 0, f"beat={D_MS}")["fence"]
    beating.send("spin", 0, 60_000)  # asks again and again, also at the instant of the stop
    time.sleep(0.2)
    for holder in (plain, beating):
        holder.sigstop()
    assert other.acquire("beats", 0, 30_000)["fence"] > fence
    taken_ns = boottime_ns()
    for holder in (plain, beating):
        holder.sigcont()
    spun = beating.answer()
    assert spun["held"] == 0 and spun["last_held_ns"] < spun["valid_until_ns"] < taken_ns, (spun, taken_ns)
    assert not beating.held() and beating.cmd("state")["value"] == LOST
    assert plain.held() and run.holders_of("plain") == 3


@scenario("holder and agent stopped until after V, as on a paused host: not held at the first call, and for ever", sanitizers=False)
def stopped_host(run):
    ready(run)
    other_agent = run.agent("b", ttl=f"{3 * SLOW}s")
    holder, other = run.holder(), run.holder(other_agent, label="other")
    fence = holder.acquire("pause", 0, 0)["fence"]
    holder.send("spin", 0, 60_000)
    time.sleep(0.2)
    holder.sigstop()
    run.agents[0].sigstop()
    assert other.acquire("pause", 0, 30_000)["fence"] > fence
    taken_ns = boottime_ns()
    holder.sigcont()  # its agent is still stopped: nobody can tell it
    spun = holder.answer()
    assert spun["held"] == 0 and spun["last_held_ns"] < spun["valid_until_ns"] < taken_ns, (spun, taken_ns)
    assert not holder.held() and holder.cmd("state")["value"] == LOST
    run.agents[0].sigcont()
    time.sleep(1)
    assert not holder.held() and holder.cmd("state")["value"] == LOST and other.held()
    other.release()
    run.keys_gone("pause")


# --- heartbeats of jobs --------------------------------------------------------------------------------

BEATS = """
import os, subprocess, sys, time
fd, path, how = int(os.environ["HOLDFAST_BEAT_FD"]), os.environ["HOLDFAST_BEAT_PATH"], sys.argv[1]
def beat(i):
    if how == "command":        # children of python do not get the descriptor: by its path
        subprocess.run([sys.argv[2], "beat"], check=True)
    else:
        os.pwrite(fd, i.to_bytes(4, "little"), 4)
end = time.monotonic() + float(sys.argv[3])
i = 0
while time.monotonic() < end:
    i += 1
    beat(i)
    time.sleep(float(sys.argv[4]))
print("stops", flush=True)
time.sleep(120)
"""


def beating_job(run, how, *options):
    return run.start_holdfast("run", "--heartbeat", f"{JOB_D_MS}ms", *options, "job", sys.executable, "-c", BEATS, how,
                              BUILD / "bin" / "holdfast", 1.5 * JOB_D_MS / 1000, JOB_D_MS / 15000)


@scenario("a job that beats goes on; when it stops it is stopped as hung, with 124 and a line that says so", sanitizers=False)
def hung_job(run):
    ready(run, 10)
    for how in ("command", "memory"):
        began_ns = boottime_ns()
        job = beating_job(run, how)
        job.wait_out("stops")
        stopped_ns = boottime_ns()
        assert job.wait() == 124, job.err
        passed_s = (boottime_ns() - stopped_ns) / S
        assert (stopped_ns - began_ns) / S >= 1.5 * JOB_D_MS / 1000 * 0.9
        assert JOB_D_MS / 1000 * 0.8 <= passed_s <= JOB_D_MS / 1000 * 1.5 + NOISE_S, f"{passed_s:.3f} s"
        assert "job: the lock is being lost: no heartbeat came in time, so the holder hangs" in job.err, job.err
        run.keys_gone("job")
        print(f"# {how}: D = {JOB_D_MS} ms, ended after {passed_s * 1000:.0f} ms")


@scenario("a job that never beats is stopped D after it began", sanitizers=False)
def silent_job(run):
    ready(run, 10)
    began_ns = boottime_ns()
    job = run.start_holdfast("run", "--heartbeat", f"{JOB_D_MS}ms", "job", "sleep", "60")
    assert job.wait() == 124, job.err
    passed_s = (boottime_ns() - began_ns) / S
    assert JOB_D_MS / 1000 <= passed_s <= JOB_D_MS / 1000 * 1.5 + NOISE_S + 0.2 * SLOW, f"{passed_s:.3f} s"
    run.keys_gone("job")


@scenario("a hung guardian passes no beat on: the lock of its job is lost, though that beats", sanitizers=False)
def hung_guardian(run):
    ready(run, 10)
    job = run.start_holdfast("run", "--heartbeat", f"{JOB_D_MS}ms", "job", sys.executable, "-c", BEATS, "memory", "-", "60",
                             str(JOB_D_MS / 15000))
    wait_until(lambda: run.holders_of("job") == 3)
    time.sleep(2 * JOB_D_MS / 1000)
    assert job.running, job.err
    job.sigstop()
    job.wait_err("no heartbeat came in time", JOB_D_MS / 1000 * 1.5 + 10)
    run.keys_gone("job")
    job.sigcont()
    assert job.wait() == 124, job.err


@scenario("a job with a heartbeat goes on over a restart of the agent")
def job_over_restart(run):
    agent = ready(run, 4)
    job = run.start_holdfast("run", "--heartbeat", f"{2 * JOB_D_MS}ms", "job", sys.executable, "-c", BEATS, "memory", "-",
                             str(3 * JOB_D_MS / 1000), str(JOB_D_MS / 15000))
    wait_until(lambda: run.holders_of("job") == 3)
    agent.kill()
    run.agent(ttl=f"{4 * SLOW}s", fresh=False)
    job.wait_out("stops", 10 * JOB_D_MS / 1000)
    assert job.running, job.err
    assert job.wait() == 124, job.err


@scenario("beat outside of such a job, and bad heartbeats of run, are told in words")
def bad_beats(run):
    ready(run)
    result = run.holdfast("beat")
    assert result.rc == 69 and "no job of 'holdfast run --heartbeat'" in result.err, result
    other = run.dir / "other"
    other.write_bytes(b"12345678")
    with open(other, "r+b") as file:  # a descriptor of that number that is something else is left alone
        result = run.start_holdfast("beat", env={"HOLDFAST_BEAT_FD": file.fileno()}, pass_fds=[file.fileno()])
        assert result.wait() == 69, result.err
    assert other.read_bytes() == b"12345678"
    for value, text in (("0", "zero"), ("50ms", "at least 100ms, not 50ms"), ("soon", "soon"), ("-1", "-1"),
                        ("60d", "at most 49d")):
        result = run.holdfast("run", "--heartbeat", value, "job", "true")
        assert result.rc == 64 and text in result.err, (value, result)
    assert run.holdfast("beat", "x").rc == 64


if __name__ == "__main__":
    main()
