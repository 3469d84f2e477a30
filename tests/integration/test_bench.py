#!/usr/bin/env python3
"""Net. The measurements run, and their tables are made from their lines. Nothing here says anything about time."""
import json
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from rig import BUILD, ROOT, main, scenario  # noqa: E402

BENCH = ROOT / "tools" / "bench"
PATIENCE_S = 400  # ten times what it takes on an idle machine
SAMPLE = ROOT / "tests" / "support" / "bench_sample.jsonl"  # of `tools/bench/run --quick`


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@scenario("every measurement runs", sanitizers=False)
def every_part(run):
    lines = run.dir / "lines.jsonl"
    process = run.spawn(BENCH / "run", "--quick", "--build", BUILD, "--out", lines, label="bench")
    assert process.wait(PATIENCE_S) == 0, process.err
    rows = lines_of(lines)
    parts = {row["part"] for row in rows if row["bench"] == "part"}
    assert parts == {path.stem for path in (BENCH / "parts").glob("*.py")} - {"__init__", "held", "peers"}, parts
    assert all(row["lost"] == 0 for row in rows if row["bench"] == "held"), rows
    assert not [row for row in rows if row["bench"] == "failed"], rows


@scenario("how evenly hosts share a lock is measured", sanitizers=False)
def fairness(run):
    lines = run.dir / "lines.jsonl"
    process = run.spawn(BENCH / "fairness", "--quick", "--build", BUILD, "--out", lines, label="fairness")
    assert process.wait(PATIENCE_S) == 0, process.err
    rows = [row for row in lines_of(lines) if row["bench"] == "crowd"]
    assert [row["scene"] for row in rows] == ["far", "foreign"], rows
    assert all(row["grants"] > 0 and row["overlaps"] == 0 and 0 < row["even_waiters"] <= 1 for row in rows), rows


@scenario("two builds are measured by turns", sanitizers=False)
def two_builds(run):
    lines = run.dir / "lines.jsonl"
    process = run.spawn(BENCH / "beside", BUILD, "--quick", "--build", BUILD, "--out", lines, label="beside")
    assert process.wait(PATIENCE_S) == 0, process.err
    for name in ("p50, us", "agent's CPU, us", "a node's CPU, us", "64 clients: locks/s"):
        line, = [line for line in process.out.splitlines() if line.startswith(f"| {name} |")]
        assert all(float(cell) > 0 for cell in line.split("|")[2:5]), line
    assert len([row for row in lines_of(lines) if row["bench"] == "lock"]) == 2, lines_of(lines)


@scenario("the load of renewals is simulated, and spread again after each fault", sanitizers=False)
def scale(run):
    """Counts of simulated time, the same in every run."""
    rows = [json.loads(line) for line in subprocess.run([BUILD / "bin/bench", "load", "1100", "12000", "--quick"], check=True,
                                                        stdout=subprocess.PIPE, text=True).stdout.splitlines()]
    assert len({row["scenario"] for row in rows}) == 8, rows
    for row in rows:
        assert row["keys_per_script"] > 64 and row["least_left"] > 0.4, row
        assert row["of_asked"] > 0.97 or row["when"].startswith("fault"), row
        assert row["late_max_ms"] < 5 or row["when"].startswith("fault"), row  # scripts go to a node one after the other
    out = subprocess.run([BENCH / "scale", "--quick", "--build", BUILD], check=True, stdout=subprocess.PIPE, text=True).stdout
    page = (ROOT / "docs/SCALE.md").read_text()
    for line in out.splitlines():  # what was not simulated with fewer leases stands in the page as it is
        assert line in page or "T = " in line, line


@scenario("the tables and pictures of a kept run", sanitizers=False)
def tables(run):
    """In a copy of the tree's folders that are written to."""
    for folder in ("tools/bench", "docs"):
        shutil.copytree(ROOT / folder, run.dir / "tree" / folder, ignore=shutil.ignore_patterns("__pycache__"))
    page = run.dir / "tree/docs/PERFORMANCE.md"
    for path in (run.dir / "tree/docs/pictures").glob("*.svg"):  # those of other pages are made by others
        path.unlink()
    report = [sys.executable, run.dir / "tree/tools/bench/report.py", "--write"]
    lines = run.dir / "lines.jsonl"
    write_lines(lines, [{**row, "leases": 1_000_000} if row["bench"] == "taken" else row for row in lines_of(SAMPLE)])
    subprocess.run([*report, lines], check=True, stdout=subprocess.DEVNULL)
    made = page.read_text()
    for text in ("owner's check, hot | at most 1.1 clock reads |", "| nodes | floor, plain SET |", "Redis "):
        assert text in made, made
    assert made.count("not measured") == 6, made  # --quick leaves out five nodes
    pictures = sorted(path.name for path in (run.dir / "tree/docs/pictures").glob("*.svg"))
    assert len(pictures) == 5, pictures
    # The page may leave out a picture of a part that was not run in full; it never names one that is not there.
    assert set(re.findall(r"\(pictures/([^)]+)\)", made)) <= set(pictures), pictures
    # The same lines give the same page; a goal that a line says is missed is told as such.
    subprocess.run([*report, lines], check=True, stdout=subprocess.DEVNULL)
    assert page.read_text() == made
    write_lines(lines, [{**row, "ratio": 1.2} if row["bench"] == "check" else row for row in lines_of(SAMPLE)])
    out = subprocess.run([*report[:-1], lines], check=True, stdout=subprocess.PIPE, text=True).stdout
    told, = [line for line in out.splitlines() if line.startswith("| owner's check, hot ")]
    assert "1.20" in told and "**not met**" in told, told


if __name__ == "__main__":
    main()
