#!/usr/bin/env python3
"""How much longer kernels take beside one collective than alone, from profiles of PyTorch.

    scripts/beside_study.py PROFILE.json[.gz] ...

A kernel's time alone is the median of those of one name, grid and shapes that nothing of another
stream ran beside. Rows: kernels wholly within one collective's kernel and beside nothing else, by
the collective's blocks, by how long they take alone, and by the fifth of the collective in which
they start. A collective waits for its ranks and moves their data; profiles do not say when.
"""

import bisect
import collections
import gzip
import json
import statistics
import sys

KERNELS = ("kernel", "gpu_memcpy", "gpu_memset")
ALONE_US = [(0, 4), (4, 8), (8, 16), (16, 64), (64, 1e9)]
PARTS = 5


def device_work(path):
    """Device events in order of their start, each with the sizes of the call that issued it."""
    opened = gzip.open(path, "rt") if path.endswith(".gz") else open(path, encoding="utf-8")
    with opened as file:
        events = json.load(file)["traceEvents"]
    shapes = {}
    for event in events:
        if event.get("cat", "").lower() in ("cpu_op", "operator"):
            arguments = event.get("args", {})
            shapes[arguments.get("External id")] = str(arguments.get("Input Dims"))
    work = [e for e in events if e.get("ph") == "X" and e.get("cat", "").lower() in KERNELS]
    for event in work:
        event["begin"], event["end"] = float(event["ts"]), float(event["ts"]) + float(event["dur"])
        event["shapes"] = shapes.get(event["args"].get("External id"))
    return sorted(work, key=lambda e: e["begin"])


def is_collective(event):
    return "nccl" in event["name"].lower()


def beside(work):
    """For each event those of other streams that overlap it."""
    longest = max((e["end"] - e["begin"] for e in work), default=0)
    begins = [e["begin"] for e in work]
    for event in work:
        first = bisect.bisect_left(begins, event["begin"] - longest)
        last = bisect.bisect_left(begins, event["end"])
        yield event, [o for o in work[first:last] if o["end"] > event["begin"]
                      and o["args"].get("stream") != event["args"].get("stream")]


def rows_of(path):
    alone, within = collections.defaultdict(list), []
    for event, others in beside(device_work(path)):
        if event["cat"].lower() != "kernel" or is_collective(event):
            continue
        key = (event["name"], str(event["args"].get("grid")), event["shapes"])
        if not others:
            alone[key].append(event["dur"])
        elif len(others) == 1 and is_collective(others[0]) and \
                others[0]["begin"] <= event["begin"] and event["end"] <= others[0]["end"]:
            within.append((key, event, others[0]))
    groups = collections.defaultdict(list)
    for key, event, collective in within:
        if key not in alone:
            continue
        base = statistics.median(alone[key])
        size = next(i for i, (low, high) in enumerate(ALONE_US) if low <= base < high)
        place = (event["begin"] - collective["begin"]) / (collective["end"] - collective["begin"])
        blocks = collective["args"].get("grid", [0])[0]
        name = collective["name"].split("(")[0][:40]
        groups[name, blocks, size, int(place * PARTS)].append(event["dur"] - base)
    return groups


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    for path in sys.argv[1:]:
        print(path)
        print("| Collective | Blocks | Alone us | Fifth | Kernels | Added us, median | P10 | P90 |")
        print("|---|---|---|---|---|---|---|---|")
        for (name, blocks, size, part), added in sorted(rows_of(path).items()):
            if len(added) < 8:
                continue
            low, high = ALONE_US[size]
            added.sort()
            span = f"{low} to {high}" if high < 1e9 else f"from {low}"
            print(f"| {name} | {blocks} | {span} | {part + 1} | {len(added)} | "
                  f"{statistics.median(added):.0f} | {added[len(added) // 10]:.0f} | "
                  f"{added[len(added) * 9 // 10]:.0f} |")


if __name__ == "__main__":
    main()
