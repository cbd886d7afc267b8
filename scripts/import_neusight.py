#!/usr/bin/env python3
"""NeuSight's kernel tables (dataset/train/collect and dataset/test, ms) to the neutral CSV, and of its times
of whole models (label, inference) the linear layers.

The latencies are kept as they are: they include about 30 to 60 us of launch and measurement, which
the fit has to model apart. Everything ran in full float32, convolutions on A100 too: the kernels that
the rows name are cuDNN's scudnn, Winograd over sgemm, and FFT.
"""
import collections
import math
import re
import sys

import import_common as common
from retarget_study import operator

PLATFORMS = {"NVIDIA A100-PCIE-40GB": "a100-pcie-40gb", "NVIDIA A100 80GB PCIe": "a100-pcie-80gb",
             "Tesla P100-PCIE-16GB": "p100-pcie", "Tesla V100-PCIE-32GB": "v100-pcie",
             "Tesla T4": "t4", "NVIDIA L4": "l4", "NVIDIA H100 80GB HBM3": "h100-sxm5-nvswitch",
             "Tesla P4": "p4", "NVIDIA H100 PCIe": "h100-pcie"}
# Upstream's names of element-wise operators: a final "u" is an operator with one tensor argument.
TWO_INPUTS = {"add", "mul", "div", "sub", "pow"}
ONE_INPUT = {"addu": "add", "mulu": "mul", "divu": "div", "subu": "sub", "gelu": "gelu",
             "relu": "relu", "powu": "pow", "tanh": "tanh", "exp": "exp", "sqrt": "sqrt"}


def row_shape(op, row, order):
    """(neutral op, shape) of one row; None where the schema has no such operator.

    `order`: rows of the operator on this GPU before it. Each convolution that the benchmark ran cost
    the host of the later ones a little more (0.75 ms after 5,000 on P100, whatever their size).
    """
    def number(column):
        return int(float(row[column]))
    if op == "linear":
        return "linear", common.shape(m=number("B") * number("M"), n=number("K"), k=number("N"),
                                      bias=True)
    if op == "bmm":
        return "bmm", common.shape(b=number("B"), m=number("M"), n=number("K"), k=number("N"))
    if op in ("ln", "softmax"):
        return ("layer_norm" if op == "ln" else "softmax",
                common.shape(rows=number("B"), cols=number("H")))
    if op == "conv":
        kernel, size = number("Kernel_Szie"), number("Input_Size")
        return "conv2d", common.shape(
            n=number("B"), c=number("Input_Channel"), h=size, w=size, k=number("Output_Channel"),
            r=kernel, s=kernel, stride=number("Stride"), pad=number("Padding"), dilation=1, groups=1,
            order=order)
    if op in TWO_INPUTS or op in ONE_INPUT:
        return "elementwise", common.shape(elements=number("B") * number("H"),
                                           inputs=2 if op in TWO_INPUTS else 1,
                                           op=op if op in TWO_INPUTS else ONE_INPUT[op])
    return None


def empty_table(path, device):
    return common.Table(
        source="https://github.com/sitar-lab/NeuSight", commit="6945927d9afcca2b9daf021f8395e53edc5b4eef",
        licence="MIT", path=f"scripts/asplos/{path}", command="scripts/import_neusight.py", device=device,
        note="times include launch and measurement; they were in ms")


def add_linear_layers(table, platform, name, text):
    """Of one model's inference on one GPU."""
    for row in common.read_csv(name, text, ["op", "target", "input_shapes", "output_shape", "fw_latency"]):
        known = operator(row)
        if known is None or known[0] not in ("aten::linear", "aten::addmm"):
            continue
        if known[0] == "aten::linear":
            x, (n, k) = known[1][:2]
        else:
            x, (k, n) = known[1][-2:]
        if math.prod(x[:-1]) < 64:
            table.skip("fewer than 64 rows, whose time is mostly the host's")
            continue
        # Heads of language models have no bias (transformers, GPT2LMHeadModel, OPTForCausalLM), and GPT-2's
        # other layers keep weights[k, n] (Conv1D).
        shape = common.shape(m=math.prod(x[:-1]), n=n, k=k, bias=row["target"] != "lm_head",
                             across=int(known[0] == "aten::addmm"))
        table.add("kernel", "linear", platform, "float32", shape,
                  float(row["fw_latency"]) * 1e3, phase="forward", library="torch 2.1.0", source="neusight-models")


MODELS, OPERATORS = r"label/.*-inf-[0-9-]*\.csv$", r"(test|train)/[^/]*\.csv$"


def add_model(tables, name, text):
    device = name.split("/")[-2].replace("_", " ")
    platform = PLATFORMS.get(device)
    if platform:
        add_linear_layers(tables.setdefault((platform, "models"), empty_table("label", device)), platform, name, text)


def add_operators(tables, split, name, text):
    """Rows of one operator's file, in its order."""
    orders = collections.Counter()
    for row in common.read_csv(name, text, ["OPName", "Latency", "Device", "B"]):
        device = row["Device"]
        if device not in PLATFORMS:
            common.fail(f"{name}: unknown GPU '{device}'; add it to PLATFORMS")
        platform = PLATFORMS[device]
        table = tables.setdefault((platform, split), empty_table(f"data/dataset/{split}", device))
        counted = (device, row["OPName"])
        shaped = row_shape(row["OPName"], row, orders[counted])
        orders[counted] += 1
        if shaped is None:
            table.skip(f"operator {row['OPName']} is not in the schema")
            continue
        table.add("kernel", shaped[0], platform, "float32", shaped[1], float(row["Latency"]) * 1e3,
                  phase="forward", library=f"torch {row['Torch Version'].lstrip('p')}",
                  source=f"neusight-{split}")


def run(source, output):
    tables, found = {}, set()
    for name, text in common.read_tree(source, f"{MODELS}|{OPERATORS}"):
        if re.search(MODELS, name):
            found.add(MODELS)
            add_model(tables, name, text)
        split = re.search(OPERATORS, name)
        if split:
            found.add(OPERATORS)
            add_operators(tables, split.group(1), name, text)
    for pattern in (MODELS, OPERATORS):
        if pattern not in found:
            common.fail(f"{source}: no file matches '{pattern}'; is this the right source?")
    for (platform, split), table in tables.items():
        table.write(output / f"neusight-{split}-{platform}-kernels.csv")


if __name__ == "__main__":
    sys.exit(common.main(__doc__, run))
