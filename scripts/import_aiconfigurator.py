#!/usr/bin/env python3
"""aiconfigurator's measured tables (times in ms) to the neutral CSV: gemm-*.csv, attention-*.csv,
nccl-*.csv, custom-allreduce-*.csv, deepep-*.csv (times in us).

SOURCE is the folder of its tables as CSV or CSV.xz. One table a GPU and precision of GEMMs; one of
prompts and one of decodes of attention in each GPU's 16 bits; one of NCCL for each version; one of the
serving frameworks' own all-reduces; one of each of DeepEP's modes, with the links that systems.csv
states. message_size counts elements of the stated type; all-gather,
reduce-scatter and all-to-all of NCCL state the whole buffer.
"""
import lzma
import pathlib
import re
import sys

import import_common as common

PLATFORMS = {"h100": "h100-sxm5-nvswitch", "a100": "a100-sxm4-nvswitch",
             "h200": "h200-sxm5-nvswitch", "b200": "b200-sxm-nvswitch", "gb200": "gb200-nvswitch",
             "l40s": "l40s-pcie", "h20": "h20-nvswitch", "l4": "l4-pcie"}
# Who measured: backend and version of each table, part of what it is a measurement of.
STACKS = {"gemm-h100": "trtllm 1.3.0rc20", "gemm-a100": "sglang 0.5.10",
          "attention-context-h100": "trtllm 1.3.0rc20", "attention-context-a100": "sglang 0.5.10",
          "attention-generation-h100": "trtllm 1.3.0rc20",
          "attention-generation-a100": "sglang 0.5.10"}
PROVENANCE = dict(source="https://github.com/ai-dynamo/aiconfigurator",
                  commit="095f58a51c4ca8e61b66ec108d86f223f8d559ce", licence="Apache-2.0",
                  command="scripts/import_aiconfigurator.py")
# Type of the operands; scales of blocks of 128 x 128 make other kernels of the same type.
DTYPES = {"bfloat16": "bfloat16", "float16": "float16", "fp8": "float8_e4m3fn",
          "fp8_block": "float8_e4m3fn"}
NOTES = {"fp8": "; with the quantisation of the rows",
         "fp8_block": "; scales for blocks of 128 x 128, with the quantisation of the rows: kernels of "
                      "their own, to be calibrated apart from fp8"}
NCCL_TYPES = {"half": ("float16", 2), "bfloat16": ("bfloat16", 2), "int8": ("int8", 1)}
NCCL_OPS = {"all_reduce": "all_reduce", "all_gather": "all_gather", "alltoall": "all_to_all",
            "reduce_scatter": "reduce_scatter"}


def tables(source, pattern):
    """(stem, text) of the tables whose name matches."""
    for path in sorted(pathlib.Path(source).glob("*.csv*")):
        match = re.fullmatch(r"(.+?)\.csv(\.xz)?", path.name)
        if not match or not re.fullmatch(pattern, match.group(1)):
            continue
        data = path.read_bytes()
        try:
            data = lzma.decompress(data) if match.group(2) else data
            yield match.group(1), path.name, data.decode("utf-8-sig")
        except (lzma.LZMAError, UnicodeDecodeError) as error:
            common.fail(f"{path}: cannot be read ({error})")


def number(name, row, key, kind):
    try:
        return kind(row[key])
    except (TypeError, ValueError):
        common.fail(f"{name}: {key} is '{row[key]}', not a number")


def gemm(source, output):
    count = 0
    for stem, name, text in tables(source, r"gemm-\w+"):
        count += 1
        gpu = stem.split("-")[1]
        if gpu not in PLATFORMS:
            common.fail(f"{name}: unknown GPU {gpu}; known are {', '.join(PLATFORMS)}")
        stack = STACKS.get(stem, "unknown")
        made = {}
        for row in common.read_csv(name, text, ["gemm_dtype", "n", "k", "m", "latency_ms"]):
            dtype = row["gemm_dtype"]
            table = made.setdefault(dtype, common.Table(
                **PROVENANCE, path=f"{stem} ({stack})", device=gpu.upper(),
                note="times inside CUDA graphs, without launch; times were in ms"
                + NOTES.get(dtype, "")))
            if dtype not in DTYPES:
                table.skip(f"{dtype} is not a type of the schema")
                continue
            table.add("kernel", "linear", PLATFORMS[gpu], DTYPES[dtype],
                      common.shape(m=number(name, row, "m", int), n=number(name, row, "n", int),
                                   k=number(name, row, "k", int), bias=False),
                      number(name, row, "latency_ms", float) * 1e3, phase="forward",
                      library=f"{stack} {dtype}" if dtype in NOTES else stack,
                      source="aiconfigurator")
        for dtype, table in made.items():
            table.write(output / f"aiconfigurator-{PLATFORMS[gpu]}-gemm-{dtype}.csv")
    return count


