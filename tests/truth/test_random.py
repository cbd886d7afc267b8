"""Programs drawn at random: their replay takes as long as they did, however little of their waits is
named."""

import tempfile
import unittest

import random_jobs
from test_what_if import report

# Each once was replayed wrongly: waits explained by those that others were taken for (4, 41), one that
# holds work up for less than a launch takes (274), a first step with other waits (242), copies of which
# none shows how long its launch takes (113).
FOUND = (4, 41, 113, 242, 274)


class Drawn(unittest.TestCase):
    def check(self, seed, steps, **writing):
        job = random_jobs.drawn(seed)
        with tempfile.TemporaryDirectory() as folder:
            job.write(folder, **writing)
            for step in steps:
                expected = job.step_times(step)
                for rank, of_rank in enumerate(report(folder, step=step)["ranks"]):
                    found = of_rank["iteration_time_us"]
                    self.assertAlmostEqual(found / expected[rank], 1.0, delta=0.001,
                                           msg=f"seed {seed}, step {step}, rank {rank}: {found:.1f} us, "
                                               f"not {expected[rank]:.1f}")

    def test_whole(self):
        for seed in (*FOUND, *range(300, 316)):
            with self.subTest(seed=seed):
                self.check(seed, (4, 6), events="absent")

    def test_cut_out(self):
        for seed in range(20, 32):
            for held in (True, False):
                with self.subTest(seed=seed, in_flight=held):
                    self.check(seed, (5, 6), events="absent", recorded=lambda rank: (3, 7),
                               in_flight=held)


if __name__ == "__main__":
    unittest.main()
