"""What an adversary tries of the surroundings of a command: other encodings, no room, no reader, no working folder,
limits of the process, interruption, names that a terminal would obey, options given twice."""

S = "$SRC/traces/samples/dlrm_8rank"
SEARCH = "search $SEEDS/gpt.yaml --platform dgx-a100 --gpus 4 --global-batch 64 --kernels none --max-chunks 1"
SERVE = "serve llama3.1-8b --platform dgx-h100 --count 3"
GENERATE = "generate $SEEDS/gpt.yaml --platform dgx-a100 --mapping 'tp2 pp2 dp1 mb1 gb64' -o out"
PLACE = "place dcgan --backends framework --device v100-sxm2-16gb"
DATAFLOW = "dataflow gpt3-175b --system sn10-8 --forward --batch 64"
ARCHITECT = "architect gpt-small --space $SRC/tests/golden/architect_small/space.yaml --devices 4 --hbm 32 --global-batch 8"

# A right command of each kind, whose answer goes to standard output.
ANSWERS = {
    "predict": f"predict {S}", "inspect": f"inspect {S}", "doctor": f"doctor {S}",
    "diff": f"diff {S} --what-if name=gemm:x2", "list": "list gpus", "help": "help terms", "helps": "predict --help",
    "version": "--version", "collective": "collective all_reduce --topology dgx-a100 --bytes 1M", "search": SEARCH,
    "shard": "shard $SEEDS/task.yaml --sharders naive", "serve": SERVE, "study": "serve-study volumes", "place": PLACE,
    "dataflow": DATAFLOW, "architect": ARCHITECT, "explore": "explore dfmodel-fft -o made",
    "sweep": "sweep collective all_reduce --topology dgx-a100 --bytes 1M --over ranks=2,4",
    "validate": f"validate --trace {S}", "mappings": "validate --mappings $SEEDS/rows.csv --platform dgx-a100",
    "calibrate": "calibrate collective $SEEDS/lab.csv", "overheads": f"calibrate trace-overheads {S}",
    "convert": "convert $SEEDS/kineto/k.json -o made", "generate": GENERATE.replace("-o out", "-o made"),
    "tasks": "shard-tasks $SEEDS/locality.txt -o made --platform paper-4xa100 --per-part 1",
}
# Text inputs, by the seed that another encoding is made of.
TEXTS = {
    "platform": ("dgx.yaml", "inspect x.yaml"), "workload": ("gpt.yaml", SEARCH.replace("$SEEDS/gpt.yaml", "x.yaml")),
    "task": ("task.yaml", "shard x.yaml --sharders naive"), "groups": ("groups.yaml", f"predict {S} --process-groups x.yaml"),
    "network": ("network.yaml", PLACE.replace("dcgan", "x.yaml")), "cases": ("cases.yaml", "validate x.yaml"),
    "overheads": ("overheads.yaml", "predict $SEEDS/kineto/k.json --overheads x.yaml"),
    "table": ("lab.csv", "calibrate collective x.yaml"), "measured": ("lab.csv", "collective --topology dgx-a100 --measured x.yaml"),
    "rows": ("rows.csv", "validate --mappings x.yaml --platform dgx-a100"),
    "requests": ("requests.csv", "serve llama3.1-8b --platform dgx-h100 --requests x.yaml"),
    "trace": ("kineto/k.json", "predict x.yaml"), "graph_trace": ("et/e.json", "doctor x.yaml"),
    "plan": ("plan.json", "shard $SEEDS/task.yaml --sharders naive --plan x.yaml"),
    "mapping": ("mapping.yaml", GENERATE.replace("'tp2 pp2 dp1 mb1 gb64'", "x.yaml")),
    "journal": ("journal.log", SEARCH + " --max-micro-batch 4 --journal x.yaml"),
    "locality": ("locality.txt", "shard-tasks x.yaml -o out --platform paper-4xa100 --per-part 1"),
}
WRITTEN = {
    "timeline": f"predict {S} --timeline FILE.json", "page": f"predict {S} --html FILE", "tables": f"predict {S} --csv FILE",
    "flamegraph": f"predict {S} --by op --flamegraph FILE", "rows": "calibrate collective $SEEDS/lab.csv --rows FILE",
    "mapping": SEARCH + " -o FILE", "svg": SEARCH + " --svg FILE", "journal": SEARCH + " --journal FILE",
    "plan": "shard $SEEDS/task.yaml --sharders naive --output FILE", "load": "shard $SEEDS/task.yaml --sharders naive --svg FILE",
    "overheads": f"calibrate trace-overheads {S} -o FILE", "workload": "convert $SEEDS/kineto/k.json --workload FILE.yaml",
    "picture": DATAFLOW + " --picture FILE", "steps": SERVE + " --timeline FILE.json", "placed": PLACE + " --svg FILE",
    "traces": "convert $SEEDS/kineto/k.json -o FILE", "made": GENERATE.replace("-o out", "-o FILE"),
    "tasks": "shard-tasks $SEEDS/locality.txt -o FILE --platform paper-4xa100 --per-part 1",
    "space": "explore dfmodel-fft -o FILE", "calibration": "calibrate collective $SEEDS/lab.csv -o FILE",
}
PIECEWISE = ("journal",)  # a line at a time, as it is known
# What takes more than a second, so that it can be interrupted.
LONG = {
    "search": "search mixtral-8x22b --platform dgx-h100 --global-batch 4096 --gpus 2048 --max-context 16 --max-zero 3 --overlap "
              "--searcher exhaustive --top 1000000 --jobs 1 -o o.yaml --html o.html",
    "local": "search gpt3-175b --platform dgx-a100-80gb --global-batch 1536 --gpus 1024 --searcher local --steps 10000000 -o o.yaml",
    "collective": "collective all_reduce --topology dgx-a100:4096 --bytes 1K:1T --csv o",
    "serve": "serve llama3.1-8b --platform dgx-h100 --count 3000000 --rate 1000 --timeline o.json",
    "configurations": "serve llama3.1-70b --platform dgx-h100:8 --search --gpus 64 --rate 50 --count 5000 --html o.html",
    "architect": "architect gpt3-175b --devices 1024 --hbm 32 --global-batch 1024 -o o",
    "generate": "generate gpt3-175b --platform dgx-a100-80gb:64 --mapping 'tp8 pp16 dp4 mb1 gb1024 full' -o o",
    "graph_level": "place nasneta --backends framework,tvm,tensorrt,cudnn --device v100-sxm2-16gb --graph-level tensorrt "
                   "--generations 1000000 --population 1000 --svg o.svg",
    "sweep": "sweep serve llama3.1-8b --platform dgx-h100 --count 200000 --over rate=1:1000:1 --csv o",
    "reading": "inspect - --csv o",
}
SO_FAR = ("search", "local", "collective", "configurations", "graph_level", "sweep")  # whose answer is what is known by then
ESCAPE = "\\\\u001b[31mred\\\\u0007"  # in JSON, of sed


