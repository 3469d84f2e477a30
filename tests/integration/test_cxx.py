#!/usr/bin/env python3
"""What the headers for C++ (libclient/cxx) promise, with an agent on real nodes: tests/support/cxx_user.cpp has the cases."""
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from rig import BUILD, ROOT, agent_env, main, scenario, skip  # noqa: E402

USER = BUILD / "tests" / "cxx_user"


def case(run, agent, name, program=USER, **more):
    return run.spawn(program, name, f"app/{name}", label=f"cxx-{name}", env={**agent_env(agent), **more})


def passes(process):
    got = process.wait(60)
    assert got == 0, f"{process.label} ended with {got}: {process.err}"


def one(title, name):
    @scenario(title)
    def body(run):
        run.redis(3)
        passes(case(run, run.agent(), name))


one("a lease is released where its scope ends, also by an exception", "holds")
one("a lock within the same lock is refused with errc::deadlock", "itself")
one("what was moved from is empty, a lease that is assigned to releases what it had, and one may outlive its client", "moves")
one("constructors throw, and try forms return the same errors", "fails")
one("a child holds nothing, and what it inherited goes without touching its parent's leases", "forks")
one("a program hears that it shall stop", "hears")
one("a lease whose program does not beat is lost, and its release says so", "beats")
one("an acquire that is not waited for is decided, or called off when it is dropped", "pends")
one("sets are held as a whole, and of the slots each one has one", "several")
one("many share a name, or one has it alone", "shares")
one("a set and an exclusive hold hear that they shall stop when one of their leases is asked for or lost", "warns")
one("std::unique_lock and its kin take turns, threads that share the mutex too", "excludes")


@scenario("holds of four programs on two hosts never overlap, and their fences rise")
def never_overlap(run):
    run.redis(3)
    agents = [run.agent(label) for label in "ab"]
    path = run.dir / "lines"
    crew = [case(run, agents[i % 2], "counts", CXX_USER_FILE=str(path)) for i in range(4)]
    for process in crew:
        passes(process)
    lines = [line.split() for line in path.read_text().splitlines()]
    assert [word for word, _ in lines] == ["begin", "end"] * 80, "two holders overlap"
    fences = [int(fence) for _, fence in lines]
    assert fences[::2] == fences[1::2] and fences[::2] == sorted(set(fences)), "fences did not rise"


@scenario("every compiler that is there makes a sound program of the headers, by the sanitizers' word", sanitizers=False)
def compilers(run):
    compilers = [name for name in ("g++", "clang++") if shutil.which(name)]
    if not compilers:
        skip("no compiler for C++")
    run.redis(3)
    agent = run.agent()
    words = ["-std=c++17", "-O1", "-g", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror", "-fsanitize=address,undefined",
             "-fno-sanitize-recover=undefined", "-I", ROOT, "-I", ROOT / "libclient"]
    for compiler in compilers:
        program = run.dir / f"user-{compiler}"
        subprocess.run([compiler, *words, "-o", program, ROOT / "tests" / "support" / "cxx_user.cpp", f"-L{BUILD}/lib", "-lholdfast",
                        "-pthread"], check=True)
        for name in re.findall(r'^one\("[^"]*", "(\w+)"\)$', pathlib.Path(__file__).read_text(), re.M):
            passes(case(run, agent, name, program, LD_LIBRARY_PATH=str(BUILD / "lib")))


if __name__ == "__main__":
    main()
