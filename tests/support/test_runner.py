#!/usr/bin/env python3
"""The runner: what fails once and passes alone is told, what fails twice has failed, and what is never the machine's fault has
no second run.

    tests/support/test_runner.py [-k PART_OF_A_NAME]
"""
import contextlib
import os
import pathlib
import pty
import signal
import subprocess
import sys
import tempfile
import textwrap
import types
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import runner  # noqa: E402

# Programs that tell what they are told to. `first` is for the first run, `then` for those after it.
PROGRAM = """
import os, pathlib, subprocess, sys, time
mark = pathlib.Path({mark!r})
again = mark.exists()
mark.touch()
{body}
"""
MAIN = "import pathlib, runner, sys; runner.ROOT = pathlib.Path(sys.argv.pop(1)); sys.exit(runner.main())"


class Runner(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.root = pathlib.Path(place.name)
        for folder in ("tests/integration", "results", "build"):
            (self.root / folder).mkdir(parents=True)

    def program(self, name, body):
        path = self.root / "tests/integration" / f"test_{name}.py"
        path.write_text(PROGRAM.format(mark=str(self.root / f"{name}.ran"), body=textwrap.dedent(body)))

    def run_it(self, *options):
        """Exit code, what it printed, and the lines of outcome, in order."""
        done = subprocess.run(
            [sys.executable, "-c", MAIN, self.root, "--build", self.root / "build", "--results", self.root / "results",
             "--kind", "integration", *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
            env={**os.environ, "PYTHONPATH": str(pathlib.Path(runner.__file__).parent), "PYTHONDONTWRITEBYTECODE": "1"})
        outcome = (self.root / "results/build.outcome").read_text().replace("build: integration: ", "")
        return done.returncode, done.stdout, sorted(outcome.splitlines())

    def test_all_pass(self):
        self.program("a", "print('ok one'); print('skip two not here')")
        self.assertEqual(self.run_it()[0::2], (0, ["ok a: one", "skip a: two not here"]))

    def test_what_fails_once_is_told(self):
        self.program("a", "print('ok one'); print('ok two' if again else 'not ok two\\n    slow'); sys.exit(not again)")
        code, said, outcome = self.run_it()
        self.assertEqual((code, outcome), (0, ["again a: two", "ok a: one", "ok a: two"]))
        self.assertIn("again integration: a: two", said)
        self.assertIn("slow", (self.root / "build/test-logs/integration-a.first.log").read_text())

    def noisy(self, text):
        (self.root / "tests/known-noisy.txt").write_text(text)

    def test_strictly_what_passes_only_the_second_time_has_failed(self):
        self.program("a", "print('ok one'); print('ok two' if again else 'not ok two'); sys.exit(not again)")
        code, said, outcome = self.run_it("--strict")
        self.assertEqual((code, outcome), (1, ["not ok a: two", "ok a: one"]))
        self.assertIn("passed only the second time: two", said)

    def test_strictly_a_known_noise_is_told(self):
        self.program("a", "print('ok one'); print('ok two' if again else 'not ok two'); sys.exit(not again)")
        self.noisy("# a comment\n\nintegration: a: two # its neighbour's clock\n")
        self.assertEqual(self.run_it("--strict")[0::2], (0, ["again a: two", "ok a: one", "ok a: two"]))
        (self.root / "a.ran").unlink()
        self.noisy("integration: a: one # another test's reason\n")
        self.assertEqual(self.run_it("--strict")[0::2], (1, ["not ok a: two", "ok a: one"]))

    def test_strictly_a_machine_that_stood_still_is_told(self):
        program = runner.Program("integration", "a-2", [], [("ok", "one"), ("ok", "two")], again=["two"], stood_s=0.3)
        runner.judge_second_time(program, {})
        self.assertEqual(runner.failed_tests(program), [])
        program.stood_s = 0
        runner.judge_second_time(program, {"integration: a: two": "its shard has no part in its name"})
        self.assertEqual(runner.failed_tests(program), [])
        runner.judge_second_time(program, {})
        self.assertEqual(runner.failed_tests(program), ["two"])

    def test_the_list_of_known_noises(self):
        path = self.root / "tests/known-noisy.txt"
        self.assertEqual(runner.known_noisy(path), {})
        self.noisy("integration: a: two\n")
        with self.assertRaisesRegex(SystemExit, "no reason"):
            runner.known_noisy(path)
        self.noisy("".join(f"integration: a: {i} # slow\n" for i in range(runner.NOISY_MOST + 1)))
        with self.assertRaisesRegex(SystemExit, "at most 5 may stand there"):
            runner.known_noisy(path)
        folder = pathlib.Path(runner.__file__).parent.parent
        for name in runner.known_noisy(folder / "known-noisy.txt"):
            kind, file, test = name.split(": ", 2)
            self.assertIn(test, next((folder / kind).glob(f"test_{file}.*")).read_text())

    def test_the_command_that_repeats_a_failure(self):
        self.program("a", "print('not ok it fails'); sys.exit(1)")
        said = self.run_it()[1]
        self.assertIn("alone: HOLDFAST_BUILD=build tests/integration/test_a.py -k 'it fails'", said)
        options = types.SimpleNamespace(build=runner.ROOT / "build-asan", sanitize="address")
        unit = runner.Program("unit", "x", [str(runner.ROOT / "build-asan/tests/test_x")], tests={"it"})
        self.assertEqual(runner.alone(unit, "it", options), "HOLDFAST_ONLY_TEST=it build-asan/tests/test_x")
        self.assertEqual(runner.alone(unit, "leaves nothing behind", options), "build-asan/tests/test_x")

    def test_a_process_that_is_left(self):
        self.program("a", """
            left = subprocess.Popen(['sleep', '60'], start_new_session=True)
            pathlib.Path({str(self.root)!r}, 'left').write_text(str(left.pid))
            print('ok one')""".replace("{str(self.root)!r}", repr(str(self.root))))
        code, _, outcome = self.run_it()
        self.assertEqual((code, outcome), (1, ["not ok a: leaves nothing behind", "ok a: one"]))
        command = pathlib.Path("/proc", (self.root / "left").read_text(), "cmdline")
        self.assertFalse(command.exists() and command.read_text())

    def test_progress_on_a_terminal(self):
        for name in ("a", "b"):
            self.program(name, "print('ok one')")
        said = self.on_a_terminal()
        self.assertRegex(said, r"build: 1 of 2 programs, about \d+ s left")
        self.assertNotIn("programs, about", self.run_it()[1])

    def test_the_first_failure_is_shown_at_once(self):
        self.program("a", "print('ok one' if again else 'not ok one\\n    because'); sys.exit(not again)")
        self.program("b", "time.sleep(1); print('ok two')")
        said = self.run_it()[1]
        self.assertLess(said.index("because"), said.index("integration: b: 1 passed"))

    def on_a_terminal(self):
        """What it prints where its stdout is one."""
        ours, its = pty.openpty()
        with subprocess.Popen([sys.executable, "-c", MAIN, self.root, "--build", self.root / "build", "--kind", "integration"], stdout=its,
                              env={**os.environ, "PYTHONPATH": str(pathlib.Path(runner.__file__).parent)}):
            os.close(its)
            said = b""
            with contextlib.suppress(OSError):  # EIO: its other end is closed
                while part := os.read(ours, 4096):
                    said += part
        os.close(ours)
        return said.decode()

    def test_what_fails_twice_has_failed(self):
        self.program("a", "print('not ok two\\n    the', 'second' if again else 'first'); sys.exit(1)")
        code, said, outcome = self.run_it()
        self.assertEqual((code, outcome), (1, ["not ok a: two"]))
        self.assertIn("the first", said)
        self.assertIn("the second", said)

    def test_another_test_that_fails_the_second_time(self):
        self.program("a", """
            print('ok one' if again else 'not ok one')
            print('not ok two' if again else 'ok two')
            sys.exit(1)""")
        code, _, outcome = self.run_it()
        self.assertEqual(code, 1)
        self.assertLessEqual({"not ok a: one", "not ok a: two"}, set(outcome))

    def test_it_runs_alone(self):
        self.program("a", f"""
            if again:
                sys.exit(print('ok one' if pathlib.Path({str(self.root)!r}, 'b.ended').exists() else 'not ok one'))
            print('not ok one')
            sys.exit(1)""")
        self.program("b", f"""
            time.sleep(0.5)
            pathlib.Path({str(self.root)!r}, 'b.ended').touch()
            print('ok three')""")
        self.assertEqual(self.run_it()[0::2], (0, ["again a: one", "ok a: one", "ok b: three"]))

    def test_what_computes_ahead_stands_still(self):
        ahead = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
        self.addCleanup(ahead.wait)
        self.addCleanup(ahead.kill)
        self.program("a", f"""
            state = pathlib.Path('/proc/{ahead.pid}/stat').read_text().rpartition(')')[2].split()[0]
            print('ok one' if again and state == 'T' else 'not ok one')
            sys.exit(not again)""")
        self.assertEqual(self.run_it("--ahead", str(ahead.pid))[2], ["again a: one", "ok a: one"])
        state = pathlib.Path(f"/proc/{ahead.pid}/stat").read_text().rpartition(")")[2].split()[0]
        self.assertIn(state, "SR")

    def test_what_is_a_failure_at_once(self):
        for text in ("    AssertionError: 3 overlaps, the first: x", "    assert not overlaps(holds) and x\n    AssertionError",
                     "# violation: fence: seed 3: it fell", "# race: a torn word", "    AssertionError: two holders: [3]",
                     "WARNING: ThreadSanitizer: data race",
                     '    assert a["fence"] > fence\n           ^^^^^\n    AssertionError'):
            with self.subTest(text):
                (self.root / "a.ran").unlink(missing_ok=True)
                self.program("a", f"""
                    sys.exit(print('ok one')) if again else None
                    print('not ok one')
                    print({text!r})
                    sys.exit(1)""")
                code, said, outcome = self.run_it()
                self.assertEqual((code, "again" in said), (1, False))
                self.assertIn("not ok a: one", outcome)

    def test_what_is_none(self):
        for text in ("    AssertionError: not within 10 s: holder-3 is ready", "    AssertionError: {'fence': '7'}",
                     "# 24 fault points, 0 violations", '    fence = a.answer()["fence"] > 3\n    HolderError: 4: late'):
            self.assertFalse(runner.FINDING.search(text), text)

    def test_how_it_ends_is_a_failure_at_once(self):
        for body, what in (("print('ok one'); sys.exit(3)", "ends well (it ended with 3)"),
                           ("print('not ok one'); pathlib.Path('left').touch()", "leaves nothing behind"),
                           ("pass", "runs at least one test")):
            with self.subTest(what):
                (self.root / "a.ran").unlink(missing_ok=True)
                self.program("a", f"sys.exit(print('ok one')) if again else None\n{body}")
                code, said, outcome = self.run_it()
                self.assertEqual((code, "again" in said), (1, False))
                self.assertIn(f"not ok a: {what}", outcome)

    def test_many_that_fail_are_no_chance(self):
        for i in range(runner.AGAIN_MOST + 1):
            self.program(f"a{i}", "print('ok one' if again else 'not ok one\\n    because'); sys.exit(not again)")
        code, said, outcome = self.run_it()
        self.assertEqual((code, outcome), (1, [f"not ok a{i}: one" for i in range(runner.AGAIN_MOST + 1)]))
        self.assertEqual(said.count("because"), runner.AGAIN_MOST + 1)

    def test_what_is_left_out(self):
        folder = pathlib.Path(runner.__file__).parent.parent / "integration"
        for name in [name for names in runner.LEFT_OUT.values() for name in names]:
            self.assertTrue((folder / f"test_{name}.py").exists(), name)
        for name in runner.LONGEST["integration"]:
            self.assertTrue((folder / f"test_{name}.py").exists(), name)
        quick, slow = "\n@scenario('quick')", "\n@scenario('slow', sanitizers=False)"
        for name, scenarios in (("examples", quick + slow), ("a", quick + slow), ("b", quick)):
            self.program(name, "print('ok', *sys.argv[3:] or ['all'])")
            with open(self.root / f"tests/integration/test_{name}.py", "a") as file:
                file.write(f'"""{scenarios}"""\n')
        sanitized = [f"ok {name}: --only sanitized" for name in ("a", "b", "examples")]
        self.assertEqual(self.run_it("--sanitize", "thread")[2], sanitized[:2])
        self.assertEqual(self.run_it("--sanitize", "thread", "--full")[2], sanitized)
        self.assertEqual(self.run_it("--sanitize", "thread", "--only", "examples")[2], sanitized[2:])
        self.assertEqual(self.run_it("--timed")[2], ["ok a: --only timed", "ok examples: all"])
        self.program("simulator", "print('ok', *sys.argv[3:] or ['all'])")
        with open(self.root / "tests/integration/test_simulator.py", "a") as file:
            file.write(f'"""{quick}"""\n')
        self.assertIn("ok simulator: all", self.run_it("--timed")[2])
        self.assertNotIn("simulator", str(self.run_it("--sanitize", "address", "--brief")[2]))
        self.assertIn("ok simulator: --only sanitized", self.run_it("--sanitize", "address")[2])
        (self.root / "tests/integration/test_simulator.py").unlink()
        self.assertEqual(self.run_it()[2], ["ok a: all", "ok b: all", "ok examples: all"])

    def test_a_pattern_that_matches_nothing(self):
        self.program("a", "'only b'; print('ok one') if '-k' not in sys.argv or 'one'.find(sys.argv[-1]) >= 0 else None")
        for pattern, also in (("nobody", ()), ("only b", ()), ("nobody", ("--list",)), ("a", ("--role", "net"))):
            with self.subTest(pattern, also=also):
                (self.root / "results/build.outcome").write_text("")
                code, said, outcome = self.run_it("--only", pattern, *also)
                self.assertEqual((code, outcome), (2, []))
                self.assertIn(f"--only {pattern!r} matches no", said)
        for pattern in ("integration: a", "one"):
            self.assertEqual(self.run_it("--only", pattern)[0::2], (0, ["ok a: one"]))

    def test_another_hiredis(self):
        for name in ("nodes", "a"):
            self.program(name, "print('ok', pathlib.Path(os.environ['HOLDFAST_BUILD']).name)")
        code, _, outcome = self.run_it("--hiredis", str(self.root / "build-hiredis-9"))
        self.assertEqual((code, outcome), (0, ["ok a: build", "ok nodes with hiredis-9: build-hiredis-9", "ok nodes: build"]))
        for name in runner.WITH_EACH_HIREDIS + runner.ON_EACH_SERVER:
            self.assertTrue((pathlib.Path(runner.__file__).parent.parent / "integration" / f"test_{name}.py").exists(), name)

    def test_the_runner_ends_what_it_runs(self):
        self.program("a", "print('not ok one', flush=True); time.sleep(60) if again else sys.exit(1)")
        began = subprocess.Popen(
            [sys.executable, "-c", MAIN, self.root, "--build", self.root / "build", "--kind", "integration"],
            stdout=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": str(pathlib.Path(runner.__file__).parent), "PYTHONDONTWRITEBYTECODE": "1"})
        log = self.root / "build/test-logs/integration-a.log"
        first = log.with_suffix(".first.log")
        while not (first.exists() and log.exists() and log.read_text()):
            self.assertIsNone(began.poll())
        began.send_signal(signal.SIGTERM)
        began.communicate(timeout=20)
        self.assertEqual(began.returncode, 128 + signal.SIGTERM)


if __name__ == "__main__":
    unittest.main()
