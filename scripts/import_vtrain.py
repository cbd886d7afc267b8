#!/usr/bin/env python3
"""vTrain's NCCL all-reduce tables (trace/*/AR_GPU*_LUT, times in ns) to the neutral CSV."""
import re
import sys

import import_common as common

PLATFORMS = {"a100": ("a100-sxm4-nvswitch", "switch"), "v100": ("v100-sxm2-nvlink", "mesh")}


def run(source, output):
    tables = {}
    for name, text in common.read_tree(source, r"AR_GPU\d+_.*_LUT$"):
        gpu = re.search(r"(a100|v100)", name)
        if not gpu:
            common.fail(f"{name}: expected a folder named a100 or v100")
        platform, interconnect = PLATFORMS[gpu.group()]
        table = tables.setdefault(platform, common.Table(
            source="https://github.com/VIA-Research/vTrain", path=f"trace/{gpu.group()}",
            commit="f8dda8473a48b373b1d25f51f52d685bff5150c5", licence="MIT",
            command="scripts/import_vtrain.py", device=gpu.group().upper(),
            interconnect=interconnect,
            note="nccl-tests all_reduce_perf, float; times were in ns"))
        ranks = int(re.search(r"AR_GPU(\d+)_", name).group(1))
        lines = text.splitlines()
        if not lines or lines[0].split(",")[:4] != ["size(B)", "count", "type", "time(ns)"]:
            common.fail(f"{name}: expected the header size(B),count,type,time(ns),...")
        for line in lines[1:]:
            fields = line.split(",")
            for inplace, column in ((False, 3), (True, 5)):
                table.add("collective", "all_reduce", platform, "float32",
                          common.shape(bytes=int(fields[0]), ranks=ranks, nodes=1,
                                       placement="node", inplace=inplace),
                          float(fields[column]) / 1e3, library="nccl", source="vtrain")
    for platform, table in tables.items():
        table.write(output / f"vtrain-{platform}-collectives.csv")


if __name__ == "__main__":
    sys.exit(common.main(__doc__, run))
