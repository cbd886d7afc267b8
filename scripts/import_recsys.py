#!/usr/bin/env python3
"""Times of FBGEMM's batched lookups (trc_ columns of NVIDIA's recsys-examples) to the neutral CSV.

Rows whose tables live on the GPU alone. Without pooling each index gives a row (bags of one); with it the
bags of a table share the indices. Indices follow a power law or are equally likely, from which the reuse
factors are worked out; the number of distinct rows is the table's own.
"""
import math
import re
import sys

import import_common as common

NEEDED = ["label", "gpu", "num_tables", "embedding_dim", "rows_per_table", "optimizer_type", "caching", "alpha",
          "avg_n_unique", "avg_n_total", "trc_forward_ms", "trc_backward_ms"]
BINS = 17
PLATFORMS = {"H100": "h100-sxm5-nvswitch", "H200": "h200-sxm5-nvswitch", "A100": "a100-sxm4-nvswitch",
             "B200": "b200-sxm-nvswitch", "GB200": "gb200-nvswitch", "L40S": "l40s-pcie", "H20": "h20-nvswitch"}
# Boards in slots are other devices than the modules that those platforms have.
CARDS, CARD_WORDS = {"L40S"}, {"PCIE", "NVL"}
# Exponents of the stated distributions; a power law states its own.
EXPONENTS = {"pow-law": None, "random": 0.0, "uniform": 0.0}


def reuse_factors(lookups, rows, exponent):
    """Shares of the rows that a batch touches by how often it does (simulator/sharding/zipf_access.cpp)."""
    def mass(a, b):
        if abs(exponent - 1) < 1e-9:
            return math.log(b / a)
        return (b**(1 - exponent) - a**(1 - exponent)) / (1 - exponent)

    bins, first = [0.0] * BINS, 1
    while first <= rows:
        last = min(rows, max(first, int(first * 1.05)))
        count = last - first + 1
        rate = lookups * mass(first - 0.5, last + 0.5) / mass(0.5, rows + 0.5) / count
        if rate > 30:
            bins[min(round(rate).bit_length(), BINS - 1)] += count
        else:
            p = math.exp(-rate)
            for k in range(1, 101):
                p *= rate / k
                bins[min(k.bit_length(), BINS - 1)] += count * p
        first = last + 1
    return [b / sum(bins) for b in bins]


def add(table, platform, row):
    tables, rows = int(row["num_tables"]), int(row["rows_per_table"])
    lookups = float(row["avg_n_total"]) / tables
    pooled = (row.get("pooling_mode") or "none") != "none"
    bags = int(row["batch_size_per_table"]) if pooled else round(lookups)
    distribution = row.get("feature_distribution") or "pow-law"
    if distribution not in EXPONENTS:
        table.skip(f"indices are distributed as '{distribution}'")
        return
    exponent = EXPONENTS[distribution]
    factors = reuse_factors(lookups, rows, float(row["alpha"]) if exponent is None else exponent)
    bag = f"{lookups / bags:.9g}" if pooled else 1
    shape = common.shape(tables=tables, b=bags, e=rows, d=int(row["embedding_dim"]), l=bag, weights=0,
                         rf="|".join(f"{f:.9g}" for f in factors), unique=f"{float(row['avg_n_unique']) / tables:.9g}")
    optimizer = row["optimizer_type"]
    for phase, tags in (("forward", f"optimizer={optimizer}"),
                        ("backward", f"grad=fused;optimizer={optimizer};rowwise=0")):
        table.add("embedding", "embedding", platform, "float32", shape, 1e3 * float(row[f"trc_{phase}_ms"] or "nan"),
                  phase=phase, library=f"impl=batched;{tags}", source=f"recsys-examples {row['label']}")


def run(source, output):
    made = {}
    for name, text in common.read_tree(source, r"recsys_examples_\w+\.csv$"):
        rows = common.read_csv(name, text, NEEDED)
        for row in rows:
            words = re.findall(r"\w+", row["gpu"].upper())
            gpu = next((word for word in words if word in PLATFORMS), None)
            if gpu is None or gpu not in CARDS and CARD_WORDS.intersection(words):
                common.fail(f"{rows.place}: unknown GPU '{row['gpu']}'; known are {', '.join(PLATFORMS)}")
            table = made.setdefault(PLATFORMS[gpu], common.Table(
                source="https://github.com/NVIDIA/recsys-examples", commit="6ac3d68a631c5bf3198725225746518b259c3ffb",
                licence="BSD-3-Clause", path="corelib/dynamicemb/benchmark/benchmark_results.json",
                command="scripts/import_recsys.py", device=row["gpu"].removeprefix("NVIDIA "),
                note="FBGEMM through TorchRec; tables on the GPU"))
            if row["caching"] == "True" or "_gpu_" not in row["label"]:
                table.skip("tables in host memory")
                continue
            add(table, PLATFORMS[gpu], row)
    for platform, table in made.items():
        table.write(output / f"recsys-{platform}-embedding.csv")


if __name__ == "__main__":
    sys.exit(common.main(__doc__, run))
