"""How scripts/function_study.py and scripts/shapeless_study.py rewrite recordings."""
import copy
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import function_study  # noqa: E402 (scripts, beside others)
import shapeless_study  # noqa: E402


def op(name, at, end, dims, thread=1):
    return {"ph": "X", "cat": "cpu_op", "name": name, "tid": thread, "ts": at, "dur": end - at,
            "args": {"Input Dims": dims, "Input type": ["float" if d else "Scalar" for d in dims], "Concrete Inputs": []}}


def launch(correlation, at, thread=1):
    return {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "tid": thread, "ts": at, "dur": 1,
            "args": {"correlation": correlation, "External id": 1}}


def kernel(correlation, at):
    return {"ph": "X", "cat": "kernel", "name": f"gemm{correlation}", "ts": at, "dur": 5,
            "args": {"correlation": correlation, "External id": 1, "grid": [1, 1, 1]}}


RECORDING = {"traceEvents": [
    {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#0", "ts": 0, "dur": 100},
    {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "ts": 100, "dur": 100},
    op("aten::linear", 10, 20, [[8, 2, 64], [256, 64], [256]]), op("aten::addmm", 12, 18, [[256], [16, 64], [64, 256]]),
    launch(1, 13), kernel(1, 30),
    op("AddmmBackward0", 40, 60, [[16, 256]], 2), op("aten::mm", 42, 48, [[16, 256], [256, 64]], 2),
    launch(2, 43, 2), kernel(2, 50), op("aten::mm", 50, 58, [[256, 16], [16, 64]], 2), launch(3, 51, 2), kernel(3, 60),
    launch(4, 110), kernel(4, 120)]}


def named(document, name):
    return [e for e in document["traceEvents"] if e["name"] == name]


class RecordingStudies(unittest.TestCase):
    def test_layers_of_transformer_engine_have_no_operators_within(self):
        changed = function_study.with_functions(RECORDING, megatron=False)
        self.assertEqual(named(changed, "_Linear")[0]["args"]["Input Dims"], [[256, 64], [8, 2, 64], [256]])
        self.assertEqual(named(changed, "_LinearBackward")[0]["args"]["Input Dims"], [[16, 256]])
        self.assertEqual(named(changed, "aten::addmm") + named(changed, "aten::mm"), [])
        self.assertEqual([e["dur"] for e in changed["traceEvents"] if e["cat"] == "kernel"], [5] * 4)

    def test_of_megatron_the_weights_gradient_is_none(self):
        before = copy.deepcopy(RECORDING)
        changed = function_study.with_functions(RECORDING, megatron=True)
        layer = function_study.MEGATRON
        self.assertEqual(named(changed, layer)[0]["args"]["Input Dims"], [[8, 2, 64], [256, 64], []])
        self.assertEqual(len(named(changed, "aten::addmm")), 1)
        self.assertEqual(len(named(changed, layer + "Backward")), 1)
        self.assertEqual([e["ts"] for e in named(changed, "aten::mm")], [42])
        self.assertEqual(RECORDING, before)

    def test_kernels_of_a_step_are_one_graphs(self):
        changed = shapeless_study.in_graphs(RECORDING)
        graphs = named(changed, "cudaGraphLaunch")
        self.assertEqual([e["ts"] for e in graphs], [13, 110])
        of = [e["args"]["correlation"] for e in changed["traceEvents"] if e["cat"] == "kernel"]
        first, second = (e["args"]["correlation"] for e in graphs)
        self.assertEqual(of, [first] * 3 + [second])
        self.assertFalse({first, second} & {1, 2, 3, 4})
        self.assertFalse([e for e in changed["traceEvents"] if e["cat"] in ("cpu_op", "ac2g")])


if __name__ == "__main__":
    unittest.main()
