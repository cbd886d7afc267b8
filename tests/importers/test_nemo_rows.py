"""scripts/import_nemo_rows.py: what stands above tables, two figures in a cell, both kinds of page."""
import csv
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BRIDGE = """# Performance

## 26.04 NeMo Container

### LoRA Performance

#### Model: LLAMA3_70B

| System | #-GPUs | Precision | GBS | MBS | Sequence Length | FSDP | TP | PP | CP | VP | EP | Tokens / sec / GPU | Model TFLOP / sec / GPU |
|--------|--------|-----------|-----|-----|-----|-----|----|----|----|----|----|----|----|
| DGX-GB200 | 64 | FP8 | 256 | 2 | 8192 | 64 | 1 | 1 | 1 | n/a | n/a | 4,224 | 1892[^note] |
| DGX-H100 | 64 | FP8 | 256 | 1 | 8192 | 0 | 4 | 8 | 1 | 5 | n/a | 1664 | 731 |

## 25.09 NeMo Container

### Pre-Training Performance

#### System: DGX-B200

| Model | #-GPUs | GBS | MBS | Sequence Length | FSDP | TP | PP | CP | VP | EP | GA | Tokens / sec / GPU | Model TFLOP / sec / GPU |
|-----|-----|-----|-----|-----|-----|-----|-----|-----|-----|-----|-----|-----|-----|
| DeepSeekV3 (w/o MTP) | 256 | 2048 | 1 | 4096 | 0 | 1 | 4 (8) | 1 | 4 (2) | 64 | 32 (64) | 3454 (2835) | 899 (738) |
"""
AUTOMODEL = """### System: DGX-H100, Precision: BF16

| Model | #GPUs | GBS | MBS | Seq Length | TP | PP | CP | EP | VP | FSDP | Kernel Optimizations | Time per Global Step (s) | Tokens/sec/GPU |
|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|---:|---:|
| Nemotron V3 Nano 30B (26.02) | 8 | 512 | 4 | 4096 | 1 | 1 | 1 | 8 | - | 8 | TE + DeepEP | 15.614 | 16,789 |
"""


class NemoRows(unittest.TestCase):
    def run_import(self, text, name="performance-summary.md"):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, name).write_text(text, encoding="utf-8")
            done = subprocess.run([sys.executable, str(ROOT / "scripts/import_nemo_rows.py"), folder, "-o",
                                   f"{folder}/out"], capture_output=True, text=True, check=False)
            made = pathlib.Path(folder, "out", "nemo-training-rows.csv")
            return done, list(csv.DictReader(made.open(encoding="utf-8"))) if made.is_file() else []

    def test_megatron_bridge(self):
        done, rows = self.run_import(BRIDGE)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([(r["model"], r["gpu"], r["precision"], r["sharding"], r["date"], r["note"]) for r in rows[:2]],
                         [("llama3-70b", "GB200", "FP8-CS", "FSDP", "v26.04", "LoRA"),
                          ("llama3-70b", "H100", "FP8", "", "v26.04", "LoRA")])
        self.assertEqual([r["tokens_per_s_per_gpu"] for r in rows], ["4224", "1664", "3454", "2835"])
        self.assertEqual([(r["vp"], r["ep"], r["gpus_per_node"]) for r in rows[:2]], [("", "", ""), ("5", "", "8")])

    def test_two_figures_are_two_rows(self):
        rows = self.run_import(BRIDGE)[1][2:]
        self.assertEqual([(r["model"], r["precision"], r["pp"], r["vp"], r["note"]) for r in rows],
                         [("deepseek-v3", "FP8-CS", "4", "4", ""), ("deepseek-v3", "MXFP8", "8", "2", "")])

    def test_automodel(self):
        done, rows = self.run_import(AUTOMODEL, "performance-summary.mdx")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((rows[0]["model"], rows[0]["date"], rows[0]["step_s"], rows[0]["tokens_per_s_per_gpu"]),
                         ("nemotron-3-nano-30b-a3b", "v26.02", "15.614", ""))
        self.assertEqual((rows[0]["framework"], rows[0]["vp"], rows[0]["precision"]), ("NeMo AutoModel", "", "BF16"))

    def test_nothing_to_import(self):
        done, _ = self.run_import("# A page without tables\n")
        self.assertEqual(done.returncode, 2)
        self.assertIn("has no table of performance", done.stderr)


if __name__ == "__main__":
    unittest.main()
