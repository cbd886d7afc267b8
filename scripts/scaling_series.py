#!/usr/bin/env python3
"""How much longer a step takes on more GPUs, measured and predicted, of published jobs that differ by their GPUs alone.

  scripts/scaling_series.py [--foretrace BINARY] DATA

Rows of `training_rows` that agree in everything else (same work on each GPU) are a series, whose growth is over its smallest job;
repeated rows are averaged. Every row is predicted by itself (`validate --calibration none --mappings`). Prints a table in Markdown.
DATA: folder of public data.
"""
import argparse
import csv
import json
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FILES = ("dgxc_h100", "mosaicml_a100_40gb", "torchtitan_llama_8b", "bloom_v100")
ALIKE = ("table", "model", "layers", "seq", "gpu", "tp", "pp", "cp", "vp", "ep", "micro_batch", "grad_accum", "precision", "sharding",
         "recompute", "framework", "date")


def judged(foretrace, file):
    """Rows of a table with what `validate` says of them."""
    command = [foretrace, "validate", "--calibration", "none", "--mappings", str(file), "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"scaling_series: error: {file}: {done.stderr.strip()}")
    with open(file, encoding="utf-8") as text:
        rows = list(csv.DictReader(text))
    for case in json.loads(done.stdout)["cases"]:
        if "error_percent" in case:
            yield rows[int(case["name"].rsplit(":", 1)[1]) - 2], case


def series(foretrace, data):
    """[(row of the smallest job, GPUs of it, of the largest, growth measured %, predicted %)]"""
    found = []
    for file in FILES:
        jobs = {}
        for row, case in judged(foretrace, data / "training_rows" / f"{file}.csv"):
            work = float(row["global_batch"]) / int(row["gpus"])
            sizes = jobs.setdefault(tuple(row[key] for key in ALIKE), {})
            sizes.setdefault(int(row["gpus"]), []).append((row, case["measured_s"] / work, case["predicted_s"] / work))
        for sizes in jobs.values():
            least, most = min(sizes), max(sizes)
            growth = [100 * (statistics.fmean(r[i] for r in sizes[most]) / statistics.fmean(r[i] for r in sizes[least]) - 1) for i in (1, 2)]
            if most > least:
                found.append((sizes[least][0][0], least, most, *growth))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--foretrace", default=str(ROOT / "build/release/foretrace"))
    parser.add_argument("data", type=pathlib.Path)
    options = parser.parse_args()
    print("| job | software | precision | from GPUs | to | growth measured % | predicted % |\n|---|---|---|--:|--:|--:|--:|")
    all_series = series(options.foretrace, options.data.resolve())
    for row, least, most, truth, predicted in all_series:
        print(f"| {row['model']} | {row['framework']} {row['date']} | {row['precision']} | {least} | {most} | {truth:+.1f} | {predicted:+.1f} |")
    within = sum(abs(predicted - truth) <= 1.5 for *_, truth, predicted in all_series)
    print(f"\n{within} of {len(all_series)} series are within 1.5 points")


if __name__ == "__main__":
    main()
