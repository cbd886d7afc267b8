#!/usr/bin/env python3
"""aiconfigurator's measured tables (times in ms, DeepEP's in us) to the neutral CSV.

SOURCE is the folder of its tables as CSV or CSV.xz, any of them:

gemm-GPU                one table a precision
attention-PHASE-GPU     prompts (context) and decodes (generation): what is in 16 bits and without
                        windows; the rest as a table of operators
nccl-GPU                one table a version and type
custom-allreduce-GPU    the serving frameworks' own all-reduces, each version and kernel a library
deepep-MODE-GPU         DeepEP's modes (normal, low-latency), with the links that systems.csv states
mla-PHASE-GPU, moe-GPU  latent attention, experts: tables of operators
power-gemm-GPU          powers, for `foretrace calibrate power`

Tables of operators and of powers keep the source's columns, since what they measured has no place in
the neutral schema; `foretrace calibrate kernel` and `calibrate power` read them. Columns that say who
measured (backend, version, kernel_source) become part of the library, and each has a table of its own.
message_size counts elements of the stated type; all-gather, reduce-scatter and all-to-all of NCCL
state the whole buffer.
"""
import csv
import io
import lzma
import pathlib
import re
import sys

import import_common as common

# By the name of the source's files, without "-sxm". Others are platforms by their own names.
PLATFORMS = {"h100": "h100-sxm5-nvswitch", "a100": "a100-sxm4-nvswitch",
             "h200": "h200-sxm5-nvswitch", "b200": "b200-sxm-nvswitch", "b300": "b300-sxm-nvswitch",
             "gb200": "gb200-nvswitch", "gb300": "gb300-nvswitch", "l40s": "l40s-pcie",
             "h20": "h20-nvswitch", "l4": "l4-pcie", "rtx-pro-6000": "rtx-pro-6000-pcie",
             "rtx-pro-6000-server": "rtx-pro-6000-pcie"}
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
# Of x, each found as the GEMM is called.
SCALES = {"fp8": "tensor", "fp8_block": "block"}
TYPES = {"half": ("float16", 2), "float16": ("float16", 2), "bfloat16": ("bfloat16", 2),
         "float": ("float32", 4), "float32": ("float32", 4), "int8": ("int8", 1)}
NCCL_OPS = {"all_reduce": "all_reduce", "all_gather": "all_gather", "alltoall": "all_to_all",
            "reduce_scatter": "reduce_scatter"}


def tables(source, pattern):
    """(stem, name, text) of the tables whose name matches, by groups of the pattern."""
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


def platform_of(gpu):
    label = gpu.lower().replace("_", "-").removesuffix("-sxm")
    return PLATFORMS.get(label, label)


class Row(dict):
    """A row by column, with the place of its line."""

    def __init__(self, place, row):
        super().__init__(row)
        self.place = place

    def size(self, key):
        """A whole number from 1 on, also as 8.0, which is what tables with gaps make of it."""
        try:
            value = float(self[key])
        except ValueError:
            value = 0
        if not 1 <= value <= 2**53 or value != int(value):
            common.fail(f"{self.place}: {key} is '{self[key]}', not a whole number from 1 on")
        return int(value)

    def time(self, key):
        """As stated; nan where there is none, which tables skip and say so."""
        text = self[key].strip()
        try:
            return float(text) if text else float("nan")
        except ValueError:
            return common.fail(f"{self.place}: {key} is '{text}', not a number")

    def text(self, key):
        if not self[key].strip():
            common.fail(f"{self.place}: no {key}")
        return self[key].strip()


def rows_of(name, text, needed):
    """Rows of a table, at least one."""
    reader = common.read_csv(name, text, needed)
    count = 0
    for row in reader:
        count += 1
        yield Row(reader.place, row)
    if count == 0:
        common.fail(f"{name}: has a header and no rows")


STACK_COLUMNS = ("backend", "framework", "table_version", "version", "kernel_source")


def stack_of(stem, row):
    """Who measured a row: what it says of it, else what is known of the table."""
    said = [row[column].strip() for column in STACK_COLUMNS if row.get(column, "").strip()]
    return " ".join(said) if said else STACKS.get(stem, "unknown")


