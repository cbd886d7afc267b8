#!/usr/bin/env python3
"""Prints the share of lines run by room, out of llvm-cov's summary; exits 1 below LEAST of a fuzzed room.

  tests/fuzz/coverage.py build/coverage/coverage.json [--files ROOM]
"""
import argparse
import collections
import json
import sys

FUZZED = ("trace", "reconstruct", "engine", "report")
LEAST = 85.0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("summary")
    parser.add_argument("--files", metavar="ROOM", help="also each file of a room")
    arguments = parser.parse_args()
    with open(arguments.summary) as file:
        files = json.load(file)["data"][0]["files"]
    rooms = collections.defaultdict(lambda: [0, 0])
    for entry in files:
        path, _, inner = entry["filename"].partition("/simulator/")
        if not inner or "/" not in inner:
            continue
        room, lines = inner.split("/")[0], entry["summary"]["lines"]
        rooms[room][0] += lines["covered"]
        rooms[room][1] += lines["count"]
        if room == arguments.files:
            print(f"{lines['covered']:6} of {lines['count']:6}  {inner}")
    short = False
    for room, (covered, count) in sorted(rooms.items()):
        percent = 100.0 * covered / count
        if room in FUZZED:
            print(f"{room:12} {percent:5.1f} % of {count} lines")
            short |= percent < LEAST
    print("others:", ", ".join(f"{room} {100.0 * covered / count:.0f} %"
                               for room, (covered, count) in sorted(rooms.items())
                               if room not in FUZZED and covered))
    if short:
        print(f"coverage: error: less than {LEAST:.0f} % of a fuzzed room's lines were run", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