def encodings(case):
    for name, (seed, command) in TEXTS.items():
        keep = "test ! -e out"
        for code in ("utf-16", "utf-16be", "utf-32"):
            yield case(f"encoding/{name}_{code}", command, (2,), ("x.yaml",),
                       f"iconv -f utf-8 -t {code} $SEEDS/{seed} > x.yaml", keep)
        yield case(f"encoding/{name}_nul", command, (2,), ("x.yaml",),
                   f"h=$(($(wc -c < $SEEDS/{seed}) / 2)); (head -c $h $SEEDS/{seed}; printf 'a\\0b\\n'; "
                   f"tail -c +$((h + 1)) $SEEDS/{seed}) > x.yaml", keep)
        if name not in ("journal", "groups"):  # written by the program alone; of no use to that recording
            yield case(f"encoding/{name}_crlf", command, (0,), (), f"sed 's/$/\\r/' $SEEDS/{seed} > x.yaml")
            yield case(f"encoding/{name}_bom", command, (0,), (), f"(printf '\\xef\\xbb\\xbf'; cat $SEEDS/{seed}) > x.yaml")


def writers(case):
    """Nothing is left where something cannot be written."""
    left = "! find . -name '*tmp*' | grep . && ! find . -type f -size -1 | grep ."
    for name, command in WRITTEN.items():
        yield case(f"place/{name}_dash", command.replace("FILE.json", "-").replace("FILE.yaml", "-").replace("FILE", "-"),
                   (2,), (" -",), "", "test ! -e ./-")
        yield case(f"place/{name}_kernel", command.replace("FILE", "/proc/nosuch"), (2,), ("/proc/nosuch",), "", left)
        yield case(f"place/{name}_long", command.replace("FILE", "n" * 300), (2,), ("n" * 40,), "", left)
        yield case(f"place/{name}_below_file", command.replace("FILE", "f/x"), (2,), ("f/x",), "touch f", "test ! -s f")
        yield case(f"limit/{name}", "list gpus", (0,), (),
                   f"(ulimit -f 0; exec $FORETRACE {command.replace('FILE', 'f')} > /dev/null 2> /dev/full); echo $? > code",
                   "grep -qx 2 code" + ("" if name in PIECEWISE else " && ! find . -name 'f*' -type f -size +0 | grep ."))
    yield case("place/gone", "list gpus", (0,), (),
               f"mkdir d; (cd d; rmdir ../d; $FORETRACE predict {S} --timeline t.json --html t.html 2> ../said; echo $? > ../code)",
               "grep -qx 2 code && test $(wc -l < said) = 1")
    yield case("place/gone_reading", "list gpus", (0,), (),
               f"mkdir d; (cd d; rmdir ../d; $FORETRACE predict {S} > /dev/null 2> ../said; echo $? > ../code)",
               "grep -qx 0 code && test ! -s said")


