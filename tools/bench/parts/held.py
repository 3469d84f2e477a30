"""Leases that some processes hold, and what it costs an agent and its nodes to renew them. For the parts."""
import contextlib
import json
import time

from fleet import cpu_of, result_of


@contextlib.contextmanager
def holding(fleet, prefix, leases, processes, lines):
    """While `processes` hold so many leases; says how they were taken, and in the end whether all were held throughout."""
    each = leases // processes
    holders = [fleet.begin("hold", fleet.names[0], prefix, i * each, each) for i in range(processes)]
    try:
        for holder in holders:
            lines.say(json.loads(holder.stdout.readline()))
        yield
        for holder in holders:
            result_of(holder, lines=lines)
    finally:
        for holder in holders:
            holder.stdin.close()
            holder.wait()


def renewals(fleet, leases, ttl_s, sleep):
    """What was renewed while `sleep()` took its time, and what that cost: a row."""
    node_pids = [process.pid for process in fleet.processes if process not in fleet.agents]
    agent = fleet.agents[0].pid
    start, hits, agent_s, nodes_s = time.monotonic(), fleet.calls("pexpire"), cpu_of(agent), [cpu_of(pid) for pid in node_pids]
    before = fleet.counters()
    sleep()
    after = fleet.counters()
    hits = [b - a for a, b in zip(hits, fleet.calls("pexpire"))]
    seconds = time.monotonic() - start
    asked = leases * seconds / (ttl_s / 3)
    agent_s, nodes_s = cpu_of(agent) - agent_s, [cpu_of(pid) - s for pid, s in zip(node_pids, nodes_s)]
    per_node = max(1, sum(hits)) / len(hits)
    return {"bench": "renewals", "leases": leases, "ttl_s": ttl_s, "seconds": round(seconds, 2), "hits": hits, "hits_asked": round(asked),
            "hits_share_min": min(hits) / asked, "agent_cpu_us": agent_s / per_node * 1e6,
            "node_cpu_us": sum(nodes_s) / len(hits) / per_node * 1e6, "agent_cpu_percent": agent_s / seconds * 100,
            "node_cpu_percent": sum(nodes_s) / len(nodes_s) / seconds * 100,
            "keys_per_call": (after["renewed"] - before["renewed"]) / max(1, after["renew_calls"] - before["renew_calls"]),
            "lag_max_ms": after["renew_lag_max_ns"] / 1e6,
            "overdue_max_ms": after["renew_overdue_max_ns"] / 1e6, "turn_max_ms": after["renewal_turn_max_ns"] / 1e6,
            "losses": after["losses"] - before["losses"]}
