"""Importers of GEMMs: which operands lie across what is summed over, and which layers add a bias."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MATMUL = "machine,b,m,k,n,layout,out_dtype,efficiency,peak_TFLOPS\n"
GROUPED = "machine,ng,M,N,K,main_grad_dtype,stage,efficiency,peak_TFLOPS\n"
LAYERS = "op,target,input_shapes,output_shape,fw_latency,dtype\n"


def imported(script, files, table):
    """Shapes of the table that `script` makes of {path: text}."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            path = pathlib.Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        subprocess.run([sys.executable, str(ROOT / "scripts" / script), folder, "-o", f"{folder}/out"],
                       capture_output=True, text=True, check=False)
        lines = pathlib.Path(folder, "out", table).read_text(encoding="utf-8").splitlines()
        return [line.split(",")[5] for line in lines if line.startswith("kernel,")]


class OperandLayout(unittest.TestCase):
    def test_simumax_matmul(self):
        shapes = imported("import_simumax.py", {
            "efficiency_matmul.csv": MATMUL + "B200,1,64,32,16,TN,bf16,0.5,2250\nB200,1,64,16,32,NN,bf16,0.5,2250\n"},
            "simumax-b200-sxm-nvswitch-gemm-bfloat16.csv")
        self.assertEqual(shapes, ["m=64;n=16;k=32;bias=0;across=0", "m=64;n=32;k=16;bias=0;across=1"])

    def test_simumax_grouped(self):
        """M, N and K are the forward pass's in all stages; gradients of weights sum over its rows."""
        rows = "".join(f"B200,160,154,3072,5120,bf16,{stage},0.2,2250\n" for stage in ("fwd", "bwd_grad_act", "bwd_grad_w"))
        shapes = imported("import_simumax.py", {
            "efficiency_matmul.csv": MATMUL + "B200,1,64,32,16,TN,bf16,0.5,2250\n",
            "efficiency_group_matmul.csv": GROUPED + rows}, "simumax-b200-sxm-nvswitch-grouped-bfloat16.csv")
        self.assertEqual(shapes, ["b=160;m=154;n=3072;k=5120;across=0", "b=160;m=154;n=5120;k=3072;across=1",
                                  "b=160;m=3072;n=5120;k=154;across=2"])

    def test_neusight_models(self):
        """A layer with a bias, GPT-2's with weights[k, n], and the head of a language model, which has none."""
        rows = ('call_module,bert.dense,"[[8, 64, 32]]","(8, 64, 16)",1,torch.float32\n'
                'call_function,<built-in method addmm of type object>,"[[16], [512, 32], [32, 16]]","(512, 16)",1,torch.float32\n'
                'call_module,lm_head,"[[8, 64, 32]]","(8, 64, 100)",1,torch.float32\n')
        kernel = "OPName,Latency,Device,Torch Version,B,M,N,K\nlinear,1,Tesla T4,p2.1.0,1,8,8,8\n"
        shapes = imported("import_neusight.py", {"label/Tesla_T4/gpt2-inf-64-8.csv": LAYERS + rows,
                                                 "test/linear.csv": kernel}, "neusight-models-t4-kernels.csv")
        self.assertEqual(shapes, ["m=512;n=16;k=32;bias=1;across=0", "m=512;n=16;k=32;bias=1;across=1",
                                  "m=512;n=100;k=32;bias=0;across=0"])


if __name__ == "__main__":
    unittest.main()
