#!/usr/bin/env python3
"""What a capture loses without some of its evidence: good public captures with it left out, predicted and compared with
themselves. Prints the table of docs/capture.md.

  scripts/capture_study.py --foretrace build/release/foretrace [--data FOLDER]

Step errors are those of `foretrace validate --trace DIR`: of the replayed, unchanged recording.
"""
import argparse
import gzip
import json
import os
import pathlib
import subprocess
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


def error(foretrace, folder):
    done = subprocess.run([foretrace, "validate", "--trace", str(folder), "--allow-missing-ranks", "--json"], capture_output=True, text=True)
    if done.returncode != 0:
        return "refused"
    summary = json.loads(done.stdout)["summary"]
    return f"{summary['mape_percent']:.2f} / {summary['max_percent']:.2f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--foretrace", required=True)
    parser.add_argument("--data", default=os.environ.get("FORETRACE_REALDATA", "data"))
    options = parser.parse_args()
    print("| Left out | " + " | ".join(CAPTURES) + " |\n|---|" + "---|" * len(CAPTURES))
    for name, change in LEFT_OUT.items():
        row = []
        for path in CAPTURES.values():
            with tempfile.TemporaryDirectory() as folder:
                for file, document in documents(pathlib.Path(options.data) / path):
                    document["traceEvents"] = change(document["traceEvents"])
                    (pathlib.Path(folder) / file.removesuffix(".gz")).write_text(json.dumps(document))
                row.append(error(options.foretrace, folder))
        print(f"| {name} | " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
