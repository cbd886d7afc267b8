#!/usr/bin/env python3
"""Plots measured times, the fitted curve and its error by message size, as the multi-GPU paper's
Figure 9. Input: the CSV that `foretrace calibrate ... --rows` writes. Needs gnuplot.

    foretrace calibrate collective lab.csv --hold-out every-third --rows rows.csv
    scripts/plot_fit.py rows.csv -o plots/
"""
import argparse
import csv
import pathlib
import re
import subprocess
import sys

SCRIPT = """set terminal svg size 900,640 font 'sans,11' background 'white'
set output '{output}'
set multiplot layout 2,1 title "{title}" noenhanced
set logscale x 2
set format x '2^{{%L}}'
set grid
set key left top
set logscale y
set ylabel 'time, us'
plot '{data}' using 1:2 with points pt 6 ps 0.6 title 'measured', \\
     '{data}' using 1:3 with lines lw 1.5 title 'model'
unset logscale y
set ylabel 'error, %'
set xlabel '{x_label}'
plot '{data}' using 1:(100*($3/$2-1)) with points pt 7 ps 0.4 notitle, 0 with lines lc 'black' notitle
unset multiplot
"""


def size_of(shape):
    """(axis label, value): bytes or elements, else the product of all integer keys."""
    keys = dict(part.split("=", 1) for part in shape.split(";"))
    for name in ("bytes", "elements", "params"):
        if name in keys:
            return name, float(keys[name])
    product = 1.0
    for value in keys.values():
        if re.fullmatch(r"\d+", value) and int(value) > 0:
            product *= int(value)
    return "product of the shape", product


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", help="CSV from calibrate --rows")
    parser.add_argument("-o", "--output", required=True, help="folder for SVG files")
    arguments = parser.parse_args()
    groups = {}
    with open(arguments.rows, encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            label, size = size_of(row["shape"])
            key = (row["platform"], row["model"], label)
            groups.setdefault(key, []).append((size, row["measured_us"], row["predicted_us"]))
    if not groups:
        print(f"plot_fit.py: error: {arguments.rows}: no rows", file=sys.stderr)
        return 2
    folder = pathlib.Path(arguments.output)
    folder.mkdir(parents=True, exist_ok=True)
    for (platform, model, label), points in sorted(groups.items()):
        stem = re.sub(r"[^A-Za-z0-9.]+", "-", f"{platform}-{model}").strip("-")
        data = folder / f"{stem}.dat"
        data.write_text("".join(f"{x:.0f} {m} {p}\n" for x, m, p in sorted(points)))
        title = f"{platform}: {model}".replace('"', "'")
        script = SCRIPT.format(output=folder / f"{stem}.svg", data=data, title=title, x_label=label)
        try:
            subprocess.run(["gnuplot"], input=script, text=True, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"plot_fit.py: error: gnuplot failed ({error})", file=sys.stderr)
            return 2
        data.unlink()
    print(f"wrote {len(groups)} plots to {folder}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
