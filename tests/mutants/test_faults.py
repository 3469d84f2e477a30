#!/usr/bin/env python3
"""The carrier of the mutants: what stands in a file of faults/ is found wherever its place is, changed to the letter, and
whatever is not so is told with the remedy.

    tests/mutants/test_faults.py [-k PART_OF_A_NAME]
"""
import pathlib
import subprocess
import sys
import tempfile
import time
import types
import unittest
import unittest.mock

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import catchers  # noqa: E402
from faults import Broken, Fault, all_faults  # noqa: E402
from places import Sources  # noqa: E402
from schemata import Schemata  # noqa: E402

HEAD = "Mutant: 07\nFault: it is\n  wrong\nRule: some\nCaught: sim\nCaught: unit test_x\n  of_it\n"

LEASE = """#include "x.h"

#define SPAN \\
    100 /* ms */
#define OTHER 1

typedef struct {
    int a;
} pair;

struct lease {
    int a;
};

static const int STEPS[] = {
    1,
    2,
};
static const struct pair PAIRS[] = {
    {1, 2},
    {3, 4}};
static const struct {
    int a, b;
} rows[] = {
    {5, 6},
};
enum way { THERE, BACK };
static int first = 1;

static int prototype(int a);

/* Ends it. */
__attribute__((cold)) static int lease_end(struct lease *l,
                                           int why) REQUIRES(lock)
{
    if (why) {
        l->a = why;

        return 1;
    }
    l->a = 0;
    return call(l->a,
                why);
}

void look(void) NO_THREAD_SAFETY
{
    step();
    step();
}
"""

SCRIPT = """local function read(key)
  return get(key)
end
if read(KEYS[1]) then
  return 1
end
"""


