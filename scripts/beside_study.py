#!/usr/bin/env python3
"""How much longer kernels take beside one collective than alone, from profiles of PyTorch.

    scripts/beside_study.py [--links 300] [--steps even|odd] PROFILE.json[.gz] ...

A kernel's time alone is the median of those of one name, grid and shapes that nothing of another
stream ran beside. Rows: kernels wholly within one collective's kernel and beside nothing else, by
the collective's blocks, by how long they take alone, and by the fifth of the collective in which
they start. A collective waits for its ranks and moves their data; profiles do not say when. At the
least it does for what its bytes take over the device's links (--links GB/s of one direction, all of
them): sends first, rings last and, to reduce everywhere, twice. A last table is of kernels that end
then, --steps even or odd of them: what `fence_us` of topologies/accelerators holds.
"""

import argparse
import bisect
import collections
import gzip
import json
import math
import re
import statistics

KERNELS = ("kernel", "gpu_memcpy", "gpu_memset")
ALONE_US = [(0, 4), (4, 8), (8, 16), (16, 64), (64, 1e9)]
PARTS = 5


def events_of(path):
    opened = gzip.open(path, "rt") if path.endswith(".gz") else open(path, encoding="utf-8")
    with opened as file:
        return json.load(file)["traceEvents"]


def device_work(events):
    """Device events in order of their start, each with the sizes of the call that issued it."""
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


def times_alone(work):
    """Median times of those that nothing ran beside, by name, grid and shapes."""
    alone = collections.defaultdict(list)
    for event, others in beside(work):
        if event["cat"].lower() == "kernel" and not is_collective(event) and not others:
            alone[key_of(event)].append(event["dur"])
    return {key: statistics.median(times) for key, times in alone.items()}


def key_of(event):
    return (event["name"], str(event["args"].get("grid")), event["shapes"])


def rows_of(work, alone):
    within = []
    for event, others in beside(work):
        if event["cat"].lower() != "kernel" or is_collective(event) or key_of(event) not in alone:
            continue
        if len(others) == 1 and is_collective(others[0]) and \
                others[0]["begin"] <= event["begin"] and event["end"] <= others[0]["end"]:
            within.append((key_of(event), event, others[0]))
    groups = collections.defaultdict(list)
    for key, event, collective in within:
        base = alone[key]
        size = next(i for i, (low, high) in enumerate(ALONE_US) if low <= base < high)
        place = (event["begin"] - collective["begin"]) / (collective["end"] - collective["begin"])
        blocks = collective["args"].get("grid", [0])[0]
        name = collective["name"].split("(")[0][:40]
        groups[name, blocks, size, int(place * PARTS)].append(event["dur"] - base)
    return groups


def bytes_of(events):
    """What collectives pass on, by correlation: as their kernels say, else as their annotations in
    order of issue do (four bytes an element)."""
    kernels = sorted((e for e in events if e.get("cat", "").lower() == "kernel" and
                      is_collective(e)), key=lambda e: e["args"]["correlation"])
    calls = sorted((e for e in events if e.get("name", "").startswith("nccl:") and
                    e.get("ph") == "X" and not e["name"].endswith("_begin")),
                   key=lambda e: e["ts"])
    sizes = {}
    for place, kernel in enumerate(kernels):
        elements = kernel["args"].get("In msg nelems")
        if elements is None and len(calls) == len(kernels):
            dims = str(calls[place].get("args", {}).get("Input Dims"))
            elements = math.prod(int(x) for x in re.findall(r"\d+", dims))
        twice = 2 if "AllReduce" in kernel["name"] else 1
        sizes[kernel["args"]["correlation"]] = 4 * twice * (elements or 0)
    return sizes


def moving(collective, size, links):
    """When it moves data at the least."""
    least = min(float(collective["dur"]), size / (links * 1e3))
    if "SendRecv" in collective["name"]:
        return collective["begin"], collective["begin"] + least
    return collective["end"] - least, collective["end"]


def fences_of(events, work, alone, links, steps):
    """What kernels gain that end while data move, by kind of collective."""
    sizes = bytes_of(events)
    marks = {(e["ts"], e["ts"] + e["dur"]): int(e["name"].split("#")[1]) for e in events
             if e.get("name", "").startswith("ProfilerStep#") and e.get("ph") == "X"}
    added = collections.defaultdict(list)
    for event, others in beside(work):
        if event["cat"].lower() != "kernel" or is_collective(event) or key_of(event) not in alone:
            continue
        step = next((n for (a, b), n in marks.items() if a <= event["begin"] < b), 0)
        if steps and step % 2 != ("even", "odd").index(steps):
            continue
        for other in others:
            if not is_collective(other):
                continue
            begin, end = moving(other, sizes[other["args"]["correlation"]], links)
            if begin <= event["end"] <= end:
                kind = "sends" if "SendRecv" in other["name"] else "ring"
                added[kind].append(event["dur"] - alone[key_of(event)])
                break
    return added


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--links", type=float, default=300)
    parser.add_argument("--steps", choices=("even", "odd"))
    parser.add_argument("profiles", nargs="+")
    arguments = parser.parse_args()
    for path in arguments.profiles:
        events = events_of(path)
        work = device_work(events)
        alone = times_alone(work)
        print(path)
        print("| Collective | Blocks | Alone us | Fifth | Kernels | Added us, median | P10 | P90 |")
        print("|---|---|---|---|---|---|---|---|")
        for (name, blocks, size, part), added in sorted(rows_of(work, alone).items()):
            if len(added) < 8:
                continue
            low, high = ALONE_US[size]
            added.sort()
            span = f"{low} to {high}" if high < 1e9 else f"from {low}"
            print(f"| {name} | {blocks} | {span} | {part + 1} | {len(added)} | "
                  f"{statistics.median(added):.0f} | {added[len(added) // 10]:.0f} | "
                  f"{added[len(added) * 9 // 10]:.0f} |")
        print("| While data move | Kernels | Added us, median | P10 | P90 |\n|---|---|---|---|---|")
        for kind, added in sorted(fences_of(events, work, alone, arguments.links,
                                            arguments.steps).items()):
            added.sort()
            print(f"| {kind} | {len(added)} | {statistics.median(added):.1f} | "
                  f"{added[len(added) // 10]:.1f} | {added[len(added) * 9 // 10]:.1f} |")


if __name__ == "__main__":
    main()
