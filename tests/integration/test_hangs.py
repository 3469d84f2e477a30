#!/usr/bin/env python3
"""What hangs, or comes without end, beside the guardians of `holdfast run`: a file of the caller's, a flood of signals, one of the two."""
import contextlib
import os
import pathlib
import signal
import struct
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from fuse_file import FuseFile  # noqa: E402
from jobs import TOUGH, TTL_S, Job, S, Watcher, python, ready, trace  # noqa: E402
from rig import BUILD, OTHER_UID, SLOW, boottime_ns, main, scenario, stat_letter, wait_until  # noqa: E402


@contextlib.contextmanager
def file_that_hangs(run):
    file = FuseFile(run)
    try:
        yield file
    finally:
        file.end()


def diary(run):
    """A file of `ticker`, which any user may write."""
    path = run.dir / "diary"
    path.touch()
    path.chmod(0o666)
    return path


def last_ns(path):
    """When a process of that job last ran; 0: never."""
    words = path.read_bytes()
    return max((struct.unpack_from("<q", words, at + 24)[0] for at in range(0, len(words), 32)), default=0)


def assert_dead_before_v(run, watcher, path):
    """The agent hangs: nothing of the job runs after V."""
    run.agents[0].sigstop()
    watcher.look()
    wait_until(lambda: watcher.look() or boottime_ns() > watcher.valid_ns + S // 2, 3 * TTL_S, "V is over")
    late_s = (last_ns(path) - watcher.valid_ns) / S
    run.agents[0].sigcont()
    assert late_s < 0, f"the job ran until V {late_s:+.3f} s"


@scenario("input and output on a file system that hangs while run waits: its job is dead before V", needs_root=True, sanitizers=False)
def streams_hang(run):
    ready(run, system=True)
    path, watcher = diary(run), Watcher(run)
    with file_that_hangs(run) as file:
        first = run.start_holdfast("run", "job", "sleep", "1")
        wait_until(lambda: run.holders_of("job") == 3, what="the first one has it")
        streams = [file.open(os.O_RDONLY), file.open(os.O_WRONLY)]
        job = run.start_holdfast("run", "-t", f"{TTL_S}s", "-w", "30s", "job", BUILD / "tests" / "ticker", path, uid=OTHER_UID,
                                 stdin=streams[0], stdout=streams[1])
        for fd in streams:  # (!) a process that has one hangs when it forks
            os.close(fd)
        time.sleep(0.5)
        file.hang()
        assert first.wait() == 0, first.err
        wait_until(lambda: last_ns(path), what="the job runs")
        assert_dead_before_v(run, watcher, path)
    assert job.wait() == 124, job.err


@scenario("a run whose words go to a file that hangs keeps no lock without a job: it has run in its period", needs_root=True, sanitizers=False)
def words_hang(run):
    ready(run)
    assert run.holdfast("run", "--once-per", "1h", "job", "true").rc == 0
    with file_that_hangs(run) as file:
        fd = file.open(os.O_WRONLY)
        first = run.start_holdfast("run", "job", "sleep", "1")
        wait_until(lambda: run.holders_of("job") == 3, what="the first one has it")
        job = run.spawn("sh", "-c", f'exec "$@" 2>&{fd} {fd}>&-', "sh", BUILD / "bin" / "holdfast", "run", "--once-per", "1h", "-w", "30s",
                        "job", "true", label="holdfast", pass_fds=[fd])
        os.close(fd)
        time.sleep(0.5)
        file.hang()
        assert first.wait() == 0, first.err
        assert run.holdfast("run", "-w", "5s", "job", "true").rc == 0
    assert job.wait() == 0, job.err


@scenario("a file of the caller's hangs when the job ends: its lock is free, nothing else is said, and run does not spin", needs_root=True,
          sanitizers=False)
def caller_file_hangs(run):
    def processor_s():
        fields = pathlib.Path(f"/proc/{job.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    ready(run)
    with file_that_hangs(run) as file:
        fd = file.open(os.O_WRONLY)
        job = Job(run, "-v", "job", "sh", "-c", f"exec {fd}>&-; echo up; read x; exit 7", pass_fds=[fd], stdin=subprocess.PIPE).up()
        os.close(fd)
        file.hang()
        job.process.popen.stdin.close()
        run.keys_gone("job")
        time.sleep(1.5)  # it waits for no end of the other for longer (test_run_guardian_outer)
        before = processor_s()
        time.sleep(0.5)
        assert processor_s() - before < 0.2, "it spins"
        assert "does not answer" not in job.process.err, job.process.err
    assert job.wait() == 7, job.process.err


# By a user who may not reach this python.
FLOOD = """
use POSIX "setsid";
my ($ticker, $path) = @ARGV;
my $inner = getppid;
open(my $stat, "<", "/proc/$inner/stat") or die;
<$stat> =~ /\\) . (\\d+)/ or die;
my $outer = $1;
if (!fork) { setsid; exec $ticker, $path }
select(undef, undef, undef, 0.01) until -s $path;
fork;
while (1) { kill $_, $inner, $outer for 34 .. 64 }
"""


@scenario("a job that floods its guardians with real-time signals is dead before V, also by the inner one alone", needs_root=True,
          sanitizers=False)
def flood(run):
    ready(run, system=True)
    path, watcher = diary(run), Watcher(run)
    for alone in (False, True):
        path.write_bytes(b"")
        job = Job(run, "-t", f"{TTL_S}s", "job", "env", "--ignore-signal", "perl", "-e", FLOOD, BUILD / "tests" / "ticker", path,
                  uid=OTHER_UID)
        wait_until(lambda: last_ns(path), what="the job runs")
        if alone:
            job.process.sigstop()
        assert_dead_before_v(run, watcher, path)
        job.process.sigcont()
        assert job.wait() == 124, job.process.err
        run.keys_gone("job")


@scenario("an inner guardian that is stopped, and whose job has ended, is told of, and a signal to run ends it", sanitizers=False)
def stopped(run):
    ready(run)
    job = Job(run, "job", "sh", "-c", "echo up; read x", stdin=subprocess.PIPE).up()
    inner = job.inner()
    os.kill(inner, signal.SIGSTOP)
    job.process.popen.stdin.close()
    job.process.wait_err(rf"the inner guardian, process {inner}, is stopped or hangs, and the lock is held")
    assert job.process.running and run.holders_of("job") == 3
    job.process.signal(signal.SIGTERM)
    assert job.wait() == 125, job.process.err
    run.keys_gone("job")


@scenario("an inner guardian that is killed, and that another process traces and does not reap, is dead: so is the job soon",
          needs_root=True, sanitizers=False)
def traced(run):
    ready(run)
    job = Job(run, "job", *python(TOUGH)).up()
    inner = job.inner()
    trace(run, inner)
    os.kill(inner, signal.SIGKILL)
    job.death_ns()
    assert job.wait() == 125, job.process.err
    assert stat_letter(inner) == "Z"
    run.keys_gone("job")


if __name__ == "__main__":
    main()
