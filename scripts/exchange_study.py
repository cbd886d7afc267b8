#!/usr/bin/env python3
"""How well times of dispatch and combine of experts are predicted that took no part in the fit.

aiconfigurator (Apache-2.0) timed DeepEP's normal and low-latency kernels on H100 with eight GPUs a node.
Each third of the shapes within a node, and each number of nodes, is predicted by a fit to all else:

  scripts/exchange_study.py $FORETRACE_REALDATA
"""
import pathlib
import statistics
import subprocess
import sys
import tempfile

from study_main import import_tables, print_study

HEADER = ("What is held out", "Kernel", "Goal", "Rows", "Median / P90 %")
PREFIX = "aiconfigurator-h100-sxm5-nvswitch-deepep"
GOAL = "5 / 15"
# Eight nodes' normal mode is what a congested fabric takes, and notifying is waiting: no goal.
RULES = (("shapes", "a third of hidden sizes and experts of a token, in turn"), ("nodes", "a number of nodes"))


def rows_of(foretrace, folder, rule, seed):
    """{model: [absolute errors in per cent]} of what is held out."""
    tables = [f"{folder}/{PREFIX}-{mode}.csv" for mode in ("normal", "low-latency")]
    done = subprocess.run([foretrace, "calibrate", "expert-exchange", *tables, "--hold-out", rule, "--seed", str(seed),
                           "--rows", f"{folder}/rows.csv"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"exchange_study: error: {done.stderr.strip()}")
    errors = {}
    lines = pathlib.Path(f"{folder}/rows.csv").read_text().splitlines()
    for line in lines[1:]:
        _, model, _, measured, predicted, _ = line.split(",")
        errors.setdefault(model, []).append(abs(100 * (float(predicted) / float(measured) - 1)))
    return errors


def quantile(values, share):
    values = sorted(values)
    place = share * (len(values) - 1)
    low = int(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (place - low)


def study_rows(foretrace, data):
    with tempfile.TemporaryDirectory() as folder:
        import_tables("aiconfigurator", data, folder)
        for rule, what in RULES:
            pooled = {}
            for seed in range(3):
                for model, errors in rows_of(foretrace, folder, rule, seed).items():
                    pooled.setdefault(model, []).extend(errors)
            for model, errors in sorted(pooled.items()):
                no_goal = "notify" in model or model.startswith("deduplicated") and model.endswith("8 nodes")
                yield (what, model, "" if no_goal else GOAL, str(len(errors)),
                       f"{statistics.median(errors):.2f} / {quantile(errors, 0.9):.1f}")


if __name__ == "__main__":
    print_study(__doc__, HEADER, study_rows)
