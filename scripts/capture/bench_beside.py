#!/usr/bin/env python3
"""Times kernels beside one that holds some multiprocessors, as collectives do, on one GPU.

A block a multiprocessor copies memory (or only spins) while GEMMs, attention, norms and element-wise kernels run on
another stream. Writes a table: operator, shape, blocks, what they move, the median time of the kernels.
"""
import csv
import os
import statistics
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from support.channels import Channels  # noqa: E402
from support.device import need_gpu, pick_device, provenance  # noqa: E402
from support.run import Budget, benchmark_parser, import_torch, message, run_main  # noqa: E402
from support.timing import device_events  # noqa: E402

COLUMNS = ("op", "shape", "kernel", "blocks", "moves", "GBps", "repeats", "time_us", "least_us", "most_us")
SOURCE = "foretrace scripts/capture/bench_beside.py"
BLOCKS = (0, 1, 2, 4, 8, 12, 16, 20, 24, 32, 48)
GEMMS = ((8192, 4096, 4096), (8192, 14336, 4096), (8192, 4096, 14336), (4096, 4096, 8192), (8192, 1024, 4096),
         (4096, 8192, 8192), (2048, 8192, 8192), (8192, 28672, 8192), (16384, 2048, 2048), (4096, 128256, 4096),
         (14336, 4096, 8192), (512, 4096, 4096))


def operators(torch, device, tiny):
    """(operator, shape, call); a call runs one kernel, or kernels whose times are added."""
    half = dict(dtype=torch.bfloat16, device=device)
    for m, n, k in GEMMS[:2] if tiny else GEMMS:
        x, w = torch.randn(m, k, **half), torch.randn(n, k, **half)
        yield "gemm", f"m={m};n={n};k={k}", lambda x=x, w=w: torch.nn.functional.linear(x, w)
    for b, h, s, d in ((1, 32, 4096, 128), (1, 32, 8192, 128), (4, 16, 2048, 64)):
        q, k, v = (torch.randn(b, h, s, d, **half).requires_grad_() for _ in range(3))
        yield "attention", f"b={b};h={h};s={s};d={d}", lambda q=q, k=k, v=v: (
            torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True))
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        g = torch.randn_like(out)
        yield "attention_backward", f"b={b};h={h};s={s};d={d}", lambda q=q, k=k, v=v, o=out, g=g: (
            torch.autograd.grad(o, (q, k, v), g, retain_graph=True))
    for rows, width in ((8192, 4096), (2048, 4096)):
        x, w = torch.randn(rows, width, **half), torch.ones(width, **half)
        yield "layer_norm", f"rows={rows};cols={width}", lambda x=x, w=w: (
            torch.nn.functional.layer_norm(x, (x.shape[1],), w, w))
        yield "softmax", f"rows={rows};cols={width}", lambda x=x: torch.softmax(x, 1)
        yield "add", f"elements={rows * width}", lambda x=x: torch.add(x, x)
        yield "sum", f"rows={rows};cols={width}", lambda x=x: x.sum(0)
        yield "transpose", f"m={rows};n={width}", lambda x=x: x.t().contiguous()
    small = torch.randn(1 << 16, **half)
    yield "add", f"elements={1 << 16}", lambda x=small: torch.add(x, x)
    p = [torch.randn(1 << 26, device=device) for _ in range(4)]
    p[3].abs_()
    step = [torch.ones((), device=device)]
    yield "adam", f"params={1 << 26}", lambda: torch._fused_adamw_(
        [p[0]], [p[1]], [p[2]], [p[3]], [], step, lr=1e-4, beta1=0.9, beta2=0.999, weight_decay=0.1, eps=1e-8,
        amsgrad=False, maximize=False, grad_scale=None, found_inf=None)


def one(torch, channels, call, blocks, how, repeats):
    """(kernel names, [time of each call's kernels in us]) beside `blocks`; how: (moves, GB/s)."""
    main = torch.cuda.current_stream()
    kinds = [torch.profiler.ProfilerActivity.CUDA]
    torch.cuda.synchronize()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    call()
    end.record()
    torch.cuda.synchronize()
    lasts = max(begin.elapsed_time(end) * (repeats + 2) * 2.5, 1.0) + 3
    profiler = torch.profiler.profile(activities=kinds)
    profiler.start()
    if blocks:
        channels.start(blocks, lasts, *how)
        torch.cuda._sleep(400_000)  # until the channels run, while the calls are enqueued
    for _ in range(repeats):
        call()
        torch.cuda._sleep(100)
    main.synchronize()
    torch.cuda.synchronize()
    profiler.stop()
    return device_events(profiler)


def times_of(events):
    """Names and sums of the kernels between spins, of those calls that ended while the channel ran."""
    channel = [(start, start + us * 1e3) for start, us, name in events if name.startswith("channel")]
    names, sums, inside = [], [], True
    current = []
    for start, us, name in sorted(events):
        if name.startswith("channel"):
            continue
        if "spin_kernel" in name:
            if current and inside:
                sums.append(sum(us for _, us, _ in current))
                names = [name for _, _, name in current]
            current, inside = [], True
            continue
        current.append((start, us, name))
        if channel and not (channel[0][0] <= start and start + us * 1e3 <= channel[0][1]):
            inside = False
    return names, sums


def main():
    parser = benchmark_parser(__doc__)
    options = parser.parse_args()
    need_gpu(options.device, "kernels beside others")
    device = pick_device(options.device, cpu_helps=False)
    torch = import_torch()
    torch.manual_seed(options.seed)
    budget = Budget(options.budget_seconds)
    channels = Channels(device)
    message("the channel's kernel takes %d registers a thread" % channels.registers)
    ways = ((False, 0.0), (True, 0.0), (True, 200.0), (True, 450.0))
    with open(options.output, "w", encoding="utf-8", newline="") as file:
        for key, value in provenance(device, options, SOURCE).items():
            file.write("# %s: %s\n" % (key, value))
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for op, shape, call in operators(torch, device, options.tiny):
            for _ in range(options.warmup):
                call()
            for blocks in BLOCKS:
                for move, rate in ways if blocks else ways[:1]:
                    if budget.expired() or (rate and blocks not in (16, 24, 32)):
                        continue
                    try:
                        names, times = times_of(one(torch, channels, call, blocks, (move, rate), options.repeats))
                        if times:
                            writer.writerow([op, shape, " + ".join(n[:60] for n in names), blocks, int(move), rate, len(times),
                                             "%.3f" % statistics.median(times), "%.3f" % min(times), "%.3f" % max(times)])
                        else:
                            message("not measured: %s %s beside %d blocks" % (op, shape, blocks))
                    except RuntimeError as error:
                        message("not measured: %s %s: %s" % (op, shape, str(error).split("\n")[0]))
                file.flush()
    return 0


if __name__ == "__main__":
    run_main(main)
