"""Fleets that an operator changes: what every scenario of them needs."""
import re

from rig import Redis, wait_until

TTL_S = 4  # also the fleet's longest: it settles after 5.1 s
USAGE, UNAVAILABLE, NOT_NOW, DENIED, REFUSED = 64, 69, 75, 77, 78


def host(run, label="a", options=(), **more):
    return run.agent(label, ttl=f"{TTL_S}s", options=["--ttl-max", f"{TTL_S}s", *options], **more)


def fleet_of(run, count=3, options=(), **more):
    run.redis(count, **more)
    return host(run, options=options)


def server(run, name, **options):
    """One that is in nobody's list yet."""
    return Redis(run, name, **options).start()


def change(run, *words, **options):
    return run.holdfast("fleet", *words, **options)


def refused(run, *words, says, code=REFUSED, silent=None, **options):
    """Nothing changes, and all of that is said. `silent`: a node that is stopped."""
    asked = [node for node in run.nodes if node.process.running and node is not silent]
    before = [node.record for node in asked]
    result = change(run, *words, **options)
    assert result.rc == code, result
    assert result.err.startswith("holdfast fleet: refused, and nothing changes: "), result
    for text in [says] if isinstance(says, str) else says:
        assert text in result.err, (text, result)
    assert [node.record for node in asked] == before, "the record has changed"
    return result


def votes(run, count=3, agent=None):
    """All nodes vote: a change needs those that stay. The agent may be about to start again."""
    def they_do():
        shown = run.holdfast("nodes", "--json", agent=agent)
        return shown.rc == 0 and sum(row["votes"] for row in shown.json["nodes"]) == count

    wait_until(they_do, 15, f"{count} nodes vote")


def settled(run, version_is):
    """Whether the agent goes by that version, as settled."""
    shown = run.holdfast("fleet", "--json")
    record = shown.out and shown.json["record"]
    return bool(record) and record["version"] == version_is and record["state"] == "complete" and record["settles_ms"] is None


def version(node):
    match = re.search(r"(?m)^version (\d+)$", node.record or "")
    return match and int(match.group(1))


def done(result, version_is=2):
    assert result.rc == 0, result
    assert f"version {version_is} is complete and settled" in result.out, result
    return result


def grants_and_holds(run, *agents):
    for i, agent in enumerate(agents):
        assert run.holdfast("run", "-n", f"after{i}", "true", agent=agent).rc == 0