def readers(case):
    """Who stops reading ends the command, without a word; where there is no room, one line says so."""
    for name, command in ANSWERS.items():
        yield case(f"stdout/{name}_full", "list gpus", (0,), (), f"$FORETRACE {command} > /dev/full 2> said; echo $? > code",
                   "grep -qx 2 code && test $(wc -l < said) = 1 && grep -q 'standard output' said")
        yield case(f"stdout/{name}_unread", "list gpus", (0,), (),
                   f"($FORETRACE {command} 2> said; echo $? > code) | true",
                   "grep -qxE '0|2|141' code && test $(wc -l < said) -le 1 && ! grep -q 'internal' said")


def interruptions(case):
    for name, command in LONG.items():
        for sent, code in (("INT", 130), ("TERM", 143)):
            if sent == "TERM" and name not in ("search", "serve"):
                continue
            feed = "sleep 30 | " if name == "reading" else ""
            yield case(f"interrupted/{name}_{sent}", "list gpus", (0,), (),
                       f"python3 $SRC/tests/hostile/interrupt.py {sent} {feed and 'hold'} $FORETRACE {command} > said",
                       f"grep -qx 'exit {code}' said && grep -qx 'in time' said && ! find . -name '*tmp*' | grep . && "
                       "! find . -type f -empty | grep ." +
                       ("" if name in SO_FAR else " && ! find . -type f -name 'o*' | grep . && ! find o -type f | grep ."))


