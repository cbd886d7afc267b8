#!/usr/bin/env python3
"""What a capture loses without some of its evidence: good public captures with it left out, predicted and compared with
themselves. Prints the table of docs/capture.md.

  scripts/capture_study.py --foretrace build/release/foretrace [--data FOLDER]
  scripts/capture_study.py --foretrace build/release/foretrace --models [--data FOLDER]
  scripts/capture_study.py --foretrace build/release/foretrace --what-if

Step errors are those of `foretrace validate --trace DIR`: of the replayed, unchanged recording; with --models, of
one that waits for its device with its kernels predicted (its calibration was fitted with it in view). --what-if: jobs of known
timing (tests/truth) with all matrix gemms 30 % slower, predicted from profiles of the job as it was and compared with the
job built so.
"""
import argparse
import gzip
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tarfile
import tempfile

CAPTURES = {  # name: path below the folder of public data
    "DLRM, 8 x V100": "param-et_replay/dlrm_kineto.tar.gz",
    "torchrec, A100": "hta-traces/trace_diff/control",
    "ResNet-50, V100": "kineto-tb_plugin",
    "NCCL 2 ranks, H100": "hta-traces/nccl_parser_config",
    "2 ranks, A100": "hta-traces/ns_resolution_trace",
}
OCCUPANCY = ("blocks per SM", "warps per SM", "grid", "block", "registers per thread", "shared memory")
GROUPS = ("Process Group Name", "Process Group Description", "Process Group Ranks")
SIZES = ("In msg nelems", "Out msg nelems", "In split size", "Out split size", "dtype")


def without_arguments(*keys):
    def change(events):
        for event in events:
            for key in keys:
                if isinstance(event.get("args"), dict):
                    event["args"].pop(key, None)
        return events
    return change


def without_events(events):
    keys = ("wait_on_stream", "wait_on_cuda_event_record_corr_id", "wait_on_cuda_event_id")
    return [e for e in without_arguments(*keys)(events) if e.get("cat") != "cuda_sync"]


def without_correlation(events):
    for event in events:
        if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset", "Kernel", "Memcpy", "Memset"):
            event["args"].pop("correlation", None)
            event["args"].pop("External id", None)
    return events


LEFT_OUT = {
    "nothing": lambda events: events,
    "correlation": without_correlation,
    "events": without_events,
    "shapes": without_arguments("Input Dims", "Input dims", "Input type"),
    "occupancy": without_arguments(*OCCUPANCY),
    "process groups": without_arguments(*GROUPS),
    "message sizes": without_arguments(*SIZES),
    "sequence numbers": without_arguments("Seq"),
}


def documents(path):
    """(file name, document) of each profile."""
    if path.is_file():
        with tarfile.open(path) as tar:
            for member in tar.getmembers():
                if not member.isfile() or ".json" not in member.name:
                    continue
                data = tar.extractfile(member).read()
                yield pathlib.Path(member.name).name, json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
        return
    for file in sorted(path.rglob("*.json*")):
        data = file.read_bytes()
        document = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
        if "traceEvents" in document:
            yield file.name, document


def error(foretrace, folder, *more):
    done = subprocess.run([foretrace, "validate", "--trace", str(folder), "--allow-missing-ranks", "--json", *more], capture_output=True,
                          text=True)
    if done.returncode != 0:
        return "refused"
    summary = json.loads(done.stdout)["summary"]
    return f"{summary['mape_percent']:.2f} / {summary['max_percent']:.2f}"


def left_out(foretrace, data, capture, change, *more):
    with tempfile.TemporaryDirectory() as folder:
        for file, document in documents(pathlib.Path(data) / CAPTURES[capture]):
            document["traceEvents"] = change(document["traceEvents"])
            (pathlib.Path(folder) / file.removesuffix(".gz")).write_text(json.dumps(document))
        return error(foretrace, folder, *more)


MODELLED = ("torchrec, A100", ("--durations", "model", "--calibration", "a100-sxm4-nvswitch", "--platform", "dgx-a100"))


