"""P4 from what MONITOR showed on each node: no token is set or extended after its lease ended.

A node is told tokens by the agents' scripts: acquire and heal set one, renew extends, release deletes. A command may still
be on its way when the lease ends, or wait in a stopped node, so what counts is what it does there:

  - a key is set at most until the command's deadline (T/15, at least 50 ms) after the end, and
  - after the last release of the token it is neither set nor extended, on any node.
"""
import re
import typing

LINE = re.compile(r'^(\d+\.\d+) \[\d+ ([^\]]*)\] "([A-Za-z]+)"((?: "(?:[^"\\]|\\.)*")*)')
WORD = re.compile(r'"((?:[^"\\]|\\.)*)"')
TOKEN = re.compile(r"^[0-9a-f]{40}$")
SEEN = ('"SET"', '"GET"', '"PEXPIRE"', '"EVAL')


class Told(typing.NamedTuple):
    """What a node was told of a token: take (acquire or heal), raise, renew, release; or did then: set, extend."""
    at_s: float  # the node's wall clock
    what: str
    token: str
    key: str
    fence: int   # of take and raise, the node part; else 0


def parse(text):
    """What a node was told and did, in its order. MONITOR shows a script before what the script does."""
    found, tokens, tried = [], {}, None
    for line in text.splitlines():
        match = any(word in line for word in SEEN) and LINE.match(line)
        if not match:
            continue
        at_s, source, command, words = float(match[1]), match[2], match[3].upper(), WORD.findall(match[4])
        if command.startswith("EVAL"):
            of_it = of_script(at_s, words)
            found += of_it
            # A release makes a key that was only promised any more for a moment, and deletes it: so those who watch it hear.
            tokens, tried = {told.key: told.token for told in of_it if told.what != "release"}, None
        elif source == "lua" and words[0] in tokens:
            if command == "SET":
                found.append(Told(at_s, "set", words[1], words[0], 0))
                tried = words[0]
            elif command == "GET" and tried == words[0]:
                found.pop()  # it was not set: SET NX, and the script looks what is in the way
                tried = None
            elif command == "PEXPIRE":
                found.append(Told(at_s, "extend", tokens[words[0]], words[0], 0))
    return found


def of_script(at_s, words):
    count = int(words[1])
    keys, args = words[2:2 + count], words[2 + count:]
    if not args or not TOKEN.match(args[0]):
        return []  # the sentinel's
    if count == 3 and len(args) == 7:
        return [Told(at_s, "take", args[0], keys[1], int(args[4]))]
    if count == 3 and len(args) == 4 and not TOKEN.match(args[1]):
        return [Told(at_s, "raise", args[0], keys[1], int(args[1]))]
    if len(args) > count - 1:  # tokens, whether they are tracked, their TTLs
        return [Told(at_s, "renew", args[i], key, 0) for i, key in enumerate(keys[1:])]
    return [Told(at_s, "release", args[i], key, 0) for i, key in enumerate(keys[1:])]


def fences_of(logs):
    """{(key, node part of a fence): token} of all nodes' logs."""
    found = {}
    for told in (told for log in logs for told in log):
        if told.what in ("take", "raise"):
            found[told.key, told.fence] = told.token
    return found


def faults(logs, ends, ttl_s, slack_s=0.15):
    """`logs`: {node: its log}; `ends`: {(key, node part of a fence): wall time in s at which the lease had ended}."""
    complaints = []
    tokens = fences_of(logs.values())
    ended = {tokens[lease]: at_s for lease, at_s in ends.items() if lease in tokens}
    for node, log in logs.items():
        last = {}
        for told in log:
            end_s = ended.get(told.token)
            if end_s is None:
                continue
            if told.what == "set" and told.at_s > end_s + max(ttl_s / 15, 0.05) + slack_s:
                complaints.append(f"{node}: a token of {told.key} was set {told.at_s - end_s:.3f} s after its end")
            if told.what in ("set", "extend", "release"):
                last[told.token] = told
        complaints += [f"{node}: the last that {told.key} saw of a token is {told.what}, "
                       f"{told.at_s - ended[token]:+.3f} s from its end"
                       for token, told in last.items()
                       if told.what != "release" and told.at_s > ended[token] + slack_s]
    return complaints