class ByStack:
    """Tables of one kind, one for each stack that ran it; with one stack its name is left out."""

    def __init__(self):
        self.tables = {}

    def table(self, stack, *key, **provenance):
        return self.tables.setdefault(key, {}).setdefault(stack, common.Table(**PROVENANCE, **provenance))

    def write(self, output, stem):
        for key, stacks in self.tables.items():
            for stack, table in stacks.items():
                name = "-".join((stem, *key))
                if len(stacks) > 1:
                    name += "-" + re.sub(r"[^A-Za-z0-9.]+", "-", stack)
                table.write(output / f"{name}.csv")


class OperatorTable:
    """Rows in the source's columns. Repeats of one shape become their median."""

    def __init__(self, stem, text, column, note):
        self.header = next(csv.reader(io.StringIO(text)), [])
        self.column = column
        self.provenance = common.Table(**PROVENANCE, path=stem, note=note)
        self.rows = {}
        self.skipped = self.provenance.skip

    def add(self, row):
        value = row.time(self.column)
        if not 0 < value < common.SENTINEL_US:
            self.skipped("time is zero, negative, not finite or a failure sentinel"
                         if self.column != "power_W" else "power is not a positive number")
            return
        key = tuple(row[column] for column in self.header if column != self.column)
        self.rows.setdefault(key, []).append(value)

    def write(self, path):
        if not self.rows and not self.provenance.skipped:
            return
        lines = []
        for key, values in self.rows.items():
            fields = list(key)
            value = common.statistics.median(values)
            fields.insert(self.header.index(self.column), f"{value:.9g}")
            lines.append(fields)
        self.provenance.write_rows(path, self.header, lines)


def gemm(source, output):
    count = 0
    for stem, name, text in tables(source, r"gemm-.+"):
        count += 1
        gpu = stem.removeprefix("gemm-")
        made = ByStack()
        for row in rows_of(name, text, ["gemm_dtype", "n", "k", "m", "latency_ms"]):
            dtype, stack = row.text("gemm_dtype"), stack_of(stem, row)
            table = made.table(
                stack, dtype, path=f"{stem} ({stack})", device=gpu.upper(),
                note="times inside CUDA graphs, without launch; times were in ms" + NOTES.get(dtype, ""))
            if dtype not in DTYPES:
                table.skip(f"{dtype} is not a type of the schema")
                continue
            shape = common.shape(m=row.size("m"), n=row.size("n"), k=row.size("k"), bias=False)
            if dtype in SCALES:
                shape += f";quantised={SCALES[dtype]}"
            table.add("kernel", "linear", platform_of(gpu), DTYPES[dtype], shape,
                      row.time("latency_ms") * 1e3, phase="forward",
                      library=f"{stack} {dtype}" if dtype in NOTES else stack,
                      source="aiconfigurator")
        made.write(output, f"aiconfigurator-{platform_of(gpu)}-gemm")
    return count


def attention(source, output):
    """Causal prompts, nothing cached; and one new token of each sequence over `step` cached ones."""
    count = 0
    for stem, name, text in tables(source, r"attention-(context|generation)-.+"):
        count += 1
        _, phase, gpu = stem.split("-", 2)
        made = ByStack()
        others = OperatorTable(stem, text, "latency_ms",
                               "attention in 8 bits, or over windows; times in ms")
        length = "isl" if phase == "context" else "step"
        for row in rows_of(name, text, ["attn_dtype", "kv_cache_dtype", "num_heads",
                                        "num_key_value_heads", "head_dim", "batch_size", length,
                                        "latency_ms"]):
            types = {row.text("attn_dtype"), row.text("kv_cache_dtype")}
            window = row.get("window_size", "").strip()
            if types not in ({"bfloat16"}, {"float16"}) or window not in ("", "0", "0.0"):
                others.add(row)
                continue
            keys, prompt, stack = row.size(length), phase == "context", stack_of(stem, row)
            table = made.table(stack, path=f"{stem} ({stack})", device=gpu.upper(),
                               note="full attention in 16 bits; times were in ms")
            table.add("kernel", "attention", platform_of(gpu), types.pop(),
                      common.shape(b=row.size("batch_size"), heads=row.size("num_heads"),
                                   kv_heads=row.size("num_key_value_heads"),
                                   sq=keys if prompt else 1, skv=keys if prompt else keys + 1,
                                   d=row.size("head_dim"), causal=prompt, impl="flash"),
                      row.time("latency_ms") * 1e3, phase="forward", library=stack,
                      source="aiconfigurator")
        made.write(output, f"aiconfigurator-{platform_of(gpu)}-attention-{phase}")
        others.write(output / f"aiconfigurator-{platform_of(gpu)}-attention-{phase}-others.csv")
    return count


