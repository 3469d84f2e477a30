"""Reads metrics in the text exposition format 0.0.4, and says what promtool or a reader would find wrong with them."""
import math
import re

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"(,|$)')
SAMPLE = re.compile(rf"({NAME})(?:\{{(.*)\}})? (\S+)")
KINDS = ("counter", "gauge", "histogram")
NO_BASE_UNIT = re.compile(r"_(ns|us|ms|nanoseconds|microseconds|milliseconds|minutes|hours|days|percent|kib|mib)(_|$)")


class Bad(AssertionError):
    pass


def need(condition, *what):
    if not condition:
        raise Bad(*what)


def number(text):
    need(re.fullmatch(r"[+-]?(\d+(\.\d*)?([eE][+-]?\d+)?|Inf)|NaN", text), "no number", text)
    return float(text)


def labels_of(text):
    labels, at = {}, 0
    while text and at < len(text):
        found = LABEL.match(text, at)
        need(found and found[1] not in labels, "bad labels", text)
        labels[found[1]] = re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], found[2])
        at = found.end()
    need(not text or not text.endswith(","), "bad labels", text)
    return labels


class Family:
    def __init__(self, name, text):
        self.name, self.help, self.kind, self.samples = name, text, None, []

    def takes(self, name):
        return name == self.name or self.kind == "histogram" and name in [
            self.name + suffix for suffix in ("_bucket", "_sum", "_count")]


def check_histogram(family):
    series = {}
    for name, labels, value in family.samples:
        rest = tuple(sorted(pair for pair in labels.items() if pair[0] != "le"))
        row = series.setdefault(rest, {"buckets": []})
        part = name.removeprefix(family.name)
        need(part in ("_bucket", "_sum", "_count"), "no part of a histogram", name)
        if part == "_bucket":
            need("le" in labels, "a bucket without le", name)
            row["buckets"].append((number(labels["le"]), value))
        else:
            row[part] = value
    for row in series.values():
        bounds = [bound for bound, _ in row["buckets"]]
        counts = [count for _, count in row["buckets"]]
        need(bounds == sorted(set(bounds)) and bounds[-1] == math.inf, "le does not rise to +Inf", family.name)
        need(counts == sorted(counts), "buckets are not cumulative", family.name)
        need(row.get("_count") == counts[-1] and "_sum" in row, "count is not the last bucket", family.name)


def check_family(family):
    need(family.kind, "no TYPE", family.name)
    need(family.help.strip(), "no HELP", family.name)
    need((family.kind == "counter") == family.name.endswith("_total"), "_total is for counters", family.name)
    need(not NO_BASE_UNIT.search(family.name), "no base unit", family.name)
    need(not re.search(r"[A-Z]|_(bucket|count|sum|counter|gauge|histogram)$", family.name), "a bad name", family.name)
    if family.kind == "histogram":
        check_histogram(family)
    else:
        for _, _, value in family.samples:
            need(family.kind != "counter" or value >= 0, "a counter below 0", family.name)


def parse(text):
    """{name: Family}, after all checks; Bad says what is wrong."""
    need(text.endswith("\n"), "the last line has no end")
    families, current, seen = {}, None, set()
    for line in text.split("\n")[:-1]:
        if line.startswith("# HELP "):
            name, _, words = line.removeprefix("# HELP ").partition(" ")
            need(re.fullmatch(NAME, name) and name not in families, "HELP twice, or of a bad name", line)
            families[name] = current = Family(name, words)
        elif line.startswith("# TYPE "):
            name, _, kind = line.removeprefix("# TYPE ").partition(" ")
            need(current and name == current.name and not current.kind and not current.samples and kind in KINDS,
                 "TYPE out of place", line)
            current.kind = kind
        else:
            found = SAMPLE.fullmatch(line)
            need(found, "no sample", line)
            need(current and current.kind and current.takes(found[1]), "a sample that is not below its HELP and TYPE", line)
            labels = labels_of(found[2])
            key = (found[1], tuple(sorted(labels.items())))
            need(key not in seen, "a series twice", line)
            seen.add(key)
            current.samples.append((found[1], labels, number(found[3])))
    for family in families.values():
        check_family(family)
    return families


def values(families):
    """{(name, frozenset of label=value): value}"""
    return {(name, frozenset(labels.items())): value
            for family in families.values() for name, labels, value in family.samples}


BAD = {
    "the last line": "# HELP a b\n# TYPE a gauge\na 1",
    "no TYPE": "# HELP a b\n",
    "no HELP": "# HELP a \n# TYPE a gauge\n",
    "TYPE out of place": "# TYPE a gauge\na 1\n",
    "below its HELP": "# HELP a b\n# TYPE a gauge\nb 1\n",
    "a series twice": '# HELP a b\n# TYPE a gauge\na{x="1"} 1\na{x="1"} 2\n',
    "bad labels": '# HELP a b\n# TYPE a gauge\na{x="1\\z"} 1\n',
    "no number": "# HELP a b\n# TYPE a gauge\na one\n",
    "no sample": "# HELP a b\n# TYPE a gauge\na  1\n",
    "HELP twice": "# HELP a b\n# TYPE a gauge\na 1\n# HELP a b\n",
    "_total is for": "# HELP a b\n# TYPE a counter\na 1\n",
    "no base unit": "# HELP a_ms b\n# TYPE a_ms gauge\na_ms 1\n",
    "a counter below 0": "# HELP a_total b\n# TYPE a_total counter\na_total -1\n",
    "not cumulative": '# HELP a b\n# TYPE a histogram\na_bucket{le="1"} 2\na_bucket{le="+Inf"} 1\na_sum 1\na_count 1\n',
    "rise to +Inf": '# HELP a b\n# TYPE a histogram\na_bucket{le="1"} 2\na_sum 1\na_count 2\n',
    "not the last bucket": '# HELP a b\n# TYPE a histogram\na_bucket{le="+Inf"} 2\na_sum 1\na_count 1\n',
    "a bad name": "# HELP a_count b\n# TYPE a_count gauge\na_count 1\n",
}


def check_self():
    """It refuses what is bad, for its reason."""
    for reason, text in BAD.items():
        try:
            parse(text)
        except Bad as bad:
            assert reason in str(bad.args), (reason, bad.args)
        else:
            raise AssertionError(f"{reason!r} is not found in {text!r}")
    parse('# HELP a b\n# TYPE a gauge\na{x="1\\"\\\\\\n",y=""} -1.5e+07\n# HELP c_total d\n# TYPE c_total counter\nc_total 0\n')
