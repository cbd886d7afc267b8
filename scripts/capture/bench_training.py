#!/usr/bin/env python3
"""Times training steps of Llama-like models on one GPU, as torchtitan runs them, and writes them as rows that
`foretrace validate --mappings` reads: step, peak memory allocated and reserved, how the job ran.

    bench_training.py --output rows.csv --traces traces/training
    foretrace validate --mappings rows.csv --calibration none

Models are cut to a few layers, so that they fit, or divided over ranks of which one runs and the others are not there: its
kernels and its memory are those of the whole job, its step lacks the collectives, and its row says so. Weights are 32-bit
masters that FSDP2 gathers in bfloat16. With --traces a Kineto profile of two further steps is kept of each job.
"""
import csv
import gc
import os
import statistics
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")  # as torchtitan's run_train.sh

from support.device import device_facts, pick_device, versions  # noqa: E402
from support.run import Budget, Refusal, benchmark_parser, import_torch, message, now_text, run_main  # noqa: E402

COLUMNS = ("source,table,model,params_B,layers,hidden,heads,kv_heads,ffn,vocab,seq,gpus,gpu,gpus_per_node,tp,pp,dp,cp,"
           "micro_batch,grad_accum,global_batch,precision,sharding,recompute,framework,memory_GiB,memory_reserved_GiB,"
           "step_s,std_s,steps,power_W,date,note").split(",")


def jobs(options):
    """The jobs in the order in which they are run: kernels one by one first, compiled ones by what they add."""
    from support.sharded_training import Job
    if options.tiny:
        return [Job("tiny", 0, 32, 2), Job("tiny", 0, 32, 2, "full"), Job("tiny", 0, 32, 2, "selective", ranks=4)]
    eager = [Job("llama3-8b", 4, 8192, 1), Job("llama-1b-untied", 16, 2048, 4), Job("llama2-7b", 6, 4096, 2),
             Job("llama3-8b", 4, 8192, 2, "full"), Job("llama3-8b", 4, 8192, 1, "selective"),
             Job("llama3-70b", 1, 4096, 2), Job("llama3-8b", 2, 32768, 1, "full"),
             Job("llama2-7b", 6, 1024, 4), Job("qwen-0.5b-untied", 24, 4096, 2), Job("llama3-8b", 4, 4096, 1, micro_batches=4)]
    compiled = [Job("llama3-8b", 4, 8192, 1, compiled=True), Job("llama3-8b", 4, 8192, 1, compiled=True, precision="fp8"),
                Job("llama2-7b", 6, 4096, 2, compiled=True), Job("llama-1b-untied", 16, 8192, 1, "full", compiled=True),
                Job("llama3-8b", 4, 8192, 2, "selective", compiled=True), Job("llama3-70b", 1, 4096, 2, compiled=True),
                Job("qwen-0.5b-untied", 24, 4096, 2, compiled=True)]
    # One of several ranks: what a rank keeps and computes of a whole model.
    parts = [Job("llama3-8b", 0, 8192, 1, "selective", ranks=8), Job("llama3-8b", 0, 8192, 1, ranks=8),
             Job("llama3-8b", 0, 8192, 2, "full", ranks=8), Job("llama2-7b", 0, 4096, 2, ranks=8),
             Job("llama-1b-untied", 0, 2048, 4, ranks=8), Job("llama3-70b", 0, 8192, 1, "full", ranks=64),
             Job("llama3-8b", 0, 4096, 1, micro_batches=4, ranks=8), Job("llama3-70b", 4, 4096, 2, ranks=64),
             Job("llama3-8b", 0, 8192, 1, "selective", compiled=True, ranks=8),
             Job("llama3-8b", 0, 8192, 1, "selective", compiled=True, precision="fp8", ranks=8)]
    return eager + compiled + parts


def profile(training, first, path):
    torch = import_torch()
    kinds = [torch.profiler.ProfilerActivity.CPU]
    if torch.cuda.is_available():
        kinds.append(torch.profiler.ProfilerActivity.CUDA)
    with torch.profiler.profile(activities=kinds, record_shapes=True) as profiler:
        for number in range(first, first + 2):
            with torch.profiler.record_function("ProfilerStep#%d" % number):
                training.step(number)
        if torch.cuda.is_available():
            torch.cuda.synchronize()
    profiler.export_chrome_trace(path)


def snapshot(training, path):
    """What is allocated and freed in a step, with the Python lines that did it, as PyTorch's memory viewer reads it."""
    torch = import_torch()
    torch.cuda.memory._record_memory_history(context="alloc", stacks="python", max_entries=400000)
    training.step(0)
    torch.cuda.synchronize()
    torch.cuda.memory._dump_snapshot(path)
    torch.cuda.memory._record_memory_history(enabled=None)


