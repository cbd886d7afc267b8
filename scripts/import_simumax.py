#!/usr/bin/env python3
"""SimuMax's measured GEMMs and collectives (efficiencies of peaks) to the neutral CSV.

SOURCE is the folder of its tables as CSV. Forward gemms (layout TN) and input gradients (NN); weight
gradients are left out, as they add to a buffer of 32 bits. A time is 2 b m n k / (peak x efficiency).
GEMMs of experts, a group for each, are rows of bmm; of weight gradients those that add to a buffer of
16 bits, less what reading it takes at the memory's peak.
Causal attention, forward and backward, whose FLOP are counted without the mask; where values have
fewer elements than keys, backward alone (there deep heads have a model of their own), as of both of
their mean, which is how a layer's model takes them.
Of collectives within a node it states what it fitted to its measurements (network_fit.csv): a time is
size scale (1 + offset / n) / (bandwidth x efficiency) + latency (n + offset) scale + fixed latency.
"""
import collections
import pathlib
import sys

import import_common as common

PLATFORMS = {"B200": "b200-sxm-nvswitch"}
PROVENANCE = dict(source="https://github.com/MooreThreads/SimuMax",
                  commit="4dcaae513ba7679d56c116a17cd4a691ec41e252", licence="Apache-2.0",
                  command="scripts/import_simumax.py")
COLUMNS = ["machine", "b", "m", "k", "n", "layout", "out_dtype", "efficiency", "peak_TFLOPS"]
ATTENTION = ["machine", "op", "batch", "seq_len", "head_num", "kv_head_num", "qk_head_dim",
             "v_head_dim", "qkv_contiguous", "efficiency", "peak_TFLOPS"]
GROUPED = ["machine", "ng", "M", "N", "K", "main_grad_dtype", "stage", "efficiency", "peak_TFLOPS"]
FIT = ["machine", "tier", "op", "tier_GBps", "scale", "offset", "op_efficiency", "op_latency_us",
       "fixed_latency_us"]
OPS = {"all_reduce": "all_reduce", "all_gather": "all_gather", "reduce_scatter": "reduce_scatter",
       "all2all": "all_to_all"}
MIB = 1 << 20
ACROSS = {"TN": 0, "NN": 1, "NT": 2}  # operands that lie across what is summed over


def kernel_us(row, flop):
    return flop / (float(row["peak_TFLOPS"]) * 1e6 * float(row["efficiency"]))


def collectives(table, platform, row):
    if row["tier"] != "high_intra_node" or row["op"] not in OPS:
        return
    scale, offset = float(row["scale"]), float(row["offset"])
    rate = float(row["tier_GBps"]) * float(row["op_efficiency"]) * 2**30
    for ranks in (2, 4, 8):
        fixed = float(row["fixed_latency_us"] or 0)
        fixed += float(row.get(f"fixed_latency_us_{ranks}gpus") or 0)
        for power in range(11):
            size = MIB << power
            us = (size * scale * (1 + offset / ranks) / rate * 1e6
                  + float(row["op_latency_us"]) * (ranks + offset) * scale + fixed)
            table.add("collective", OPS[row["op"]], platform, "bfloat16",
                      common.shape(bytes=size, ranks=ranks, nodes=1, placement="node", inplace=False),
                      us, library="nccl of torch 2.10", source="simumax")


def gemm(table, platform, row):
    if row["layout"] not in ("TN", "NN") or int(row["b"]) != 1:
        table.skip("weight gradients and batches are not read")
        return
    m, n, k = (int(row[key]) for key in ("m", "n", "k"))
    table.add("kernel", "linear", platform, "bfloat16",
              common.shape(m=m, n=n, k=k, bias=False, across=ACROSS[row["layout"]]),
              kernel_us(row, 2 * m * n * k), phase="forward", library="torch 2.10", source="simumax")


def attention(table, platform, row):
    dim = (int(row["qk_head_dim"]) + int(row["v_head_dim"])) // 2
    uneven = row["qk_head_dim"] != row["v_head_dim"]
    if row["qkv_contiguous"] != "True" or (uneven and row["op"] == "sdp_fwd"):
        table.skip("strided operands, and forward values of another size")
        return
    batch, length, heads = (int(row[key]) for key in ("batch", "seq_len", "head_num"))
    gemms = 2 if row["op"] == "sdp_fwd" else 5
    table.add("kernel", "attention", platform, "bfloat16",
              common.shape(b=batch, heads=heads, kv_heads=int(row["kv_head_num"]), sq=length,
                           skv=length, d=dim, causal=True, impl="flash"),
              kernel_us(row, 2 * gemms * batch * length * length * heads * dim),
              phase="forward" if gemms == 2 else "backward", library="torch 2.10",
              source="simumax")


MEMORY_GBPS = 8000  # B200's peak, as its table of memory_bandwidth.csv has it


def grouped(table, platform, row):
    groups, m, n, k = (int(row[key]) for key in ("ng", "M", "N", "K"))
    us = kernel_us(row, 2 * groups * m * n * k)
    layout = "TN"
    if row["stage"] == "bwd_grad_act":
        n, k, layout = k, n, "NN"
    elif row["stage"] == "bwd_grad_w":
        if row["main_grad_dtype"] != "bf16":
            table.skip("weight gradients that are added to a buffer of 32 bits")
            return
        m, n, k, layout = n, k, m, "NT"
        us -= 2 * groups * m * n / (MEMORY_GBPS * 1e3)
    table.add("kernel", "bmm", platform, "bfloat16", common.shape(b=groups, m=m, n=n, k=k, across=ACROSS[layout]), us,
              phase="forward", library="torch 2.10", source="simumax")


def convert(source, output, name, columns, add, kind, **facts):
    """One table of SimuMax's; `add` takes each row into the table of its machine."""
    path = pathlib.Path(source) / name
    if not path.is_file():
        common.fail(f"{path}: there is no such table; is this the right source?")
    made, left_out = {}, collections.Counter()
    for row in common.read_csv(path.name, path.read_text("utf-8-sig"), columns):
        platform = PLATFORMS.get(row["machine"])
        if platform is None:
            left_out[row["machine"]] += 1
            continue
        if platform not in made:
            made[platform] = common.Table(**PROVENANCE, path="configs/system/b200_bf16_ceperm.json",
                                          device=row["machine"], **facts)
        add(made[platform], platform, row)
    for machine, count in left_out.items():
        print(f"{path.name}: {count} rows of {machine or 'no machine'} left out: not of {', '.join(PLATFORMS)}",
              file=sys.stderr)
    for platform, table in made.items():
        if table.rows or table.skipped:
            table.write(output / f"simumax-{platform}-{kind}.csv")


def run(source, output):
    times = "efficiencies of 2,250 TFLOP/s, turned into times"
    convert(source, output, "efficiency_matmul.csv", COLUMNS, gemm, "gemm-bfloat16", note=times)
    convert(source, output, "efficiency_group_matmul.csv", GROUPED, grouped, "grouped-bfloat16",
            note=f"{times}; a GEMM of each expert, by Transformer Engine's grouped linear layer")
    convert(source, output, "efficiency_attention.csv", ATTENTION, attention, "attention-bfloat16",
            note="efficiencies of 2,250 TFLOP/s, the mask not taken off, turned into times")
    convert(source, output, "network_fit.csv", FIT, collectives, "collectives", interconnect="switch",
            note="a fit by SimuMax to its measurements, at powers of two; GB/s are 2^30 there")


if __name__ == "__main__":
    sys.exit(common.main(__doc__, run))
