"""Makes the files that hostile cases name: valid seeds of every input format, and damaged ones."""
import gzip
import io
import json
import lzma
import os
import pathlib
import re
import subprocess
import tarfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

COLLECTIVES = (
    "# source: made by tests/hostile\n# interconnect: switch\n"
    "kind,op,phase,platform,dtype,shape,time_us,std_us,repeats,library,source\n" + "".join(
        f"collective,all_reduce,-,a100-sxm4-nvswitch,float32,bytes={2**k};ranks=8;nodes=1;placement=node;inplace=0,"
        f"{20 + 2**k / 5e4:.3f},0,1,nccl,made\n" for k in range(12, 28)))
MAPPINGS = (
    "# GPUs,global batch,micro batch,hidden size,attention heads,# layers,sequence length,"
    "tensor parallelism,data parallelism,pipeline parallelism,iteration time (ms)\n"
    "8,64,4,1024,16,24,1024,2,2,2,500.0\n8,64,2,1024,16,24,1024,4,2,1,450.0\n")
OPERATORS = "op,platform,shape,time_us,backend\n" + "".join(
    f'"{op}",v100,"data=1x{size}",{size / 8},{backend}\n'
    for op in ("relu(*)", "add(*,*)", "relu+add") for size in (8, 64) for backend in ("tvm", "framework"))
