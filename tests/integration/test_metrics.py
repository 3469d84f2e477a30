#!/usr/bin/env python3
"""Contract. holdfast metrics, the same text from the agent's socket, the textfile mode, and the alerts and the dashboard
that are made of them.
"""
import json
import os
import pathlib
import re
import shutil
import stat
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import exposition  # noqa: E402
from rig import IS_ROOT, OTHER_UID, ROOT, SLOW, Skip, main, scenario, wait_until  # noqa: E402

RULES = ROOT / "packaging" / "prometheus" / "holdfast.rules.yml"
TESTS = ROOT / "packaging" / "prometheus" / "holdfast.rules.test.yml"
DASHBOARD = ROOT / "packaging" / "grafana" / "holdfast.json"
PICTURE = ROOT / "docs" / "pictures" / "dashboard.svg"
DOCUMENT = ROOT / "docs" / "METRICS.md"
TTL_S = 3
# They have a series only in some states.
SOMETIMES = {"holdfast_drained_since_timestamp_seconds", "holdfast_node_refused", "holdfast_node_quarantined",
             "holdfast_node_unwritable", "holdfast_validity_least_seconds", "holdfast_renewal_margin_min_ratio"}


def start(run, **options):
    return run.agent(ttl=f"{TTL_S}s", options=("--ttl-max", f"{TTL_S}s"), **options)


def promtool(*args, **options):
    program = os.environ.get("PROMTOOL") or shutil.which("promtool")
    if not program:
        raise Skip("promtool is not installed (Debian: prometheus)")
    return subprocess.run([program, *map(str, args)], capture_output=True, text=True, timeout=60, **options)


class Metrics:
    def __init__(self, text, agent=None):
        self.text = text
        self.families = exposition.parse(text)
        self.values = exposition.values(self.families)
        for family in self.families.values():
            assert family.name.startswith("holdfast_"), family.name
            for name, labels, _ in family.samples:
                assert "agent" in labels and (not agent or labels["agent"] == agent.name), (name, labels)
                assert ("node" in labels) == name.startswith("holdfast_node_"), (name, labels)

    def get(self, name, **labels):
        """The one series that has these labels; None: there is none."""
        found = [value for (series, pairs), value in self.values.items()
                 if series == f"holdfast_{name}" and set(labels.items()) <= pairs]
        assert len(found) <= 1, (name, labels, found)
        return found[0] if found else None

    def state(self):
        states = [dict(pairs)["state"] for (name, pairs), value in self.values.items()
                  if name == "holdfast_state" and value == 1]
        assert len(states) == 1, self.text
        return states[0]


def metrics(run, rc=0, agent=None, **options):
    result = run.holdfast("metrics", agent=agent, **options)
    assert result.rc == rc and (result.err == "") == (rc == 0), result
    return Metrics(result.out, agent or run.agents[0])


def lost(m):
    return sum(value for (name, _), value in m.values.items() if name == "holdfast_losses_total")


# --- what is shown ---------------------------------------------------------------------------------------


@scenario("the metrics of an agent that is well: clean and complete")
def well(run):
    exposition.check_self()
    run.redis(3)
    agent = start(run)
    holder = run.holder()
    holder.acquire("job", TTL_S * 1000)
    assert run.holdfast("run", "-n", "job", "true").rc == 75
    wait_until(lambda: (metrics(run).get("renewal_margin_seconds_count") or 0) >= 2, what="renewals are measured")
    m = metrics(run)
    assert m.get("up") == 1 and m.state() == "alive" and m.get("ready") == 1, m.text
    assert m.get("build_info", version=run.holdfast("status", "--json").json["agent"]["version"]) == 1
    assert abs(m.get("start_time_seconds") - time.time()) < 60 * SLOW and abs(m.get("metrics_timestamp_seconds") - time.time()) < 10
    assert m.get("start_time_seconds") == metrics(run).get("start_time_seconds")
    assert m.get("nodes") == 3 and m.get("quorum") == 2 and m.get("ttl_seconds") == TTL_S and m.get("ttl_max_seconds") == TTL_S
    assert m.get("leases_by_state", state="held") == 1 and m.get("leases") == 1 and m.get("grants_total") == 1
    assert 0 < m.get("validity_least_seconds") < TTL_S
    assert m.get("acquires_failed_total", reason="busy") == 1 and m.get("acquires_failed_total", reason="timeout") == 0
    assert m.get("acquire_duration_seconds_count") == m.get("wait_duration_seconds_count") == 1
    assert 0 < m.get("acquire_duration_seconds_sum") <= m.get("wait_duration_seconds_sum") < 5 * SLOW
    assert m.get("acquire_duration_max_seconds") >= m.get("acquire_duration_seconds_sum")
    assert m.get("renewal_lag_seconds_count") >= 2
    # A renewal moves V on between a third of T and two thirds before it comes.
    assert 0.3 < m.get("renewal_margin_min_ratio") < 1 or SLOW > 1, m.text
    average_s = m.get("renewal_margin_seconds_sum") / m.get("renewal_margin_seconds_count")
    assert TTL_S * m.get("renewal_margin_min_ratio") <= average_s * 1.001 < TTL_S, m.text
    assert m.get("fleet_version") >= 1 and m.get("fleet_complete") == 1 and m.get("fleet_settled") == 1
    assert m.get("fleet_differs") == 0 and m.get("fleet_foreign_nodes") == 0
    for node in run.nodes:
        assert m.get("node_state", node=node.id, state="up") == 1 and m.get("node_votes", node=node.id) == 1
        assert m.get("node_fleet_counts", node=node.id) == 1 and m.get("node_replies_total", node=node.id) > 0
        assert 0 < m.get("node_rtt_seconds", node=node.id) < 5 and 0 <= m.get("node_last_reply_age_seconds", node=node.id) < 10


