#!/usr/bin/env python3
"""What kernel models lose where a profile has no shapes (torch.profiler without record_shapes, its default), and where a CUDA
graph launches its kernels, so that no calls are around them: recordings that have them, with them taken out, as Markdown tables.

  scripts/shapeless_study.py [--foretrace build/release/foretrace] [--data FOLDER] [--ungathered]

A row a recording: the error of its kernels by time (GMAE, per cent; `validate --durations model`) with shapes,
without, and with the kernels of each step in one graph; then the former two by operator over all recordings. Copies within the device
are one operator, whether a call with shapes says so or they stand alone; casts are copies with shapes, element-wise without. Recordings
are this project's own (traces/captured) and, of the folder of public data, traces/h100. With --ungathered instead only those that gather weights (FSDP2),
without shapes, as recorded and with that taken out: copies within the device and the casts right before them.
"""
import argparse
import bisect
import collections
import gzip
import json
import os
import pathlib
import subprocess
import tarfile
import tempfile

from accuracy_rows import table

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHAPES = ("Input Dims", "Input dims", "Input type", "Input Strides", "Concrete Inputs")
CALIBRATION = "h100-sxm5-nvswitch"
LEAST = 0.01
RECORDINGS = ("Recording", "With shapes, %", "Without, %", "In graphs, %")
OPERATORS = ("Operator", "Time %", "With shapes, %", "Without, %")
UNGATHERED = ("Recording", "Without shapes, %", "Nothing gathered, %")


def recordings(data):
    """(name, document) of each profile."""
    for archive in sorted((ROOT / "traces" / "captured" / "h100-sxm5").glob("*.tar.xz")):
        with tarfile.open(archive) as tar:
            for member in tar.getmembers():
                if pathlib.Path(member.name).name.startswith("kineto."):
                    yield member.name.split("/")[0], json.loads(tar.extractfile(member).read())
    if data:
        for file in sorted(pathlib.Path(data, "traces", "h100").glob("*.json.gz")):
            yield file.name.removesuffix(".json.gz"), json.loads(gzip.decompress(file.read_bytes()))


def without_shapes(document):
    for event in document["traceEvents"]:
        for key in SHAPES:
            if isinstance(event.get("args"), dict):
                event["args"].pop(key, None)


def in_graphs(document):
    """The document with the kernels of each step launched by one graph; calls and copies are left out."""
    events = document["traceEvents"]
    kernels = [e for e in events if e.get("cat") in ("kernel", "gpu_memset")]
    launches = {e["args"]["correlation"]: e for e in events
                if e.get("cat") in ("cuda_runtime", "cuda_driver") and "correlation" in e.get("args", {})}
    steps = sorted(e["ts"] for e in events if e.get("name", "").startswith("ProfilerStep") and e.get("cat") == "user_annotation")
    by_step = collections.defaultdict(list)
    for kernel in kernels:
        launch = launches.get(kernel["args"].get("correlation"))
        if launch:
            by_step[bisect.bisect_right(steps, launch["ts"])].append((launch, kernel))
    left_out = ("cpu_op", "cuda_runtime", "cuda_driver", "kernel", "gpu_memset", "gpu_memcpy", "ac2g", "fwdbwd", "python_function")
    kept = [e for e in events if e.get("cat") not in left_out]
    for graph, launched in enumerate(by_step.values(), start=1 + max(launches)):
        first = min((launch for launch, _ in launched), key=lambda launch: launch["ts"])
        kept.append({**first, "name": "cudaGraphLaunch", "args": {"correlation": graph}})
        for _, kernel in launched:
            args = {key: value for key, value in kernel["args"].items() if key != "External id"}
            kept.append({**kernel, "args": {**args, "correlation": graph}})
    return {**document, "traceEvents": kept}


def ungathered(document):
    """The document without what gathers weights; None: nothing does."""
    device = sorted((e for e in document["traceEvents"] if e.get("cat") in ("kernel", "gpu_memcpy")), key=lambda e: e["ts"])
    gathers = set()
    for before, event in zip([{"name": ""}, *device], device):
        if "DtoD" in event["name"]:
            gathers |= {id(event)} | ({id(before)} if "float16_copy_kernel" in before["name"] else set())
        elif "chunk_cat_cuda_kernel" in event["name"]:
            gathers.add(id(event))
    if not any(id(e) in gathers and "chunk_cat" in e["name"] for e in device):
        return None
    return {**document, "traceEvents": [e for e in document["traceEvents"] if id(e) not in gathers]}


def study_of_gathering(foretrace, data):
    """[(recording, without shapes, with nothing gathered)], in per cent."""
    rows = []
    for name, document in recordings(data):
        without_shapes(document)
        if other := ungathered(document):
            rows.append((name, *(f"{total(durations(foretrace, d)):.1f}" for d in (document, other))))
    return rows


def durations(foretrace, document):
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "kineto.0.json").write_text(json.dumps(document))
        done = subprocess.run([foretrace, "validate", "--trace", folder, "--allow-missing-ranks", "--durations", "model",
                               "--calibration", CALIBRATION, "--json"], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)["durations"]


def total(operators):
    share = sum(o["share"] for o in operators)
    return sum(o["share"] * o["time_gmae_percent"] for o in operators) / share


def study(foretrace, data):
    """([(recording, with shapes, without, in graphs)], [(operator, share of time, with shapes, without)]), in per cent."""
    rows = []
    shares = {True: collections.Counter(), False: collections.Counter()}
    errors = {True: collections.Counter(), False: collections.Counter()}
    for name, document in recordings(data):
        found = {}
        for shaped in (True, False):
            if not shaped:
                without_shapes(document)
            found[shaped] = durations(foretrace, document)
            for o in found[shaped]:
                operator = "copy" if o["operator"] == "memcpy dtod" else o["operator"]
                shares[shaped][operator] += o["share"]
                errors[shaped][operator] += o["share"] * o["time_gmae_percent"]
        graphs = durations(foretrace, in_graphs(document))
        rows.append((name, *(f"{total(operators):.1f}" for operators in (found[True], found[False], graphs))))

    def mean(shaped, operator):
        share = shares[shaped][operator]
        return f"{errors[shaped][operator] / share:.1f}" if share else "-"

    return rows, [(operator, f"{100 * share / len(rows):.1f}", mean(True, operator), mean(False, operator))
                  for operator, share in shares[False].most_common() if share >= LEAST * len(rows)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--foretrace", default=str(ROOT / "build" / "release" / "foretrace"))
    parser.add_argument("--data", default=os.environ.get("FORETRACE_REALDATA"))
    parser.add_argument("--ungathered", action="store_true")
    options = parser.parse_args()
    if options.ungathered:
        print(table(UNGATHERED, study_of_gathering(options.foretrace, options.data)))
        return
    by_recording, by_operator = study(options.foretrace, options.data)
    print(table(RECORDINGS, by_recording))
    print()
    print(table(OPERATORS, by_operator))


if __name__ == "__main__":
    main()
