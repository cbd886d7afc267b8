"""Hand-made hostile cases of what is written and how it is said: tables that other programs read, the verdict
first, what is twice or beyond a table's header, YAML of several documents, parts that are not installed."""

S = "$SRC/traces/samples/dlrm_8rank"
SPACE = "$SRC/tests/golden/architect_small/space.yaml"
STUDY = "$SRC/traces/workloads/studies/dfmodel-fft.yaml"
SEARCH = "search $SEEDS/gpt.yaml --platform dgx-a100 --gpus 4 --global-batch 64 --kernels none --max-chunks 1"
SERVE = "serve llama3.1-8b --platform dgx-h100 --count 3"
ARCHITECT = f"architect gpt-small --space {SPACE} --devices 16 --hbm 32 --global-batch 64"
ODD = 'a, "b" c'
# Every row of every table has as many fields as its header, and one field is the odd name.
READ = "python3 $SRC/tests/hostile/read_csv.py"

TABLES = {
    "explore": ("explore s.yaml -o o", f"sed 's/^  - {{name: fft-1t/  - {{name: fft-1t/; s/name: fft-1t/name: \"a, \\\\\"b\\\\\" c\"/; "
                f"s/name: tpu/name: \"a, \\\\\"b\\\\\" c\"/; s/name: overlap/name: \"a, \\\\\"b\\\\\" c\"/' {STUDY} > s.yaml",
                "o/points.csv"),
    "designs": ("architect w.yaml --space $SRC/tests/golden/architect_small/space.yaml --devices 4 --hbm 32 --global-batch 8 -o o",
                f"sed 's/^name: .*/name: \"a, \\\\\"b\\\\\" c\"/' $SEEDS/gpt.yaml > w.yaml", "o/designs.csv"),
    "predict": ("predict k.json --csv o", "sed 's/ampere_sgemm/a, \\\\\"b\\\\\" c/' $SEEDS/kineto/k.json > k.json", "o/*.csv"),
    "kernels": ("inspect k.json --kernels --csv o", "sed 's/ampere_sgemm/a, \\\\\"b\\\\\" c/' $SEEDS/kineto/k.json > k.json", "o/*.csv"),
    "search": ("search w.yaml --platform dgx-a100 --gpus 4 --global-batch 64 --kernels none --max-chunks 1 --csv o",
               f"sed 's/^name: .*/name: \"a, \\\\\"b\\\\\" c\"/' $SEEDS/gpt.yaml > w.yaml", "o/*.csv"),
    "durations": ("validate --trace k.json --durations model --platform dgx-a100 --rows o.csv",
                  "sed 's/ampere_sgemm/a, \\\\\"b\\\\\" c/' $SEEDS/kineto/k.json > k.json", "o.csv"),
    "rows": ("calibrate collective l.csv --rows o.csv", "sed '4,$s/,nccl,made/,\"a, \"\"b\"\" c\",made/' $SEEDS/lab.csv > l.csv", "o.csv"),
    "shard": ("shard t.yaml --sharders naive --csv o",
              "sed 's/name: user_history/name: \"a, \\\\\"b\\\\\" c\"/' $SEEDS/task.yaml > t.yaml",
              "o/*.csv"),
}

VERDICTS = {
    "search": SEARCH, "compare": "search gpt-small --platform dgx-a100 --global-batch 64 --compare 'tp1 pp1 dp16 mb1' 'tp1 pp1 dp16 mb4'",
    "sweep": f"sweep predict {S} --over cpu-scale=1,2",
    "validate": f"validate --trace {S}", "cases": "validate $SEEDS/cases.yaml",
    "mappings": "validate --mappings $SEEDS/rows.csv --platform dgx-a100",
    "training": "validate --mappings $SEEDS/training.csv --platform dgx-h100", "serve": SERVE,
    "serve_search": SERVE + " --search --gpus 2", "shard": "shard $SEEDS/task.yaml --sharders naive",
    "study": "shard-study $SEEDS/task.yaml", "place": "place dcgan --backends framework --device v100-sxm2-16gb",
    "dataflow": "dataflow gpt3-175b --system sn10-8 --forward --batch 64", "diff": f"diff {S} --what-if name=gemm:x2",
    "predict": "predict $SEEDS/kineto/k.json",
}
# Not installed: said, not taken for a verdict on what was asked for.
PARTS = {
    "collective": ("calibrate collective $SEEDS/lab.csv", "ceres"),
    "simgrid": ("collective all_reduce --topology dgx-a100 --bytes 1M --network simgrid", "simgrid"),
    "ilp": ("shard $SEEDS/task.yaml --sharders ilp", "cbc"),
    "architect": (ARCHITECT, "cbc"),
    "archive": ("inspect $SEEDS/tar/t.tar.gz", "archive"),
}
TWICE = {
    "schedules": (SEARCH + " --schedules gpipe,gpipe", "gpipe"), "dispatches": (SEARCH + " --dispatch deepep,deepep", "deepep"),
    "searchers": (SEARCH + " --searcher piper,piper", "piper"),
    "sharders": ("shard $SEEDS/task.yaml --sharders naive,random,naive", "naive"), "widths": (ARCHITECT + " --widths 1,2,1", "1"),
    "micro_batches": (ARCHITECT + " --micro-batches 2,2", "2"), "hbm": (ARCHITECT.replace("--hbm 32", "--hbm 16,16"), "16"),
    "without": (f"predict {S} --without rank-sync,rank-sync", "rank-sync"),
    "swept": (f"sweep predict {S} --over cpu-scale=1,2,1", "1"),
}
# What stands where one document is read.
DOCUMENTS = {
    "platform": ("dgx.yaml", "inspect x.yaml"), "workload": ("gpt.yaml", SEARCH.replace("$SEEDS/gpt.yaml", "x.yaml")),
    "task": ("task.yaml", "shard x.yaml --sharders naive"), "groups": ("groups.yaml", f"predict {S} --process-groups x.yaml"),
    "cases": ("cases.yaml", "validate x.yaml"), "overheads": ("overheads.yaml", f"predict {S} --overheads x.yaml"),
    "engine": ("vllm.yaml", SERVE + " --engine x.yaml"), "system": ("sn10-8.yaml", "dataflow gpt3-175b --system x.yaml --forward --batch 64"),
    "mapping": ("mapping.yaml", "generate $SEEDS/gpt.yaml --platform dgx-a100 --mapping x.yaml -o out"),
    "network": ("network.yaml", "place x.yaml --backends framework --device v100-sxm2-16gb"),
}