@scenario("who waits longest is told, also while the agent hangs; a wait that is over is in the histogram")
def waits(run):
    run.redis(3)
    agent = start(run)
    holder = run.holder()
    lease = holder.acquire("job", TTL_S * 1000)
    assert metrics(run).get("waiter_oldest_seconds") == 0
    waiter = run.start_holdfast("run", "job", "true")
    wait_until(lambda: metrics(run).get("waiters") == 1, what="it waits")
    first = run.start_holdfast("run", "-w", "1", "job", "true")
    assert first.wait() == 75
    time.sleep(0.5)
    m = metrics(run)
    assert m.get("waiter_oldest_seconds") > 1 and m.get("acquires_failed_total", reason="timeout") == 1, m.text
    agent.sigstop()
    hung = metrics(run, rc=3)
    assert hung.get("waiter_oldest_seconds") > m.get("waiter_oldest_seconds")
    agent.sigcont()
    holder.release(lease[0] if isinstance(lease, (list, tuple)) else lease)
    assert waiter.wait() == 0
    m = metrics(run)
    assert m.get("waiter_oldest_seconds") == 0 and m.get("wait_duration_seconds_count") == 2, m.text
    assert m.get("wait_duration_max_seconds") > 1.4 and m.get("wait_duration_seconds_sum") > 1.4
    assert m.get("wait_duration_seconds_bucket", le="1.048576") == 1


@scenario("an agent that hangs or was killed is not up, and its age is told; exit codes as of the other readers", sanitizers=False)
def hangs(run):
    run.redis(3)
    agent = start(run)
    holder = run.holder()
    holder.acquire("job", TTL_S * 1000)
    agent.sigstop()
    time.sleep(1)
    m = metrics(run, rc=3)
    assert m.get("up") == 0 and m.state() == "hung" and m.get("ready") == 0
    for thread in ("main", "broker", "renewal"):
        assert 0.8 < m.get("heartbeat_age_seconds", thread=thread) < 20, m.text
    before = m.get("heartbeat_age_seconds", thread="main")
    assert m.get("leases_by_state", state="held") == 1, "it is in force until V"
    time.sleep(TTL_S)
    m = metrics(run, rc=3)
    assert m.get("heartbeat_age_seconds", thread="main") > before + TTL_S * 0.9
    assert m.get("leases_by_state", state="held") == 0 and m.get("validity_least_seconds") is None
    agent.sigcont()
    wait_until(lambda: run.holdfast("status").rc == 0, what="it goes on")
    wait_until(lambda: lost(metrics(run)) == 1, what="the loss is counted")
    holder.acquire("job2", TTL_S * 1000)
    agent.kill()
    m = metrics(run, rc=3)
    assert m.get("up") == 0 and m.state() == "dead" and m.get("grants_total") == 2, m.text
    assert run.holdfast("status").rc == 3


@scenario("without any agent: not up, and nothing else; exit code 69. A bad name, a bad option: 64")
def nobody(run):
    run.redis(3)
    agent = start(run)
    agent.stop()
    m = metrics(run, rc=3)
    assert m.get("up") == 0 and m.state() == "ended", m.text
    run.holdfast("doctor", "--clean")
    m = metrics(run, rc=69)
    assert m.get("up") == 0 and m.state() == "none" and len(m.families) == 3, m.text
    assert run.holdfast("metrics", "--agent", "/").rc == 64
    result = run.holdfast("metrics", "--agent", "no/../agent\n")
    assert result.rc != 0 and result.out == "", result
    assert run.holdfast("metrics", "--json").rc == 64 and run.holdfast("metrics", "name").rc == 64


