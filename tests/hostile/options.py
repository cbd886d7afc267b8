#!/usr/bin/env python3
"""Every option of every command changes what comes out, or is refused by name.

  tests/hostile/options.py --foretrace build/release/foretrace [--only REGEX]

The options are those that --help lists; one that has no line in OPTIONS fails. Each is run with a
value that must matter: standard output, a file, or the exit code then differs from the run without it.
Those of which the contract is that they change nothing (threads) are run too, and must not.
"""
import argparse
import concurrent.futures
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading

import files
import option_inputs

ROOT = files.ROOT


class Equal:
    """A value that must change nothing, and why."""

    def __init__(self, value, why):
        self.value, self.why = value, why


class Golden:
    """An option that needs data which the samples have not: the case in tests/golden that has it."""

    def __init__(self, case):
        self.case = case

    def failure(self, option):
        commands = (ROOT / "tests/golden" / self.case / "cmd").read_text()
        return None if option in commands else f"tests/golden/{self.case} does not use it"


THREADS = Equal("3", "the answer does not depend on threads")
S = "$SRC/traces/samples/dlrm_8rank"
ONE = S + "/dlrm.0.et"
HALF = " ".join(f"{S}/dlrm.{rank}.et" for rank in range(4))
MASKED = "$WORK/masked.json --durations model --platform dgx-h100"
SHAPED = "$WORK/shaped.json --workload w.yaml"
SEARCHED = "$SEEDS/gpt.yaml --platform dgx-a100 --gpus 4 --global-batch 64"
EXPERTS = ("$SRC/traces/workloads/mixtral-8x7b.yaml --platform dgx-a100-80gb --gpus 16 --global-batch 64 "
           "--max-chunks 1 --max-micro-batch 1 --top 40")
SEARCH = SEARCHED + " --max-chunks 1 --max-micro-batch 2"
MAPPING = "--mapping 'tp2 pp2 dp1 mb1 gb64'"
SERVE = "llama3.1-8b --platform dgx-h100"
PHASES = "phases --model llama3-8b --devices 16"
TIERED = SERVE + " --kv-blocks 600 --count 40 --input 800 --output 400"
SWEEP = f"predict {S} --over cpu-scale=1,2"
EXCHANGES = "$SRC/tests/data/calibrate/exchanges.csv"
SPACE = "--space $SRC/tests/golden/architect_small/space.yaml --devices 16 --hbm 32"
ARCHITECT = f"gpt-small {SPACE} --global-batch 64 --widths 1 --micro-batches 1"
PLACE = "bert-large --backends framework,flash-attention --device a100-sxm4-80gb"
TORCH_COMPILE = "--backends torch-compile --device a100-sxm4-80gb"
DATAFLOW = "gpt3-175b --system sn10-8 --forward --batch 2304"
FITTED = "$SRC/calibration/a100-sxm4-nvswitch/megatron-deepspeed.yaml"
MEASURED = "--topology dgx-a100 --measured $SEEDS/lab.csv"
SIMULATION = {
    "--semantics": "algorithm1", "--without": "rank-sync", "--aligned-start": "",
    "--what-if": "kind=collective:x0.5", "--cpu-scale": "2", "--overheads": "$SEEDS/overheads.yaml",
    "--allow-missing-ranks": None, "--absent": None, "--platform": "dgx-h100", "--on": "dgx-h100",
    "--network": ("{base} --platform dgx-a100", "fluid"),
    "--durations": ("{base} --platform dgx-a100", "model"),
    "--calibration": ("{base} --platform dgx-a100 --durations model", "a100-sxm4-nvswitch"),
    "--attention-mask": ("{command} " + MASKED, "causal"),
}
TRACES = {"--strict": ("{command} $WORK/repaired.json", ""), "--jobs": THREADS,
          "--process-groups": "$WORK/groups.yaml",
          "--ignore": ("{command} $WORK/mixed", "'*.pickle'")}
