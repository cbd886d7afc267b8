#!/usr/bin/env python3
"""Offline batches of LLM-Inference-Bench on A100 against `foretrace serve`, which knows none of them.

  scripts/evaluate_serving.py [--foretrace build/release/foretrace] [--rows] [--operators TABLE.csv]...

Of each framework the median of absolute and of signed errors of the latency. Rows of models that
traces/workloads has, and that fit by the memory ledger; repeats of one setting count once each.
"""
import argparse
import csv
import json
import os
import pathlib
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODELS = {"meta-llama/Llama-2-7b-hf": "llama2-7b", "meta-llama/Meta-Llama-3-8B": "llama3-8b",
          "meta-llama/Llama-2-70b-hf": "llama2-70b", "meta-llama/Meta-Llama-3-70B": "llama3-70b"}
FRAMEWORKS = ("vLLM", "TensorRT-LLM")


def predicted(foretrace, row, options):
    """Seconds of the batch; None where it does not fit."""
    result = subprocess.run(
        [foretrace, "serve", MODELS[row["model"]], "--platform", "dgx-a100", "--parallel", f"tp{row['devices']}",
         "--count", row["batch_size"], "--input", row["input_tokens"], "--output", row["output_tokens"],
         "--max-model-len", "8192", "--json", *options], capture_output=True, text=True)
    return json.loads(result.stdout)["summary"]["seconds"] if result.returncode == 0 else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--foretrace", default=ROOT / "build/release/foretrace")
    parser.add_argument("--rows", action="store_true", help="also list every row")
    parser.add_argument("--operators", action="append", default=[], help="as foretrace serve takes them")
    arguments = parser.parse_args()
    options = [word for table in arguments.operators for word in ("--operators", table)]
    data = pathlib.Path(os.environ.get("FORETRACE_REALDATA", ROOT / "../shared/realdata"))
    errors, unfit = {name: [] for name in FRAMEWORKS}, 0
    with open(data / "serving/llm_inference_bench.csv", newline="") as file:
        for row in csv.DictReader(file):
            if row["hardware"] != "Nvidia A100 GPU" or row["framework"] not in FRAMEWORKS or row["model"] not in MODELS:
                continue
            seconds = predicted(arguments.foretrace, row, options)
            if seconds is None:
                unfit += 1
                continue
            error = seconds / float(row["latency_s"]) - 1
            errors[row["framework"]].append(error)
            if arguments.rows:
                print(*list(row.values())[1:8], f"{seconds:.3f} s {100 * error:+.1f} %")
    for name, values in errors.items():
        if values:
            print(f"{name}: {len(values)} rows, median error {100 * statistics.median(map(abs, values)):.1f} %, "
                  f"signed {100 * statistics.median(values):+.1f} %")
    print(f"{unfit} rows do not fit by the memory ledger")


if __name__ == "__main__":
    main()
