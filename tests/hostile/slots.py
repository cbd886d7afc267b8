"""What the hand-made cases vary: where each format is read, places that are no files, numbers that are
none, and where outputs go."""

S = "$SRC/traces/samples/dlrm_8rank"
SEARCH = "search $SEEDS/gpt.yaml --platform dgx-a100 --gpus 4 --global-batch 64 --kernels none"
COLLECTIVE = "collective all_reduce --topology dgx-a100"


# Where each format is read: FILE stands for the file.
SLOTS = {
    "platform": "inspect FILE.yaml",
    "accelerator": "inspect dgx.yaml",
    "topology": "collective all_reduce --topology FILE --bytes 1M",
    "predict_platform": f"predict {S} --platform FILE --network fitted --json",
    "workload": "search FILE --platform dgx-a100 --gpus 4 --global-batch 64 --kernels none",
    "generate_workload": "generate FILE --platform dgx-a100 --mapping 'tp2 pp2 dp1 mb1 gb64' -o out",
    "architect_model": "architect FILE --space $SRC/tests/golden/architect_small/space.yaml "
                       "--devices 4 --hbm 32 --global-batch 8 --json",
    "architect_space": "architect gpt-small --space FILE --devices 4 --hbm 32 --global-batch 8 --json",
    "mapping": "generate $SEEDS/gpt.yaml --platform dgx-a100 --mapping FILE -o out",
    "compare": SEARCH + " --compare FILE 'tp2 pp2 dp1 mb1'",
    "journal": SEARCH + " --journal FILE",
    "training": SEARCH + " --calibration FILE",
    "task": "shard FILE --sharders naive --json",
    "plan": "shard $SEEDS/task.yaml --sharders naive --plan FILE --json",
    "study": "shard-study FILE",
    "locality": "shard-tasks FILE -o out --platform paper-4xa100",
    "table": "calibrate collective FILE --hold-out every-third",
    "kernel_table": "calibrate kernel FILE",
    "embedding_table": "calibrate embedding FILE",
    "memory_table": "calibrate memory FILE",
    "adapt": "calibrate collective $SEEDS/lab.csv --adapt FILE",
    "test_calibration": "calibrate collective --calibration FILE --test $SEEDS/lab.csv",
    "measured": "collective --topology dgx-a100 --measured FILE --json",
    "mappings": "validate --mappings FILE --platform dgx-a100 --json",
    "fit": "validate --mappings $SEEDS/rows.csv --platform dgx-a100 --fit FILE",
    "cases": "validate FILE --json",
    "overheads": f"predict {S} --overheads FILE",
    "groups": f"predict {S} --process-groups FILE",
    "trace": "predict FILE --json",
    "inspect": "inspect FILE --json",
    "convert": "convert FILE -o out",
    "validate_trace": "validate --trace FILE",
    "trace_overheads": "calibrate trace-overheads FILE",
    "template": "shard $SEEDS/task.yaml --template FILE",
    "requests": "serve llama3.1-8b --platform dgx-h100 --requests FILE --json",
    "engine": "serve llama3.1-8b --platform dgx-h100 --count 2 --engine FILE --json",
    "iterations": "calibrate serving FILE --json",
    "powers": "calibrate power FILE --platform dgx-h200 --json",
    "space": "explore FILE -o out",
    "exploration_journal": "explore dfmodel-fft -o out --journal FILE",
    "dataflow_system": "dataflow gpt3-175b --system FILE --json",
    "dataflow_workload": "dataflow FILE --system sn10-8",
    "dataflow_mapping": "dataflow gpt3-175b --system sn10-8 --forward --mapping FILE",
    "network": "place FILE.yaml --backends framework --device v100-sxm2-16gb --json",
    "backend": "place dcgan --backends framework,FILE.yaml --device v100-sxm2-16gb --json",
    "step_factors": "serve llama3.1-8b --platform dgx-h100 --count 5 --rate 5 --step-factors FILE --json",
    "operator_costs": "place dcgan --backends framework --device v100-sxm2-16gb --costs FILE --json",
}

