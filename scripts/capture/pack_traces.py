#!/usr/bin/env python3
"""Packs captured folders into tar files of bounded size, one folder never split.

    pack_traces.py CAPTURED OUT [--file-mb 14] [--total-mb 28]
Writes OUT/traces.<n>.tar with entries captured/<folder>/...; folders are taken in the order in which
they were captured, and what does not fit is named on stderr (exit code 1).
"""
import argparse
import os
import sys
import tarfile


def folder_bytes(path):
    """Bytes that a folder takes in a tar file."""
    total = 512
    for name in os.listdir(path):
        total += 512 + -(-os.path.getsize(os.path.join(path, name)) // 512) * 512
    return total


def pack(captured, out, file_bytes, total_bytes):
    """(packed, left out) folder names."""
    folders = [f for f in os.listdir(captured)
               if os.path.exists(os.path.join(captured, f, "manifest.json"))]
    folders.sort(key=lambda f: os.path.getmtime(os.path.join(captured, f, "manifest.json")))
    bins, left, total = [], [], 0  # bins: [bytes, folders]
    overhead = 1024 + 10239  # a tar file's end, and its rounding to records
    for folder in folders:
        size = folder_bytes(os.path.join(captured, folder))
        if size + overhead > file_bytes or total + size > total_bytes:
            left.append(folder)
            continue
        total += size
        place = next((b for b in bins if b[0] + size + overhead <= file_bytes), None)
        if place is None:
            place = [0, []]
            bins.append(place)
        place[0] += size
        place[1].append(folder)
    for number, (_, names) in enumerate(bins):
        with tarfile.open(os.path.join(out, "traces.%d.tar" % number), "w",
                          format=tarfile.GNU_FORMAT) as tar:
            for name in names:
                tar.add(os.path.join(captured, name), arcname="captured/" + name)
    return [name for _, names in bins for name in names], left


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("captured")
    parser.add_argument("out")
    parser.add_argument("--file-mb", type=float, default=14)
    parser.add_argument("--total-mb", type=float, default=28)
    options = parser.parse_args()
    if not os.path.isdir(options.captured):
        print("pack_traces.py: error: %s is no folder" % options.captured, file=sys.stderr)
        return 2
    packed, left = pack(options.captured, options.out, options.file_mb * 1e6, options.total_mb * 1e6)
    print("packed %d folders: %s" % (len(packed), " ".join(packed)))
    if left:
        print("pack_traces.py: left out for size: %s" % " ".join(left), file=sys.stderr)
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
