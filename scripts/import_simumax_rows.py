#!/usr/bin/env python3
"""SimuMax's measured training steps on 8 B200 to rows that `foretrace validate --mappings` reads.

SOURCE is the folder of its tables as CSV, of which b200_dense_cases.csv is read: its columns stay,
and what all runs had in common (its SOURCE.txt, "run conditions") is added in columns of their own
where a row does not say otherwise: Megatron with Transformer Engine 2.11, a distributed optimizer, no
recomputation, cross entropy fused, nothing overlapped. So is what SimuMax's scripts ask Megatron for
(simu_tools/megatron_scripts/scripts/run_pretrain_*.sh): heads exchanged for sequences under context
parallelism (CP_COMM_TYPE a2a), and of models with latent attention the first layer alone dense
(MOE_LAYER_FREQ). SimuMax's own predictions are left out.
"""
import csv
import io
import pathlib
import sys

import import_common as common

NEEDED = ["case", "model", "gpus", "gpu", "tp", "pp", "micro_batch_size", "step_ms", "precision",
          "max_allocated_GiB"]
COMMON = {"framework": "Megatron-LM", "date": "2025-12", "sharding": "distributed optimizer",
          "recompute": "none", "overlap": "none", "note": "fused cross entropy",
          "cp_comm_type": "a2a"}
LATENT = ("deepseek", "kimi")


def whole_row(row):
    """What the row states, and for the rest what all runs had in common."""
    known = dict(COMMON)
    if row["model"].lower().startswith(LATENT):
        known["dense_layers"] = "1"
    return {**known, **{name: value for name, value in row.items() if value}}


def run(source, output):
    path = pathlib.Path(source) / "b200_dense_cases.csv"
    if not path.is_file():
        common.fail(f"{path}: there is no such table; is this the right source?")
    rows = list(common.read_csv(path.name, path.read_text("utf-8-sig"), NEEDED))
    if not rows:
        common.fail(f"{path}: has a header and no rows")
    target = output / "simumax-b200-training-rows.csv"
    filled = [whole_row(row) for row in rows]
    columns = list(dict.fromkeys(name for row in [rows[0], *filled] for name in row
                                 if not name.startswith("simumax_")))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(filled)
    common.write_file(target, text.getvalue())
    print(f"{target}: {len(rows)} rows", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(common.main(__doc__, run))
