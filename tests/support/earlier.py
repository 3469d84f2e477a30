"""Earlier builds of the product, made from the repository's history, for scenarios of two builds in one fleet.

    build = earlier.build(BEFORE_FLEET)     agent, command, and the programs of the scenarios with that library

A build is made once, in BUILD/earlier, and stays there: a commit never changes. A mutant's build uses that of the build it
is made from. Where the history does not have the commit the scenario is skipped.
"""
import fcntl
import os
import shutil
import subprocess
import typing

from rig import BUILD, ROOT, skip

# The last one whose agents do not know the fleet's record: the next one writes and reads it. It reloads, drains, and
# has the table 1.2.
BEFORE_FLEET = "f0e449fee354e8e67d6a6e0ae53ce46e7a87887e"
# The last one before reloads and drains: it has the table 1.1 and the wire 1.3.
BEFORE_RELOAD = "5cc91a3ed47501bdf5a857384529af8d8d350cde"

PLACE = next((folder.parent for folder in BUILD.parents if folder.name == "mutants"), BUILD) / "earlier"
PROGRAMS = ("holder", "contender")  # of tests/support
TARGETS = ("holdfastd", "holdfast", "holdfast_shared")


class Build(typing.NamedTuple):
    agent: os.PathLike
    command: os.PathLike
    holder: os.PathLike  # (!) these two with the library of that build, by its shared object
    contender: os.PathLike


def build(commit):
    """The build of that commit. Whoever comes while it is being made waits."""
    place = PLACE / commit[:12]
    PLACE.mkdir(exist_ok=True)
    with open(PLACE / f"{place.name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "done").exists():
            if not has(commit):
                skip(f"commit {commit[:12]}, the earlier build, is not in this clone")
            make(commit, place)
    programs = place / "bin"
    return Build(programs / "holdfastd", programs / "holdfast", programs / "holder", programs / "contender")


def has(commit):
    try:
        found = subprocess.run(["git", "-C", ROOT, "cat-file", "-e", f"{commit}^{{commit}}"], capture_output=True)
    except FileNotFoundError:
        return False
    return found.returncode == 0


def make(commit, place):
    """At a modest priority: tests run beside it."""
    shutil.rmtree(place, ignore_errors=True)
    source = place / "source"
    source.mkdir(parents=True)
    with open(place / "log", "wb") as log:
        def do(*words, **options):
            ended = subprocess.run(["nice", *words], stdin=options.pop("stdin", subprocess.DEVNULL), stdout=log, stderr=log,
                                   **options)
            assert ended.returncode == 0, f"{words}:\n{(place / 'log').read_text(errors='replace')[-4000:]}"

        with subprocess.Popen(["git", "-C", ROOT, "archive", commit], stdout=subprocess.PIPE) as archive:
            do("tar", "-x", "-C", source, stdin=archive.stdout)
        assert archive.returncode == 0, f"git archive ended with {archive.returncode}"
        do("cmake", "-S", source, "-B", place, "-G", "Ninja", "-DHOLDFAST_TESTS=OFF", "-DCMAKE_BUILD_TYPE=None",
           "-DCMAKE_C_FLAGS=-O1")
        do("ninja", "-C", place, *TARGETS)
        for name in PROGRAMS:
            do("cc", "-O1", "-D_GNU_SOURCE", f"-I{source}", "-o", place / "bin" / name,
               source / "tests" / "support" / f"{name}.c", f"-L{place / 'lib'}", "-lholdfast", place / "lib" / "libhf_shm.a",
               "-Wl,-rpath,$ORIGIN/../lib")
    (place / "done").touch()
