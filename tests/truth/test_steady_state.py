"""Periods of jobs of known timing that go on after their recording."""

import tempfile
import unittest

import job as truth
from predictions import difference, report, text


class SteadyState(unittest.TestCase):
    """The period of a job of which a few steps were recorded, against the same job after many."""

    def check(self, build, recorded, steps, cases, iteration="1"):
        """`build`: (steps, factor of the kernels); `cases`: (what-if, the factor)."""
        with tempfile.TemporaryDirectory() as folder:
            build(recorded, 1.0).write(folder)
            for what_if, factor in [((), 1.0)] + cases:
                expected = build(steps, factor).period()
                step = report(folder, what_if, iteration)["step"]
                self.assertTrue(step["settled"])
                self.assertAlmostEqual(step["period_us"] / expected, 1.0, delta=0.001,
                                       msg=f"{what_if or 'as recorded'}: {step}, not {expected:.1f}")

    def test_cpu_running_ahead(self):
        # 150 kernels of 25 us in a step, which the CPU issues in some 1.7 ms.
        self.check(lambda steps, factor: truth.run_ahead(steps, 150, 25.0, factor), 4, 14,
                   [(["name=gemm:x2"], 2.0), (["name=gemm:x0.8"], 0.8), (["op=aten::mm:x3"], 3.0)])

    def test_tables_are_of_the_step_where_the_cpu_is_ahead(self):
        """Between its marks the device works on steps before it."""
        job = truth.run_ahead(4, 150, 25.0, 1.0)
        with tempfile.TemporaryDirectory() as folder:
            job.write(folder)
            for step in ("1", "3"):
                answer = report(folder, (), step)
                period = job.period()
                self.assertAlmostEqual(answer["step_time_us"] / period, 1.0, delta=0.001)
                self.assertLess(answer["iteration_time_us"], 0.5 * period)
                path = answer["critical_path"]
                self.assertAlmostEqual(path["total_us"] / period, 1.0, delta=0.001)
                self.assertGreater(path["activities_us"]["compute"], 0.9 * period)
                gemms = answer["top_kernels"][0]
                self.assertEqual(gemms["count"], 150)
                self.assertAlmostEqual(gemms["time_us"], 150 * 25.0, delta=1)
                rank = answer["ranks"][0]
                self.assertAlmostEqual(rank["window_us"] / period, 1.0, delta=0.001)
                self.assertAlmostEqual(rank["busy_us"] + rank["idle_us"], rank["window_us"], delta=0.01)
                self.assertAlmostEqual(answer["baseline_us"], 150 * 25.0, delta=10)
            # A first step has no completion before it: from its begin mark until its work is done.
            answer = report(folder, (), "0")
            first, rank = answer["critical_path"], answer["ranks"][0]
            self.assertTrue(answer["by_completion"])
            self.assertGreater(first["activities_us"]["compute"], 0.9 * first["total_us"])
            self.assertAlmostEqual(rank["recorded_window_us"] / rank["window_us"], 1.0, delta=0.001)
            tables = text(folder, (), "0")
            self.assertIn("Streams: work, % from its begin mark until its work is done", tables)
            self.assertIn("blocked: of the time between the marks", tables)
            self.assertNotIn("from one completion to the next", tables)

    def test_work_between_the_marks_of_two_steps(self):
        """An evaluation between steps belongs to the verdict's step, so to what explains it."""
        with tempfile.TemporaryDirectory() as folder:
            truth.data_parallel(2, 4, steps=(3, 4, 5), between_us=800.0).write(folder)
            answer = report(folder, (), "5")
            self.assertAlmostEqual(answer["step_time_us"] - answer["iteration_time_us"], 800.0, delta=10)
            self.assertAlmostEqual(answer["critical_path"]["total_us"] / answer["step_time_us"], 1.0, delta=0.001)
            self.assertGreater(answer["critical_path"]["activities_us"]["cpu"], 800.0)
            self.assertNotIn("ahead", " ".join(answer["notes"]))

    def test_difference_of_a_first_step(self):
        """Of two steps the first is taken, which no completion is before; its marks say nothing of its device."""
        with tempfile.TemporaryDirectory() as folder:
            truth.run_ahead(2, 150, 25.0, 1.0).write(folder)
            found = difference(folder, "name=gemm:x2")
            self.assertEqual(found["definition"], "completion")
            self.assertAlmostEqual(found["difference_us"], 150 * 25.0, delta=1)

    def test_cpu_overtaken_by_the_device(self):
        self.check(lambda steps, factor: truth.run_ahead(steps, 150, 25.0, factor), 4, 14,
                   [(["name=gemm:x0.1"], 0.1)])

    def test_full_launch_queue(self):
        self.check(lambda steps, factor: truth.run_ahead(steps, 500, 25.0, factor), 5, 12,
                   [(["name=gemm:x2"], 2.0), (["name=gemm:x0.8"], 0.8)], iteration="4")

    def check_cut_out(self, build, recorded, cases):
        """`build`: factor of the kernels -> job; of which some steps in the middle are recorded."""
        for in_flight in (True, False):
            with tempfile.TemporaryDirectory() as folder:
                build(1.0).write(folder, recorded=lambda rank: recorded, in_flight=in_flight)
                for what_if, factor in [((), 1.0)] + cases:
                    expected = build(factor).period()
                    for step in range(recorded[0], recorded[1] + 1):
                        found = report(folder, what_if, step)["step"]["period_us"]
                        self.assertAlmostEqual(found / expected, 1.0, delta=0.001,
                                               msg=f"in flight {in_flight}, step {step}, {what_if}: "
                                                   f"{found:.1f} us, not {expected:.1f}")

    def test_recording_begins_with_the_cpu_ahead(self):
        # Some 250 kernels of steps before are in flight, of which the recording holds all, or none.
        cases = [(["name=gemm:x2"], 2.0), (["name=gemm:x0.8"], 0.8)]
        self.check_cut_out(lambda factor: truth.run_ahead(14, 150, 25.0, factor), (4, 6), cases)
        self.check_cut_out(lambda factor: truth.run_ahead(14, 20, 8.0, factor, graphs=12), (4, 6),
                           cases)

    def test_recording_begins_with_a_full_queue(self):
        # Every launch recorded waits for room.
        self.check_cut_out(lambda factor: truth.run_ahead(14, 500, 25.0, factor), (8, 10),
                           [(["name=gemm:x2"], 2.0), (["name=gemm:x0.8"], 0.8)])

    def test_graphs(self):
        self.check(lambda steps, factor: truth.run_ahead(steps, 20, 8.0, factor, graphs=12), 4, 14,
                   [(["name=gemm:x2"], 2.0), (["name=gemm:x5"], 5.0)])


if __name__ == "__main__":
    unittest.main()
