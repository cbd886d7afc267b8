"""Hostile cases of choices that contradict, repeat or miss: each was once answered as if one of them had not been
made. And how a command behaves at a terminal, a closed pipe, and while it takes long."""
S = "$SRC/traces/samples/dlrm_8rank"
SERVE = "serve llama3.1-8b --platform dgx-h100 --count 3"
COLLECTIVE = "collective all_reduce --topology dgx-a100 --bytes 1M"
GENERATE = "generate $SEEDS/gpt.yaml --platform dgx-a100 -o out --mapping"
ARCHITECT = "architect gpt-small --space $SEEDS/space.yaml --devices 4 --hbm 32 --global-batch 8"
RUN = "$SRC/tests/data/serving/runs/A100_Llama-3.1-8B"
POWERS = "$SRC/tests/data/calibrate/powers.csv"
PLACE = "place dcgan --backends framework --device v100-sxm2-16gb"
DATAFLOW = "dataflow gpt3-175b --system sn10-8 --forward --batch 64"
SWEEP = f"sweep predict {S} --over cpu-scale=1,2"
NOTHING = "would change nothing"

# Name: command, what the error says, a line of shell before.
REFUSED = {
    "rank_list": (f"predict {S} --timeline x.json --timeline-ranks 7-3", ("--timeline-ranks", "7-3"), ""),
    "step_list": (f"predict {S} --timeline x.json --timeline-steps=-1", ("--timeline-steps",), ""),
    "rank_list_twice": (f"predict {S} --timeline x.json --timeline-ranks 0,0-2", ("--timeline-ranks", "0 is given twice"), ""),
    "rank_list_large": (f"predict {S} --timeline x.json --timeline-ranks 0-99999999999", ("--timeline-ranks",), ""),
    "overhead_ranks": (f"calibrate trace-overheads {S} --ranks 0-99", ("--ranks", "no rank 8"), ""),
    "overhead_rank_words": (f"calibrate trace-overheads {S} --ranks all", ("--ranks", "all"), ""),
    "serving_and_mappings": (f"validate --serving {RUN} --mappings $SEEDS/rows.csv", ("--mappings", NOTHING), ""),
    "serving_and_trace": (f"validate --serving {RUN} --trace {S}", ("--trace", NOTHING), ""),
    "serving_and_cases": (f"validate $SEEDS/cases.yaml --serving {RUN}", ("cases.yaml", NOTHING), ""),
    "mappings_and_trace": (f"validate --mappings $SEEDS/rows.csv --platform dgx-a100 --trace {S}", ("--trace",), ""),
    "cases_and_trace": (f"validate $SEEDS/cases.yaml --trace {S}", ("--trace",), ""),
    "cases_and_mappings": ("validate $SEEDS/cases.yaml --mappings $SEEDS/rows.csv", ("cases.yaml", NOTHING), ""),
    "protocol_hierarchical": (COLLECTIVE + " --algorithm hierarchical --protocol ll", ("--protocol ll", NOTHING), ""),
    "protocol_halving": (COLLECTIVE + " --algorithm halving_doubling --protocol ll128", ("--protocol", NOTHING), ""),
    "protocol_pairs": ("collective all_to_all --topology dgx-a100 --bytes 1M --protocol ll", ("--protocol", NOTHING), ""),
    "protocol_shift": ("collective send_recv --topology dgx-a100 --bytes 1M --protocol ll128", ("--protocol",), ""),
    "bytes_list": ("collective all_reduce --topology dgx-a100 --bytes 1K,1M", ("--bytes '1K,1M'", "first:last", "sweep"), ""),
    "protocol_barrier": ("collective barrier --topology dgx-a100 --protocol ll", ("--protocol", NOTHING), ""),
    "release": ("collective --topology p.yaml --bytes 1M", ("p.yaml:", "library.release"),
                "sed 's/gpu_generation: ampere/&\\n  release: 3.14/' $SEEDS/dgx.yaml > p.yaml"),
    "parallel_twice": (SERVE + " --parallel 'tp2 tp4'", ("--parallel", "'tp' is given twice"), ""),
    "experts_twice": (SERVE + " --parallel 'ep ep'", ("--parallel", "twice"), ""),
    "tier_twice": (SERVE + " --kv-tier cpu:10:10 --kv-tier cpu:20:10", ("--kv-tier", "'cpu' is given twice"), ""),
    "priority_generated": (SERVE + " --policy priority", ("--policy", NOTHING), ""),
    "priority_of_none": ("serve llama3.1-8b --platform dgx-h100 --policy priority --requests $SEEDS/requests.csv",
                         ("--policy", NOTHING), ""),
    "priority_alike": ("serve llama3.1-8b --platform dgx-h100 --policy priority --requests r.csv", ("r.csv", NOTHING),
                       "printf 'arrival_s,input_tokens,output_tokens,priority\\n0,9,9,3\\n1,9,9,3\\n' > r.csv"),
    "column_twice": ("serve llama3.1-8b --platform dgx-h100 --requests r.csv", ("r.csv:1", "arrival_s", "twice"),
                     "printf 'arrival_s,input_tokens,output_tokens,arrival_s\\n0,9,9,3\\n' > r.csv"),
    "power_column_twice": (f"calibrate power p.csv --platform dgx-h200", ("p.csv:1", "'m'", "twice"),
                           f"sed '1s/$/,m/; 2,$s/$/,7/' {POWERS} > p.csv"),
    "power_of_another": (f"calibrate power {POWERS} --platform dgx-a100", ("powers.csv", "700", "400 W"), ""),
    "power_nan": ("calibrate power p.csv --platform dgx-h200", ("p.csv:2", "power_W"),
                  f"sed '2s/134.5/nan/' {POWERS} > p.csv"),
    "power_negative": ("calibrate power p.csv --platform dgx-h200", ("p.csv:2", "power_W"),
                       f"sed '2s/134.5/-4/' {POWERS} > p.csv"),
    "power_limit_none": ("calibrate power p.csv --platform dgx-h200", ("p.csv:2", "power_limit_W"),
                         f"sed '2s/,700/,0/' {POWERS} > p.csv"),
    "power_few": ("calibrate power p.csv --platform dgx-h200", ("p.csv", "too few"), f"head -2 {POWERS} > p.csv"),
    "recompute_twice": (GENERATE + " 'tp2 pp2 dp1 mb1 gb64 none full'", ("recomputation", "twice"), ""),
    "schedule_twice": (GENERATE + " 'tp2 pp2 dp1 mb1 gb64 gpipe 1f1b'", ("schedule", "twice"), ""),
    "prefix_line": (f"convert {S} -o out --prefix $'a\\nb'", ("--prefix",), ""),
    "prefix_escape": (f"convert {S} -o out --prefix $'a\\x1bb'", ("--prefix",), ""),
    "as_control": ("calibrate collective $SEEDS/lab.csv -o out --as $'a\\tb'", ("--as",), ""),
    "explore_page": ("explore dfmodel-fft -o out --html out/index.html", ("--html", "out"), ""),
    "explore_page_dots": ("explore dfmodel-fft -o ./out/ --html out//index.html", ("--html",), ""),
    "explore_tables": ("explore dfmodel-fft -o made --csv made/", ("--csv", "made"), "mkdir made"),
    "one_file_two_spellings": (f"predict {S} --html ./x --timeline x", ("x",), ""),
    "architect_page": (ARCHITECT + " -o out --html out/index.html", ("--html",), ""),
    "hysteresis": (ARCHITECT + " --hysteresis 3", ("--hysteresis", NOTHING), ""),
    "hysteresis_compare": (ARCHITECT + " --search hysteresis --compare", ("--compare", NOTHING), ""),
    "cycles": (DATAFLOW + " --cycles --utilisation 0.5", ("--cycles", "--utilisation"), ""),
    "test_of_fit": ("calibrate collective $SEEDS/lab.csv --test $SEEDS/lab.csv", ("lab.csv", "--hold-out"), ""),
    "test_of_fit_linked": ("calibrate collective $SEEDS/lab.csv --test other.csv", ("other.csv",),
                           "ln -s $SEEDS/lab.csv other.csv"),
    "run_twice": (f"calibrate serving {RUN} {RUN}/../A100_Llama-3.1-8B", ("given twice",), ""),
    "sweep_timeline": (SWEEP + " --timeline x.json", ("--timeline x.json", "{cpu-scale}"), ""),
    "sweep_equals": (SWEEP + " --timeline=x.json", ("--timeline x.json", "{cpu-scale}"), ""),
    "sweep_folder": ("sweep generate $SEEDS/gpt.yaml --platform dgx-a100 --mapping 'tp1 pp1 dp1 mb1 gb1' -o out "
                     "--over launch-us=1,2", ("-o out", "{launch-us}"), ""),
    "sweep_half_named": (SWEEP + " --over top=1,2 --timeline x{top}.json", ("{cpu-scale}",), ""),
    "sweep_twice": (SWEEP + " --over cpu-scale=3", ("cpu-scale is given twice",), ""),
    "sweep_itself": (f"sweep sweep predict {S} --over cpu-scale=1,2", ("sweep",), ""),
    "sweep_falling": (f"sweep predict {S} --over cpu-scale=2:1", ("2:1",), ""),
    "sweep_still": (f"sweep predict {S} --over cpu-scale=1:2:0", ("1:2:0",), ""),
    "sweep_many": (f"sweep predict {S} --over cpu-scale=1:2:1e-9", ("1:2:1e-9",), ""),
    "sweep_value": (SWEEP + " --value ranks[99].busy_us", ("--value", "ranks[99].busy_us"), ""),
    "sweep_value_list": (SWEEP + " --value ranks", ("--value", "ranks"), ""),
    "sweep_fact": (f"sweep {COLLECTIVE} --over links.nosuch.bandwidth_GBps=1,2", ("links.nosuch",), ""),
    "sweep_fact_zero": (f"sweep {COLLECTIVE} --over links.nvlink3.bandwidth_GBps=0", ("bandwidth_GBps",), ""),
    "sweep_and_given": (SWEEP + " --cpu-scale 3", ("cpu-scale",), ""),
    "energy_unnamed": (f"predict {S} --energy", ("--energy", "power"), ""),
    "energy_on": ("predict $SEEDS/kineto/k.json --energy --on dgx-h100", ("--energy", "--on"), ""),
    "memory_unrecorded": (f"predict {S} --memory", ("profile_memory=True",), ""),
    "memory_if_alone": (f"predict {S} --memory-if recompute", ("--memory",), ""),
    "ranks_unplaced": (f"predict {S} --ranks 1048576 --platform dgx-a100", ("dgx-a100", "1048576"), ""),
    "ranks_group": (f"predict {S} --ranks 64 --platform dgx-a100 --data-parallel nosuch", ("nosuch",), ""),
    "ranks_regex": (f"predict {S} --ranks 64 --platform dgx-a100 --data-parallel '('", ("--data-parallel",), ""),
    "place_twice": (PLACE.replace("framework", "framework,framework"), ("framework", "twice"), ""),
    "place_launch": (PLACE + " --launch nan", ("--launch",), ""),
    "place_explain": (PLACE + " --explain nosuch", ("--explain", "nosuch"), ""),
    "place_level": (PLACE + " --graph-level tvm", ("--graph-level",), ""),
    "place_seed": (PLACE + " --seed 3", ("--seed", "--graph-level"), ""),
    "shard_compare": ("shard $SEEDS/task.yaml --sharders naive --compare naive random", ("random",), ""),
    "shard_traces_of": ("shard $SEEDS/task.yaml --sharders naive --traces-of random --write-traces o", ("random",), ""),
    "architect_weights": (ARCHITECT + " --weights 1,2", ("--weights",), ""),
    "architect_width": (ARCHITECT + " --widths 3", ("width 3",), ""),
    "architect_samples": (ARCHITECT + " --samples 3", ("--samples", NOTHING), ""),
    "dataflow_sizes": (DATAFLOW + " --sizes-only", ("--sizes-only",), ""),
    "dataflow_device": (DATAFLOW + " --device a100-sxm4-80gb", ("--device",), ""),
    "serve_rate_and_users": (SERVE + " --concurrency 5 --rate 3", ("--rate", NOTHING), ""),
    "serve_tier_negative": (SERVE + " --kv-tier cpu:-1:10", ("--kv-tier",), ""),
    "serve_beyond_context": (SERVE + " --input 200000", ("131072", "shorten it"), ""),
    "serve_on_a_gpu": ("serve llama3.1-8b --platform h100 --count 3", ("h100", "that have it: dgx-h100"), ""),
    "table_compressed": ("calibrate collective l.csv.gz", ("l.csv.gz", "is compressed", "gzip -d"),
                         "gzip -c $SEEDS/lab.csv > l.csv.gz"),
    "serve_acceptance": (SERVE + " --speculate sequence:4:nan", ("acceptance",), ""),
    "serve_arrival": ("serve llama3.1-8b --platform dgx-h100 --requests r.csv", ("r.csv:2", "arrival_s"),
                      "printf 'arrival_s,input_tokens,output_tokens\\n1e300,5,5\\n' > r.csv"),
    "serve_tokens_half": ("serve llama3.1-8b --platform dgx-h100 --requests r.csv", ("r.csv:2", "input_tokens"),
                          "printf 'arrival_s,input_tokens,output_tokens\\n1,5.5,5\\n' > r.csv"),
    "diff_both": (f"diff {S} {S} --what-if name=gemm:x2", ("--what-if",), ""),
    "diff_alone": (f"diff {S}", ("--what-if",), ""),
    "traces_twice": (f"predict {S} {S}", ("dlrm.0.et",), ""),
    "loop_of_folders": ("predict .", ("folders deep",), f"cp {S}/*.et .; ln -s . loop"),
    "answer_into_file": (f"predict {S} --csv f", ("f:",), "touch f"),
    "answer_into_device": (f"predict {S} --csv /dev/null", ("/dev/null",), ""),
    "page_full": (f"predict {S} --html /dev/full", ("/dev/full",), ""),
    "page_over_input": ("predict k.json --html k.json", ("k.json",), "cp $SEEDS/kineto/k.json k.json"),
    "page_and_timeline": (f"predict {S} --html x --timeline x", ("x",), ""),
    "page_and_tables": (f"predict {S} --html x --csv x", ("x",), ""),
}
DATES = ("2026-13-01", "2026-02-30", "2026-1-1", "tomorrow", "20260101", "-026-01-01", "2026-01-1 ", "2026-01-01T00:00")
# Allowed, though one may wonder.
FINE = {
    "serve_long_prompts": (SERVE + " --input 20000", ""),
    "platform_in_capitals": ("serve Llama3.1-8B --platform DGX-H100 --count 3", ""),
    "sweep_named": (SWEEP + " --timeline x{cpu-scale}.json", "test -s x1.json && test -s x2.json"),
    "sweep_one_fails": (f"sweep {COLLECTIVE} --over ranks=2,x,8 --html page.html", "grep -q '2 of 3 points can be met, 1 failed' page.html"),
    "sweep_one_point": (f"sweep predict {S} --over cpu-scale=2 --timeline x.json", "test -s x.json"),
    "page_beside": ("explore dfmodel-fft -o out --html out/page.html --csv out/tables",
                    "test -s out/page.html && test -s out/index.html && test -d out/tables"),
    "date": (f"calibrate trace-overheads {S} -o o.yaml --date 2024-02-29", "grep -q 2024-02-29 o.yaml"),
    "protocol_ring": (COLLECTIVE + " --algorithm ring --protocol ll", ""),
    "protocol_rooted": ("collective broadcast --topology dgx-a100 --bytes 1M --protocol ll", ""),
    "priorities": ("serve llama3.1-8b --platform dgx-h100 --policy priority --requests r.csv", ""),
    "no_utf8_path": (f"predict $'\\xff\\xfe' --html $'\\xfd.html'", "test -s $'\\xfd.html'"),
}
FINE_SETUP = {
    "priorities": "printf 'arrival_s,input_tokens,output_tokens,priority\\n0,9,9,3\\n1,9,9,0\\n' > r.csv",
    "no_utf8_path": f"cp -r {S} $'\\xff\\xfe'",
}
TERMINAL = "script -qc \"env {} $FORETRACE predict " + S + " --top 3\" /dev/null < /dev/null > said"
SLOW = "(sleep {}; cat $SEEDS/kineto/k.json) | "


