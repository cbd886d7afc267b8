#!/usr/bin/env python3
"""How far predictions of whole jobs are off that others published, in time and memory; nothing is fitted to any of them.

By `foretrace validate --calibration none --mappings ROWS.csv --json`, a table of rows and a model, and by software:

  scripts/published_study.py $FORETRACE_REALDATA
"""
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

from study_main import import_tables, print_study

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEADER = ("Rows", "Model", "Goal %", "Judged", "Refused", "Mean %", "Median %", "Signed mean %", "Memory, mean %", "Memory, lowest %")
# (name, file below the data or the project's root, options, goal: mean of times)
TABLES = (
    ("NeMo and PaxML, H100", "training_rows/dgxc_h100.csv", (), "10"),
    ("Composer's FSDP, A100", "training_rows/mosaicml_a100_40gb.csv", (), "8"),
    ("torchtitan's FSDP2, H100, H200 and A100", "training_rows/torchtitan_llama_8b.csv", (), "8"),
    ("BLOOM's preparation, V100", "training_rows/bloom_v100.csv", (), "-"),
    ("SimuMax's steps, 8 B200", "simumax", ("--platform", "dgx-b200"), "6"),
    ("FSDP2 of this project, one H100", "tests/data/mappings/h100_fsdp2.csv", (), "-"),
    ("papers", "tests/data/mappings/papers.csv", (), "-"),
)


def judged(foretrace, path, options):
    done = subprocess.run([foretrace, "validate", "--calibration", "none", "--mappings", path, *options, "--json"],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"published_study: error: {path}: {done.stderr.strip()}")
    return json.loads(done.stdout)["cases"]


def path_of(file, data, folder):
    """Where the rows are; SimuMax's are imported first."""
    if file.startswith("tests/"):
        return ROOT / file
    if file != "simumax":
        return data / file
    import_tables(file, data, folder, "import_simumax_rows.py")
    return pathlib.Path(folder) / "simumax-b200-training-rows.csv"


def summary(cases):
    """The cells behind a name and a goal."""
    errors = [case["error_percent"] for case in cases if case.get("error_percent") is not None]
    memory = [100 * (case["predicted_memory_gib"] / case["measured_memory_gib"] - 1) for case in cases
              if case.get("measured_memory_gib") and case.get("predicted_memory_gib")]
    refused = sum(1 for case in cases if case.get("refused"))
    if not errors:
        return "0", str(refused), "-", "-", "-", "-", "-"
    return (str(len(errors)), str(refused), f"{statistics.fmean(map(abs, errors)):.1f}",
            f"{statistics.median(map(abs, errors)):.1f}", f"{statistics.fmean(errors):+.1f}",
            f"{statistics.fmean(map(abs, memory)):.1f}" if memory else "-", f"{min(memory):+.1f}" if memory else "-")


def study_rows(foretrace, data):
    with tempfile.TemporaryDirectory() as folder:
        for name, file, options, goal in TABLES:
            cases = judged(foretrace, path_of(file, data, folder), options)
            yield (name, "all", goal, *summary(cases))
            models = sorted({case["model"] for case in cases})
            for model in models if 1 < len(models) <= 8 else ():
                yield (name, model, "", *summary([case for case in cases if case["model"] == model]))


if __name__ == "__main__":
    print_study(__doc__, HEADER, study_rows)