def attention(source, output):
    """Causal prompts, nothing cached; and one new token of each sequence over `step` cached ones."""
    count = 0
    for stem, name, text in tables(source, r"attention-(context|generation)-\w+"):
        count += 1
        _, phase, gpu = stem.split("-")
        if gpu not in PLATFORMS:
            common.fail(f"{name}: unknown GPU {gpu}; known are {', '.join(PLATFORMS)}")
        stack = STACKS.get(stem, "unknown")
        table = common.Table(**PROVENANCE, path=f"{stem} ({stack})", device=gpu.upper(),
                             note="full attention in 16 bits; times were in ms")
        length = "isl" if phase == "context" else "step"
        for row in common.read_csv(name, text, ["attn_dtype", "kv_cache_dtype", "num_heads",
                                                "num_key_value_heads", "head_dim", "batch_size",
                                                length, "latency_ms"]):
            if row["attn_dtype"] != "bfloat16" or row["kv_cache_dtype"] != "bfloat16":
                table.skip("fp8 arithmetic or cache has no place in the schema")
                continue
            if int(row.get("window_size") or 0) != 0:
                table.skip("windows have no place in the schema")
                continue
            keys = number(name, row, length, int)
            prompt = phase == "context"
            table.add("kernel", "attention", PLATFORMS[gpu], "bfloat16",
                      common.shape(b=number(name, row, "batch_size", int),
                                   heads=number(name, row, "num_heads", int),
                                   kv_heads=number(name, row, "num_key_value_heads", int),
                                   sq=keys if prompt else 1, skv=keys if prompt else keys + 1,
                                   d=number(name, row, "head_dim", int), causal=prompt,
                                   impl="flash"),
                      number(name, row, "latency_ms", float) * 1e3, phase="forward",
                      library=stack, source="aiconfigurator")
        table.write(output / f"aiconfigurator-{PLATFORMS[gpu]}-attention-{phase}.csv")
    return count


def custom_allreduce(source, output):
    """All-reduces of serving frameworks, each version and kernel a library of its own."""
    count = 0
    for stem, name, text in tables(source, r"custom-allreduce-\w+"):
        count += 1
        gpu = stem.split("-")[-1]
        if gpu not in PLATFORMS:
            common.fail(f"{name}: unknown GPU {gpu}; known are {', '.join(PLATFORMS)}")
        table = common.Table(**PROVENANCE, path=stem, device=gpu.upper(), interconnect="switch",
                             note="graph replays, one node; times were in ms")
        for row in common.read_csv(name, text, ["backend", "table_version", "kernel_source",
                                                "allreduce_dtype", "num_gpus",
                                                "message_size_elements", "latency_ms"]):
            if row["kernel_source"].endswith("_eager"):
                table.skip("eager calls contain 20 to 30 us of launch")
                continue
            if row["allreduce_dtype"] not in NCCL_TYPES:
                table.skip(f"{row['allreduce_dtype']} is not of the schema")
                continue
            dtype, width = NCCL_TYPES[row["allreduce_dtype"]]
            elements = number(name, row, "message_size_elements", int)
            table.add("collective", "all_reduce", PLATFORMS[gpu], dtype,
                      common.shape(bytes=elements * width,
                                   ranks=number(name, row, "num_gpus", int), nodes=1,
                                   placement="node", inplace=False),
                      number(name, row, "latency_ms", float) * 1e3,
                      library=f"{row['backend']} {row['table_version']} {row['kernel_source']}",
                      source="aiconfigurator")
        table.write(output / f"aiconfigurator-{PLATFORMS[gpu]}-custom-allreduce.csv")
    return count