@scenario("an agent that ended in order, with a lease that waits for the next one, is not up")
def ended(run):
    run.redis(3)
    agent = start(run)
    holder = run.holder()
    holder.acquire("job", TTL_S * 1000)
    agent.stop()
    m = metrics(run, rc=3)
    assert m.get("up") == 0 and m.state() == "ended"


@scenario("two of three nodes away, and a drain: not ready, and why; what is lost is counted by its reason", sanitizers=False)
def trouble(run):
    run.redis(3)
    start(run)
    holder = run.holder()
    holder.acquire("job", TTL_S * 1000)
    for node in run.nodes[:2]:
        node.kill()
    wait_until(lambda: metrics(run).get("losses_total", reason="quorum") == 1, 20, "it is lost")
    wait_until(lambda: metrics(run).get("node_state", node="n2", state="down") == 1, what="n2 is down")
    m = metrics(run)
    assert m.get("up") == 1 and m.get("ready") == 0 and m.get("node_votes", node="n1") == 0 and m.get("node_votes", node="n3") == 1
    assert m.get("drained") == 0 and m.get("drained_since_timestamp_seconds") is None
    assert run.holdfast("drain").rc == 0
    m = metrics(run)
    assert m.get("drained") == 1 and abs(m.get("drained_since_timestamp_seconds", uid=str(os.geteuid())) - time.time()) < 10
    assert run.holdfast("run", "-n", "other", "true").rc == 69
    assert metrics(run).get("acquires_failed_total", reason="drained") == 1


# --- node_exporter's directory -----------------------------------------------------------------------------


@scenario("--textfile writes a whole file that all may read, by a rename, and leaves nothing beside it")
def textfile(run):
    run.redis(3)
    agent = start(run)
    folder = run.dir / "textfile"
    folder.mkdir()
    mine = folder / f"holdfast-{agent.name}.prom"
    result = run.holdfast("metrics", "--textfile", folder, umask=0o077)
    assert result.rc == 0 and result.out == "" and result.err == "", result
    assert [path.name for path in folder.iterdir()] == [mine.name]
    assert stat.S_IMODE(mine.stat().st_mode) == 0o644
    assert Metrics(mine.read_text(), agent).get("up") == 1
    first = mine.stat().st_ino
    with open(mine, encoding="utf-8") as reader:  # who reads the old one, reads it to its end
        head = reader.read(100)
        assert run.holdfast("metrics", "--textfile", f"{folder}/").rc == 0
        assert mine.stat().st_ino != first
        Metrics(head + reader.read(), agent)
    other = folder / "other.prom"
    assert run.holdfast("metrics", "--textfile", other).rc == 0 and Metrics(other.read_text(), agent).get("up") == 1
    agent.sigstop()
    result = run.holdfast("metrics", "--textfile", folder)
    assert result.rc == 3 and "not answering" in result.err and Metrics(mine.read_text(), agent).get("up") == 0, result
    agent.sigcont()
    wait_until(lambda: run.holdfast("status").rc == 0, what="it goes on")
    agent.stop()
    result = run.holdfast("metrics", "--textfile", folder)
    assert result.rc == 3 and Metrics(mine.read_text(), agent).state() == "ended", result
    assert sorted(path.name for path in folder.iterdir()) == sorted([mine.name, other.name])


@scenario("--textfile that cannot write says so with the remedy, and leaves the file as it was")
def textfile_refused(run):
    run.redis(3)
    agent = start(run, system=IS_ROOT)
    folder = run.dir / "textfile"
    folder.mkdir()
    result = run.holdfast("metrics", "--textfile", folder / "none" / "x.prom")
    assert result.rc == 125 and re.fullmatch(r"holdfast metrics: make the directory: cannot write \S+/none/x\.prom: .*\n", result.err), result
    for bad in (folder / "x.txt", folder / "none", ""):
        result = run.holdfast("metrics", "--textfile", bad)
        assert result.rc == 64 and "a directory that exists, or a file whose name ends with .prom" in result.err, result
    (folder / "dir.prom").mkdir()
    (folder / "dir.prom" / "x").write_text("")
    assert list(folder.iterdir()) == [folder / "dir.prom"], "nothing was left"
    kept = folder / f"holdfast-{agent.name}.prom"
    kept.write_text("as it was\n")
    os.symlink("/dev/full", folder / "full")
    if not IS_ROOT:
        folder.chmod(0o555)
        result = run.holdfast("metrics", "--textfile", folder)
        folder.chmod(0o755)
    else:
        result = run.holdfast("metrics", "--textfile", folder, uid=OTHER_UID)
    assert result.rc == 77 and "run it as a user who may write there: cannot write " in result.err, result
    assert kept.read_text() == "as it was\n" and not [p for p in folder.iterdir() if p.name.startswith(".")]


