#!/usr/bin/env python3
"""Runs the test programs of one build, some at a time, counts every single test and looks for leftovers.

A unit test is a cmocka program in BUILD/tests, a torture test too (without sanitizers only); an integration test is tests/integration/test_*.py, which
prints "ok NAME", "not ok NAME" or "skip NAME reason". A program that ends badly without a "not ok", that
runs out of time, or that leaves a process, a shared-memory object or a file behind counts as one more failure.

A program of which a test failed while the machine stood still (standstill.py) runs once more, and a line "again" says so. What
a checker or a sanitizer found, a program that ends badly and what is left behind are failures at once.
"""
import argparse
import concurrent.futures
import contextlib
import dataclasses
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import dispositions  # noqa: E402
import leftovers  # noqa: E402
import standstill  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SUPPORT = ROOT / "tests" / "support"
UNIT_TIMEOUT_S = 120
INTEGRATION_TIMEOUT_S = 600
SANITIZER_SLOWDOWN = 3
SHARD_SCENARIOS = 5  # of one integration program at a time, so that a long program does not run alone at the end
LONGEST = ("guardian", "agent_renewal", "agent_renewal_end", "agent_renewal_handoff")  # unit tests
REPORT = re.compile(r"(AddressSanitizer|ThreadSanitizer|LeakSanitizer|runtime error:)")
FINDING = re.compile(r"AssertionError:.*(overlap|holder|fence)")  # never the machine's fault, a report neither
TAP = re.compile(r"^(ok|not ok) \d+ (?:- (.*)|# SKIP (.*))$")  # cmocka says "not ok" of what it skips
LINE = re.compile(r"^(ok|not ok|skip) (.+)$")
ROLE = re.compile(r'^(?:/\* |""")(Contract|Net)\. ', re.M)  # at the head of a source; else its folder says it


@dataclasses.dataclass
class Program:
    kind: str  # unit, torture or integration
    name: str
    command: list
    outcomes: list = dataclasses.field(default_factory=list)  # (word, test name)
    log: pathlib.Path = None
    seconds: float = 0.0
    tests: set = dataclasses.field(default_factory=set)  # what its own lines name
    again: str = ""  # why it ran once more


def role_of(program):
    """contract or net: tests/README.md says what these are."""
    marked = ROLE.search(pathlib.Path(source_of(program)).read_text()[:400])
    return marked.group(1).lower() if marked else "contract" if program.kind == "integration" else "net"


