"""Waits for events that another thread recorded."""

import tempfile
import unittest

from loading import loading
from predictions import report


class Loading(unittest.TestCase):
    def check(self, cases=(), **job):
        for known in ("named", "absent"):
            for recorded in (None, lambda rank: (3, 8)):
                built = loading(**job)
                with tempfile.TemporaryDirectory() as folder:
                    built.write(folder, events=known, recorded=recorded)
                    self.assertIsNone(report(folder, step=6)["doubt"])
                    for step in (4, 6):
                        for what_if, change in [((), {}), *cases]:
                            expected = loading(**{**job, **change}).step_times(step)
                            found = report(folder, what_if, step)["ranks"]
                            for rank, e in zip(found, expected):
                                self.assertAlmostEqual(
                                    rank["iteration_time_us"] / e, 1.0, delta=0.001,
                                    msg=f"events {known}, step {step}, {what_if}")

    def test_copies_faster_than_steps(self):
        self.check([(["name=gemm.*_(tn|nt):x1.5"], {"slower": {0: 1.5, 1: 1.5}})], ranks=2)

    def test_copies_slower_than_steps(self):
        self.check(copy_us=9000.0)

    def test_three_batches_ahead(self):
        self.check(depth=3)
        self.check(depth=3, reads=False, ranks=2)

    def test_slow_thread(self):
        self.check(decode_us=9000.0)


if __name__ == "__main__":
    unittest.main()
