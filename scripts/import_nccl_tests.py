#!/usr/bin/env python3
"""nccl-tests logs (times in us) to the neutral CSV, one file per platform.

Takes the text that nccl-tests prints; several tests may follow each other in one log. Ranks, nodes
and the GPU are read from the "Using devices" block. Rows of size zero and rows that failed
validation are left out.
"""
import re
import sys

import import_common as common

OPS = {"all_reduce_perf": "all_reduce", "all_gather_perf": "all_gather",
       "reduce_scatter_perf": "reduce_scatter", "alltoall_perf": "all_to_all",
       "broadcast_perf": "broadcast", "sendrecv_perf": "send_recv", "reduce_perf": "reduce"}
DTYPES = {"float": "float32", "double": "float64", "half": "float16", "bfloat16": "bfloat16",
          "uint8": "uint8", "int8": "int8", "int32": "int32", "uint32": "int32", "int64": "int64",
          "uint64": "int64"}
PLATFORMS = [(r"H100.*HBM3", "h100-sxm5-nvswitch", "switch"),
             (r"H100", "h100-pcie", "mesh"), (r"H200", "h200-sxm5-nvswitch", "switch"),
             (r"A100-SXM4", "a100-sxm4-nvswitch", "switch"), (r"A100", "a100-pcie", "mesh"),
             (r"V100-SXM", "v100-sxm2-nvlink", "mesh")]
RANK = re.compile(r"#\s+Rank\s+\d+.*?\bon\s+(\S+)\s+device\s+\d+\s+\[\S+\]\s+(.*\S)")


def read_log(name, text, source_name, tables):
    state = {"op": None, "hosts": [], "gpu": None, "library": "nccl"}
    for line in text.splitlines():
        version = re.match(r"# nccl-tests version .* nccl-library=(\d+)", line)
        if version:
            state.update(hosts=[], library=library_name(int(version.group(1))))
        test = re.match(r"# Collective test starting: (\w+)", line)
        if test:
            state["op"] = OPS.get(test.group(1))
        rank = RANK.match(line)
        if rank:
            state["hosts"].append(rank.group(1))
            state["gpu"] = rank.group(2)
        fields = line.split()
        if line.startswith("#") or len(fields) != 13 or not fields[0].isdigit():
            continue
        if state["op"] is None or not state["hosts"]:
            common.fail(f"{name}: a row of times before its test and devices are named")
        add_row(name, fields, state, source_name, tables)


def library_name(code):
    """22902 is NCCL 2.29.2; before 2.9 the code had four digits."""
    if code >= 10000:
        return f"nccl {code // 10000}.{code // 100 % 100}.{code % 100}"
    return f"nccl {code // 1000}.{code // 100 % 10}.{code % 100}"


def add_row(name, fields, state, source_name, tables):
    platform, interconnect = next(
        ((p, i) for pattern, p, i in PLATFORMS if re.search(pattern, state["gpu"])), (None, None))
    if platform is None:
        common.fail(f"{name}: unknown GPU '{state['gpu']}'; add it to PLATFORMS")
    table = tables.setdefault(platform, common.Table(
        source=source_name, licence="Apache-2.0", command="scripts/import_nccl_tests.py",
        device=state["gpu"], interconnect=interconnect, note="nccl-tests, average of its iterations"))
    size = int(fields[0])
    if size == 0:
        table.skip("size is zero")
        return
    ranks, nodes = len(state["hosts"]), len(set(state["hosts"]))
    for inplace, time, wrong in ((False, fields[5], fields[8]), (True, fields[9], fields[12])):
        if wrong not in ("0", "N/A"):
            table.skip("failed validation")
            continue
        table.add("collective", state["op"], platform, DTYPES.get(fields[2], fields[2]),
                  common.shape(bytes=size, ranks=ranks, nodes=nodes,
                               placement="node" if nodes == 1 else "cross", inplace=inplace),
                  float(time), library=state["library"], source="nccl-tests")


def run(source, output):
    tables = {}
    url = "https://github.com/xxrjun/nccl-tests-cluster (commit " \
          "455de4f8dee2fa94cd4044a7109fd8c576f9e6c1)"
    for name, text in common.read_tree(source, r"\.log$"):
        read_log(name, text, url, tables)
    for platform, table in tables.items():
        table.write(output / f"nccl-tests-{platform}-collectives.csv")


if __name__ == "__main__":
    sys.exit(common.main(__doc__, run))
