"""Hostile cases of words, units, counts and leftovers: what a newcomer types from memory, and what once gave an answer
in silence. Those of PROBLEMS guard the list in README.md."""
S = "$SRC/traces/samples/dlrm_8rank"
COLLECTIVE = "collective all_reduce --topology dgx-a100"
SEARCH = "search $SEEDS/gpt.yaml --platform dgx-a100 --gpus 4 --global-batch 64 --kernels none"
GENERATE = "generate $SEEDS/gpt.yaml --platform dgx-a100 -o out --mapping"
SERVE = "serve llama3.1-8b --platform dgx-h100 --count 3"
SHARD = "shard t.yaml --sharders naive"
PLACE = "place dcgan --backends framework --device v100-sxm2-16gb"
ROWS = "validate --mappings r.csv --platform dgx-a100"
TRAINING = "validate --calibration none --mappings t.csv"
SYMBOLIC = "predict job --platform dgx-a100"
MADE_SYMBOLIC = "$FORETRACE generate $SEEDS/gpt.yaml --platform dgx-a100 --mapping 'tp2 pp1 dp1 mb1 gb8' -o job --sizes-only > said"
NOTHING = "would change nothing"


def edit(seed, change, target):
    return f"sed '{change}' $SEEDS/{seed} > {target}; ! cmp -s $SEEDS/{seed} {target}"


def task(change):
    return edit("task.yaml", change, "t.yaml")


def platform(change):
    return edit("dgx.yaml", change, "p.yaml")


def kineto(change):
    return edit("kineto/k.json", change, "k.json")


