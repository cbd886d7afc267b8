#!/usr/bin/env python3
"""Measures what launching and waiting cost on a GPU: launch latency, launch call, gap between kernels,
latency of an event between streams, return from a synchronisation, depth of the launch queue.

Writes the neutral CSV schema (README.md); on an existing table it measures only what is missing.
"""
import json
import os
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from support import overheads  # noqa: E402
from support.device import library_name, need_gpu, pick_device, platform_name, provenance  # noqa: E402
from support.run import Budget, Refusal, benchmark_parser, import_torch, message, run_main  # noqa: E402
from support.table import TableWriter, make_row  # noqa: E402
from support.timing import summarise  # noqa: E402

SOURCE = "foretrace scripts/capture/bench_overheads.py"


def exercise(torch, device, count):
    """The calls that show each overhead, each kind inside an annotation of its name."""
    x, y = torch.zeros(1, device=device), torch.zeros(1, device=device)
    other = torch.cuda.Stream()
    note = torch.profiler.record_function
    with note("launch_latency"):
        for _ in range(count):
            x.add_(1)
            torch.cuda.synchronize()
    with note("kernel_gap"):
        for _ in range(max(count // 20, 1)):
            torch.cuda._sleep(4_000_000)
            for _ in range(40):
                x.add_(1)
            torch.cuda.synchronize()
    with note("event_latency"):
        for _ in range(count):
            event = torch.cuda.Event()
            torch.cuda._sleep(200_000)
            event.record()
            with torch.cuda.stream(other):
                other.wait_event(event)
                y.add_(1)
            torch.cuda.synchronize()
    with note("sync_return"):
        for _ in range(count):
            torch.cuda._sleep(200_000)
            torch.cuda.synchronize()


def record(torch, device, count):
    """A Kineto trace of `exercise`, as its list of events."""
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as warm:  # CUPTI's first session is slow
        exercise(torch, device, 3)
    del warm
    with torch.profiler.profile(activities=activities) as profiler:
        exercise(torch, device, count)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        profiler.export_chrome_trace(path)
        with open(path, encoding="utf-8") as file:
            return json.load(file)["traceEvents"]


def queue_depths(torch, device, repeats, launches=4000):
    x, found = torch.zeros(1, device=device), []
    for _ in range(repeats):
        torch.cuda.synchronize()
        torch.cuda._sleep(600_000_000)  # about 0.3 s: longer than filling the queue takes
        seconds = []
        for _ in range(launches):
            begin = time.perf_counter()
            x.add_(1)
            seconds.append(time.perf_counter() - begin)
        torch.cuda.synchronize()
        depth = overheads.queue_depth(seconds)
        if depth:
            found.append(float(depth))
    return found


def main():
    parser = benchmark_parser(__doc__)
    options = parser.parse_args()
    need_gpu(options.device, "launch and synchronisation overheads")
    device = pick_device(options.device, cpu_helps=False)
    torch = import_torch()
    budget = Budget(options.budget_seconds)
    table = TableWriter(options.output, provenance(device, options, SOURCE, {
        "timing": "from a Kineto trace of calls made to show each overhead; time_us is the median, std_us "
                  "the standard deviation over repeats; queue_depth: time_us is a number of launches"}))
    rows = {name: make_row("overhead", "overhead", "-", platform_name(device, options.platform), "-",
                           {"name": name}, library_name(), SOURCE)
            for name in list(overheads.MEASURED) + ["queue_depth"]}
    missing = [name for name, row in rows.items() if not table.has(row)]
    if any(name in missing for name in overheads.MEASURED):
        recording = overheads.Recording(record(torch, device, 20 if options.tiny else 200))
        if not recording.kernels:
            raise Refusal("the profiler recorded no kernels; PyTorch needs Kineto with CUPTI here")
        for name, measure in overheads.MEASURED.items():
            _add(table, rows[name], measure(recording), name)
    if "queue_depth" in missing and not budget.expired():
        _add(table, rows["queue_depth"], queue_depths(torch, device, 2 if options.tiny else 5),
             "queue_depth")
    table.close()
    message("%s: %d rows added to %d" % (options.output, table.added, table.resumed))
    return 0


def _add(table, row, values, name):
    values = [v for v in values if v > 0]
    if not values:
        message("not measured: %s: it does not show in the recording" % name)
        return
    sample = summarise(values)
    table.add(dict(row, time_us="%.6g" % sample.time_us, std_us="%.4g" % sample.std_us,
                   repeats=str(sample.repeats)))


if __name__ == "__main__":
    run_main(main)