FITS = {"--test": "$SEEDS/lab.csv", "--hold-out": "every-third",
        "--calibration": ("{command} --test $SEEDS/lab.csv", "$SEEDS/calibration/collectives.yaml"),
        "--adapt": "$SEEDS/calibration/collectives.yaml", "--platform": "nosuch",
        "--as": ("{base} -o out", "other"), "--form": "three_region", "--interconnect": "mesh",
        "--seed": ("{base} -o out", "7"), "--date": ("{base} -o out", "2026-01-31"),
        "--note": ("{base} -o out", "words"), "--json": "", "--output": "out", "--rows": "rows.csv"}


def family(kind, stem, rules, form=None, draws=True):
    """Of `calibrate KIND`: its table is $WORK/KIND.csv, its calibration below $WORK/calibrated."""
    known = f"$WORK/calibrated/a100-sxm4-40gb/{stem}.yaml"
    options = {**FITS, "--test": f"$WORK/{kind}.csv", "--hold-out": rules,
               "--calibration": (f"{{command}} --test $WORK/{kind}.csv", known),
               "--adapt": (f"$WORK/few_{kind}.csv -o out", known),
               "--form": (f"$WORK/many_{kind}.csv", form), "--seed": ("{base} -o out", "7")}
    without = {"--interconnect", *(() if form else ("--form",)), *(() if draws else ("--seed",))}
    return f"$WORK/{kind}.csv", {o: v for o, v in options.items() if o not in without}


def merged(entry, options):
    return entry[0], {**entry[1], **options}


