#!/usr/bin/env python3
"""Writes proto/json/COMMAND.json: what the documents of --json hold, as JSON Schema (2020-12).

Types are those of the documents that the commands below print; a member is required where all of them have it. A number
may always be null (what is no number is written so), further members may come. Read the difference before you commit it:
a member that goes or changes its type is a new schema_version (simulator/console/output.h).

  scripts/make_schemas.py --foretrace build/release/foretrace [--check]
"""
import argparse
import json
import pathlib
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "proto/json"
VERSION = 1
SAMPLE = "traces/samples/dlrm_8rank"
MODULES = "tests/data/profile/modules.json"
ARCHITECT = "--space tests/golden/architect_small/space.yaml --devices 16 --hbm 32 --global-batch 64"
COMMANDS = {
    "predict": [SAMPLE, f"{SAMPLE} --sensitivity --what-if name=gemm:x0.5", f"{MODULES} --by module --memory", f"{MODULES} --memory --memory-if micro-batch=x2",
                f"{SAMPLE} --by stream", f"{SAMPLE} --ranks 16 --platform dgx-a100", "tests/data/doctor/bare.json --allow-missing-ranks"],
    "diff": [f"{SAMPLE} {SAMPLE}", f"{SAMPLE} --what-if kind=collective:x0.5"],
    "doctor": [SAMPLE, "tests/data/doctor/bare.json"],
    "inspect": [SAMPLE, MODULES, f"{SAMPLE} --kernels", f"{SAMPLE} --ops", "topologies/dgx-h100.yaml",
                "tests/data/memory/snapshot.pickle",
                "topologies/accelerators/h100-sxm5-80gb.yaml"],
    "validate": [f"--trace {SAMPLE}", "--calibration none --mappings tests/data/mappings/training_rows.csv",
                 "--serving tests/data/serving/runs/A100_Llama-3.1-8B --profiles tests/data/serving/profiles", f"--trace {SAMPLE} --durations model --calibration a100-sxm4-nvswitch --platform dgx-a100"],
    "collective": ["all_reduce --topology dgx-h100 --ranks 8 --bytes 1KB:1MB",
                   "all_reduce --topology dgx-a100 --algorithm ring --bytes 256M --links",
                   "--measured tests/data/calibrate/all_reduce.csv --topology dgx-a100",
                   "--measured tests/data/calibrate/all_reduce.csv --topology dgx-a100 --fit"],
    "search": ["traces/workloads/gpt-small.yaml --platform dgx-a100 --gpus 8 --global-batch 16",
               "traces/workloads/gpt-small.yaml --platform dgx-a100 --gpus 8 --global-batch 16 --stack megatron-lm",
               "traces/workloads/gpt-small.yaml --platform dgx-a100 --gpus 4 --global-batch 8",
               "traces/workloads/gpt-small.yaml --platform dgx-a100 --gpus 2 --global-batch 4 --energy --memory",
               "traces/workloads/gpt-small.yaml --platform dgx-a100 --gpus 4 --global-batch 8 --network fluid",
               "traces/workloads/gpt-small.yaml --platform dgx-a100 --gpus 8 --global-batch 16 --compare 'tp2 pp1 dp4 mb2' 'tp4 pp1 dp2 mb2'"],
    "shard": ["traces/samples/dlrm_sharding.yaml --sharders lpt", "traces/samples/dlrm_sharding.yaml --sharders lpt,naive,random",
              "traces/samples/dlrm_sharding.yaml --sharders naive --explain user_history"],
    "serve": ["llama3.1-8b --platform dgx-h100 --requests tests/data/serving/requests.csv",
              "llama3.1-8b --platform dgx-h200 --requests tests/data/serving/requests.csv",
              "llama3.1-8b --platform dgx-h100 --requests tests/data/serving/requests.csv --replicas 2 --decode-engines 1",
              "deepseek-v2 --platform dgx-h200 --parallel 'dp8 ep' --count 5",
              "llama3.1-8b --platform dgx-h100 --rate 4 --count 20 --search --gpus 2"],
    "place": ["gpt3-1.3b --backends framework,flash-attention --device a100-sxm4-80gb",
              "gpt3-1.3b --backends framework,tensorrt --device a100-sxm4-80gb --graph-level tensorrt --ablation",
              "tests/data/public/hta-traces/trace_diff/control/control.json.gz --allow-missing-ranks --backends torch-compile --ablation"],
    "sweep": [f"predict {SAMPLE} --over cpu-scale=0.5,1 --scaling weak", f"predict {SAMPLE} --over top=1,2 --value step.period_us"],
    "list": ["platforms", "calibrations", "workloads", "stacks", "gpus"],
    "architect": [f"gpt-small bert-large {ARCHITECT} --widths 1,2 --micro-batches 1,4 --compare",
                  f"gpt-small {ARCHITECT} --search hysteresis --hysteresis 2", f"facebook/opt-125m {ARCHITECT}"],
    "calibrate": ["collective tests/data/calibrate/all_reduce.csv", "kernel tests/data/calibrate/operators.csv", "collective tests/data/calibrate/all_reduce.csv --hold-out every-third"],
    "calibrate serving": ["tests/data/calibrate/iterations.csv", "tests/data/calibrate/operators.csv",
                          "tests/data/serving/runs/A100_Llama-3.1-8B"],
    "calibrate power": ["tests/data/calibrate/powers.csv --platform dgx-h200"],
    "calibrate trace-overheads": [SAMPLE],
    "convert": [f"{SAMPLE} -o OUT --check", "tests/data/profile/modules.json --check", "tests/data/profile/modules.json -o OUT"],
    "dataflow": ["GPT-3-175B --system sn10-8 --batch 2304 --forward --formulas dse", "gpt3-175b --system sn10-4x2 --batch 2304 --forward --tensor-parallel"],
    "explore": ["dfmodel-fft -o OUT"],
    "generate": ["traces/workloads/gpt-small.yaml --platform dgx-a100 --mapping 'tp2 pp2 dp2 mb1 gb8' -o OUT"],
    "serve-study": ["volumes --model meta-llama/Llama-2-7b-hf", "volumes", "decode --platform dgx-a100 --devices 4", "drafts --draft-us 81.1 --target-us 31507",
                    "phases --model llama3-8b --devices 2"],
    "shard-study": ["traces/samples/dlrm_sharding.yaml", "traces/samples/dlrm_sharding.yaml --search"],
    "shard-tasks": ["tests/data/sharding/locality.txt --platform paper-4xa100 --per-part 1 -o OUT"],
}
# Members that no document here has as null: where nothing was recorded that a replay could repeat.
NULLABLE = {"predict": ["reliable"]}
# Texts that are one of a few (docs/semantics.md), by the members that lead to them.
ONE_OF = {"diff": {path: ["period", "completion", "work", "trace"] + mixed for path, mixed in
                   ((("definition",), ["mixed"]), (("before", "definition"), []), (("after", "definition"), []))}}