def find_programs(build, kinds):
    found = []
    if "unit" in kinds:
        for path in sorted((ROOT / "tests" / "unit").glob("test_*.c")):
            found.append(Program("unit", path.stem[len("test_"):], [str(build / "tests" / path.stem)]))
        found.sort(key=lambda program: program.name not in LONGEST)  # so that none of them runs alone at the end
    if "torture" in kinds:
        for path in sorted((ROOT / "tests" / "torture").glob("test_*.c")):
            name = path.stem[len("test_"):]
            found.append(Program("torture", name, [str(build / "tests" / f"torture_{name}")]))
    if "integration" in kinds:
        for path in sorted((ROOT / "tests" / "integration").glob("test_*.py")):
            shards = -(-path.read_text().count("\n@scenario(") // SHARD_SCENARIOS) or 1
            for i in range(shards):
                name = path.stem[len("test_"):] + (f"-{i + 1}" if shards > 1 else "")
                command = [sys.executable, str(path), "--shard", f"{i}/{shards}"]
                found.append(Program("integration", name, command))
    return found


def sanitizer_options(sanitize, log):
    """Every process of a program reports into LOG.PID, so that no report is lost with a discarded stderr."""
    common = f"log_path={log}:abort_on_error=0:exitcode=66"
    tsan = f"suppressions={SUPPORT / 'tsan.supp'}:second_deadlock_stack=1:die_after_fork=0"
    return {
        "address": {"ASAN_OPTIONS": f"{common}:detect_stack_use_after_return=1",
                    "UBSAN_OPTIONS": f"print_stacktrace=1:{common}"},
        "thread": {"TSAN_OPTIONS": f"{common}:{tsan}"},
    }.get(sanitize, {})


RUNNING = set()


def end_running():
    """The threads that wait for these then clean up after them."""
    for process in list(RUNNING):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def run_program(program, options, temp_root, watch):
    """Runs it, and once more where a test failed while the machine stood still. What else is wrong counts at once."""
    began = time.monotonic()
    run_once(program, options, temp_root)
    failed = [test for word, test in program.outcomes if word == "not ok"]
    stood_s = watch.longest_s(began)
    if failed and stood_s and program.tests.issuperset(failed) and not is_finding(program):
        program.again = f"{'; '.join(failed)} (the machine stood still for {stood_s * 1000:.0f} ms)"
        program.log.rename(program.log.with_suffix(".first.log"))
        program.outcomes.clear()
        run_once(program, options, temp_root)


def start(command, **options):
    """Waits a while for room where the machine has as many processes as it may have: others' tests end, too."""
    for _ in range(30):
        with contextlib.suppress(BlockingIOError):
            return subprocess.Popen(command, **options)
        time.sleep(1)
    return subprocess.Popen(command, **options)


def is_finding(program):
    text = program.log.read_text(errors="replace")
    return program.kind == "torture" or FINDING.search(text) or REPORT.search(text)


def run_once(program, options, temp_root):
    if not os.path.exists(program.command[0]):
        program.log.write_text("not built\n")
        program.outcomes.append(("not ok", "is built"))
        return
    run_id = f"{os.getpid():x}-{program.kind[0]}-{program.name}"
    temp = pathlib.Path(tempfile.mkdtemp(prefix="hf-", dir=temp_root))
    temp.chmod(0o755)
    reports = temp_root / f"report-{run_id}"
    env = dict(os.environ, HOLDFAST_BUILD=str(options.build), TMPDIR=str(temp), CMOCKA_MESSAGE_OUTPUT="TAP",
               PYTHONDONTWRITEBYTECODE="1", **leftovers.marks(run_id), **sanitizer_options(options.sanitize, reports))
    if options.sanitize:
        env["HOLDFAST_SANITIZE"] = options.sanitize
    limit = INTEGRATION_TIMEOUT_S if program.kind == "integration" else UNIT_TIMEOUT_S
    limit *= SANITIZER_SLOWDOWN if options.sanitize else 1
    started = time.monotonic()
    with open(program.log, "wb") as log:
        process = start(program.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env,
                        cwd=temp, start_new_session=True)
        RUNNING.add(process)
        try:
            status = process.wait(limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            status = None
        RUNNING.discard(process)
    program.seconds = time.monotonic() - started
    judge(program, status, limit)
    judge_leftovers(program, run_id, temp)
    judge_reports(program, temp_root, reports.name)
    shutil.rmtree(temp, ignore_errors=True)


def judge(program, status, limit):
    pattern = LINE if program.kind == "integration" else TAP
    for line in program.log.read_text(errors="replace").splitlines():
        match = pattern.match(line)
        if match:
            word, test = match.group(1), match.group(2)
            if pattern is TAP and match.group(3):
                word, test = "skip", match.group(3)
            program.outcomes.append((word, test))
            program.tests.add(test)
    bad = [test for word, test in program.outcomes if word == "not ok"]
    if status is None:
        program.outcomes.append(("not ok", f"ends within {limit} s"))
    elif status != 0 and not bad:
        program.outcomes.append(("not ok", f"ends well (it ended with {status})"))
    elif not program.outcomes and "-k" not in program.command:
        program.outcomes.append(("not ok", "runs at least one test"))


def judge_leftovers(program, run_id, temp):
    left = leftovers.find(run_id, temp)
    if left:
        program.outcomes.append(("not ok", "leaves nothing behind"))
        with open(program.log, "a") as log:
            log.writelines(f"left behind: {item}\n" for item in left)
        leftovers.remove(run_id, temp)


def judge_reports(program, folder, prefix):
    """A sanitizer's report is a failure even if the test did not notice."""
    texts = [path.read_text(errors="replace") for path in sorted(folder.glob(prefix + "*"))]
    with open(program.log, "a") as log:
        log.writelines(texts)
    if any(texts) or REPORT.search(program.log.read_text(errors="replace")):
        program.outcomes.append(("not ok", "has no sanitizer report"))


def print_program(program):
    counts = {word: sum(1 for w, _ in program.outcomes if w == word) for word in ("ok", "not ok", "skip")}
    skipped = f", {counts['skip']} skipped" if counts["skip"] else ""
    if program.again:
        print(f"again {program.kind}: {program.name}: {program.again}")
    print(f"{'FAIL' if counts['not ok'] else 'pass'} {program.kind}: {program.name}: {counts['ok']} passed{skipped}"
          f" ({program.seconds:.1f} s)", flush=True)
    for word, test in program.outcomes:
        if word == "not ok":
            print(f"     not ok {test}")
    if counts["not ok"]:
        text = program.log.read_text(errors="replace").splitlines()
        if len(text) > 400:
            text = text[:150] + [f"[{len(text) - 400} lines left out; all of it in {program.log}]"] + text[-250:]
        print("\n".join("     | " + line for line in text), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--results", type=pathlib.Path, help="folder that gets a file of outcomes")
    parser.add_argument("--kind", choices=("unit", "torture", "integration"))
    parser.add_argument("--role", choices=("contract", "net"), help="only those programs")
    parser.add_argument("--list", action="store_true", help="print role, kind and name of each program, and run none")
    parser.add_argument("--only", default="", help="part of 'program: test name', or of the program's name")
    parser.add_argument("--sanitize", default="", choices=("", "address", "thread"))
    # A test mostly waits (a fifth of a processor each): more at a time than there are processors.
    parser.add_argument("--jobs", type=int, default=int(os.environ.get("HOLDFAST_TEST_JOBS", 0))
                        or min(5 * (os.cpu_count() or 2) // 2, 12))
    options = parser.parse_args()
    options.build = options.build.resolve()
    dispositions.restore()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))

    kinds = (options.kind,) if options.kind else ("unit", "integration") + (() if options.sanitize else ("torture",))
    programs = find_programs(options.build, kinds)
    if options.only:
        programs = [p for p in programs if options.only in f"{p.kind}: {p.name}"] or narrow(programs, options.only)
    if options.role:
        programs = [p for p in programs if role_of(p) == options.role]
    if options.list:
        print(*(f"{role_of(p)} {p.kind}: {p.name}" for p in programs), sep="\n")
        return 0
    logs = options.build / "test-logs"
    shutil.rmtree(logs, ignore_errors=True)
    logs.mkdir(parents=True)
    watch = standstill.Watch()
    with tempfile.TemporaryDirectory(prefix="holdfast-tests-") as temp_root:
        os.chmod(temp_root, 0o1777)  # some scenarios run as another user
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            futures = {}
            for program in programs:
                program.log = logs / f"{program.kind}-{program.name}.log"
                futures[pool.submit(run_program, program, options, pathlib.Path(temp_root), watch)] = program
            try:
                for future in concurrent.futures.as_completed(futures):
                    future.result()
                    print_program(futures[future])
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                end_running()
                raise
    if options.results:
        with open(options.results / f"{options.build.name}.outcome", "w") as out:
            for program in programs:
                out.writelines(f"{word} {options.build.name}: {program.kind}: {program.name}: {test}\n"
                               for word, test in program.outcomes)
    return 1 if any(word == "not ok" for p in programs for word, _ in p.outcomes) else 0


def narrow(programs, pattern):
    """No program is called so: run the single tests that match."""
    for program in programs:
        if program.kind == "integration":
            program.command += ["-k", pattern]
    return [p for p in programs if pattern in pathlib.Path(source_of(p)).read_text()]


def source_of(program):
    if program.kind == "integration":
        return program.command[1]
    return ROOT / "tests" / program.kind / f"test_{program.name}.c"


if __name__ == "__main__":
    sys.exit(main())
