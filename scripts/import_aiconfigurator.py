#!/usr/bin/env python3
"""aiconfigurator's measured tables (times in ms) to the neutral CSV: gemm-*.csv, nccl-*.csv.

SOURCE is the folder of its tables as CSV or CSV.xz. One table a GPU and precision of GEMMs; one of NCCL
for each version. message_size of NCCL counts elements of the stated type; all-gather, reduce-scatter
and all-to-all state the whole buffer.
"""
import lzma
import pathlib
import re
import sys

import import_common as common

PLATFORMS = {"h100": "h100-sxm5-nvswitch", "a100": "a100-sxm4-nvswitch"}
# Who measured: backend and version of each table, part of what it is a measurement of.
STACKS = {"gemm-h100": "trtllm 1.3.0rc20", "gemm-a100": "sglang 0.5.10"}
PROVENANCE = dict(source="https://github.com/ai-dynamo/aiconfigurator",
                  commit="095f58a51c4ca8e61b66ec108d86f223f8d559ce", licence="Apache-2.0",
                  command="scripts/import_aiconfigurator.py")
DTYPES = {"bfloat16": "bfloat16", "float16": "float16", "fp8": "float8_e4m3fn"}
NCCL_TYPES = {"half": ("float16", 2), "bfloat16": ("bfloat16", 2), "int8": ("int8", 1)}
NCCL_OPS = {"all_reduce": "all_reduce", "all_gather": "all_gather", "alltoall": "all_to_all",
            "reduce_scatter": "reduce_scatter"}


def tables(source, pattern):
    """(stem, text) of the tables whose name matches."""
    found = False
    for path in sorted(pathlib.Path(source).glob("*.csv*")):
        match = re.fullmatch(r"(.+?)\.csv(\.xz)?", path.name)
        if not match or not re.fullmatch(pattern, match.group(1)):
            continue
        found = True
        data = path.read_bytes()
        try:
            data = lzma.decompress(data) if match.group(2) else data
            yield match.group(1), path.name, data.decode("utf-8-sig")
        except (lzma.LZMAError, UnicodeDecodeError) as error:
            common.fail(f"{path}: cannot be read ({error})")
    if not found:
        common.fail(f"{source}: no table {pattern} as .csv or .csv.xz; is this the right source?")


def number(name, row, key, kind):
    try:
        return kind(row[key])
    except (TypeError, ValueError):
        common.fail(f"{name}: {key} is '{row[key]}', not a number")


def gemm(source, output):
    for stem, name, text in tables(source, r"gemm-\w+"):
        gpu = stem.split("-")[1]
        if gpu not in PLATFORMS:
            common.fail(f"{name}: unknown GPU {gpu}; known are {', '.join(PLATFORMS)}")
        stack = STACKS.get(stem, "unknown")
        made = {}
        for row in common.read_csv(name, text, ["gemm_dtype", "n", "k", "m", "latency_ms"]):
            dtype = row["gemm_dtype"]
            table = made.setdefault(dtype, common.Table(
                **PROVENANCE, path=f"{stem} ({stack})", device=gpu.upper(),
                note="times inside CUDA graphs, without launch; times were in ms"))
            if dtype not in DTYPES:
                table.skip(f"{dtype} is not a type of the schema")
                continue
            table.add("kernel", "linear", PLATFORMS[gpu], DTYPES[dtype],
                      common.shape(m=number(name, row, "m", int), n=number(name, row, "n", int),
                                   k=number(name, row, "k", int), bias=False),
                      number(name, row, "latency_ms", float) * 1e3, phase="forward",
                      library=stack, source="aiconfigurator")
        for dtype, table in made.items():
            table.write(output / f"aiconfigurator-{PLATFORMS[gpu]}-gemm-{dtype}.csv")


def nccl(source, output):
    for stem, name, text in tables(source, r"nccl-\w+"):
        gpu = stem.split("-")[1]
        if gpu not in PLATFORMS:
            common.fail(f"{name}: unknown GPU {gpu}; known are {', '.join(PLATFORMS)}")
        made = {}
        needed = ["version", "op_name", "nccl_dtype", "num_gpus", "message_size_elements",
                  "latency_ms"]
        for row in common.read_csv(name, text, needed):
            key = (row["version"], row["nccl_dtype"])
            table = made.setdefault(key, common.Table(
                **PROVENANCE, path=f"{stem}, NCCL {row['version']}", device=gpu.upper(),
                interconnect="switch", note="nccl-tests, out of place; times were in ms"))
            if row["op_name"] not in NCCL_OPS or row["nccl_dtype"] not in NCCL_TYPES:
                table.skip(f"{row['op_name']} of {row['nccl_dtype']} is not of the schema")
                continue
            dtype, width = NCCL_TYPES[row["nccl_dtype"]]
            table.add("collective", NCCL_OPS[row["op_name"]], PLATFORMS[gpu], dtype,
                      common.shape(bytes=number(name, row, "message_size_elements", int) * width,
                                   ranks=number(name, row, "num_gpus", int), nodes=1,
                                   placement="node", inplace=False),
                      number(name, row, "latency_ms", float) * 1e3,
                      library=f"nccl {row['version']}", source="aiconfigurator")
        for (version, dtype), table in made.items():
            table.write(output / f"aiconfigurator-{PLATFORMS[gpu]}-nccl-{version}-{dtype}.csv")


def run(source, output):
    gemm(source, output)
    nccl(source, output)


if __name__ == "__main__":
    sys.exit(common.main(__doc__, run))