# Objects whose members are names of the input or of kinds of work, all of one type.
UNITS = ("_us", "_ns", "_s", "_bytes", "_percent", "_share")
MAPS = {"shardings", "work_us", "idle_us", "sources_us", "activities_us", "groups_us", "collective_bytes", "source_shares", "repairs"}


def document(foretrace, command, arguments):
    """OUT is a folder that is not there yet."""
    with tempfile.TemporaryDirectory(prefix="foretrace-schemas-") as folder:
        words = [f"{folder}/out" if word == "OUT" else word for word in shlex.split(f"{command} {arguments}")]
        done = subprocess.run([foretrace, *words, "--json"], cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"foretrace {command} {arguments}: {done.stderr}")
    return json.loads(done.stdout)


def kind(value):
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "number"
    return {type(None): "null", str: "string", list: "array", dict: "object"}[type(value)]


def schema_of(values, name=""):
    """Of values that stand in the same place in several documents."""
    kinds = {kind(v) for v in values}
    if kinds == {"null"}:  # says nothing of what else it may be, but for numbers
        return {"type": ["null", "number"]} if name.endswith(UNITS) else {}
    if "number" in kinds:
        kinds.add("null")
    kinds = sorted(kinds)
    schema = {"type": kinds[0] if len(kinds) == 1 else kinds} if kinds else {}
    objects = [v for v in values if isinstance(v, dict)]
    if objects and name in MAPS:
        schema["additionalProperties"] = schema_of([x for o in objects for x in o.values()])
    elif objects:
        keys = list(dict.fromkeys(k for o in objects for k in o))
        schema["properties"] = {k: schema_of([o[k] for o in objects if k in o], k) for k in keys}
        required = [k for k in keys if all(k in o for o in objects)]
        if required:
            schema["required"] = required
    items = [x for v in values if isinstance(v, list) for x in v]
    if items:
        schema["items"] = schema_of(items)
    return schema


def make(foretrace, command):
    documents = [document(foretrace, command, arguments) for arguments in COMMANDS[command]]
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": f"urn:foretrace:{command.replace(' ', '-')}:{VERSION}",
              "title": f"foretrace {command} --json",
              "description": "Keys end in their unit: _us microseconds, _ns nanoseconds, _s seconds, _bytes bytes, _percent per cent; "
                             "_share is a fraction of 1."}
    schema |= schema_of(documents)
    for key in NULLABLE.get(command, []):
        schema["properties"][key] = {"type": sorted({"null", schema["properties"][key]["type"]})}
    for path, texts in ONE_OF.get(command, {}).items():
        at = schema
        for key in path[:-1]:
            at = at["properties"][key]
        at["properties"][path[-1]] = {"enum": texts}
    schema["properties"]["schema_version"] = {"const": VERSION}
    schema["properties"]["command"] = {"const": command}
    return schema


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--foretrace", required=True)
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 where a schema differs")
    options = parser.parse_args()
    foretrace = str(pathlib.Path(options.foretrace).resolve())
    stale = []
    for command in COMMANDS:
        text = json.dumps(make(foretrace, command), indent=1) + "\n"
        path = FOLDER / f"{command.replace(' ', '-')}.json"
        if options.check and (not path.exists() or path.read_text() != text):
            stale.append(path.name)
        elif not options.check:
            path.write_text(text)
    if stale:
        print(f"make_schemas: {', '.join(stale)} differ; run without --check and read the difference")
        sys.exit(1)


if __name__ == "__main__":
    main()
