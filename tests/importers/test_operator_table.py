"""scripts/operator_table_study.py: the profile that it makes of a table, and how it adds errors up."""
import csv
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import operator_table_study as study  # noqa: E402 (a script, beside others)

COLUMNS = ["name", "Input Dims", "Input type", "Input Strides", "Concrete Inputs", "operation_count",
           "kernel_details_summary"]
TRANSPOSED = ["aten::copy_", "((3000, 2000), (3000, 2000), ())", "('float', 'float', 'Scalar')",
              "((2000, 1), (1, 3000), ())", "('', '', 'False')", "10",
              "[{'name': 'elementwise_kernel', 'count': 10, 'mean_duration_us': np.float64(50.5)}]"]
IN_TWO = ["aten::addmm", "((8,), (16, 4), (4, 8))", "('float', 'float', 'float')", "", "", "3",
          "[{'name': 'Memset (Device)', 'count': 3, 'mean_duration_us': np.float64(1.0)},"
          " {'name': 'gemm', 'count': 6, 'mean_duration_us': np.float64(4.0)}]"]
COPY = ["aten::copy_", "((3,), (3,))", "('float', 'float')", "", "", "1",
        "[{'name': 'Memcpy DtoH (Device -> Pageable)', 'count': 1, 'mean_duration_us': np.float64(9.0)}]"]
HOST = ["aten::view", "((3,),)", "('float',)", "", "", "5", "[]"]


class OperatorTable(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = pathlib.Path(folder.name) / "job" / study.TABLE
        path.parent.mkdir()
        with open(path, "w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([COLUMNS, TRANSPOSED, IN_TWO, COPY, HOST])
        self.calls = study.calls_of(study.read_table(pathlib.Path(folder.name)))

    def test_a_call_has_its_arguments_and_its_kernels(self):
        # What ran on the host alone, and a copy of unknown bytes, are left out.
        self.assertEqual([row["name"] for row, _ in self.calls], ["aten::copy_", "aten::addmm"])
        events = study.profile(self.calls, "NVIDIA H100 80GB HBM3")["traceEvents"]
        call = next(e for e in events if e["name"] == "aten::copy_")
        self.assertEqual(call["args"]["Input Strides"], [[2000, 1], [1, 3000], []])
        self.assertEqual(call["args"]["Concrete Inputs"], ["", "", "False"])
        # A call of addmm launches one memset and two GEMMs, within its time, one after the other on the device.
        addmm = next(e for e in events if e["name"] == "aten::addmm")
        launches = [e for e in events if e.get("cat") == "cuda_runtime" and e["args"]["External id"] == 2]
        self.assertEqual([e["name"] for e in launches], ["cudaMemsetAsync", "cudaLaunchKernel", "cudaLaunchKernel"])
        self.assertTrue(all(addmm["ts"] < e["ts"] < addmm["ts"] + addmm["dur"] for e in launches))
        device = [e for e in events if e.get("pid") == 0]
        self.assertEqual([e["dur"] for e in device], [50.5, 1.0, 4.0, 4.0])
        self.assertTrue(all(a["ts"] + a["dur"] < b["ts"] for a, b in zip(device, device[1:])))
        self.assertEqual(len({e["args"]["correlation"] for e in device}), 4)

    def test_errors_count_as_often_as_calls_ran(self):
        rows = [{"operator": "gemm", "call": "aten::addmm", "recorded_us": "9.0", "modelled_us": "12.0"},
                {"operator": "transpose", "call": "aten::copy_", "recorded_us": "50.5", "modelled_us": "40.4"}]
        matched = study.weighted(self.calls, rows)
        self.assertEqual([count for count, _ in matched], [3, 10])
        # 27 of 532 us, a third too much; 505, a fifth too little: 9 + 101 of 532.
        self.assertEqual(list(study.summary(matched)),
                         [["all", "13", "100.0", "20.7", "-17.3"], ["transpose", "10", "94.9", "20.0", "-20.0"],
                          ["gemm", "3", "5.1", "33.3", "+33.3"]])


if __name__ == "__main__":
    unittest.main()
