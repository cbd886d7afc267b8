"""scripts/import_simumax_rows.py: the source's columns, what all runs had in common, and no predictions."""
import csv
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADER = ("case,model,gpus,gpu,tp,pp,micro_batch_size,step_ms,precision,max_allocated_GiB,simumax_step_ms\n")


class SimumaxRows(unittest.TestCase):
    def run_import(self, text):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "b200_dense_cases.csv").write_text(text, encoding="utf-8")
            done = subprocess.run([sys.executable, str(ROOT / "scripts/import_simumax_rows.py"), folder, "-o",
                                   f"{folder}/out"], capture_output=True, text=True, check=False)
            made = pathlib.Path(folder, "out", "simumax-b200-training-rows.csv")
            return done, list(csv.DictReader(made.open(encoding="utf-8"))) if made.is_file() else []

    def test_rows(self):
        done, rows = self.run_import(HEADER + "a_cef,llama3-8b,8,B200,2,1,1,843.5,bf16,66.5,850\n")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(rows), 1)
        self.assertEqual((rows[0]["step_ms"], rows[0]["max_allocated_GiB"]), ("843.5", "66.5"))
        self.assertEqual((rows[0]["sharding"], rows[0]["overlap"]), ("distributed optimizer", "none"))
        self.assertNotIn("simumax_step_ms", rows[0])

    def test_what_rows_say_themselves_stands(self):
        header = HEADER.replace("simumax_step_ms", "recompute,cp,dense_layers,simumax_step_ms")
        done, rows = self.run_import(header + "a,llama3-8b,8,B200,2,1,1,843.5,bf16,66.5,full_block,2,,850\n"
                                     "b,deepseekv3,8,B200,1,1,1,843.5,bf16,66.5,,1,,850\n"
                                     "c,deepseekv3,8,B200,1,1,1,843.5,bf16,66.5,,1,3,850\n")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([row["recompute"] for row in rows], ["full_block", "none", "none"])
        self.assertEqual([row["dense_layers"] for row in rows], ["", "1", "3"])
        self.assertEqual([row["cp_comm_type"] for row in rows], ["a2a"] * 3)

    def test_nothing_to_import(self):
        for text, words in ((HEADER, "has a header and no rows"), (HEADER.replace("step_ms,", "", 1), "no column step_ms")):
            done, rows = self.run_import(text)
            self.assertEqual(done.returncode, 2)
            self.assertIn(words, done.stderr)
            self.assertEqual(rows, [])


if __name__ == "__main__":
    unittest.main()