# Command: (arguments that are right, {option: value | (other arguments, value) | Golden}), where a value
# is text or Equal. None: as the option's own command line says elsewhere. {base} are the arguments that
# are right, {command} the first word.
OPTIONS = {
    "inspect": (S, {**TRACES, "--json": "", "--kernels": "", "--ops": ""}),
    "convert": (f"{S} -o out", {
        **TRACES, "--strict": ("$WORK/repaired.json -o out", ""), "--ignore": ("$WORK/mixed -o out", "'*.pickle'"),
        "--process-groups": (f"{S} -o out", "$WORK/groups.yaml"), "--json": "", "--check": "",
        "--prefix": "p", "--rank": (SHAPED, "3"), "--iteration": (SHAPED, "1"),
        "--samples": (SHAPED, "64"), "--output": (S, "elsewhere"), "--workload": ("$WORK/shaped.json", "w.yaml")}),
    "predict": (S, {
        **TRACES, **SIMULATION, "--allow-missing-ranks": (ONE, ""),
        "--absent": (f"{HALF} --allow-missing-ranks", "never-last"), "--json": "", "--iteration": "1",
        "--sensitivity": "", "--top": "2", "--timeline": "t.json", "--by": "kernel",
        "--ranks": (f"{S} --platform dgx-a100", "16"),
        "--data-parallel": (f"{S} --platform dgx-a100 --ranks 16", "nosuch"),
        "--energy": Golden("energy_bounds"), "--memory": ("$WORK/repaired.json", ""),
        "--memory-if": ("$SRC/tests/data/profile/modules.json --memory", "micro-batch=x2"), "--flamegraph": "f.svg",
        "--timeline-ranks": (f"{S} --timeline d/", "0"), "--timeline-steps": (f"{S} --timeline d/", "1")}),
    "doctor": (S, {**TRACES, "--json": "", "--strict": ("$WORK/repaired.json", "")}),
    "sweep": ("", {
        "--over": (f"predict {S}", "cpu-scale=1,2"), "--value": (SWEEP, "ranks[0].busy_us"),
        "--scaling": (SWEEP, "weak"), "--jobs": (SWEEP, THREADS), "--json": (SWEEP, ""), "--journal": (SWEEP, "j.log"),
        "--csv": (SWEEP, "tables"), "--html": (SWEEP, "page.html"),
        "--strict": (f"predict {S} --over durations=recorded,nosuch", "")}),
    "diff": (f"{S} --what-if name=gemm:x2", {
        **SIMULATION,
        "--aligned-start": (f"{S} --what-if rank=4:delay=1ms", ""),
        "--strict": ("$WORK/repaired.json --what-if name=gemm:x2", ""),
        "--jobs": THREADS, "--process-groups": "$WORK/groups.yaml",
        "--allow-missing-ranks": (f"{ONE} --what-if name=gemm:x2", ""),
        "--absent": (f"{ONE} --allow-missing-ranks --what-if name=gemm:x2", "never-last"),
        "--attention-mask": (f"{MASKED} --what-if name=sdpa:x2", "causal"),
        "--iteration": "1", "--top": "1", "--json": "", "--what-if": (S, "kind=collective:x0.5")}),
    "validate": (f"--trace {S}", {
        **TRACES, **SIMULATION, "--trace": ("", S), "--strict": ("--trace $WORK/repaired.json", ""),
        "--ignore": ("--trace $WORK/mixed", "'*.pickle'"),
        "--allow-missing-ranks": (f"--trace {ONE}", ""),
        "--absent": (f"--trace {ONE} --allow-missing-ranks", "never-last"),
        "--overheads-from-ranks": "0-3", "--overheads-from-steps": "even", "--ablation": "", "--json": "",
        "--mappings": ("--platform dgx-a100", "$SEEDS/rows.csv"),
        "--kernels": ("--mappings $SEEDS/rows.csv --platform dgx-a100", "none"),
        "--workload": ("--mappings $SEEDS/rows.csv --platform dgx-a100", "$WORK/vocabulary.yaml"),
        "--workloads": (f"--trace {S}", "$SRC/traces/workloads"),
        "--fit": ("--mappings $SEEDS/rows.csv --platform dgx-a100", "$SEEDS/rows.csv"),
        "--hold-out-half": ("--mappings $SEEDS/rows.csv --platform dgx-a100", ""),
        "--fit-stacks": ("--mappings $SEEDS/rows.csv --platform dgx-a100", ""),
        "--dataflow": ("--mappings $SEEDS/rows.csv --platform dgx-a100", ""),
        "--recompute": ("--mappings $SEEDS/rows.csv --platform dgx-a100", "none"),
        "--serving": (f"--trace {S}", "$WORK/nosuch"), "--profiles": (f"--trace {S}", "$WORK"),
        "--step-factors": (f"--trace {S}", "$SEEDS/factors.yaml"),
        "--rows": (f"--trace {S} --durations model --platform dgx-a100", "rows.csv")}),
    "collective": ("all_reduce --topology dgx-a100 --bytes 4M", {
        "--topology": ("all_reduce --bytes 4M", "dgx-h100"), "--ranks": "4", "--bytes": "8M",
        "--algorithm": "hierarchical", "--protocol": "ll", "--chunks": ("broadcast --topology dgx-a100 --bytes 4M", "4"),
        "--network": "fitted", "--links": "", "--json": "", "--measured": ("--topology dgx-a100", "$SEEDS/lab.csv"),
        "--fit": (MEASURED, ""), "--fit-launch": (MEASURED, ""), "--hold-out": (f"{MEASURED} --fit", "sizes"), "--min-bytes": (MEASURED, "64M")}),
    "shard": ("$SEEDS/task.yaml --sharders naive,lookup_greedy", {
        "--sharders": ("$SEEDS/task.yaml", "naive"), "--plan": "$SEEDS/plan.json",
        "--compare": "naive lookup_greedy", "--explain": "user_history", "--template": S,
        "--traces-of": ("{base} --write-traces out", "naive"),
        "--seed": ("$SEEDS/task.yaml --sharders random", "7"),
        "--budget": ("$SEEDS/task.yaml --sharders search", "40"), "--jobs": THREADS, "--json": "",
        "--output": "plan.json", "--svg": "x.svg", "--write-traces": "out"}),
    "shard-tasks": ("$SEEDS/locality.txt -o out --platform paper-4xa100 --per-part 1", {
        "--json": "", "--platform": ("$SEEDS/locality.txt -o out --per-part 1", "dgx-a100"),
        "--calibration": "a100-sxm4-nvswitch", "--gpus": "2", "--batch": "1024", "--per-part": "2",
        "--seed": "7", "--output": ("$SEEDS/locality.txt --platform paper-4xa100", "elsewhere")}),
    "shard-study": ("$SEEDS/task.yaml", {
        "--seed": ("$SEEDS/task.yaml --search", Equal("7", "of these sharders, ones that draw are never the fastest")),
        "--search": "", "--json": ""}),
    "search": (SEARCH, {
        "--platform": ("$SEEDS/gpt.yaml --gpus 4 --global-batch 64", "dgx-h100"), "--calibration": FITTED,
        "--kernels": "none", "--gpus": "8", "--global-batch": "32", "--memory-gib": "2",
        "--stack": "nemo", "--cpu-scale": (SEARCH + " --stack torchtitan", "50"), "--torch-compile": (SEARCH + " --stack torchtitan", ""),
        "--memory-margin": "0.5", "--sequence": "512", "--searcher": "pipedream", "--max-tensor": "1", "--max-micro-batch": "8",
        "--max-chunks": "2", "--max-context": "2", "--max-zero": "0", "--overlap": "", "--schedules": (SEARCH + " --top 20", "gpipe"),
        "--precision": (SEARCH.replace("a100", "h100"), "fp8"), "--dispatch": (EXPERTS, "deepep"), "--ep-overlap": (EXPERTS, ""),
        "--steps": (SEARCH + " --searcher local", "1"), "--seed": (SEARCH + " --searcher local",
                   Equal("7", "the local search begins at the best of the whole space, which it cannot improve here")),
        "--top": "2", "--jobs": THREADS, "--compare": (SEARCHED, "'tp2 pp2 dp1 mb1' 'tp1 pp1 dp4 mb1'"),
        "--picture": (SEARCHED + " --compare 'tp2 pp2 dp1 mb1' 'tp1 pp1 dp4 mb1'", ""),
        "--energy": Golden("energy_bounds"), "--memory": "", "--network": "fluid", "--json": "", "--journal": "j.log", "--mapping-out": "m.yaml", "--svg": "x.svg",
        "--timeline": "t.json"}),
    "generate": (f"$SEEDS/gpt.yaml --platform dgx-a100 {MAPPING} -o out", {
        "--platform": (f"$SEEDS/gpt.yaml {MAPPING} -o out", "dgx-h100"), "--calibration": FITTED,
        "--kernels": "none", "--gpus": "2", "--global-batch": "32", "--memory-gib": "0.1",
        "--stack": "nemo", "--torch-compile": (f"$SEEDS/gpt.yaml --platform dgx-a100 {MAPPING} -o out --stack torchtitan", ""),
        "--memory-margin": "0.99", "--sequence": "512", "--mapping": ("$SEEDS/gpt.yaml --platform dgx-a100 -o out", "'tp1 pp2 dp2 mb1 gb64'"),
        "--json": "", "--prefix": "p", "--launch-us": "50", "--sizes-only": "",
        "--output": (f"$SEEDS/gpt.yaml --platform dgx-a100 {MAPPING}", "elsewhere")}),
    "serve": (SERVE + " --rate 4 --count 20", {
        "--platform": ("llama3.1-8b --count 20", "dgx-a100"), "--parallel": "tp2", "--replicas": "2",
        "--decode-engines": (SERVE + " --rate 4 --count 20 --replicas 2", "1"),
        "--routing": (SERVE + " --rate 40 --count 60 --replicas 3 --input lognormal:500:1", "round-robin"),
        "--weights": "int4", "--kv-cache-dtype": "fp8",
        "--redundant-experts": ("deepseek-v2 --platform dgx-h200 --parallel 'dp8 ep' --count 5", "8"),
        "--expert-exchange": ("deepseek-v2 --platform dgx-h200 --parallel 'dp8 ep' --count 5", "deepep"),
        "--kernels": "none", "--profiles": "$WORK", "--operators": "$WORK/nosuch.csv", "--step-factors": "$SEEDS/factors.yaml", "--engine": "sglang-0.5", "--max-num-seqs": "1",
        "--max-num-batched-tokens": "256", "--max-model-len": "600", "--block-tokens": "48",
        "--kv-blocks": "100", "--memory-utilization": "0.5",
        "--policy": (TIERED, "fair"), "--preemption": (TIERED, "swap"),
        "--kv-tier": (TIERED, "cpu:64:20"), "--without": "graphs", "--speculate": "sequence:3:0.7",
        "--draft": (SERVE + " --count 5 --speculate sequence:3:0.7", "llama3.1-8b"),
        "--draft-parallel": (SERVE + " --count 5 --speculate sequence:3:0.7 --draft llama3.1-8b", "tp2"),
        "--requests": (SERVE, "$SEEDS/requests.csv"),
        "--skip-too-long": (SERVE + " --max-model-len 700 --requests $SEEDS/requests.csv", ""),
        "--prefix-block": (SERVE + " --requests $SEEDS/mooncake.jsonl", "256"), "--rate": (SERVE + " --count 20", "1"),
        "--count": "30", "--input": "100", "--output": "64",
        "--seed": (SERVE + " --rate 4 --count 20 --input lognormal:500:1", "7"), "--concurrency": (SERVE + " --count 20", "2"),
        "--ttft": "1", "--tpot": "1", "--e2e": "1",
        "--search": (SERVE + " --rate 4 --count 20 --gpus 2", ""), "--gpus": (SERVE + " --search --count 20", "2"),
        "--top": (SERVE + " --search --gpus 2 --count 20", "1"), "--json": "", "--timeline": "t.json",
        "--energy": Equal("", "reports have the energy wherever it is known; it refuses where not")}),
    "serve-study": ("decode", {
        "--platform": "dgx-h100", "--model": "llama3.1-8b", "--devices": "2", "--spread": "0.5",
        "--table-us": "50", "--host-us": "500", "--draft-us": ("drafts", "81.1"), "--target-us": ("drafts", "20000"),
        "--accelerator": (PHASES, "sn30"), "--link-gbps": (PHASES, "25"), "--hop-ns": (PHASES, "500"),
        "--reach": (PHASES, "0.5"), "--prompt": (PHASES, "1024"),
        "--json": ""}),
    "dataflow": (DATAFLOW, {
        "--system": ("gpt3-175b --forward --batch 2304", "sn10-4x2"), "--mapping": "$WORK/mapping.yaml", "--batch": "1",
        "--forward": ("gpt3-175b --system sn10-8 --batch 2304", ""), "--tiles": "512", "--tensor-parallel": "",
        "--formulas": "dse", "--all-reduce": "tree", "--overlap": "nonoverlap", "--utilisation": "0.5",
        "--kernels": "a100-sxm4-nvswitch", "--device": "a100-sxm4-80gb", "--cycles": "", "--sizes-only": "",
        "--json": "", "--picture": "x.svg", "--write-traces": "out"}),
    "explore": ("dfmodel-fft -o out", {"--jobs": THREADS, "--json": "", "--output": ("dfmodel-fft", "out"),
                                       "--journal": "j.log"}),
    "architect": (ARCHITECT, {
        "--space": ("gpt-small --devices 16 --hbm 32 --global-batch 64", "$SRC/tests/golden/architect_small/space.yaml"),
        "--devices": "8", "--hbm": "8", "--global-batch": "32", "--widths": "2", "--micro-batches": "4",
        "--samples": "32", "--weights": "0",
        "--optimizer-bytes": (ARCHITECT.replace("--hbm 32", "--hbm 4"), "50"), "--search": "hysteresis",
        "--hysteresis": (ARCHITECT + " --search hysteresis", "1"), "--compare": "",
        "--objective": (f"gpt-small --space $WORK/power.yaml --devices 16 --hbm 32 --global-batch 64", "per-watt"),
        "--nodes": "2", "--timings": "", "--jobs": THREADS, "--json": "", "--journal": "j.log", "--output": "out"}),
    "place": (PLACE, {
        "--strict": (f"$WORK/repaired.json {TORCH_COMPILE}", ""),
        "--backends": ("bert-large --device a100-sxm4-80gb", "framework"),
        "--costs": "$WORK/nosuch.csv", "--device": ("bert-large --backends framework", "v100-sxm2-16gb"),
        "--kernels": "none", "--launch": "0", "--micro-batch": "4",
        "--allow-missing-ranks": (f"$WORK/absent.json {TORCH_COMPILE}", ""),
        "--graph-level": "tensorrt", "--engine-call": "5", "--seed": "7", "--population": "10",
        "--generations": "2", "--explain": "l0.softmax", "--top": "3", "--ablation": "", "--json": "",
        "--svg": "x.svg"}),
    "list": ("platforms", {"--json": ""}),
    "help": ("terms", {"--markdown": ""}),
    "calibrate collective": ("$SEEDS/lab.csv", FITS),
    "calibrate kernel": family("kernel", "kernels", "random-fifth", "roofline"),
    "calibrate memory": merged(family("memory", "memory", "every-third"), {
        option: Golden("calibrate_memory")
        for option in ("--trace", "--test-trace", "--provenance", "--table-out")}),
    "calibrate overheads": family("overheads", "overheads", "every-third", draws=False),
    "calibrate embedding": merged(family("embedding", "embedding", "every-third", "physics"), {
        option: Golden("calibrate_embedding")
        for option in ("--trace", "--test-trace", "--provenance", "--table-out")}),
    "calibrate expert-exchange": (EXCHANGES, {
        **{option: value for option, value in FITS.items() if option not in ("--adapt", "--form", "--interconnect")},
        "--test": EXCHANGES, "--hold-out": "shapes", "--seed": (f"{EXCHANGES} --hold-out shapes", "2"),
        "--calibration": (f"--test {EXCHANGES}", "$SRC/calibration/h100-sxm5-nvswitch/expert_exchange.yaml")}),
    "calibrate serving": ("$WORK/iterations.csv", {
        "--json": "", "--profiles": "$WORK", "--platform": "dgx-a100", "--folds": "5",
        **{option: Golden("calibrate_serving") for option in ("--test", "--output")}}),
    "calibrate power": ("$SRC/tests/data/calibrate/powers.csv --platform dgx-h200", {
        "--json": "",
        **{option: Golden("calibrate_power") for option in ("--platform", "--test", "--output", "--date", "--provenance")}}),
    "calibrate trace-overheads": (S, {
        **TRACES, "--strict": ("$WORK/repaired.json", ""), "--ignore": ("$WORK/mixed", "'*.pickle'"), "--json": "",
        "--ranks": "0-3", "--date": (f"{S} -o o.yaml", "2026-01-31"), "--output": "o.yaml"}),
}