def nccl(source, output):
    count = 0
    for stem, name, text in tables(source, r"nccl-\w+"):
        count += 1
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
    return count


def links_of(source, system):
    """GB/s of a GPU's NVLinks and of its share of the NICs, of one direction."""
    for _, name, text in tables(source, r"systems"):
        facts = {row["key"]: row["value"] for row in common.read_csv(name, text, ["system", "key", "value"])
                 if row["system"] == system}
        try:
            return {f"{link}_GBps": round(float(facts[f"node.{key}"]) / 1e9)
                    for link, key in (("nvlink", "intra_node_bw"), ("nic", "inter_node_bw"))}
        except (KeyError, ValueError):
            common.fail(f"{name}: no intra_node_bw and inter_node_bw of {system}")
    common.fail(f"{source}: no systems.csv, which says what links the DeepEP tables ran on")


# Collector of the tables (collector/deep_collector): 8 ranks a node, FP8 with a float for 128 values
# out, bfloat16 back; between nodes the normal mode's tokens choose four nodes at most.
DEEPEP = {"normal": ("deduplicated", "transmit_us"), "low-latency": ("direct", "avg_t_us")}
MULTIPROCESSORS = {"h100": 132, "h200": 132, "h20": 78}


def deepep(source, output):
    """Expert-parallel dispatch and combine; what the normal mode runs before them in rows apart."""
    count = 0
    for stem, name, text in tables(source, r"deepep-(normal|low-latency)-\w+"):
        count += 1
        _, mode, gpu = re.fullmatch(r"(deepep)-(normal|low-latency)-(\w+)", stem).groups()
        if gpu not in PLATFORMS or gpu not in MULTIPROCESSORS:
            common.fail(f"{name}: unknown GPU {gpu}; known are {', '.join(MULTIPROCESSORS)}")
        links = links_of(source, f"{gpu}_sxm")
        algorithm, column = DEEPEP[mode]
        table = common.Table(**PROVENANCE, path=stem, device=gpu.upper(), interconnect="switch",
                             note="8 GPUs a node; the best chunk sizes of each call")
        fields = ["table_version", "node_num", "hidden_size", "num_topk", "num_experts", "num_token"]
        columns = [f"{op}_{column}" for op in ("dispatch", "combine")]
        for row in common.read_csv(name, text, fields + columns):
            nodes = number(name, row, "node_num", int)
            groups = nodes if algorithm == "deduplicated" and nodes > 4 else 0
            for op, dtype in (("dispatch", "float8_e4m3fn"), ("combine", "bfloat16")):
                sms = number(name, row, f"{op}_sms", int) if algorithm == "deduplicated" else 0
                shape = common.shape(
                    tokens=number(name, row, "num_token", int),
                    hidden=number(name, row, "hidden_size", int),
                    top_k=number(name, row, "num_topk", int),
                    experts=number(name, row, "num_experts", int), ranks=8 * nodes, nodes=nodes,
                    groups=groups, groups_of_token=4 if groups else 0, sms=sms,
                    multiprocessors=MULTIPROCESSORS[gpu], **links, algorithm=algorithm)
                times = {op: number(name, row, f"{op}_{column}", float)}
                if nodes > 1 and algorithm == "deduplicated":
                    times[f"{op}_notify"] = number(name, row, f"{op}_notify_us", float)
                for what, time in times.items():
                    table.add("exchange", what, PLATFORMS[gpu], dtype, shape, time,
                              library=f"sglang {row['table_version']} deepep",
                              source="aiconfigurator")
        table.write(output / f"aiconfigurator-{PLATFORMS[gpu]}-deepep-{mode}.csv")
    return count


def run(source, output):
    if sum(convert(source, output)
           for convert in (gemm, attention, nccl, custom_allreduce, deepep)) == 0:
        common.fail(f"{source}: no table gemm-*, attention-*, nccl-*, custom-allreduce-* or deepep-* as "
                    ".csv or .csv.xz; is this the right source?")


if __name__ == "__main__":
    sys.exit(common.main(__doc__, run))