def names(case):
    """Bytes that a terminal obeys are not printed, whatever things are called."""
    quiet = "! LC_ALL=C grep -q $'[\\x01-\\x08\\x0b-\\x1f\\x7f]' said && test -s said"
    for thing, edit in (("kernel", f"s/ampere_sgemm/{ESCAPE}/"), ("op", f"s/aten::mm/{ESCAPE}/"),
                        ("device", f"s/NVIDIA A100/{ESCAPE}/"), ("call", f"s/cudaLaunchKernel/{ESCAPE}/"),
                        ("step", f"s/python/{ESCAPE}/")):
        for command in ("predict k.json", "inspect k.json", "inspect k.json --kernels", "inspect k.json --ops", "doctor k.json",
                        "predict k.json --by op --sensitivity", "predict k.json --by kernel", "diff k.json --what-if kind=compute:x2"):
            yield case(f"names/{thing}_{command.replace(' ', '')}", "list gpus", (0,), (),
                       f"sed '{edit}' $SEEDS/kineto/k.json > k.json; $FORETRACE {command} > said 2>&1", quiet)
    yaml = '"\\\\e[31mred\\\\a"'
    for thing, seed, edit, command in (
            ("platform", "dgx.yaml", f"s/^name: .*/name: {yaml}/", "inspect x.yaml"),
            ("platform_described", "dgx.yaml", f"s/^description: .*/description: {yaml}/", "inspect x.yaml"),
            ("platform_link", "dgx.yaml", f"s/nvlink3/{yaml}/", "inspect x.yaml"),
            ("collective", "dgx.yaml", f"s/^name: .*/name: {yaml}/", "collective all_reduce --topology x.yaml --bytes 1M"),
            ("task", "task.yaml", f"s/^name: .*/name: {yaml}/; s/name: cities/name: {yaml}/", "shard x.yaml --sharders naive"),
            ("network", "network.yaml", f"s/^name: .*/name: {yaml}/; s/name: d[.]sigmoid,/name: {yaml},/",
             PLACE.replace("dcgan", "x.yaml") + " --explain d.sigmoid"),
            ("cases", "cases.yaml", f"s/name: one/name: {yaml}/", "validate x.yaml"),
            ("workload", "gpt.yaml", f"s/^name: .*/name: {yaml}/", SEARCH.replace("$SEEDS/gpt.yaml", "x.yaml")),
            ("table", "lab.csv", "s/made/\\x1b[31mred/", "calibrate collective x.yaml"),
            ("table_platform", "lab.csv", "s/a100-sxm4-nvswitch/\\x1b[31mred/", "calibrate collective x.yaml"),
            ("groups", "groups.yaml", f"s/name: \"1\"/name: {yaml}/", f"predict {S} --process-groups x.yaml")):
        yield case(f"names/{thing}", "list gpus", (0,), (),
                   f"sed '{edit}' $SEEDS/{seed} > x.yaml; $FORETRACE {command} > said 2>&1", quiet)
    # As long as one likes.
    yield case("names/long_rank", "inspect a", (0, 2), (), "mkdir a; cp $SEEDS/kineto/k.json a/rank" + "9" * 200 + ".json")
    yield case("names/huge_rank", "predict a", (0, 2), (), "mkdir a; cp $SEEDS/kineto/k.json a/rank2147483648.json")
    yield case("names/file_of_escapes", "predict a", (2,), (), "mkdir a; echo x > a/$'\\x1b[31m.json'")


def drawn(case):
    """What is written is well-formed whatever things are called."""
    odd = """\"a\\\\x01\\\\x1b<\\&>\\\\\"b'\""""
    clean = "! LC_ALL=C grep -rq $'[\\x01-\\x08\\x0b-\\x1f]' o"
    space = "$SRC/tests/golden/architect_small/space.yaml"
    yield case("drawn/architect", ARCHITECT.replace(space, "s.yaml").replace("gpt-small", "w.yaml") + " -o o", (0,), (),
               f"cat > edit <<'END'\ns/^name: .*/name: {odd}/\nEND\nsed -f edit {space} > s.yaml; sed -f edit $SEEDS/gpt.yaml > w.yaml",
               f"{clean} && $FORETRACE inspect o/architect-common.yaml && $FORETRACE inspect o/architect-platform.yaml")
    yield case("drawn/explored", "explore s.yaml -o o", (0,), (),
               f"cat > edit <<'END'\ns/^name: .*/name: {odd}/\ns/^description: .*/description: {odd}/\nEND\n"
               "sed -f edit $SRC/traces/workloads/studies/dfmodel-fft.yaml > s.yaml", f"{clean}")
    yield case("drawn/dataflow", DATAFLOW.replace("gpt3-175b", "w.yaml") + " --picture o", (0,), (),
               f"cat > edit <<'END'\ns/^name: .*/name: {odd}/\nEND\nsed -f edit $SEEDS/gpt.yaml > w.yaml",
               f"{clean} && python3 -c 'import xml.dom.minidom as m; m.parse(\"o\")'")
    yield case("drawn/page_of_scripts", "predict k.json --html o", (0,), (),
               "sed 's,ampere_sgemm,</script><script>alert(1)</script><!--,' $SEEDS/kineto/k.json > k.json",
               f"{clean} && grep -q alert o && ! grep -q '<script>alert' o")


