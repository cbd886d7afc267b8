#!/usr/bin/env python3
"""How far measurements of one shape in one table lie apart: what no model can beat.

For each row of a neutral CSV (calibration/README.md) whose shape was measured more than once, the
error of the median of the other rows of that shape; GMAE and MAPE in percent by operator. And, where
the table has it, the standard deviation of a row's own repeats, mean over rows. With --one-tile,
products of 9 to 16 rows count as one shape: one tile holds them all, so that one kernel does the same
for each, whatever the library.
"""
import argparse
import collections
import csv
import math
import re
import statistics
import sys

FLOOR = 4e-4  # of an absolute error in GMAE, as in foretrace's own summaries


def within_one_tile(shape):
    """The shape without its rows where those are 9 to 16; nothing otherwise."""
    without, found = re.subn(r"\bm=(9|1[0-6])(;|$)", "", shape)
    return without if found else None


def repeats(path, one_tile=False):
    """{operator: [absolute relative errors]} of repeated shapes, {operator: [std / time]}."""
    times = collections.defaultdict(list)
    spread = collections.defaultdict(list)
    with open(path, encoding="utf-8") as file:
        for row in csv.DictReader(line for line in file if not line.startswith("#")):
            shape = within_one_tile(row["shape"]) if one_tile else row["shape"]
            if shape is None:
                continue
            key = (*(row[c] for c in ("op", "phase", "platform", "dtype")), shape)
            times[key].append(float(row["time_us"]))
            if float(row["std_us"] or 0) > 0:
                spread[row["op"]].append(float(row["std_us"]) / float(row["time_us"]))
    errors = collections.defaultdict(list)
    for key, measured in times.items():
        for i, time in enumerate(measured if len(measured) > 1 else []):
            others = statistics.median(measured[:i] + measured[i + 1:])
            errors[key[0]].append(abs(others / time - 1))
    return errors, spread


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", nargs="+")
    parser.add_argument("--one-tile", action="store_true",
                        help="products of 9 to 16 rows are one shape")
    options = parser.parse_args()
    for path in options.table:
        errors, spread = repeats(path, options.one_tile)
        if not errors and not spread:
            print(f"{path}: no shape was measured twice, no row has a standard deviation")
        for op, values in sorted(errors.items()):
            gmae = math.exp(statistics.fmean(math.log(max(v, FLOOR)) for v in values))
            print(f"{path}: {op}: {len(values)} rows, GMAE {100 * gmae:.2f} %, "
                  f"MAPE {100 * statistics.fmean(values):.2f} %, "
                  f"median {100 * statistics.median(values):.2f} %, "
                  f"P90 {100 * sorted(values)[int(0.9 * (len(values) - 1))]:.1f} %")
        for op, values in sorted(spread.items()):
            print(f"{path}: {op}: {len(values)} rows, standard deviation "
                  f"{100 * statistics.fmean(values):.2f} % of the time")
    return 0


if __name__ == "__main__":
    sys.exit(main())
