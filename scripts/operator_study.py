#!/usr/bin/env python3
"""How well measured operators are predicted from those of a table that has none of their group.

Tables of operators of aiconfigurator (attention, latent attention, experts), rows of a fifth of the groups held out
(`foretrace calibrate kernel A.csv --test B.csv --json`), each group once where the rule says so:

  scripts/operator_study.py $FORETRACE_REALDATA
"""
import csv
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

from study_main import import_tables, print_study

HEADER = ("Table", "Type", "Held out", "Goal", "Rows", "Predicted", "Beyond", "Median / P90 %")
FOLDS = 5
MODEL = ("hidden_size", "inter_size", "num_experts", "topk")
DIVISION = ("moe_tp_size", "moe_ep_size")
# (table, goal as median / P90, [(what is held out, its columns, folds that are judged)])
RULES = (
    ("h100-sxm5-nvswitch-moe", "4 / 15",
     (("models", MODEL, FOLDS), ("divisions", DIVISION, 1), ("numbers of tokens", ("num_tokens",), 1), ("rows", (), 1))),
    ("h100-sxm5-nvswitch-mla-context", "2 / 8", (("heads", ("num_heads",), 1), ("sequences", ("batch_size",), 1), ("rows", (), 1))),
    ("h100-sxm5-nvswitch-mla-generation", "2 / 8", (("heads", ("num_heads",), 1), ("sequences", ("batch_size",), 1), ("rows", (), 1))),
    ("a100-sxm4-nvswitch-mla-context", "2 / 8", (("heads", ("num_heads",), 1), ("sequences", ("batch_size",), 1), ("rows", (), 1))),
    ("a100-sxm4-nvswitch-mla-generation", "2 / 8", (("heads", ("num_heads",), 1), ("sequences", ("batch_size",), 1), ("rows", (), 1))),
    ("h100-sxm5-nvswitch-attention-context-others", "2 / 8",
     (("heads", ("num_heads", "num_key_value_heads"), 1), ("sequences", ("batch_size",), 1), ("rows", (), 1))),
    ("h100-sxm5-nvswitch-attention-generation-others", "2 / 8",
     (("heads", ("num_heads", "num_key_value_heads"), 1), ("sequences", ("batch_size",), 1), ("rows", (), 1))),
)


def split(path, columns, fold, folder):
    """Writes the rows of every fifth group, counted in order of their first row, and the others; the files' names."""
    lines = path.read_text(encoding="utf-8").splitlines()
    provenance = [line for line in lines if line.startswith("#")]
    header, *rows = csv.reader(line for line in lines if not line.startswith("#"))
    at = [header.index(column) for column in columns]
    groups, files = {}, []
    for number, row in enumerate(rows):
        groups.setdefault(tuple(row[i] for i in at) if at else number, len(groups))
    # By size, not by place: neighbouring groups are neighbours in size.
    ordered = sorted(groups) if not at else sorted(groups, key=lambda group: [float(value) for value in group])
    part = {group: place % FOLDS for place, group in enumerate(ordered)}
    tested = [part[tuple(row[i] for i in at) if at else number] == fold for number, row in enumerate(rows)]
    for name, wanted in (("known", False), ("tested", True)):
        files.append(folder / f"{path.stem}-{name}.csv")
        with files[-1].open("w", encoding="utf-8", newline="") as file:
            file.writelines(line + "\n" for line in provenance)
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(header)
            writer.writerows(row for row, is_tested in zip(rows, tested) if is_tested == wanted)
    return files


def models_of(foretrace, known, tested):
    done = subprocess.run([foretrace, "calibrate", "kernel", known, "--test", tested, "--json"], capture_output=True,
                          text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"operator_study: error: {done.stderr.strip()}")
    return [model for model in json.loads(done.stdout)["models"] if model["name"] != "all"]


def study_rows(foretrace, data):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        import_tables("aiconfigurator", data, folder)
        for table, goal, rules in RULES:
            path = folder / f"aiconfigurator-{table}.csv"
            for what, columns, folds in rules:
                by_type = {}
                for fold in range(folds):
                    for model in models_of(foretrace, *split(path, columns, fold, folder)):
                        by_type.setdefault(model["name"], []).append(model)
                for kind, models in by_type.items():
                    judged = [model for model in models if model["count"]]
                    error = " / ".join(f"{statistics.fmean(model[key] for model in judged):.{digits}f}" if judged else "-"
                                       for key, digits in (("median_percent", 2), ("p90_percent", 1)))
                    yield (table, kind, what, goal, *(str(sum(model[key] for model in models))
                                                      for key in ("rows", "count", "extrapolated_count")), error)


if __name__ == "__main__":
    print_study(__doc__, HEADER, study_rows)