# What tables of operators have: column of the value, sizes, what has to be said.
OPERATORS = {
    "mla-context": ("latency_ms", ["num_heads", "batch_size", "isl"], ["mla_dtype", "kv_cache_dtype"],
                    "latent attention of prompts; times in ms"),
    "mla-generation": ("latency_ms", ["num_heads", "batch_size", "step"], ["mla_dtype", "kv_cache_dtype"],
                       "latent attention of one new token of each sequence; times in ms"),
    "moe": ("latency_ms", ["hidden_size", "inter_size", "num_experts", "topk", "moe_tp_size", "moe_ep_size",
                           "num_tokens"], ["moe_dtype", "distribution"],
            "experts of one rank without communication, tokens of all ranks; times in ms"),
    "power-gemm": ("power_W", ["n", "k", "m", "power_limit_W"], ["gemm_dtype"],
                   "power of the board, mean of a second and more"),
}


def operators(source, output):
    count = 0
    for kind, (column, sizes, texts, note) in OPERATORS.items():
        for stem, name, text in tables(source, kind + r"-.+"):
            count += 1
            table = OperatorTable(stem, text, column, note)
            for row in rows_of(name, text, [*texts, *sizes, column]):
                for size in sizes:
                    row[size] = row.size(size)
                for said in texts:
                    row.text(said)
                table.add(row)
            table.write(output / f"aiconfigurator-{platform_of(stem.removeprefix(kind + '-'))}-{kind}.csv")
    return count


def custom_allreduce(source, output):
    """All-reduces of serving frameworks, each version and kernel a library of its own."""
    count = 0
    for stem, name, text in tables(source, r"custom-allreduce-.+"):
        count += 1
        gpu = stem.removeprefix("custom-allreduce-")
        table = common.Table(**PROVENANCE, path=stem, device=gpu.upper(), interconnect="switch",
                             note="graph replays, one node; times were in ms")
        for row in rows_of(name, text, ["backend", "table_version", "kernel_source", "allreduce_dtype",
                                        "num_gpus", "message_size_elements", "latency_ms"]):
            if row["kernel_source"].endswith("_eager"):
                table.skip("eager calls contain 20 to 30 us of launch")
                continue
            if row["allreduce_dtype"] not in TYPES:
                table.skip(f"{row['allreduce_dtype']} is not of the schema")
                continue
            dtype, width = TYPES[row["allreduce_dtype"]]
            table.add("collective", "all_reduce", platform_of(gpu), dtype,
                      common.shape(bytes=row.size("message_size_elements") * width,
                                   ranks=row.size("num_gpus"), nodes=1, placement="node", inplace=False),
                      row.time("latency_ms") * 1e3,
                      library=f"{row['backend']} {row['table_version']} {row['kernel_source']}",
                      source="aiconfigurator")
        table.write(output / f"aiconfigurator-{platform_of(gpu)}-custom-allreduce.csv")
    return count


def nccl(source, output):
    count = 0
    for stem, name, text in tables(source, r"nccl-.+"):
        count += 1
        gpu = stem.removeprefix("nccl-")
        made = {}
        needed = ["version", "op_name", "nccl_dtype", "num_gpus", "message_size_elements",
                  "latency_ms"]
        for row in rows_of(name, text, needed):
            key = (row.text("version"), row.text("nccl_dtype"))
            table = made.setdefault(key, common.Table(
                **PROVENANCE, path=f"{stem}, NCCL {row['version']}", device=gpu.upper(),
                interconnect="switch", note="nccl-tests, out of place; times were in ms"))
            if row["op_name"] not in NCCL_OPS or row["nccl_dtype"] not in TYPES:
                table.skip(f"{row['op_name']} of {row['nccl_dtype']} is not of the schema")
                continue
            dtype, width = TYPES[row["nccl_dtype"]]
            table.add("collective", NCCL_OPS[row["op_name"]], platform_of(gpu), dtype,
                      common.shape(bytes=row.size("message_size_elements") * width,
                                   ranks=row.size("num_gpus"), nodes=1, placement="node", inplace=False),
                      row.time("latency_ms") * 1e3, library=f"nccl {row['version']}",
                      source="aiconfigurator")
        for (version, dtype), table in made.items():
            table.write(output / f"aiconfigurator-{platform_of(gpu)}-nccl-{version}-{dtype}.csv")
    return count