def choices(case):
    for name, (command, says, setup) in REFUSED.items():
        yield case(f"choice/{name}", command, (2, 3), says, setup,
                   "test ! -e out && test ! -e x.json && ! ls | grep -q '^o$'")
    for number, date in enumerate(DATES):
        for kind, command in (("overheads", f"calibrate trace-overheads {S} -o o.yaml"),
                              ("power", f"calibrate power {POWERS} --platform dgx-h200 -o o.yaml"),
                              ("collective", "calibrate collective $SEEDS/lab.csv -o o.yaml")):
            yield case(f"choice/date_{kind}{number}", f"{command} --date '{date}'", (2,), ("--date",), "",
                       "test ! -e o.yaml")
    for name, (command, check) in FINE.items():
        yield case(f"choice/fine_{name}", command, (0,), (), FINE_SETUP.get(name, ""), check)
    # Escapes for a terminal that has them, and wants them.
    for name, variables, wanted in (("colour", "TERM=xterm NO_COLOR=", "grep"), ("plain", "NO_COLOR=1", "! grep"),
                                    ("dumb", "TERM=dumb", "! grep")):
        yield case(f"terminal/{name}", "list gpus", (0,), (), TERMINAL.format(variables),
                   f"grep -q Verdict said && {wanted} -q $'\\x1b' said")
    # What takes long says so; nobody has to read it.
    yield case("terminal/patience", "list gpus", (0,), (),
               "script -qc \"sh -c '(sleep 4; cat $SEEDS/kineto/k.json) | $FORETRACE inspect - > o'\" /dev/null "
               "< /dev/null > said", "grep -q 'working, 3 s' said && grep -q kineto o")
    yield case("terminal/lines", "list gpus", (0,), (),
               SLOW.format(11) + "$FORETRACE inspect - > o 2> said", "grep -qx 'foretrace: working, 10 s so far' said")
    yield case("terminal/unread", "list gpus", (0,), (),
               SLOW.format(11) + "$FORETRACE inspect - 2> >(exec true) > o; echo $? > code", "grep -qx 0 code && grep -q kineto o")
    yield case("terminal/closed", "list gpus", (0,), (),
               f"$FORETRACE predict {S} >&- 2> said; echo $? > code", "grep -qx 2 code && grep -q 'standard output' said")
    yield case("terminal/no_error_stream", f"predict {S} 2>&-", (0,))
    yield case("terminal/no_input", f"predict {S} <&-", (0,))
    # Drawings are XML whatever things are called.
    odd = r'"a\\x01\\x1b<\&>\\"b"'
    parsed = "python3 -c 'import xml.dom.minidom as m; m.parse(\"x.svg\")'"
    for name, command, setup in (
            ("place", "place n.yaml --backends framework --device v100-sxm2-16gb --svg x.svg",
             f"sed 's/name: d[.]sigmoid,/name: {odd},/; s/^name: .*/name: {odd}/' $SEEDS/network.yaml > n.yaml"),
            ("shard", "shard t.yaml --sharders naive --svg x.svg",
             f"sed 's/^name: .*/name: {odd}/; s/name: cities/name: {odd}/' $SEEDS/task.yaml > t.yaml"),
            ("search", "search w.yaml --platform dgx-a100 --gpus 4 --global-batch 64 --kernels none --max-chunks 1 --svg x.svg",
             f"sed 's/^name: .*/name: {odd}/' $SEEDS/gpt.yaml > w.yaml")):
        yield case(f"drawing/{name}", command, (0,), (), setup, f"test -s x.svg && {parsed}")
    # Who does not communicate has no times of it.
    yield case("report/no_communication", "predict $SEEDS/kineto/k.json", (0,), (), "", "", "",
               ("-        -         -         -",))
    # Errors of libraries do not reach the terminal by themselves.
    yield case("calibration/bad_utf8", "predict $SEEDS/kineto/k.json --durations model --platform dgx-a100 --calibration c",
               (2,), ("c/kernels.pb",), "cp -r $SEEDS/calibration c; python3 -c 'p = \"c/kernels.pb\"; d = open(p, \"rb\").read(); "
               "i = d.find(b\"a100\"); open(p, \"wb\").write(d[:i] + bytes([255, 254, 27]) + d[i + 3:])'")
    # The size of a micro-batch matters to how well GEMMs fill the device.
    yield case("search/micro_batch", "list gpus", (0,), (),
               "$FORETRACE search gpt-small --platform dgx-a100 --global-batch 64 --compare 'tp1 pp1 dp16 mb1' "
               "'tp1 pp1 dp16 mb4' > o", "grep 'iteration ms' o && ! grep -q 'iteration ms.*+0.000' o")
    # One device is looked up once, not once a GEMM.
    yield case("large/GEMMs", "predict k.json --durations model --platform dgx-a100", (0,), (),
               "PYTHONPATH=$SRC/tests/hostile python3 -c 'import files, json; d = json.loads(files.kineto()); "
               "e = d[\"traceEvents\"]; d[\"deviceProperties\"][0][\"name\"] = \"NVIDIA A100-SXM4-40GB\"; "
               "mine = [x for x in e if x.get(\"ts\", 0) < 400 and x[\"ph\"] == \"X\" and \"ProfilerStep\" not in x[\"name\"]]; "
               "e += [{**x, \"ts\": x[\"ts\"] + 2000.0 * n, \"args\": {**x[\"args\"], **{k: 1000 + 10 * n + x[\"args\"][k] % 10 "
               "for k in (\"correlation\", \"External id\") if k in x[\"args\"]}}} for n in range(1, 6000) for x in mine "
               "if \"Synchronize\" not in x[\"name\"]]; print(json.dumps(d))' > k.json")
