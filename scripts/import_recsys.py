#!/usr/bin/env python3
"""Times of FBGEMM's batched lookups (trc_ columns of NVIDIA's recsys-examples) to the neutral CSV.

Rows whose tables live on the GPU alone; a row for each index, nothing pooled (bags of one). Indices follow a
power law, from which the reuse factors are worked out; the number of distinct rows is the table's own.
"""
import math
import sys

import import_common as common

NEEDED = ["label", "gpu", "num_tables", "embedding_dim", "rows_per_table", "optimizer_type", "caching", "alpha",
          "avg_n_unique", "avg_n_total", "trc_forward_ms", "trc_backward_ms"]
BINS = 17


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


def run(source, output):
    for name, text in common.read_tree(source, r"recsys_examples_h100\.csv$"):
        table = common.Table(
            source="https://github.com/NVIDIA/recsys-examples", commit="6ac3d68a631c5bf3198725225746518b259c3ffb",
            licence="BSD-3-Clause", path="corelib/dynamicemb/benchmark/benchmark_results.json",
            command="scripts/import_recsys.py", device="H100-SXM5-80GB",
            note="FBGEMM through TorchRec; tables on the GPU; one output row an index, power law")
        for row in common.read_csv(name, text, NEEDED):
            if row["caching"] == "True" or "_gpu_" not in row["label"]:
                table.skip("tables in host memory")
                continue
            tables, rows = int(row["num_tables"]), int(row["rows_per_table"])
            lookups = float(row["avg_n_total"]) / tables
            factors = "|".join(f"{f:.9g}" for f in reuse_factors(lookups, rows, float(row["alpha"])))
            shape = common.shape(tables=tables, b=round(lookups), e=rows, d=int(row["embedding_dim"]), l=1, weights=0,
                                 rf=factors, unique=f"{float(row['avg_n_unique']) / tables:.9g}")
            optimizer = row["optimizer_type"]
            for phase, tags in (("forward", f"optimizer={optimizer}"),
                                ("backward", f"grad=fused;optimizer={optimizer};rowwise=0")):
                table.add("embedding", "embedding", "h100-sxm5-nvswitch", "float32", shape,
                          1e3 * float(row[f"trc_{phase}_ms"]), phase=phase,
                          library=f"impl=batched;{tags}", source=f"recsys-examples {row['label']}")
        table.write(output / "recsys-h100-sxm5-nvswitch-embedding.csv")


if __name__ == "__main__":
    sys.exit(common.main(__doc__, run))
