#!/usr/bin/env python3
"""`predict --ranks` against measured jobs of several sizes: how much longer a step takes on more GPUs with the same work on each.

  scripts/scale_study.py [--foretrace BINARY] DATA

The smallest job of each group is generated (no recordings of these jobs are public), its traces are what the larger ones are
predicted from; growth is over the step of the smallest, measured and predicted. Generated ranks come together, so that the
expected step holds the growth of collectives alone, and the upper end a rank that is slower by the published 22 %.
DATA: folder of public data (training_rows). Rows whose runs repeat are averaged. Prints a table in Markdown.
"""
import argparse
import csv
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
MOSAIC, DGXC, TORCHTITAN = "mosaicml_a100_40gb.csv", "dgxc_h100.csv", "torchtitan_llama_8b.csv"
FSDP = "tp1 pp1 dp{dp} mb{mb} gb{gb} zero3 {recompute}"
# (file, columns that rows of the group have, workload, mapping, platform). Boards and recomputation so that it fits, which is not the question.
JOBS = [(MOSAIC, {"model": model, "micro_batch": str(mb), "grad_accum": "1"}, model, FSDP.format(dp="{dp}", mb=mb, gb="{gb}", recompute=recompute),
         "dgx-a100-80gb") for model, mb, recompute in
        (("mpt-13b", 16, "full"), ("mpt-7b", 18, "full"), ("mpt-3b", 6, "none"), ("mpt-1b", 10, "none"), ("mpt-760m", 12, "none"),
         ("mpt-350m", 18, "none"), ("mpt-125m", 26, "none"))] + [
    (DGXC, {"model": "llama3-8B", "cp": "2", "seq": "8192", "precision": "BF16"}, "llama3-8b", "tp1 cp2 pp1 dp{dp} mb1 gb{gb} zero1 full", "dgx-h100"),
    (DGXC, {"model": "gpt3-175B", "tp": "4", "pp": "8", "precision": "BF16"}, "gpt3-175b", "tp4 pp8 dp{dp} mb1 v12 gb{gb} zero1 sp selective", "dgx-h100"),
    (TORCHTITAN, {"model": "llama3.1-8B", "gpu": "H100-96GB HBM2e 500W", "tp": "1", "cp": "1", "seq": "8192", "precision": "bf16"}, "llama3.1-8b",
     FSDP.format(dp="{dp}", mb=2, gb="{gb}", recompute="full"), "h100-96gb-500w")]


def measured(data, file, columns):
    """{GPUs: (mean step s, dp, global batch)}"""
    steps = {}
    with open(data / "training_rows" / file, encoding="utf-8") as rows:
        for row in csv.DictReader(rows):
            if row["step_s"] and all(row[k] == v for k, v in columns.items()):
                steps.setdefault(int(row["gpus"]), []).append((float(row["step_s"]), int(row["dp"]), int(row["global_batch"])))
    return {gpus: (statistics.fmean(s for s, _, _ in runs), runs[0][1], runs[0][2]) for gpus, runs in steps.items()}


def run(foretrace, *arguments):
    done = subprocess.run([foretrace, *map(str, arguments)], cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"scale_study: error: {' '.join(map(str, arguments))}: {done.stderr.strip()}")
    return done.stdout


def study(foretrace, data, job):
    file, columns, workload, mapping, platform = job
    sizes = measured(data, file, columns)
    least = min(sizes)
    _, dp, batch = sizes[least]
    with tempfile.TemporaryDirectory() as folder:
        run(foretrace, "generate", workload, "--platform", platform, "--mapping", mapping.format(dp=dp, gb=batch), "-o", folder)
        predict = lambda *more: json.loads(run(foretrace, "predict", folder, "--json", *more))
        small = predict()["iteration_time_us"]
        for gpus in sorted(sizes)[1:]:
            scale = predict("--platform", platform, "--ranks", gpus)["scale_out"]
            growth = [100 * (scale[f"{end}_us"] / small - 1) for end in ("expected", "upper")]
            yield columns["model"], least, gpus, 100 * (sizes[gpus][0] / sizes[least][0] - 1), *growth


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--foretrace", default=str(ROOT / "build/release/foretrace"))
    parser.add_argument("data", type=pathlib.Path)
    options = parser.parse_args()
    print("| job | from GPUs | to | growth measured % | predicted % | upper end % |\n|---|--:|--:|--:|--:|--:|")
    errors = []
    for job in JOBS:
        for name, least, gpus, truth, expected, upper in study(options.foretrace, options.data.resolve(), job):
            errors.append(expected - truth)
            print(f"| {name} | {least} | {gpus} | {truth:+.1f} | {expected:+.1f} | {upper:+.1f} |", flush=True)
    print(f"\n{len(errors)} larger jobs: mean absolute error of the step {statistics.fmean(map(abs, errors)):.1f} %, "
          f"bias {statistics.fmean(errors):+.1f} %")


if __name__ == "__main__":
    main()