def listed(foretrace, command):
    """The long options of --help; of several names, the first."""
    text = subprocess.run([foretrace, *command.split(), "--help"], capture_output=True, text=True).stdout
    options = []
    for line in text.split("\n"):
        found = re.match(r" {2}(?:-\w,)?(--[\w-]+)", line)
        if found and found[1] not in ("--help", "--version"):
            options.append(found[1])
    return options


def outcome(foretrace, command, arguments, folder, env):
    """Exit code, output and files of a run, and what it said."""
    folder.mkdir(parents=True)
    run = subprocess.run(["bash", "-c", f"exec $FORETRACE {command} {arguments}"], cwd=folder, env=env,
                         stdin=subprocess.DEVNULL, capture_output=True, timeout=300)
    made = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            made[str(path.relative_to(folder))] = hashlib.sha256(path.read_bytes()).hexdigest()
    shutil.rmtree(folder)
    return (run.returncode, run.stdout, made), run.stderr.decode("utf-8", "replace")


class Baselines:
    """What a command does without the option that is tried: once for all options that share it."""

    def __init__(self, run):
        self.run = run
        self.lock = threading.Lock()
        self.known = {}

    def get(self, command, base):
        with self.lock:
            mine = (command, base) not in self.known
            future = self.known.setdefault((command, base), concurrent.futures.Future())
            name = f"base{len(self.known)}"
        if mine:
            try:
                future.set_result(self.run(command, base, name))
            except BaseException as error:  # the others must not wait for ever
                future.set_exception(error)
        return future.result()


