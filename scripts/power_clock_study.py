#!/usr/bin/env python3
"""How the rates of large GEMMs go with what ran before them, in the captured training jobs (traces/captured).

  scripts/power_clock_study.py [--foretrace build/release/foretrace] [ARCHIVE]

GEMMs in 16 bits with 2,048 of each dimension at least, which the board's power holds back: FLOP by time as recorded
against the mean power of what ran until and during each, which looks back by a window (GEMMs 1, attention
0.7, copies 0.1, others 0.556 and, under 10 us, 0.3: simulator/cost/power/power_clock.h). A row a window: slope of
the logarithms, weighted by time, and the root mean square of what one rate for all, the slope and a slope of -1/3,
which a clock that holds the mean power at a limit has, leave, in per cent.
"""
import argparse
import bisect
import csv
import json
import math
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile

from accuracy_rows import table

ROOT = pathlib.Path(__file__).resolve().parent.parent
ARCHIVE = ROOT / "traces" / "captured" / "h100-sxm5" / "llama-training.tar.xz"
CALIBRATION = "h100-sxm5-nvswitch"
WINDOWS_MS = (10, 20, 40, 60, 80, 120, math.inf)
LEAST = 2048  # of a dimension
SHARES = {"gemm": 1, "attention": 0.7, "copy": 0.1}
CLEARING_US = 2.6  # of the memory that some GEMMs clear first, within the call's time


def large_gemms(foretrace, archive, job):
    """[(recorded us, FLOP)] of calls, sorted."""
    with tempfile.TemporaryDirectory() as folder:
        rows = pathlib.Path(folder) / "rows.csv"
        subprocess.run([foretrace, "validate", "--trace", f"{archive}:{job}", "--durations", "model", "--calibration",
                        CALIBRATION, "--rows", rows], check=True, capture_output=True)
        calls = list(csv.DictReader(rows.open()))
    found = []
    for call in calls:
        sizes = re.match(r"in (\d+)x(\d+) (\d+)x(\d+)", call["shape"])
        if call["operator"] != "gemm" or not sizes:
            continue
        m, k, first, second = map(int, sizes.groups())
        if k in (first, second):
            n = second if first == k else first
            if min(m, n, k) >= LEAST:
                found.append((float(call["recorded_us"]), 2 * m * k * n))
    return sorted(found)


def kind_of(event):
    if event["cat"] != "kernel":
        return "copy"
    name = event["name"]
    if "sdpa" in name or "flash" in name:
        return "attention"
    return "gemm" if "nvjet" in name or "gemm" in name else "other"


def timeline(archive, job):
    """[(start us, duration us, power, kind)] of the device's work."""
    with tarfile.open(archive) as tar:
        [name] = [n for n in tar.getnames() if n.startswith(job + "/") and "kineto" in n]
        events = json.load(tar.extractfile(name))["traceEvents"]
    device = [e for e in events if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
    work = []
    for event in sorted(device, key=lambda e: e["ts"]):
        share = SHARES.get(kind_of(event), 0.556 if event["dur"] > 10 else 0.3)
        work.append((event["ts"], event["dur"], share, kind_of(event)))
    return work


def means(work, window_us):
    """The mean power in the middle of each kernel."""
    span = work[-1][0] + work[-1][1] - work[0][0]
    mean = sum(duration * power for _, duration, power, _ in work) / span
    if math.isinf(window_us):
        return [mean] * len(work)
    result, end = [], work[0][0]
    for start, duration, power, _ in work:
        mean *= math.exp(-max(0, start - end) / window_us)
        result.append(power + (mean - power) * math.exp(-duration / 2 / window_us))
        mean = power + (mean - power) * math.exp(-duration / window_us)
        end = start + duration
    return result


def points(work, gemms, window_us):
    """[(log of the mean power, log of the rate, time)] of large GEMMs."""
    times = [recorded for recorded, _ in gemms]
    for (_, duration, _, kind), mean in zip(work, means(work, window_us)):
        at = bisect.bisect_left(times, duration - 0.01)
        if kind == "gemm" and at < len(gemms) and times[at] - duration < CLEARING_US:
            yield math.log(mean), math.log(gemms[at][1] / duration), duration


def fit(data):
    total = sum(w for _, _, w in data)
    x0 = sum(x * w for x, _, w in data) / total
    y0 = sum(y * w for _, y, w in data) / total
    slope = sum((x - x0) * (y - y0) * w for x, y, w in data) / max(sum((x - x0) ** 2 * w for x, _, w in data), 1e-12)
    return slope, *(100 * math.sqrt(sum((y - y0 - s * (x - x0)) ** 2 * w for x, y, w in data) / total)
                    for s in (0, slope, -1 / 3))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--foretrace", default=ROOT / "build/release/foretrace")
    parser.add_argument("archive", nargs="?", type=pathlib.Path, default=ARCHIVE)
    arguments = parser.parse_args()
    with tarfile.open(arguments.archive) as tar:
        jobs = sorted({name.split("/")[0] for name in tar.getnames()})
    # Of a job in 8 bits the shapes do not say which GEMMs are.
    studied = [(timeline(arguments.archive, job), large_gemms(arguments.foretrace, arguments.archive, job))
               for job in jobs if "fp8" not in job]
    rows = []
    for window in WINDOWS_MS:
        data = [p for work, gemms in studied for p in points(work, gemms, window * 1e3)]
        slope, *left = fit(data)
        name = "the job" if math.isinf(window) else f"{window} ms"
        rows.append((name, str(len(data)), f"{slope:+.2f}", *(f"{rms:.2f}" for rms in left)))
    print(table(("Window", "GEMMs", "Slope", "One rate, %", "With the slope, %", "With -1/3, %"), rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
