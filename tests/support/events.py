"""What `history --json` and `watch --json` tell, and what may not be in it. No exact times but the table's own."""
import collections
import json

from rig import wait_until

ENDS = ("lost", "released")
# At most once in a lease's life, whoever finds it again.
ONCE = ("granted", "losing", "job_stopped", "job_killed", "abandoned", "found_lost", *ENDS)


def parse(text):
    return [json.loads(line) for line in text.splitlines()]


def history(run, *args, agent=None):
    """The events of `history`, the oldest first."""
    result = run.holdfast("history", "--json", *args, agent=agent)
    assert result.rc == 0, result
    return parse(result.out)


def those(events, *words, **wanted):
    """The events with one of these words, and these members."""
    return [e for e in events if e["event"] in words and all(e.get(key) == value for key, value in wanted.items())]


def words_of(events):
    return [e["event"] for e in events]


def await_event(run, *words, timeout_s=10.0, agent=None, **wanted):
    """The one such event, once it is there."""
    wait_until(lambda: those(history(run, agent=agent), *words, **wanted), timeout_s, f"the event {words} {wanted}")
    found = those(history(run, agent=agent), *words, **wanted)
    assert len(found) == 1, found
    return found[0]


def faults(events):
    """What is told twice, out of order, or of a lease that is over."""
    found, lives, numbers = [], collections.defaultdict(list), set()
    for e in events:
        if e["event"] in ("watching", "overwritten"):
            continue
        if e["number"] in numbers:
            found.append(f"number {e['number']} twice")
        numbers.add(e["number"])
        if "generation" in e:
            lives[e["slot"], e["generation"], e["fence"]].append(e)
    for life in lives.values():
        found += faults_of_life(life)
    return found + faults_of_nodes(events)


def faults_of_nodes(events):
    """What begins must end before it begins again, but for an agent's start, which begins anew."""
    found, up, refused, unwritable, quarantined, run_ids = [], {}, {}, {}, collections.defaultdict(set), set()
    for e in events:
        word, node = e["event"], e.get("node")
        if word == "agent_started":
            up, refused, unwritable = {}, {}, {}
        elif word in ("node_up", "node_down"):
            if up.get(node) == word:
                found.append(f"{node}: {word} twice")
            up[node] = word
        elif word in ("node_refused", "node_accepted"):
            if refused.get(node) == (word, e["reason"]):
                found.append(f"{node}: {word} twice")
            refused[node] = word, e["reason"]
        elif word in ("node_unwritable", "node_writable"):
            if unwritable.get(node) == (word, e["reason"]):
                found.append(f"{node}: {word} twice")
            unwritable[node] = word, e["reason"]
        elif word == "quarantine":
            reasons = set(e["quarantine_reasons"])
            if quarantined[node] and reasons <= quarantined[node]:
                found.append(f"{node}: quarantined twice for {reasons}")
            quarantined[node] = reasons
        elif word == "quarantine_over":
            if not quarantined[node]:
                found.append(f"{node}: the end of no quarantine")
            quarantined[node] = set()
        elif word == "node_restarted":
            if (node, e["text"]) in run_ids:
                found.append(f"{node}: restarted twice as {e['text']}")
            run_ids.add((node, e["text"]))
    return found


def unended(events):
    """Leases that began and have no end yet, by name."""
    lives = {}
    for e in events:
        if "generation" in e:
            key = e["slot"], e["generation"], e["fence"]
            lives[key] = None if e["event"] in ENDS else lives.get(key, e["name"])
    return [name for name in lives.values() if name]


def faults_of_life(life):
    found, void = [], set()
    words = words_of(life)
    name = life[0]["name"]
    for word in ONCE:
        if words.count(word) > 1:
            found.append(f"{name}: {words.count(word)} times {word}")
    if sum(word in ENDS for word in words) > 1:
        found.append(f"{name}: two ends: {words}")
    over = [i for i, word in enumerate(words) if word in ENDS]
    # What the nodes answer to a release comes after it.
    behind = ("job_stopped", "job_killed") + (("found_lost",) if over and words[over[0]] == "released" else ())
    if over and any(word not in behind for word in words[over[0] + 1:]):
        found.append(f"{name}: something after the end: {words}")
    for e in life:
        if e["event"] == "vote_void":
            if e["node"] in void:
                found.append(f"{name}: the vote of {e['node']} void twice")
            void.add(e["node"])
        elif e["event"] in ("vote", "healed"):
            void.discard(e["node"])
    return found
