#!/usr/bin/env python3
"""How well jobs are predicted of which few ranks were recorded, by hiding ranks of jobs that have all.

Usage: scripts/hide_ranks.py [--foretrace BINARY] [--jobs NAME...] [--ranks]

For each job and each set of ranks kept, every assumption of --absent is compared, on the ranks kept,
with the job of which all ranks are there: as recorded, and with GEMMs a quarter slower on all ranks
or on one. `truth` is the prediction from all ranks; for jobs of tests/truth it is the job built anew,
so exact. Errors are of the slowest rank kept. Prints a table in Markdown, one row a case.

--ranks: `predict --ranks` of the whole job from 1, 2 and 4 of its ranks, with what these waited for
the others as recorded, and with the spread of their own arrivals alone (--absent never-last), which
is what larger jobs rest on. Errors of the slowest rank kept; the interval is the one that is printed.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/truth"))
import job as truth  # noqa: E402

MODES = ("never-last", "alike", "changed-alike", "latest", "as-recorded")
GEMMS = "name=gemm"
SLOWED = "name=gemm.*_(tn|nt)"  # what the jobs of tests/truth slow down: not their optimizers


def predict(foretrace, files, options):
    command = [foretrace, "predict", *map(str, files), "--json", *options]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}\n{run.stderr}")
    return json.loads(run.stdout)


def slowest(report, kept):
    return max(r["iteration_time_us"] for r in report["ranks"] if r["rank"] in kept)


class TruthJob:
    """A job of tests/truth; `build`: factors of the GEMMs of ranks -> job."""

    gemms = SLOWED

    def __init__(self, name, ranks, build, step=3):
        self.name, self.ranks, self.build, self.step = name, ranks, build, step

    def files(self, folder):
        self.build(None).write(folder)
        return {r: [pathlib.Path(folder) / f"rank{r}.json"] for r in range(self.ranks)}

    def exact(self, slower, kept):
        times = self.build(slower).step_times(self.step)
        return max(times[r] for r in kept)


class RecordedJob:
    """A recording of all ranks; what would have been measured with a change is not known, so that the
    prediction from all ranks stands for it."""

    gemms = GEMMS

    def __init__(self, name, ranks, archives, member, step):
        self.name, self.ranks, self.archives, self.member = name, ranks, archives, member
        self.step = step

    def files(self, folder):
        by_rank = {r: [] for r in range(self.ranks)}
        for archive in self.archives:
            target = pathlib.Path(folder) / archive.name
            with tarfile.open(archive) as tar:
                tar.extractall(target, filter="data")
            for path in sorted(p for p in target.rglob("*") if p.is_file()):
                rank = self.member(path)
                if rank is not None:
                    by_rank[rank].append(path)
        return by_rank

    def exact(self, slower, kept):
        return None


class SampleJob(RecordedJob):
    """The bundled sample, of which the prediction from all ranks stands for the truth, too."""

    def __init__(self):
        super().__init__("bundled DLRM (synthetic)", 8, [], None, None)

    def files(self, folder):
        return {r: [ROOT / f"traces/samples/dlrm_8rank/dlrm.{r}.et"] for r in range(self.ranks)}


def digits_of(path):
    numbers = "".join(c if c.isdigit() else " " for c in path.name.split(".")[0]).split()
    return int(numbers[0]) if numbers and path.suffix in (".json", ".gz") else None


def pipeline(slower):
    return truth.pipeline(4, 2, 8, True, None if slower is None else {
        (rank, direction): factor for rank, factor in slower.items()
        for direction in ("forward", "backward")})


def jobs():
    yield TruthJob("data parallel, 8 ranks", 8, lambda s: truth.data_parallel(8, 12, s))
    yield TruthJob("pipeline 4 x tensor 2", 8, pipeline)
    yield TruthJob("Megatron-like, TP 2 PP 2 DP 2", 8, lambda s: truth.megatron(3, 4, s))
    yield TruthJob("ring of 4", 4, lambda s: truth.ring(4, 8, s))
    yield TruthJob("broadcasts, 4 ranks", 4, lambda s: truth.rooted(4, 8, "broadcast", s))
    yield TruthJob("prefetching pipeline, 4 ranks", 4, lambda s: truth.prefetching(4, slower=s),
                   step=5)
    yield TruthJob("gradients in buckets, 4 ranks", 4,
                   lambda s: truth.bucketed(4, [2, 4, 4, 2], s))
    data = os.environ.get("FORETRACE_REALDATA")
    folder = pathlib.Path(data) / "param-et_replay" if data else None
    if folder is None or not folder.is_dir():
        print("DLRM-8 is left out: FORETRACE_REALDATA names no folder that holds it", file=sys.stderr)
        return
    yield RecordedJob("DLRM-8 (recorded)", 8,
                      [folder / "dlrm_kineto.tar.gz", folder / "dlrm_pytorch_et.tar.gz"], digits_of,
                      None)


def eight_ranks():
    yield SampleJob()
    yield from (job for job in jobs() if job.ranks == 8)


def kept_sets(ranks):
    yield "all but the last", set(range(ranks - 1))
    yield "the first half", set(range(ranks // 2))
    yield "rank 0 alone", {0}


def changes(job, kept):
    yield "as recorded", [], None
    yield "all GEMMs x1.25", [f"{job.gemms}:x1.25"], {r: 1.25 for r in range(job.ranks)}
    one = max(kept)
    yield "one rank's GEMMs x1.25", [f"{job.gemms},rank={one}:x1.25"], {one: 1.25}


def study(foretrace, job, folder):
    by_rank = job.files(folder)
    everything = [p for r in sorted(by_rank) for p in by_rank[r]]
    step = [] if job.step is None else ["--iteration", str(job.step)]
    for kept_name, kept in kept_sets(job.ranks):
        files = [p for r in sorted(kept) for p in by_rank[r]]
        for change_name, what_if, slower in changes(job, kept):
            options = step + [o for w in what_if for o in ("--what-if", w)]
            full = predict(foretrace, everything, options)
            expected = job.exact(slower, kept) or slowest(full, kept)
            at = ["--iteration", str(full["iteration"])] + [o for o in options if o not in step]
            report = predict(foretrace, files, at + ["--allow-missing-ranks"])
            interval = report["absent_ranks"]
            row = [job.name, kept_name, change_name, f"{expected:.0f}"]
            if interval is None:
                row += [f"{100 * (slowest(report, kept) / expected - 1):+.2f}"] * len(MODES) + ["-"]
            else:
                row += [f"{100 * (interval[m.replace('-', '_') + '_us'] / expected - 1):+.2f}"
                        for m in MODES]
                slack = 0.001 * expected
                row.append("yes" if interval["lower_us"] - slack <= expected
                           <= interval["upper_us"] + slack else "no")
            yield row


def few_ranks(foretrace, job, folder):
    by_rank = job.files(folder)
    step = [] if job.step is None else ["--iteration", str(job.step)]
    full = predict(foretrace, [p for r in sorted(by_rank) for p in by_rank[r]], step)
    at = ["--iteration", str(full["iteration"]), "--ranks", str(job.ranks)]
    for count in (1, 2, 4):
        kept = set(range(0, job.ranks, job.ranks // count))
        files = [p for r in sorted(kept) for p in by_rank[r]]
        expected = job.exact(None, kept) or slowest(full, kept)
        row = [job.name, str(count), f"{expected:.0f}"]
        for absent in ("alike", "never-last"):
            try:
                report = predict(foretrace, files, [*at, "--absent", absent])
            except RuntimeError as error:
                if "data parallelism" not in str(error):
                    raise
                row += ["no such group"] + ["-", "-"] * (absent == "never-last")
                continue
            row.append(f"{100 * (slowest(report, kept) / expected - 1):+.2f}")
            if absent == "never-last":
                ends = [100 * (report["scale_out"][k] / report["scale_out"]["expected_us"] - 1)
                        for k in ("lower_us", "upper_us")]
                row.append(f"{ends[0]:+.2f} to {ends[1]:+.2f}")
                share = expected / slowest(report, kept) * report["scale_out"]["expected_us"]
                inside = report["scale_out"]["lower_us"] <= share <= report["scale_out"]["upper_us"]
                row.append("yes" if inside else "no")
        yield row


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--foretrace", default=str(ROOT / "build/release/foretrace"))
    parser.add_argument("--jobs", nargs="*", help="those whose names contain one of these")
    parser.add_argument("--ranks", action="store_true")
    options = parser.parse_args()
    if options.ranks:
        print("| job | ranks at hand | truth us | waits as recorded, error % | spread alone, error % "
              "| interval around it % | holds the truth |\n|---|--:|--:|--:|--:|---|---|")
    else:
        print("| job | kept | change | truth us | " + " | ".join(f"{m} %" for m in MODES)
              + " | in interval |")
        print("|---|---|---|--:" + "|--:" * len(MODES) + "|---|")
    for job in eight_ranks() if options.ranks else jobs():
        if options.jobs and not any(name in job.name for name in options.jobs):
            continue
        folder = tempfile.mkdtemp()
        try:
            for row in (few_ranks if options.ranks else study)(options.foretrace, job, folder):
                print("| " + " | ".join(row) + " |", flush=True)
        finally:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
