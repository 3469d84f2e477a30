#!/usr/bin/env python3
"""Runs the test programs of one build, some at a time, counts every single test and looks for leftovers.

A unit test is a cmocka program in BUILD/tests, a torture test too (without sanitizers only); an integration test is tests/integration/test_*.py, which
prints "ok NAME", "not ok NAME" or "skip NAME reason". A program that ends badly without a "not ok", that
runs out of time, or that leaves a process, a shared-memory object or a file behind counts as one more failure.

A program of which a test failed runs once more, alone, when all have ended. It has failed where a test of it fails again;
otherwise a line "again PROGRAM: TEST" says what passed only the second time. With --strict that is a failure, too, unless
tests/known-noisy.txt names the test or the machine stood still. What a checker or a sanitizer found, a program that ends badly, runs
out of time or leaves something behind, and a failed torture test are failures at once. When more than AGAIN_MOST programs
failed, none of them runs once more.
"""
import argparse
import concurrent.futures
import contextlib
import dataclasses
import os
import pathlib
import re
import shlex
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
KINDS = ("unit", "torture", "integration")
UNIT_TIMEOUT_S = 120
INTEGRATION_TIMEOUT_S = 600
SANITIZER_SLOWDOWN = 3
SHARD_SCENARIOS = 5  # of one integration program at a time, so that a long program does not run alone at the end
NOISY_MOST = 5  # names in tests/known-noisy.txt
AGAIN_MOST = 6  # programs that run once more; more than that are no chance of the machine
# They begin first, so that none of them runs alone at the end; then the other scenarios, and the other unit tests last.
LONGEST = {"integration": ("simulator", "upgrade", "interop", "steps", "young_nodes", "restart", "capacity", "chaos", "renewal", "nodes",
                           "bench", "proxies", "holders", "exclusion", "faults", "history", "watchdog", "fleet_longer", "fleet_remedies",
                           "fleet_again", "fleet_way_back", "fleet"),
           "unit": ("guardian", "agent_renewal", "agent_renewal_end", "agent_renewal_handoff", "agent_key_deleter")}
# Scenarios that a build with a sanitizer runs with --full or HOLDFAST_FULL only: what of the product runs in them runs in others
# under that sanitizer, too, or has nothing for it to see. The build without runs all of them.
LEFT_OUT = {
    "address": {
        "chaos": "the judge is in Python; the rest of it runs without sanitizers only",
        "fleet_table": "the table that a command of one thread prints, hundreds of times",
        "examples": "they are around run and the library, which the other scenarios are full of",
    },
}
# Of the build with ASan in the default run; that as shipped runs all of it, and --all both.
SHIPPED_ONLY = {"simulator": "its schedules cost half again as much with ASan, and none of them reads a byte that another process wrote"}
LEFT_OUT["thread"] = {
    **LEFT_OUT["address"],
    "check_config": "a program of one thread",
    "readers": "programs of one thread that map the table; unit tests read it between threads",
    "simulator": "a program of one thread",
    "fleet_remedies": "what commands of one thread advise; a fleet that changes is in the other scenarios of fleets",
    "top": "a program of one thread that maps the table",
}
# Of the run that tells the most in the shortest time (--timed): these are run with --all, and where something of theirs has changed.
ON_CHANGE = {
    "bench": ("tools/bench/",),
    "build": ("cmake/", "CMakeLists.txt", "agent/CMakeLists.txt", "agent/base/token.c"),
    "completion": ("tools/completion/", "tools/main.c"),
    "cxx": ("libclient/cxx/", "tests/support/cxx_user.cpp"),
    "interop": ("tests/interop/", "agent/scripts/", "agent/core/tally.c", "agent/core/refresh.c"),
    "tutorial": ("docs/TUTORIAL.md", "tools/capture"),
}
# Every script, notices of changed keys, what nodes tell of themselves, restarts, quarantines and the wire's words.
ON_EACH_SERVER = ("behaviours", "nodes", "wakeup", "who")
# With the other hiredis: connections and what is sent and told on them, in the clear and over TLS. Of the unit tests those
# that know of connections.
WITH_EACH_HIREDIS = ("nodes", "tls", "wakeup")
CONNECTS = re.compile(r'^#include ("(tests/unit/link_fixture|agent/redis/key_deleter)\.h"|<hiredis/)', re.M)
REPORT = re.compile(r"(AddressSanitizer|ThreadSanitizer|LeakSanitizer|runtime error:)")
# Never the machine's fault, and a report neither: what two holders, a fence or a writer that is killed show.
FINDING = re.compile(
    r"AssertionError: .*(overlap|two holders|second holder|two at once|granted (twice|beside|without)|may believe in it"
    r"|fences? did not rise|foreign word|held until .* after fence|found what pid|fence \d+ follows|killed after store|scribbled)"
    r'|^ +assert .*(overlaps\(|fence_faults\(|proven\(|faults\(\)|"fence"\] >).*\n([ ~^]*\n)? *AssertionError'
    r"|^# violation: |\brace: ", re.M)  # of the simulator; between threads of a unit test
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
    again: list = dataclasses.field(default_factory=list)  # the tests that failed in the first of two runs
    stood_s: float = 0.0  # the longest standstill during its first run
    processor_s: float = 0.0  # of its processes, but for those of which it did not wait for the end
    server: pathlib.Path = None  # the folder of the redis-server that it runs on, where that is not this Debian's
    build: pathlib.Path = None  # where it is not the one that is given
    shown: bool = False  # whether the output of its failure has been