def measure(job, device, options, folder):
    """The row of a job."""
    from support.profiling import timed_steps
    from support.sharded_training import Training
    torch = import_torch()
    cuda = device.type == "cuda"
    training = Training(job, device)
    for number in range(options.warmup):
        training.step(number)
    if cuda:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    joules = torch.cuda.power_draw if cuda and hasattr(torch.cuda, "power_draw") else None
    times, _ = timed_steps(training.step, options.repeats, device)
    watts = _power(joules, training, options)
    memory = [torch.cuda.max_memory_allocated() / 2**30, torch.cuda.max_memory_reserved() / 2**30] if cuda else [0, 0]
    if folder:
        profile(training, options.warmup + options.repeats, os.path.join(folder, job.name() + ".json.gz"))
    if options.snapshots and cuda:
        snapshot(training, os.path.join(options.snapshots, job.name() + ".pickle"))
    return _row(job, device, times, memory, watts)


def _power(draw, training, options):
    """Board power in W while steps run, as NVML states it (a mean over its own window); '' where it is not known."""
    if not draw:
        return ""
    torch = import_torch()
    try:
        for number in range(options.repeats // 2 + 1):
            training.step(number)
        watts = draw() / 1000
        torch.cuda.synchronize()
        return "%.0f" % watts
    except Exception as error:  # without pynvml, or a driver that does not say
        message("note: power is not known (%s)" % str(error).split("\n")[0])
        return ""


def _row(job, device, times_us, memory, watts):
    shape = job.shape()
    found = versions()
    note = "torch.compile" if job.compiled else "no torch.compile"
    if job.ranks > 1:
        note += "; one of the ranks, collectives are not run"
    if job.precision == "fp8":
        note += "; float8 tensorwise"
    return {"source": "foretrace scripts/capture/bench_training.py", "table": job.name(), "model": job.model,
            "params_B": "%.4f" % (shape.parameters() / 1e9), "layers": shape.layers, "hidden": shape.hidden,
            "heads": shape.heads, "kv_heads": shape.kv_heads, "ffn": shape.ffn, "vocab": shape.vocab,
            "seq": job.length, "gpus": job.ranks, "gpu": device_facts(device)["name"],
            "gpus_per_node": 8, "tp": 1, "pp": 1, "dp": job.ranks, "cp": 1, "micro_batch": job.batch, "grad_accum": job.micro_batches,
            "global_batch": job.batch * job.micro_batches * job.ranks, "precision": job.precision, "sharding": "FSDP2",
            "recompute": job.recompute, "framework": "torchtitan", "memory_GiB": "%.3f" % memory[0],
            "memory_reserved_GiB": "%.3f" % memory[1], "step_s": "%.6f" % (statistics.median(times_us) * 1e-6),
            "std_s": "%.6f" % (statistics.stdev(times_us) * 1e-6 if len(times_us) > 1 else 0), "steps": len(times_us),
            "power_W": watts, "date": now_text()[:10],
            "note": "%s; a model of this script run as torchtitan runs it; torch %s" % (note, found["torch"])}


def main():
    parser = benchmark_parser(__doc__)
    parser.add_argument("--traces", default="", help="folder for a Kineto profile of each job")
    parser.add_argument("--snapshots", default="", help="folder for a memory snapshot of a step of each job")
    parser.add_argument("--only", default="", help="jobs whose names contain this, or one of these (comma)")
    options = parser.parse_args()
    device = pick_device(options.device)
    torch = import_torch()
    try:
        from torch.distributed.fsdp import fully_shard  # noqa: F401
    except ImportError as error:
        raise Refusal("FSDP2 needs PyTorch 2.6 or later; this is %s" % torch.__version__) from error
    from support.sharded_training import process_group
    budget = Budget(options.budget_seconds)
    for folder in (options.traces, options.snapshots):
        if folder:
            os.makedirs(folder, exist_ok=True)
    failed = 0
    with open(options.output, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for job in jobs(options):
            if not any(part in job.name() for part in options.only.split(",")) or budget.expired():
                continue
            try:
                with process_group(device, job.ranks):
                    writer.writerow(measure(job, device, options, options.traces))
                message(job.name() + " measured")
            except Exception as error:  # out of memory, or a PyTorch that lacks something: the others are measured
                failed += 1
                message("not measured: %s: %s" % (job.name(), str(error).split("\n")[0]))
            file.flush()
            gc.collect()
            if device.type == "cuda":
                torch._dynamo.reset()
                torch.cuda.empty_cache()
    return 1 if failed else 0


if __name__ == "__main__":
    run_main(main)
