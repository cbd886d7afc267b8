"""The hand-made hostile cases: every slot of every command with every kind of damaged file, every
numeric option with every number that is none, every output with every place that is not to be
written, and the slips of the command line. Each says what must come of it."""
from dataclasses import dataclass

from adversary import adversary
from choices import choices
from combinations import combinations
from probes import probes
from slots import S, SEARCH, COLLECTIVE, SLOTS, PLACES, NUMBERS, NUMERIC, OUTPUTS, FOLDERS
from written import written


@dataclass
class Case:
    name: str
    command: str                 # of foretrace; FILE is the hostile file or place
    exits: tuple = (2, 3)        # what is right
    says: tuple = ()             # all of these stand in standard error
    setup: str = ""              # a line of shell, run before in the case's folder
    check: str = ""              # a line of shell that must succeed afterwards
    names_file: str = ""         # error must name it
    stdout: tuple = ()


def file_cases(damage):
    for slot, command in SLOTS.items():
        for kind in damage:
            if slot.endswith("journal") and kind == "empty":
                continue  # a new one
            if slot == "accelerator":  # named by a platform beside it
                yield Case(f"{slot}/{kind}", command, names_file="bad.yaml",
                           setup=f"cp $BAD/{kind} bad.yaml; sed 's,accelerator: .*,accelerator: ./bad.yaml,' "
                                 "$SEEDS/dgx.yaml > dgx.yaml")
                continue
            yield Case(f"{slot}/{kind}", command.replace("FILE.yaml", "bad.yaml")
                       .replace("FILE", "bad.file"),
                       setup=f"cp $BAD/{kind} bad.{'yaml' if 'FILE.yaml' in command else 'file'}",
                       names_file="bad.", check="test ! -e out")
        for place, (setup, name) in PLACES.items():
            if slot in ("mapping", "compare") and place in ("missing", "long"):
                continue  # words, not a file
            if slot in ("platform", "accelerator", "network", "backend"):
                continue  # known by its ending alone
            if slot in ("trace", "inspect", "convert", "validate_trace", "trace_overheads",
                        "template") and place == "folder":
                setup, name = "mkdir place.d", "place.d"
            if slot.endswith("journal") and place in ("missing", "dangling", "empty"):
                continue  # a new one
            yield Case(f"{slot}/{place}", command.replace("FILE", name), setup=setup,
                       names_file=name[:40], check="test ! -e out")


def number_cases():
    for command, options in NUMERIC.items():
        for option in options:
            for number in NUMBERS:
                if option == "--iteration" and "convert" in command and number == "":
                    continue
                yield Case(f"number/{command.split()[0]}{option}={number}",
                           f"{command} {option}={number}", exits=(2,), says=("--",))


def output_cases():
    in_place = ("test ! -e out", "", "")
    for slot, command in OUTPUTS.items():
        place = lambda name: command.replace("FILE", name)
        tidy = "! ls -A | grep -q tmp"
        yield Case(f"output/{slot}/null", place("null"), (0,), (), "mknod null c 1 3 || ln -s /dev/null null",
                   f"test -c null && {tidy}")
        yield Case(f"output/{slot}/link", place("link"), (0,), (), "echo old > real; ln -s real link",
                   f"test -L link && test -s real && ! grep -q old real && {tidy}")
        yield Case(f"output/{slot}/dangling", place("link"), (0,), (), "ln -s real link",
                   f"test -L link && test -s real && {tidy}")
        yield Case(f"output/{slot}/folder", place("dir"), (2,), ("dir",), "mkdir dir",
                   f"test -z \"$(ls -A dir)\" && {tidy}")
        yield Case(f"output/{slot}/nowhere", place("no/such/file"), (2,), ("no/such/file",), "",
                   "test ! -e no")
        yield Case(f"output/{slot}/full", place("/dev/full"), (2,), ("/dev/full",), "", tidy)
        yield Case(f"output/{slot}/pipe", place("pipe"), (2,), ("pipe",), "mkfifo pipe",
                   "test -p pipe")
        yield Case(f"output/{slot}/loop", place("loop"), (2,), ("loop",), "ln -s loop loop", tidy)
        yield Case(f"output/{slot}/empty", place("''"), (2,), (), "", tidy)
    for slot, command in FOLDERS.items():
        yield Case(f"output/{slot}/file", command.replace("FILE", "taken"), (2,), ("taken",),
                   "echo mine > taken", "grep -q mine taken")
        yield Case(f"output/{slot}/below_file", command.replace("FILE", "taken/x"), (2,), ("taken",),
                   "echo mine > taken", "grep -q mine taken")
        yield Case(f"output/{slot}/empty", command.replace("FILE", "''"), (2,))
        yield Case(f"output/{slot}/null", command.replace("FILE", "/dev/null"), (2,), ("/dev/null",),
                   "", "test -c /dev/null")
        yield Case(f"output/{slot}/whole", command.replace("FILE", "made"), (0,), (), "",
                   "! find made -name '.*' -type f | grep . && ! find . -name '*tmp*' | grep .")


