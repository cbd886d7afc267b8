#!/usr/bin/env python3
"""AICB's log of collectives in a Megatron run on 8 A100 (times in ms) to the neutral CSV.

Every message is logged each time it is sent; the median is taken. Left out: the set-up stage (cold
communicators), rows whose group size is not logged, and rows of size zero. `busbw` of the log uses
one factor for all groups and is not read. msg_size of all-gather and reduce-scatter is the full
buffer, as in the neutral schema.
"""
import lzma
import sys

import import_common as common

PLATFORM = "a100-sxm4-nvswitch"


def read(source):
    path = source
    if source.is_dir():
        found = sorted(source.glob("A100_example.csv*"))
        if not found:
            common.fail(f"{source}: no A100_example.csv")
        path = found[0]
    data = path.read_bytes()
    return (lzma.decompress(data) if path.suffix == ".xz" else data).decode("utf-8-sig")


def run(source, output):
    table = common.Table(
        source="https://github.com/aliyun/aicb", commit="23eec3c48ca2d2d93dd888a4c7b22ab4421e782f",
        licence="Apache-2.0", path="visualize/inputs/A100_example.csv",
        command="scripts/import_aicb.py", device="A100", interconnect="switch",
        note="in situ times of a training run, they include waiting for other ranks")
    times = {}
    needed = ["comm_type", "stage", "comm_group_size", "msg_size", "_elapsed_time"]
    for row in common.read_csv("A100_example.csv", read(source), needed):
        op = row["comm_type"].removeprefix("CommType.")
        if op == "epoch_end":
            continue
        if row["stage"].startswith("init."):
            table.skip("set-up stage")
        elif row["comm_group_size"] == "None":
            table.skip("group size not logged")
        elif int(row["msg_size"]) == 0:
            table.skip("size is zero")
        else:
            key = (op, int(row["msg_size"]), int(row["comm_group_size"]))
            times.setdefault(key, []).append(float(row["_elapsed_time"]) * 1e3)
    for (op, size, ranks), values in sorted(times.items()):
        table.add("collective", op, PLATFORM, "bfloat16",
                  common.shape(bytes=size, ranks=ranks, nodes=1, placement="node", inplace=False),
                  values, library="nccl", source="aicb")
    table.write(output / f"aicb-{PLATFORM}-collectives.csv")


if __name__ == "__main__":
    sys.exit(common.main(__doc__, run))
