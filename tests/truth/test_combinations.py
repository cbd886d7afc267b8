"""Predictions of jobs that combine several mechanisms, by steps or, where their CPU runs ahead, periods."""

import tempfile
import unittest

import combinations
import one_rank
import pipelines
from predictions import predict, report

EVENTS = ("named", "recorded", "absent")


def alike(ranks, factor):
    return {"slower": {rank: factor for rank in range(ranks)}}


def gemms(ranks, *factors):
    """What-ifs on all GEMMs, and on those of rank 1."""
    return [(["name=gemm.*_(tn|nt),rank=1:x1.5"], {"slower": {1: 1.5}})] + [
        ([f"name=gemm.*_(tn|nt):x{factor}"], alike(ranks, factor)) for factor in factors]


class Steps(unittest.TestCase):
    def check(self, build, cases, step, events=EVENTS, metadata=("all",)):
        for known in events:
            for described in metadata:
                with tempfile.TemporaryDirectory() as folder:
                    build().write(folder, events=known, metadata=described)
                    for what_if, change in [((), {})] + cases:
                        expected = build(**change).step_times(step)
                        for rank, (p, e) in enumerate(zip(predict(folder, what_if, step), expected)):
                            self.assertAlmostEqual(p / e, 1.0, delta=0.001,
                                                   msg=f"events {known}, metadata {described}, rank "
                                                       f"{rank}, {what_if}: {p:.1f} us, not {e:.1f}")

    def test_replicas_of_sharded_parameters(self):
        self.check(lambda **c: combinations.sharded_parameters(4, replicas=2, read_loss=True, **c),
                   gemms(4, 1.5) + [(["kind=collective:x3"], {
                       "gather_us": 1500.0, "scatter_us": 1800.0, "reduce_us": 900.0})],
                   5, ("named", "absent"), ("all", "none"))

    def test_ring_beside_attention(self):
        for buffered_us in (None, 12.0):
            self.check(lambda **c: combinations.ring_attention(4, buffered_us=buffered_us, **c),
                       gemms(4, 2.0, 0.3), 3, ("absent",), ("all", "annotations"))

    def test_experts_beside_a_shared_one(self):
        self.check(lambda **c: combinations.experts(4, **c), gemms(4, 2.0, 0.3), 4, ("absent",),
                   ("all", "none"))

    def test_interleaved_stages(self):
        self.check(lambda **c: combinations.interleaved(4, 2, 8, **c), gemms(4, 2.0, 0.3), 3,
                   ("absent",), ("all", "annotations"))

    def test_graphs_that_communicate(self):
        for ahead in (1, 2):
            self.check(lambda **c: combinations.tensor_parallel_decoding(2, ahead, **c),
                       [(["name=gemm:x2"], alike(2, 2.0)), (["name=gemm:x0.3"], alike(2, 0.3)),
                        (["name=gemm,rank=1:x1.7"], {"slower": {1: 1.7}})],
                       6, ("named", "absent"), ("all", "none"))

    def test_stream_forked_before_work_that_is_issued_first(self):
        self.check(lambda **c: one_rank.forked_streams(**c),
                   gemms(1, 2.0, 0.3)[1:] + [(["name=topK:x4"], {"beside_us": 1040.0})], 4)

    def test_thread_that_saves(self):
        self.check(lambda **c: one_rank.saving(**c),
                   gemms(1, 2.0, 0.3)[1:] + [(["name=DtoH:x4"], {"save_us": 12000.0})], 4, ("absent",))

    def test_gradients_of_several_batches(self):
        self.check(lambda **c: combinations.accumulating(4, **c),
                   gemms(4, 2.0, 0.3) + [(["kind=collective:x4"], {"all_reduce_us": 3600.0})], 4,
                   ("named", "absent"))

    def test_sends_whose_receiver_is_always_there_first(self):
        for buffered_us in (None, 12.0, 40.0):
            self.check(lambda **c: combinations.one_way(buffered_us=buffered_us, **c),
                       [(["name=gemm.*_(tn|nt),rank=1:x4"], {"slower": {1: 4.0}}),
                        (["name=gemm.*_(tn|nt),rank=0:x0.2"], {"slower": {0: 0.2}})], 4, ("absent",),
                       ("all", "annotations"))


class Staged(unittest.TestCase):
    """Pipelines of stages, each on a stream that waits for the one before by an event of an earlier
    iteration: as recorded right whatever is named; changed right where all events are named, else right
    or doubted by the first line (those of gradients are never named)."""

    CASES = ((["name=gemm.*_(tn|nt),rank=0:x1.5"], {"slower": {0: 1.5}}),
             (["name=gemm.*_(tn|nt):x0.3"], alike(2, 0.3)),
             (["name=HtoD:x12"], {"copy_us": 8400.0}))

    def check(self, **how):
        def build(**change):
            return pipelines.staged(2, **how, **change)

        for events, cut in (("named", None), ("absent", None), ("absent", (4, 8))):
            with tempfile.TemporaryDirectory() as folder, self.subTest(**how, events=events, cut=cut):
                writing = {} if cut is None else {"recorded": lambda rank: cut, "in_flight": True}
                build().write(folder, events=events, **writing)
                for what_if, change in (((), {}), *self.CASES):
                    expected = build(**change).step_times(6)
                    found = report(folder, what_if, 6)
                    times = [rank["iteration_time_us"] for rank in found["ranks"]]
                    right = all(abs(t / e - 1) <= 0.001 for t, e in zip(times, expected))
                    unnamed = events == "absent" or how.get("gradients")
                    if right or (what_if and unnamed and found["doubt"]):
                        continue
                    self.fail(f"{what_if}: {times}, not {expected}, doubt: {found['doubt']}")

    def test_one_iteration_earlier(self):
        self.check()
        self.check(names=None, uneven=0.3)
        self.check(gradients=True, uneven=0.4, first=False)

    def test_two_iterations_earlier(self):
        self.check(lag=2, names="stage {} of batch", first=False, uneven=0.3)
        self.check(lag=2, names=None, gradients=True, uneven=0.5)

    def test_nothing_is_read(self):
        self.check(reads=False, uneven=0.5)


class Periods(unittest.TestCase):
    """Steps 6 to 9 of jobs whose CPU is ahead of the device, all ranks slowed down or one."""

    def check(self, build, cases, in_flight=(True, False), steps=(6, 9)):
        for held in in_flight:
            with tempfile.TemporaryDirectory() as folder:
                build().write(folder, events="absent", in_flight=held, recorded=lambda rank: (6, 9))
                for what_if, change in [((), {})] + cases:
                    expected = build(**change).period()
                    for step in steps:
                        found = report(folder, what_if, step)["step"]["period_us"]
                        self.assertAlmostEqual(found / expected, 1.0, delta=0.001,
                                               msg=f"in flight {held}, step {step}, {what_if}: "
                                                   f"{found:.1f} us, not {expected:.1f}")

    def test_parameters_gathered_for_the_next_step(self):
        cases = gemms(4, 1.5, 0.4) + [
            (["kind=collective:x3"], {"gather_us": 2100.0, "scatter_us": 1500.0})]
        self.check(lambda **c: combinations.distributed_optimizer(4, steps=range(1, 16), **c), cases,
                   steps=(7, 9))

    def test_sharded_parameters(self):
        cases = gemms(4, 1.5, 0.4) + [
            (["kind=collective:x3"], {"gather_us": 1500.0, "scatter_us": 1800.0})]
        self.check(lambda **c: combinations.sharded_parameters(4, steps=range(1, 16), **c), cases)


if __name__ == "__main__":
    unittest.main()
