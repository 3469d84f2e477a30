#!/usr/bin/env python3
"""lock_memory and renewal_priority: what the kernel says of an agent that has them, and what one says that may not."""
import os
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from rig import OTHER_UID, main, scenario  # noqa: E402

FIFO = 1
OPTIONS = ("--lock-memory", "--renewal-priority", "10")


def threads(pid):
    return {(task / "comm").read_text().strip(): int(task.name) for task in pathlib.Path(f"/proc/{pid}/task").iterdir()}


def locked_kib(pid):
    return int(re.search(r"(?m)^VmLck:\s+(\d+) kB", pathlib.Path(f"/proc/{pid}/status").read_text()).group(1))


@scenario("memory is locked, and the renewal thread alone goes before others", needs_root=True, sanitizers=False)
def with_the_right(run):
    run.redis(3)
    agent = run.agent(options=OPTIONS)
    found = threads(agent.pid)
    policy = {name: (os.sched_getscheduler(tid), os.sched_getparam(tid).sched_priority) for name, tid in found.items()}
    assert policy.pop("hf-renewal") == (FIFO, 10), policy
    assert all(other == (os.SCHED_OTHER, 0) for other in policy.values()), policy
    assert locked_kib(agent.pid) > locked_kib(run.agent("plain").pid) + 1024  # that one's journal is locked
    holder = run.holder()
    holder.acquire("job")
    assert holder.held()
    holder.release()


@scenario("who may not says what to set, and goes on without it", needs_root=True)
def without_the_right(run):
    run.redis(3)
    run.runtime_dir.chmod(0o777)
    agent = run.agent(options=OPTIONS, uid=OTHER_UID)
    assert re.search(r"warning: set LimitMEMLOCK=infinity in the unit, or ulimit -l unlimited, for lock_memory: the limit is \d+ KiB",
                     agent.err), agent.err
    assert re.search(r"warning: set LimitRTPRIO=10 in the unit .* or ulimit -r 10, for renewal_priority: ", agent.err), agent.err
    assert {os.sched_getscheduler(tid) for tid in threads(agent.pid).values()} == {os.SCHED_OTHER}


@scenario("without the options no thread goes before others")
def by_default(run):
    run.redis(3)
    agent = run.agent()
    assert {os.sched_getscheduler(tid) for tid in threads(agent.pid).values()} == {os.SCHED_OTHER}


if __name__ == "__main__":
    main()
