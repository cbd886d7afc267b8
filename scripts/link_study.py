#!/usr/bin/env python3
"""Compares closed-form collective times with public measurements, table by table.

Imports nccl-tests-cluster, vidur, vTrain and Galvatron from a folder of raw public data
(FORETRACE_REALDATA), fits one latency and one efficiency per link type to every other table, and
prints the errors of the others. Usage: scripts/link_study.py --foretrace build/release/foretrace
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
# importer, source folder, table, platform, flags
STUDIES = [
    ("nccl_tests", "nccl-tests-cluster-h100", "nccl-tests-h100-sxm5-nvswitch-collectives.csv",
     "h100-cluster-10", ["--fit"]),
    ("vidur", "vidur", "vidur-h100-sxm5-nvswitch-collectives.csv", "dgx-h100", ["--fit"]),
    ("vtrain", "vtrain", "vtrain-a100-sxm4-nvswitch-collectives.csv", "dgx-a100", ["--fit"]),
    ("vtrain", "vtrain", "vtrain-v100-sxm2-nvlink-collectives.csv", "dgx1-v100", ["--fit"]),
    ("galvatron", "galvatron", "galvatron-a100-sxm4-nvswitch-collectives.csv", "dgx-a100",
     ["--fit-launch"]),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--foretrace", required=True, help="the binary")
    parser.add_argument("--data", default=os.environ.get("FORETRACE_REALDATA"),
                        help="folder of raw public data (default: $FORETRACE_REALDATA)")
    args = parser.parse_args()
    if not args.data:
        sys.exit("link_study: give --data or set FORETRACE_REALDATA")
    with tempfile.TemporaryDirectory() as folder:
        for importer, source, table, platform, flags in STUDIES:
            target = pathlib.Path(folder) / importer
            if not target.exists():
                subprocess.run([sys.executable, ROOT / "scripts" / f"import_{importer}.py",
                                "-o", target, pathlib.Path(args.data) / source],
                               check=True, stdout=subprocess.DEVNULL)
            print(f"== {table} on {platform} {' '.join(flags)}", flush=True)
            subprocess.run([args.foretrace, "collective", "--topology",
                            ROOT / "topologies" / f"{platform}.yaml", "--measured", target / table,
                            *flags], check=True)


if __name__ == "__main__":
    main()
