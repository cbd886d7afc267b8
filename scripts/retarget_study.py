#!/usr/bin/env python3
"""How well predict --on carries recordings from one GPU to another.

NeuSight (MIT) timed every operator of the forward pass of the same models on several GPUs, in float32.
For each ordered pair of GPUs this writes what the one took as a recording, asks foretrace for it on the
other, and compares the device time with what that one took:

  scripts/retarget_study.py $FORETRACE_REALDATA

Operators that do no work on the device (size, view, getitem) are left out; the time of each other one
is that of one kernel. Times include NeuSight's measurement floor of about 9 us an operator.
"""
import argparse
import ast
import collections
import csv
import io
import json
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
NO_WORK = {"size", "view", "getitem", "getattr", "placeholder", "output", "permute", "transpose", "split",
           "arange", "dim", "to", "expand", "unsqueeze", "masked_bias", "reshape", "finfo", "full", "get_attr"}
ELEMENTWISE = {"add": "aten::add", "mul": "aten::mul", "truediv": "aten::div", "div": "aten::div", "pow": "aten::pow",
               "tanh": "aten::tanh", "gelu": "aten::gelu", "relu": "aten::relu", "where": "aten::where", "sub": "aten::sub",
               "dropout": "aten::dropout", "contiguous": "aten::clone", "rsub": "aten::sub"}


def operator(row):
    """(framework call, shapes of its inputs); None for what does no device work or is not known."""
    target, op = row["target"], row["op"]
    shapes = ast.literal_eval(row["input_shapes"])
    output = list(ast.literal_eval(row["output_shape"])) if row["output_shape"] else []
    name = target.split(".")[-1]
    if op == "call_function":
        # <built-in method matmul of type ...>, <function softmax at 0x...>, <class 'torch.nn.Linear'>
        name = re.match(r"<?(?:built-in )?(?:method |function |class )?'?([\w.]+)", target).group(1).split(".")[-1]
    if op in NO_WORK or name in NO_WORK or not shapes:
        return None
    if op == "call_module":
        if name == "layernorm" or name.startswith("ln_") or "norm" in name.lower():
            return "aten::native_layer_norm", [shapes[0], shapes[0][-1:], shapes[0][-1:]]
        if "embed" in name or name in ("wte", "wpe"):
            return "aten::embedding", [[30522, output[-1]], shapes[0]]
        if "drop" in name:  # of inference: its input
            return None
        if "act" in name or "gelu" in name:
            return "aten::gelu", [shapes[0]]
        return "aten::linear", [shapes[0], [output[-1], shapes[0][-1]], [output[-1]]]
    if name == "addmm":
        return "aten::addmm", shapes
    if name in ("matmul", "bmm", "baddbmm"):
        a, b = shapes[-2], shapes[-1]
        rows = 1
        for size in a[:-2]:
            rows *= size
        return "aten::bmm", [[rows, *a[-2:]], [rows, *b[-2:]]]
    if name == "softmax":
        return "aten::_softmax", [shapes[0]]
    if name in ELEMENTWISE:
        return ELEMENTWISE[name], [s for s in shapes if s]
    return None


def recording(table, device):
    """(Kineto trace, device time in us)."""
    events, at, device_us = [], 0.0, 0.0
    for number, row in enumerate(csv.DictReader(io.StringIO(table)), 1):
        us = float(row["fw_latency"]) * 1e3
        known = operator(row)
        if known is None:
            continue
        call, shapes = known
        floats = "float" if row["dtype"] == "torch.float32" else "long int"
        common = {"ph": "X", "pid": 1, "tid": 1}
        events.append({**common, "cat": "cpu_op", "name": call, "ts": at, "dur": us + 8, "args": {
            "External id": number, "Input Dims": shapes, "Input type": [floats] * len(shapes)}})
        events.append({**common, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": at + 1, "dur": 2,
                       "args": {"External id": number, "correlation": number}})
        events.append({"ph": "X", "pid": 0, "tid": 7, "cat": "kernel", "name": "kernel_of_" + call.split("::")[1],
                       "ts": at + 6, "dur": us,
                       "args": {"External id": number, "correlation": number, "device": 0, "stream": 7}})
        at += us + 10
        device_us += us
    return {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": device}], "traceEvents": events}, device_us


def platform(folder, accelerator):
    path = folder / f"{accelerator.replace(' ', '-')}.platform.yaml"
    path.write_text(f"name: study\nlinks: {{none: {{class: pcie, bandwidth_GBps: 1, latency_us: 1, source: none}}}}\n"
                    f"node: {{devices: 1, accelerator: '{accelerator}'}}\n")
    return path


def predictions(foretrace, data):
    """(model, source, target, us measured on the target, us predicted for it) of every pair."""
    tables = collections.defaultdict(dict)  # model: device: text
    with tarfile.open(data / "neusight/labels_summary_configs.tar.xz") as tar:
        for member in tar:
            parts = pathlib.PurePosixPath(member.name).parts
            if "label" in parts and member.name.endswith(".csv") and "fusion" not in parts[-1]:
                tables[parts[-1]][parts[-2].replace("_", " ")] = tar.extractfile(member).read().decode()
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        path = folder / "recording.json"
        for model, by_device in sorted(tables.items()):
            for source in sorted(by_device):
                path.write_text(json.dumps(recording(by_device[source], source)[0]))
                for target in sorted(by_device):
                    done = subprocess.run([foretrace, "predict", path, "--on", platform(folder, target), "--json"],
                                          capture_output=True, text=True, check=False)
                    if done.returncode != 0:
                        sys.exit(f"retarget_study: error: {model}, {source} on {target}: {done.stderr.strip()}")
                    yield (model, source, target, recording(by_device[target], target)[1],
                           json.loads(done.stdout)["baseline_us"])


def study(foretrace, data):
    """({(source, target): errors in percent}, the devices in order)."""
    errors = collections.defaultdict(list)
    for _, source, target, measured, predicted in predictions(foretrace, data):
        errors[source, target].append(100 * (predicted / measured - 1))
    return errors, sorted({source for source, _ in errors})


def study_table(foretrace, data):
    """(header, rows): mean absolute error, with its mean in brackets, by both devices."""
    errors, devices = study(foretrace, data)
    rows = []
    for source in devices:
        cells = [source]
        for target in devices:
            of = errors.get((source, target))
            cells.append("-" if not of else
                         f"{sum(map(abs, of)) / len(of):.1f} ({sum(of) / len(of):+.1f})".replace("-0.0", "+0.0"))
        rows.append(cells)
    apart = sorted(abs(e) for (source, target), of in errors.items() if source != target for e in of)
    rows.append([f"two devices: {len(apart)} predictions, mean {sum(apart) / len(apart):.1f}, "
                 f"median {apart[len(apart) // 2]:.1f}"] + [""] * len(devices))
    return ["recorded on", *(f"on {device}" for device in devices)], rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=pathlib.Path, help="the folder of public data")
    parser.add_argument("--foretrace", default=ROOT / "build/release/foretrace")
    parser.add_argument("--details", action="store_true", help="a line for each prediction instead of the table")
    options = parser.parse_args()
    if options.details:
        for model, source, target, measured, predicted in predictions(options.foretrace, options.data):
            print(f"{model:32} {source:22} {target:22} {measured:10.0f} {predicted:10.0f} "
                  f"{100 * (predicted / measured - 1):+7.1f} %")
        return
    header, rows = study_table(options.foretrace, options.data)
    for cells in [header, ["-" * 3] * len(header), *rows]:
        print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
