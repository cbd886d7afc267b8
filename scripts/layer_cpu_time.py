#!/usr/bin/env python3
"""What the CPU takes for a layer of FSDP2, from Kineto profiles whose marks say where PyTorch's hooks run, as a Markdown table.

  scripts/layer_cpu_time.py [ARCHIVE.tar.xz] [--event-us 3]

A row a job that is recorded in ARCHIVE (traces/captured/h100-sxm5/llama-training.tar.xz), medians over layers in ms: of a
forward and of a backward pass the hooks (FSDP::pre_forward and so on) and everything else until the next layer's begin, with
the launches of either, and of the optimizer all. `--event-us` is taken off for each event that the profiler wrote, as is what
a call of CUDA's takes beyond 25 us, as the device holds it up, and the kernel that puts gradients together beyond 230 us,
where the CPU is far ahead and finds no pinned memory.
"""
import argparse
import collections
import json
import pathlib
import re
import statistics
import sys
import tarfile

from accuracy_rows import table

ROOT = pathlib.Path(__file__).resolve().parent.parent
ARCHIVE = ROOT / "traces/captured/h100-sxm5/llama-training.tar.xz"
LAUNCHES = ("cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernel", "cuLaunchKernelEx", "cudaMemcpyAsync",
            "cudaMemsetAsync")
CALLS = ("cuda_runtime", "cuda_driver")
HELD_UP_US = {"fsdp::chunk_cat": 230.0}
CALL_US = 25.0
EVENT_US = 3.0


class Profile:
    def __init__(self, events, event_us):
        kinds = ("cpu_op", "user_annotation", *CALLS)
        self.event_us = event_us
        self.events = collections.defaultdict(list)
        for event in events:
            if event.get("ph") == "X" and event.get("cat") in kinds:
                self.events[event["tid"]].append(event)
        self.marks = [e for of in self.events.values() for e in of if e["cat"] == "user_annotation"]

    def within(self, thread, begin, end):
        """(us, launches) of a stretch of a thread."""
        inside = [e for e in self.events[thread] if begin <= e["ts"] < end]
        taken = end - begin - self.event_us * len(inside)
        for event in inside:
            usual = CALL_US if event["cat"] in CALLS else HELD_UP_US.get(event["name"])
            taken -= max(0.0, event["dur"] - usual) if usual else 0.0
        return taken, sum(e["name"] in LAUNCHES for e in inside)

    def hooks(self, thread, begin, end):
        taken, launches, until = 0.0, 0, begin
        for mark in sorted((e for e in self.marks if e["tid"] == thread), key=lambda e: e["ts"]):
            if mark["name"].startswith("FSDP::") and until <= mark["ts"] < end:
                until = mark["ts"] + mark["dur"]
                own = self.within(thread, mark["ts"], until)
                taken, launches = taken + own[0], launches + own[1]
        return taken, launches

    def layers(self, hook, order):
        """[(hooks us, launches, others us, launches)] from one layer's hook to the next one's."""
        by_layer = collections.defaultdict(list)
        for mark in self.marks:
            found = re.match(r"FSDP::%s \(layers\.(\d+)\)" % hook, mark["name"])
            if found:
                by_layer[int(found.group(1))].append(mark)
        taken = []
        for layer in sorted(by_layer):
            following = sorted(by_layer.get(layer + order, []), key=lambda e: e["ts"])
            for begin, end in zip(sorted(by_layer[layer], key=lambda e: e["ts"]), following):
                if begin["tid"] == end["tid"] and begin["ts"] < end["ts"]:
                    whole = self.within(begin["tid"], begin["ts"], end["ts"])
                    hooks = self.hooks(begin["tid"], begin["ts"], end["ts"])
                    taken.append((*hooks, whole[0] - hooks[0], whole[1] - hooks[1]))
        return taken

    def optimizer(self):
        return [self.within(e["tid"], e["ts"], e["ts"] + e["dur"])[0] for e in self.marks if e["name"] == "## optimizer ##"]


def medians(layers):
    """(hooks us, others us, launches of these); None: no layer has a next one."""
    if not layers:
        return None
    hooks, _, others, launches = (statistics.median(column) for column in zip(*layers))
    return hooks, others, launches


def cells(times):
    return ["%.2f" % (times[0] * 1e-3), "%.2f" % (times[1] * 1e-3), "%.0f" % times[2]] if times else ["-"] * 3


def profiles(archive, event_us=EVENT_US, only=None):
    """Yields (job, Profile) of the recordings of an archive, or of those named."""
    with tarfile.open(archive) as tar:
        for member in sorted(tar.getmembers(), key=lambda m: m.name):
            job = member.name.split("/")[0]
            if member.name.endswith(".json") and (only is None or job in only):
                document = json.load(tar.extractfile(member))
                yield job, Profile(document["traceEvents"] if isinstance(document, dict) else document, event_us)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("archive", nargs="?", type=pathlib.Path, default=ARCHIVE)
    parser.add_argument("--event-us", type=float, default=EVENT_US)
    options = parser.parse_args()
    rows = [[job, *cells(medians(profile.layers("pre_forward", 1))), *cells(medians(profile.layers("pre_backward", -1))),
             "%.1f" % (statistics.median(profile.optimizer()) * 1e-3)] for job, profile in profiles(options.archive, options.event_us)]
    print(table(["Job", "forward hooks", "others", "launches", "backward hooks", "others", "launches", "optimizer"], rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
