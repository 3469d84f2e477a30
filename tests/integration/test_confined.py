#!/usr/bin/env python3
"""The agent gives up what its run does not need, before its first thread starts, also outside a unit of systemd."""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from rig import BUILD, OTHER_UID, main, scenario, wait_until  # noqa: E402

THREADS = {"holdfastd", "hf-broker", "hf-renewal"}
# The error of each: no filter, no Landlock and no capability gives it otherwise.
FORBIDDEN = {"process": "ENOSYS", "program": "ENOSYS", "code": "ENOSYS", "write": "EACCES", "trace": "ENOSYS", "signal": "ENOSYS",
             "memory": "ENOSYS", "namespace": "ENOSYS", "packets": "ENOSYS"}
CHOWN, DAC_READ_SEARCH, IPC_LOCK, SYS_NICE = 1 << 0, 1 << 2, 1 << 14, 1 << 23


def status(task):
    return dict(re.findall(r"(?m)^(\w+):\s+(.*)$", (task / "status").read_text()))


def tasks(agent):
    found = {status(task)["Name"]: status(task) for task in pathlib.Path(f"/proc/{agent.pid}/task").iterdir()}
    assert THREADS <= set(found), found
    return found.values()


@scenario("each thread fails to do what no run of an agent needs, and locks go on", sanitizers=False)
def forbidden(run):
    run.redis(3)
    go, file = run.dir / "go", run.dir / "written"
    agent = run.agent(env={"LD_PRELOAD": BUILD / "tests" / "forbidden.so", "FORBIDDEN_GO": go, "FORBIDDEN_FILE": file})
    holder = run.holder()
    holder.acquire("job")
    go.touch()
    tried = {(thread, call) for thread in THREADS for call in FORBIDDEN}

    def seen():
        return {(thread, call): outcome for thread, call, outcome in re.findall(r"(?m)^forbidden (\S+) (\w+): (\w+)$", agent.err)}

    wait_until(lambda: tried <= set(seen()), what="each thread has tried")
    assert {key: seen()[key] for key in tried} == {(thread, call): FORBIDDEN[call] for thread, call in tried}
    assert not file.exists()
    assert holder.held()
    holder.release()


@scenario("no thread of an ordinary user's agent has a capability, and none gains privileges", needs_root=True)
def ordinary(run):
    run.redis(3)
    run.runtime_dir.chmod(0o777)
    for task in tasks(run.agent(uid=OTHER_UID)):
        assert (task["NoNewPrivs"], int(task["CapPrm"], 16), int(task["CapEff"], 16)) == ("1", 0, 0), task


@scenario("an agent of root keeps the capabilities that its settings ask for, and those of a reload", needs_root=True)
def of_root(run):
    run.redis(3)
    for label, options, more in (("plain", (), 0), ("real", ("--lock-memory", "--renewal-priority", "10"), IPC_LOCK | SYS_NICE)):
        for task in tasks(run.agent(label, options=options)):
            assert task["NoNewPrivs"] == "1", task
            assert int(task["CapEff"], 16) == int(task["CapPrm"], 16) == CHOWN | DAC_READ_SEARCH | more, task


if __name__ == "__main__":
    main()
