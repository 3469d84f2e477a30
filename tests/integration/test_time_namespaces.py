#!/usr/bin/env python3
"""Agents of one directory in different time namespaces, one after the other: CLOCK_BOOTTIME differs, so no time that the
one wrote means anything to the other."""
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from rig import BUILD, Process, boottime_ns, main, scenario, skip, wait_until  # noqa: E402

TTL_S = 5
FLEET = ("--ttl-max", f"{TTL_S}s")
DAY_S = 86_400


def elsewhere(run, offset_s=DAY_S, program=BUILD / "bin" / "holdfastd"):
    """A program that runs another one in a time namespace whose CLOCK_BOOTTIME is ahead."""
    shifted = ["unshare", "--time", "--boottime", str(offset_s)]
    if not pathlib.Path("/proc/self/ns/time").exists() or subprocess.run([*shifted, "true"], capture_output=True).returncode:
        skip("no time namespaces here")
    script = run.dir / f"elsewhere-{pathlib.Path(program).name}-{offset_s}"
    script.write_text(f'#!/bin/sh\nexec {" ".join(shifted)} {program} "$@"\n')
    script.chmod(0o755)
    return script


def start(run, first=False, **options):
    return run.agent("a", ttl=f"{TTL_S}s", options=FLEET, fresh=first, **options)


@scenario("the next agent is in another time namespace: it refuses until the leases there are over, and no key goes before",
          needs_root=True)
def a_lease_is_left(run):
    run.redis(3)
    program = elsewhere(run)
    agent = start(run, first=True)
    holder = run.holder()
    holder.acquire("job")
    began = boottime_ns()
    agent.kill()
    keys = [node.get("job") for node in run.nodes]
    other = Process(run, run.agent_argv("a", ttl=f"{TTL_S}s", fresh=False, options=FLEET, program=program), "other")
    assert other.wait() == 71, other.err
    assert "1 leases of an agent in another time namespace" in other.err and " s more" in other.err, other.err
    assert boottime_ns() - began > 0.5 * TTL_S * 1e9 or holder.held()
    assert [node.get("job") for node in run.nodes] == keys or not holder.held()
    wait_until(lambda: not holder.held(), 2 * TTL_S, "the lease's V passes")
    other = start(run, program=program)
    assert "another time namespace" in other.err, other.err
    result = run.holdfast("status")
    assert result.rc != 0 and "time namespace" in result.out + result.err
    other.stop()


@scenario("an agent comes back from another time namespace: it grants as soon as the nodes count for it", needs_root=True)
def back_from_the_future(run):
    run.redis(3)
    first = start(run, first=True, program=elsewhere(run))
    time.sleep(0.5)
    first.kill()
    start(run)
    holder = run.holder()
    began = time.monotonic()
    holder.acquire("job", 0, 6 * TTL_S * 1000)
    assert time.monotonic() - began < 3 * TTL_S, "as if the clocks of the nodes had been seen tomorrow"
    assert holder.held()
    holder.release()


@scenario("a drain stands in every time namespace of the boot", needs_root=True)
def drained(run):
    run.redis(3)
    agent = start(run, first=True)
    assert run.holdfast("drain").rc == 0
    agent.stop()
    assert "drained" in start(run, program=elsewhere(run)).err


if __name__ == "__main__":
    main()