# Name: command, what the error says, a line of shell before.
REFUSED = {
    # Sizes, counts and names of collectives
    "bytes_no_last": (COLLECTIVE + " --bytes 1M:", ("--bytes", "''"), ""),
    "bytes_no_first": (COLLECTIVE + " --bytes :1M", ("--bytes", "''"), ""),
    "bytes_half": (COLLECTIVE + " --bytes 1.3", ("--bytes", "1.3"), ""),
    "bytes_space": (COLLECTIVE + " --bytes '1 M'", ("--bytes", "1 M"), ""),
    "bytes_list": (COLLECTIVE + " --bytes 1M,2M", ("--bytes", "1M,2M"), ""),
    "bytes_three": (COLLECTIVE + " --bytes 1M:2M:3M", ("--bytes", "2M:3M"), ""),
    "bytes_falling": (COLLECTIVE + " --bytes 4M:1M", ("first must not be larger",), ""),
    "one_rank_algorithm": (COLLECTIVE + " --bytes 1M --ranks 1 --algorithm ring", ("--algorithm ring", NOTHING), ""),
    "one_rank_hierarchical": (COLLECTIVE + " --ranks 1 --algorithm hierarchical", ("--algorithm hierarchical", NOTHING), ""),
    "algorithms": (COLLECTIVE + " --algorithm ring,tree", ("--algorithm", "allowed"), ""),
    "gather_of_three": ("collective all_gather --topology dgx-a100 --ranks 3 --algorithm halving_doubling", ("power of two",), ""),
    "broadcast_pairwise": ("collective broadcast --topology dgx-a100 --algorithm pairwise", ("pairwise", "broadcast"), ""),
    "barrier_ring": ("collective barrier --topology dgx-a100 --algorithm ring", ("dissemination",), ""),
    "reduce_tree": ("collective reduce --topology dgx-a100 --algorithm tree", ("tree", "reduce"), ""),
    "nodes_none": ("collective all_reduce --topology dgx-a100:0", ("dgx-a100:0", "NAME:NODES"), ""),
    "nodes_empty": ("collective all_reduce --topology dgx-a100:", ("NAME:NODES",), ""),
    "nodes_word": ("collective all_reduce --topology dgx-a100:2x", ("2x", "NAME:NODES"), ""),
    "nodes_of_one": ("collective all_reduce --topology dgx1-v100:2", ("dgx1-v100", "max_nodes"), ""),
    "gpu_as_platform": ("collective all_reduce --topology a100-sxm4-80gb", ("a100-sxm4-80gb", "is a GPU", "dgx-a100-80gb"), ""),
    "measured_bytes": ("collective --topology dgx-a100 --measured $SEEDS/lab.csv --bytes 1M", ("--bytes", "--measured"), ""),
    "measured_other": ("collective all_to_all --topology dgx-a100 --measured $SEEDS/lab.csv", ("lab.csv", "all_to_all"), ""),
    # Words of a mapping
    "word_zero1": (GENERATE + " 'tp2 pp2 dp1 mb1 gb64 zero1'", (NOTHING, "zero1", "one replica"), ""),
    "word_zero2": (GENERATE + " 'tp2 pp2 dp1 mb1 gb64 zero2'", (NOTHING, "zero2"), ""),
    "word_overlap": (GENERATE + " 'tp1 pp1 dp1 mb1 gb64 overlap'", (NOTHING, "overlap"), ""),
    "word_exposed": (GENERATE + " 'tp1 pp1 dp4 mb1 gb64 tp-exposed'", (NOTHING, "tp-exposed"), ""),
    "word_zb": (GENERATE + " 'tp1 pp1 dp4 mb1 gb64 zb-h1'", (NOTHING, "zb-h1"), ""),
    "word_dualpipe": (GENERATE + " 'tp1 pp2 dp2 mb32 gb64 dualpipe'", ("C4", "stages are 2, micro-batches 1"), ""),
    "word_dualpipe_alone": (GENERATE + " 'tp1 pp1 dp4 mb1 gb64 dualpipe'", ("C4", "stages are 1, micro-batches 16"), ""),
    "word_keep": (GENERATE + " 'tp2 pp2 dp1 mb1 gb64 keep-fp8'", ("keep-fp8", "fp8 or mxfp8"), ""),
    "word_hsdp": (GENERATE + " 'tp1 pp1 dp4 mb1 gb64 zero3 hsdp4'", (NOTHING, "hsdp4"), ""),
    "word_hpz": (GENERATE + " 'tp1 pp1 dp4 mb1 gb64 zero3 hpz4'", (NOTHING, "hpz4"), ""),
    "word_hpz_zero2": (GENERATE + " 'tp1 pp1 dp4 mb1 gb64 zero2 hpz2'", ("hpz2", "zero3 too"), ""),
    "word_qwz_zero2": (GENERATE + " 'tp1 pp1 dp4 mb1 gb64 zero2 qwz'", ("qwz", "zero3"), ""),
    "word_uniform": (GENERATE + " 'tp2 pp2 dp1 mb1 gb64 full uniform1'", (NOTHING, "uniform1"), ""),
    "word_block": (GENERATE + " 'tp2 pp2 dp1 mb1 gb64 full block0'", (NOTHING, "block0"), ""),
    "word_every": (GENERATE + " 'tp2 pp2 dp1 mb1 gb64 full every1'", (NOTHING, "every1"), ""),
    "word_modules": (GENERATE + " 'tp2 pp2 dp1 mb1 gb64 recompute=mlp+attn'", ("mlp+attn", "not part"), ""),
    "word_partition": (GENERATE + " 'tp1 pp1 dp4 mb1 gb64 full partition-activations'", ("tp1 has no such group",), ""),
    "word_compared": (SEARCH + " --compare 'tp2 pp2 dp1 mb1 zero1' 'tp2 pp2 dp1 mb2'", (NOTHING, "zero1"), ""),
    "word_of_file": (GENERATE + " m.yaml", ("m.yaml", NOTHING), "echo 'parallel: tp2 pp2 dp1 mb1 gb64 zero1' > m.yaml"),
    "word_fp8": (GENERATE + " 'tp2 pp2 dp1 mb1 gb64 fp8'", ("fp8", "8 bits"), ""),
    "word_fp8_compared": (SEARCH + " --compare 'tp2 pp2 dp1 mb1 fp8' 'tp2 pp2 dp1 mb1'", ("fp8",), ""),
    "searched_fp8": (SEARCH + " --precision model,fp8", ("--precision fp8", "dgx-a100", "no fp8 rate"), ""),
    "parts_between_nodes": ("search gpt3-175b --platform dgx-h100 --gpus 16 --global-batch 16 --memory-gib 4000 --compare 'tp16 sp tp-chunked' 'tp8 dp2 sp'",
                            ("tp-chunked", "tp8 would do"), ""),
    "searched_mxfp8": (SEARCH.replace("a100", "h100") + " --precision mxfp8", ("--precision mxfp8", "fp8 would do"), ""),
    "searched_precision": (SEARCH + " --precision int8", ("--precision", "int8", "mxfp8"), ""),
    "word_hsdp_copies": (GENERATE + " 'tp1 pp1 dp4 mb1 gb64 zero3 hsdp2x4'", ("hsdp2x4 is 8 replicas", "dp 4"), ""),
    "words_capital": (GENERATE + " 'TP2 tp4 PP2 DP2 MB1 GB8'", ("'tp' is given twice",), ""),
    "words_semicolons": (GENERATE + " 'tp2;pp2;dp2;mb1;gb8'", ("words are tpN",), ""),
    "words_equals": (GENERATE + " 'tp=2 pp=2'", ("tp=2",), ""),
    "words_no_batch": (GENERATE + " 'tp2 pp2 dp2'", ("how many samples", "gbN", "--global-batch"), ""),
    "words_layers": (GENERATE + " 'tp2 pp2 dp2 mb1 gb8 layers=4,5'", ("layers=4,5", "8 layers"), ""),
    "words_batch_twice": (GENERATE + " 'tp2 pp2 dp2 mb1 gb8' --global-batch 16", ("--global-batch 16",), ""),
    "words_gpus": (GENERATE + " 'tp4 pp1 dp1 mb1 gb4' --gpus 8", ("4 devices of 8",), ""),
    # Folders with another job's traces
    "stale_rank": (GENERATE + " 'tp2 pp1 dp1 mb1 gb8'", ("out/trace.7.et", "another"), "mkdir out; echo mine > out/trace.7.et"),
    "stale_rank_converted": ("convert $SEEDS/kineto/k.json -o out", ("out/trace.7.et", "another"), "mkdir out; echo mine > out/trace.7.et"),
    # Selectors
    "select_empty": (f"predict {S} --what-if name=:x2", ("name=", "every name"), ""),
    "select_empty_comm": (f"predict {S} --what-if comm=,rank=1:x2", ("comm=", "every name"), ""),
    "select_empty_for": (f"predict {S} --platform dgx-a100 --durations model-for=name=", ("every name",), ""),
    "select_nothing": (f"predict {S} --what-if comm=nosuch:x2", ("selects no device work", "inspect"), ""),
    "select_step": (f"predict {S} --what-if step=99:x2", ("selects no device work",), ""),
    "select_iteration": (f"predict {S} --what-if iteration=0:x2", ("iteration=0", "step=LIST"), ""),
    "select_kind": (f"predict {S} --what-if kind=all_reduce:x2", ("kind=all_reduce", "collective=OP"), ""),
    "select_rank_half": (f"predict {S} --what-if rank=4.0:x2", ("rank=4.0",), ""),
    "select_space": (f"predict {S} --what-if ' name=gemm:x2'", ("cannot read",), ""),
    "select_semicolon": (f"predict {S} --what-if 'name=gemm;rank=4:x2'", ("selects no device work",), ""),
    "action_percent": (f"predict {S} --what-if name=gemm:-50%", ("-50%", "expected x0.5"), ""),
    "action_bare": (f"predict {S} --what-if name=gemm:5us", ("5us", "expected x0.5"), ""),
    "action_unitless": (f"predict {S} --what-if name=gemm:=5", ("=5", "expected x0.5"), ""),
    "action_negative": (f"predict {S} --what-if rank=3:delay=-1ms", ("delay=-1ms",), ""),
    "action_days": (f"predict {S} --what-if rank=3:delay=30d", ("delay=30d",), ""),
    "action_none": (f"predict {S} --what-if name=gemm:", ("expected x0.5",), ""),
    "action_alone": (f"predict {S} --what-if x2", ("SELECTOR:ACTION",), ""),
    "action_buckets": (f"predict {S} --what-if comm=.*:buckets=0", ("buckets=0",), ""),
    # A profile of one rank, and of another its execution trace alone: the one without times is named.
    "graph_of_other_rank": ("predict rank0.json rank1.json", ("rank1.json has no times", "rank0.json has", "rank 1"),
                            "cp $SEEDS/kineto/k.json rank0.json; cp $SEEDS/et/e.json rank1.json"),
    # Overheads come from one place, and the traces are named whose they are.
    "overheads_two_ways": (f"validate --trace {S} --overheads-from-ranks 0-3 --overheads-from-steps odd", ("dlrm_8rank: ", "exclude each other"), ""),
    "overheads_of_no_rank": (f"validate --trace {S} --overheads-from-ranks 0-9", ("dlrm_8rank: overheads from ranks",), ""),
    "ranks_without_network": (f"predict {S} --ranks 64", ("--platform", "--on PLATFORM"), ""),
    # Symbolic jobs: what is of recordings alone.
    "symbolic_algorithm1": (SYMBOLIC + " --semantics algorithm1", ("--semantics algorithm1", NOTHING), MADE_SYMBOLIC),
    "symbolic_aligned": (SYMBOLIC + " --aligned-start", ("--aligned-start", NOTHING), MADE_SYMBOLIC),
    "symbolic_sensitivity": (SYMBOLIC + " --sensitivity", ("a trace without times has none",), MADE_SYMBOLIC),
    "symbolic_energy": (SYMBOLIC + " --energy", ("does not name the device",), MADE_SYMBOLIC),
    "fused_over_waits": ("predict $SEEDS/kineto/k.json --what-if name=sgemm:fuse", ("no two neighbours",), ""),
    "iteration_range": (f"predict {S} --iteration 0-1", ("--iteration",), ""),
    "platform_alone": (f"predict {S} --platform dgx-h100", ("--on PLATFORM", NOTHING), ""),
    "network_alone": (f"predict {S} --network fluid", ("--platform",), ""),
    "network_small": (f"predict {S} --network fluid --platform paper-4xa100", ("4 ranks", "8"), ""),
    "ranks_fewer": (f"predict {S} --ranks 4 --platform dgx-a100", ("--ranks 4", "8"), ""),
    "by_two": (f"predict {S} --by op,kernel", ("--by",), ""),
    "durations_two": (f"predict {S} --durations recorded,model --platform dgx-a100", ("--durations",), ""),
    # Validation
    "held_out_all": (f"validate --trace {S} --overheads-from-ranks 0-7", ("ranks 0-7", "none to judge"), ""),
    "held_out_absent": (f"validate --trace {S} --overheads-from-ranks 0-99", ("ranks 0-99", "8 of these 100"), ""),
    "rows_wide": (ROWS, ("r.csv:2", "12 values", "11 columns"), edit("rows.csv", "2s/$/,7/", "r.csv")),
    "rows_negative": (ROWS, ("r.csv:2", "iteration time"), edit("rows.csv", "s/,500.0/,-500/", "r.csv")),
    "rows_seconds": (ROWS, ("r.csv:1", "iteration time (ms)"), edit("rows.csv", "s/(ms)/(s)/", "r.csv")),
    "rows_gpus": (ROWS, ("r.csv:2", "9"), edit("rows.csv", "s/^8,/9,/", "r.csv")),
    "rows_unplaced": ("validate --mappings $SEEDS/rows.csv", ("--platform NAME",), ""),
    "rows_all_refused": ("validate --mappings r.csv", ("r.csv:2", "no row can be judged", "step_s 'x'"),
                         "printf 'model,gpus,gpu,tp,pp,dp,micro_batch,global_batch,precision,framework,step_s\\n"
                         "llama2-7b,8,H100,1,1,8,1,8,bf16,NeMo,x\\n' > r.csv"),
    "rows_zipped": ("validate --mappings r.zip", ("r.zip", "is a zip archive", "unzip"), "printf 'PK\\003\\004\\000' > r.zip"),
    "rows_missing": ("validate --mappings nowhere.csv", ("nowhere.csv", "cannot be opened"), ""),
    # Embedding tasks
    "task_half": (SHARD, ("t.yaml:4", "batch"), task("s/batch: 4096/batch: 4096.5/")),
    "task_underscore": (SHARD, ("t.yaml:4", "batch"), task("s/batch: 4096/batch: 4_096/")),
    "task_unit": (SHARD, ("t.yaml:6", "memory_GiB", "memory_GB"), task("s/memory_GB/memory_GiB/")),
    "task_memory": (SHARD, ("t.yaml:6", "memory_GB"), task("s/memory_GB: 32/memory_GB: 0/")),
    "task_rows": (SHARD, ("rows",), task("s/rows: 20000000/rows: 0/")),
    "task_dim": (SHARD, ("dim",), task("s/dim: 64, pooling: 120/dim: 0, pooling: 120/")),
    "task_dims": (SHARD, ("user_history", "concat"), task("s/dim: 64, pooling: 120/dim: 63, pooling: 120/")),
    "task_pooling": (SHARD, ("pooling",), task("s/pooling: 120/pooling: -1/")),
    "task_shares": (SHARD, ("pooling", "nothing"), task("s/{0: 0.3, 20: 0.5, 60: 0.2}/{0: 0, 20: 0}/")),
    "task_share_negative": (SHARD, ("pooling.0",), task("s/{0: 0.3,/{0: -0.3,/")),
    "task_zipf": (SHARD, ("zipf",), task("s/zipf: 1.05/zipf: 50/")),
    "task_name_twice": (SHARD, ("'hours' is given twice",), task("s/name: cities/name: hours/")),
    "task_cpu": (SHARD, ("t1_us",), task("s/t1_us: 7/t1_us: 1e12/")),
    "task_optimizer": (SHARD, ("lion", "adagrad"), task("s/kind: adagrad/kind: lion/")),
    "task_placements_none": (SHARD, ("placements",), task("s/placements: .*/placements: []/")),
    "task_placements_twice": (SHARD, ("t.yaml:9", "'table_wise' is given twice"), task("s/placements: .*/placements: [table_wise, table_wise]/")),
    "task_placements_word": (SHARD, ("placements", "list"), task("s/placements: .*/placements: table_wise/")),
    "task_truth": (SHARD, ("exchange_indices",), task("s/exchange_indices: true/exchange_indices: 1/")),
    "task_gpus": (SHARD, ("5 GPUs",), task("s/gpus: 4/gpus: 5/")),
    "task_of_plan": (SHARD + " --plan $SEEDS/plan.json", ("plan.json", "'users'"), task("/name: users/d")),
    "study_twice": ("shard-study $SEEDS/task.yaml $SEEDS/task.yaml", ("task.yaml", "given twice"), ""),
    # Kinds and tables of calibrations
    "kind_unknown": ("calibrate nosuch $SEEDS/lab.csv", ('unknown kind "nosuch"', "collective, kernel", "power"), ""),
    "kind_near": ("calibrate colective $SEEDS/lab.csv", ('did you mean "collective"?',), ""),
    "kind_none": ("calibrate", ("needs a kind", "trace-overheads"), ""),
    "kind_none_json": ("calibrate --json", ("needs a kind",), ""),
    "table_of_another": ("calibrate kernel $SEEDS/lab.csv", ("lab.csv", "no rows of kind kernel"), ""),
    "table_twice": ("calibrate collective $SEEDS/lab.csv $SEEDS/lab.csv", ("given twice",), ""),
    "table_repeats": ("calibrate collective l.csv", ("l.csv:20", "duplicate of line 4"),
                      "(cat $SEEDS/lab.csv; sed -n 4p $SEEDS/lab.csv) > l.csv"),
    "table_unit": ("calibrate collective l.csv", ("l.csv:3", "time_ms", "microseconds"), edit("lab.csv", "s/time_us/time_ms/", "l.csv")),
    "table_nccl_log": ("calibrate collective n.txt", ("n.txt:2", "a log of nccl-tests", "time_us"),
                       "printf '# nThread 1 nGpus 8\\n  1048576  262144  float  sum  -1  45.10  23.25  40.69  0\\n' > n.txt"),
    "hold_out_rule": ("calibrate collective $SEEDS/lab.csv --hold-out every-fifth",
                      ("every-fifth", "every-third, powers-of-two, three-points, ranks"), ""),
    "table_wide": ("calibrate collective l.csv", ("l.csv:4", "12 fields"), edit("lab.csv", "4s/$/,extra/", "l.csv")),
    "table_operation": ("calibrate collective l.csv", ("l.csv:4", "all_redoos"), edit("lab.csv", "4s/,all_reduce/,all_redoos/", "l.csv")),
    "table_bytes": ("calibrate collective l.csv", ("l.csv:5", "bytes"), edit("lab.csv", "5s/bytes=[0-9]*/bytes=-5/", "l.csv")),
    "overheads_ranks": (f"calibrate trace-overheads {S} --ranks 3-1", ("--ranks", "3-1"), ""),
    # Serving
    "serve_draft_too_large": (SERVE + " --speculate sequence:4:0.8 --draft llama3.1-70b", ("without the draft model it would fit",), ""),
    "serve_heads": (SERVE + " --parallel tp3", ("tp 3", "32 heads"), ""),
    "serve_words": (SERVE + " --parallel ep2", ("--parallel", "'ep2'"), ""),
    "serve_devices": ("serve llama3.1-8b --platform dgx1-v100 --count 3 --replicas 9", ("9 devices", "has 8"), ""),
    "serve_long": (SERVE + " --input 200000 --output 5", ("131072 positions", "shorten it"), ""),
    "serve_draft_words": (SERVE + " --speculate sequence:4:0.7 --draft llama2-7b", ("--draft", "32000", "128256"), ""),
    "serve_one_block": (SERVE + " --kv-blocks 1", ("--kv-blocks",), ""),
    "serve_rateless": ("serve llama3.1-8b --platform tpu-v4-512 --count 3", ("tpu-v4",), ""),
    "serve_tier": (SERVE + " --kv-tier cpu:0:10", ("--kv-tier", "NAME:GiB:GB/s"), ""),
    "serve_semicolons": ("serve llama3.1-8b --platform dgx-h100 --requests r.csv", ("r.csv:1", "input_tokens"),
                         "printf 'arrival_s;input_tokens;output_tokens\\n1;9;9\\n' > r.csv"),
    "serve_no_output": ("serve llama3.1-8b --platform dgx-h100 --requests r.csv", ("r.csv:2", "output_tokens"),
                        "printf 'arrival_s,input_tokens,output_tokens\\n1,9,0\\n' > r.csv"),
    # Placement, chips, sweeps
    "place_device": (PLACE.replace("v100-sxm2-16gb", "nosuch"), ("nosuch", "there are"), ""),
    "place_none_shown": (PLACE + " --top 0", ("--top",), ""),
    "dataflow_platform": ("dataflow gpt3-175b --system dgx-a100", ("dgx-a100", "sn10-8"), ""),
    "dataflow_words": ("dataflow gpt3-175b --system sn10-8 --forward --batch 64 --mapping tp8", ("tp8",), ""),
    "explore_unknown": ("explore nosuch -o out", ("nosuch", "dfmodel-fft"), ""),
    "architect_twice": ("architect gpt-small gpt-small --space $SEEDS/space.yaml --devices 4 --hbm 32 --global-batch 8",
                        ("gpt-small: given twice", "--weights"), ""),
    "sweep_nothing": (f"sweep predict {S}", ("--over",), ""),
    "sweep_empty": (f"sweep predict {S} --over cpu-scale=", ("NAME=VALUES",), ""),
    "sweep_unknown": (f"sweep predict {S} --over nosuch=1,2", ("--nosuch",), ""),
    "sweep_factor": (f"sweep {COLLECTIVE} --bytes 1M --over ranks=2:8:x1", ("2:8:x1", "rising"), ""),
    "sweep_value_of_one": (f"sweep {COLLECTIVE} --bytes 1M --strict --over algorithm=ring,nosuch", ("algorithm=nosuch",), ""),
    "sweep_values_of_all": (f"sweep {COLLECTIVE} --bytes 1M --over algorithm=no,nosuch", ("algorithm=no:", "other points"), ""),
    "sweep_file_of_none": (f"sweep {COLLECTIVE} --bytes 1M --over links.nvlink3.bandwidth_GBps=-1", ("=-1: dgx-a100: key 'links.nvlink3.bandwidth_GBps'",), ""),
    # Platforms
    "platform_unit": ("inspect p.yaml", ("p.yaml:7", "bandwidth_Gbps", "bandwidth_GBps"), platform("s/bandwidth_GBps: 25$/bandwidth_Gbps: 200/")),
    "platform_percent": ("inspect p.yaml", ("p.yaml:9", "efficiency"), platform("s/efficiency: 0.8000/efficiency: 80/")),
    "platform_comma": ("inspect p.yaml", ("p.yaml:8", "latency_us"), platform("s/latency_us: 3.4/latency_us: 3,4/")),
    "platform_hexadecimal": ("inspect p.yaml", ("p.yaml:13",), platform("s/bandwidth_GBps: 31.5/bandwidth_GBps: 0x1f/")),
    "platform_class": ("inspect p.yaml", ("p.yaml:17", "ether"), platform("s/class: network/class: ether/")),
    "platform_affinity": ("inspect p.yaml", ("p.yaml:27", "affinity[7]"), platform("s/6, 7]/6, 9]/")),
    "platform_devices": ("inspect p.yaml", ("p.yaml:27", "7 devices"), platform("s/devices: 8/devices: 7/")),
    "platform_radix": ("inspect p.yaml", ("p.yaml:29", "radices"), platform("s/radix: 20/radix: 1/")),
    "platform_levels": ("inspect p.yaml", ("p.yaml:30", "level"), platform("s/levels: .*]/levels: []/")),
    "platform_generation": ("inspect p.yaml", ("p.yaml:32", "ampere"), platform("s/gpu_generation: ampere/gpu_generation: pascal/")),
    "platform_link": ("inspect p.yaml", ("p.yaml:24", "nvlink9"), platform("s/link: nvlink3/link: nvlink9/")),
    # Kineto
    "kineto_nanoseconds": ("predict k.json", ("k.json", "divided by 1,000"), kineto('s/"ts": *[0-9.]*/"ts": 1700000000000000000/')),
    "kineto_ranks_of_nodes": ("predict run", ("node0/rank0.json", "node1/rank0.json", "by rank of the job"),
                              "mkdir -p run/node0 run/node1; cp $SEEDS/kineto/k.json run/node0/rank0.json; "
                              "cp $SEEDS/kineto/k.json run/node1/rank0.json"),
    "kineto_negative": ("predict k.json", ("k.json", "negative"), kineto('s/"dur": 300/"dur": -300/')),
    "kineto_huge": ("predict k.json", ("k.json", "dur"), kineto('s/"dur": 300/"dur": 3e99/')),
    "kineto_null": ("predict k.json", ("k.json", "dur"), kineto('s/"dur": 300/"dur": null/')),
    "kineto_case": ("predict k.json", ("traceEvents",), kineto("s/traceEvents/traceevents/")),
    "kineto_no_events": ("predict k.json", ("k.json", "no operators"), "echo '{\"schemaVersion\": 1, \"traceEvents\": []}' > k.json"),
    "kineto_step_strict": ("predict k.json --strict", ("step_without_duration", "ProfilerStep#0"), kineto('s/"dur": 900/"dur": 0/')),
    "kineto_step_twice_strict": ("predict k.json --strict", ("step_given_twice",), kineto("s/ProfilerStep#1/ProfilerStep#0/")),
    "kineto_twice_strict": ("predict k.json --strict", ("duplicate_event",),
                            kineto("") + "; python3 -c 'import json; t = json.load(open(\"k.json\")); "
                            "t[\"traceEvents\"] *= 2; json.dump(t, open(\"k.json\", \"w\"))'"),
    "kineto_phase_strict": ("predict k.json --strict", ("unsupported_phase",), kineto('s/"ph": "X"/"ph": "x"/')),
}
# Allowed: name, command, what it prints, what must hold of it, a line of shell before.
FINE = {
    "step_damaged": ("predict k.json", ("step_without_duration",), kineto('s/"dur": 900/"dur": [9]/')),
    "step_given_twice": ("predict k.json", ("step_given_twice",), kineto("s/ProfilerStep#1/ProfilerStep#0/")),
    "phase_unknown": ("predict k.json", ("unsupported_phase",), kineto('s/"ph": "X"/"ph": "x"/')),
    "published_words": (TRAINING, ("1 row with a word that changes nothing: zb-h1",),
                        "sed '1s/$/,mapping/; 2s/$/,zb-h1/; 3,$s/$/,/' $SEEDS/training.csv > t.csv"),
    "symbolic_cpu_scale": (SYMBOLIC + " --cpu-scale 2", ("without the change",), MADE_SYMBOLIC),
    "symbolic_missing_rank": (SYMBOLIC + " --allow-missing-ranks", ("rendezvous with ranks without a trace begin",),
                              MADE_SYMBOLIC + "; rm job/trace.1.et"),
    # At once: nothing that could be kept up with.
    "served_at_once": ("serve llama3.1-8b --platform dgx-h100 --count 10", ("Verdict: 10 requests that came before any was answered",), ""),
    "words_default": (GENERATE.replace("-o out", "-o made") + " 'tp2 pp2 dp1 mb1 gb64 none 1f1b v1 k1 zero0 grad32'", ("Verdict: ",), ""),
    "written_again": (GENERATE.replace("-o out", "-o made") + " 'tp2 pp1 dp1 mb1 gb8'", ("wrote 2 ranks",),
                      "mkdir made; touch made/trace.0.et made/trace.1.et made/notes.txt made/other.9.et"),
    "hierarchical_many": ("collective all_reduce --algorithm hierarchical --topology dgx-a100:1024 --bytes 64M", ("16875520",), ""),
}
# What is first, where it was not.
FIRST = {
    "explore": "explore dfmodel-fft -o made", "calibrate": "calibrate collective $SEEDS/lab.csv",
    "overheads": f"calibrate trace-overheads {S}", "power": "calibrate power $SRC/tests/data/calibrate/powers.csv --platform dgx-h200",
    "collective": COLLECTIVE + " --bytes 1M:8M", "measured": "collective --topology dgx-a100 --measured $SEEDS/lab.csv",
    "fitted": "collective --topology dgx-a100 --measured $SEEDS/lab.csv --fit",
    "generate": GENERATE.replace("-o out", "-o made") + " 'tp2 pp1 dp1 mb1 gb8'", "volumes": "serve-study volumes",
    "decode": "serve-study decode", "phases": "serve-study phases", "drafts": "serve-study drafts",
}
# A recording whose replay is 3 ms short: a wait of the CPU for nothing that was recorded.
UNEXPLAINED = ("PYTHONPATH=$SRC/tests/hostile python3 -c 'import files, json; d = json.loads(files.kineto()); e = d[\"traceEvents\"]; "
               "w = next(x for x in e if \"Synchronize\" in x.get(\"name\", \"\")); t = w[\"ts\"] + w[\"dur\"]; "
               "[x.update(ts=x[\"ts\"] + 3000) for x in e if x.get(\"ts\", 0) >= t]; "
               "[x.update(dur=x[\"dur\"] + 3000) for x in e if x.get(\"ts\", t) < t and x[\"ts\"] + x.get(\"dur\", 0) >= t]; "
               "json.dump(d, open(\"k.json\", \"w\"))'")


