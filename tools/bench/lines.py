"""Lines of JSON: what every measurement is told in, printed as they come, and kept in the file of the run."""
import contextlib
import json


class Lines:
    def __init__(self, path=None):
        self.file = open(path, "w") if path else None
        self.tags = {}

    def say(self, row):
        """A row of figures, with what is known of its circumstances (`tagged`)."""
        row = {**self.tags, **row}
        text = json.dumps(row)
        print(text, flush=True)
        if self.file:
            self.file.write(text + "\n")
            self.file.flush()
        return row

    @contextlib.contextmanager
    def tagged(self, **tags):
        before = self.tags
        self.tags = {**before, **tags}
        try:
            yield
        finally:
            self.tags = before