# --- what is made of them ----------------------------------------------------------------------------------


def known_metrics():
    """{name: kind} as docs/METRICS.md has them."""
    rows = re.findall(r"(?m)^\| `(holdfast_\w+)` \| (counter|gauge|histogram) \|", DOCUMENT.read_text())
    assert len(rows) == len(dict(rows)) > 50, "a metric is there twice, or the table is gone"
    return dict(rows)


def used_in(text):
    """Names of metrics in expressions, histograms without their suffix."""
    known = known_metrics()
    for name in set(re.findall(r"holdfast_\w+", text)):
        base = re.sub(r"_(bucket|sum|count)$", "", name)
        yield name if name in known or known.get(base) != "histogram" else base


@scenario("docs/METRICS.md has every metric with its type, and none that is not")
def documented(run):
    run.redis(3)
    start(run)
    m = metrics(run)
    kinds = {family.name: family.kind for family in m.families.values()}
    assert kinds == known_metrics(), set(kinds.items()) ^ set(known_metrics().items())
    empty = {family.name for family in m.families.values() if not family.samples}
    assert empty <= SOMETIMES, empty - SOMETIMES


def rule_blocks():
    """[(name, text)] of the alerts."""
    parts = re.split(r"(?m)^      - alert: (\w+)\n", RULES.read_text())[1:]
    return list(zip(parts[::2], parts[1::2]))


@scenario("every alert is of metrics that exist, has severity, summary and remedy, fires in one test and is quiet in another")
def alerts(run):
    blocks = rule_blocks()
    tests, known = TESTS.read_text(), known_metrics()
    assert len(blocks) >= 20 and len(dict(blocks)) == len(blocks)
    for name, text in blocks:
        expression = re.search(r"(?m)^        expr: (.+)$", text)[1]
        assert set(used_in(expression)) and set(used_in(expression)) <= set(known), (name, expression)
        assert re.search(r"(?m)^          severity: (critical|warning)$", text), name
        assert re.search(r"(?m)^          summary: '.+'$", text) and re.search(r"(?m)^          remedy: '[A-Za-z].+\.'$", text), name
        assert f"- name: {name} fires\n" in tests and f"- name: {name} is quiet\n" in tests, name
        assert f"`{name}`" in DOCUMENT.read_text(), f"{name} is not in docs/METRICS.md"
    documented_alerts = set(re.findall(r"`(Holdfast[A-Z]\w+)`", DOCUMENT.read_text()))
    assert documented_alerts == set(dict(blocks)), documented_alerts ^ set(dict(blocks))


@scenario("promtool, where it is installed, finds the metrics clean, and each alert fires in its test alone")
def by_promtool(run):
    run.redis(3)
    agent = start(run)
    holder = run.holder()
    holder.acquire("job", TTL_S * 1000)
    wait_until(lambda: metrics(run).get("renewal_margin_min_ratio"), what="a renewal is measured")
    result = promtool("check", "metrics", input=metrics(run).text)
    assert result.returncode == 0 and not result.stdout + result.stderr, result
    result = promtool("check", "rules", RULES)
    assert result.returncode == 0, result
    result = promtool("test", "rules", TESTS.name, cwd=TESTS.parent)
    assert result.returncode == 0, result


@scenario("the dashboard shows metrics that exist, and its picture is of it")
def dashboard(run):
    board = json.loads(DASHBOARD.read_text())
    known = known_metrics()
    shown = [panel for panel in board["panels"] if panel["type"] != "row"]
    assert len(shown) >= 12 and len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    for panel in shown:
        for target in panel["targets"]:
            assert set(used_in(target["expr"])) and set(used_in(target["expr"])) <= set(known), (panel["title"], target["expr"])
        assert panel["title"] and panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}, panel["title"]
    made = run.dir / "dashboard.svg"
    subprocess.run([sys.executable, ROOT / "packaging" / "grafana" / "picture", made], check=True, timeout=60)
    assert made.read_text() == PICTURE.read_text(), "make it anew: packaging/grafana/picture docs/pictures/dashboard.svg"
    for panel in shown:
        assert panel["title"].replace("&", "&amp;") in PICTURE.read_text(), panel["title"]


if __name__ == "__main__":
    main()
