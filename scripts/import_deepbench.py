#!/usr/bin/env python3
"""DeepBench's workbooks (times in ms) to the neutral CSV: GEMM, convolution, all-reduce.

The all-reduce column "Gigabytes/sec" is ranks x size / time and is not read; the V100 workbook's
all-reduce times are blank. Convolutions whose stride or padding differ between the axes are left
out, as are the recurrent layers: the schema has neither. Backward of a convolution is the sum of
the times with respect to inputs and to parameters.

Its GEMMs are column-major (code/nvidia/gemm_bench.cu: cublasGemmEx with ldc = M), the schema's
y[m,n] row-major: its M are the schema's columns n, its N the rows m. A lies along the reduction where it is
transposed, B where it is not.

Operands in half precision are zeros (code/nvidia/tensor.h: numbers drawn from [0, 1) and converted to
uint16_t), which take less power than numbers. GEMMs in half precision that the V100's arithmetic bounds,
at 100 to 110 TFLOP/s where training gets 86 (import_aceso.py), are left out.
"""
import re
import sys

import import_common as common

GPUS = {"P100": ("p100-pcie", "mesh"), "V100": ("v100-sxm2-nvlink", "mesh")}
V100_FLOP_PER_BYTE = 125e12 / 900e9  # above which its tensor cores, not its memory, bound a kernel


def sections(rows):
    """Yields (header cells by text, data cells) for rows below a header that names its columns."""
    header = None
    for cells in rows:
        texts = set(cells.values())
        if {"M", "N", "K"} <= texts or "Forward (msec)" in texts or "Size # floats" in texts:
            header = {text: letter for letter, text in cells.items()}
        elif any("Recurrent" in t for t in texts) or any("Hidden" in t for t in texts):
            header = None
        elif header and cells:
            yield header, cells


def cell(header, cells, *names):
    for name in names:
        if name in header:
            text = cells.get(header[name], "")
            return float(text) if re.fullmatch(r"[-+.\dEe]+", text) else None
    return None


def add_gemm(table, platform, dtype, header, cells):
    m, n, k = (cell(header, cells, c) for c in "MNK")
    time = cell(header, cells, "Time (msec)")
    if None in (m, n, k, time):
        return
    if dtype == "float16" and platform.startswith("v100") and m * n * k / (m * k + k * n + m * n) > V100_FLOP_PER_BYTE:
        table.skip("GEMM of zeros, bound by arithmetic")
        return
    layout = [cells.get(header[f"{operand} Transpose"], "?") for operand in "AB"]
    across = (layout[0] == "N") + (layout[1] == "T")
    table.add("kernel", "linear", platform, dtype,
              common.shape(m=int(n), n=int(m), k=int(k), bias=False, across=across), time * 1e3, phase="forward",
              library="cublas " + "".join(layout), source="deepbench")


def add_conv(table, platform, dtype, header, cells):
    pick = [cell(header, cells, *names) for names in (
        ("N",), ("C",), ("H",), ("W",), ("K",), ("R", "R (Filter height)"),
        ("S", "S (Filter width)"), ("Vertical stride",), ("Horizontal stride",), ("pad_h",),
        ("pad_w",))]
    if None in pick:
        return
    n, c, h, w, k, r, s, stride_h, stride_w, pad_h, pad_w = (int(x) for x in pick)
    if stride_h != stride_w or pad_h != pad_w:
        table.skip("stride or padding differs between the axes")
        return
    row_shape = common.shape(n=n, c=c, h=h, w=w, k=k, r=r, s=s, stride=stride_h, pad=pad_h,
                             dilation=1, groups=1)
    forward = cell(header, cells, "Forward (msec)")
    inputs = cell(header, cells, "wrt Inputs (msec)")
    weights = cell(header, cells, "wrt Parameters (msec)")
    if forward is not None:
        table.add("kernel", "conv2d", platform, dtype, row_shape, forward * 1e3, phase="forward",
                  library="cudnn", source="deepbench")
    for gradient, time in (("input", inputs), ("weight", weights)):
        if time is not None:
            table.add("kernel", "conv2d", platform, dtype, row_shape + ";gradient=" + gradient,
                      time * 1e3, phase="backward", library="cudnn", source="deepbench")


def add_all_reduce(table, platform, header, cells):
    floats = cell(header, cells, "Size # floats")
    ranks = cell(header, cells, "# chips / accelerator cards")
    time = cell(header, cells, "Mean All Reduce Time (msec)")
    deviation = cell(header, cells, "Std Dev All Reduce Time (msec)")
    if floats is None or ranks is None:
        return
    if time is None:
        table.skip("all-reduce without a time")
        return
    nodes = int(float(cells.get("E", "1")))
    table.add("collective", "all_reduce", platform, "float32",
              common.shape(bytes=int(floats) * 4, ranks=int(ranks), nodes=nodes,
                           placement="node" if nodes == 1 else "cross", inplace=False),
              time * 1e3, std_us=(deviation or 0) * 1e3,
              library=cells.get(header["Selected Algorithm"], "").replace(",", " "),
              source="deepbench")


def run(source, output):
    books = sorted(source.glob("DeepBench_NV_*.xlsx")) if source.is_dir() else [source]
    if not books:
        common.fail(f"{source}: no DeepBench_NV_*.xlsx")
    for book in books:
        gpu = re.search(r"NV_(\w+)\.xlsx$", book.name)
        if not gpu or gpu.group(1) not in GPUS:
            common.fail(f"{book}: unknown GPU; add it to GPUS")
        platform, interconnect = GPUS[gpu.group(1)]
        provenance = dict(
            source="https://github.com/baidu-research/DeepBench",
            commit="da81ba7820739e2e506dc27f382d15be5479f98f", licence="Apache-2.0",
            path=f"results/train/{book.name}", command="scripts/import_deepbench.py",
            device=gpu.group(1), interconnect=interconnect)
        kernels, collectives = common.Table(**provenance), common.Table(**provenance)
        for sheet, rows in common.read_xlsx(book):
            dtype = "float32" if "FP32" in sheet else "float16"
            for header, cells in sections(rows):
                if "Forward (msec)" in header:
                    add_conv(kernels, platform, dtype, header, cells)
                elif "Size # floats" in header:
                    add_all_reduce(collectives, platform, header, cells)
                else:
                    add_gemm(kernels, platform, dtype, header, cells)
        kernels.write(output / f"deepbench-{platform}-kernels.csv")
        collectives.write(output / f"deepbench-{platform}-collectives.csv")


if __name__ == "__main__":
    sys.exit(common.main(__doc__, run))
