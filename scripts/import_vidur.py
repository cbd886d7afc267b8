#!/usr/bin/env python3
"""vidur's profiling tables (times in ms) to the neutral CSV: network/*.csv and compute/**/mlp.csv.

`size` of the network tables is in bytes. Left out: h100_pairwise_nvlink/send_recv.csv, which is a
copy of the A100 file. The linear layers of the mlp tables are fp16 GEMMs whose shapes follow from
the model's dimensions and the tensor-parallel degree.
"""
import hashlib
import re
import sys

import import_common as common

PLATFORMS = {"a100_dgx": ("a100-sxm4-nvswitch", "switch"),
             "h100_dgx": ("h100-sxm5-nvswitch", "switch"),
             "a100_pairwise_nvlink": ("a100-pcie-pairwise-nvlink", "mesh"),
             "h100_pairwise_nvlink": ("h100-pcie-pairwise-nvlink", "mesh"),
             "a40_pairwise_nvlink": ("a40-pcie-pairwise-nvlink", "mesh")}
GPUS = {"a100": "a100-sxm4-nvswitch", "h100": "h100-sxm5-nvswitch", "a40": "a40-pcie-pairwise-nvlink"}
PROVENANCE = dict(source="https://github.com/microsoft/vidur",
                  commit="7d47513363ec447a741ac5e47241580b47724fbf", licence="MIT",
                  command="scripts/import_vidur.py")


def network(source, output):
    tables = {}
    seen = {}
    for name, text in common.read_tree(source, r"network/[^/]+/(all_reduce|send_recv)\.csv$"):
        machine, op = re.search(r"network/([^/]+)/(\w+)\.csv$", name).groups()
        digest = hashlib.sha256(text.encode()).hexdigest()
        if digest in seen:
            print(f"{name}: copy of {seen[digest]}, left out", file=sys.stderr)
            continue
        seen[digest] = name
        if machine not in PLATFORMS:
            common.fail(f"{name}: unknown machine {machine}")
        platform, interconnect = PLATFORMS[machine]
        table = tables.setdefault(platform, common.Table(
            **PROVENANCE, path=f"data/profiling/network/{machine}", interconnect=interconnect,
            note="PyTorch, median of 3 repeats; clock resolution 1 us; times were in ms"))
        column = f"time_stats.{op}.median"
        for row in common.read_csv(name, text, [column, "size", "num_workers", "devices_per_node"]):
            ranks = int(row["num_workers"])
            nodes = max(1, ranks // int(row["devices_per_node"]))
            table.add("collective", op, platform, "float16",
                      common.shape(bytes=int(row["size"]), ranks=ranks, nodes=nodes,
                                   placement="node" if nodes == 1 else "cross",
                                   inplace=op == "all_reduce",
                                   **({"oneway": 1} if op == "send_recv" else {})),
                      float(row[column]) * 1e3, std_us=float(row[f"time_stats.{op}.std"]) * 1e3,
                      repeats=3, library="nccl", source="vidur")
    for platform, table in tables.items():
        table.write(output / f"vidur-{platform}-collectives.csv")


def linears(row):
    """(column, n, k) of each linear layer of one rank, for y[m,n] = x[m,k] W."""
    tp = int(row["num_tensor_parallel_workers"])
    heads, kv_heads = int(row["n_head"]), int(row["n_kv_head"])
    width, expanded = int(row["n_embd"]), int(row["n_expanded_embd"])
    head = width // heads
    gate = 2 if row["use_gated_mlp"] == "True" else 1
    return [("attn_pre_proj", (heads + 2 * kv_heads) * head // tp, width),
            ("attn_post_proj", width, width // tp),
            ("mlp_up_proj", gate * expanded // tp, width),
            ("mlp_down_proj", width, expanded // tp)]


def compute(source, output):
    tables = {}
    for name, text in common.read_tree(source, r"compute/.*/mlp\.csv$"):
        gpu = re.search(r"compute/(\w+)/", name).group(1)
        platform = GPUS[gpu]
        table = tables.setdefault(platform, common.Table(
            **PROVENANCE, path=f"data/profiling/compute/{gpu}", device=gpu.upper(),
            note="CUDA event medians of one operator; times were in ms"))
        model = name.split("/")[-2]
        needed = ["num_tokens", "num_tensor_parallel_workers", "n_embd", "n_expanded_embd"]
        for row in common.read_csv(name, text, needed):
            tokens = int(row["num_tokens"])
            width = int(row["n_embd"])
            for column, n, k in linears(row):
                add(table, row, column, "linear", platform,
                    common.shape(m=tokens, n=n, k=k, bias=False), model)
            table.skip("input_layernorm is Llama's RMSNorm, which the schema has not")
            add(table, row, "add", "elementwise", platform,
                common.shape(elements=tokens * width, inputs=2, op="add"), model)
    for platform, table in tables.items():
        table.write(output / f"vidur-{platform}-kernels.csv")


def add(table, row, column, op, platform, row_shape, model):
    median = row.get(f"time_stats.{column}.median", "")
    if median in ("", "nan"):
        table.skip(f"{column} not measured")
        return
    table.add("kernel", op, platform, "float16", row_shape, float(median) * 1e3, phase="forward",
              std_us=float(row[f"time_stats.{column}.std"]) * 1e3, library=f"vidur {column} {model}",
              source="vidur")


def run(source, output):
    network(source, output)
    compute(source, output)


if __name__ == "__main__":
    sys.exit(common.main(__doc__, run))
