"""scripts/import_aiconfigurator.py on small made tables: what it writes, and that what is wrong is said in one line."""
import csv
import lzma
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SYSTEMS = "system,key,value\nh100_sxm,node.intra_node_bw,450000000000\nh100_sxm,node.inter_node_bw,50000000000\n"
GEMM = "gemm_dtype,n,k,m,latency_ms\n"
DEEPEP = ("table_version,node_num,hidden_size,num_topk,num_experts,dispatch_sms,combine_sms,num_token,dispatch_transmit_us,"
          "dispatch_notify_us,combine_transmit_us,combine_notify_us\n")
MOE = ("kernel_source,moe_dtype,hidden_size,inter_size,num_experts,topk,moe_tp_size,moe_ep_size,distribution,num_tokens,"
       "latency_ms\n")
ATTENTION = ("attn_dtype,kv_cache_dtype,num_heads,num_key_value_heads,head_dim,window_size,batch_size,isl,latency_ms\n"
             "bfloat16,bfloat16,8,2,128,0,1,64,0.01\nbfloat16,fp8,8,2,128,0,1,64,0.02\n"
             "bfloat16,bfloat16,8,2,128,128,1,64,0.03\n")


class Aiconfigurator(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.out = self.folder / "out"

    def run_import(self, **tables):
        source = self.folder / "source"
        source.mkdir(exist_ok=True)
        for name, text in tables.items():
            (source / (name.replace("__", "-") + ".csv")).write_text(text, encoding="utf-8")
        return subprocess.run([sys.executable, str(ROOT / "scripts/import_aiconfigurator.py"), str(source), "-o",
                               str(self.out)], capture_output=True, text=True, check=False)

    def rows(self, name):
        lines = [line for line in (self.out / name).read_text(encoding="utf-8").splitlines() if line[0] != "#"]
        return list(csv.DictReader(lines))

    def refused(self, words, **tables):
        done = self.run_import(**tables)
        self.assertEqual(done.returncode, 2, done.stderr)
        last = done.stderr.strip().splitlines()[-1]
        self.assertNotIn("Traceback", done.stderr)
        self.assertIn(words, last)

    def test_a_gpu_without_an_entry_is_a_platform_by_its_own_name(self):
        for gpu, platform in (("b300_sxm", "b300-sxm-nvswitch"), ("gb300", "gb300-nvswitch"), ("b60", "b60"),
                              ("rtx_pro_6000_server", "rtx-pro-6000-pcie")):
            done = self.run_import(**{f"gemm__{gpu}": GEMM + "bfloat16,32,64,1,0.002\n"})
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(self.rows(f"aiconfigurator-{platform}-gemm-bfloat16.csv")[0]["platform"], platform)

    def test_places_of_what_is_no_size(self):
        for value in ("0", "-4", "", "many", "2.5", "nan", "inf"):
            self.refused(f"gemm-h100.csv:3: k is '{value}'",
                         gemm__h100=GEMM + f"bfloat16,32,64,1,0.002\nbfloat16,32,{value},1,0.002\n")
        self.refused("gemm-h100.csv:2: latency_ms is 'soon'", gemm__h100=GEMM + "bfloat16,32,64,1,soon\n")
        self.refused("gemm-h100.csv:2: has 3 fields, the header 5", gemm__h100=GEMM + "bfloat16,32,64\n")
        self.refused("gemm-h100.csv: has a header and no rows", gemm__h100=GEMM)
        for table in ("moe__h100", "attention__context__h100", "power__gemm__h200"):
            self.refused(f"{table.replace('__', '-')}.csv: no column", **{table: "", "gemm__h100": GEMM + "bfloat16,32,64,1,0.002\n"})
            (self.folder / "source" / (table.replace("__", "-") + ".csv")).unlink()
        self.refused("no column dispatch_sms", systems=SYSTEMS,
                     deepep__normal__h100=DEEPEP.replace("dispatch_sms,", "") + "0.5,1,2048,8,64,4,1,9,0,9,0\n",
                     gemm__h100=GEMM + "bfloat16,32,64,1,0.002\n")

    def test_rows_without_a_time_are_skipped_and_counted(self):
        done = self.run_import(gemm__h100=GEMM + "bfloat16,32,64,1,0.002\nbfloat16,32.0,64,2,\nbfloat16,32,64,4,nan\n"
                               "bfloat16,32,64,8,0\nbfloat16,32.0,128,1,0.004\n")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("2 rows; skipped 3 (time is zero", done.stderr)
        self.assertEqual(len(self.rows("aiconfigurator-h100-sxm5-nvswitch-gemm-bfloat16.csv")), 2)

    def test_releases_are_tables_of_their_own(self):
        header = "backend,version," + GEMM
        done = self.run_import(gemm__h100=header + "vllm,0.9,bfloat16,32,64,1,0.002\nvllm,0.9,bfloat16,32,64,1,0.004\n"
                               "sglang,0.5,bfloat16,32,64,1,0.008\n")
        self.assertEqual(done.returncode, 0, done.stderr)
        vllm = self.rows("aiconfigurator-h100-sxm5-nvswitch-gemm-bfloat16-vllm-0.9.csv")
        self.assertEqual([(row["library"], row["time_us"], row["repeats"]) for row in vllm], [("vllm 0.9", "3.0", "2")])
        sglang = self.rows("aiconfigurator-h100-sxm5-nvswitch-gemm-bfloat16-sglang-0.5.csv")
        self.assertEqual(sglang[0]["library"], "sglang 0.5")

    def test_what_the_schema_has_no_place_for_keeps_its_columns(self):
        done = self.run_import(
            attention__context__h100=ATTENTION, moe__h200=MOE + "cutlass,fp8,1024,512,8,2,1,1,balanced,16,0.1\n"
            "cutlass,fp8,1024,512,8,2,1,1,balanced,16,0.3\n",
            mla__context__b200="mla_dtype,kv_cache_dtype,num_heads,tp_size,batch_size,isl,latency_ms\nfp8,fp8,8,16,1,64,0.5\n",
            power__gemm__h200="gemm_dtype,n,k,m,power_W,power_limit_W\nfp8,32,32,1,150,700\nfp8,32,32,2,,700\n")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(self.rows("aiconfigurator-h100-sxm5-nvswitch-attention-context.csv")), 1)
        others = self.rows("aiconfigurator-h100-sxm5-nvswitch-attention-context-others.csv")
        self.assertEqual([(row["kv_cache_dtype"], row["window_size"]) for row in others],
                         [("fp8", "0"), ("bfloat16", "128")])
        self.assertEqual([row["latency_ms"] for row in self.rows("aiconfigurator-h200-sxm5-nvswitch-moe.csv")], ["0.2"])
        self.assertEqual(self.rows("aiconfigurator-b200-sxm-nvswitch-mla-context.csv")[0]["num_heads"], "8")
        self.assertEqual(len(self.rows("aiconfigurator-h200-sxm5-nvswitch-power-gemm.csv")), 1)
        self.assertIn("skipped 1 (power is not a positive number)", done.stderr)

    def test_other_orders_further_columns_and_line_ends(self):
        plain = GEMM + "bfloat16,32,64,1,0.002\nfp8,32,64,1,0.001\n"
        self.run_import(gemm__h100=plain)
        expected = {path.name: self.rows(path.name) for path in self.out.iterdir()}
        mixed = "latency_ms,m,note,gemm_dtype,k,n\r\n0.002,1,x,bfloat16,64,32\r\n0.001,1,,fp8,64,32\r\n"
        done = self.run_import(gemm__h100=mixed)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(expected, {path.name: self.rows(path.name) for path in self.out.iterdir()})

    def test_compressed_tables_and_nothing_to_read(self):
        source = self.folder / "source"
        source.mkdir()
        (source / "gemm-a100.csv.xz").write_bytes(lzma.compress((GEMM + "bfloat16,32,64,1,0.002\n").encode()))
        done = self.run_import(readme="not,a,table\n")
        self.assertEqual(done.returncode, 0, done.stderr)
        (source / "gemm-a100.csv.xz").write_bytes(b"not xz")
        self.refused("gemm-a100.csv.xz: cannot be read")
        (source / "gemm-a100.csv.xz").unlink()
        self.refused("is this the right source?")


if __name__ == "__main__":
    unittest.main()
