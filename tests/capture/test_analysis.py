"""What is computed from recordings and clocks, on made-up recordings with known answers."""
import unittest
from types import SimpleNamespace
from unittest import mock

import support_path  # noqa: F401
from support import kernel_shapes, overheads, timing, trace_files


class SegmentsTest(unittest.TestCase):
    def test_markers_and_delimiters_split_what_ran(self):
        # (start, duration, name), out of order; set-up segment, then two repeats of two kernels.
        events = [(40, 3.0, "gemm"), (0, 9.0, "before any marker"), (5, 1.0, "x::spin_kernel(long)"),
                  (10, 7.0, "fill in set-up"), (20, 1.0, "spin_kernel"), (30, 2.0, "bitwise_not_kernel"),
                  (50, 4.0, "bias"), (60, 2.0, "bitwise_not_kernel"), (70, 3.5, "gemm"), (80, 4.5, "bias")]
        self.assertEqual(timing.split_segments(events), [[], [7.0, 8.0]])

    def test_no_events_give_no_segments(self):
        self.assertEqual(timing.split_segments([]), [])


class FakeGpu:
    """Just enough of PyTorch for CuptiTimer: a clock, and a list of what ran on the device."""

    def __init__(self):
        self.ran, self.clock = [], 0
        self.cuda = SimpleNamespace(_sleep=lambda cycles: self.run("spin_kernel", 1.0),
                                    synchronize=lambda: self.run("Context Sync", 50.0),
                                    is_available=lambda: True, empty_cache=lambda: None)
        self.profiler = SimpleNamespace(profile=self.profile,
                                        ProfilerActivity=SimpleNamespace(CUDA="CUDA"))
        self.int32 = "int32"

    def zeros(self, count, dtype, device):
        name, duration = ("vectorized<bitwise_not>", 30.0 if count > 1 else 1.0)
        return SimpleNamespace(bitwise_not_=lambda: self.run(name, duration))

    def run(self, name, duration):
        self.ran.append((self.clock, duration, name))
        self.clock += 1000

    def profile(self, activities):
        def event(start, duration, name):
            return SimpleNamespace(device_type=lambda: "DeviceType.CUDA", name=lambda: name,
                                   start_ns=lambda: start, duration_ns=lambda: duration * 1e3)
        results = SimpleNamespace(events=lambda: [event(*e) for e in self.ran])
        return SimpleNamespace(start=lambda: None, stop=lambda: None,
                               profiler=SimpleNamespace(kineto_results=results))


class CuptiTimerTest(unittest.TestCase):
    def measure(self, *jobs):
        gpu = FakeGpu()
        with mock.patch.object(timing, "import_torch", lambda: gpu), \
                mock.patch.object(timing, "l2_bytes", lambda device: 1 << 20):
            timer = timing.CuptiTimer(SimpleNamespace(type="cuda"), repeats=4, warmup=2)
            return timer.measure([job(gpu) for job in jobs])

    def test_only_the_calls_own_kernels_count(self):
        def job(gpu):
            def build():
                gpu.run("set-up fill", 500.0)
                return lambda: (gpu.run("gemm", 7.0), gpu.run("bias", 2.0))
            return timing.Job({"op": "linear"}, build, cold=True)
        outcome = self.measure(job, job)
        self.assertEqual([s.time_us for _, s in outcome.samples], [9.0, 9.0])
        self.assertEqual([s.repeats for _, s in outcome.samples], [4, 4])

    def test_a_failing_job_does_not_shift_the_others(self):
        def good(gpu):
            return timing.Job({"op": "good"}, lambda: lambda: gpu.run("k", 5.0))

        def fails_in_build(gpu):
            def build():
                gpu.run("half a set-up", 100.0)
                raise RuntimeError("CUDA out of memory\nmore")
            return timing.Job({"op": "bad"}, build)

        def launches_nothing(gpu):
            return timing.Job({"op": "view"}, lambda: lambda: None)
        outcome = self.measure(good, fails_in_build, launches_nothing, good)
        self.assertEqual([s.time_us for _, s in outcome.samples], [5.0, 5.0])
        self.assertEqual([(job.row["op"], why[:18]) for job, why in outcome.failures],
                         [("bad", "CUDA out of memory"), ("view", "the profiler recor")])


