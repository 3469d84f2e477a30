"""What a test left behind: every process of a test carries HOLDFAST_TEST_RUN=<run id> in its environment, and
agents' names, hence their shared-memory objects, begin with the tag of the run."""
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


def is_inside(pid, folder):
    try:
        return folder is not None and pathlib.Path(folder) in pathlib.Path(os.readlink(f"/proc/{pid}/cwd")).parents
    except OSError:
        return False


def processes(run_id, folder=None):
    """Living processes of this run and of the runs inside it, and what works in that folder, for redis-server writes over
    its environment to have a title: {pid: command line}."""
    wanted = f"{MARKER}={run_id}".encode()
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            with open(f"/proc/{entry}/environ", "rb") as file:
                values = file.read().split(b"\0")
            if not any(v == wanted or v.startswith(wanted + b".") for v in values) and not is_inside(entry, folder):
                continue
            with open(f"/proc/{entry}/stat") as file:
                state = file.read().rpartition(")")[2].split()[0]
            with open(f"/proc/{entry}/cmdline", "rb") as file:
                command = file.read().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            continue
        if state not in "ZX":
            found[int(entry)] = command
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


def remove(run_id, folder=None):
    """Ends and removes what find() names, but for files."""
    for pid in processes(run_id, folder):
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass
    for name in shared_memory(run_id):
        try:
            if os.path.isdir(name):
                shutil.rmtree(name, ignore_errors=True)
            else:
                os.unlink(name)
        except OSError:
            pass
