#!/usr/bin/env python3
"""How far measurements of one shape in one table lie apart: what no model can beat.

For each row of a neutral CSV (calibration/README.md) whose shape was measured more than once, the
error of the median of the other rows of that shape; GMAE and MAPE in percent by operator. And, where
the table has it, the standard deviation of a row's own repeats, mean over rows. With --one-tile,
GEMMs of 9 to 16 rows count as one shape: one tile holds them all, so that one kernel does the same
for each, whatever the library. These also by how long they take, with the share of rows that are over
6 % faster than the others of their shape. With --predicted, of the rows that `foretrace calibrate
kernel TABLE --hold-out unseen-nk --rows FILE` writes: the predictions' errors on GEMMs of one tile as
measured, and on the median of each tile, which errors of measurement hardly reach.
"""
import argparse
import collections
import csv
import math
import re
import statistics
import sys

FLOOR = 4e-4  # of an absolute error in GMAE, as in foretrace's own summaries
DURATIONS = ((0, 10), (10, 50), (50, math.inf))  # microseconds
FAST = 0.06


def within_one_tile(shape):
    """The shape without its rows where those are 9 to 16; nothing otherwise."""
    without, found = re.subn(r"\bm=(9|1[0-6])(;|$)", "", shape)
    return without if found else None


def quantiles(values):
    """(median, P90) in per cent."""
    ordered = sorted(values)
    return 100 * statistics.median(ordered), 100 * ordered[int(0.9 * (len(ordered) - 1))]


def repeats(path, one_tile=False):
    """{operator: [(signed relative error, time)]} of repeated shapes, {operator: [std / time]}."""
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
            errors[key[0]].append((others / time - 1, time))
    return errors, spread


def by_duration(path, op, values):
    for low, high in DURATIONS:
        some = [error for error, time in values if low <= time < high]
        if some:
            fast = sum(error > FAST for error in some) / len(some)
            median, p90 = quantiles(map(abs, some))
            span = f"{low} to {high}" if high < math.inf else f"{low} and more"
            print(f"{path}: {op} of {span} us: {len(some)} rows, median {median:.2f} %, "
                  f"P90 {p90:.1f} %, {100 * fast:.1f} % of rows over {100 * FAST:.0f} % faster")


def tiles(path):
    """{shape without rows: [(measured, predicted)]} of GEMMs of one tile."""
    rows = collections.defaultdict(list)
    with open(path, encoding="utf-8") as file:
        for row in csv.DictReader(file):
            shape = within_one_tile(row["shape"])
            if shape is not None:
                rows[row["platform"], row["model"], shape].append(
                    (float(row["measured_us"]), float(row["predicted_us"])))
    return rows


def predicted_errors(rows):
    """Absolute relative errors of predictions: of each row, and of each row on its tile's median."""
    single, of_tile = [], []
    for pairs in rows.values():
        median = statistics.median(measured for measured, _ in pairs)
        single += [abs(predicted / measured - 1) for measured, predicted in pairs]
        of_tile += [abs(predicted / median - 1) for _, predicted in pairs]
    return single, of_tile


def report_predicted(path):
    single, of_tile = predicted_errors(tiles(path))
    if not single:
        print(f"{path}: no GEMM of 9 to 16 rows")
        return
    for what, values in (("as measured", single), ("on the median of their tile", of_tile)):
        median, p90 = quantiles(values)
        print(f"{path}: predictions of 9 to 16 rows, {what}: {len(values)} rows, "
              f"median {median:.2f} %, P90 {p90:.1f} %")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", nargs="*")
    parser.add_argument("--predicted", action="append", default=[], metavar="FILE",
                        help="rows measured and predicted")
    parser.add_argument("--one-tile", action="store_true",
                        help="GEMMs of 9 to 16 rows are one shape")
    options = parser.parse_args()
    if not options.table and not options.predicted:
        parser.error("no table, no --predicted file")
    for path in options.table:
        errors, spread = repeats(path, options.one_tile)
        if not errors and not spread:
            print(f"{path}: no shape was measured twice, no row has a standard deviation")
        for op, signed in sorted(errors.items()):
            values = [abs(error) for error, _ in signed]
            median, p90 = quantiles(values)
            gmae = math.exp(statistics.fmean(math.log(max(v, FLOOR)) for v in values))
            print(f"{path}: {op}: {len(values)} rows, GMAE {100 * gmae:.2f} %, "
                  f"MAPE {100 * statistics.fmean(values):.2f} %, "
                  f"median {median:.2f} %, P90 {p90:.1f} %")
            if options.one_tile:
                by_duration(path, op, signed)
        for op, values in sorted(spread.items()):
            print(f"{path}: {op}: {len(values)} rows, standard deviation "
                  f"{100 * statistics.fmean(values):.2f} % of the time")
    for path in options.predicted:
        report_predicted(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
