#!/usr/bin/env python3
"""How far foretrace is off on the jobs that this project recorded itself (traces/captured), as a Markdown table.

  scripts/captured_study.py [--foretrace build/release/foretrace] [ARCHIVE ...]

A row a job: mean error of its steps in replay and with durations from models, the share of a step that is
simulated rather than replayed (blocked), and of the kernels of each operator that takes 3 % of the device
time the error by time (GMAE, per cent) with the bias of its sum. Then the mean over jobs by operator, weighted
by time. Jobs are recorded in archives, a folder each.
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
    for _, _, modelled in studied:
        for o in modelled["durations"]:
            share[o["operator"]] += o["share"]
            error[o["operator"]] += o["share"] * o["time_gmae_percent"]
    total = sum(share.values())
    for operator, part in share.most_common():
        if part >= 0.01 * total:
            yield operator, f"{100 * part / total:.0f}", f"{error[operator] / part:.0f}"


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
    print(table(("Operator", "Time %", "By time, %"), by_operator(studied)))


if __name__ == "__main__":
    main()
