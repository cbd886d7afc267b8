"""Recordings that begin while the device still does what was issued before: they hold that work, or
nothing of it."""

import os
import tempfile
import unittest

import job as truth
import pipelines
from predictions import predict, report


class InFlight(unittest.TestCase):
    def check(self, build, cases=(), steps=(6, 7), events=("named", "recorded", "absent"),
              tolerance=0.001):
        """`build`: factors of GEMMs by rank -> job; `cases`: (what-if, factors) for the last of `steps`.
        Steps 5 to 8 are recorded."""
        for known in events:
            with tempfile.TemporaryDirectory() as folder:
                build(None).write(folder, events=known, recorded=lambda rank: (5, 8), in_flight=True)
                for step in steps:
                    changes = [((), None)] + (list(cases) if step == steps[-1] else [])
                    for what_if, slower in changes:
                        expected = build(slower).step_times(step)
                        for rank, (p, e) in enumerate(zip(predict(folder, what_if, step), expected)):
                            self.assertAlmostEqual(
                                p / e, 1.0, delta=tolerance,
                                msg=f"events {known}, step {step}, rank {rank}, {what_if}: "
                                    f"{p:.1f} us, not {e:.1f}")

    def check_unrecorded(self, build, steps=(5, 6, 7)):
        for known in ("named", "recorded", "absent"):
            with tempfile.TemporaryDirectory() as folder:
                job = build()
                job.write(folder, events=known, recorded=lambda rank: (5, 8))
                for step in steps:
                    found = report(folder, step=step)
                    self.assertIsNone(found["doubt"])
                    self.assertTrue(any("work of before the recording" in n for n in found["notes"]))
                    for rank, e in zip(found["ranks"], job.step_times(step)):
                        self.assertAlmostEqual(rank["iteration_time_us"] / e, 1.0, delta=0.001,
                                               msg=f"events {known}, step {step}")

    def test_nothing_recorded_of_what_was_in_flight(self):
        for build in (lambda: pipelines.lookup_ahead(2), lambda: pipelines.fully_sharded(2),
                      lambda: pipelines.decoding(1), lambda: pipelines.decoding(2),
                      lambda: truth.prefetching(2, steps=range(1, 10))):
            self.check_unrecorded(build)

    def test_lookup_of_the_next_batch(self):
        self.check(lambda slower: pipelines.lookup_ahead(2, slower=slower))

    def test_limit_of_gathered_layers(self):
        self.check(lambda slower: pipelines.fully_sharded(2, slower=slower),
                   [(["name=gemm.*_(tn|nt),rank=0:x1.5"], {0: 1.5})])

    def test_asynchronous_decoding(self):
        for ahead in (1, 2):
            with self.subTest(ahead=ahead):
                self.check(lambda slower: pipelines.decoding(ahead, slower))

    def test_prefetched_input(self):
        self.check(lambda slower: truth.prefetching(2, slower=slower, steps=range(1, 10)))


class SteadyState(unittest.TestCase):
    """Any step of a recording cut out of a job gives the job's period: of all ranks, or of one."""

    def check(self, build, cases):
        """`build`: (factors of GEMMs by rank, steps) -> job of 4 ranks; `cases`: (what-if, factors)."""
        for in_flight in (True, False):
            for present in (4, 1):
                with tempfile.TemporaryDirectory() as folder:
                    build(None, range(1, 16)).write(folder, events="absent", in_flight=in_flight,
                                                    recorded=lambda rank: (6, 9))
                    for rank in range(present, 4):
                        os.remove(os.path.join(folder, f"rank{rank}.json"))
                    # Of one rank the changed waiting for the others is not known.
                    for what_if, slower in [((), None)] + (cases if present == 4 else []):
                        expected = build(slower, range(1, 16)).period()
                        for step in (6, 7, 8, 9) if not what_if else (6, 9):
                            found = report(folder, what_if, step, ["--allow-missing-ranks"])["step"]
                            self.assertAlmostEqual(
                                found["period_us"] / expected, 1.0, delta=0.001,
                                msg=f"in flight {in_flight}, {present} ranks, step {step}, {what_if}")

    def test_lookup_of_the_next_batch(self):
        self.check(lambda slower, steps: pipelines.lookup_ahead(4, slower=slower, steps=steps),
                   [(["name=gemm.*_(tn|nt):x1.5"], {r: 1.5 for r in range(4)})])

    def test_limit_of_gathered_layers(self):
        self.check(lambda slower, steps: pipelines.fully_sharded(4, slower=slower, steps=steps),
                   [(["name=gemm.*_(tn|nt),rank=1:x1.5"], {1: 1.5})])

    def test_prefetched_input(self):
        self.check(lambda slower, steps: truth.prefetching(4, slower=slower, steps=steps),
                   [(["name=gemm.*_(tn|nt):x1.5"], {r: 1.5 for r in range(4)})])

    def test_data_parallel_with_the_cpu_steps_ahead(self):
        self.check(lambda slower, steps: pipelines.data_parallel_ahead(4, slower=slower, steps=steps),
                   [(["name=gemm.*_(tn|nt),rank=2:x1.5"], {2: 1.5}),
                    (["name=gemm.*_(tn|nt):x0.6"], {r: 0.6 for r in range(4)})])


