#!/usr/bin/env python3
"""SimuMax's measured training steps on 8 B200 to rows that `foretrace validate --mappings` reads.

SOURCE is the folder of its tables as CSV, of which b200_dense_cases.csv is read: its columns stay,
and what all runs had in common (its SOURCE.txt, "run conditions") is added in columns of their own:
Megatron with Transformer Engine 2.11, a distributed optimizer, no recomputation, cross entropy fused,
nothing overlapped. SimuMax's own predictions are left out.
"""
import csv
import io
import pathlib
import sys

import import_common as common

NEEDED = ["case", "model", "gpus", "gpu", "tp", "pp", "micro_batch_size", "step_ms", "precision",
          "max_allocated_GiB"]
COMMON = {"framework": "Megatron-LM", "date": "2025-12", "sharding": "distributed optimizer",
          "recompute": "none", "overlap": "none", "note": "fused cross entropy"}


def run(source, output):
    path = pathlib.Path(source) / "b200_dense_cases.csv"
    if not path.is_file():
        common.fail(f"{path}: there is no such table; is this the right source?")
    rows = list(common.read_csv(path.name, path.read_text("utf-8-sig"), NEEDED))
    if not rows:
        common.fail(f"{path}: has a header and no rows")
    target = output / "simumax-b200-training-rows.csv"
    own = [name for name in rows[0] if not name.startswith("simumax_")]
    text = io.StringIO()
    writer = csv.DictWriter(text, own + list(COMMON), extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows({**row, **COMMON} for row in rows)
    common.write_file(target, text.getvalue())
    print(f"{target}: {len(rows)} rows", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(common.main(__doc__, run))
