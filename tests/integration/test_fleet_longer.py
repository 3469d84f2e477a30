#!/usr/bin/env python3
"""ttl_max was raised while a host slept, or before one that nobody told: nodes that forgot are counted by the leases there may be now."""
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from changing import host, votes  # noqa: E402
from rig import main, scenario  # noqa: E402

NEW_S = 10


def never_both(run, other):
    """a holds a lease of the new length without its agent, and a majority forgets. A third host gives the nodes the record again; the
    other one waits until the lease is over."""
    a = run.agents[0]
    result = run.holdfast("fleet", "ttl-max", f"{NEW_S}s", agent=a, timeout_s=90)
    assert result.rc == 0, result
    votes(run, agent=a)
    holder = run.holder(a)
    holder.acquire("job", NEW_S * 1000)
    a.kill()
    for node in run.nodes[1:]:
        node.restart()
    emptied = time.monotonic()
    b = other()
    while run.holdfast("run", "-n", "job", "true", agent=b).rc != 0:
        assert time.monotonic() < emptied + 4 * NEW_S, b.err
        time.sleep(0.1)
    assert not holder.held(), f"two holders {time.monotonic() - emptied:.1f} s after n2 and n3 forgot:\n{b.err}"


@scenario("a host whose agent was stopped while ttl_max was raised counts emptied nodes by the new one", sanitizers=False)
def asleep(run):
    run.redis(3)
    a, b, c = host(run, "a"), host(run, "b"), host(run, "c")
    for agent in (a, b, c):
        votes(run, agent=agent)
    b.sigstop()

    def wake():
        b.sigcont()
        return b

    never_both(run, wake)


@scenario("a host that has only its old file learns of the new ttl_max when a majority has it again, and counts the emptied nodes by it", sanitizers=False)
def old_file(run):
    run.redis(3)
    votes(run, agent=host(run, "a"))
    votes(run, agent=host(run, "c"))
    never_both(run, lambda: host(run, "b", fresh=False))


if __name__ == "__main__":
    main()
