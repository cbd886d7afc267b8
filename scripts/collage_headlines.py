#!/usr/bin/env python3
"""Collage's headline ratios, recomputed from its published end-to-end times (not predicted).

  scripts/collage_headlines.py e2e_perf_artifact.csv

Geometric mean, over the networks at batch 1, of a framework's time over Collage's (Two-level). The
published 1.26, 1.43 and 1.40 are near the ratios to one framework (PUBLISHED); against the best
framework of each network the ratio is lower.
"""
import collections
import csv
import math
import sys

FRAMEWORKS = ("PyTorch", "TF", "TF-XLA", "TensorRT", "AutoTVM", "AutoTVM-libs")
# The framework that the published figure is against, by hardware.
PUBLISHED = {"rtx2070": ("TensorRT", 1.26), "v100": ("TensorRT", 1.43), "xeon": ("TF", 1.40)}


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def main():
    times = collections.defaultdict(lambda: collections.defaultdict(dict))
    try:
        with open(sys.argv[1], encoding="utf-8") as file:
            for hardware, batch, network, framework, mean, _ in csv.reader(file):
                if batch == "1":
                    times[hardware][network][framework] = float(mean)
        print("From published end-to-end times, not predicted:")
        for hardware, (framework, published) in PUBLISHED.items():
            networks = times[hardware].values()
            one = geometric_mean([n[framework] / n["Two-level"] for n in networks])
            best = geometric_mean([min(n[f] for f in FRAMEWORKS if f in n) / n["Two-level"]
                                   for n in networks])
            print(f"{hardware}: {one:.3f} against {framework} (published {published:.2f}), "
                  f"{best:.2f} against the best framework of each network")
    except (IndexError, OSError, ValueError, KeyError, ZeroDivisionError) as error:
        print(f"collage_headlines.py: error: not the published table e2e_perf_artifact.csv: {error}",
              file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
