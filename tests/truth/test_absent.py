"""Jobs of which some ranks have no profile: unchanged, they take what they took; changed, the truth lies
in the interval."""

import os
import tempfile
import unittest

import combinations
import job as truth
import pipelines
from predictions import report, text

SOME = "--allow-missing-ranks"


class Absent(unittest.TestCase):
    def check(self, ranks, build, step=4, changed="gemm.*_(tn|nt)", ahead=False):
        """`build`: factors of GEMMs by rank -> job; `ahead`: devices work on after the end marks of its steps."""
        slower = build({r: 1.3 for r in range(ranks)})
        for present in ([0], list(range(ranks - 1))):
            with tempfile.TemporaryDirectory() as folder:
                job = build(None)
                job.write(folder, events="absent")
                for rank in set(range(ranks)) - set(present):
                    os.remove(os.path.join(folder, f"rank{rank}.json"))
                for absent in ("as-recorded", "alike"):
                    found = report(folder, step=step, options=[SOME, "--absent", absent])["ranks"]
                    self.assertEqual(len(found), len(present))
                    for rank, expected in zip(found, job.step_times(step)):
                        self.assertAlmostEqual(rank["iteration_time_us"] / expected, 1.0, delta=0.001,
                                               msg=f"{absent}, present {present}")
                found = report(folder, [f"name={changed}:x1.3"], step, [SOME])
                interval = found["absent_ranks"]
                self.assertEqual(found["by_completion"], ahead, f"present {present}")
                times = slower.periods(step) if ahead else slower.step_times(step)
                longest = max(times[rank] for rank in present)
                self.assertLess(interval["lower_us"], 1.001 * longest)
                self.assertGreater(interval["upper_us"], 0.999 * longest)

    def test_faster_where_an_absent_rank_came_last(self):
        """Of every rendezvous of the one rank at hand most was waiting, as nothing in its recording shows."""
        def build(factor):
            return truth.data_parallel(4, 6, {r: factor * (1.3 if r == 2 else 1.0) for r in range(4)}, steps=(3, 4, 5))
        faster = build(0.5).step_times(4)
        with tempfile.TemporaryDirectory() as folder:
            build(1.0).write(folder, events="absent")
            for rank in range(1, 4):
                os.remove(os.path.join(folder, f"rank{rank}.json"))
            what_if = "name=gemm.*_(tn|nt):x0.5"
            interval = report(folder, [what_if], 4, [SOME])["absent_ranks"]
            self.assertLess(interval["lower_us"], 1.001 * faster[0])
            self.assertGreater(interval["upper_us"], 0.999 * faster[0])
            self.assertIn("ranks without a trace leave iteration 4 between",
                          text(folder, [what_if], 4, [SOME]).split(" Why: ")[0])

    def test_cpu_ahead(self):
        """What absent ranks leave open is of the step, not of what lies between its marks."""
        def build(factor):
            return truth.data_parallel(4, 6, {r: factor * (1.3 if r == 2 else 1.0) for r in range(4)},
                                       steps=range(3, 9), read_loss=False)
        for factor in (0.5, 1.5):
            changed = build(factor).period()
            with tempfile.TemporaryDirectory() as folder:
                build(1.0).write(folder, events="absent")
                for rank in range(1, 4):
                    os.remove(os.path.join(folder, f"rank{rank}.json"))
                found = report(folder, [f"name=gemm.*_(tn|nt):x{factor}"], 6, [SOME])
                interval = found["absent_ranks"]
                self.assertLess(found["iteration_time_us"], 0.5 * changed)
                self.assertLess(interval["lower_us"], 1.001 * changed, factor)
                self.assertGreater(interval["upper_us"], 0.999 * changed, factor)

    def test_whole_job_of_some_ranks(self):
        """`--ranks` of as many as recorded: the interval holds what the ranks at hand take in the whole job, also where
        none of the groups that grow lacks a member."""
        job = truth.megatron(3, 4, steps=(3, 4, 5))
        for present in ([0], [0, 2, 4, 6], [0, 1, 2, 3]):
            with tempfile.TemporaryDirectory() as folder:
                job.write(folder)
                for rank in set(range(8)) - set(present):
                    os.remove(os.path.join(folder, f"rank{rank}.json"))
                longest = max(job.step_times(4)[rank] for rank in present)
                for absent in ("alike", "never-last"):
                    found = report(folder, step=4, options=[SOME, "--ranks", "8", "--absent", absent])
                    scale = found["scale_out"]
                    taken = scale["expected_us"] * longest / found["iteration_time_us"]
                    self.assertLessEqual(scale["lower_us"], taken + 0.01, (present, absent))
                    self.assertGreaterEqual(scale["upper_us"], taken - 0.01, (present, absent))

    def test_replicas(self):
        self.check(4, lambda s: truth.data_parallel(4, 12, s, steps=(3, 4, 5)))
        self.check(4, lambda s: combinations.distributed_optimizer(4, slower=s), ahead=True)
        self.check(4, lambda s: truth.bucketed(4, [2, 4, 4, 2], s), step=3)

    def test_stages_and_shards(self):
        self.check(8, lambda s: truth.pipeline(4, 2, 8, True, None if s is None else {
            (rank, way): factor for rank, factor in s.items() for way in ("forward", "backward")}),
                   step=3)
        self.check(8, lambda s: truth.megatron(3, 4, s, steps=(3, 4, 5)))
        self.check(4, lambda s: combinations.interleaved(4, 2, 8, slower=s, steps=(3, 4, 5)))
        self.check(4, lambda s: combinations.sharded_parameters(4, replicas=2, read_loss=True,
                                                                slower=s))

    def test_rings(self):
        self.check(4, lambda s: truth.ring(4, 8, s, steps=(3, 4, 5)))

    def test_experts(self):
        self.check(4, lambda s: combinations.experts(4, slower=s), ahead=True)

    def test_prefetching(self):
        self.check(4, lambda s: truth.prefetching(4, slower=s), ahead=True)
        self.check(4, lambda s: pipelines.lookup_ahead(4, slower=s, steps=range(3, 9)), ahead=True)

    def test_graphs_that_communicate(self):
        self.check(2, lambda s: combinations.tensor_parallel_decoding(2, 1, slower=s),
                   changed="gemm", ahead=True)


if __name__ == "__main__":
    unittest.main()
