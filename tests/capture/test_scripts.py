"""The capture scripts on the CPU at tiny sizes, gloo between two processes."""
import gzip
import json
import os
import tempfile
import unittest

from support_path import NO_TORCH, TORCH_PYTHON, run, run_alone
from support import table

QUICK = ("--device", "cpu", "--tiny", "--repeats", "2", "--warmup", "1")


class FolderTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def succeed(self, script, *arguments):
        code, errors = run(script, *arguments)
        self.assertEqual(code, 0, errors)
        return errors


@unittest.skipUnless(TORCH_PYTHON, NO_TORCH)
class KernelsTest(FolderTest):
    def test_every_operator_has_valid_rows_and_a_second_run_adds_none(self):
        self.succeed("bench_kernels.py", *QUICK, "--output", self.path("k.csv"))
        provenance, rows = table.read_table(self.path("k.csv"))
        self.assertEqual(provenance["platform"], "cpu")
        self.assertIn("bench_kernels.py", provenance["command"])
        missing = {"linear", "bmm", "conv2d", "attention", "layer_norm", "softmax", "batch_norm",
                   "dropout", "elementwise", "reduction", "concat", "transpose", "index", "tril",
                   "memcpy", "optimizer"} - {r["op"] for r in rows}
        self.assertFalse(missing)
        self.assertEqual({r["phase"] for r in rows}, set(table.PHASES))
        errors = self.succeed("bench_kernels.py", *QUICK, "--output", self.path("k.csv"))
        self.assertIn("0 rows added to %d" % len(rows), errors)

    def test_a_limit_is_taken_up_where_it_ended(self):
        only = ("--ops", "linear", "--output", self.path("k.csv"))
        self.succeed("bench_kernels.py", *QUICK, *only, "--limit", 5)
        self.assertEqual(len(table.read_table(self.path("k.csv"))[1]), 5)
        self.succeed("bench_kernels.py", *QUICK, *only)
        rows = table.read_table(self.path("k.csv"))[1]
        self.assertEqual(len(rows), 12)  # 3 shapes, 2 precisions, 2 phases
        self.assertEqual(len({table.row_key(r) for r in rows}), 12)

    def test_a_spent_budget_ends_the_run_in_good_order(self):
        errors = self.succeed("bench_kernels.py", *QUICK, "--output", self.path("k.csv"),
                              "--budget-seconds", "0.000001")
        self.assertIn("left for want of time", errors)
        self.assertEqual(table.read_table(self.path("k.csv"))[1], [])


@unittest.skipUnless(TORCH_PYTHON, NO_TORCH)
class EmbeddingTest(FolderTest):
    def test_rows_are_valid_and_resume(self):
        self.succeed("bench_embedding.py", *QUICK, "--points", 3, "--output", self.path("e.csv"))
        before = table.read_table(self.path("e.csv"))[1]
        self.succeed("bench_embedding.py", *QUICK, "--points", 6, "--output", self.path("e.csv"))
        rows = table.read_table(self.path("e.csv"))[1]
        self.assertEqual(rows[:len(before)], before)
        self.assertGreater(len(rows), len(before))
        self.assertEqual({r["source"].split("point=")[1].split(";")[0] for r in rows},
                         {"0", "1", "2", "3", "4", "5"})
        for r in rows:
            factors = [float(v) for v in table.parse_shape("embedding", r["shape"])["rf"].split("|")]
            self.assertEqual(len(factors), 17)
            self.assertEqual(factors[0], 0.0)
            self.assertAlmostEqual(sum(factors), 1.0, delta=1e-4)

    def test_indices(self):
        self.succeed("../../tests/capture/indices_check.py")


@unittest.skipUnless(TORCH_PYTHON, NO_TORCH)
class CollectivesTest(FolderTest):
    def test_two_processes_and_resuming(self):
        only = QUICK + ("--ranks", "2", "--ops", "all_reduce,all_to_all", "--output", self.path("c.csv"))
        self.succeed("bench_collectives.py", *only)
        rows = table.read_table(self.path("c.csv"))[1]
        self.assertEqual({r["op"] for r in rows}, {"all_reduce", "all_to_all"})
        for r in rows:
            shape = table.parse_shape(r["op"], r["shape"])
            self.assertEqual((shape["ranks"], shape["nodes"], shape["placement"]), ("2", "1", "node"))
        errors = self.succeed("bench_collectives.py", *only)
        self.assertIn("0 rows added to %d" % len(rows), errors)

    def test_one_process_is_refused(self):
        code, errors = run("bench_collectives.py", *QUICK, "--output", self.path("c.csv"))
        self.assertEqual(code, 2)
        self.assertIn("two ranks or more", errors)


