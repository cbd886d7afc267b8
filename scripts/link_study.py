#!/usr/bin/env python3
"""Compares predicted collective times with public measurements, table by table and tier by tier.

Imports nccl-tests-cluster, vidur, vTrain and Galvatron from a folder of raw public data
(FORETRACE_REALDATA), fits one latency and one efficiency per link type to every other table, or to
every other size of each, where the study says so, and prints a Markdown table of errors.

  scripts/link_study.py [--foretrace build/release/foretrace] [--all]
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
# name, importer, source folder, table, platform, operation, flags, nodes (0: any). Without --fit the
# platform's values are used as they are: then every table is held out if the values come from another
# machine. Pairs on different nodes of vidur's A100 have NICs that no source names: their link is fitted.
STUDIES = [
    ("nccl-tests, 10 nodes of 8 H100", "nccl_tests", "nccl-tests-cluster-h100",
     "nccl-tests-h100-sxm5-nvswitch-collectives.csv", "h100-cluster-10", "", ["--fit"], 0),
    ("nccl-tests, shifts", "nccl_tests", "nccl-tests-cluster-h100",
     "nccl-tests-h100-sxm5-nvswitch-collectives.csv", "h100-cluster-10", "send_recv", ["--fit"], 0),
    ("aiconfigurator, NCCL 2.29, links as fitted to nccl-tests", "aiconfigurator", "aiconfigurator",
     "aiconfigurator-h100-sxm5-nvswitch-nccl-2.29.2-half.csv", "dgx-h100", "", [], 0),
    ("the same, int8", "aiconfigurator", "aiconfigurator",
     "aiconfigurator-h100-sxm5-nvswitch-nccl-2.29.2-int8.csv", "dgx-h100", "", [], 0),
    ("vidur, DGX H100, links as fitted to nccl-tests", "vidur", "vidur",
     "vidur-h100-sxm5-nvswitch-collectives.csv", "dgx-h100", "", [], 0),
    ("vidur, DGX H100", "vidur", "vidur", "vidur-h100-sxm5-nvswitch-collectives.csv", "dgx-h100",
     "", ["--fit"], 0),
    ("vidur, DGX H100, pairs, links as fitted to nccl-tests", "vidur", "vidur",
     "vidur-h100-sxm5-nvswitch-collectives.csv", "dgx-h100", "send_recv", [], 0),
    ("vidur, DGX A100, pairs, links as fitted to vTrain", "vidur", "vidur",
     "vidur-a100-sxm4-nvswitch-collectives.csv", "dgx-a100", "send_recv", [], 1),
    ("vidur, DGX A100, pairs, the NIC fitted to every other size", "vidur", "vidur",
     "vidur-a100-sxm4-nvswitch-collectives.csv", "dgx-a100", "send_recv",
     ["--fit", "--hold-out", "sizes"], 2),
    ("vTrain, 8 A100", "vtrain", "vtrain", "vtrain-a100-sxm4-nvswitch-collectives.csv", "dgx-a100",
     "", ["--fit"], 0),
    ("vTrain, DGX-1V", "vtrain", "vtrain", "vtrain-v100-sxm2-nvlink-collectives.csv", "dgx1-v100",
     "", ["--fit"], 0),
    ("Galvatron, 8 A100", "galvatron", "galvatron",
     "galvatron-a100-sxm4-nvswitch-collectives.csv", "dgx-a100", "", ["--fit-launch"], 0),
]
TIERS = ("fitted", "fluid")
HEADER = ("Source", "Platform and flags", "Operation", "Nodes", "Ranks", "Rows",
          *(f"{tier}: {figure} %" for tier in TIERS for figure in ("GMAE", "MAPE", "max")))


def study_rows(foretrace, data, every_table=False):
    """One row per table that was not fitted; with every_table those too."""
    with tempfile.TemporaryDirectory() as folder:
        for name, importer, source, table, platform, operation, flags, nodes in STUDIES:
            target = pathlib.Path(folder) / importer
            if not target.exists():
                subprocess.run([sys.executable, ROOT / "scripts" / f"import_{importer}.py",
                                "-o", target, pathlib.Path(data) / source],
                               check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            command = [foretrace, "collective", *([operation] if operation else []), "--topology",
                       ROOT / "topologies" / f"{platform}.yaml", "--measured", target / table,
                       *flags, "--json"]
            by_tier = []
            for tier in TIERS:
                done = subprocess.run([*command, "--network", tier], capture_output=True, text=True,
                                      check=False)
                if done.returncode != 0:
                    sys.exit(f"link_study: error: {name}: {done.stderr.strip()}")
                by_tier.append(json.loads(done.stdout)["tables"])
            for tables in zip(*by_tier, strict=True):
                t = tables[0]
                if nodes not in (0, t["nodes"]):
                    continue
                if flags and not t["held_out"] and not every_table:
                    continue
                mark = " (fitted)" if flags and not t["held_out"] else ""
                yield (name, f"`{' '.join([platform, *flags])}`", t["operation"] + mark,
                       str(t["nodes"]), str(t["ranks"]), str(t["rows"]),
                       *(text for tier in tables
                         for text in (f"{tier['gmae_percent']:.1f}", f"{tier['mape_percent']:.1f}",
                                      f"{tier['max_percent']:.0f}")))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--foretrace", default=str(ROOT / "build" / "release" / "foretrace"),
                        help="the binary")
    parser.add_argument("--data", default=os.environ.get("FORETRACE_REALDATA"),
                        help="folder of raw public data (default: $FORETRACE_REALDATA)")
    parser.add_argument("--all", action="store_true", help="the fitted tables too")
    args = parser.parse_args()
    if not args.data:
        sys.exit("link_study: error: give --data or set FORETRACE_REALDATA")
    print("| " + " | ".join(HEADER) + " |\n|" + "---|" * len(HEADER))
    for row in study_rows(os.path.abspath(args.foretrace), args.data, args.all):
        print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
