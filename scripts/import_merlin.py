#!/usr/bin/env python3
"""NVIDIA Merlin's synthetic recommenders as tasks of `foretrace shard`, one for each measured run.

  scripts/import_merlin.py $D/embedding -o tasks [--measure]

SOURCE is the folder of merlin_synthetic_{tables,models,times}.csv. Without a measured run, a model has a task
of --gpus. Indices are drawn by a power law of the stated alpha; ranks get the indices of their own tables;
Adagrad keeps a value for each weight; the model has no bottom layers, numerical features join the
concatenated (and, where the model says so, averaged) vectors. Lookups are those of the software that was
measured (topologies/lookups/), which deals tables by size. The threshold above which a run sliced tables by
columns is not stated: taken is the only one that upstream names, in its example command (1280 Mi elements;
examples/benchmarks/synthetic_models/README.md there). --measure runs `foretrace shard` on each and prints
the time of the software's own placement, and of the best plan found, beside the measured one.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys

import import_common as common

HERE = pathlib.Path(__file__).resolve().parent
STACK = "distributed-embeddings-0.1"
SLICE_ELEMENTS = 1280 * 2**20
FUSION_MB = 134.217728  # Horovod's fusion threshold, 128 MiB


def rows(folder, name, columns):
    return list(common.read_csv(name, (folder / name).read_text("utf-8-sig"), columns))


def tables(groups, alpha):
    lines = []
    for group in groups:
        hotness = [int(h) for h in group["hotness_of_inputs"].split()]
        for table in range(int(group["tables"])):
            lookups = f"inputs: {hotness}" if len(hotness) > 1 else f"pooling: {hotness[0]}"
            lines.append(f"  - {{name: g{group['group']}_t{table}, rows: {group['rows_per_table']}, "
                         f"dim: {group['width']}, {lookups}, reuse: {{zipf: {alpha}}}}}")
    return lines


def task(model, groups, gpus, batch, alpha):
    """YAML of one run. CPU overheads are those of a compiled (XLA) program: a launch, no framework."""
    hidden = ", ".join(model["mlp_sizes"].split())
    average = f", average: {model['interact_stride']}" if model["interact_stride"] else ""
    return "\n".join([
        f"# {model['model']} of Merlin's synthetic models on {gpus} GPUs; scripts/import_merlin.py.",
        f"name: merlin-{model['model']}-{gpus}", f"batch: {batch}", f"gpus: {gpus}",
        "memory_GB: 80", "platform: dgx-a100-80gb", "calibration: a100-sxm4-nvswitch",
        f"stack: {STACK}", f"slice_elements: {SLICE_ELEMENTS}",
        "placements: [table_wise, column_wise]", "exchange_indices: false",
        f"dense: {{features: {model['numerical_features']}, bottom: [], top: [{hidden}, 1], "
        f"interaction: concat{average}, bucket_MB: {FUSION_MB}}}",
        "optimizer: {kind: adagrad, rowwise: false}",
        'cpu: {t1_us: 5, t2_us: 5, t3_us: 3, t4_us: 5, t5_us: 5, source: "assumed: a compiled program"}',
        "tables:"] + tables(groups, alpha)) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True)
    parser.add_argument("--gpus", type=int, default=8, help="of models that were not measured (8)")
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--foretrace", default=os.environ.get("FORETRACE", HERE / "../build/release/foretrace"))
    options = parser.parse_args()
    return common.guarded(lambda: convert(options), "import_merlin")


def convert(options):
    models = rows(options.source, "merlin_synthetic_models.csv", ["model", "mlp_sizes", "numerical_features", "interact_stride"])
    groups = rows(options.source, "merlin_synthetic_tables.csv",
                  ["model", "group", "tables", "rows_per_table", "width", "hotness_of_inputs"])
    times = rows(options.source, "merlin_synthetic_times.csv",
                 ["model", "gpus", "global_batch", "alpha", "iteration_ms"])
    options.output.mkdir(parents=True, exist_ok=True)
    if options.measure:
        print("| Model | GPUs | Measured ms | Predicted ms | Error % | Best plan ms |\n"
              "|---|---|---|---|---|---|")
    failed = []
    for model in models:
        common.reading(f"{options.source}: model {model['model']}")
        its = [g for g in groups if g["model"] == model["model"]]
        runs = [t for t in times if t["model"] == model["model"]]
        for run in runs or [{"gpus": options.gpus, "global_batch": 65536, "alpha": 1.05}]:
            path = options.output / f"merlin-{model['model']}-{run['gpus']}.yaml"
            path.write_text(task(model, its, run["gpus"], run["global_batch"], run["alpha"]))
            if not options.measure or "iteration_ms" not in run:
                continue
            answer = subprocess.run([options.foretrace, "shard", path, "--json", "--sharders",
                                     "lpt,lookup_greedy,size_greedy,search", "--budget", "300"],
                                    capture_output=True, text=True)
            if answer.returncode != 0:  # a run that cannot be simulated leaves the others
                failed.append(f"{path}: {answer.stderr.strip()}")
                continue
            plans = {p["sharder"]: p["iteration_time_us"] / 1e3 for p in json.loads(answer.stdout)["plans"]}
            own, measured = plans["memory_balanced"], float(run["iteration_ms"])
            print(f"| {model['model']} | {run['gpus']} | {measured:.2f} | {own:.2f} | "
                  f"{100 * (own / measured - 1):+.1f} | {min(plans.values()):.2f} |", flush=True)
    if failed:
        sys.exit("\n".join(f"import_merlin: error: {f}" for f in failed))


if __name__ == "__main__":
    sys.exit(main())