def check(foretrace, work, env, baselines, command, option):
    base, options = OPTIONS[command]
    options = {"--html": "page.html", "--csv": "tables", **options}
    if option not in options:
        return f"{command} {option}: has no line in tests/hostile/options.py"
    value = options[option]
    if value is None:
        return None
    if isinstance(value, Golden):
        failure = value.failure(option)
        return failure and f"{command} {option}: {failure}"
    if isinstance(value, tuple):
        other, value = value
        first = command.split()[0]
        base = other.format(base=base, command="--trace" if first == "validate" else "").strip()
    name = re.sub(r"\W", "_", f"{command}{option}")
    without = baselines.get(command, base)
    text = value.value if isinstance(value, Equal) else value
    with_it, said = outcome(foretrace, command, f"{base} {option} {text}", work / "run" / name, env)
    if with_it[0] not in (0, 2, 3):
        return f"{command} {base} {option} {value}: exit {with_it[0]}: {said[:200]}"
    if isinstance(value, Equal):
        same = with_it[0] == 0 and with_it == without
        return None if same else f"{command} {base} {option} {text}: must change nothing: {value.why}: {said[:200]}"
    if with_it == without:
        return f"{command} {base} {option} {value}: exit {with_it[0]}, as without it: {said[:200]}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--foretrace", required=True)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    foretrace = str(pathlib.Path(arguments.foretrace).resolve())
    only = re.compile(arguments.only)
    with tempfile.TemporaryDirectory(prefix="foretrace_options_") as folder:
        work = pathlib.Path(folder)
        files.make_seeds(work / "seeds", foretrace)
        option_inputs.prepare(work / "work", foretrace)
        env = {**os.environ, "FORETRACE": foretrace, "SRC": str(ROOT), "SEEDS": str(work / "seeds"),
               "WORK": str(work / "work"), "LC_ALL": "C.UTF-8"}
        commands = [line.split()[0] for line in subprocess.run(
            [foretrace, "--help"], capture_output=True, text=True).stdout.split("Subcommands:")[1].split("\n")
            if re.match(r"  [a-z]", line)]
        commands.remove("calibrate")
        commands += [c for c in OPTIONS if c.startswith("calibrate ")]
        failures = [f"{c}: has no line in tests/hostile/options.py" for c in commands if c not in OPTIONS]
        tasks = [(c, o) for c in commands if c in OPTIONS for o in listed(foretrace, c)
                 if only.search(f"{c} {o}")]
        baselines = Baselines(lambda command, base, name: outcome(foretrace, command, base,
                                                                  work / "run" / name, env)[0])
        with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
            failures += [f for f in pool.map(lambda t: check(foretrace, work, env, baselines, *t), tasks) if f]
    for failure in failures:
        print("FAILED", failure)
    print(f"options: {len(tasks)} of {len(commands)} commands, {len(failures)} failed")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
