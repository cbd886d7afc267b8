#!/usr/bin/env python3
"""Captures training steps of a ready-made workload as traces that `foretrace predict DIR` takes.

    capture_trace.py --workload dlrm --output traces/dlrm
    torchrun --nproc_per_node 8 capture_trace.py --workload gpt2-small --output traces/gpt2
    capture_trace.py --ranks 2 --device cpu --tiny --output /tmp/traces

Writes one folder: kineto.<rank>.json.gz (times, from the PyTorch profiler), et.<rank>.json (operators,
tensors and process groups, from the execution-trace observer) and manifest.json (device, driver,
versions, clocks, measured iteration times with the profiler on and off).
"""
import argparse
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from support.device import device_facts, platform_name, versions  # noqa: E402
from support.ranks import Ranks, start  # noqa: E402
from support.run import (Progress, Refusal, command_line, import_torch, message, now_text,  # noqa: E402
                         positive_int, run_main)

FORMAT_VERSION = 1


def make_parser():
    from support import workloads
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", required=True, help="folder; must be empty or absent")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--platform", default="", help="name in the manifest; else from the device")
    parser.add_argument("--ranks", type=positive_int, default=1,
                        help="processes to start where torchrun did not")
    parser.add_argument("--steps", type=positive_int, default=5, help="steps to record")
    parser.add_argument("--warmup", type=positive_int, default=10, help="steps before any measuring")
    parser.add_argument("--profiler-warmup", type=positive_int, default=3,
                        help="steps with the profiler getting ready")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tiny", action="store_true", help="a tiny model, for tests")
    parser.add_argument("--no-execution-trace", action="store_true", help="Kineto alone")
    parser.add_argument("--gzip-execution-trace", action="store_true", help="write et.<rank>.json.gz")
    parser.add_argument("--execution-trace-steps", type=int, default=0,
                        help="let the execution trace cover only the first so many steps: it slows the "
                             "host; 0: all")
    parser.add_argument("--no-event-ids", action="store_true",
                        help="do not record the CUDA event and stream ids of waits (PyTorch 2.1 on)")
    parser.add_argument("--licence", default="Apache-2.0", help="licence of the traces")
    workloads.add_options(parser)
    return parser


def body(options):
    from support import workloads
    from support.profiling import profiled_steps, timed_steps
    torch = import_torch()
    ranks = Ranks(options.device)
    torch.manual_seed(options.seed + ranks.rank)
    workload = workloads.Workload(options, ranks)
    workload.prepare()
    progress = Progress("capture", options.warmup) if ranks.rank == 0 else None
    for number in range(options.warmup):
        workload.step(number)
        if progress:
            progress.step()
    if progress:
        progress.close()
    ranks.barrier()
    off, off_wall = timed_steps(workload.step, options.steps, ranks.device)
    facts = profiled_steps(workload.step, options.warmup, options, ranks, options.output)
    again, again_wall = timed_steps(workload.step, options.steps, ranks.device)
    mine = {"rank": ranks.rank, "device": device_facts(ranks.device), "profiler": facts,
            "steps_us_profiler_off": off, "wall_us_profiler_off": off_wall,
            "steps_us_profiler_off_after": again, "wall_us_profiler_off_after": again_wall}
    everyone = ranks.gather(mine)
    if ranks.rank == 0:
        write_manifest(options, ranks, workload, everyone)
    ranks.barrier()
    ranks.close()


def write_manifest(options, ranks, workload, everyone):
    """manifest.json: what was run where, and how long a step took without and with the profiler."""
    off = [sum(r["steps_us_profiler_off"]) / options.steps for r in everyone]
    on = [sum(r["profiler"]["steps_us"]) / options.steps for r in everyone]
    manifest = {
        "format": "foretrace-capture", "version": FORMAT_VERSION, "synthetic": False,
        "command": command_line(), "date": now_text(), "licence": options.licence,
        "platform": platform_name(ranks.device, options.platform), "versions": versions(),
        "workload": workload.describe(), "ranks": ranks.world, "local_ranks": ranks.local_world,
        "backend": ranks.backend if ranks.group else "none",
        "steps": {"warmup": options.warmup, "recorded": options.steps, "first_mark": options.warmup},
        # The slowest rank's mean, as a job runs at its pace.
        "iteration_us": {"profiler_off": max(off), "profiler_on": max(on)},
        "per_rank": everyone}
    path = os.path.join(options.output, "manifest.json")
    with open(path + ".part", "w", encoding="utf-8") as file:
        json.dump(manifest, file, indent=1)
        file.write("\n")
    os.replace(path + ".part", path)
    message("%s: %d rank(s), %d steps, %.0f us a step without the profiler, %.0f us with it" %
            (options.output, ranks.world, options.steps, max(off), max(on)))


def main():
    options = make_parser().parse_args()
    from support import workloads
    workloads.check_options(options)
    if int(os.environ.get("RANK", "0")) == 0:
        if os.path.isdir(options.output) and os.listdir(options.output):
            raise Refusal("%s is not empty; name another --output" % options.output)
    os.makedirs(options.output, exist_ok=True)
    return start(body, options)


if __name__ == "__main__":
    run_main(main)