# What is no regular file, or not there. $NAME is what the error must name.
PLACES = {
    "missing": ("", "nosuch.xyz"),
    "folder": ("mkdir -p place.d", "place.d"),
    "pipe": ("mkfifo place.p", "place.p"),
    "device": ("", "/dev/zero"),
    "full": ("", "/dev/full"),
    "dangling": ("ln -s nowhere place.l", "place.l"),
    "loop": ("ln -s place.m place.m", "place.m"),
    "long": ("", "n" * 5000),
}

# Numbers that are none, with the exit codes that are right.
NUMBERS = ["nan", "-nan", "inf", "-inf", "1e999", "-1", "-0.5", "''", "abc", "1x", "0x",
           "99999999999999999999999", "18446744073709551616", "-9223372036854775809", "--",
           "1e", "١"]
NUMERIC = {
    f"predict {S}": ["--jobs", "--iteration", "--top"],
    SEARCH: ["--gpus", "--global-batch", "--sequence", "--memory-gib", "--memory-margin", "--max-tensor",
             "--max-micro-batch", "--max-chunks", "--max-context", "--max-zero", "--steps",
             "--seed", "--top", "--jobs"],
    "generate $SEEDS/gpt.yaml --platform dgx-a100 --mapping 'tp2 pp2 dp1 mb1 gb64' -o out":
        ["--gpus", "--sequence", "--memory-gib", "--memory-margin", "--launch-us"],
    "shard $SEEDS/task.yaml --sharders naive": ["--seed", "--budget", "--jobs"],
    "shard-tasks $SEEDS/locality.txt -o out --platform paper-4xa100":
        ["--gpus", "--batch", "--per-part", "--seed"],
    COLLECTIVE + " --bytes 1M": ["--ranks", "--chunks"],
    COLLECTIVE: ["--bytes"],
    "collective --topology dgx-a100 --measured $SEEDS/lab.csv": ["--min-bytes"],
    "calibrate collective $SEEDS/lab.csv": ["--seed"],
    f"convert {S} --workload w.yaml": ["--rank", "--iteration", "--samples"],
    "serve llama3.1-8b --platform dgx-h100 --count 2":
        ["--replicas", "--decode-engines", "--max-num-seqs", "--max-num-batched-tokens", "--max-model-len",
         "--block-tokens", "--kv-blocks", "--memory-utilization", "--rate", "--input", "--output", "--seed",
         "--concurrency", "--ttft", "--gpus", "--top", "--prefix-block"],
    "dataflow gpt3-175b --system sn10-8": ["--batch", "--tiles", "--utilisation"],
    "explore dfmodel-fft -o out": ["--jobs"],
}

# Outputs: the option, and a command that is right but for it.
OUTPUTS = {
    "timeline": f"predict {S} --timeline FILE",
    "rows": "calibrate collective $SEEDS/lab.csv --hold-out every-third --rows FILE",
    "overheads_out": "calibrate trace-overheads $SEEDS/kineto/k.json -o FILE",
    "mapping_out": SEARCH + " --max-chunks 1 -o FILE",
    "search_svg": SEARCH + " --max-chunks 1 --svg FILE",
    "search_timeline": SEARCH + " --max-chunks 1 --timeline FILE",
    "plan_out": "shard $SEEDS/task.yaml --sharders naive --output FILE",
    "shard_svg": "shard $SEEDS/task.yaml --sharders naive --svg FILE",
    "serving_timeline": "serve llama3.1-8b --platform dgx-h100 --count 2 --timeline FILE",
    "dataflow_picture": "dataflow gpt3-175b --system sn10-8 --forward --picture FILE",
}
FOLDERS = {
    "convert_out": "convert $SEEDS/kineto/k.json -o FILE",
    "generate_out": "generate $SEEDS/gpt.yaml --platform dgx-a100 "
                    "--mapping 'tp2 pp2 dp1 mb1 gb64' -o FILE",
    "tasks_out": "shard-tasks $SEEDS/locality.txt -o FILE --platform paper-4xa100",
    "traces_out": "shard $SEEDS/task.yaml --sharders naive --write-traces FILE",
    "calibrate_out": "calibrate collective $SEEDS/lab.csv -o FILE",
    "explore_out": "explore dfmodel-fft -o FILE",
    "dataflow_traces": "dataflow gpt3-175b --system sn10-8 --forward --batch 1 --write-traces FILE",
}