@unittest.skipUnless(TORCH_PYTHON, NO_TORCH)
class CaptureTest(FolderTest):
    def capture(self, *arguments):
        self.succeed("capture_trace.py", "--device", "cpu", "--tiny", "--steps", 3, "--warmup", 2,
                     "--profiler-warmup", 1, "--output", self.path("t"), *arguments)
        with open(self.path("t/manifest.json"), encoding="utf-8") as file:
            return json.load(file)

    def kineto(self, rank):
        with gzip.open(self.path("t/kineto.%d.json.gz" % rank), "rt", encoding="utf-8") as file:
            return json.load(file)

    def test_two_ranks_of_dlrm(self):
        manifest = self.capture("--ranks", 2)
        self.assertEqual(sorted(os.listdir(self.path("t"))),
                         ["et.0.json", "et.1.json", "kineto.0.json.gz", "kineto.1.json.gz",
                          "manifest.json"])
        self.assertEqual((manifest["ranks"], manifest["backend"]), (2, "gloo"))
        self.assertGreater(manifest["iteration_us"]["profiler_off"], 0)
        for rank in (0, 1):
            trace = self.kineto(rank)
            self.assertEqual(trace["distributedInfo"]["rank"], rank)
            names = [e["name"] for e in trace["traceEvents"]]
            self.assertEqual(sorted(n for n in names if n.startswith("ProfilerStep#")),
                             ["ProfilerStep#2", "ProfilerStep#3", "ProfilerStep#4"])
            self.assertEqual(names.count("gloo:all_to_all"), 6)  # forward and backward of 3 steps
            with open(self.path("t/et.%d.json" % rank), encoding="utf-8") as file:
                nodes = json.load(file)["nodes"]
            known = {e["args"].get("Record function id") for e in trace["traceEvents"]} - {None}
            self.assertGreater(len(known), 0.9 * len(nodes))

    def test_every_workload_runs(self):
        for number, workload in enumerate(("gpt2-small", "bert-base", "resnet50")):
            with self.subTest(workload):
                self.succeed("capture_trace.py", "--device", "cpu", "--tiny", "--steps", 1, "--warmup", 1,
                             "--profiler-warmup", 1, "--workload", workload,
                             "--output", self.path(str(number)))

    def test_a_folder_in_use_is_refused(self):
        with open(self.path("x"), "w", encoding="utf-8"):
            pass
        code, errors = run("capture_trace.py", "--device", "cpu", "--tiny", "--output", self.folder)
        self.assertEqual(code, 2)
        self.assertIn("is not empty", errors)

    def test_bad_switches_are_refused(self):
        for switch in (("--indices", "zipf-x"), ("--precision", "fp16"), ("--batch", "-1")):
            code, errors = run("capture_trace.py", "--device", "cpu", "--tiny", "--output", self.path("t"),
                               *switch)
            self.assertEqual(code, 2, switch)
            self.assertRegex(errors, r"^capture_trace.py: error: .*\n$")


class RefusalTest(FolderTest):
    @unittest.skipUnless(TORCH_PYTHON, NO_TORCH)
    def test_without_a_gpu_one_line_and_exit_code_2(self):
        hidden = {"CUDA_VISIBLE_DEVICES": ""}
        for script in ("bench_kernels.py", "bench_embedding.py", "bench_overheads.py", "capture_trace.py"):
            code, errors = run(script, "--output", self.path("o"), env=hidden)
            self.assertEqual(code, 2, script)
            self.assertRegex(errors, r"^%s: error: no CUDA device is available .*\n$" % script)
        code, errors = run("bench_collectives.py", "--ranks", 2, "--output", self.path("o"), env=hidden)
        self.assertEqual(code, 2)
        self.assertIn("no CUDA device", errors)
        code, errors = run("bench_overheads.py", "--device", "cpu", "--output", self.path("o"))
        self.assertEqual(code, 2)
        self.assertIn("exist only on a GPU", errors)

    def test_without_pytorch_one_line_and_exit_code_2(self):
        with open(self.path("torch.py"), "w", encoding="utf-8") as file:
            file.write("raise ImportError('hidden by a test')\n")
        for script in ("bench_kernels.py", "bench_embedding.py", "bench_overheads.py",
                       "bench_collectives.py", "capture_trace.py"):
            code, errors = run_alone(script, "--output", self.path("o"), "--device",
                                     "cuda" if script == "bench_overheads.py" else "cpu",
                                     *(("--ranks", 2) if script == "bench_collectives.py" else ()),
                                     env={"PYTHONPATH": self.folder})
            self.assertEqual(code, 2, script + errors)
            self.assertRegex(errors, r"^%s: error: PyTorch cannot be imported .*\n$" % script)


class PackTest(FolderTest):
    def test_folders_are_bounded_and_never_split(self):
        for number, size in enumerate((3000, 3000, 3000, 90000, 3000)):
            os.makedirs(self.path("in/f%d" % number))
            for name, count in (("manifest.json", 10), ("kineto.0.json.gz", size)):
                with open(self.path("in/f%d/%s" % (number, name)), "wb") as file:
                    file.write(b"x" * count)
            os.utime(self.path("in/f%d/manifest.json" % number), (number, number))
        code, errors = run_alone("pack_traces.py", self.path("in"), self.folder, "--file-mb", "0.03")
        self.assertEqual(code, 1)
        self.assertIn("left out for size: f3", errors)
        import tarfile
        found = []
        for name in sorted(n for n in os.listdir(self.folder) if n.endswith(".tar")):
            self.assertLessEqual(os.path.getsize(self.path(name)), 30000)
            with tarfile.open(self.path(name)) as tar:
                found += [m.name for m in tar.getmembers() if m.name.endswith("manifest.json")]
        self.assertEqual(sorted(found), ["captured/f%d/manifest.json" % n for n in (0, 1, 2, 4)])


if __name__ == "__main__":
    unittest.main()
