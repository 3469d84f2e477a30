#!/usr/bin/env python3
"""Net. The simulator (tests/sim): schedules of faults drawn from seeds, the seeds that once failed, and that a seed
means the same each time. HOLDFAST_FULL=1 runs ten times as many, and the default run of tests/run 4,000; HOLDFAST_SEED=N begins with that seed.
"""
import os
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from rig import BUILD, SANITIZE, main, scenario, skip  # noqa: E402

SIM = BUILD / "tests" / "sim"
SEEDS = pathlib.Path(__file__).resolve().parent.parent / "sim" / "seeds.txt"
SCHEDULES = 100 if SANITIZE else 100_000 if os.environ.get("HOLDFAST_FULL") else 2_500 if os.environ.get("HOLDFAST_ONE_RUN") else 10_000
SEED = os.environ.get("HOLDFAST_SEED", "1")
JOBS = os.cpu_count() or 2


def simulate(*arguments, code=0):
    """The report's lines; a violation, named with its seed, is a failure."""
    if SANITIZE == "thread":
        skip("the simulator has one thread")
    done = subprocess.run([SIM, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    report = done.stdout
    print("\n".join("# " + line for line in report.splitlines()), flush=True)
    assert done.returncode == code, f"{SIM.name} {' '.join(arguments)} ended with {done.returncode}"
    return report


@scenario("no rule is broken in schedules of faults, and each kind of them is there")
def schedules(_run):
    few = ["--any"] if SANITIZE else []
    simulate("--schedules", str(SCHEDULES), "--seed", SEED, "--jobs", str(JOBS), *few)


@scenario("a net that is too thin fails, and one whose widening leaves no room for a kind of fault does not", sanitizers=False)
def thin(_run):
    lies = ["--wide", "changes", "--every", "--lies", "--schedules", "500", "--jobs", str(JOBS)]
    simulate(*lies)
    report = simulate("--least", "160", "--wide", "none", "--every", "--schedules", "500", "--jobs", str(JOBS), code=2)
    assert re.search(r"^too few schedules with: restart: [\d.]+ % of 500, wanted are 80.0 %$", report, re.M)


@scenario("seeds that once failed do not fail")
def kept_seeds(_run):
    for line in SEEDS.read_text().splitlines():
        if line and not line.startswith("#"):
            seed, wide = line.split()[0].split("/")
            kinds = ["--groups"] if wide == "--groups" else ["--every", "--wide", wide]
            simulate("--seed", seed, "--schedules", "1", "--any", *kinds)


@scenario("a seed means the same in every run, whatever ran before it")
def same_again(_run):
    def digest(*arguments):
        return re.search(r"^digest (\w+)$", simulate("--digest", "--any", "--seed", "77", *arguments), re.M).group(1)

    assert digest("--schedules", "60", "--jobs", "1") == digest("--schedules", "60", "--jobs", "3")
    assert digest("--schedules", "60") != digest("--schedules", "59")


if __name__ == "__main__":
    main()
