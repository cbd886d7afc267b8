"""scripts/import_aceso.py and import_deepbench.py: which GEMMs they take for measured ones."""
import csv
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import import_deepbench  # noqa: E402

HEADER = "op_name,forward-compute,backward-compute,input_size,output_size,weights,activations,fwd_reserved,bwd_reserved\n"


def profile(hidden, ranks):
    """Of one layer; weights in MiB of 2 bytes."""
    mebibytes = hidden * hidden * 2 / 2**20 / ranks
    rows = [("enc-attention-score", 10, 0), ("enc-attention-context", 20, 0), ("enc-attention-dense", 30, mebibytes),
            ("enc-MLP-GEMM-1", 40, 4 * mebibytes), ("enc-MLP-GEMM-2", 50, 4 * mebibytes)]
    return HEADER + "".join(f"{op},{us},{us},0,0,{weights:.3f},0,0,0\n" for op, us, weights in rows)


class Aceso(unittest.TestCase):
    def test_forward_passes_of_gpt(self):
        files = {"prim_gpt_350M_all_reduce_2gpus.csv": "data_size(MB),time(ms)\n1,0.1\n",
                 "comm_profile_miniset.json": '{"all_reduce_2gpus_4_torch.float16": 0.1}',
                 "gpt_350M_mbs2_tp1_algo0.csv": profile(1024, 1), "gpt_350M_mbs2_tp4_algo0.csv": profile(1024, 4)}
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder)
            for name, text in files.items():
                (source / name).write_text(text, encoding="utf-8")
            done = subprocess.run([sys.executable, str(ROOT / "scripts/import_aceso.py"), folder, "-o", folder],
                                  capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(source / "aceso-v100-sxm2-nvlink-kernels.csv", encoding="utf-8") as file:
                rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
        shapes = {row["shape"]: float(row["time_us"]) for row in rows}
        # 2 samples of 2,048 tokens, 16 heads of 64. Of four ranks the MLP's first layer alone holds no all-reduce: it
        # is as large as the dense layer of one, and the median of both, 30 and 40, stands.
        self.assertEqual(shapes, {
            "m=4096;n=4096;k=1024;bias=0": 40, "m=4096;n=1024;k=4096;bias=0": 50, "m=4096;n=1024;k=1024;bias=0": 35, "b=32;m=2048;n=2048;k=64": 10, "b=32;m=2048;n=64;k=2048": 20,
            "b=8;m=2048;n=2048;k=64": 10, "b=8;m=2048;n=64;k=2048": 20})


class DeepBench(unittest.TestCase):
    def kept(self, platform, dtype, n):
        added = []
        table = types.SimpleNamespace(add=lambda *row, **_: added.append(row), skip=lambda _: None)
        header = dict(zip(("M", "N", "K", "Time (msec)", "A Transpose"), "ABCDE"))
        cells = {"A": "4096", "B": str(n), "C": "4096", "D": "1", "E": "N"}
        header["B Transpose"] = "F"
        import_deepbench.add_gemm(table, platform, dtype, header, cells)
        return bool(added)

    def test_products_of_zeros_that_arithmetic_bounds(self):
        # 2 x 4096 x 4096 n FLOP over 2 (4096^2 + 2 x 4096 n) bytes: 120 a byte with n = 128, 1,365 with 4,096;
        # the V100 has 139.
        self.assertTrue(self.kept("v100-sxm2-nvlink", "float16", 128))
        self.assertFalse(self.kept("v100-sxm2-nvlink", "float16", 4096))
        self.assertTrue(self.kept("v100-sxm2-nvlink", "float32", 4096))
        self.assertTrue(self.kept("p100-pcie", "float16", 4096))


if __name__ == "__main__":
    unittest.main()
