#!/usr/bin/env python3
"""tools/bench/report.py LINES [--write] [--before LINES]: what a run's file of lines says of each goal, as a table; beside it
what a run of before said.

With --write the tables in docs/PERFORMANCE.md, between its markers, and the pictures in docs/pictures are made anew.
"""
import argparse
import pathlib
import re
import sys

from rows import Missing, Rows
import goals
import pictures

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/PERFORMANCE.md"


def markdown(head, body):
    table = [head, ["---"] * len(head), *body]
    return "".join("| " + " | ".join(str(cell) for cell in row) + " |\n" for row in table)


def the_machine(rows, before):
    row = rows.where(bench="machine").one()
    loads = [part["load"] for part in rows.where(bench="part") if "load" in part]
    return (f"{row['processor']}, {row['cores']} cores{', a virtual machine' if row['hypervisor'] else ''}, {row['memory_gib']} GiB, "
            f"Linux {row['kernel']}, clock source {row['clock']}; Redis {row['redis']}, hiredis {row['hiredis']}, {row['compiler']}, build type "
            f"{row['build_type']}, node {row['node']}; commit {row['commit']}, {row['at']}. Load average {row['load']} at the start, then "
            f"{', '.join(map(str, loads))} after each part."
            + (f" Before: commit {before.where(bench='machine').one('commit')}." if before else "") + "\n")


def the_goals(rows, before):
    return markdown(["what", "goal", "measured", ""] + (["before"] if before else []), goals.judged(rows, before))


def by_nodes(rows, _):
    body = []
    for nodes in sorted({row["nodes"] for row in rows.where(part="lock1", bench="lock", net="tcp")}):
        here = rows.where(part="lock1", nodes=nodes, net="tcp", beside=None)
        cells = [nodes]
        for some in (here.where(kind="plain", what="lat"), here.where(kind="scripts", what="lat"), here.where(bench="lock"),
                     *(here.where(peer=peer) for peer in ("node-redlock", "redis-semaphore", "redis-py"))):
            cells.append(f"{some.median('p50_us'):.0f} / {some.median('p99_us'):.0f}" if some else "")
        cells += [f"{some.median(key):.0f}" if some else "" for some, key in ((here.where(bench="lock"), "client_cpu_us"),
                  (here.where(bench="work"), "agent_cpu_us"), (here.where(bench="work"), "node_cpu_us"),
                  (here.where(kind="plain", what="lat"), "client_cpu_us"), (here.where(kind="plain", what="lat"), "node_cpu_us"))]
        body.append(cells)
    if not body:
        raise Missing
    return markdown(["nodes", "floor, plain SET", "floor, shipped scripts", "Holdfast", "node-redlock", "redis-semaphore", "redis-py",
                     "CPU: client", "agent", "a node", "plain SET: client", "a node"], body)


SECTIONS = {"machine": the_machine, "goals": the_goals, "nodes": by_nodes}


def write(rows, before=None):
    page = PAGE.read_text()
    for name, make in SECTIONS.items():
        begin, end = f"<!-- {name}: made by tools/bench/report.py -->\n", f"<!-- /{name} -->"
        try:
            page = re.sub(f"(?s)({re.escape(begin)}).*?({re.escape(end)})", lambda m: m[1] + make(rows, before) + m[2], page)
        except Missing:
            print(f"no lines for {name}: left as it is", file=sys.stderr)
    PAGE.write_text(page)
    for path, text in pictures.draw(rows):
        target = ROOT / "docs/pictures" / path
        target.parent.mkdir(exist_ok=True)
        target.write_text(text)


def show(rows, before=None):
    for make in SECTIONS.values():
        try:
            print(make(rows, before))
        except Missing:
            pass


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lines", type=pathlib.Path)
    parser.add_argument("--write", action="store_true", help="into docs/")
    parser.add_argument("--before", type=pathlib.Path, metavar="LINES", help="of a run before")
    options = parser.parse_args()
    rows, before = Rows.of_file(options.lines), options.before and Rows.of_file(options.before)
    show(rows, before)
    if options.write:
        write(rows, before)


if __name__ == "__main__":
    main()
