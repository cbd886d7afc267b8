"""Files that only the runs of options.py need."""
import json
import subprocess

import files


def tables():
    """Rows of each family of calibrations, of one machine."""
    spread = "|".join(["0", "0.5", "0.5"] + 14 * ["0"])
    machine = "a100-sxm4-40gb"
    return {
        "memory": [f"memory,memcpy,-,{machine},int8,bytes={2**k};direction=htod;pinned=1,"
                   f"{8 + (1 + k % 3 / 50) * 2**k / 2.5e4:.3f},0,1,cuda,made\n" for k in range(12, 28)],
        "overheads": [f"overhead,overhead,-,{machine},-,name=launch_latency,{4 + k * k % 7},0,9,cuda,run{k}\n"
                      for k in range(12)],
        "kernel": [f"kernel,linear,forward,{machine},float16,m={64 * m};n={n};k={k},"
                   f"{6 + 128 * m * n * k / 1.8e8 * (1 + m % 5 / 20):.3f},0,1,torch,made\n"
                   for m in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32) for n in (256, 512, 1024, 2048, 4096)
                   for k in (256, 512, 1024, 2048, 4096)],
        "embedding": [f"embedding,embedding,forward,{machine},float32,tables={t};b={b};e={e};d={d};l={l};weights=0;"
                      f"rf={spread},{6 + t * b * l * d * 4 / 9e5 * (1 + l % 3 / 20):.3f},0,1,torch;impl=batched,made\n"
                      for t in (1, 4, 8) for b in (256, 1024, 4096) for e in (10000, 1000000)
                      for d in (32, 64, 128) for l in (1, 2, 8, 32)]}


def prepare(work, foretrace):
    work.mkdir()
    kineto = files.kineto()
    # A dangling correlation, which is repaired and counted.
    (work / "repaired.json").write_text(kineto.replace('"correlation": 101', '"correlation": 999', 1))
    # A group of which one rank was recorded.
    document = json.loads(kineto)
    document["distributedInfo"] = {"rank": 0, "world_size": 2}
    group = {"Collective name": "allreduce", "Process Group Name": "0", "Process Group Ranks": "[0, 1]",
             "Group size": 2, "In msg nelems": 1024, "dtype": "Float"}
    document["traceEvents"] += [
        {"ph": "X", "name": "cudaLaunchKernel", "cat": "cuda_runtime", "pid": 1, "tid": 1, "ts": 65.0,
         "dur": 5, "args": {"correlation": 150}},
        {"ph": "X", "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "cat": "kernel", "pid": 0, "tid": 20,
         "ts": 400.0, "dur": 50, "args": {"stream": 20, "device": 0, "correlation": 150, **group}}]
    (work / "absent.json").write_text(json.dumps(document))
    (work / "mixed").mkdir()
    (work / "mixed/rank0.json").write_text(kineto)
    (work / "mixed/snap.pickle").write_bytes(b"\x80\x04\x95" + b"\0" * 40)
    (work / "vocabulary.yaml").write_text(files.WORKLOAD.replace("51200", "25600"))
    (work / "mapping.yaml").write_text("tiles: 2048\nshardings: tensor-parallel\nroles: [tensor]\n"
                                       "kernel_by_kernel: true\n")
    space = (files.ROOT / "tests/golden/architect_small/space.yaml").read_text()
    (work / "power.yaml").write_text(
        space + "\npower: {logic_W_per_mm2: 0.612, hbm_W_per_GBps: 0.05624, link_W_per_GBps: 0.052, source: t}\n")
    for kind, rows in tables().items():
        # Residuals are fitted to hundreds of rows alone.
        for name, some in ((kind, rows[::2]), (f"few_{kind}", rows[::7]), (f"many_{kind}", rows)):
            (work / f"{name}.csv").write_text(
                "# source: made by tests/hostile\n# device: NVIDIA A100-SXM4-40GB\n"
                "kind,op,phase,platform,dtype,shape,time_us,std_us,repeats,library,source\n" + "".join(some))
        subprocess.run([foretrace, "calibrate", kind, work / f"{kind}.csv", "-o", work / "calibrated"],
                       check=True, stdout=subprocess.DEVNULL)
    (work / "iterations.csv").write_text(
        "model,hardware,tensor_parallel,batch_size,prompt_tokens,output_tokens,prompt_ms,"
        "time_between_tokens_ms\n" + "".join(
            f"llama,h100,{t},{b},{p},128,{(20 + b * p / 40) / t:.3f},{(9 + b / 3) / t + p / 4000:.3f}\n"
            for t in (2, 4, 8) for b in (1, 2, 4, 8, 16) for p in (128, 512, 1024, 2048)))
    (work / "groups.yaml").write_text('groups: [{name: "0", ranks: [0, 1, 2, 3]}]\n')
    # A kernel under an operator of which the shapes are known.
    (work / "shaped.json").write_text(kineto)
    # Attention of which nothing says what it hides.
    heads = json.dumps(5 * [[1, 32, 4096, 128]])
    (work / "masked.json").write_text(
        kineto.replace("aten::mm", "aten::_scaled_dot_product_cudnn_attention_backward")
        .replace("[[64, 64], [64, 64]]", heads).replace('["float", "float"]', json.dumps(5 * ["c10::BFloat16"]))
        .replace("ampere_sgemm_128x64_nn", "cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16"))