def models(foretrace, data):
    capture, options = MODELLED
    print(f"| Left out | {capture}, modelled |\n|---|---|")
    for name in ("nothing", "shapes", "occupancy"):
        print(f"| {name} | {left_out(foretrace, data, capture, LEFT_OUT[name], *options)} |", flush=True)


PRODUCTS = "gemm.*_(tn|nt)"
# What profiles hold: arguments of tests/truth's Job.write, and which ranks have one.
HELD = {
    "nothing": {"metadata": "numbered", "events": "named"},
    "events": {"metadata": "numbered", "events": "recorded"},
    "records of events too": {"metadata": "numbered", "events": "absent"},
    "sequence numbers": {"metadata": "all", "events": "named"},
    "process groups, sizes and numbers": {"metadata": "none", "events": "named"},
    "all of these": {"metadata": "none", "events": "absent"},
    "all ranks but one": {"metadata": "numbered", "events": "named", "ranks": [0]},
}


def jobs_of_known_timing():
    """(ranks, factors of GEMMs by rank -> job)"""
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests/truth"))
    import combinations
    import job
    import pipelines
    steps = (3, 4, 5)
    yield 4, lambda s: job.data_parallel(4, 12, s, steps=steps)
    yield 8, lambda s: job.megatron(3, 4, s, steps=steps)
    yield 4, lambda s: job.ring(4, 8, s, steps=steps)
    yield 4, lambda s: job.prefetching(4, slower=s)
    yield 4, lambda s: pipelines.lookup_ahead(4, slower=s, steps=range(3, 9))
    yield 4, lambda s: combinations.distributed_optimizer(4, slower=s)
    yield 4, lambda s: combinations.interleaved(4, 2, 8, slower=s, steps=steps)
    yield 4, lambda s: combinations.sharded_parameters(4, replicas=2, read_loss=True, slower=s)
    yield 4, lambda s: combinations.experts(4, slower=s)


def what_if_error(foretrace, ranks, build, ranks_kept=None, step=4, **held):
    kept = list(range(ranks)) if ranks_kept is None else ranks_kept
    truth = build({r: 1.3 for r in range(ranks)}).step_times(step)
    with tempfile.TemporaryDirectory() as folder:
        build(None).write(folder, **held)
        files = [f"{folder}/rank{r}.json" for r in kept]
        done = subprocess.run([foretrace, "predict", *files, "--allow-missing-ranks", "--iteration", str(step), "--what-if",
                               f"name={PRODUCTS}:x1.3", "--json"], capture_output=True, text=True, check=True)
    found = {r["rank"]: r["iteration_time_us"] for r in json.loads(done.stdout)["ranks"]}
    return 100 * abs(max(found.values()) / max(truth[r] for r in kept) - 1)


def what_ifs(foretrace):
    print("| Left out | mean % | largest % |\n|---|--:|--:|")
    for name, held in HELD.items():
        rest = {k: v for k, v in held.items() if k != "ranks"}
        errors = [what_if_error(foretrace, ranks, build, held.get("ranks"), **rest) for ranks, build in jobs_of_known_timing()]
        print(f"| {name} | {statistics.fmean(errors):.2f} | {max(errors):.2f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--foretrace", required=True)
    parser.add_argument("--data", default=os.environ.get("FORETRACE_REALDATA", "data"))
    parser.add_argument("--what-if", action="store_true")
    parser.add_argument("--models", action="store_true")
    options = parser.parse_args()
    if options.models:
        models(options.foretrace, options.data)
        return
    if options.what_if:
        what_ifs(options.foretrace)
        return
    print("| Left out | " + " | ".join(CAPTURES) + " |\n|---|" + "---|" * len(CAPTURES))
    for name, change in LEFT_OUT.items():
        row = [left_out(options.foretrace, options.data, capture, change) for capture in CAPTURES]
        print(f"| {name} | " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