def problems(case):
    """What README.md names and no other file has."""
    yield case("problem/3_first_line", "list gpus", (0,), (), UNEXPLAINED + "; $FORETRACE predict k.json > said",
               "head -1 said | grep -q '^NOT RELIABLE: .* ms'")
    yield case("problem/3_strict", "predict k.json --strict", (2, 3), ("--strict", "replay"), UNEXPLAINED)
    for name, option in (("what_if", "--what-if 'name=REGEX:x2'"), ("model_for", "--platform dgx-a100 --durations 'model-for=name=REGEX'")):
        yield case(f"problem/10_{name}_long", f"predict {S} " + option.replace("REGEX", "$(head -c 100000 /dev/zero | tr \"\\0\" a)").replace("'", '"'),
                   (2,), ("at most 4096",))
        yield case(f"problem/10_{name}_nested", f"predict {S} " + option.replace("REGEX", "(.*)*(.*)*x$"), (2,), ())
    yield case("problem/10_long_name", "predict k.json --what-if 'name=.*gemm.*:x0.5'", (0,), (),
               "python3 -c 'import os; p = os.environ[\"SEEDS\"] + \"/kineto/k.json\"; "
               "open(\"k.json\", \"w\").write(open(p).read().replace(\"ampere_sgemm\", \"x\" * 1000000 + \"_sgemm\"))'")
    # One iteration of one rank hangs on launches that steady state does not: it is said whose.
    yield case("problem/22_of_which_rank", "list gpus", (0,), (), f"$FORETRACE predict {S} --what-if kind=collective:remove > said",
               "head -2 said | tr '\\n' ' ' | grep -q 'iteration 1 of rank 0 *takes between'")
    # No kernel, of whose launches there are some: every step repeats, and nothing was understood.
    no_work = ("PYTHONPATH=$SRC/tests/hostile python3 -c 'import files, json; d = json.loads(files.kineto()); "
               "d[\"traceEvents\"] = [e for e in d[\"traceEvents\"] if e.get(\"cat\") not in (\"kernel\", \"gpu_memcpy\", \"gpu_memset\")]; "
               "json.dump(d, open(\"k.json\", \"w\"))'")
    yield case("problem/5_no_device_work", "validate --trace k.json", (0,), (), no_work, "", "", ("NOT RELIABLE: ", "lacks the device work of"))
    yield case("problem/3_diff", "diff k.json $SEEDS/kineto/k.json", (0,), (), UNEXPLAINED, "", "",
               ("NOT RELIABLE: before: this replay", "Verdict: "))
    yield case("problem/3_diff_strict", "diff $SEEDS/kineto/k.json k.json --strict", (2, 3), ("--strict", "replay"), UNEXPLAINED)
    yield case("problem/22_no_content", "list gpus", (0,), (), f"$FORETRACE predict {S} > said", "! grep -q 'instead of' said")
    yield case("problem/27_one_rank", "list gpus", (0,), (), f"$FORETRACE predict {S} --timeline t.json --timeline-ranks 3",
               "grep -q '\"rank 3' t.json && ! grep -q '\"rank 4' t.json")
    yield case("problem/29_list_then_workload", "search --schedules 1f1b $SEEDS/gpt.yaml --platform dgx-a100 --gpus 4 --global-batch 64 "
               "--kernels none --top 1", (0,))
    yield case("problem/30_quoted", ROWS, (0,), (), edit("rows.csv", "2s/^8,64/\"8\",\"64\"/", "r.csv"))
    yield case("problem/30_degree_twice", GENERATE + " 'tp1 tp2 pp2 dp1 mb1 gb8'", (2,), ("'tp' is given twice",))
    yield case("problem/30_batch_twice", GENERATE + " 'tp2 pp2 dp1 mb1 gb16 gb32'", (2,), ("'gb' is given twice",))


def probes(case):
    for name, (command, says, setup) in REFUSED.items():
        yield case(f"probe/{name}", command, (2, 3), says, setup, "test ! -e out || ! ls out | grep -v trace.7.et")
    for name, (command, prints, setup) in FINE.items():
        yield case(f"probe/fine_{name}", command, (0,), (), setup, "", "", prints)
    for name, command in FIRST.items():
        yield case(f"verdict/{name}", "list gpus", (0,), (), f"$FORETRACE {command} > said", "head -1 said | grep -q '^Verdict: '")
    # Prose is read whole, whatever the width.
    yield case("probe/list_prose", "list gpus", (0,), (), "$FORETRACE list platforms > said",
               "! grep -q '\\.\\.\\.' said && grep -q 'rails of 20 nodes' said")
    yield from problems(case)
