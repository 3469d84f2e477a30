#!/usr/bin/env python3
"""Net. The product builds with other compilers, and on a machine without the libraries of the tests."""
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from rig import ROOT, main, scenario, skip  # noqa: E402


def configure(run, name, *arguments, **env):
    """A build directory, and what cmake said."""
    done = subprocess.run(["cmake", "-S", ROOT, "-B", run.dir / name, "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", *arguments],
                          env={**os.environ, **env}, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return run.dir / name, done.stdout + done.stderr


def pkg_config_without(run, *missing):
    """A folder with all .pc files of this machine but those."""
    folder = run.dir / "pc"
    folder.mkdir()
    found = subprocess.run(["pkg-config", "--variable", "pc_path", "pkg-config"], capture_output=True, text=True, check=True)
    for source in found.stdout.strip().split(":"):
        for file in sorted(pathlib.Path(source).glob("*.pc")):
            if file.stem not in missing and not (folder / file.name).exists():
                (folder / file.name).symlink_to(file)
    return folder


def compile_only(folder, wanted):
    """Compiles those sources of a build directory for which `wanted` is true, without optimizing; returns what went wrong."""
    failures, count = [], 0
    for command in json.loads((folder / "compile_commands.json").read_text()):
        path = pathlib.Path(command["file"])
        if not wanted(path):
            continue
        count += 1
        argv = shlex.split(command["command"])
        del argv[argv.index("-o"):argv.index("-o") + 2]
        argv = [word for word in argv if not word.startswith("-D_FORTIFY_SOURCE")]
        done = subprocess.run([*argv, "-O0", "-Werror", "-fsyntax-only"], cwd=command["directory"], capture_output=True, text=True, timeout=60)
        if done.returncode:
            failures.append(done.stderr)
    assert count, "no such source"
    return failures


@scenario("without the libraries of the tests, cmake leaves the tests out and says so", sanitizers=False)
def no_cmocka(run):
    for missing in ("cmocka", "lua5.1"):
        folder, said = configure(run, missing, PKG_CONFIG_LIBDIR=str(pkg_config_without(run, missing)))
        assert "The tests are not built: cmocka or lua5.1 is missing; install" in said, said
        assert not (folder / "tests").exists()
        shutil.rmtree(run.dir / "pc")
    done = subprocess.run(["cmake", "-S", ROOT, "-B", run.dir / "on", "-DHOLDFAST_TESTS=ON"], capture_output=True, text=True,
                          env={**os.environ, "PKG_CONFIG_LIBDIR": str(pkg_config_without(run, "cmocka"))})
    assert done.returncode != 0, "tests that were asked for are left out in silence"


@scenario("clang for C and g++ for C++ build together", sanitizers=False)
def two_makes(run):
    if not shutil.which("clang") or not shutil.which("g++"):
        skip("clang or g++ is missing")
    folder, _ = configure(run, "build", "-DCMAKE_C_COMPILER=clang", "-DCMAKE_CXX_COMPILER=g++")
    failures = compile_only(folder, lambda path: path.suffix == ".cpp" and path.name in ("report.cpp", "header_cxx.cpp"))
    assert not failures, failures[0]
    commands = json.loads((folder / "compile_commands.json").read_text())
    assert all("-Werror=thread-safety" in command["command"] for command in commands if command["file"].endswith(".c"))


@scenario("each source with builtins of the compiler compiles with the oldest gcc that is supported", sanitizers=False)
def oldest_gcc(run):
    if not shutil.which("gcc-11"):
        skip("gcc-11 is missing")
    folder, _ = configure(run, "build", "-DCMAKE_C_COMPILER=gcc-11", "-DHOLDFAST_TESTS=OFF")
    subprocess.run(["cmake", "--build", folder, "--target", "hf_scripts_h"], check=True, capture_output=True, timeout=120)
    failures = compile_only(folder, lambda path: path.suffix == ".c" and "__builtin_" in path.read_text())
    assert not failures, failures[0]


if __name__ == "__main__":
    main()