def written(case):
    for name, (command, setup, tables) in TABLES.items():
        yield case(f"written/{name}", command, (0,), (), setup, f"{READ} '{ODD}' {tables}")
    for name, command in VERDICTS.items():
        yield case(f"verdict/{name}", "list gpus", (0,), (), f"$FORETRACE {command} > said", "head -1 said | grep -q '^Verdict: '")
    for name, (command, part) in PARTS.items():
        yield case(f"missing/{name}", "list gpus", (0,), (),
                   f"FORETRACE_MODULES=/nonexistent $FORETRACE {command} > o 2> said; echo $? > code",
                   f"grep -qx 3 code && test $(wc -l < said) = 1 && grep -q 'module {part} is not installed' said" if name != "ilp" else
                   f"cat o said | tr '\\n' ' ' | grep -q 'module {part} is not'")
    for name, (command, value) in TWICE.items():
        yield case(f"twice/list_{name}", command, (2,), (value, "twice"), "", "test ! -e out")
    for name, (seed, command) in DOCUMENTS.items():
        yield case(f"documents/{name}", command, (2,), ("x.yaml", "second YAML document"),
                   f"(cat $SEEDS/{seed}; echo '---'; echo 'nodes: 9') > x.yaml", "test ! -e out")
        yield case(f"documents/{name}_after", command, (2,), ("x.yaml", "second YAML document"),
                   f"(cat $SEEDS/{seed}; echo '...'; echo garbage) > x.yaml", "test ! -e out")
        if name != "groups":  # of no use to that recording
            yield case(f"documents/{name}_one", command, (0,), (), f"(echo '---'; cat $SEEDS/{seed}; echo '---') > x.yaml")
    for value in ("010", "-010", "00", "+07"):
        yield case(f"documents/octal{value}", "inspect x.yaml", (2,), ("x.yaml:", "nodes"),
                   f"sed 's/^nodes: .*/nodes: {value}/' $SEEDS/dgx.yaml > x.yaml")
    for name, lines, says in (("wide", "1,5,5,9", "4 values"), ("wider", "1,5,5\\n2,5,5,,,", "r.csv:3"), ("short", "1,5", "output_tokens")):
        yield case(f"requests/{name}", "serve llama3.1-8b --platform dgx-h100 --requests r.csv", (2,), ("r.csv:", says),
                   f"printf 'arrival_s,input_tokens,output_tokens\\n{lines}\\n' > r.csv")
    for option in ("--ttft 0", "--tpot 0", "--e2e 0", "--concurrency 0"):
        yield case(f"number/serve_{option.replace(' ', '_')}", f"{SERVE} {option}", (2,), (option.split()[0],))
    yield case("report/one_token", "list gpus", (0,), (), f"$FORETRACE {SERVE} --output 1 > said",
               "grep -q TTFT said && ! grep -q TPOT said && ! grep -q '0.00  *0.00  *0.00' said")
    yield case("report/nothing_fitted", "list gpus", (0,), (),
               "$FORETRACE collective --topology dgx-a100 --measured $SEEDS/lab.csv > said", "grep -q all_reduce said && ! grep -qE 'fitted|held' said")
    yield case("report/no_case", "list gpus", (0,), (), f"$FORETRACE validate --trace {S} > said",
               "! grep -q '^case' said && test $(grep -c '^$' said) -le 3")
    yield case("report/swept_names", "list gpus", (0,), (),
               "$FORETRACE sweep search gpt-small --platform dgx-a100 --global-batch 64 --over gpus=2,4 --scaling strong > said",
               "grep -q 'tp1 pp1 dp2 mb16 v1 none zero1' said")
    yield case("nothing/model_for", f"predict {S} --platform dgx-a100 --durations model-for=name=zzz", (2,),
               ("--durations", "would change nothing"))
    yield case("nothing/compared_plans", "shard $SEEDS/task.yaml --sharders naive,random --compare naive naive", (2,), ("--compare",))
    for option, command in (("--svg", "shard $SEEDS/task.yaml --sharders naive"), ("--svg", SEARCH),
                            ("--picture", "dataflow gpt3-175b --system sn10-8 --forward --batch 64"),
                            ("--flamegraph", f"predict {S} --by op"), ("--svg", "place dcgan --backends framework --device v100-sxm2-16gb")):
        for ending in ("png", "pdf", "jpeg"):
            yield case(f"drawing/{command.split()[0]}_{ending}", f"{command} {option} x.{ending}", (2,), (option, f"x.{ending}", ".svg"),
                       "", f"test ! -e x.{ending}")
