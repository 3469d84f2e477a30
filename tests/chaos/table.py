"""The table of results: one row for each case of a fault, as text and as JSON lines."""
import dataclasses
import json

import criteria
import history


@dataclasses.dataclass
class Row:
    fault: str
    case: str
    acquisitions: int = 0
    faults: int = 0
    overlaps: int = 0
    stale_refused: int = 0
    losses: dict = dataclasses.field(default_factory=dict)
    verdicts: dict = dataclasses.field(default_factory=dict)  # criterion: complaints
    figures: dict = dataclasses.field(default_factory=dict)   # what else was measured
    skipped: str = ""
    seed: int = 0
    seconds: float = 0.0

    @property
    def complaints(self):
        return [f"{name}: {text}" for name, texts in sorted(self.verdicts.items()) for text in texts]

    @property
    def good(self):
        return not self.complaints

    def add(self, record, expected):
        """Counts and judges a fleet's record."""
        self.acquisitions += len(record.holds) + len(record.unused)
        self.faults += len(record.told)
        self.stale_refused += sum(refused for _, _, refused in record.stores)
        for reason, count in record.losses.items():
            self.losses[reason] = self.losses.get(reason, 0) + count
        found = criteria.judge(record, expected)
        self.overlaps += sum(len(history.overlaps(holds)) for holds in record.of_lock().values())
        self.blame(found)
        return self

    def blame(self, found):
        """Adds {criterion: complaints}."""
        for name, texts in found.items():
            self.verdicts.setdefault(name, []).extend(texts)
        return self

    def json(self):
        return json.dumps({**dataclasses.asdict(self), "good": self.good})


HEAD = f"{'fault':5} {'case':62} {'acquired':>8} {'faults':>6} {'overlap':>7} {'stale':>6}  " \
       + "".join(f"{name:4}" for name in criteria.CRITERIA) + " losses"


def line(row):
    """One line of the table; `ok`: judged and good, `-`: the case says nothing about it."""
    if row.skipped:
        return f"{row.fault:5} {row.case:62} skipped: {row.skipped}"
    marks = ("-" if name not in row.verdicts else "BAD" if row.verdicts[name] else "ok" for name in criteria.CRITERIA)
    losses = ", ".join(f"{count} {reason}" for reason, count in sorted(row.losses.items())) or "none"
    figures = "; ".join(f"{name} {value}" for name, value in row.figures.items())
    return f"{row.fault:5} {row.case:62} {row.acquisitions:8} {row.faults:6} {row.overlaps:7} {row.stale_refused:6}  " \
           + "".join(f"{mark:4}" for mark in marks) + f" {losses}" + (f"  [{figures}]" if figures else "")


def total(rows):
    done = [row for row in rows if not row.skipped]
    return f"{len(done)} cases, {sum(row.acquisitions for row in done)} acquisitions, " \
           f"{sum(row.faults for row in done)} faults, {sum(row.overlaps for row in done)} overlaps, " \
           f"{sum(row.stale_refused for row in done)} stale writes refused, " \
           f"{sum(sum(row.losses.values()) for row in done)} losses; " \
           f"{sum(not row.good for row in done)} bad, {len(rows) - len(done)} skipped"
