#!/usr/bin/env python3
"""What kernel models make of layers that are functions of an extension rather than operators of PyTorch: captured jobs
whose linear layers and attention are written as Transformer Engine's or Megatron's are recorded, as a Markdown table.

  scripts/function_study.py [--foretrace build/release/foretrace]

Of Transformer Engine's style forward calls are "_Linear" and "FusedAttnFunc", whose tensors are recorded but which have no operators
within, and backward ones "_LinearBackward" and "FusedAttnFuncBackward", which are given gradients alone. Of Megatron's
("LinearWithGradAccumulationAndAsyncCommunication") the gradient of the weights is no operator. Kernels and their times stay as
recorded. A row a recording: the error of its kernels by time (GMAE, per cent; `validate --durations model`) as recorded, then in
either style, and these without shapes.
"""
import argparse
import copy
import pathlib

import shapeless_study
from accuracy_rows import table

ROOT = pathlib.Path(__file__).resolve().parent.parent
JOBS = ("gpt2-small-b8-bf16", "gpt2-medium-b4-bf16", "gpt2-small-b2-fp32", "bert-base-b16-fp16", "bert-base-b64-bf16")
HEADER = ("Recording", "As recorded, %", "Transformer Engine, %", "Megatron, %", "Transformer Engine, no shapes, %",
          "Megatron, no shapes, %")
MATMULS = ("aten::addmm", "aten::mm")
MEGATRON = "LinearWithGradAccumulationAndAsyncCommunication"
EVALUATION = "autograd::engine::evaluate_function: "


class Recording:
    """A profile whose calls are renamed and taken out."""

    def __init__(self, document):
        self.document = document
        ops = [e for e in document["traceEvents"] if e.get("cat") == "cpu_op"]
        self.ops = sorted(ops, key=lambda e: (e["tid"], e["ts"], -e["dur"]))
        self.dropped = set()

    def within(self, at):
        """The calls within one."""
        outer = self.ops[at]
        for inner in self.ops[at + 1:]:
            if inner["tid"] != outer["tid"] or inner["ts"] >= outer["ts"] + outer["dur"]:
                return
            yield inner

    def drop(self, calls):
        self.dropped.update(id(call) for call in calls)

    def finished(self):
        events = [e for e in self.document["traceEvents"] if id(e) not in self.dropped]
        return {**self.document, "traceEvents": events}


def rename(call, name, tensors, dtype):
    call["name"] = name
    for key in shapeless_study.SHAPES:
        call["args"].pop(key, None)
    call["args"]["Input Dims"] = tensors
    call["args"]["Input type"] = [dtype if dims else "" for dims in tensors]


def dims(call):
    return call["args"]["Input Dims"]


def dtype(call):
    return next(t for t in call["args"]["Input type"] if t not in ("", "Scalar"))


def sequence_first(tensor):
    samples, heads, sequence, width = tensor
    return [sequence, samples, heads, width]


def as_layer(recording, call, inner, megatron):
    """aten::linear of an input, weights and perhaps a bias."""
    matmul = [c for c in inner if c["name"] in MATMULS]
    if any(c["name"] == "aten::linear" for c in inner) and not megatron:
        rename(call, "forward", [], "")  # only casts its arguments for the other
    elif matmul and megatron:
        rename(call, MEGATRON, [*dims(call)[:2], []], dtype(matmul[0]))
    elif matmul:
        rename(call, "_Linear", [dims(call)[1], dims(call)[0], *dims(call)[2:]], dtype(matmul[0]))
        recording.drop(c for c in inner if c["name"] in (*MATMULS, "aten::matmul", "aten::linear"))


def as_gradient(recording, call, inner, megatron):
    """autograd's node of a layer."""
    matmul = [c for c in inner if c["name"] == "aten::mm"]
    if matmul:
        rename(call, (MEGATRON if megatron else "_Linear") + "Backward", dims(call)[:1], dtype(matmul[0]))
        recording.drop(matmul[1:] if megatron else matmul)


def as_attention(recording, call, inner):
    query, key, value = (sequence_first(t) for t in dims(call)[:3])
    rename(call, "FusedAttnFunc", [[], [], query, key, value], dtype(call))
    recording.drop(c for c in inner if c["name"].startswith("aten::_"))


def as_attention_gradient(recording, call, inner):
    backward = [c for c in inner if "attention_backward" in c["name"]]
    if backward:
        samples, heads, sequence, width = dims(call)[0]
        rename(call, "FusedAttnFuncBackward", [[sequence, samples, heads * width]], dtype(backward[0]))
        recording.drop(backward)


def with_functions(document, megatron):
    """The recording with layers as functions; attention stays PyTorch's in Megatron's style."""
    recording = Recording(copy.deepcopy(document))
    for at, call in enumerate(recording.ops):
        name = call["name"]
        if id(call) in recording.dropped:
            continue
        if name == "aten::linear":
            as_layer(recording, call, list(recording.within(at)), megatron)
        elif name.startswith(("AddmmBackward", "MmBackward")):
            as_gradient(recording, call, list(recording.within(at)), megatron)
        elif name.startswith("aten::_scaled_dot_product") and "backward" not in name and not megatron:
            as_attention(recording, call, list(recording.within(at)))
        elif name.startswith("ScaledDotProduct") and not megatron:
            as_attention_gradient(recording, call, list(recording.within(at)))
        elif name.startswith(EVALUATION):
            call["name"] = "evaluate"
    return recording.finished()


def study(foretrace):
    """[(recording, errors in per cent as HEADER has them)]"""
    rows = []
    for name, document in shapeless_study.recordings(None):
        if name not in JOBS:
            continue
        variants = [document] + [with_functions(document, megatron) for megatron in (False, True)]
        errors = [shapeless_study.total(shapeless_study.durations(foretrace, v)) for v in variants]
        for variant in variants[1:]:
            shapeless_study.without_shapes(variant)
            errors.append(shapeless_study.total(shapeless_study.durations(foretrace, variant)))
        rows.append((name, *(f"{error:.1f}" for error in errors)))
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--foretrace", default=str(ROOT / "build" / "release" / "foretrace"))
    options = parser.parse_args()
    print(table(HEADER, study(options.foretrace)))


if __name__ == "__main__":
    main()