def role_of(program):
    """contract or net: tests/README.md says what these are."""
    marked = ROLE.search(pathlib.Path(source_of(program)).read_text()[:400])
    return marked.group(1).lower() if marked else "contract" if program.kind == "integration" else "net"


def scenarios_of(path, only):
    """How many of a file's scenarios run, and the words that say which."""
    text = path.read_text()
    count, timed = text.count("\n@scenario("), text.count("sanitizers=False")
    if only == "timed" and path.stem[len("test_"):] not in {**LEFT_OUT["address"], **SHIPPED_ONLY}:
        return timed, ["--only", "timed"]
    if only == "sanitized":
        return count - timed, ["--only", "sanitized"]
    return max(count, 1), []


def find_programs(build, kinds, only=""):
    found = []
    if "unit" in kinds:
        for path in sorted((ROOT / "tests" / "unit").glob("test_*.c*")):
            found.append(Program("unit", path.stem[len("test_"):], [str(build / "tests" / path.stem)]))
    if "torture" in kinds:
        for path in sorted((ROOT / "tests" / "torture").glob("test_*.c")):
            name = path.stem[len("test_"):]
            found.append(Program("torture", name, [str(build / "tests" / f"torture_{name}")]))
    if "integration" in kinds:
        for path in sorted((ROOT / "tests" / "integration").glob("test_*.py")):
            count, words = scenarios_of(path, only)
            shards = -(-count // SHARD_SCENARIOS)
            for i in range(shards):
                name = path.stem[len("test_"):] + (f"-{i + 1}" if shards > 1 else "")
                command = [sys.executable, str(path), "--shard", f"{i}/{shards}", *words]
                found.append(Program("integration", name, command))
    return sorted(found, key=turn_of)


def on_servers(programs, servers):
    """Those in which most of what a server does is asked for, once more for each of these folders."""
    return [dataclasses.replace(p, name=f"{p.name} on {server.name}", server=server.resolve(), outcomes=[], tests=set(), again=[])
            for server in servers for p in programs if p.kind == "integration" and file_of(p) in ON_EACH_SERVER]


def with_hiredis(programs, build):
    """Those that see most of a connection to a node, once more with the programs of this build, whose hiredis is another."""
    return [dataclasses.replace(p, name=f"{p.name} with {build.name.removeprefix('build-')}", build=build.resolve(), outcomes=[], tests=set(),
                                again=[], command=[str(build.resolve() / "tests" / f"test_{p.name}")] if p.kind == "unit" else p.command)
            for p in programs if p.kind == "integration" and file_of(p) in WITH_EACH_HIREDIS
            or p.kind == "unit" and CONNECTS.search(pathlib.Path(source_of(p)).read_text())]


def file_of(program):
    """Its name without the number of its shard, its server and its hiredis."""
    return re.sub(r"(-\d+)?( (on|with) .*)?$", "", program.name)


def turn_of(program):
    long = LONGEST.get(program.kind, ())
    return (0, long.index(file_of(program))) if file_of(program) in long else (1, program.kind != "integration")


def is_left_out(program, options):
    names = {*LEFT_OUT.get(options.sanitize, ()), *(SHIPPED_ONLY if options.brief else ())}
    return program.kind == "integration" and file_of(program) in names


def is_unchanged(program, changed):
    """Whether it is of those that wait for a change, and has a file of its own in none of these paths."""
    name = file_of(program)
    own = (*ON_CHANGE.get(name, ()), f"tests/integration/test_{name}.py")
    return program.kind == "integration" and name in ON_CHANGE and not any(path.startswith(own) for path in changed)


def sanitizer_options(sanitize, log, leaks=True):
    """Every process of a program reports into LOG.PID, so that no report is lost with a discarded stderr."""
    common = f"log_path={log}:abort_on_error=0:exitcode=66"
    leaks = "" if leaks else ":detect_leaks=0"
    tsan = f"suppressions={SUPPORT / 'tsan.supp'}:second_deadlock_stack=1:die_after_fork=0"
    return {
        "address": {"ASAN_OPTIONS": f"{common}:detect_stack_use_after_return=1{leaks}",
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
    began = time.monotonic()
    run_once(program, options, temp_root)
    program.stood_s = watch.longest_s(began)


def may_run_again(program):
    """Whether tests of it failed, and nothing that no second run could excuse."""
    failed = failed_tests(program)
    return failed and program.tests.issuperset(failed) and not is_finding(program)


def run_again(program, options, temp_root):
    """Once more, with nothing beside it. Has it failed, then with all that failed in either run."""
    program.again = failed_tests(program)
    program.log.replace(first_log(program))
    program.outcomes.clear()
    program.tests.clear()
    run_once(program, options, temp_root)
    failed = failed_tests(program)
    if failed:
        program.outcomes += [("not ok", test) for test in program.again if test not in failed]


def known_noisy(path):
    """Name of a test (`integration: FILE: TITLE`, `unit: FILE: FUNCTION`) to the reason why it may pass only the second time."""
    names = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        if line.strip() and not line.startswith("#"):
            name, _, reason = line.partition(" # ")
            if not reason.strip():
                raise SystemExit(f"{path}: {name}: no reason; write it behind the name, after ' # '")
            names[name.strip()] = reason.strip()
    if len(names) > NOISY_MOST:
        raise SystemExit(f"{path} names {len(names)} tests; at most {NOISY_MOST} may stand there: mend one of them")
    return names


def judge_second_time(program, noisy):
    """Strictly: nothing but a machine that stood still, and the reason in tests/known-noisy.txt, excuses the first run."""
    if program.stood_s:
        return
    for test in only_the_second_time(program):
        if f"{program.kind}: {file_of(program)}: {test}" not in noisy:
            program.outcomes = [("not ok" if row == ("ok", test) else row[0], row[1]) for row in program.outcomes]


def failed_tests(program):
    return [test for word, test in program.outcomes if word == "not ok"]


def first_log(program):
    return program.log.with_suffix(".first.log")


@contextlib.contextmanager
def stopped(session):
    """What computes ahead (tests/run) stands still meanwhile."""
    def tell(number):
        told = set()
        while fresh := members(session) - told:
            for pid in fresh:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)
            told |= fresh

    tell(signal.SIGSTOP)
    try:
        yield
    finally:
        tell(signal.SIGCONT)


def members(session):
    """The processes of that session; none of 0."""
    found = set()
    for entry in os.listdir("/proc"):
        with contextlib.suppress(ValueError, ProcessLookupError):
            if session and os.getsid(int(entry)) == session:
                found.add(int(entry))
    return found


def start(command, **options):
    """Waits a while for room where the machine has as many processes as it may have: others' tests end, too."""
    for _ in range(30):
        with contextlib.suppress(BlockingIOError):
            return subprocess.Popen(command, **options)
        time.sleep(1)
    return subprocess.Popen(command, **options)


def is_finding(program):
    text = program.log.read_text(errors="replace")
    return program.kind == "torture" or bool(FINDING.search(text) or REPORT.search(text))


def run_once(program, options, temp_root):
    if not os.path.exists(program.command[0]):
        program.log.write_text("not built\n")
        program.outcomes.append(("not ok", "is built"))
        return
    run_id = f"{os.getpid():x}-{program.kind[0]}-{program.name.replace(' ', '-')}"
    temp = pathlib.Path(tempfile.mkdtemp(prefix="hf-", dir=temp_root))
    temp.chmod(0o755)
    reports = temp_root / f"report-{run_id}"
    leaks = program.kind == "unit" or not options.brief
    env = dict(os.environ, HOLDFAST_BUILD=str(program.build or options.build), TMPDIR=str(temp), CMOCKA_MESSAGE_OUTPUT="TAP",
               PYTHONPYCACHEPREFIX=str(options.build / "pycache"), **leftovers.marks(run_id), **sanitizer_options(options.sanitize, reports, leaks))
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # each Python of a scenario would compile its modules anew, for 0.3 s
    if program.server:
        env["PATH"] = f"{program.server}:{env['PATH']}"
    if options.sanitize:
        env["HOLDFAST_SANITIZE"] = options.sanitize
    if options.strict:
        env["HOLDFAST_ONE_RUN"] = "1"
    limit = INTEGRATION_TIMEOUT_S if program.kind == "integration" else UNIT_TIMEOUT_S
    limit *= SANITIZER_SLOWDOWN if options.sanitize else 1
    started = time.monotonic()
    with open(program.log, "wb") as log:
        process = start(program.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env,
                        cwd=temp, start_new_session=True)
        RUNNING.add(process)
        status, program.processor_s = end_of(process, started + limit)
        RUNNING.discard(process)
    program.seconds = time.monotonic() - started
    judge(program, status, limit)
    judge_leftovers(program, run_id, temp)
    judge_reports(program, temp_root, reports.name)
    shutil.rmtree(temp, ignore_errors=True)


def end_of(process, deadline):
    """Its exit status, or None if it is killed at the deadline; and the processor seconds of it and of what it waited for."""
    killed = False
    while True:
        pid, status, used = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return None if killed else process.returncode, used.ru_utime + used.ru_stime
        if not killed and time.monotonic() > deadline:
            os.killpg(process.pid, signal.SIGKILL)
            killed = True
        time.sleep(0.02)


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


class Progress:
    """On a terminal: a last line that says how far the stage is. The first failure is shown whole, at once."""

    def __init__(self, options, total):
        self.stage, self.total, self.done, self.began = options.build.name, total, 0, time.monotonic()
        self.shown, self.failed = sys.stdout.isatty(), False

    def clear(self):
        if self.shown:
            print("\r\033[K", end="", flush=True)

    def tell(self):
        self.done += 1
        if self.shown and self.done < self.total:
            left = (time.monotonic() - self.began) / self.done * (self.total - self.done)
            print(f"{self.stage}: {self.done} of {self.total} programs, about {left:.0f} s left", end="", flush=True)

    def is_first(self, program):
        first, self.failed = not self.failed and bool(failed_tests(program)), self.failed or bool(failed_tests(program))
        return first


def alone(program, test, options):
    """The command that repeats a test alone."""
    words = [f"PATH={program.server}:$PATH"] if program.server else []
    if program.kind != "integration":
        one = [f"HOLDFAST_ONLY_TEST={test}"] if test in program.tests else []
        return " ".join([*words, *one, shlex.quote(os.path.relpath(program.command[0], ROOT))])
    words += [f"HOLDFAST_SANITIZE={options.sanitize}"] if options.sanitize else []
    words += [f"HOLDFAST_BUILD={shlex.quote(os.path.relpath(program.build or options.build, ROOT))}",
              os.path.relpath(program.command[1], ROOT)]
    return " ".join(words + (["-k", shlex.quote(test)] if test in program.tests else []))


def print_program(program, options, whole=False):
    """What came of it; of one that is to run once more, the outputs only then, but for the first failure."""
    counts = {word: sum(1 for w, _ in program.outcomes if w == word) for word in ("ok", "not ok", "skip")}
    skipped = f", {counts['skip']} skipped" if counts["skip"] else ""
    print(f"{'FAIL' if counts['not ok'] else 'pass'} {program.kind}: {program.name}: {counts['ok']} passed{skipped}"
          f" ({program.seconds:.1f} s, {program.processor_s:.1f} s of a processor)", flush=True)
    for test in failed_tests(program):
        print(f"     not ok {test}\n     alone: {alone(program, test, options)}")
    if counts["not ok"] and (whole or not may_run_again(program)):
        program.shown = True
        for path in (first_log(program), program.log):
            if path.exists():
                print_log(path)
    for test in only_the_second_time(program):
        stood = f" (the machine stood still for {program.stood_s * 1000:.0f} ms)" if program.stood_s else ""
        print(f"again {program.kind}: {program.name}: {test}{stood}", flush=True)


def only_the_second_time(program):
    return [] if failed_tests(program) else program.again


def print_log(path):
    text = path.read_text(errors="replace").splitlines()
    if len(text) > 400:
        text = text[:150] + [f"[{len(text) - 400} lines left out; all of it in {path}]"] + text[-250:]
    print(f"     {path.name}")
    print("\n".join("     | " + line for line in text), flush=True)


def run_all(programs, options, temp_root):
    """Some at a time, then those that may run once more, one by one."""
    watch, progress = standstill.Watch(), Progress(options, len(programs))
    for program in each(programs, options.jobs, run_program, options, temp_root, watch):
        progress.clear()
        print_program(program, options, whole=progress.is_first(program))
        progress.tell()
    doubtful = [program for program in programs if may_run_again(program)]
    if len(doubtful) > AGAIN_MOST:
        print(f"{len(doubtful)} programs failed, and none of them runs once more: {AGAIN_MOST} at most do")
        for program in doubtful:
            print_program(program, options, whole=not program.shown)
    elif doubtful:
        noisy = known_noisy(ROOT / "tests" / "known-noisy.txt")
        with stopped(options.ahead):
            for program in each(doubtful, 1, run_again, options, temp_root):
                told = only_the_second_time(program)
                if options.strict:
                    judge_second_time(program, noisy)
                print_program(program, options, whole=True)
                for test in set(told).intersection(failed_tests(program)):
                    print(f"     passed only the second time: {test}: mend it; tests/README.md says when that is excused")


def each(programs, jobs, function, *arguments):
    """Calls the function with each of them, `jobs` at a time; yields those that are ready."""
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        futures = {pool.submit(function, program, *arguments): program for program in programs}
        try:
            for future in concurrent.futures.as_completed(futures):
                future.result()
                yield futures[future]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            end_running()
            raise


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--results", type=pathlib.Path, help="folder that gets a file of outcomes")
    parser.add_argument("--kind", choices=KINDS)
    parser.add_argument("--role", choices=("contract", "net"), help="only those programs")
    parser.add_argument("--list", action="store_true", help="print role, kind and name of each program, and run none")
    parser.add_argument("--only", default="", help="part of 'program: test name', or of the program's name")
    parser.add_argument("--timed", action="store_true", help="only what no sanitizer's build runs: torture tests, scenarios that depend on time")
    parser.add_argument("--brief", action="store_true",
                        help="no scenario looks for leaks: that takes a process 10 ms at its end; without what SHIPPED_ONLY names")
    parser.add_argument("--strict", action="store_true", help="what passes only the second time has failed")
    parser.add_argument("--changed", nargs="*", default=[], metavar="PATH", help="with --timed: what has changed since all passed")
    parser.add_argument("--full", action="store_true", default=bool(os.environ.get("HOLDFAST_FULL")),
                        help="with a sanitizer: also what LEFT_OUT names")
    parser.add_argument("--sanitize", default="", choices=("", "address", "thread"))
    # A test mostly waits (an eighth of a processor each, a quarter with a sanitizer): more at a time than there are processors.
    parser.add_argument("--jobs", type=int, default=int(os.environ.get("HOLDFAST_TEST_JOBS", 0)))
    parser.add_argument("--server", type=pathlib.Path, action="append", default=[], metavar="FOLDER",
                        help="a folder of tests/servers/make: some programs run on its redis-server, too")
    parser.add_argument("--hiredis", type=pathlib.Path, action="append", default=[], metavar="BUILD",
                        help="a build with another hiredis: some programs run with that, too")
    parser.add_argument("--ahead", type=int, default=0, metavar="SESSION",
                        help="it stands still while programs run once more")
    options = parser.parse_args()
    options.jobs = options.jobs or min(int((3.5 if options.sanitize else 5) * (os.cpu_count() or 2)), 12 if options.sanitize else 16)
    options.build = options.build.resolve()
    dispositions.restore()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))

    kinds = (options.kind,) if options.kind else KINDS if not options.sanitize else ("unit", "integration")
    if options.timed:
        kinds = [kind for kind in kinds if kind != "unit"]
    programs = find_programs(options.build, kinds, "timed" if options.timed else "sanitized" if options.sanitize else "")
    programs += on_servers(programs, options.server) + [p for build in options.hiredis for p in with_hiredis(programs, build)]
    if options.only:
        programs = [p for p in programs if options.only in f"{p.kind}: {p.name}"] or narrow(programs, options.only)
    elif not options.full:
        programs = [p for p in programs if not is_left_out(p, options)]
        if options.timed:
            programs = [p for p in programs if not is_unchanged(p, options.changed)]
    if options.role:
        programs = [p for p in programs if role_of(p) == options.role]
    if options.only and not programs:
        return matches_nothing(options)
    if options.list:
        print(*(f"{role_of(p)} {p.kind}: {p.name}" for p in programs), sep="\n")
        return 0
    logs = options.build / "test-logs"
    shutil.rmtree(logs, ignore_errors=True)
    logs.mkdir(parents=True)
    for program in programs:
        program.log = logs / f"{program.kind}-{program.name.replace(' ', '-')}.log"
    with tempfile.TemporaryDirectory(prefix="holdfast-tests-") as temp_root:
        os.chmod(temp_root, 0o1777)  # some scenarios run as another user
        run_all(programs, options, pathlib.Path(temp_root))
    if options.results:
        with open(options.results / f"{options.build.name}.outcome", "w") as out:
            for program in programs:
                out.writelines(f"{word} {options.build.name}: {program.kind}: {program.name}: {test}\n"
                               for word, test in program.outcomes)
                out.writelines(f"again {options.build.name}: {program.kind}: {program.name}: {test}\n"
                               for test in only_the_second_time(program))
    if options.only and not any(p.outcomes for p in programs):  # the text of a program has the pattern, and none of its tests
        return matches_nothing(options)
    return 1 if any(word == "not ok" for p in programs for word, _ in p.outcomes) else 0


def matches_nothing(options):
    """No test ran, which must not look as if all had passed. The outcomes of none are there: tests/run adds up several builds."""
    if options.results:
        (options.results / f"{options.build.name}.outcome").write_text("")
    print(f"runner.py: --only {options.only!r} matches no test, so none ran; --list prints the programs", file=sys.stderr)
    return 2


def narrow(programs, pattern):
    """No program is called so: run the single tests that match."""
    for program in programs:
        if program.kind == "integration":
            program.command += ["-k", pattern]
    return [p for p in programs if pattern in pathlib.Path(source_of(p)).read_text()]


def source_of(program):
    if program.kind == "integration":
        return program.command[1]
    plain = ROOT / "tests" / program.kind / f"test_{file_of(program)}.c"
    return plain if plain.exists() else plain.with_suffix(".cpp")


if __name__ == "__main__":
    sys.exit(main())