def annotation(name, ts, dur):
    return {"ph": "X", "cat": "user_annotation", "name": name, "ts": ts, "dur": dur}


def call(name, ts, dur, correlation):
    return {"ph": "X", "cat": "cuda_runtime", "name": name, "ts": ts, "dur": dur,
            "args": {"correlation": correlation}}


def kernel(name, ts, dur, correlation):
    return {"ph": "X", "cat": "kernel", "name": name, "ts": ts, "dur": dur,
            "args": {"correlation": correlation}}


class OverheadsTest(unittest.TestCase):
    def test_each_overhead_is_read_where_it_shows(self):
        recording = overheads.Recording([
            annotation("launch_latency", 0, 100),
            call("cudaLaunchKernel", 10, 4, 1), kernel("add", 16, 2, 1),
            annotation("kernel_gap", 200, 100),
            call("cudaLaunchKernel", 200, 5, 2), kernel("spin_kernel", 210, 100, 2),
            call("cudaLaunchKernel", 206, 3, 3), kernel("add", 311, 2, 3),
            call("cudaLaunchKernel", 210, 3, 4), kernel("add", 314, 2, 4),
            annotation("event_latency", 400, 100),
            call("cudaLaunchKernel", 400, 5, 5), kernel("spin_kernel", 410, 50, 5),
            call("cudaLaunchKernel", 420, 5, 6), kernel("add", 464.5, 2, 6),
            annotation("sync_return", 600, 100),
            call("cudaLaunchKernel", 600, 5, 7), kernel("spin_kernel", 610, 50, 7),
            call("cudaDeviceSynchronize", 606, 63, 8)])
        found = {name: measure(recording) for name, measure in overheads.MEASURED.items()}
        self.assertEqual(found, {"launch_latency": [6], "launch_call": [3, 3], "kernel_gap": [1],
                                 "event_latency": [4.5], "sync_return": [9]})

    def test_queue_depth_is_the_first_call_that_blocks(self):
        seconds = [4e-6] * 1020 + [0.2] + [4e-6] * 100
        self.assertEqual(overheads.queue_depth(seconds), 1021)
        self.assertIsNone(overheads.queue_depth([4e-6] * 500))
        self.assertIsNone(overheads.queue_depth([]))


class LinkTest(unittest.TestCase):
    def test_names_in_order_are_linked_and_gaps_stepped_over(self):
        def event(number, name, thread=1):
            return SimpleNamespace(id=number, name=name, thread=thread, function_id=None)

        def node(number, name):
            return {"id": number, "name": name, "rf_id": number + 100, "tid": 1}
        events = [event(1, "before"), event(2, "a"), event(3, "b"), event(4, "extra"), event(5, "a"),
                  event(6, "a", thread=2)]
        linked, missed = trace_files.link(events, [node(9, "a"), node(8, "b"), node(7, "a"),
                                                   node(10, "unknown")])
        self.assertEqual((linked, missed), (3, 1))
        self.assertEqual([e.function_id for e in events], [None, 107, 108, None, 109, None])


class ShapesTest(unittest.TestCase):
    def test_full_lists_are_as_long_as_promised_and_repeat(self):
        for name, least in (("linear", 300), ("bmm", 300), ("conv2d", 300), ("softmax", 0)):
            make = kernel_shapes.rows_by_columns if name == "softmax" else getattr(kernel_shapes, name)
            shapes = make("full", kernel_shapes.seeded(1, name))
            self.assertEqual(shapes, make("full", kernel_shapes.seeded(1, name)))
            self.assertEqual(len({tuple(s.items()) for s in shapes}), len(shapes))
            self.assertGreaterEqual(len(shapes), least or 100)


if __name__ == "__main__":
    unittest.main()
