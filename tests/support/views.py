"""What the readers show, in the form that scenarios ask for."""
from rig import wait_until


def node_rows(run, agent=None):
    """The nodes as `nodes --json` shows them: {id: row}."""
    result = run.holdfast("nodes", "--json", agent=agent)
    assert result.rc == 0, result
    return {row["id"]: row for row in result.json["nodes"]}


def wait_node(run, node_id, agent=None, timeout_s=10.0, **wanted):
    """The node's row once it shows what is wanted: state="down", refusal="replica"; a tuple is any of these."""
    last = {}

    def shows():
        last.update(node_rows(run, agent)[node_id])
        return all(last[key] in (value if isinstance(value, tuple) else (value,)) for key, value in wanted.items())

    try:
        wait_until(shows, timeout_s)
    except AssertionError:
        raise AssertionError(f"{node_id} never showed {wanted}: {last}") from None
    return last


def counters(run, agent=None):
    """The counters as `status --json` shows them: {name: value}."""
    result = run.holdfast("status", "--json", agent=agent)
    assert result.rc == 0, result
    return result.json["counters"]
