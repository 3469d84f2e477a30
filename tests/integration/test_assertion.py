#!/usr/bin/env python3
"""An agent whose assertion fails: it ends and says why, its leases go on, and everybody is told until an agent ends in order."""
import pathlib
import re
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from rig import BUILD, main, scenario, wait_until  # noqa: E402

WORDS = r"clock_now:\d+: rc == 0 \(clock_gettime: -1, errno 22\); lock \S+, node \S+, (main|broker|renewal) thread"


def told(run):
    """What `agents`, `status` and their JSON tell of the last end; they agree."""
    agents, status = run.holdfast("agents"), run.holdfast("status")
    seen = run.holdfast("agents", "--json").json["agents"][0]["failed_assertion"]
    assert run.holdfast("status", "--json").json["agent"]["failed_assertion"] == seen, seen
    for shown in (" ".join(result.out.split()) for result in (agents, status, run.holdfast("doctor"))):
        assert bool(re.search(rf"last ended by a failed assertion \S+ ago \(pid \d+\): {WORDS}", shown)) == bool(seen), shown
    return seen


@scenario("an assertion fails: the agent ends with its reason in the log, agents, status and doctor; the next one keeps the lease",
          sanitizers=False)
def assertion_fails(run):
    run.redis(3)
    broken = run.dir / "broken"
    agent = run.agent(ttl="20s", env={"LD_PRELOAD": BUILD / "tests" / "failingclock.so", "FAILINGCLOCK_FILE": broken})
    holder = run.holder()
    holder.acquire("job")
    assert told(run) is None
    broken.touch()
    assert agent.wait(20) == -signal.SIGABRT, agent.err
    assert len(re.findall("assertion failed", agent.err)) == 1, agent.err
    assert re.search(rf"error: assertion failed in {WORDS}; the agent ends, .*: start it again, and report", agent.err), agent.err
    assert run.holdfast("agents").rc == run.holdfast("status").rc == 3
    seen = told(run)
    assert seen["pid"] == agent.pid and re.fullmatch(WORDS, seen["text"]), seen
    after = run.agent(ttl="20s", fresh=False)
    assert re.search(rf"warning: the agent before this one \(pid {agent.pid}\) ended by a failed assertion: {WORDS}", after.err), after.err
    wait_until(lambda: run.holdfast("status").rc == 0, what="the next agent is well")
    assert holder.held() and told(run) == seen
    after.stop()
    run.agent(ttl="20s", fresh=False)
    assert told(run) is None and holder.held()


if __name__ == "__main__":
    main()
