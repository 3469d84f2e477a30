"""An agent's directory that is a small file system, and one that others have filled."""
import contextlib
import errno
import shutil
import subprocess
import time


@contextlib.contextmanager
def little_room(run, label, size):
    """The agent's directory is a file system of that size; more options may follow it ("1m,nr_inodes=64")."""
    place = run.runtime_dir / f"{run.tag}-{label}"
    place.mkdir(mode=0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "none", place], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=True)
        shutil.rmtree(place, ignore_errors=True)


def fill(place):
    """Takes what is left there: each byte, and each inode."""
    try:
        while True:
            with open(place / f"fill-{time.monotonic_ns()}", "xb", buffering=0) as file, contextlib.suppress(OSError):
                while True:
                    file.write(bytes(4096))
    except OSError as e:
        assert e.errno == errno.ENOSPC, e