def links_of(source, gpu):
    """GB/s of a GPU's NVLinks and of its share of the NICs, of one direction."""
    names = {gpu, gpu + "_sxm", gpu.removesuffix("_sxm")}
    for _, name, text in tables(source, r"systems"):
        facts = {row["key"]: row["value"] for row in common.read_csv(name, text, ["system", "key", "value"])
                 if row["system"] in names}
        try:
            return {f"{link}_GBps": round(float(facts[f"node.{key}"]) / 1e9)
                    for link, key in (("nvlink", "intra_node_bw"), ("nic", "inter_node_bw"))}
        except (KeyError, ValueError):
            common.fail(f"{name}: no intra_node_bw and inter_node_bw of {gpu}")
    common.fail(f"{source}: no systems.csv, which says what links the DeepEP tables ran on")


# Collector of the tables (collector/deep_collector): 8 ranks a node, FP8 with a float for 128 values
# out, bfloat16 back; between nodes the normal mode's tokens choose four nodes at most.
DEEPEP = {"normal": ("deduplicated", "transmit_us"), "low-latency": ("direct", "avg_t_us")}
MULTIPROCESSORS = {"h100": 132, "h200": 132, "h20": 78, "b200": 148, "gb200": 148, "b300": 148, "gb300": 148,
                   "a100": 108}


def deepep(source, output):
    """Expert-parallel dispatch and combine; what the normal mode runs before them in rows apart."""
    count = 0
    for stem, name, text in tables(source, r"deepep-(normal|low-latency)-.+"):
        count += 1
        mode, gpu = re.fullmatch(r"deepep-(normal|low-latency)-(.+)", stem).groups()
        chip = gpu.removesuffix("_sxm")
        if chip not in MULTIPROCESSORS:
            common.fail(f"{name}: unknown GPU {gpu}; known are {', '.join(MULTIPROCESSORS)}")
        links = links_of(source, gpu)
        algorithm, column = DEEPEP[mode]
        table = common.Table(**PROVENANCE, path=stem, device=gpu.upper(), interconnect="switch",
                             note="8 GPUs a node; the best chunk sizes of each call")
        needed = ["table_version", "node_num", "hidden_size", "num_topk", "num_experts", "num_token"]
        needed += [f"{op}_{column}" for op in ("dispatch", "combine")]
        if algorithm == "deduplicated":
            needed += [f"{op}_{what}" for op in ("dispatch", "combine") for what in ("sms", "notify_us")]
        for row in rows_of(name, text, needed):
            nodes = row.size("node_num")
            groups = nodes if algorithm == "deduplicated" and nodes > 4 else 0
            for op, dtype in (("dispatch", "float8_e4m3fn"), ("combine", "bfloat16")):
                sms = row.size(f"{op}_sms") if algorithm == "deduplicated" else 0
                shape = common.shape(
                    tokens=row.size("num_token"), hidden=row.size("hidden_size"),
                    top_k=row.size("num_topk"), experts=row.size("num_experts"), ranks=8 * nodes,
                    nodes=nodes, groups=groups, groups_of_token=4 if groups else 0, sms=sms,
                    multiprocessors=MULTIPROCESSORS[chip], **links, algorithm=algorithm)
                times = {op: row.time(f"{op}_{column}")}
                if nodes > 1 and algorithm == "deduplicated":
                    times[f"{op}_notify"] = row.time(f"{op}_notify_us")
                for what, time in times.items():
                    table.add("exchange", what, platform_of(gpu), dtype, shape, time,
                              library=f"sglang {row['table_version']} deepep",
                              source="aiconfigurator")
        table.write(output / f"aiconfigurator-{platform_of(gpu)}-deepep-{mode}.csv")
    return count


def run(source, output):
    kinds = (gemm, attention, nccl, custom_allreduce, deepep, operators)
    if sum(convert(source, output) for convert in kinds) == 0:
        common.fail(f"{source}: no table gemm-*, attention-*, mla-*, moe-*, nccl-*, custom-allreduce-*, deepep-* "
                    "or power-gemm-* as .csv or .csv.xz; is this the right source?")


if __name__ == "__main__":
    sys.exit(common.main(__doc__, run))
