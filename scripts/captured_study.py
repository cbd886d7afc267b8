#!/usr/bin/env python3
"""How far foretrace is off on the jobs that this project recorded itself (traces/captured), as a Markdown table.

  scripts/captured_study.py [--foretrace build/release/foretrace] [ARCHIVE ...]

A row a job: mean error of its steps in replay and with durations from models, the share of a step that is
simulated rather than replayed (blocked), and of the kernels of each operator that takes 3 % of the device
time the error by time (GMAE, per cent) with the bias of its sum. Then the mean over jobs by operator, weighted
by time: of all, of those that constants of kernel models were set with (SET), and of the others. Jobs are
recorded in archives, a folder each.
"""
import argparse
import collections
import json
import pathlib
import subprocess
import sys
import tarfile

from accuracy_rows import table

ROOT = pathlib.Path(__file__).resolve().parent.parent
CAPTURED = ROOT / "traces" / "captured"
CALIBRATIONS = {"h100-sxm5": "h100-sxm5-nvswitch"}
LEAST = 0.03
# Jobs that comments in simulator/cost name as what a constant was set with, with their twins. The others
# were looked at, and judge.
SET = ("dlrm-heavy-b1024", "dlrm-mixed-b2048", "dlrm-mixed-b512-device", "resnet50-b16-fp32", "resnet50-b64-tf32",
       "resnet50-b256-bf16", "bert-base-b64-bf16", "bert-base-b4-tf32", "gpt2-small-b8-bf16", "gpt2-small-b2-fp32")
# Likewise, whose names others begin with that are no twins.
SET_ALONE = ("llama3-8b-l4-s8192-b1-none", "llama3-8b-l4-s8192-b1-none-compiled", "llama3-70b-l1-s4096-b2-none")


def jobs_of(archive):
    with tarfile.open(archive) as tar:
        return sorted({name.split("/")[0] for name in tar.getnames()})


def validate(foretrace, *options):
    done = subprocess.run([foretrace, "validate", *options, "--json"], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def mean(values):
    return sum(values) / len(values) if values else float("nan")


def study(foretrace, archives):
    """[(job, replayed summary, modelled document)]"""
    studied = []
    for archive in archives:
        calibration = CALIBRATIONS[archive.parent.name]
        for job in jobs_of(archive):
            trace = ("--trace", f"{archive}:{job}")
            replayed = validate(foretrace, *trace)
            modelled = validate(foretrace, *trace, "--durations", "model", "--calibration", calibration)
            studied.append((job, replayed, modelled))
    return studied


def rows(studied):
    for job, replayed, modelled in studied:
        blocked = mean([case["blocked_share"] for case in replayed["cases"]])
        operators = sorted(modelled["durations"], key=lambda o: -o["share"])
        kernels = ", ".join(f"{o['operator']} {o['time_gmae_percent']:.0f} ({o['bias_percent']:+.0f})"
                            for o in operators if o["share"] >= LEAST)
        yield (job, f"{replayed['summary']['count']}", f"{replayed['summary']['mape_percent']:.2f}",
               f"{modelled['summary']['mape_percent']:.2f}", f"{100 * blocked:.0f}", kernels)


def by_operator(studied):
    share, error = collections.Counter(), collections.Counter()
    for job, _, modelled in studied:
        group = "set" if job in SET_ALONE or job.startswith(SET) else "others"
        for o in modelled["durations"]:
            for key in ("all", group):
                share[key, o["operator"]] += o["share"]
                error[key, o["operator"]] += o["share"] * o["time_gmae_percent"]
    total = sum(part for (key, _), part in share.items() if key == "all")
    for (key, operator), part in share.most_common():
        if key == "all" and part >= 0.01 * total:
            means = [f"{error[k, operator] / share[k, operator]:.0f}" if share[k, operator] else "-"
                     for k in ("all", "set", "others")]
            yield operator, f"{100 * part / total:.0f}", *means


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--foretrace", default=str(ROOT / "build" / "release" / "foretrace"))
    parser.add_argument("archives", nargs="*", type=pathlib.Path)
    options = parser.parse_args()
    archives = options.archives or sorted(CAPTURED.glob("*/*.tar.xz"))
    if not archives:
        sys.exit(f"captured_study.py: no archives in {CAPTURED}")
    studied = study(options.foretrace, archives)
    print(table(("Job", "Steps", "Replay %", "Modelled %", "Blocked %", "Kernels by time, % (bias)"), rows(studied)))
    print()
    print(table(("Operator", "Time %", "By time, %", "Set constants", "Others"), by_operator(studied)))


if __name__ == "__main__":
    main()