def widths(case):
    """Nothing is wider than 100 columns, which is what no terminal stands for."""
    narrow = "python3 -c 'import sys; sys.exit(max(map(len, open(\"said\").read().split(\"\\n\"))) > 100)'"
    lists = {f"list_{kind}": f"list {kind}" for kind in ("platforms", "calibrations", "workloads")}
    for name, command in {**ANSWERS, **lists, "sensitivity": f"predict {S} --sensitivity --by kernel",
                          "platform": "inspect $SRC/topologies/h100-rail-1024.yaml"}.items():
        yield case(f"width/{name}", "list gpus", (0,), (), f"$FORETRACE {command} > said", f"test -s said && {narrow}")


def repeats(case):
    """One value, twice: which one is meant is not guessed."""
    for command, options in {
            f"predict {S}": ["--top 3", "--iteration 1", "--timeline x.json", "--platform dgx-a100", "--on dgx-h100", "--by op",
                             "--cpu-scale 2", "--absent alike", "--html h", "--csv c", "--semantics full", "--network fitted"],
            SEARCH: ["--platform dgx-h100", "--gpus 8", "--journal j", "--svg s", "--top 3", "--global-batch 32"],
            SERVE: ["--count 4", "--platform dgx-a100", "--engine vllm-0.19", "--seed 3"],
            "collective --topology dgx-a100": ["--topology dgx-h100", "--bytes 1M --bytes 2M", "--ranks 2 --ranks 4"],
            "list": ["gpus platforms"], "--version": ["predict", "--json"], "help": ["predict search"]}.items():
        for option in options:
            twice = option if option.count("--") > 1 or command in ("list", "--version", "help") else f"{option} {option}"
            if command == SEARCH and option.split()[0] in SEARCH:
                twice = option
            if command == SERVE and option.split()[0] in SERVE:
                twice = option
            if command.startswith("collective") and option.startswith("--topology"):
                twice = option
            yield case(f"repeated/{command.split()[0]}{option.replace(' ', '_')}", f"{command} {twice}", (2,), (), "",
                       "test ! -e x.json && test ! -e j && test ! -e s && test ! -e h && test ! -e c")


def surroundings(case):
    for name, before in (("nothing", "env -i"), ("no_temporary", "env TMPDIR=/nonexistent"), ("locale", "env LC_ALL=xx_YY.nosuch"),
                         ("columns", "env COLUMNS=-1"), ("home", "env -u HOME"), ("data", "env FORETRACE_DATA=/nonexistent"),
                         ("few_files", "prlimit --nofile=12"), ("small_stack", "prlimit --stack=1048576")):
        yield case(f"around/{name}", "list gpus", (0,), (), f"{before} $FORETRACE predict {S} --timeline t.json > o; echo $? > code",
                   "grep -qx 0 code && test -s t.json && test -s o")
    yield case("around/no_modules", "list gpus", (0,), (),
               "env FORETRACE_MODULES=/nonexistent $FORETRACE inspect $SEEDS/tar/t.tar.gz > o 2> said; echo $? > code",
               "grep -qxE '0|2|3' code && test $(wc -l < said) -le 1")
    yield case("around/little_memory", "list gpus", (0,), (),
               f"(ulimit -v 120000; $FORETRACE predict {S} > o 2> said); echo $? > code",
               "grep -qxE '0|2|127' code && test $(wc -l < said) -le 2 && ! grep -q 'internal' said")
    for number, value in enumerate(("", "/", ".", "..", "~", "*", "$(true)", "%s%n%s", "-", "--", "'", '\\"', "\\x00", "COM1", "a:b",
                                    "http://x/y", "file:///etc", "é" * 100)):
        yield case(f"around/traces{number}", f"predict -- \"{value}\"", (2, 3))
        yield case(f"around/platform{number}", f"predict {S} --on \"{value}\"", (2, 3))


def adversary(case):
    for cases in (encodings, writers, readers, interruptions, names, drawn, widths, repeats, surroundings):
        yield from cases(case)