def slips():
    copy = "cp $SEEDS/kineto/k.json k.json"
    yield Case("input/timeline_over_trace", "predict k.json --timeline k.json", (2,), ("k.json",),
               copy, "cmp k.json $SEEDS/kineto/k.json")
    day, counted = "more than the day that can be simulated", "at most 8 TiB a transfer"
    for tier, why in (("fitted", day), ("fluid", day), ("simgrid", counted)):
        yield Case(f"saturated/collective_{tier}",
                   f"{COLLECTIVE} --bytes 8000000T --network {tier} --json", (3,), (why,))
    for name, size, exits in (("allocation", "9000000000000000000", (0, 3)), ("least", "-9223372036854775808", (0, 3))):
        yield Case(f"saturated/memory_{name}", "predict m.json --memory --memory-if micro-batch=x1000000 --json", exits, (),
                   f"sed 's/\"Bytes\": 100000000/\"Bytes\": {size}/' $SRC/tests/data/profile/modules.json > m.json")
    for number, change in enumerate(("micro-batch=x1e400", "micro-batch=xnan", "zero=3/99999999999", "zero=1/0", "recompute=(",
                                     "recompute=[", "segments=0", "segments=99999999999", "=", "")):
        yield Case(f"slips/memory_if_{number}",
                   f"predict $SRC/tests/data/profile/modules.json --memory --memory-if '{change}'", (2,), ("--memory-if",))
    yield Case("saturated/simgrid_units", f"{COLLECTIVE} --bytes 400T --network simgrid --json", (3,), (counted,))
    yield Case("large/pairs", "collective all_to_all --topology dragonfly-1056 --bytes 16M --json", (3,),
               ("1114080 pairs", "--network fitted"))
    yield Case("large/tasks", "shard-tasks $SEEDS/locality.txt -o out --platform dgx-a100:128 --gpus 1024", (3,),
               ("1024 GPUs", "more memory"), "", "test ! -e out")
    yield Case("nothing/search_seed", SEARCH + " --searcher exhaustive --seed 7", (2,), ("--seed", "local"))
    yield Case("nothing/search_steps", SEARCH + " --compare 'tp2 pp2 dp1 mb1' 'tp1 pp1 dp4 mb1' --steps 7", (2,),
               ("--steps", "--compare"))
    yield Case("mapping/offload_weights", SEARCH + " --compare 'dp4 mb1 zero2 offload offload-weights' 'dp4 mb1'", (3,),
               ("offload-weights needs offload, zero3",))
    yield Case("mapping/offload_host", SEARCH.replace("dgx-a100", "paper-4xa100") +
               " --compare 'dp4 mb1 zero2 offload' 'dp4 mb1'", (3,), ("node.host_memory_GBps",))
    yield Case("nothing/shard_seed", "shard $SEEDS/task.yaml --sharders naive --seed 7", (2,), ("--seed", "random"))
    yield Case("nothing/form", "calibrate collective $SEEDS/lab.csv --form curve --adapt "
               "$SEEDS/calibration/collectives.yaml", (2,), ("--form", "--adapt"))
    yield Case("nothing/calibrate_seed", "calibrate collective --calibration $SEEDS/calibration/collectives.yaml "
               "--test $SEEDS/lab.csv --seed 7", (2,), ("--seed", "--calibration"))
    yield Case("nothing/overheads_groups", f"calibrate trace-overheads {S} --process-groups g.yaml", (2,),
               ("--process-groups",))
    yield Case("nothing/delay", f"predict {S} --what-if name=gemm,rank=4:delay=1ms", (2,), ("delay=", "rank="))
    yield Case("nothing/set_twice", f"predict {S} --what-if name=gemm:x2 --what-if kind=kernel:=5us", (2,), ("name=gemm:x2", "would change nothing"))
    yield Case("what_if/set_then_scaled", f"predict {S} --what-if kind=kernel:=5us --what-if name=gemm:x2", (0,), ())
    yield Case("saturated/what_if", f"predict {S} --json" + 4 * " --what-if :x1000000", (3,),
               ("takes over 26.7 days",))
    yield Case("input/timeline_over_link", "predict k.json --timeline l", (2,), ("l",),
               copy + "; ln -s k.json l", "cmp k.json $SEEDS/kineto/k.json")
    yield Case("input/timeline_over_hard_link", "predict k.json --timeline l", (2,), ("l",),
               copy + "; ln k.json l", "cmp k.json $SEEDS/kineto/k.json")
    yield Case("input/timeline_in_folder", "predict d --timeline d/k.json", (2,), ("k.json",),
               "mkdir d; cp $SEEDS/kineto/k.json d", "cmp d/k.json $SEEDS/kineto/k.json")
    yield Case("input/convert_onto_itself", "convert d -o d --prefix trace", (2,), ("trace.0.et",),
               "cp -r $SEEDS/chakra d", "cmp d/trace.0.et $SEEDS/chakra/trace.0.et")
    yield Case("input/convert_beside_itself", "convert d -o d --prefix other", (2,), ("trace.0.et", "another folder"),
               "cp -r $SEEDS/chakra d", "test ! -e d/other.0.et")
    yield Case("input/generate_beside_workload", "generate g.yaml --platform dgx-a100 --mapping 'tp1 pp1 dp2 mb1 gb2' -o .",
               (0,), (), "cp $SEEDS/gpt.yaml g.yaml", "test -e trace.1.et")
    yield Case("input/plan_over_task", "shard t.yaml --sharders naive --output t.yaml", (2,),
               ("t.yaml",), "cp $SEEDS/task.yaml t.yaml", "cmp t.yaml $SEEDS/task.yaml")
    yield Case("input/mapping_over_workload",
               SEARCH.replace("$SEEDS/gpt.yaml", "w.yaml") + " -o w.yaml", (2,), ("w.yaml",),
               "cp $SEEDS/gpt.yaml w.yaml", "cmp w.yaml $SEEDS/gpt.yaml")
    yield Case("input/rows_over_table", "calibrate collective l.csv --hold-out every-third --rows l.csv",
               (2,), ("l.csv",), "cp $SEEDS/lab.csv l.csv", "cmp l.csv $SEEDS/lab.csv")
    yield Case("input/workload_over_trace", "convert k.json --workload k.json", (2,), ("k.json",),
               copy, "cmp k.json $SEEDS/kineto/k.json")
    yield Case("input/two_outputs_one_file", SEARCH + " --svg x --timeline x", (2,), ("x",), "",
               "test ! -e x")
    yield Case("outside/prefix", "convert $SEEDS/kineto/k.json -o out --prefix ../x", (2,),
               ("--prefix",), "", "! ls | grep x")
    yield Case("outside/prefix_hidden", "convert $SEEDS/kineto/k.json -o out --prefix .x", (2,),
               ("--prefix",))
    yield Case("outside/generate", "generate $SEEDS/gpt.yaml --platform dgx-a100 --mapping "
               "'tp2 pp2 dp1 mb1 gb64' -o out --prefix ../x", (2,), ("--prefix",), "", "! ls | grep x")
    yield Case("outside/as", "calibrate collective $SEEDS/lab.csv -o out --as ../../evil", (2,),
               ("--as",), "", "test ! -e out")
    yield Case("outside/linked_rank", "convert $SEEDS/kineto/k.json -o out", (2,), ("trace.0.et",),
               "mkdir out; echo mine > other; ln -s ../other out/trace.0.et", "grep -q mine other")
    # Traces
    yield Case("trace/execution_trace_alone", "predict $SEEDS/et/e.json --platform dgx1-v100", (3,),
               ("e.json", "Kineto"))
    yield Case("trace/execution_trace_alone_json",
               "predict $SEEDS/et/e.json --platform dgx1-v100 --json", (3,), ("e.json", "Kineto"))
    yield Case("trace/execution_trace_validated", "validate --trace $SEEDS/et/e.json", (2, 3),
               ("e.json",))
    yield Case("trace/stdin", "inspect - < $SEEDS/kineto/k.json", (0,))
    yield Case("trace/stdin_gzip", "predict - < $SEEDS/gz/k.json.gz", (0,))
    yield Case("trace/piped", "predict /dev/stdin --json < <(cat $SEEDS/kineto/k.json)", (0,))
    yield Case("trace/substitution", "inspect --json <(cat $SEEDS/kineto/k.json)", (0,), stdout=('"rank":0,',))
    yield Case("trace/byte_order_mark", "predict b.json --json", (0,), (),
               "(printf '\\357\\273\\277'; cat $SEEDS/kineto/k.json) > b.json")
    yield Case("trace/many_arguments", "inspect m.json --json", (0,), (),
               "python3 -c \"import json; print(json.dumps({'schemaVersion': 1, 'traceEvents': [{'ph': 'X', "
               "'name': 'aten::mm', 'cat': 'cpu_op', 'pid': 1, 'tid': 1, 'ts': 1, 'dur': 9, 'args': "
               "{key: [[]] * 600000 for key in ('Input Dims', 'Input Strides')}}]}))\" > m.json")
    yield Case("trace/nested", "predict a --json", (0,), (),
               "mkdir -p a/b/c/d; cp $SEEDS/kineto/k.json a/b/c/d")
    yield Case("trace/nested_too_deeply", "predict a", (2,), ("folders deep",),
               "mkdir -p a/b/c/d/e/f/g/h; cp $SEEDS/kineto/k.json a/b/c/d/e/f/g/h")
    yield Case("trace/pipe_in_folder", "predict a", (2,), ("a/p", "--ignore"),
               "mkdir a; cp $SEEDS/kineto/k.json a; mkfifo a/p")
    yield Case("trace/pipe_ignored", "predict a --ignore p", (0,), (),
               "mkdir a; cp $SEEDS/kineto/k.json a; mkfifo a/p")
    yield Case("trace/pickle_in_folder", "predict a", (2,), ("a/snap.pickle", "--ignore 'snap.pickle'"),
               "mkdir a; cp $SEEDS/kineto/k.json a; head -c 100 /dev/zero > a/snap.pickle")
    yield Case("trace/pickle_ignored", "predict a --ignore '*.pickle'", (0,), (),
               "mkdir a; cp $SEEDS/kineto/k.json a; head -c 100 /dev/zero > a/snap.pickle")
    for value in ("0", "-1", "1e-308", "1e300", "nan", "inf", ""):
        yield Case(f"measured/time_{value}", "collective --measured m.csv --fit --topology dgx-a100 --json", (2,),
                   ("m.csv:4", "time_us"), f"sed '4s/,[0-9.]*,0,1,nccl/,{value},0,1,nccl/' $SEEDS/lab.csv > m.csv")
    for name, edit, says in (("placed_elsewhere", "0,/rank:0/s/rank:0/rank:3/", "another rank"),
                             ("placed_nowhere", "0,/rank:0/s/rank:0/rank:-7/", "another rank"),
                             ("kernel", '0,/"fused"/s/"fused"/"magic"/', "compute_kernel")):
        yield Case(f"plan/{name}", "shard $SEEDS/task.yaml --sharders naive --plan p.json", (2,), ("p.json", says),
                   f"sed '{edit}' $SEEDS/plan.json > p.json; ! cmp p.json $SEEDS/plan.json")
    yield Case("measured/one_way", "collective send_recv --measured m.csv --topology dgx-a100", (2,), ("m.csv:4", "oneway"),
               "sed 's/all_reduce/send_recv/; s/inplace=0/inplace=0;oneway=1/' $SEEDS/lab.csv > m.csv")
    yield Case("trace/ignored_nothing", "predict a --ignore '*.pickle' --ignore nosuch", (2,), ("--ignore", "nosuch"),
               "mkdir a; cp $SEEDS/kineto/k.json a; touch a/snap.pickle")
    for name in ("x.xyz", "x.gz", "d.d/x.html", "x.json.xz"):
        for command in (f"predict {S}", SEARCH + " --max-chunks 1", "serve llama3.1-8b --platform dgx-h100 --count 2"):
            yield Case(f"timeline/{command.split()[0]}_{name}", f"{command} --timeline {name}", (2,),
                       ("--timeline", name, ".pftrace"), "mkdir d.d", f"test ! -e {name}")
    yield Case("trace/all_ignored", "predict a --ignore '*'", (2,), ("a",),
               "mkdir a; cp $SEEDS/kineto/k.json a")
    yield Case("trace/temporary_in_folder", "predict a", (0,), (),
               "mkdir a; cp $SEEDS/kineto/k.json a; cp a/k.json a/.k.json.7.tmp")
    yield Case("trace/own_timeline", "predict t.json", (2,), ("t.json", "timeline"),
               "$FORETRACE predict $SEEDS/kineto/k.json --timeline t.json > /dev/null")
    yield Case("trace/empty_nodes", "predict bomb.0.et.gz", (2,), ("bomb",),
               "(head -c 200000000 /dev/zero | gzip > bomb.0.et.gz)")
    # validate
    yield Case("validate/folder_of_traces", f"validate {S}", (2,), ("--trace",))
    yield Case("validate/nothing_judged", "validate c.yaml", (3,), ("c.yaml",),
               "printf 'cases:\\n  - name: x\\n    traces: [$FORETRACE_REALDATA/no]\\n' > c.yaml")
    for value in ("0", "-1", ".nan", ".inf", "1e300", "abc", "''"):
        yield Case(f"validate/measured={value}", "validate c.yaml --json", (2,), ("c.yaml",),
                   f"printf \"cases:\\n  - name: x\\n    traces: [$SEEDS/kineto/k.json]\\n"
                   f"    measured_us: {value}\\n\" > c.yaml")
    # Keys given twice
    for seed, command in (("dgx", "inspect x.yaml"), ("task", "shard x.yaml --sharders naive"),
                          ("gpt", SEARCH.replace("$SEEDS/gpt.yaml", "x.yaml")),
                          ("cases", "validate x.yaml")):
        yield Case(f"twice/{seed}", command, (2,), ("x.yaml", "twice"),
                   f"(cat $SEEDS/{seed}.yaml; grep -m1 -E '^[a-z_]+:' $SEEDS/{seed}.yaml) > x.yaml")
    # Overheads
    for edit in ("s/unit: us/unit: ms/", "s/all: \\[[^,]*/all: [1e300/", "s/all: \\[[^,]*/all: [.nan/",
                 "s/all: \\[[^,]*/all: [-5/", "s/\\(all: \\[[^,]*\\), [^,]*/\\1, -1/",
                 "s/schema: 1/schema: 9/", "s/kind: cpu_overheads/kind: else/"):
        yield Case(f"overheads/{edit}", f"predict {S} --overheads o.yaml", (2,), ("o.yaml",),
                   f"sed '{edit}' $SEEDS/overheads.yaml > o.yaml")
    # Journals
    for name, edit in (("digit", "2s/[1-9]/0/"), ("swapped", "2s/mb[0-9]*/mb7/"),
                       ("infeasible", "2s/ | .* | / | infeasible | /"), ("cut", "2s/.....$//"),
                       ("nan", "2s/0x[^ ]*/nan/"), ("header", "1s/journal/yournal/")):
        yield Case(f"journal/{name}", SEARCH + " --max-chunks 1 --max-micro-batch 4 --journal j",
                   (2,), ("j",), f"sed '{edit}' $SEEDS/journal.log > j; ! cmp -s j $SEEDS/journal.log")
    yield Case("journal/continued", SEARCH + " --max-chunks 1 --max-micro-batch 4 --journal j --json",
               (0,), (), "cp $SEEDS/journal.log j")
    yield Case("journal/half_line", SEARCH + " --max-chunks 1 --max-micro-batch 4 --journal j", (0,),
               (), "head -c -7 $SEEDS/journal.log > j")
    # Graphs of operators on shapes.
    architect = "architect w.yaml --space $SRC/tests/golden/architect_small/space.yaml --devices 4 " \
                "--hbm 32 --global-batch 8"
    for name, operators, exits, says in (
            ("huge_product", "{name: a, calls: [{linear: {m: 8999999999999999, n: 8999999999999999, k: 9}}]}",
             (2,), ("'a' is too large",)),
            ("huge_elements", "{name: a, calls: [{elementwise: {elements: 8999999999999999}}]}", (2,),
             ("'a' is too large",)),
            ("negative", "{name: a, calls: [{linear: {m: -4, n: 4, k: 4}}]}", (2,), ("'m' is negative",)),
            ("nan", "{name: a, calls: [{linear: {m: .nan, n: 4, k: 4}}]}", (2,), ("'m'",)),
            ("empty", "{name: a, calls: [{linear: {}}]}", (0, 3), ()),
            ("no_groups", "{name: a, calls: [{conv2d: {n: 1, c: 3, k: 3, groups: 0}}]}", (0, 3), ()),
            ("no_class", "{name: a, forward_flop: 1e9}", (2,), ("'a' has no class", "convert")),
            ("huge_weights", "{name: a, parameters: 8999999999999999, calls: [{linear: {m: 4, n: 4, k: 4}}]}",
             (3,), ("more HBM",)),
            ("unknown", "{name: a, calls: [{gemm: {m: 4}}]}", (2,), ("gemm", "linear"))):
        yield Case("graph/" + name, architect, exits, says,
                   f"echo 'graph: {{operators: [{operators}]}}' > w.yaml")
    yield Case("graph/samples", architect, (2,), ("call_samples",),
               "echo 'graph: {call_samples: 0, operators: [{name: a, calls: [{linear: {m: 4, n: 4, k: 4}}]}]}' > w.yaml")
    yield Case("graph/cycle", architect, (2,), ("goes backward",),
               "echo 'graph: {operators: [{name: a}, {name: b}], edges: [[a, b], [b, a]]}' > w.yaml")
    # Models of which each layer is one part.
    hybrid = "$SRC/traces/workloads/nemotron-h-8b.yaml"
    for name, edit, says in (
            ("letter", "s/pattern: .M/pattern: \"X/", ("'X' in pattern",)),
            ("length", "s/layers: 52/layers: 53/", ("pattern has 52 letters for 53 layers",)),
            ("groups", "s/state_groups: 8/state_groups: 7/", ("state_groups 7",)),
            ("no_state", "s/state_size: 128, //", ("state_size 0",)),
            ("state_bits", "s/state_bits: 32/state_bits: 8/", ("state_bits 8",)),
            ("state_norm", "s/state_bits: 32/state_norm: 7/", ("state_norm",)),
            ("parallel", "s/pattern: .M/pattern: \"PP/", ("pattern has 53 letters",)),
            ("huge", "s/state_size: 128/state_size: 999999999999/", ("state_size",)),
            ("list", "s/pattern: [^,]*,/pattern: [M],/", ("pattern",)),
            ("window", "s/ffn: 21504/ffn: 21504, window: 128/", ("window",))):
        yield Case(f"hybrid/{name}", "search h.yaml --platform dgx-h100 --gpus 8 --global-batch 8", (2,),
                   says + ("h.yaml",), f"sed '{edit}' {hybrid} > h.yaml; ! cmp -s h.yaml {hybrid}")
    yield Case("hybrid/architect", f"architect {hybrid} --space $SRC/tests/golden/architect_small/space.yaml "
               "--devices 4 --hbm 32 --global-batch 64", (2, 3), ("state-space mixers",))
    delta = "$SRC/traces/workloads/qwen3-next-80b-a3b.yaml"
    for name, edit, says in (
            ("chunk", "s/state_chunk: 64/state_chunk: 128/", ("state_chunk",)),
            ("key", "s/state_size: 128/state_size: 512/", ("state_size",)),
            ("mixed", "s/GE/ME/", ("one of them",)),
            ("norm", "s/state_chunk: 64/state_chunk: 64, state_norm: false/", ("state_norm",)),
            ("gate", "s/attention_gate: true/attention_gate: 2/", ("attention_gate",)),
            ("shared", "s/shared_ffn: 512, //", ("shared_gate",)),
            ("heads", "s/state_groups: 16/state_groups: 12/", ("state_groups 12",))):
        yield Case(f"delta/{name}", "search d.yaml --platform dgx-h100 --gpus 8 --global-batch 8", (2,),
                   says + ("d.yaml",), f"sed '{edit}' {delta} > d.yaml; ! cmp -s d.yaml {delta}")
    yield Case("delta/context", "generate qwen3-next-80b-a3b --platform dgx-h100 --gpus 16 "
               "--mapping 'cp2 dp8 mb1 gb16' -o out", (2, 3), ("gated delta nets",), check="test ! -e out")
    yield Case("delta/serve_positions", "serve qwen3-next-80b-a3b --platform dgx-h100 --parallel 'tp4 kvp2'", (3,),
               ("not of positions",))
    served = "serve nemotron-h-8b --platform dgx-h100 --count 2 "
    for name, options, says in (
            ("positions", "--parallel kvp2", ("not of positions",)),
            ("groups", "--parallel tp16", ("groups of states",)),
            ("tiers", "--kv-tier host:64:25", ("no tier keeps",)),
            ("drafts", "--speculate sequence:4:0.7 --draft nemotron-h-8b", ("not covered",)),
            ("blocks", "--kv-blocks 3", ("block",))):
        yield Case(f"hybrid/serve_{name}", served + options, (3,), says)
    for name, edit in (("bits", "s/^states:.*/states: {bits: 8}/"), ("ratio", "s/^states:.*/states: {memory_ratio: .nan}/"),
                       ("less", "s/^states:.*/states: {memory_ratio: -1}/"), ("key", "s/^states:.*/states: {type: fp8}/")):
        yield Case(f"hybrid/engine_{name}", served + "--engine e.yaml", (2,), ("e.yaml",),
                   f"sed '{edit}' $SRC/topologies/engines/sglang-0.5.yaml > e.yaml")
    yield Case("hybrid/serve_no_states", served + "--engine e.yaml --kv-blocks 10000", (3,), ("of one sequence",),
               "sed 's/memory_ratio: 0.9/memory_ratio: 1.0e-7/' $SRC/topologies/engines/sglang-0.5.yaml > e.yaml")
    llama = ('{"model_type": "llama", "hidden_size": 512, "num_hidden_layers": 2, "num_attention_heads": 8, '
             '"intermediate_size": 1024, "vocab_size": 1000}')
    named = f"echo '{llama}' > q.json"
    yield Case("published/other_name_place", "place q.json --backends cublas", (2,), ("nothing says what kernels take",),
               named)
    yield Case("published/other_name_trace", "predict q.json", (2,), ("sizes of a model",), named)
    yield Case("published/folder", "search gpt-small --platform dgx-h100 --gpus 8 --global-batch 8", (0,),
               setup="mkdir gpt-small")
    yield Case("published/folder_place", "place gpt-small --backends cublas", (2,), ("nothing says what kernels take",),
               "mkdir gpt-small")
    yield Case("published/list_entry", "search q.json --platform dgx-h100 --gpus 8 --global-batch 8", (2,),
               ("'layer_types'",), "echo '" + llama.replace("llama", "mistral").replace(
                   "}", ', "layer_types": [{}, []]}') + "' > q.json")
    sparse = "$SRC/traces/workloads/deepseek-v3.2.yaml"
    for name, edit in (("heads", "s/index_heads: 64/index_heads: -1/"), ("lacking", "s/ index_size: 128,//"),
                       ("zero", "s/index_keys: 2048/index_keys: 0/"), ("huge", "s/index_keys: 2048/index_keys: 99999999999/"),
                       ("dense", "s/ query_latent: 1536,//"), ("word", "s/index_keys: 2048/index_keys: all/")):
        yield Case(f"sparse/{name}", "serve s.yaml --platform dgx-h200 --parallel 'dp8 ep' --count 2", (2,), ("s.yaml", "index_"),
                   f"sed '{edit}' {sparse} > s.yaml; ! cmp -s s.yaml {sparse}")
    for name, command in (("search", "search deepseek-v3.2 --platform dgx-h100 --gpus 64 --global-batch 64"),
                          ("generate", "generate deepseek-v3.2 --platform dgx-h100 --gpus 64 --mapping 'dp64 ep64 gb64' -o out"),
                          ("architect", "architect deepseek-v3.2 --devices 64 --hbm 96 --global-batch 64")):
        yield Case(f"sparse/{name}", command, (2,), ("sparse attention",))
    yield Case("sparse/positions", "serve deepseek-v3.2 --platform dgx-h200 --parallel kvp8 --count 2", (3,), ("kvp",))
    yield Case("hybrid/only_mixers", "serve h.yaml --platform dgx-h100 --count 2", (3,), ("layer with attention",),
               f"sed 's/pattern: [^,]*,/pattern: M,/' {hybrid} > h.yaml")
    yield Case("hybrid/validate_serving", "validate --serving run --platform dgx-h100", (3,), ("one part alone",),
               "cp -r $SRC/tests/data/serving/runs/A100_Llama-3.1-8B run; chmod -R u+w run; "
               "sed -i 's,meta-llama/Llama-3.1-8B,nvidia/Nemotron-H-8B-Base-8K,' run/meta.json")
    yield Case("hybrid/groups_of_mapping", "generate nemotron-h-8b --platform dgx-h100 --gpus 16 "
               "--mapping 'tp16 dp1 mb1 gb1' -o out", (2, 3), ("groups of states",), check="test ! -e out")
    yield Case("hybrid/one_group", "generate granite-4.0-h-micro --platform dgx-h100 --gpus 2 "
               "--mapping 'tp2 dp1 mb1 gb1' -o out", (2, 3), ("groups of states",), check="test ! -e out")
    # Spaces and systems: each edit is one line's error, and leaves nothing behind.
    study = "$SRC/traces/workloads/studies/dfmodel-fft.yaml"
    for name, edit, exits, says in (
            ("units", "s/sram_bytes: 118489090/sram_bytes: 118489090, sram_MB: 118/", (2,), ("two units",)),
            ("no_memory", "s/^memories:/memories: []\\nx:/", (2,), ()),
            ("no_capacity", "s/, capacity_bytes: [0-9]*//", (2,), ("capacity_GB",)),
            ("nan", "s/bandwidth_GBps: 50/bandwidth_GBps: .nan/", (2,), ("bandwidth_GBps",)),
            ("negative", "s/size: 128/size: -1/", (2,), ("size",)),
            ("huge", "s/size: 128/size: 2000000000/", (2,), ("size",)),
            ("other_chip", "s/^  - {name: fft-1t/  - {chips: [abacus], name: fft-1t/", (2,), ("abacus",)),
            ("kind", "s/kind: ring/kind: rung/", (2,), ("rung", "ring")),
            ("nothing_fits", "/wse-2/d; s/capacity_bytes: [0-9]*/capacity_bytes: 1/", (3,), ("GB",)),
            ("no_tiles", "s/tiles: [0-9]*, //", (2,), ("tiles",))):
        yield Case(f"space/{name}", "explore s.yaml -o out", exits, says + ("s.yaml",),
                   f"sed '{edit}' {study} > s.yaml; ! cmp -s s.yaml {study}", "test ! -e out")
    journal = "explore dfmodel-fft -o made --journal j"
    for name, edit in (("digit", "2s/0x1/0x2/"), ("cut", "2s/.....$//"), ("header", "1s/journal/yournal/"),
                       ("index", "2s/^[0-9]*/999999/")):
        yield Case(f"exploration/{name}", "explore dfmodel-fft -o out --journal j", (2,), ("j",),
                   f"$FORETRACE {journal} > /dev/null; sed -i '{edit}' j", "test ! -e out")
    yield Case("exploration/other_space", "explore dfmodel-hpl -o out --journal j", (2,), ("j",),
               f"$FORETRACE {journal} > /dev/null", "test ! -e out")
    yield Case("exploration/half_line", "explore dfmodel-fft -o out --journal j", (0,), (),
               f"$FORETRACE {journal} > /dev/null; truncate -s -7 j", "cmp made/points.csv out/points.csv")
    # Interrupted after a few points of 16,000: those are not evaluated again, and the answer is that of
    # a run that was not interrupted.
    yield Case("exploration/interrupted", "explore s.yaml -o out --journal j", (0,), (),
               f"awk '{{print}} /name: fft-1t/ {{for (i = 0; i < 99; ++i) print}}' {study} > s.yaml; "
               "$FORETRACE explore s.yaml -o half --journal j > /dev/null 2> says & p=$!; "
               "until test $(cat j 2> /dev/null | wc -l) -gt 20 || ! kill -0 $p; do sleep 0.01; done; "
               "kill -INT $p; ! wait $p && grep -q interrupted says && test ! -e half && "
               "cp j before && $FORETRACE explore s.yaml -o whole > /dev/null",
               "head -c $(wc -c < before) j | cmp - before && test $(wc -l < j) = 16001 && "
               "test $(wc -l < before) -lt 16001 && cmp whole/points.csv out/points.csv")
    # Devices: whose calibration it is, what a recording was made on, names of what there is
    yield Case("trace/no_durations", "predict k.json", (3,), ("duration",),
               "sed -E 's/\"dur\": ?[0-9.]+,? ?//g' $SEEDS/kineto/k.json > k.json")
    yield Case("device/predict", f"predict {S} --durations model --platform dgx-h100 --calibration "
               "v100-sxm2-nvlink", (2,), ("v100-sxm2", "h100-sxm5-80gb"))
    yield Case("device/search", SEARCH.replace("--kernels none", "--kernels v100-sxm2-nvlink"), (2,),
               ("v100-sxm2", "a100-sxm4-40gb"))
    yield Case("device/shard", "shard task.yaml --sharders naive", (2,), ("v100-sxm2", "a100-sxm4-40gb"),
               "sed 's/calibration: .*/calibration: v100-sxm2-nvlink/' $SEEDS/task.yaml > task.yaml")
    for name, words, change in (
            ("stack", ("lookup stack", "distributed-embeddings-0.1"), "s/^name:/stack: none\\nname:/"),
            ("slices", ("slice_elements", "stack"), "s/^name:/slice_elements: 5\\nname:/"),
            ("inputs_and_pooling", ("inputs", "pooling"), "s/pooling: 8,/pooling: 8, inputs: [1],/"),
            ("no_inputs", ("inputs", "no input"), "s/pooling: 8,/inputs: [],/"),
            ("parts_of_rows", ("rows", "whole number"), "s/rows: 168,/rows: 168.5,/"),
            ("slices_not_allowed", ("slice_elements", "column_wise"), "s/^calibration: .*/stack: distributed-embeddings-0.1\\nslice_elements: 1000/; s/^placements: .*/placements: [table_wise]/"),
            ("average", ("average", "concat"), "s/interaction: dot/interaction: dot, average: 2/")):
        yield Case(f"task/{name}", "shard t.yaml --sharders naive", (2,), ("t.yaml", *words),
                   f"sed '{change}' $SEEDS/task.yaml > t.yaml")
    yield Case("device/on_unnamed", f"predict {S} --on dgx-h100", (3,), ("--on",))
    yield Case("device/on_and_platform", f"predict {S} --on dgx-h100 --platform dgx-a100", (2,), ("leave out",))
    yield Case("device/cpu_scale", f"predict {S} --cpu-scale 0", (2,), ("--cpu-scale",))
    for command in ("list gpus", "inspect dgx.yaml", f"predict {S}"):
        yield Case(f"device/alias_of_two/{command[:7]}", command, (2,), ("also that of", "own.yaml"),
                   "mkdir -p topologies/accelerators; sed 's/^name: .*/name: own/' $SEEDS/h100-sxm5-80gb.yaml "
                   "> topologies/accelerators/own.yaml; cp $SEEDS/dgx.yaml dgx.yaml")
    yield Case("device/nodes", COLLECTIVE.replace("dgx-a100", "dgx-a100:99999"), (2,), ("99999",))
    yield Case("list/unknown", "list planets", (2,), ("platforms", "calibrations", "gpus", "workloads"))
    # shard-tasks
    yield Case("tasks/more_than_platform", "shard-tasks $SEEDS/locality.txt -o out --platform "
               "paper-4xa100 --gpus 32", (2,), ("32",), "", "test ! -e out")
    for gpus in (8, 16, 32, 64, 128, 256):
        yield Case(f"tasks/{gpus}", "shard-tasks $SEEDS/locality.txt -o out --platform h100-rail-1024 "
                   f"--gpus {gpus} --per-part 2", (0, 3))
    yield Case("tasks/calibration", "shard-tasks $SEEDS/locality.txt -o out --platform paper-4xa100 "
               "--calibration nope", (2,), ("nope",), "", "test ! -e out")
    yield Case("tasks/cut", "shard-tasks l.txt -o out --platform paper-4xa100", (2,), ("l.txt",),
               "head -c 200 $SEEDS/locality.txt > l.txt", "test ! -e out")
    yield Case("tasks/no_indices", "shard-tasks l.txt -o out --platform paper-4xa100", (2,), ("l.txt",),
               "sed 's/indices: .*/indices: 0/' $SEEDS/locality.txt > l.txt", "test ! -e out")
    # Machine-readable errors and other commands
    for name, command in (("inspect_platform", "inspect $SRC/topologies/dgx-h100.yaml --json"),
                          ("inspect_accelerator", "inspect $SEEDS/h100-sxm5-80gb.yaml --json"),
                          ("list_gpus", "list gpus --json"), ("list_platforms", "list platforms --json"),
                          ("list_calibrations", "list calibrations --json"),
                          ("list_workloads", "list workloads --json"),
                          ("convert", "convert $SEEDS/kineto/k.json -o out --json"),
                          ("generate", FOLDERS["generate_out"].replace("FILE", "out") + " --json"),
                          ("tasks", FOLDERS["tasks_out"].replace("FILE", "out") + " --json"),
                          ("overheads", "calibrate trace-overheads $SEEDS/kineto/k.json --json"),
                          ("collective", COLLECTIVE + " --bytes 1M --json"),
                          ("calibrate", "calibrate collective $SEEDS/lab.csv --json"),
                          ("search", SEARCH + " --json"), ("predict", f"predict {S} --json"),
                          ("shard", "shard $SEEDS/task.yaml --sharders naive --json"),
                          ("validate", f"validate --trace {S} --json")):
        yield Case(f"json/{name}", command, (0,), (), "", "", "",
                   ('"schema_version"', '"foretrace_version"', '"command"'))
    for name, command in (("file", "predict nosuch --json"), ("option", "predict x --nosuch --json"),
                          ("value", f"predict {S} --top nan --json"),
                          ("command", "nosuch --json"), ("none", "--json"),
                          ("infeasible", SEARCH + " --memory-gib 0.01 --json")):
        yield Case(f"json_error/{name}", command, (2, 3), (), "", "", "", ('"error"', '"message"'))
    yield Case("terminal/control_bytes", "predict $'a\\x1b[31m\\x07b'", (2,), ())
    yield Case("terminal/long_argument", "predict $(head -c 100000 /dev/zero | tr '\\0' a)", (2,), ())


def all_cases(damage):
    cases = [*file_cases(damage), *number_cases(), *output_cases(), *slips(), *combinations(Case), *choices(Case), *adversary(Case), *written(Case), *probes(Case)]
    names = [case.name for case in cases]
    assert len(names) == len(set(names)), [n for n in names if names.count(n) > 1][:5]
    return cases
