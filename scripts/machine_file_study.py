#!/usr/bin/env python3
"""Errors of GEMMs that are predicted by the file of their device alone, by device, type and rows of x.

  scripts/machine_file_study.py DATA [--foretrace build/release/foretrace]

DATA is the folder of public data (traces/README.md). Each table is imported and predicted by
`foretrace calibrate kernel --calibration none --test TABLE.csv --rows ROWS`; nothing of it is fitted
here. Which tables the constants without a calibration were set by, cost/kernel/analytic_gemm.cpp says.
"""
import csv
import pathlib
import statistics
import subprocess
import sys
import tempfile

from exchange_study import quantile
from study_main import import_tables, print_study

HERE = pathlib.Path(__file__).resolve().parent
HEADER = ("Table", "Kernels", "Rows", "Median / P90 %", "MAPE %", "To 64 rows", "To 1,023", "More")
# Imported tables that hold GEMMs.
TABLES = [
    "aiconfigurator-a100-sxm4-nvswitch-gemm-bfloat16", "vidur-a100-sxm4-nvswitch-kernels",
    "llmcompass-a100-sxm4-nvswitch-kernels", "aiconfigurator-h100-sxm5-nvswitch-gemm-bfloat16",
    "vidur-h100-sxm5-nvswitch-kernels", "aiconfigurator-h100-sxm5-nvswitch-gemm-fp8",
    "aiconfigurator-h100-sxm5-nvswitch-gemm-fp8_block", "simumax-b200-sxm-nvswitch-gemm-bfloat16",
    "deepbench-v100-sxm2-nvlink-kernels", "aceso-v100-sxm2-nvlink-kernels", "deepbench-p100-pcie-kernels", "neusight-test-v100-pcie-kernels",
    "neusight-test-a100-pcie-40gb-kernels", "neusight-test-a100-pcie-80gb-kernels",
    "neusight-test-p100-pcie-kernels", "neusight-models-h100-sxm5-nvswitch-kernels",
    "neusight-models-t4-kernels", "neusight-models-p4-kernels",
]


def imported(sources, folder):
    """The tables of SOURCES as neutral CSV in `folder`."""
    subprocess.run([str(HERE / "import_all.sh"), str(sources), folder], check=True, capture_output=True)
    for name in ("aiconfigurator", "simumax"):
        import_tables(name, sources, folder)


def predicted(foretrace, path, folder):
    """(model, m, predicted over measured less 1) of each GEMM of a table."""
    rows = pathlib.Path(folder) / "rows.csv"
    done = subprocess.run([foretrace, "calibrate", "kernel", "--calibration", "none", "--test", str(path),
                           "--rows", str(rows)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"machine_file_study: error: {path}: {done.stderr.strip()}")
    with rows.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if not row["model"].startswith("gemm "):
                continue
            shape = dict(part.split("=", 1) for part in row["shape"].split(";"))
            yield row["model"], int(shape["m"]), float(row["predicted_us"]) / float(row["measured_us"]) - 1


def bias(errors):
    """Median with its sign; empty: no such rows."""
    return f"{100 * statistics.median(errors):+.0f} %" if errors else "-"


def study_rows(foretrace, sources):
    """The lines of the table, as texts."""
    with tempfile.TemporaryDirectory() as folder:
        imported(pathlib.Path(sources), folder)
        for name in TABLES:
            path = pathlib.Path(folder) / f"{name}.csv"
            if not path.exists():
                continue
            by_model = {}
            for model, m, error in predicted(foretrace, path, folder):
                by_model.setdefault(model, []).append((m, error))
            for model, errors in sorted(by_model.items()):
                size = [abs(error) for _, error in errors]
                yield (name.removesuffix("-kernels"), model.removesuffix(" forward"), str(len(errors)),
                       f"{100 * statistics.median(size):.1f} / {100 * quantile(size, 0.9):.1f}",
                       f"{100 * statistics.fmean(size):.1f}",
                       bias([e for m, e in errors if m <= 64]), bias([e for m, e in errors if 64 < m < 1024]),
                       bias([e for m, e in errors if m >= 1024]))


if __name__ == "__main__":
    print_study(__doc__, HEADER, study_rows)
