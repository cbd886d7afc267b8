"""Recordings that lack what a replay needs: where its figures are wrong, its first line says so, and
--strict refuses them."""

import json
import os
import subprocess
import tempfile
import unittest

import combinations
import job as truth
import pipelines
from predictions import FORETRACE, report

JOBS = {
    "prefetching": lambda: truth.prefetching(2),
    "lookup": lambda: pipelines.lookup_ahead(2, steps=range(1, 8)),
    "ahead": lambda: pipelines.data_parallel_ahead(2, steps=range(1, 8)),
    "optimizer": lambda: combinations.distributed_optimizer(4, steps=range(1, 8)),
    "ring": lambda: combinations.ring_attention(4, steps=range(3, 6)),
}


def without_waits(events):
    return [e for e in events if e["name"] != "cudaStreamWaitEvent"]


def without_correlation(events):
    for e in events:
        e["args"].pop("correlation", None)
    return events


def without_every(kind, n):
    def change(events):
        seen = [0]

        def lost(e):
            seen[0] += e["cat"] == kind
            return e["cat"] == kind and seen[0] % n == 0
        return [e for e in events if not lost(e)]
    return change


class Doubt(unittest.TestCase):
    def check(self, change, always):
        """`always`: what lacks is said whatever it leads to."""
        for name, build in JOBS.items():
            job = build()
            with self.subTest(job=name), tempfile.TemporaryDirectory() as folder:
                job.write(folder, events="absent")
                for file in os.listdir(folder):
                    path = os.path.join(folder, file)
                    with open(path) as opened:
                        document = json.load(opened)
                    document["traceEvents"] = change(document["traceEvents"])
                    with open(path, "w") as opened:
                        json.dump(document, opened)
                found = report(folder, step=5)
                self.assertEqual(len(found["ranks"]), len(job.ranks))
                off = [rank["iteration_time_us"] / e - 1.0
                       for rank, e in zip(found["ranks"], job.step_times(5))]
                first = min(int(row[2].split("#")[1]) for row in job.ranks[0].rows
                            if row[2].startswith("ProfilerStep#"))
                done = job.completions()
                period = done[5 - first] - done[4 - first]
                wrong = max(abs(e) for e in [*off, found["step"]["period_us"] / period - 1.0])
                if not always and wrong < 0.05:
                    continue
                self.assertIsNotNone(found["doubt"], msg=f"{name}: {100 * wrong:.1f} % off")
                strict = subprocess.run([FORETRACE, "predict", folder, "--strict"],
                                        capture_output=True, text=True, check=False)
                # 2: it refuses repairs of the input first.
                self.assertIn(strict.returncode, (2, 3), msg=strict.stderr)

    def test_no_stream_waits(self):
        self.check(without_waits, False)

    def test_device_work_without_launches(self):
        self.check(without_correlation, True)

    def test_lost_calls(self):
        self.check(without_every("cuda_runtime", 20), True)

    def test_lost_device_work(self):
        self.check(without_every("kernel", 40), True)

    def test_nothing_is_doubted_that_is_whole(self):
        for name, build in JOBS.items():
            with self.subTest(job=name), tempfile.TemporaryDirectory() as folder:
                build().write(folder, events="absent")
                self.assertIsNone(report(folder, step=5)["doubt"])


if __name__ == "__main__":
    unittest.main()
