"""What importers do not understand ends in one line that names file and row."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MERLIN = {"merlin_synthetic_models.csv": "model,mlp_sizes,numerical_features,interact_stride\nTiny,256 128,10,\n",
          "merlin_synthetic_tables.csv": "model,group,tables,rows_per_table,width,hotness_of_inputs\nTiny,0,1,1000,16,1\n",
          "merlin_synthetic_times.csv": "model,gpus,global_batch,alpha,iteration_ms\nTiny,1,65536,1.05,20\n"}
SIMUMAX = {"efficiency_matmul.csv": "machine,b,m,k,n,layout,accumulate,out_dtype,efficiency,peak_TFLOPS,derived_time_us\n"}


class Failures(unittest.TestCase):
    def failure(self, importer, files):
        """The last line of standard error."""
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder) / "source"
            source.mkdir()
            for name, text in files.items():
                (source / name).write_text(text, encoding="utf-8")
            done = subprocess.run([sys.executable, str(ROOT / f"scripts/import_{importer}.py"), str(source), "-o",
                                   f"{folder}/out"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertNotIn("Traceback", done.stderr)
        return done.stderr.strip().splitlines()[-1]

    def test_json_that_is_cut(self):
        csv = "data_size(MB),time(ms)\n1,0.1\n"
        for text in ("", '{"all_reduce_2gpus_4'):
            said = self.failure("aceso", {"prim_gpt_x_all_reduce_2gpus.csv": csv, "comm_profile_miniset.json": text})
            self.assertIn("comm_profile_miniset.json: ", said)
            self.assertIn("is the file whole", said)

    def test_columns_and_values_of_tasks(self):
        for name in MERLIN:
            header, row = MERLIN[name].splitlines()
            columns = header.split(",")
            without = {**MERLIN, name: ",".join(columns[1:]) + "\n" + ",".join(row.split(",")[1:]) + "\n"}
            self.assertIn(f"{name}: no column {columns[0]}", self.failure("merlin", without))
            cut = {**MERLIN, name: header + "\n" + row.rsplit(",", 1)[0] + "\n"}
            self.assertIn(f"{name}:2: has {len(columns) - 1} fields", self.failure("merlin", cut))
        words = MERLIN["merlin_synthetic_tables.csv"].replace("Tiny,0,1,", "Tiny,0,many,")
        self.assertIn("'many'", self.failure("merlin", {**MERLIN, "merlin_synthetic_tables.csv": words}))

    def test_rows_of_a_table(self):
        for row in ("B200,1,,64,64,TN,0,bf16,0.5,2250,1", "B200,1,64,64,64,TN,0,bf16,fast,2250,1"):
            said = self.failure("simumax", {"efficiency_matmul.csv": SIMUMAX["efficiency_matmul.csv"] + row + "\n"})
            self.assertIn("efficiency_matmul.csv:2: ", said)


if __name__ == "__main__":
    unittest.main()
