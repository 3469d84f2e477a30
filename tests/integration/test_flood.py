#!/usr/bin/env python3
"""The renewal thread's independence: eight clients flood the request rings while leases are renewed."""
import contextlib
import pathlib
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from rig import BUILD, SANITIZE, SLOW, boottime_ns, main, scenario  # noqa: E402
from views import counters  # noqa: E402

TTL_S = 3
LEASES = 50
FLOODERS = 8
FLOOD_S = 10
MS = 1_000_000


@contextlib.contextmanager
def flood(run):
    """Eight flooders; afterwards each has ended well, which is no client's due that was cut off."""
    crew = [run.spawn(BUILD / "tests" / "flooder", f"flood-{i}", label=f"flooder-{i}", stdin=subprocess.PIPE)
            for i in range(FLOODERS)]
    for flooder in crew:
        flooder.wait_out("ready")
    yield
    for flooder in crew:
        flooder.popen.stdin.close()
    for flooder in crew:
        assert flooder.wait() == 0, flooder.err


def good_clients_turns(client, seconds):
    """A good client's times of lock and unlock together, in ms."""
    taken, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        begin_ns = boottime_ns()
        client.acquire("good")
        client.release()
        taken.append((boottime_ns() - begin_ns) / MS)
        time.sleep(0.02)
    return sorted(taken)


def summary(taken):
    return f"{len(taken)} times, ms: half {statistics.median(taken):.1f}, most {taken[-1]:.1f}"


@scenario("eight clients flood the rings: 50 leases are renewed in time, and a good client is served")
def flooded(run):
    run.redis(3)
    run.agent(ttl=f"{TTL_S}s")
    holder, client = run.holder(label="holder"), run.holder(label="good")
    holder.cmd("many", LEASES, "kept-", TTL_S * 1000)
    quiet = good_clients_turns(client, 1)
    before = counters(run)
    with flood(run):
        flooded_turns = good_clients_turns(client, FLOOD_S)
        after = counters(run)
    requests = after["requests"] - before["requests"]
    lag_ms = after["renew_lag_max_ns"] / MS
    renewed = after["renewed"] - before["renewed"]
    print(f"# {requests / FLOOD_S:.0f} requests a second; renewal lag at most {lag_ms:.1f} ms; "
          f"lock and unlock: quiet {summary(quiet)}; flooded {summary(flooded_turns)}")

    assert requests >= 1000 * FLOOD_S / SLOW, f"{requests} requests are no flood"
    assert lag_ms < TTL_S * 1000 / 10 * (1 if not SANITIZE else 2), f"renewals were {lag_ms:.1f} ms late"
    rounds = FLOOD_S // (TTL_S / 3)
    assert renewed >= LEASES * 3 * rounds * 0.8, f"{renewed} keys renewed"
    assert after["losses"] == before["losses"] and after["client_violations"] == before["client_violations"]
    for i in range(LEASES):
        assert holder.held(i), f"lease {i} is lost"
    assert statistics.median(flooded_turns) < 500 * SLOW, summary(flooded_turns)
    assert flooded_turns[-1] < 3000 * SLOW, summary(flooded_turns)


if __name__ == "__main__":
    main()
