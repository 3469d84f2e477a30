"""The register of cases. A case is a function of a Lab that breaks a fleet in one way and fills a Row:

    @case("F1", "a node is killed")
    def killed(lab):
        fleet = lab.fleet()
        ...
        lab.row.add(fleet.finish(), Expected(losses=0))
"""
import pathlib
import random
import sys
import time
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from fleet import Fleet  # noqa: E402
from rig import Skip  # noqa: E402
from table import Row  # noqa: E402

CASES = []


def case(fault, title, needs_root=False):
    def register(function):
        CASES.append((fault, title, function, needs_root))
        return function

    return register


class Lab:
    """What a case gets: its run, its row, and how long it may take."""

    def __init__(self, run, row, seed, minutes=1.0):
        self.run, self.row, self.seconds = run, row, minutes * 60
        self.random = random.Random(seed)
        row.seed = seed

    def fleet(self, **options):
        return Fleet(self.run, self.random.randrange(1, 1 << 30), **options)

    def skip(self, reason):
        raise Skip(reason)


def perform(run, fault, title, function, seed, minutes=1.0):
    """The row of one case. One that breaks off is bad."""
    row = Row(fault, title)
    began = time.monotonic()
    try:
        function(Lab(run, row, seed, minutes))
    except Skip as reason:
        row.skipped = str(reason)
    except Exception:
        row.blame({"P6": ["the case broke off", *traceback.format_exc().splitlines()]})
    row.seconds = time.monotonic() - began
    return row
