"""Predictions against jobs of known timing: as recorded, and with durations that never ran.

    FORETRACE=build/release/foretrace python3 -m unittest discover -s tests/truth -t tests/truth
"""

import json
import os
import subprocess
import tempfile
import unittest

import job as truth
from predictions import FORETRACE, predict, report


class WhatIf(unittest.TestCase):
    def check(self, build, cases, tolerance, step=3, **writing):
        """`cases`: (what-if, the same change to the job)."""
        with tempfile.TemporaryDirectory() as folder:
            build(None).write(folder, **writing)
            for what_if, slower in [((), None)] + cases:
                expected = build(slower).step_times(step)
                predicted = predict(folder, what_if, step)
                self.assertEqual(len(predicted), len(expected))
                for rank, (p, e) in enumerate(zip(predicted, expected)):
                    self.assertAlmostEqual(p / e, 1.0, delta=tolerance,
                                           msg=f"rank {rank}, {what_if or 'as recorded'}: "
                                               f"{p:.1f} us, not {e:.1f}")

    def check_pipeline(self, stages, tp, microbatches, batched, synchronize=False, **writing):
        last = stages * tp - 1
        first_stage = {(r, d): 0.5 for r in range(tp) for d in ("forward", "backward")}
        self.check(lambda slower: truth.pipeline(stages, tp, microbatches, batched, slower,
                                                 synchronize=synchronize),
                   [(["name=gemm.*_tn,rank=1:x1.5"], {(1, "forward"): 1.5}),
                    ([f"name=gemm,rank=0-{tp - 1}:x0.5"], first_stage),
                    ([f"name=gemm.*_nt,rank={last}:x2"], {(last, "backward"): 2.0})],
                   0.001, **writing)

    def test_pipeline_of_single_transfers(self):
        self.check_pipeline(4, 2, 8, batched=False)

    def test_pipeline_of_batched_transfers(self):
        self.check_pipeline(4, 2, 8, batched=True)

    def test_two_stages(self):
        self.check_pipeline(2, 2, 4, batched=True)

    def test_device_synchronized_after_every_transfer(self):
        self.check_pipeline(4, 2, 4, batched=True, synchronize=True)

    def test_partners_known_from_annotations_alone(self):
        self.check_pipeline(4, 2, 8, batched=True, metadata="annotations")
        self.check_pipeline(2, 2, 4, batched=False, metadata="annotations")

    def test_partners_found_by_ends(self):
        self.check_pipeline(4, 2, 8, batched=True, metadata="none")
        self.check_pipeline(4, 1, 8, batched=False, metadata="none")

    def test_clocks_apart(self):
        # Milliseconds, and no collective connects the stages.
        self.check_pipeline(4, 2, 8, batched=True,
                            clocks=lambda r: [0, 130, 3500, -2200][r % 4] + 11 * r)

    def test_reduction_of_gradients_beside_backward(self):
        self.check(lambda change: truth.data_parallel(4, 12, **(change or {})),
                   [(["kind=collective:x2"], {"all_reduce_factor": 2.0}),
                    (["kind=collective:x0.25"], {"all_reduce_factor": 0.25}),
                    (["name=gemm.*_(tn|nt),rank=2:x1.5"], {"slower": {2: 1.5}})],
                   0.001)

    def test_ring(self):
        # Without metadata nothing but ends says who is in a ring.
        for metadata in ("all", "none"):
            self.check(lambda slower: truth.ring(4, 8, slower),
                       [(["name=gemm:x2"], {r: 2.0 for r in range(4)}),
                        (["name=gemm,rank=2:x1.7"], {2: 1.7})], 0.001, metadata=metadata)

    def test_profiles_of_different_steps(self):
        """Rank 0 recorded steps 3 and 4, the others 4 and 5: lists of collectives are equal, and those
        of step 4 meet, by number or by the marks of steps."""
        steps = (3, 4, 5)
        for metadata in ("numbered", "all", "none"):
            with self.subTest(metadata=metadata):
                self.check(lambda s: truth.data_parallel(4, 12, s, steps=steps),
                           [(["name=gemm.*_(tn|nt),rank=2:x1.5"], {2: 1.5})], 0.001, 4,
                           metadata=metadata, recorded=lambda r: (3, 4) if r == 0 else (4, 5))

    def test_clocks_apart_by_more_than_a_step(self):
        """Refused, unless numbers prove what belongs together."""
        clocks = lambda rank: 1e6 * rank
        self.check(lambda s: truth.data_parallel(4, 12, s), [], 0.001, metadata="numbered",
                   clocks=clocks)
        with tempfile.TemporaryDirectory() as folder:
            truth.data_parallel(4, 12).write(folder, clocks=clocks)
            run = subprocess.run([FORETRACE, "predict", folder], capture_output=True, text=True,
                                 check=False)
        self.assertEqual(run.returncode, 2)
        self.assertIn("rank1.json: the clock of rank 1 seems to be 1000000 us ahead of that of rank 0,"
                      " more than a step", run.stderr)

    def check_buffered(self, stages, batched, **writing):
        last = stages - 1
        self.check(lambda slower: truth.pipeline(stages, 1, 6, batched, slower, buffered_us=12.0),
                   [(["name=gemm.*_tn,rank=0:x1.7"], {(0, "forward"): 1.7}),
                    (["name=gemm.*_nt,rank=0:x2"], {(0, "backward"): 2.0}),
                    (["name=gemm.*_nt,rank=1:x1.5"], {(1, "backward"): 1.5}),
                    ([f"name=gemm.*_nt,rank={last}:x0.4"], {(last, "backward"): 0.4})],
                   0.001, **writing)

    def test_sends_that_are_buffered(self):
        # Gradients go to stages that are there first: only other sends show that they would not wait.
        self.check_buffered(3, False)
        self.check_buffered(2, False)

    def test_batched_sends_that_are_buffered(self):
        self.check_buffered(3, True)
        self.check_buffered(2, True)
        self.check_buffered(3, True, metadata="annotations")

    def test_ring_of_buffered_sends(self):
        for metadata in ("all", "none"):
            self.check(lambda slower: truth.ring(4, 8, slower, buffered_us=12.0),
                       [(["name=gemm:x2"], {r: 2.0 for r in range(4)}),
                        (["name=gemm,rank=2:x1.7"], {2: 1.7})], 0.001, metadata=metadata)

    def test_one_kernel_for_what_the_partner_does_in_two(self):
        self.check(lambda slower: truth.fused_and_separate(6, slower),
                   [(["name=gemm,rank=1:x2"], {1: 2.0}), (["name=gemm,rank=1:x0.3"], {1: 0.3})],
                   0.001)

    def test_broadcasts(self):
        self.check(lambda slower: truth.rooted(4, 8, "broadcast", slower),
                   [(["name=gemm,rank=1:x2"], {1: 2.0}), (["name=gemm,rank=3:x2"], {3: 2.0})],
                   0.001)

    def test_reductions_to_one(self):
        self.check(lambda slower: truth.rooted(4, 8, "reduce", slower),
                   [(["name=gemm,rank=1:x2"], {1: 2.0}), (["name=gemm,rank=3:x2"], {3: 2.0})],
                   0.001)

    def test_ranks_without_a_profile(self):
        """Of 4 ranks, 3 are there. They meet, and the absent one is as slow as they are."""
        for what_if, factors in ((["name=gemm.*_(tn|nt):x1.5"], {r: 1.5 for r in range(4)}),
                                 (["name=gemm.*_(tn|nt),rank=1:x1.5"], {1: 1.5})):
            with tempfile.TemporaryDirectory() as folder:
                truth.data_parallel(4, 12).write(folder)
                os.remove(os.path.join(folder, "rank3.json"))
                expected = truth.data_parallel(4, 12, slower=factors).step_times(3)
                alike = predict(folder, what_if, options=["--allow-missing-ranks", "--absent", "alike"])
                least = predict(folder, what_if, options=["--allow-missing-ranks", "--absent", "never-last"])
                self.assertEqual(len(alike), 3)
                for rank, (p, e) in enumerate(zip(alike, expected)):
                    self.assertAlmostEqual(p / e, 1.0, delta=0.005, msg=f"rank {rank}, {what_if}")
                for low, high in zip(least, alike):
                    self.assertLessEqual(low, high * 1.0001)

    def test_networks_with_ranks_without_a_profile(self):
        """The network takes the place of transfers, not of waiting for the stage that is absent."""
        with tempfile.TemporaryDirectory() as folder:
            truth.megatron(3, 4).write(folder)
            network = ["--network", "fitted", "--platform", "dgx-a100"]
            full = predict(folder, options=network)
            for rank in range(4, 8):
                os.remove(os.path.join(folder, f"rank{rank}.json"))
            present = predict(folder, options=network + ["--allow-missing-ranks", "--absent", "alike"])
            self.assertEqual(len(present), 4)
            for rank, (p, e) in enumerate(zip(present, full)):
                self.assertAlmostEqual(p / e, 1.0, delta=0.10, msg=f"rank {rank}: {p:.1f}, not {e:.1f}")

    def test_network_in_place_of_recorded_transfers(self):
        """All-reduces of 2 MiB that took 600 us after the last arrival take what the network says."""
        run = subprocess.run([FORETRACE, "collective", "all_reduce", "--ranks", "4", "--bytes", "2M",
                              "--topology", "dgx-a100", "--network", "fitted", "--json"],
                             capture_output=True, text=True, check=True)
        factor = json.loads(run.stdout)["rows"][0]["time_us"] / 600.0
        self.assertLess(factor, 0.5)
        with tempfile.TemporaryDirectory() as folder:
            truth.data_parallel(4, 12).write(folder)
            for what_if, slower in (((), {}), (["name=gemm.*_(tn|nt),rank=2:x1.5"], {2: 1.5})):
                expected = truth.data_parallel(4, 12, slower, factor).step_times(3)
                found = predict(folder, what_if,
                                options=["--network", "fitted", "--platform", "dgx-a100"])
                for rank, (p, e) in enumerate(zip(found, expected)):
                    self.assertAlmostEqual(p / e, 1.0, delta=0.001, msg=f"rank {rank}, {what_if}")

    def test_interval_of_ranks_without_a_profile(self):
        """GEMMs a quarter slower on all ranks, of which one is at hand: the change is felt by those that
        it waits for, too."""
        slower = {r: 1.25 for r in range(8)}
        with tempfile.TemporaryDirectory() as folder:
            truth.megatron(3, 4).write(folder)
            for rank in range(1, 8):
                os.remove(os.path.join(folder, f"rank{rank}.json"))
            expected = truth.megatron(3, 4, slower).step_times(3)[0]
            interval = report(folder, ["name=gemm:x1.25"],
                              options=["--allow-missing-ranks"])["absent_ranks"]
        self.assertEqual((interval["absent"], interval["communicators"]), (7, 6))
        self.assertAlmostEqual(interval["changed_alike_us"] / expected, 1.0, delta=0.001)
        self.assertLess(interval["alike_us"], 0.98 * expected)
        self.assertLessEqual(interval["lower_us"], interval["never_last_us"])
        self.assertLess(interval["never_last_us"], 0.9 * expected)
        self.assertGreaterEqual(interval["upper_us"], interval["changed_alike_us"])

    def test_megatron(self):
        cases = [(["name=gemm.*_(tn|nt),rank=5:x1.3"], {5: 1.3}),
                 (["name=gemm.*_(tn|nt),rank=2:x1.3"], {2: 1.3}),
                 (["name=gemm.*_(tn|nt),rank=0-3:x0.6"], {r: 0.6 for r in range(4)})]
        for metadata in ("all", "none"):  # without groups their axes and partners are inferred
            with self.subTest(metadata=metadata):
                self.check(lambda slower: truth.megatron(3, 4, slower), cases, 0.001,
                           metadata=metadata)

    def test_groups_and_exchanges_declared_by_the_user(self):
        """What no profile names: collectives by their stream, sends and receives by who exchanges."""
        with tempfile.TemporaryDirectory() as folder:
            truth.megatron(3, 4).write(folder, metadata="none")
            groups = [("stream 20", [0, 1]), ("stream 20", [2, 3]), ("stream 20", [4, 5]),
                      ("stream 20", [6, 7]), ("stream 24", [0, 4]), ("stream 24", [1, 5]),
                      ("stream 24", [2, 6]), ("stream 24", [3, 7]), ("stream 28", [0, 2]),
                      ("stream 28", [1, 3]), ("stream 28", [4, 6]), ("stream 28", [5, 7])]
            with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
                file.write("exchanges: [[0, 4], [1, 5], [2, 6], [3, 7]]\ngroups:\n")
                for name, ranks in groups:
                    file.write(f"  - {{name: {name}, ranks: {ranks}}}\n")
                file.flush()
                run = subprocess.run([FORETRACE, "inspect", folder, "--json", "--process-groups",
                                      file.name], capture_output=True, text=True, check=True)
        found = json.loads(run.stdout)["communicators"]
        self.assertEqual(sorted((c["name"], c["ranks"]) for c in found if c["declared"]),
                         sorted(groups))
        self.assertEqual(sorted(c["ranks"] for c in found if not c["declared"]),
                         [[0, 4], [1, 5], [2, 6], [3, 7]])

    def test_graphs_of_several_streams(self):
        # Both streams of a graph wait for each other in the recording: the side for its fork, the
        # last kernel for the side.
        self.check(lambda factors: truth.forked_graphs(10, factors),
                   [(["name=_side:x2"], {"side": 2.0}), (["name=_first:x3"], {"first": 3.0}),
                    (["name=_beside:x5"], {"beside": 5.0}), (["name=_last:x0.5"], {"last": 0.5})],
                   0.001)

    def test_gradients_in_larger_buckets(self):
        """Merged from the first on until they hold 8 MB: the first five layers, then four, then the rest.
        The CPU, which then issues fewer collectives, is ahead of the device."""
        recorded, merged = [1, 2, 2, 2, 2, 2, 1], [5, 4, 3]
        self.check(lambda change: truth.bucketed(4, **{"buckets": recorded, **(change or {})}),
                   [(["collective=all_reduce:buckets=8MB"], {"buckets": merged}),
                    (["collective=all_reduce:buckets=8MB", "name=gemm.*_nt,rank=2:x0.3"],
                     {"buckets": merged, "slower": {2: 0.3}})], 0.002)

    def test_gradients_in_smaller_buckets(self):
        """Those of 4 layers become two, that of 6 three; those of 2 hold 4 MB already, and so does the
        last. With 6 MB the first two become one, and those of 6 layers two."""
        recorded = [2, 4, 4, 6, 2, 4]
        self.check(lambda change: truth.bucketed(4, **{"buckets": recorded, **(change or {})}),
                   [(["collective=all_reduce:buckets=4MB"], {"buckets": [2] * 11}),
                    (["collective=all_reduce:buckets=4MB", "name=gemm.*_nt,rank=2:x0.3"],
                     {"buckets": [2] * 11, "slower": {2: 0.3}}),
                    (["collective=all_reduce:buckets=6MB"], {"buckets": [6, 4, 3, 3, 6]})], 0.002)

    def test_work_on_another_stream(self):
        self.check(lambda change: truth.auxiliary(8, **(change or {})),
                   [(["op=topk:stream=50"], {"beside": True}),
                    (["op=topk:stream=50", "op=topk:x9"], {"beside": True, "factor": 9.0})], 0.001)

    def check_prefetching(self, ranks, unnamed_cases=4, steps_checked=(5, 7), **job):
        cases = [(["name=gemm.*_(tn|nt),rank=0:x1.5"], {"slower": {0: 1.5}}),
                 (["kind=memcpy,name=HtoD:x5"], {"copy_us": 4500.0}),
                 (["kind=collective:x3"], {"exchange_factor": 3.0}),
                 (["name=gemm.*_(tn|nt):x0.4"], {"slower": {r: 0.4 for r in range(ranks)}})]
        for events in ("named", "recorded", "absent"):
            known = cases if events == "named" else cases[:unnamed_cases]
            for step in steps_checked:
                with self.subTest(events=events, step=step):
                    self.check(lambda change: truth.prefetching(ranks, **job, **(change or {})),
                               known, 0.001, step, events=events)

    def test_input_distributed_after_forward(self):
        self.check_prefetching(2)

    def test_input_distributed_before_forward(self):
        # With slow collectives, or GEMMs at 0.4, the forward pass waits for the input's distribution,
        # which it never did in the recording: without names nothing shows whom that wait held back.
        self.check_prefetching(2, unnamed_cases=2, order="early")
        self.check_interval(lambda change: truth.prefetching(2, order="early", **(change or {})),
                            [(["kind=collective:x3"], {"exchange_factor": 3.0}),
                             (["name=gemm.*_(tn|nt):x0.4"], {"slower": {0: 0.4, 1: 0.4}})], 5)

    def check_interval(self, build, cases, step):
        """What-ifs that hang on waits which held nothing: the truth lies in between, and the first line
        says so."""
        for events in ("recorded", "absent"):
            with tempfile.TemporaryDirectory() as folder:
                build(None).write(folder, events=events)
                for what_if, change in cases:
                    expected = max(build(change).step_times(step))
                    found = report(folder, what_if, step)
                    interval = found["unshown_waits"]
                    self.assertLess(interval["lower_us"], expected * 1.001)
                    self.assertGreater(interval["upper_us"], expected * 0.999)
                    self.assertLess(interval["upper_us"], expected * 1.25)
                    self.assertIn("the step takes between", found["doubt"])
                unchanged = report(folder, step=step)
                self.assertIsNone(unchanged["unshown_waits"])

    def test_copies_that_wait_for_nothing(self):
        self.check_prefetching(2, reuse=0)

    def test_prefetching_in_other_ways(self):
        for job in ({"reuse": 2}, {"cache": True}, {"gradients": True}, {"throttle": 2},
                    {"uneven": 0.6},
                    {"uneven": 0.4, "gradients": True, "cache": True, "reuse": 2, "throttle": 2}):
            with self.subTest(**job):
                self.check_prefetching(2, steps_checked=(6,), **job)

    def test_recordings_cut_out_of_a_prefetching_job(self):
        """Work that was in flight when recording began, on ranks that began in different steps."""
        for begin in (lambda rank: (4, 7), lambda rank: (4 + rank % 2, 7)):
            self.check(lambda change: truth.prefetching(2, steps=range(9), uneven=0.3,
                                                        **(change or {})),
                       [(["name=gemm.*_(tn|nt),rank=0:x1.5"], {"slower": {0: 1.5}}),
                        (["kind=memcpy,name=HtoD:x5"], {"copy_us": 4500.0}),
                        (["kind=collective:x3"], {"exchange_factor": 3.0})],
                       0.001, 6, events="absent", recorded=begin)

    def test_each_stream_has_a_launch_queue(self):
        for kernels, devices in ((1000, 1), (1100, 1), (1100, 2)):
            self.check(lambda slower: truth.two_queues(kernels, slower, devices),
                       [(["name=long:x0.9"], {"long": 0.9}), (["name=gemm:x2"], {"gemm": 2.0}),
                        (["name=gemm:x0.2"], {"gemm": 0.2})], 0.001)

    def test_prefetching_of_one_rank(self):
        self.check_prefetching(1)


if __name__ == "__main__":
    unittest.main()
