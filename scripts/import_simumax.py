#!/usr/bin/env python3
"""SimuMax's measured GEMMs (efficiency_matmul.csv: efficiencies of a peak) to the neutral CSV.

SOURCE is the folder of its tables as CSV. Forward products (layout TN) and input gradients (NN); weight
gradients are left out, as they add to a buffer of 32 bits. A time is 2 b m n k / (peak x efficiency).
"""
import pathlib
import sys

import import_common as common

PLATFORMS = {"B200": "b200-sxm-nvswitch"}
PROVENANCE = dict(source="https://github.com/MooreThreads/SimuMax",
                  commit="4dcaae513ba7679d56c116a17cd4a691ec41e252", licence="Apache-2.0",
                  command="scripts/import_simumax.py")
COLUMNS = ["machine", "b", "m", "k", "n", "layout", "out_dtype", "efficiency", "peak_TFLOPS"]


def run(source, output):
    path = pathlib.Path(source) / "efficiency_matmul.csv"
    if not path.is_file():
        common.fail(f"{path}: there is no such table; is this the right source?")
    made = {}
    for row in common.read_csv(path.name, path.read_text("utf-8-sig"), COLUMNS):
        platform = PLATFORMS.get(row["machine"])
        if platform is None:
            continue
        table = made.setdefault(platform, common.Table(
            **PROVENANCE, path="configs/system/b200_bf16_ceperm.json", device=row["machine"],
            note="efficiencies of 2,250 TFLOP/s, turned into times"))
        if row["layout"] not in ("TN", "NN") or int(row["b"]) != 1:
            table.skip("weight gradients and batches are not read")
            continue
        m, n, k = (int(row[key]) for key in ("m", "n", "k"))
        us = 2 * m * n * k / (float(row["peak_TFLOPS"]) * 1e6 * float(row["efficiency"]))
        table.add("kernel", "linear", platform, "bfloat16", common.shape(m=m, n=n, k=k, bias=False),
                  us, phase="forward", library="torch 2.10", source="simumax")
    for platform, table in made.items():
        table.write(output / f"simumax-{platform}-gemm-bfloat16.csv")


if __name__ == "__main__":
    sys.exit(common.main(__doc__, run))