class Carrier(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.root = pathlib.Path(place.name)
        self.write("agent/lease.c", LEASE)
        self.write("agent/scripts/force.lua", SCRIPT)

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def fault(self, change, head=HEAD):
        return Fault(self.write("faults/07-some-rule.txt", head + "\n" + change))

    def changed(self, change):
        """The changed files, by name."""
        out = self.root / "out"
        names = self.fault(change).apply(Sources(self.root), out)
        return {name: (out / name).read_text() for name in names}

    def expect(self, change, old, new, file="agent/lease.c"):
        true = (self.root / file).read_text()
        self.assertEqual(true.count(old), 1)
        self.assertEqual(self.changed(change), {file: true.replace(old, new)})

    def refuse(self, change, *words):
        with self.assertRaises(Broken) as told:
            self.changed(change)
        for word in ("07-some-rule.txt", *words):
            self.assertIn(word, str(told.exception))

    # What is found.

    def test_the_head(self):
        fault = self.fault("In: lease_end\n- l->a = 0;\n")
        self.assertEqual((fault.number, fault.name), ("07", "some-rule"))
        self.assertEqual((fault.fault, fault.rule), ("it is wrong", "some"))
        self.assertEqual(fault.caught, ["sim", "unit test_x of_it"])

    def test_a_line_of_a_function(self):
        self.expect("In: lease_end\n- l->a = why;\n+ l->a = 0;\n+ if (why)\n+     l->a = 1;\n", "        l->a = why;\n",
                    "        l->a = 0;\n        if (why)\n            l->a = 1;\n")

    def test_a_line_goes(self):
        self.expect("In: lease_end\n- l->a = 0;\n", "    l->a = 0;\n", "")

    def test_a_line_comes(self):
        self.expect("In: lease_end\n  {\n+     return 2;\n", "lock)\n{\n", "lock)\n{\n    return 2;\n")

    def test_empty_lines_stay_and_come(self):
        self.expect("In: lease_end\n  l->a = why;\n\n- return 1;\n+ x();\n+\n+ y();\n\n", "\n\n        return 1;",
                    "\n\n        x();\n\n        y();")

    def test_other_line_breaks_are_no_matter(self):
        self.expect("In: lease_end\n- return call(l->a, why);\n+ return call(\n+     0);\n",
                    "    return call(l->a,\n                why);\n", "    return call(\n        0);\n")

    def test_the_place_may_be_in_any_file(self):
        change = "In: lease_end\n- l->a = 0;\n"
        for file in ("libclient/other.c", "tools/deep/er.h"):
            (self.root / "agent/lease.c").unlink(missing_ok=True)
            self.write(file, LEASE)
            self.expect(change, "    l->a = 0;\n", "", file)
            (self.root / file).unlink()

    def test_other_things_with_a_name(self):
        self.expect("In: SPAN\n- 100 /* ms */\n+ 200\n", "    100 /* ms */\n", "    200\n")
        self.expect("In: OTHER\n- #define OTHER 1\n+ #define OTHER 2\n", "OTHER 1", "OTHER 2")
        self.expect("In: struct lease\n- int a;\n+ long a;\n", "lease {\n    int a;", "lease {\n    long a;")
        self.expect("In: pair\n- int a;\n+ long a;\n", "{\n    int a;\n} pair", "{\n    long a;\n} pair")
        self.expect("In: STEPS\n- 2,\n+ 3,\n", "    2,", "    3,")
        self.expect("In: rows\n- {5, 6},\n", "    {5, 6},\n", "")
        self.expect("In: enum way\n- enum way { THERE, BACK };\n", "enum way { THERE, BACK };\n", "")
        self.expect("In: first\n- static int first = 1;\n", "static int first = 1;\n", "")

    def test_scripts(self):
        file = "agent/scripts/force.lua"
        self.expect("In: force.lua\n- return 1\n+ return 2\n", "return 1", "return 2", file)
        self.expect("In: read\n- return get(key)\n+ return key\n", "get(key)", "key", file)

    def test_several_changes(self):
        found = self.changed("In: lease_end\n- l->a = 0;\n+ l->a = 9;\n\nIn: lease_end\n- l->a = why;\n\n"
                             "In: force.lua\n- return 1\n+ return 2\n")
        self.assertEqual(found, {"agent/lease.c": LEASE.replace("        l->a = why;\n", "").replace("a = 0", "a = 9"),
                                 "agent/scripts/force.lua": SCRIPT.replace("return 1", "return 2")})

    def test_a_static_function_of_two_files(self):
        self.write("shm/again.c", LEASE.replace("= 0", "= 5"))
        self.expect("In: lease_end\n- l->a = 5;\n", "    l->a = 5;\n", "", "shm/again.c")
        self.refuse("In: lease_end\n- l->a = why;\n", "2 times", "agent/lease.c:", "shm/again.c:", "`File: NAME.c`")
        self.expect("In: lease_end\nFile: again.c\n- l->a = why;\n", "        l->a = why;\n", "", "shm/again.c")

    # What is refused.

    def test_no_such_place(self):
        for name in ("lease_ended", "prototype", "call", "struct leases", "look.lua", "REQUIRES"):
            self.refuse(f"In: {name}\n- x();\n", name, "name in `In` what has its lines now")

    def test_no_such_file(self):
        self.refuse("In: lease_end\nFile: other.c\n- l->a = 0;\n", "no file other.c", "leave `File` out")

    def test_no_such_line(self):
        for text in ("l->a = 2;", "l->a =", "step();", "l->a = 0;\n- return 1;"):
            self.refuse(f"In: lease_end\n- {text}\n", "lease_end (agent/lease.c:", "write its lines of now", text.split("\n")[0])

    def test_a_line_that_is_there_twice(self):
        self.refuse("In: look\n- step();\n", "look has these lines 2 times", "add lines around them that stay")
        self.expect("In: look\n  {\n-     step();\n", "{\n    step();\n", "{\n")

    def test_changes_of_the_same_lines(self):
        self.refuse("In: lease_end\n- l->a = 0;\n\nIn: lease_end\n- l->a = 0;\n", "write them as one")

    def test_a_change_that_changes_nothing(self):
        for change in ("", "In: lease_end\n", "In: lease_end\n  l->a = 0;\n", "In: lease_end\n+ l->a = 0;\n",
                       "In: lease_end\n- l->a = 0;\n+ l->a = 0;\n"):
            self.refuse(change)

    def test_a_wrong_line(self):
        self.refuse("In: lease_end\n- l->a = 0;\nFile: lease.c\n", ":11:", "not a line of a change")
        self.refuse("In: lease_end\nl->a = 0;\n", ":10:", "not a line of a change")
        self.refuse("because\nIn: lease_end\n- l->a = 0;\n", ":9:", "not a line of a head")

    def test_a_wrong_head(self):
        for head in (HEAD.replace("Mutant: 07", "Mutant: 08"), HEAD.replace("Rule: some\n", ""), HEAD + "Rule: other\n",
                     HEAD.replace("Caught", "Fault"), ""):
            with self.assertRaises(Broken):
                self.fault("In: lease_end\n- l->a = 0;\n", head)

    def test_all_of_a_folder(self):
        text = HEAD + "In: look\n- x();\n"
        for number in ("07", "100", "31"):
            self.write(f"faults/{number}-x.txt", text.replace("07", number))
        self.assertEqual([fault.number for fault in all_faults(self.root / "faults")], ["07", "31", "100"])
        self.write("faults/31-again.txt", text.replace("07", "31"))
        self.write("faults/32.patch", text)
        with self.assertRaises(Broken) as told:
            all_faults(self.root / "faults")
        for word in ("31-again.txt", "31-x.txt", "another number", "32.patch"):
            self.assertIn(word, str(told.exception))


COUNT = """#include <stdio.h>

#define STEP 1

int count(int (*step)(int), const char text[2]);

static int one(int n)
{
    return n + STEP;
}

int count(int (*step)(int),
          const char text[2])
{
    int n = 0;

    if (*text)
        n = step(n);
    return n;
}

static void say(void)
{
    printf("%d", count(one, "a"));
}

int main(void)
{
    say();
}
"""
CHANGES = {
    "1": "In: one\n- return n + STEP;\n+ return n + 2 * STEP;\n",
    "2": "In: count\n      if (*text)\n- n = step(n);\n+ n = step(step(n));\n\nIn: one\n- return n + STEP;\n+ return n + 2 * STEP;\n",
    "3": "In: say\n- printf(\"%d\", count(one, \"a\"));\n+ printf(\"none\");\n",
    "4": "In: STEP\n- #define STEP 1\n+ #define STEP 5\n",
    "5": "In: one\n- static int one(int n)\n+ static int one(long n)\n",
}


class InOneBuild(unittest.TestCase):
    def test_each_is_what_its_number_says(self):
        with tempfile.TemporaryDirectory() as place:
            root = pathlib.Path(place)
            (root / "agent").mkdir()
            (root / "agent/count.c").write_text(COUNT)
            faults = []
            for number, change in CHANGES.items():
                path = root / f"{number}-some-rule.txt"
                path.write_text(HEAD.replace("07", number) + "\n" + change)
                faults.append(Fault(path))
            build = types.SimpleNamespace(sources=Sources(root), needs={}, compiles={})
            many = Schemata(build, faults, root / "many", ())
            many.write()
            subprocess.run(["cc", "-o", root / "count", root / "many/src/agent/count.c"], check=True)
            said = {number: subprocess.run([root / "count"], env={"HF_MUTANT": number}, text=True, capture_output=True, check=False).stdout
                    for number in ("0", *many.carries)}
        self.assertEqual(said, {"0": "1", "1": "2", "2": "4", "3": "none"})


class Leftovers(unittest.TestCase):
    """A test that is killed leaves nothing."""

    def test_a_killed_test_leaves_nothing(self):
        script = 'd=/dev/shm/holdfast-test$HOLDFAST_TEST_TAG-abcdef; mkdir $d; touch $d/journal $TMPDIR/file; echo $TMPDIR $d; sleep 60'
        for patience, command in ((1, script), (60, script.replace("sleep 60", "true"))):
            output, status, _ = catchers.run(["sh", "-c", command], patience)
            self.assertEqual(status, None if patience == 1 else 0)
            for path in output.split():
                self.assertFalse(pathlib.Path(path).exists(), path)
            self.assertEqual(len(set(output.split())), 2)


class Runs(unittest.TestCase):
    """How a catcher is run."""

    def test_what_outlives_a_program_holds_up_nobody(self):
        output, status, seconds = catchers.run(["sh", "-c", "sleep 30 & echo $!"], 20)
        self.assertEqual(status, 0)
        self.assertLess(seconds, 15)
        left = pathlib.Path(f"/proc/{int(output)}/cmdline")
        for _ in range(100):
            if not left.exists() or not left.read_text():  # a zombie has none
                return
            time.sleep(0.1)
        self.fail("it is still there")

    def test_a_program_that_does_not_end(self):
        output, status, _ = catchers.run(["sh", "-c", "echo before; sleep 30"], 1)
        self.assertEqual((output, status), ("before\n", None))

    def test_an_abort_is_noticed_by_a_test_that_runs_alone(self):
        with tempfile.TemporaryDirectory() as place:
            made = pathlib.Path(place)
            (made / "tests").mkdir()
            for program in ("test_a", catchers.IN_ORDER[0]):
                (made / "tests" / program).write_text("#!/bin/sh\nkill -ABRT $$\n")
                (made / "tests" / program).chmod(0o755)
            self.assertTrue(catchers.Unit("test_a it_holds")(made, None).noticed)
            self.assertFalse(catchers.Unit(f"{catchers.IN_ORDER[0]} it_holds")(made, None).noticed)


class Schedules(unittest.TestCase):
    """What the simulator is asked for, and what its answer is taken for."""

    options = types.SimpleNamespace(seed=1000, schedules=20)

    def ask(self, text, method, output, status=1):
        asked = []

        def run(words, _patience):
            asked.extend(str(word) for word in words)
            return output, status, 1.5

        with unittest.mock.patch.object(catchers, "run", run):
            verdict = getattr(catchers.catcher(text), method)(pathlib.Path("x"), self.options)
        return " ".join(asked[1:]), verdict

    def test_words(self):
        often, rare = catchers.catcher("sim hot"), catchers.catcher("sim rarely hot")
        self.assertEqual((often.quick, often.rarely, rare.quick, rare.rarely), (True, False, False, True))
        self.assertEqual(str(often), str(rare))
        with self.assertRaises(Broken):
            catchers.catcher("sim hot far")

    def test_first(self):
        asked, verdict = self.ask("sim", "__call__", "violation: fence: seed 1004: it fell\n")
        self.assertEqual(asked, "--stop-at-first --seed 1000 --schedules 20")
        self.assertEqual((verdict.noticed, verdict.by, verdict.after), (True, "sim: fence", "5 schedules"))
        self.assertFalse(self.ask("sim", "__call__", "", 0)[1].noticed)

    def test_once_more(self):
        asked, verdict = self.ask("sim hot", "once_more", "violation: fence: seed 1021: it fell\n")
        self.assertEqual(asked, "--stop-at-first --seed 1020 --schedules 40 --any --every --wide hot")
        self.assertEqual(verdict.after, "22 schedules")


if __name__ == "__main__":
    unittest.main()
