#!/usr/bin/env python3
"""Times PyTorch operators, forward and backward, over many shapes and precisions.

Writes the neutral CSV schema (README.md); on an existing table it measures only what is missing.
"""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from support import kernel_shapes as shapes  # noqa: E402
from support.device import (l2_bytes, library_name, pick_device, platform_name,  # noqa: E402
                            provenance, supported_precisions)
from support.kernel_ops import ELEMENTWISE, REDUCTIONS, Builder  # noqa: E402
from support.measure import measure_all  # noqa: E402
from support.run import Budget, Refusal, benchmark_parser, import_torch, run_main, scale_of  # noqa: E402
from support.table import TableWriter, make_row  # noqa: E402
from support.timing import Job, add_timing_option, make_timer  # noqa: E402

SOURCE = "foretrace scripts/capture/bench_kernels.py"
BYTES = {"float32": 4, "tf32": 4, "float16": 2, "bfloat16": 2, "uint8": 1}
GEMM_LIKE = ("linear", "bmm", "conv2d")


def shape_lists(scale, seed):
    """{operator: list of shape dicts}."""
    def rng(name):
        return shapes.seeded(seed, name)
    lists = {"linear": shapes.linear(scale, rng("linear")), "bmm": shapes.bmm(scale, rng("bmm")),
             "conv2d": shapes.conv2d(scale, rng("conv2d")),
             "attention": shapes.attention(scale, rng("attention")),
             "layer_norm": shapes.rows_by_columns(scale, rng("layer_norm"), 64, 16384),
             "softmax": shapes.rows_by_columns(scale, rng("softmax"), 16, 16384),
             "batch_norm": shapes.batch_norm(scale, rng("batch_norm")),
             "dropout": [dict(elements=n, inputs=1, op="dropout")
                         for n in shapes.elements(scale, rng("dropout"))],
             "transpose": shapes.matrices(scale, rng("transpose")),
             "index": shapes.picked_rows(scale, rng("index")),
             "tril": shapes.triangles(scale, rng("tril"))}
    # Each element-wise function gets its own sizes; together at least a hundred.
    lists["elementwise"] = [dict(elements=n, inputs=ELEMENTWISE[op][0], op=op) for op in ELEMENTWISE
                            for n in shapes.elements(scale, rng(op), _share(scale, len(ELEMENTWISE)))]
    reductions = shapes.rows_by_columns(scale, rng("reduction"))
    names = list(REDUCTIONS)
    lists["reduction"] = [dict(s, op=names[i % len(names)]) for i, s in enumerate(reductions)]
    concat = rng("concat")
    lists["concat"] = [dict(parts=p, elements=n // p * p) for n in
                       shapes.elements(scale, rng("concat/n")) for p in [concat.choice((2, 3, 8, 27))]]
    lists["memcpy"] = [dict(bytes=n, direction=d, pinned=pinned)
                       for n in shapes.copies(scale, rng("memcpy"))
                       for d, pinned in (("htod", 0), ("htod", 1), ("dtoh", 0), ("dtoh", 1),
                                         ("dtod", 0), ("htoh", 0), ("htoh", 1))]
    lists["optimizer"] = [dict(s, op=op, impl=impl) for s in
                          shapes.parameter_sets(scale, rng("optimizer"))
                          for op, impl in (("sgd", "foreach"), ("sgd", "loop"), ("sgd", "fused"),
                                           ("adam", "foreach"), ("adam", "fused"), ("adam", "loop"),
                                           ("adagrad", "foreach"))
                          if not (impl == "loop" and s["tensors"] > 128)]
    return lists


def _share(scale, parts):
    return max(2, -(-shapes.MEMORY_COUNTS[scale] // parts))


def footprint(op, s):
    """Elements of an operator's inputs and outputs, roughly; decides only on cold and warm rows."""
    if op == "linear":
        return s["m"] * s["k"] + s["n"] * s["k"] + s["m"] * s["n"]
    if op == "bmm":
        return s["b"] * (s["m"] * s["k"] + s["n"] * s["k"] + s["m"] * s["n"])
    if op in ("layer_norm", "softmax", "reduction"):
        return 2 * s["rows"] * s["cols"]
    if op in ("batch_norm", "conv2d"):
        return 2 * s["n"] * s["c"] * s["h"] * s["w"]
    if op == "attention":
        return 4 * s["b"] * s["heads"] * s["sq"] * s["d"]
    if op in ("dropout", "elementwise", "concat"):
        return 2 * s["elements"]
    if op == "transpose":
        return 2 * s["b"] * s["m"] * s["n"]
    if op == "index":
        return 2 * s["n"] * s["cols"]
    return 2 * s["n"] * s["n"] * s["b"] if op == "tril" else s.get("params", s.get("bytes", 0))


def precisions_of(op, precisions):
    if op == "memcpy":
        return ("uint8",)
    if op == "optimizer":
        return ("float32",)
    if op in GEMM_LIKE:
        return precisions
    if op == "attention":
        return [p for p in precisions if p not in ("float32", "tf32")] or ["float32"]
    return [p for p in precisions if p in ("float32", "bfloat16")] or ["float32"]


def make_jobs(options, device, timing):
    """All rows of the benchmark as jobs."""
    scale, platform = scale_of(options), platform_name(device, options.platform)
    precisions = [p for p in supported_precisions(device)
                  if not options.dtypes or p in options.dtypes.split(",")]
    l2 = l2_bytes(device) if device.type == "cuda" else 0
    jobs = []
    for op, shape_list in shape_lists(scale, options.seed).items():
        if options.ops and op not in options.ops.split(","):
            continue
        phases = {"optimizer": ("optimizer",), "memcpy": ("-",)}.get(op, ("forward", "backward"))
        for shape in shape_list:
            if op == "concat" or shape.get("op") == "add":
                phases = ("forward",)  # their gradients are views: no kernel runs
            elif op == "elementwise":
                phases = ("forward", "backward")
            for dtype in precisions_of(op, precisions):
                caches = ("-",)
                if l2 and op != "memcpy":
                    fits = footprint(op, shape) * BYTES[dtype] <= l2
                    caches = tuple(c for c in ("cold", "warm")
                                   if options.l2 in (c, "both") and (fits or c == "cold"))
                for phase in phases:
                    jobs += [_job(op, phase, dtype, shape, cache, timing, platform, device)
                             for cache in caches]
    return [job for job in jobs if job]


def _job(op, phase, dtype, shape, cache, timing, platform, device):
    if op == "attention" and shape["impl"] == "flash" and device.type == "cpu":
        return None
    if device.type == "cpu" and shape.get("impl") == "fused":
        return None
    # Pageable copies block the host, and copies in host memory have no device time.
    wall = op == "memcpy" and (shape["direction"] == "htoh" or
                               (shape["direction"] != "dtod" and not shape["pinned"]))
    library = "%s;timing=%s;l2=%s" % (library_name(), "wall" if wall else timing, cache)
    row = make_row("memory" if op == "memcpy" else "kernel", op, phase, platform, dtype, shape, library,
                   SOURCE)

    def build():
        return getattr(Builder(device, dtype, phase), op)(**shape)
    return Job(row, build, cold=cache == "cold", wall=wall)


def main():
    parser = benchmark_parser(__doc__)
    parser.add_argument("--ops", default="", help="comma-separated operators; empty: all")
    parser.add_argument("--dtypes", default="", help="comma-separated precisions; empty: all there are")
    parser.add_argument("--l2", choices=("cold", "warm", "both"), default="both",
                        help="state of the L2 before a call; both: also warm where the data fits")
    add_timing_option(parser)
    options = parser.parse_args()
    budget = Budget(options.budget_seconds)
    device = pick_device(options.device)
    import_torch().manual_seed(options.seed)
    known = shape_lists("tiny", 1)
    for op in filter(None, options.ops.split(",")):
        if op not in known:
            raise Refusal("operator %r is none of %s" % (op, ", ".join(known)))
    timer = make_timer(device, options)
    jobs = make_jobs(options, device, timer.name)
    if not jobs:
        raise Refusal("no row is left to measure: check --ops and --dtypes against what %s supports (%s)" %
                      (device.type, ", ".join(supported_precisions(device))))
    table = TableWriter(options.output, provenance(
        device, options, SOURCE, {"timing": "%s; time_us is the median, std_us the standard deviation "
                                            "over repeats" % timer.name}))
    measure_all(jobs, timer, table, options, budget)
    return 0


if __name__ == "__main__":
    run_main(main)
