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


if __name__ == "__main__":
    main()
