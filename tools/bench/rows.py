"""The lines of a run, read again. Nothing here is measured; a figure that has no lines raises Missing."""
import json
import statistics


class Missing(Exception):
    """The part was not run."""


class Rows(list):
    @classmethod
    def of_file(cls, path):
        with open(path) as file:
            return cls(json.loads(line) for line in file)

    def where(self, **tags):
        return Rows(row for row in self if all(row.get(name) == value for name, value in tags.items()))

    def one(self, key=None):
        if not self:
            raise Missing
        return self[-1][key] if key else self[-1]

    def median(self, key):
        values = [row[key] for row in self if row.get(key) is not None]
        if not values:
            raise Missing
        return statistics.median(values)

    def ratio(self, reference, key):
        """Median of the ratios turn by turn: each row by the reference's row of the same turn."""
        by_turn = {row.get("turn"): row[key] for row in reference}
        ratios = [row[key] / by_turn[row.get("turn")] for row in self if row.get("turn") in by_turn]
        if not ratios:
            raise Missing
        return statistics.median(ratios)
