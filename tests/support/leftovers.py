"""What a test left behind: every process of a test carries HOLDFAST_TEST_RUN=<run id> in its environment, and
agents' names, hence their shared-memory objects, begin with the tag of the run."""
import contextlib
import hashlib
import os
import pathlib
import shutil
import signal
import time

MARKER = "HOLDFAST_TEST_RUN"
TAG = "HOLDFAST_TEST_TAG"  # "-" and tag() of that, for names that the rig does not give (scratch.h, tools/bench)
SHM = pathlib.Path("/dev/shm")


def tag(run_id):
    """A short name that no other run has; that of a run inside a run begins with the outer one's."""
    outer, _, inner = run_id.partition(".")
    return "t" + hashlib.sha1(outer.encode()).hexdigest()[:10] + (f"-{inner}" if inner else "")


def marks(run_id):
    """What the environment of every process of the run carries."""
    return {MARKER: run_id, TAG: f"-{tag(run_id)}"}


def read_small(path):
    """What pathlib and buffers cost is most of a look at every process of the machine."""
    fd = os.open(path, os.O_RDONLY)
    try:
        return os.read(fd, 1 << 16)
    finally:
        os.close(fd)


def is_inside(pid, folder):
    return folder is not None and os.readlink(f"/proc/{pid}/cwd").startswith(f"{folder}/")


def processes(run_id, folder=None):
    """Living processes of this run and of the runs inside it, and what works in that folder, for redis-server writes over
    its environment to have a title: {pid: command line}."""
    wanted = f"\0{MARKER}={run_id}".encode()
    inner, itself = wanted + b".", str(os.getpid())
    wanted += b"\0"
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or entry == itself:
            continue
        with contextlib.suppress(OSError):
            values = b"\0" + read_small(f"/proc/{entry}/environ") + b"\0"
            if wanted not in values and inner not in values and not is_inside(entry, folder):
                continue
            if read_small(f"/proc/{entry}/stat").rpartition(b")")[2].split()[0] not in b"ZX":
                found[int(entry)] = read_small(f"/proc/{entry}/cmdline").replace(b"\0", b" ").decode(errors="replace").strip()
    return found


def shared_memory(run_id):
    return sorted(str(path) for path in SHM.glob(f"holdfast*{tag(run_id)}*"))


def find(run_id, folder, grace_s=2.0):
    """Lines that name what is left; processes get a moment to end."""
    deadline = time.monotonic() + grace_s
    while True:
        alive = processes(run_id, folder)
        objects = shared_memory(run_id)
        if not (alive or objects) or time.monotonic() > deadline:
            break
        time.sleep(0.05)
    left = [f"process {pid}: {command}" for pid, command in alive.items()]
    left += [f"shared memory {name}" for name in objects]
    left += [f"file {path}" for path in sorted(pathlib.Path(folder).rglob("*"))]
    return left


def remove(run_id, folder=None, pids=None):
    """Ends and removes what find() names, but for files; `pids` where they have been looked for."""
    for pid in processes(run_id, folder) if pids is None else pids:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    for name in shared_memory(run_id):
        try:
            if os.path.isdir(name):
                shutil.rmtree(name, ignore_errors=True)
            else:
                os.unlink(name)
        except OSError:
            pass
