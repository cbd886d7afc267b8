"""scripts/import_recsys.py: pooled and unpooled lookups, other GPUs and distributions."""
import csv
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADER = ("label,gpu,num_tables,batch_size_per_table,embedding_dim,rows_per_table,optimizer_type,caching,pooling_mode,"
          "feature_distribution,alpha,avg_n_unique,avg_n_total,trc_forward_ms,trc_backward_ms\n")


class Recsys(unittest.TestCase):
    def rows(self, *lines):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "recsys_examples_x.csv").write_text(HEADER + "\n".join(lines) + "\n", encoding="utf-8")
            done = subprocess.run([sys.executable, str(ROOT / "scripts/import_recsys.py"), folder, "-o", f"{folder}/out"],
                                  capture_output=True, text=True, check=False)
            made = {}
            for path in sorted(pathlib.Path(folder, "out").glob("*.csv")):
                text = [line for line in path.read_text(encoding="utf-8").splitlines() if line[0] != "#"]
                made[path.name] = list(csv.DictReader(text))
            return done, made

    def shape(self, row):
        return dict(entry.split("=") for entry in row["shape"].split(";"))

    def test_bags_are_of_the_batch_where_rows_are_pooled(self):
        # 2 tables of 1,000 bags and 20,000 indices in all: ten an index.
        done, made = self.rows("T_gpu_a,NVIDIA A100-SXM4-80GB,2,1000,64,50000,sgd,False,sum,pow-law,1.05,9000,20000,0.1,0.2",
                               "T_gpu_b,NVIDIA H100 80GB HBM3,2,1000,64,50000,sgd,False,none,pow-law,1.05,9000,20000,0.1,0.2")
        self.assertEqual(done.returncode, 0, done.stderr)
        pooled = self.shape(made["recsys-a100-sxm4-nvswitch-embedding.csv"][0])
        self.assertEqual((pooled["b"], pooled["l"]), ("1000", "10"))
        bare = self.shape(made["recsys-h100-sxm5-nvswitch-embedding.csv"][0])
        self.assertEqual((bare["b"], bare["l"]), ("10000", "1"))

    def test_distributions_and_what_is_unknown(self):
        # Of 50,000 equally likely rows 10,000 lookups touch most once: e^-0.2 0.2 / (1 - e^-0.2) = 0.90.
        done, made = self.rows("T_gpu_a,NVIDIA H100,1,1000,64,50000,sgd,False,none,random,,9000,10000,0.1,0.2",
                               "T_gpu_b,NVIDIA H100,1,1000,64,50000,sgd,False,none,gamma,,9000,10000,0.1,0.2")
        self.assertIn("skipped 1 (indices are distributed as 'gamma')", done.stderr)
        factors = self.shape(made["recsys-h100-sxm5-nvswitch-embedding.csv"][0])["rf"].split("|")
        self.assertAlmostEqual(float(factors[1]), 0.9033, places=3)
        for gpu in ("Some chip", "NVIDIA H100 PCIe", "NVIDIA A100-PCIE-40GB", "NVIDIA H100 NVL"):
            done, _ = self.rows(f"T_gpu_a,{gpu},1,1000,64,50000,sgd,False,none,pow-law,1.05,9000,10000,0.1,0.2")
            self.assertEqual(done.returncode, 2)
            self.assertIn(f"recsys_examples_x.csv:2: unknown GPU '{gpu}'", done.stderr)


if __name__ == "__main__":
    unittest.main()
