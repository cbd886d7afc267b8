#!/usr/bin/env python3
"""A torchrec model by the statistics of its planner as a task of `foretrace shard`.

  scripts/import_torchrec.py $D/embedding/torchrec_plan_tables.csv -o torchrec.yaml --platform dgx-h100

SOURCE has a line for each table (table, emb_dim, hash_size, sum_pooling_factor; the number of ranks and samples of each
from ranks and batch_sizes). The device is not stated there: --platform names one. Placements of torchrec's own estimates:
`python3 -m foretrace.rebalance`.
"""
import argparse
import csv
import json
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "simulator/api/python/foretrace"))
import torchrec  # noqa: E402  foretrace's, without its library


def size(path):
    """Ranks, and samples of each."""
    with open(path, newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    ranks = 1 + max(int(r) for line in lines for r in re.findall(r"\d+", line["ranks"]))
    return ranks, max(int(n) for line in lines for n in re.findall(r"\d+", line["batch_sizes"].split("*")[0]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=pathlib.Path, help="CSV file of a planner's statistics, one line a table")
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True, help="file to write")
    parser.add_argument("--platform", required=True, help="platform of the devices, as `foretrace list platforms` names it")
    parser.add_argument("--hbm-GB", type=float, default=80, help="memory of a device (default: %(default)s)")
    options = parser.parse_args()
    try:
        tables = torchrec.read_tables(options.source)
        ranks, batch = size(options.source)
    except (OSError, KeyError, ValueError) as error:
        sys.exit(f"import_torchrec: error: {options.source}: {error!r}")
    planner = torchrec.Planner(torchrec.Topology(ranks, hbm_GB=options.hbm_GB), batch, options.platform, storage_reservation=0)
    head = f"# {len(tables)} tables on {ranks} ranks, {batch} samples each; scripts/import_torchrec.py.\n"
    options.output.write_text(head + json.dumps(planner.task(tables), indent=1) + "\n")


if __name__ == "__main__":
    main()
