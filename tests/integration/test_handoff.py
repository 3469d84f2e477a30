#!/usr/bin/env python3
"""A lock that goes from process to process of one host, without a round on the nodes."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from history import Hold, fence_faults, overlaps  # noqa: E402
from rig import main, scenario  # noqa: E402
from views import counters  # noqa: E402

IN_A_ROW = 16  # agent/core/handoff.h


def holds_of(holder):
    """The holds that `cycle` printed; the lines of others stay."""
    holder.answer()
    rows = [line.split() for line in holder.more if line.startswith("hold ")]
    return [Hold(holder.pid, int(fence), int(first), int(last)) for _, first, last, fence, _ in rows]


def chains(holds):
    """The hand-offs of each token, in the order of the fences: [[0, 1, 2], [0], ...]."""
    tokens = {}
    for hold in sorted(holds, key=lambda hold: hold.fence):
        tokens.setdefault(hold.fence >> 16, []).append(hold.fence & 0xffff)
    return list(tokens.values())


@scenario("four processes of one host hand a lock on: no two hold it at once, fences rise, at most 16 in a row")
def from_hand_to_hand(run):
    run.redis(3)
    agent = run.agent("a")
    holders = [run.holder(label=f"holder{i}") for i in range(4)]
    for holder in holders:
        holder.send("cycle", 100, "lock", 0, 20000, 500)
    holds = [hold for holder in holders for hold in holds_of(holder)]
    assert len(holds) == 400
    assert not overlaps(holds) and not fence_faults(holds)
    rows = chains(holds)
    assert all(row == list(range(len(row))) for row in rows), rows
    assert max(len(row) for row in rows) <= 1 + IN_A_ROW
    seen = counters(run, agent)
    print("#", seen["handoffs"], "hand-offs", len(rows), "tokens")
    assert seen["handoffs"] == len(holds) - len(rows) >= 200, seen
    assert seen["grants"] == seen["releases"] == 400
    run.keys_gone("lock")


if __name__ == "__main__":
    main()
