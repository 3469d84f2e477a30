#!/usr/bin/env python3
"""`holdfast` with few file descriptors, and with closed or full standard streams."""
import pathlib
import resource
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from jobs import ready  # noqa: E402
from rig import BUILD, SLOW, main, scenario, wait_until  # noqa: E402

HOLDFAST = BUILD / "bin" / "holdfast"


def limited(count):
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (count, count))


def assert_starts_or_says_why(run, count, *words):
    """Exit 0 with the job's mark, or 125 with a reason and no job."""
    mark = run.dir / f"mark-{count}"
    mark.unlink(missing_ok=True)
    process = run.spawn(HOLDFAST, "run", *words, "job", "--", "touch", mark, label="holdfast", stdin=subprocess.DEVNULL,
                        preexec_fn=limited(count))
    code = process.wait(10 * SLOW)
    assert code in (0, 125) and mark.exists() == (code == 0), (count, code, process.err)
    assert code == 0 or process.err.strip(), count
    assert not run.show("job"), (count, process.err)
    return code


@scenario("with any number of descriptors a run starts its job, or ends with 125, its reason and no lock")
def run_with_few(run):
    ready(run)
    started = 0
    for words in ((), ("--heartbeat", "9s", "--also", "second")):
        codes = [assert_starts_or_says_why(run, count, *words) for count in range(4, 49)]
        assert 125 in codes and codes == sorted(codes, reverse=True), codes
        started += codes.count(0)
    asked = [line for line in run.holdfast("history").out.splitlines() if line.split()[1:3] == ["granted", "job"]]
    assert len(asked) == started, f"{len(asked)} grants for {started} jobs"


@scenario("with any number of descriptors a hold holds, or ends with 125 and its reason")
def hold_with_few(run):
    ready(run)
    for count in range(4, 26):
        process = run.spawn(HOLDFAST, "hold", "job", label="holdfast", stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            bufsize=0, preexec_fn=limited(count))
        granted = process.popen.stdout.readline()
        process.popen.stdin.close()
        code = process.wait(10 * SLOW)
        assert (code, bool(granted)) in ((0, True), (125, False)), (count, code, granted, process.err)
        assert granted or process.err.strip(), count
        wait_until(lambda: not run.show("job"), what="it is released")


# --- closed and full streams --------------------------------------------------------------------------------------


def shell(run, text, **options):
    process = run.spawn("sh", "-c", text, label="shell", **options)
    process.wait(20 * SLOW)
    return process


@scenario("what a subcommand cannot print is a failure: standard output is closed, or full")
def cannot_print(run):
    ready(run)
    hold = run.spawn(HOLDFAST, "hold", "job", label="holdfast", stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    hold.popen.stdout.readline()
    words = ["--help", "--version", "help run", "run --help", "hold --help", "beat --help", "status", "status --json", "list",
             "list --json", "list --all", "show job", "show --json job", "check --fence 1 --json job", "history",
             "history --json", "agents", "agents --json", "nodes", "nodes --json", "fleet", "metrics", "top --once", "doctor",
             "watch -n 1", "release job", "drain", "undrain", "reload"]
    for text in words:
        for way in (">&-", ">/dev/full"):
            got = shell(run, f"exec {HOLDFAST} {text} {way}", stdin=subprocess.DEVNULL)
            assert got.popen.returncode not in (0, 3) and got.err.strip(), (text, way, got.popen.returncode, got.err)
    for text in ("--version", "--help", "--print-config --dev"):
        for way in (">&-", ">/dev/full"):
            got = shell(run, f"exec {BUILD}/bin/holdfastd {text} {way}", stdin=subprocess.DEVNULL)
            assert got.popen.returncode == 71 and got.err.strip(), (text, way, got.popen.returncode, got.err)
    hold.popen.stdin.close()
    hold.wait()
    for way in (">&-", ">/dev/full"):
        got = shell(run, f"exec {HOLDFAST} hold job {way}", stdin=subprocess.PIPE)
        assert got.popen.returncode == 125 and "cannot be told" in got.err, (way, got.err)


@scenario("a job finds the standard streams that run was given: closed ones are closed")
def job_streams(run):
    ready(run)
    job = f"{sys.executable} -c 'import os, sys; sys.exit(sum(1 << n for n in range(3) if os.path.exists(\"/proc/self/fd/%d\" % n)))'"
    for closed in ("", "<&-", ">&-", "2>&-", "<&- >&-", "<&- >&- 2>&-"):
        bare = shell(run, f"exec {job} {closed}", stdin=subprocess.DEVNULL).popen.returncode
        assert bare == 7 - sum(1 << n for n, text in enumerate(("<&-", ">&-", "2>&-")) if text in closed.split()), bare
        for options in ("", "--heartbeat 9s"):
            got = shell(run, f"exec {HOLDFAST} run {options} job -- {job} {closed}", stdin=subprocess.DEVNULL)
            assert got.popen.returncode == bare, (closed, options, got.popen.returncode, bare, got.err)
    got = shell(run, f"exec {HOLDFAST} run job -- sh -c 'echo x' >&-", stdin=subprocess.DEVNULL)
    assert got.popen.returncode not in (0, 125), got.err


if __name__ == "__main__":
    main()
