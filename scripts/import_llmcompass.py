#!/usr/bin/env python3
"""LLMCompass's measured operators (ae/figure5, fp16) to the neutral CSV.

matmul lines are m, n, k, time in ms, throughput. layer norm and softmax lines are rows, columns,
10^9 elements per second; gelu lines are elements, 10^9 elements per second. The lists without
shapes (transformer*_A100.csv) cannot be expressed and are left out.
"""
import re
import sys

import import_common as common

PLATFORMS = {"A100": "a100-sxm4-nvswitch", "MI210": "mi210-pcie"}


def parse(op, fields):
    """(neutral op, shape, time in us) of one line."""
    if op == "matmul":
        m, k, n = (int(f) for f in fields[:3])
        time = re.fullmatch(r"([\d.]+)ms", fields[3])
        if not time:
            raise ValueError(f"time '{fields[3]}' is not in ms")
        return "linear", common.shape(m=m, n=n, k=k, bias=False), float(time.group(1)) * 1e3
    if op == "gelu":
        elements = int(fields[0])
        return ("elementwise", common.shape(elements=elements, inputs=1, op="gelu"),
                elements / float(fields[1]) * 1e-3)
    rows, cols = int(fields[0]), int(fields[1])
    return ("layer_norm" if op == "layernorm" else "softmax", common.shape(rows=rows, cols=cols),
            rows * cols / float(fields[2]) * 1e-3)


def run(source, output):
    tables = {}
    for name, text in common.read_tree(source, r"(matmul|gelu|layernorm|softmax)_\w+\.csv$"):
        op, gpu = re.search(r"(matmul|gelu|layernorm|softmax)_(\w+)\.csv$", name).groups()
        platform = PLATFORMS.get(gpu) or common.fail(f"{name}: unknown GPU '{gpu}'")
        table = tables.setdefault(platform, common.Table(
            source="https://github.com/PrincetonUniversity/LLMCompass",
            commit="2e015fd2ee750e6cad8d7152df52551e5b41ef20", licence="BSD-3-Clause",
            path="ae/figure5", command="scripts/import_llmcompass.py", device=gpu,
            note="times derived from throughput, except matmul"))
        for number, line in enumerate(text.splitlines(), 1):
            fields = [f.strip() for f in line.split(",")]
            if fields == [""]:
                continue
            try:
                neutral, row_shape, time_us = parse(op, fields)
            except (ValueError, IndexError, ZeroDivisionError) as error:
                common.fail(f"{name}:{number}: cannot read '{line}' ({error})")
            table.add("kernel", neutral, platform, "float16", row_shape, time_us, phase="forward",
                      library="torch", source="llmcompass")
    for platform, table in tables.items():
        table.write(output / f"llmcompass-{platform}-kernels.csv")


if __name__ == "__main__":
    sys.exit(common.main(__doc__, run))