class WhatIf(unittest.TestCase):
    def check(self, build, cases, step=6, events=("named", "recorded", "absent")):
        for known in events:
            with tempfile.TemporaryDirectory() as folder:
                build(None).write(folder, events=known)
                for what_if, change in cases:
                    expected = build(change).step_times(step)
                    for rank, (p, e) in enumerate(zip(predict(folder, what_if, step), expected)):
                        self.assertAlmostEqual(p / e, 1.0, delta=0.001,
                                               msg=f"events {known}, rank {rank}, {what_if}: "
                                                   f"{p:.1f} us, not {e:.1f}")

    def test_limit_of_gathered_layers(self):
        self.check(lambda change: pipelines.fully_sharded(2, steps=range(3, 8), **(change or {})),
                   [(["name=gemm.*_(tn|nt),rank=0:x1.5"], {"slower": {0: 1.5}}),
                    (["name=gemm.*_(tn|nt):x0.4"], {"slower": {0: 0.4, 1: 0.4}}),
                    (["kind=collective:x3"], {"gather_us": 900.0, "scatter_us": 1200.0})])

    def test_asynchronous_decoding(self):
        for ahead in (0, 1, 2):
            with self.subTest(ahead=ahead):
                self.check(lambda slower: pipelines.decoding(ahead, slower),
                           [(["name=gemm:x2"], {0: 2.0}), (["name=gemm:x0.5"], {0: 0.5})])

    def test_lookup_of_the_next_batch(self):
        # GEMMs faster than the lookup: the dense part waits for it, which it never did when recorded.
        self.check(lambda change: pipelines.lookup_ahead(2, steps=range(3, 9), **(change or {})),
                   [(["name=gemm.*_(tn|nt),rank=0:x1.5"], {"slower": {0: 1.5}}),
                    (["kind=collective:x3"], {"exchange_factor": 3.0}),
                    (["name=gemm.*_(tn|nt):x0.4"], {"slower": {0: 0.4, 1: 0.4}})])

    def test_stream_that_is_first_used_late(self):
        """Four steps of 16 ms after the recording began no work of before is left: the stream's first copy is
        not kept at its recorded time, which is far behind those of a changed job."""
        self.check(truth.first_used_late, [((), None), (["name=gemm:x0.5"], {0: 0.5}),
                                           (["name=gemm:x1.5"], {0: 1.5})], 5)
        # What nothing else was done beside stays as long as it was.
        self.check(lambda slower: truth.first_used_late(slower, late_us=3000.0, idle=True),
                   [((), None), (["name=gemm:x0.5"], {0: 0.5}), (["name=gemm:x1.5"], {0: 1.5})], 5)

    def test_recorded_from_the_first_step(self):
        """Which makes fewer waits than those that follow: nothing is there yet to be waited for."""
        for step in (1, 2, 3, 4):
            self.check(lambda change: pipelines.lookup_ahead(2), [((), None)], step)
        for step in (3, 4):
            self.check(lambda change: truth.prefetching(2, **(change or {})),
                       [((), None), (["kind=memcpy,name=HtoD:x5"], {"copy_us": 4500.0})], step)


if __name__ == "__main__":
    unittest.main()
