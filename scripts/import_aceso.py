#!/usr/bin/env python3
"""Aceso's profile (SuperScaler, branch Aceso) to the neutral CSV.

GEMMs: forward passes of the linear layers of GPT (gpt_*_mbs*_tp*_algo0.csv, us), whose operands are
random: those of every layer without tensor parallelism, of the first of the MLP with it, as others then
hold an all-reduce; and both batches of attention, unfused. The profiler makes gradients by a pool of one
maximum (op_profiler.py, get_outputs_and_grads), so that backward passes multiply zeros, which takes less
power than training does: they are left out.

Collectives: prim_*_gpus.csv (ms by MiB) and comm_profile_miniset.json. The profiler's size is what
one rank passes in; the neutral size of an all-gather is the gathered output, so it is multiplied by
the ranks. Copies of one sweep under several model names are merged. 1e6 and 1e9 ms are the
profiler's marks for failed and skipped runs.
"""
import csv
import io
import json
import re
import sys

import import_common as common

SENTINELS_MS = (1e6, 1e9)
PROVENANCE = dict(source="https://github.com/microsoft/SuperScaler",
                  commit="fa80ad02c1dc855ca85b591fb689a09598d2cb7e", licence="MIT",
                  command="scripts/import_aceso.py", device="V100-32GB")

# Hidden size and heads of each model (model_configs.py).
MODELS = {"350M": (1024, 16), "1_3B": (2048, 32), "2_6B": (2560, 32), "6_7B": (4096, 32), "13B": (5120, 40)}
LINEAR_LAYERS = ("enc-MLP-GEMM-1", "enc-MLP-GEMM-2", "enc-attention-dense")
SEQUENCE = 2048  # tokens of a sample of GPT


def add(table, platform, op, ranks, mebibytes, dtype, time_ms, source):
    if time_ms in SENTINELS_MS or time_ms >= 1e5:
        table.skip("failure sentinel")
        return
    if mebibytes == 0:
        table.skip("size rounded to zero")
        return
    size = (mebibytes << 20) * (ranks if op == "all_gather" else 1)
    table.add("collective", op, platform, dtype,
              common.shape(bytes=size, ranks=ranks, nodes=1, placement="node", inplace=False),
              time_ms * 1e3, library="nccl", source=source)


def eurosys(source, output):
    platform = "v100-sxm2-nvlink"
    table = common.Table(**PROVENANCE, path="profiler/profiled-time-eurosys", interconnect="mesh",
                         note="host clock around one call; times were in ms")
    seen = set()
    for name, text in common.read_tree(source, r"prim_\w+.*gpus\.csv$"):
        match = re.search(r"prim_(gpt|t5|resnet)_.*?_(all_gather|all_reduce|all_to_all|reduce_scatter)"
                          r"_(\d+)gpus\.csv$", name)
        if not match:
            common.fail(f"{name}: unknown file name")
        dtype = "float32" if match.group(1) == "resnet" else "float16"
        rows = list(csv.reader(io.StringIO(text)))
        if rows[0] != ["data_size(MB)", "time(ms)"]:
            common.fail(f"{name}: expected the header data_size(MB),time(ms)")
        for size, time_ms in rows[1:]:
            key = (match.group(1, 2, 3), size, time_ms)
            if key in seen:
                table.skip("copy of a row in another file")
                continue
            seen.add(key)
            add(table, platform, match.group(2), int(match.group(3)), int(size), dtype,
                float(time_ms), f"aceso-{match.group(1)}")
    table.write(output / f"aceso-{platform}-collectives.csv")


def miniset(source, output):
    platform = "v100-pcie"
    table = common.Table(**PROVENANCE, path="profiler/profiled-time-miniset/comm_profile.pkl",
                         interconnect="mesh",
                         note="host clock around one call; a machine without NVLink by its bandwidth")
    for name, text in common.read_tree(source, r"comm_profile_miniset\.json$"):
        for key, time_ms in json.loads(text).items():
            match = re.fullmatch(r"(\w+)_(\d+)gpus_(\d+)_torch\.(float16|float32)", key)
            if not match:
                common.fail(f"{name}: unknown key '{key}'")
            op, ranks, size, dtype = match.groups()
            add(table, platform, op, int(ranks), int(size), dtype, time_ms, "aceso-miniset")
    table.write(output / f"aceso-{platform}-collectives.csv")


def layer_of(op, hidden, rows, ranks):
    """(m, n, k) of a linear layer of a GPT on a rank."""
    if op == "enc-MLP-GEMM-1":
        return rows, 4 * hidden // ranks, hidden
    return rows, hidden, (4 if "MLP" in op else 1) * hidden


def attention_of(op, hidden, heads, batch, ranks):
    """The shape of scores, or of what they weigh, of a rank's heads."""
    n, k = (SEQUENCE, hidden // heads) if op == "enc-attention-score" else (hidden // heads, SEQUENCE)
    return common.shape(b=batch * heads // ranks, m=SEQUENCE, n=n, k=k)


def forward_gemms(source, output):
    platform = "v100-sxm2-nvlink"
    table = common.Table(**PROVENANCE, path="profiler/profiled-time-eurosys", interconnect="mesh",
                         note="host clock around some forty calls; PyTorch, fp16")
    for name, text in common.read_tree(source, r"gpt_\w+_mbs\d+_tp\d+_algo0\.csv$"):
        size, *counts = re.search(r"gpt_(\w+)_mbs(\d+)_tp(\d+)_algo0\.csv$", name).groups()
        batch, ranks = map(int, counts)
        rows = {row["op_name"]: row for row in csv.DictReader(io.StringIO(text))}
        hidden, heads = MODELS[size]
        for op in LINEAR_LAYERS if ranks == 1 else LINEAR_LAYERS[:1]:
            m, n, k = layer_of(op, hidden, batch * SEQUENCE, ranks)
            mebibytes = n * k * 2 / 2**20
            if abs(mebibytes - float(rows[op]["weights"])) > 0.001:
                common.fail(f"{name}: {op} has weights of {rows[op]['weights']} MiB, not {mebibytes:.3f}")
            table.add("kernel", "linear", platform, "float16", common.shape(m=m, n=n, k=k, bias=False),
                      float(rows[op]["forward-compute"]), phase="forward", library="cublas TN", source="aceso-gpt")
        for op in ("enc-attention-score", "enc-attention-context"):
            table.add("kernel", "bmm", platform, "float16", attention_of(op, hidden, heads, batch, ranks),
                      float(rows[op]["forward-compute"]), phase="forward", library="cublas", source="aceso-gpt")
    table.write(output / f"aceso-{platform}-kernels.csv")


def run(source, output):
    archive = source / "profiled-time-eurosys_csv.tar.xz"
    eurosys(archive if archive.exists() else source, output)
    miniset(source, output)
    forward_gemms(archive if archive.exists() else source, output)


if __name__ == "__main__":
    sys.exit(common.main(__doc__, run))