GROUPS = 'groups:\n  - {name: "1", ranks: [0, 1, 2, 3]}\n  - {name: "2", ranks: [4, 5, 6, 7]}\n'
# A model's config.json with most of what one may have.
PUBLISHED = json.dumps({
    "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "hidden_size": 512, "intermediate_size": 1024,
    "moe_intermediate_size": 256, "num_hidden_layers": 4, "first_k_dense_replace": 1, "n_routed_experts": 16,
    "n_shared_experts": 1, "num_experts_per_tok": 4, "n_group": 4, "topk_group": 2, "num_attention_heads": 8,
    "kv_lora_rank": 64, "q_lora_rank": None, "qk_nope_head_dim": 64, "qk_rope_head_dim": 32, "v_head_dim": 64,
    "num_nextn_predict_layers": 1, "max_position_embeddings": 2048, "vocab_size": 1024, "torch_dtype": "bfloat16",
    "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}, "tie_word_embeddings": False}, indent=1)
WORKLOAD = (ROOT / "traces/workloads/gpt-small.yaml").read_text()


def kineto():
    """Two steps of one rank: a launch, its kernel, and a synchronisation, in Kineto's terms."""
    events = [{"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "python"}}]
    for step in range(2):
        t = 1000.0 * step
        x = lambda name, cat, ts, dur, tid, **args: events.append(
            {"ph": "X", "name": name, "cat": cat, "pid": 0 if cat == "kernel" else 1, "tid": tid,
             "ts": t + ts, "dur": dur, "args": args})
        x(f"ProfilerStep#{step}", "user_annotation", 0, 900, 1)
        x("aten::mm", "cpu_op", 10, 50, 1, **{"External id": 10 + step,
                                             "Input Dims": [[64, 64], [64, 64]],
                                             "Input type": ["float", "float"]})
        x("cudaLaunchKernel", "cuda_runtime", 30, 10, 1, correlation=100 + step,
          **{"External id": 10 + step})
        x("ampere_sgemm_128x64_nn", "kernel", 60, 300, 7, correlation=100 + step, stream=7,
          device=0, **{"External id": 10 + step, "grid": [8, 8, 1], "block": [128, 1, 1]})
        x("cudaDeviceSynchronize", "cuda_runtime", 100, 262, 1, correlation=200 + step)
    return json.dumps({"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA A100"}],
                       "traceEvents": events})


def execution_trace():
    """An execution trace of one operator, which holds no device work."""
    nodes = [{"id": 1, "name": "[pytorch|profiler|execution_trace|process]", "ctrl_deps": 1,
              "inputs": {"values": [], "shapes": [], "types": []},
              "outputs": {"values": [], "shapes": [], "types": []}, "attrs": []},
             {"id": 2, "name": "[pytorch|profiler|execution_trace|thread]", "ctrl_deps": 1,
              "inputs": {"values": [], "shapes": [], "types": []},
              "outputs": {"values": [], "shapes": [], "types": []}, "attrs": []}]
    for i in range(3, 8):
        nodes.append({
            "id": i, "name": "aten::mm", "ctrl_deps": 2,
            "inputs": {"values": [[1, 2, 0, 4096, 4, "cuda:0"]] * 2, "shapes": [[64, 64]] * 2,
                       "types": ["Tensor(float)"] * 2},
            "outputs": {"values": [[5, 6, 0, 4096, 4, "cuda:0"]], "shapes": [[64, 64]],
                        "types": ["Tensor(float)"]},
            "attrs": [{"name": "rf_id", "type": "uint64", "value": i},
                      {"name": "op_schema", "type": "string", "value": "aten::mm(Tensor s)"},
                      {"name": "fw_tid", "type": "uint64", "value": 0},
                      {"name": "seq_id", "type": "int64", "value": i},
                      {"name": "scope", "type": "uint64", "value": 0},
                      {"name": "tid", "type": "uint64", "value": 1},
                      {"name": "fw_parent", "type": "uint64", "value": 0}]})
    return json.dumps({"schema": "1.1.0-chakra.0.0.4", "pid": 1, "time": "2026-01-01 00:00:00",
                       "start_ts": 1, "nodes": nodes, "finish_ts": 2})


def tar_of(files, mode="w:gz"):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


def make_seeds(folder, foretrace):
    """Valid inputs, one a format: {slot: path}."""
    folder.mkdir(parents=True, exist_ok=True)

    def write(name, content):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def run(*arguments):
        subprocess.run([foretrace, *map(str, arguments)], check=True, cwd=ROOT,
                       stdout=subprocess.DEVNULL)

    seeds = {}
    rank0 = (ROOT / "traces/samples/dlrm_8rank/dlrm.0.et").read_bytes()
    seeds["kineto"] = write("kineto/k.json", kineto())
    seeds["pytorch_et"] = write("et/e.json", execution_trace())
    seeds["chakra"] = folder / "chakra/trace.0.et"
    run("convert", seeds["kineto"], "-o", folder / "chakra")
    seeds["gzip"] = write("gz/k.json.gz", gzip.compress(kineto().encode(), mtime=0))
    seeds["xz"] = write("xz/k.json.xz", lzma.compress(kineto().encode()))
    seeds["tar"] = write("tar/t.tar.gz", tar_of({"rank0.json": kineto().encode()}))
    seeds["bundle"] = write("bundle/dlrm.0.et", rank0)
    seeds["platform"] = write("dgx.yaml", (ROOT / "topologies/dgx-a100.yaml").read_bytes())
    seeds["accelerator"] = write("h100-sxm5-80gb.yaml", (ROOT / "topologies/accelerators/h100-sxm5-80gb.yaml").read_bytes())
    seeds["workload"] = write("gpt.yaml", WORKLOAD)
    seeds["published"] = write("published/config.json", PUBLISHED)
    seeds["graph"] = write("two.yaml", (ROOT / "traces/workloads/two-branch.yaml").read_bytes())
    seeds["task"] = write("task.yaml", (ROOT / "traces/samples/dlrm_sharding.yaml").read_bytes())
    seeds["groups"] = write("groups.yaml", GROUPS)
    seeds["network"] = write("network.yaml", (ROOT / "traces/networks/dcgan.yaml").read_bytes())
    seeds["backend"] = write("backend.yaml", (ROOT / "topologies/backends/tensorrt.yaml").read_bytes())
    seeds["operator_costs"] = write("operators.csv", OPERATORS)
    seeds["step_factors"] = write("factors.yaml", "foretrace_calibration: 1\nkind: serving_steps\nmodel: m\n"
                                                   "device: d\nruns: [r]\ndecodes: 1.1\nprompts: 0.9\n")
    seeds["collectives"] = write("lab.csv", COLLECTIVES)
    seeds["cases"] = write("cases.yaml", f"cases:\n  - name: one\n    traces: [{seeds['kineto']}]\n"
                                         "    measured_us: 900\n")
    mapping = folder / "mapping.yaml"
    journal = folder / "journal.log"
    run("search", seeds["workload"], "--platform", "dgx-a100", "--global-batch", "64", "--gpus",
        "4", "--kernels", "none", "-o", mapping, "--journal", journal, "--max-chunks", "1",
        "--max-micro-batch", "4")
    seeds["mapping"], seeds["journal"] = mapping, journal
    seeds["plan"] = folder / "plan.json"
    run("shard", seeds["task"], "--sharders", "naive", "--output", seeds["plan"])
    seeds["overheads"] = folder / "overheads.yaml"
    run("calibrate", "trace-overheads", seeds["kineto"], "-o", seeds["overheads"])
    seeds["mappings"] = write("rows.csv", MAPPINGS)
    for kind in ("collectives.yaml", "kernels.yaml", "kernels.pb"):
        source = ROOT / "calibration/a100-sxm4-nvswitch" / kind
        if source.exists():
            write(f"calibration/{kind}", source.read_bytes())
    seeds["calibration"] = folder / "calibration/collectives.yaml"
    seeds["kernels_yaml"] = folder / "calibration/kernels.yaml"
    seeds["kernels_pb"] = folder / "calibration/kernels.pb"
    seeds["locality"] = write("locality.txt", (ROOT / "tests/data/sharding/locality.txt").read_bytes())
    for name in ("requests.csv", "azure.csv", "mooncake.jsonl", "sharegpt.json"):
        seeds[name.split(".")[0]] = write(name, (ROOT / "tests/data/serving" / name).read_bytes())
    seeds["measured"] = write("measured.csv", COLLECTIVES.replace("ranks=8", "ranks=4") + "".join(
        COLLECTIVES.splitlines(keepends=True)[3:]))
    seeds["snapshot"] = write("snapshot.pickle", (ROOT / "tests/data/memory/snapshot.pickle").read_bytes())
    seeds["pftrace"] = folder / "timeline.pftrace"
    run("predict", seeds["kineto"], "--timeline", seeds["pftrace"])
    seeds["own_timeline"] = folder / "own/rank_0.json.gz"
    run("predict", seeds["kineto"], "--timeline", f"{folder}/own/")
    seeds["space"] = write("space.yaml", (ROOT / "tests/golden/architect_small/space.yaml").read_bytes())
    seeds["system"] = write("sn10-8.yaml", (ROOT / "topologies/systems/sn10-8.yaml").read_bytes())
    seeds["dataflow_mapping"] = write("fused.yaml", "tiles: 2048\nshardings: tensor-parallel\nroles: [tensor]\n"
                                                     "kernel_by_kernel: true\n")
    seeds["stack"] = write("nemo.yaml", (ROOT / "topologies/stacks/nemo.yaml").read_bytes())
    seeds["training_rows"] = write("training.csv", (ROOT / "tests/data/mappings/training_rows.csv").read_bytes())
    # Journals of the other commands that keep one.
    seeds["sweep_journal"] = folder / "sweep.log"
    run("sweep", "collective", "all_reduce", "--topology", "dgx-a100", "--bytes", "1M", "--over", "ranks=2:8:x2",
        "--journal", seeds["sweep_journal"])
    seeds["explore_journal"] = folder / "explore.log"
    run("explore", "dfmodel-fft", "-o", folder / "explored", "--journal", seeds["explore_journal"])
    seeds["architect_journal"] = folder / "architect.log"
    run("architect", "gpt-small", "--space", seeds["space"], "--devices", "16", "--hbm", "32", "--global-batch", "64",
        "--widths", "1", "--micro-batches", "1", "--journal", seeds["architect_journal"])
    # An accelerator as kernels are timed on it, by name, beside a platform that has it.
    own = (ROOT / "topologies/accelerators/h100-sxm5-80gb.yaml").read_text().replace("name: h100-sxm5-80gb", "name: own")
    seeds["own_accelerator"] = write("own.yaml", re.sub(r"aliases:\n(  - .*\n)+", "", own))
    write("own_platform.yaml", (ROOT / "topologies/dgx-h100.yaml").read_text().replace("accelerator: h100-sxm5-80gb",
                                                                                     "accelerator: ./own.yaml"))
    seeds["served_accelerator"] = seeds["own_accelerator"]
    seeds["searched_platform"] = seeds["served_platform"] = write("searched.yaml", (ROOT / "topologies/dgx-h100.yaml").read_bytes())
    seeds["exchanges"] = write("exchanges.csv", (ROOT / "tests/data/calibrate/exchanges.csv").read_bytes())
    seeds["powers"] = write("powers.csv", (ROOT / "tests/data/calibrate/powers.csv").read_bytes())
    seeds["iterations"] = write("iterations.csv", (ROOT / "tests/data/calibrate/iterations.csv").read_bytes())
    seeds["operator_table"] = write("operators_measured.csv", "gemm_dtype,n,k,m,latency_ms\n" + "".join(
        f"bfloat16,{n},4096,{m},{(m + 64) * n / 4e9}\n" for n in (4096, 6144, 28672) for m in (1, 64, 512)))
    seeds["engine"] = write("vllm.yaml", (ROOT / "topologies/engines/vllm-0.19.yaml").read_bytes())
    return {slot: path for slot, path in seeds.items() if path.exists()}


def damaged(seed, big=True):
    """{kind: bytes, or what is no file} for one valid seed: what must be refused, with its name."""
    text = seed
    half = text[: len(text) // 2]
    nested = b"a: " + b"[" * 5000 + b"]" * 5000 + b"\n"
    bomb = b"a: &a [x,x,x,x,x,x,x,x,x]\n" + b"".join(
        b"%c: &%c [%s]\n" % (98 + i, 98 + i, b",".join([b"*%c" % (97 + i)] * 9)) for i in range(9))
    kinds = {
        "empty": b"",
        "blank": b" \n\n \t\n",
        "nul": b"\0" * 4096,
        "noise": bytes((i * 7919 + i * i * 31) % 256 for i in range(5000)),
        "half_utf16": text.decode("latin-1").encode("utf-16"),
        "json_nested": b"[" * 100000,
        "yaml_nested": nested,
        "aliases": bomb,
        "scalar": b"42\n",
        "list": b"- 1\n- 2\n",
        "html": b"<!DOCTYPE html><html><body>404</body></html>\n",
        "lfs": b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n",
        "unknown_key": b"nonsense: 1\n",
        "json_list": b"[1, 2, 3]",
        "json_cut": b'{"a": [1, 2, {"b": ',
        "percent": b"%YAML 9.9\n---\n&&&",
        "tab": b"a:\n\t- b\n",
        "bad_utf8": b"name: \xff\xfe\xfa\x80\n",
        "long_line": b"x" * 300000,
        "control": b"name: \x1b[31mred\x07\n",
    }
    if big:
        kinds["large"] = b"# comment\n" * 3_000_000
    return kinds
