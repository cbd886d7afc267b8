#!/usr/bin/env python3
"""How far durations from models are off on a job of which only TraceLens's table of operators is public.

  scripts/operator_table_study.py TABLES [--device NAME] [--calibration NAME] [--foretrace build/release/foretrace]
                                  [--profile OUT.json] [--calls N]

TABLES is a folder or tar archive with ops_unique_args.csv: each distinct call with its kernels' mean times and how often
it ran. Of it a profile is made with each call once (--profile keeps it), of which the times are then modelled
(`foretrace validate --durations model`). Printed is a row an operator: its share of the job's device time, the error of
calls weighted by their time, and the bias of the sum; then the calls that err most (--calls). Tables have no launches, so
that what a kernel's blocks would say is not used. Nothing is set with the answers.
"""
import argparse
import ast
import csv
import io
import json
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile

from accuracy_rows import table

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE = "ops_unique_args.csv"
LAUNCHES = {"gpu_memset": "cudaMemsetAsync", "gpu_memcpy": "cudaMemcpyAsync", "kernel": "cudaLaunchKernel"}


def read_table(path):
    if path.is_dir():
        found = sorted(path.rglob(TABLE))
        text = found[0].read_text(encoding="utf-8") if found else None
    else:
        with tarfile.open(path) as tar:
            members = [m for m in tar.getmembers() if pathlib.PurePath(m.name).name == TABLE]
            text = tar.extractfile(members[0]).read().decode() if members else None
    if text is None:
        sys.exit(f"{path}: no {TABLE} in it")
    csv.field_size_limit(1 << 30)
    return list(csv.DictReader(io.StringIO(text)))


def literal(text):
    """Of a Python value as upstream's tool writes it."""
    try:
        return ast.literal_eval(re.sub(r"np\.float64\(([^)]*)\)", r"\1", text))
    except (ValueError, SyntaxError):
        return []


def lists(value):
    return [lists(v) for v in value] if isinstance(value, (list, tuple)) else value


def kernels_of(row):
    """[(category, name, us)] of one call."""
    count = int(row["operation_count"])
    kernels = []
    for kernel in literal(row["kernel_details_summary"]):
        name = kernel["name"]
        category = "gpu_memset" if name.startswith("Memset") else "gpu_memcpy" if name.startswith("Memcpy") else "kernel"
        kernels += [(category, name, kernel["mean_duration_us"])] * max(round(kernel["count"] / count), 1)
    return kernels


def calls_of(rows):
    """[(row, kernels)] of rows that ran on the device; copies whose bytes no table states are left out."""
    calls = [(row, kernels_of(row)) for row in rows]
    return [(row, kernels) for row, kernels in calls if kernels and not any(c == "gpu_memcpy" for c, _, _ in kernels)]


def profile(calls, device):
    events, clock, correlation = [], 1000.0, 0
    for number, (row, kernels) in enumerate(calls, 1):
        shared = {"External id": number}
        arguments = dict(shared)
        for column in ("Input Dims", "Input type", "Input Strides", "Concrete Inputs"):
            if literal(row[column]):
                arguments[column] = lists(literal(row[column]))
        events.append({"ph": "X", "cat": "cpu_op", "name": row["name"], "pid": 1, "tid": 1, "ts": clock,
                       "dur": 4.0 * len(kernels) + 4, "args": arguments})
        on_device = clock + 6
        for i, (category, name, us) in enumerate(kernels):
            correlation += 1
            linked = dict(shared, correlation=correlation)
            events.append({"ph": "X", "cat": "cuda_runtime", "name": LAUNCHES[category], "pid": 1, "tid": 1,
                           "ts": clock + 1 + 4 * i, "dur": 3.0, "args": linked})
            of_device = dict(linked, stream=7, device=0, **({"bytes": 4} if category == "gpu_memset" else {}))
            events.append({"ph": "X", "cat": category, "name": name, "pid": 0, "tid": 7, "ts": on_device, "dur": us,
                           "args": of_device})
            on_device += us + 1
        clock = on_device + 10
    events.insert(0, {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#0", "pid": 1, "tid": 1, "ts": 999.0,
                      "dur": clock - 999, "args": {}})
    return {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": device}],
            "distributedInfo": {"rank": 0, "world_size": 1}, "traceEvents": events}


def modelled(foretrace, trace, calibration, rows):
    subprocess.run([foretrace, "validate", "--trace", trace, "--durations", "model", "--calibration", calibration,
                    "--rows", rows], check=True, capture_output=True, text=True)
    with open(rows, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def weighted(calls, rows):
    """[(times that it ran, row)]. Rows stand in an order of their own: by name and recorded time."""
    by_name = {}
    for row, kernels in calls:
        by_name.setdefault(row["name"], []).append((sum(us for _, _, us in kernels), int(row["operation_count"])))
    matched = []
    for row in rows:
        recorded = float(row["recorded_us"])
        near = min(by_name.get(row["call"], []), key=lambda c: abs(c[0] - recorded), default=(0, 1))
        matched.append((near[1] if abs(near[0] - recorded) <= 0.02 + 1e-3 * recorded else 1, row))
    return matched


def summary(matched):
    operators = {}
    for count, row in matched:
        recorded, predicted = count * float(row["recorded_us"]), count * float(row["modelled_us"])
        sums = operators.setdefault(row["operator"], [0, 0.0, 0.0, 0.0])
        for i, value in enumerate((count, recorded, predicted, abs(predicted - recorded))):
            sums[i] += value
    operators["all"] = [sum(s[i] for s in operators.values()) for i in range(4)]
    whole = operators["all"][1]
    for name, (count, recorded, predicted, error) in sorted(operators.items(), key=lambda item: -item[1][1]):
        if recorded >= 0.002 * whole:
            yield [name, str(count), f"{100 * recorded / whole:.1f}", f"{100 * error / recorded:.1f}",
                   f"{100 * (predicted / recorded - 1):+.1f}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", type=pathlib.Path)
    parser.add_argument("--device", default="NVIDIA H100 80GB HBM3", help="that the job ran on, as its driver names it")
    parser.add_argument("--calibration", default="h100-sxm5-nvswitch")
    parser.add_argument("--foretrace", default=str(ROOT / "build" / "release" / "foretrace"))
    parser.add_argument("--profile", type=pathlib.Path, help="write the profile here")
    parser.add_argument("--calls", type=int, default=0, help="how many of the calls that err most to list")
    arguments = parser.parse_args()
    calls = calls_of(read_table(arguments.tables))
    with tempfile.TemporaryDirectory() as folder:
        trace = arguments.profile or pathlib.Path(folder) / "profile.json"
        trace.write_text(json.dumps(profile(calls, arguments.device)), encoding="utf-8")
        rows = modelled(arguments.foretrace, str(trace), arguments.calibration, str(pathlib.Path(folder) / "rows.csv"))
    matched = weighted(calls, rows)
    print(table(["Operator", "Calls", "Time %", "By time, %", "Bias %"], list(summary(matched))))
    error = {id(row): count * abs(float(row["modelled_us"]) - float(row["recorded_us"])) for count, row in matched}
    for count, row in sorted(matched, key=lambda m: -error[id(m[1])])[:arguments.calls]:
        print(f"{count:6d} x {float(row['recorded_us']):10.1f} us, modelled {float(row['modelled_us']):10.1f}  {row['call']}"
              f"  {row['shape']}  {row['kernel'][:100]}")


if __name__ == "__main__":
    main()
