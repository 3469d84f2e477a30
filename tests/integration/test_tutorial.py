#!/usr/bin/env python3
"""docs/TUTORIAL.md, followed to the letter by a user on a machine of his own: namespaces without anything of this one's.

    tests/integration/test_tutorial.py --record    writes what the commands say now into the document
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from xml.etree import ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from rig import BUILD, ROOT, main, scenario, skip  # noqa: E402

TUTORIAL = ROOT / "docs" / "TUTORIAL.md"
# What is mounted and started ends with the namespaces. $1: the folder with programs and document, the rest: the command.
MACHINE = """
mount --make-rprivate /
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /run
mount --bind "$1/passwd" /etc/passwd
ip link set lo up
hostname laptop
mkdir -p /run/user/1000
chown 1000:1000 /run/user/1000
cd "$1/home"
exec setpriv --reuid 1000 --regid 1000 --clear-groups --inh-caps=-all env -i HOME="$1/home" USER=ada LC_ALL=C.UTF-8 XDG_RUNTIME_DIR=/run/user/1000 \\
    PATH="$1/bin:$PATH" ${HOLDFAST_TEST_RUN:+HOLDFAST_TEST_RUN="$HOLDFAST_TEST_RUN"} "${@:2}"
"""


def follow(folder, *options):
    """Runs tests/support/walkthrough.py as a user of a machine whose programs are those of the build."""
    for name in ("bin", "lib", "home"):
        (folder / name).mkdir()
    for program in ("holdfast", "holdfastd"):
        shutil.copy(BUILD / "bin" / program, folder / "bin")
    for library in (BUILD / "lib").glob("*.so*"):
        shutil.copy(library, folder / "lib")
    shutil.copy(ROOT / "tests" / "support" / "walkthrough.py", folder)
    shutil.copy(TUTORIAL, folder / "home")
    (folder / "passwd").write_text("root:x:0:0::/root:/bin/sh\nada:x:1000:1000::/:/bin/sh\n")
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() or path.parent.name == "bin" else 0o644)
        if folder / "home" in (path, *path.parents):
            os.chown(path, 1000, 1000)
    return subprocess.run(["unshare", "--mount", "--net", "--ipc", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc", "bash", "-ec",
                           MACHINE, "bash", folder, shutil.which("python3", path="/usr/bin:/bin") or sys.executable, folder / "walkthrough.py", *options,
                           folder / "home" / TUTORIAL.name], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=300)


@scenario("the tutorial's commands say what it shows, from the first lock to five hosts", needs_root=True, sanitizers=False)
def tutorial(run):
    if not shutil.which("redis-cli"):
        skip("redis-cli is not installed")
    folder = run.dir / "machine"
    folder.mkdir()
    result = follow(folder)
    assert result.returncode == 0, result.stdout + result.stderr
    assert int(re.search(r"(\d+) commands, 0 say", result.stdout)[1]) > 50, result.stdout
    assert [path.name for path in (folder / "home").iterdir()] == [TUTORIAL.name], "the tutorial leaves something behind"


@scenario("a walk notices what a document has wrong", needs_root=True, sanitizers=False)
def notices(run):
    sys.path.insert(0, str(ROOT / "tests" / "support"))
    from walkthrough import follow as walk
    good = "```\n$ echo one two; echo pid 12\none  two\npid 7\n$ cat <<'END'\nthree\nEND\nthree\n$ seq 9\n1\n...\n9\n$ false\n$ echo $?\n1\n```\n"
    assert not walk(good)[1]
    for old, new in (("one  two", "o...two"), ("pid 7", "..."), ("1\n...\n9", "...")):
        assert not walk(good.replace(old, new))[1], (old, new)
    for old, new in (("one  two", "one"), ("one  two", "one...three"), ("pid 7\n", ""), ("END\nthree", "END\nfour"), ("9\n$ false", "8\n$ false"), ("$?\n1", "$?\n0"), ("$ false\n", "$ false\nx\n")):
        assert len(walk(good.replace(old, new))[1]) == 1, (old, new)


@scenario("the tutorial's pictures are drawn from runs", sanitizers=False)
def pictures(run):
    folder = run.dir / "pictures"
    folder.mkdir()
    program = run.spawn(ROOT / "tools" / "capture-tutorial", folder, label="capture-tutorial", env={"HOLDFAST_BUILD": BUILD})
    assert program.wait(120) == 0, program.err
    for path in sorted(folder.iterdir()):
        kept = ROOT / "docs" / "pictures" / path.name
        new, old = (["".join(text.itertext()) for text in ElementTree.parse(svg).iter("{http://www.w3.org/2000/svg}text")] for svg in (path, kept))
        assert [words for words in old if not re.search(r"\d", words)] == [words for words in new if not re.search(r"\d", words)], path.name
        assert f"(pictures/{path.name})" in TUTORIAL.read_text(), path.name
    assert len(list(folder.iterdir())) == 3


def record():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        result = follow(folder, "--record")
        print(result.stdout + result.stderr, end="")
        if result.returncode == 0:
            TUTORIAL.write_text((folder / "home" / TUTORIAL.name).read_text())
        return result.returncode


if __name__ == "__main__":
    sys.exit(record() if sys.argv[1:] == ["--record"] else main())
