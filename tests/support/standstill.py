"""How long the machine stood still.

A thread sleeps for 10 ms at a time and notes by how much it is late. Where that is LONG_S or more, the timers of every other
process may have been as late, and a bound on time that was missed says nothing about Holdfast.
"""
import threading
import time

PACE_S = 0.01
LONG_S = 0.1  # twice what a test must bear (tests/README.md)


class Watch:
    """Keeps every lateness of LONG_S or more, with the time of its end."""

    def __init__(self):
        self.late = []
        threading.Thread(target=self.watch, daemon=True).start()

    def watch(self):
        before = time.monotonic()
        while True:
            time.sleep(PACE_S)
            now = time.monotonic()
            if now - before - PACE_S >= LONG_S:
                self.late.append((now, now - before - PACE_S))
            before = now

    def longest_s(self, since):
        """The longest one since that time.monotonic(); 0 for none."""
        return max((seconds for ended, seconds in self.late if ended >= since), default=0)
