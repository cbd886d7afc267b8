#!/usr/bin/env python3
"""Runs hostile cases and seeded mutations against a foretrace binary.

  tests/hostile/run.py --foretrace build/release/foretrace [--mutations 2000] [--only REGEX]

Hand-made cases are in cases.py, the files they name in files.py, mutations in mutate.py. Of every
run it is asserted that there is no signal, no internal error, no more than 2 GB and 20 s, no JSON
that a strict parser refuses, no error without one line that says which file and why, no number that
saturated, and nothing left behind. A hand-made case also says which exit code is right, what the
error must name and what must hold afterwards. Mutations are made from their number alone, so that a
failure is found again with --only 'mutation/SLOT/NUMBER$'.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

import cases
import files
import mutate

ROOT = files.ROOT
SECONDS = 20  # of the processor; other work of this machine lengthens the clock's
HANG_SECONDS = 10 * SECONDS  # of the clock, after which a case is ended
BYTES = 2 << 30
PROGRESS = re.compile(r"^foretrace: .* s so far\n", re.MULTILINE)  # of what takes ten seconds
SATURATED_US = 9.2e12  # 2^63 picoseconds are 9.22e12 microseconds


class Result:
    def __init__(self, code, out, err, seconds, peak):
        self.code, self.out, self.err, self.seconds, self.peak = code, out, err, seconds, peak


def execute(command, folder, env, shell):
    """Runs one command; memory and time are those of its whole process tree's largest child."""
    begin = time.monotonic()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(
            ["bash", "-c", command] if shell else command, cwd=folder, env=env, stdout=out,
            stderr=err, stdin=subprocess.DEVNULL,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (3 * BYTES, 3 * BYTES)))
        deadline = begin + HANG_SECONDS
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() > deadline:
                process.kill()
                _, status, usage = os.wait4(process.pid, 0)
                break
            time.sleep(0.002)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        late = time.monotonic() > deadline
        seconds = HANG_SECONDS if late else usage.ru_utime + usage.ru_stime
        return Result(process.returncode, out.read(), err.read(), seconds, usage.ru_maxrss * 1024)


def refuse_constant(name):
    raise ValueError(f"{name} is no JSON")


def saturated(value, key=""):
    """The path of the first time that cannot be one; None."""
    if isinstance(value, dict):
        return next((found for k, v in value.items() if (found := saturated(v, k))), None)
    if isinstance(value, list):
        return next((found for v in value if (found := saturated(v, key))), None)
    if isinstance(value, (int, float)) and key.endswith("_us") and abs(value) >= SATURATED_US:
        return f"{key}: {value}"
    return None


def faults(result, wants_json):
    """What is wrong whatever the case."""
    found = []
    if result.seconds > SECONDS:
        return [f"took more than {SECONDS} s of the processor"]
    if result.code < 0 or result.code > 128:
        found.append(f"ended by signal ({result.code})")
    elif result.code not in (0, 2, 3):
        found.append(f"exit code {result.code}")
    if result.peak > BYTES:
        found.append(f"{result.peak >> 20} MB")
    text = PROGRESS.sub("", result.err.decode("utf-8", "replace"))
    if result.code != 0:
        lines = [line for line in text.split("\n") if line]
        if len(lines) != 1 or not lines[0].startswith("foretrace: error: "):
            found.append(f"not one line of error: {text[:300]!r}")
        if any(ord(c) < 32 for c in text.rstrip("\n")):
            found.append("control bytes in the error")
        if len(text) > 4000:
            found.append(f"an error of {len(text)} bytes")
    if wants_json and result.code in (0, 2, 3):
        try:
            document = json.loads(result.out.decode("utf-8"), parse_constant=refuse_constant)
            if saturation := saturated(document):
                found.append(f"saturated: {saturation}")
            for key in ("schema_version", "foretrace_version", "command"):
                if key not in document:
                    found.append(f"JSON without {key}")
        except ValueError as error:
            found.append(f"JSON: {error}: {result.out[:200]!r}")
    return found


class Runner:
    def __init__(self, foretrace, work):
        self.foretrace = str(pathlib.Path(foretrace).resolve())
        self.work = pathlib.Path(work)
        self.seeds = files.make_seeds(self.work / "seeds", self.foretrace)
        self.bad = self.work / "bad"
        self.bad.mkdir()
        self.damage = files.damaged(files.WORKLOAD.encode())
        for kind, content in self.damage.items():
            (self.bad / kind).write_bytes(content)
        self.env = {**os.environ, "SRC": str(ROOT), "SEEDS": str(self.work / "seeds"),
                    "BAD": str(self.bad), "FORETRACE": self.foretrace, "LC_ALL": "C.UTF-8",
                    "FORETRACE_REALDATA": "/nonexistent"}

    def hand_made(self, case):
        folder = self.work / "run" / re.sub(r"[^A-Za-z0-9_.-]", "_", case.name)[:120]
        folder.mkdir(parents=True)
        try:
            if case.setup:
                subprocess.run(["bash", "-c", case.setup], cwd=folder, env=self.env,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
            result = execute(f"exec $FORETRACE {case.command}", folder, self.env, shell=True)
            found = faults(result, "--json" in case.command)
            text = result.err.decode("utf-8", "replace")
            if result.code in (0, 2, 3) and result.code not in case.exits:
                found.append(f"exit code {result.code}, not {' or '.join(map(str, case.exits))}")
            if result.code != 0:
                for word in (*case.says, case.names_file):
                    if word and word not in text:
                        found.append(f"does not say {word!r}")
            for word in case.stdout:
                if word not in result.out.decode("utf-8", "replace"):
                    found.append(f"prints no {word}")
            if case.check and subprocess.run(
                    ["bash", "-c", case.check], cwd=folder, env=self.env,
                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode != 0:
                found.append(f"afterwards not: {case.check}")
            return self.failure(case.name, f"foretrace {case.command}", result, found)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def mutation(self, slot, command, number):
        source = self.seeds[slot]
        folder = self.work / "run" / f"m{slot}{number}"
        shutil.copytree(source.parent, folder) if slot.startswith("kernels") or \
            slot == "calibration" else folder.mkdir(parents=True)
        if slot.endswith("_accelerator"):
            shutil.copy(source.parent / "own_platform.yaml", folder)
        try:
            place = folder / PLACED.get(slot, "")
            place.mkdir(parents=True, exist_ok=True)
            (place / source.name).write_bytes(mutate.mutate(number, slot, source.read_bytes()))
            words = [word.replace("FILE", source.name).replace("$SEEDS", str(self.work / "seeds"))
                     .replace("$SRC", str(ROOT)) for word in shlex.split(command)]
            result = execute([self.foretrace, *words], folder, self.env, shell=False)
            found = faults(result, "--json" in command)
            text = result.err.decode("utf-8", "replace")
            name = "kernels" if slot.startswith("kernels") else source.name.split(".")[0]
            if result.code == 2 and name not in text:
                found.append(f"does not name {source.name}")
            return self.failure(f"mutation/{slot}/{number}", "foretrace " + shlex.join(words),
                                result, found)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    @staticmethod
    def failure(name, command, result, found):
        if not found:
            return None
        return (f"{name}\n    {command[:300]}\n    exit {result.code}, {result.seconds:.2f} s, "
                f"{result.peak >> 20} MB: {'; '.join(found)}\n    "
                f"{result.err[:300].decode('utf-8', 'replace')!r}")


# Where a seed is found by its name alone.
PLACED = {"stack": "topologies/stacks"}
# The command that reads each seed, for mutations.
MUTATED = {
    "kineto": "predict FILE --json", "pytorch_et": "inspect FILE --json",
    "chakra": "predict FILE --json", "bundle": "inspect FILE --json", "gzip": "predict FILE --json",
    "xz": "inspect FILE --json", "tar": "inspect FILE --json",
    "platform": "collective all_reduce --topology FILE --bytes 1M --network fitted --json",
    "accelerator": "inspect FILE --json",
    "requests": "serve llama3.1-8b --platform dgx-h100 --skip-too-long --requests FILE --json",
    "azure": "serve llama3.1-8b --platform dgx-h100 --skip-too-long --requests FILE --json",
    "mooncake": "serve llama3.1-8b --platform dgx-h100 --skip-too-long --requests FILE --json",
    "sharegpt": "serve llama3.1-8b --platform dgx-h100 --skip-too-long --requests FILE --json",
    "engine": "serve llama3.1-8b --platform dgx-h100 --count 3 --engine FILE --json",
    "workload": "search FILE --platform dgx-a100 --gpus 4 --global-batch 64 --kernels none "
                "--max-chunks 1 --max-micro-batch 2 --json",
    "published": "search FILE --platform dgx-a100 --gpus 4 --global-batch 64 --kernels none "
                 "--max-chunks 1 --max-micro-batch 2 --json",
    "graph": "search FILE --platform dgx-a100 --gpus 2 --global-batch 16 --kernels none "
             "--searcher sequential --json",
    "task": "shard FILE --sharders naive --json",
    "plan": "shard $SEEDS/task.yaml --sharders naive --plan FILE --json",
    "groups": "predict $SRC/traces/samples/dlrm_8rank --process-groups FILE --json",
    "collectives": "calibrate collective FILE --hold-out every-third --json",
    "cases": "validate FILE --json",
    "mapping": "search $SEEDS/gpt.yaml --platform dgx-a100 --gpus 4 --global-batch 64 --kernels "
               "none --compare FILE 'tp2 pp2 dp1 mb1 gb64' --json",
    "journal": "search $SEEDS/gpt.yaml --platform dgx-a100 --gpus 4 --global-batch 64 --kernels "
               "none --max-chunks 1 --max-micro-batch 4 --journal FILE --json",
    "overheads": "predict $SEEDS/kineto/k.json --overheads FILE --json",
    "mappings": "validate --mappings FILE --platform dgx-a100 --json",
    "calibration": "calibrate collective --calibration FILE --test $SEEDS/lab.csv --json",
    "kernels_yaml": "predict $SEEDS/kineto/k.json --durations model --calibration . --platform "
                    "dgx-a100 --json",
    "kernels_pb": "predict $SEEDS/kineto/k.json --durations model --calibration . --platform "
                  "dgx-a100 --json",
    "network": "place FILE --backends framework,tvm,tensorrt,cudnn --device v100-sxm2-16gb "
               "--graph-level tensorrt --json",
    "backend": "place dcgan --backends framework,FILE --device v100-sxm2-16gb --json",
    "step_factors": "serve llama3.1-8b --platform dgx-h100 --count 5 --rate 5 --step-factors FILE --json",
    "operator_costs": "place dcgan --backends framework,tvm --device v100-sxm2-16gb --costs FILE --json",
    "measured": "collective --topology dgx-a100 --measured FILE --min-bytes 4K --fit --json",
    "snapshot": "inspect FILE --json", "pftrace": "inspect FILE --json",
    "own_timeline": "predict FILE --json",
    "space": "architect gpt-small --space FILE --devices 16 --hbm 32 --global-batch 64 --widths 1 "
             "--micro-batches 1 --json",
    "system": "dataflow gpt3-175b --system FILE --forward --batch 64 --json",
    "dataflow_mapping": "dataflow gpt3-175b --system sn10-8 --forward --batch 64 --mapping FILE --json",
    "stack": "validate --calibration none --mappings $SEEDS/training.csv --json",
    "training_rows": "validate --calibration none --mappings FILE --json",
    "sweep_journal": "sweep collective all_reduce --topology dgx-a100 --bytes 1M --over ranks=2:8:x2 "
                     "--journal FILE --json",
    "explore_journal": "explore dfmodel-fft -o out --journal FILE --json",
    "architect_journal": "architect gpt-small --space $SEEDS/space.yaml --devices 16 --hbm 32 "
                         "--global-batch 64 --widths 1 --micro-batches 1 --journal FILE --json",
    "own_accelerator": "search $SEEDS/gpt.yaml --platform own_platform.yaml --gpus 8 --global-batch 64 --max-chunks 1 "
                       "--max-micro-batch 2 --json",
    "served_accelerator": "serve llama3.1-8b --platform own_platform.yaml --count 3 --json",
    "searched_platform": "search $SEEDS/gpt.yaml --platform FILE --gpus 16 --global-batch 64 --max-chunks 1 "
                         "--max-micro-batch 2 --json",
    "served_platform": "serve llama3.1-8b --platform FILE --parallel tp2 --count 3 --json",
    "exchanges": "calibrate expert-exchange FILE --hold-out shapes --json",
    "powers": "calibrate power FILE --platform dgx-h200 --json",
    "iterations": "calibrate serving FILE --json",
    "operator_table": "serve llama3.1-8b --platform dgx-h100 --count 3 --operators FILE --json",
    "locality": "shard-tasks FILE -o out --platform paper-4xa100 --per-part 1 --json",
}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--foretrace", required=True)
    parser.add_argument("--mutations", type=int, default=int(os.environ.get("FORETRACE_MUTATIONS", 300)))
    # More than two processors' worth: a run on a pipe waits two seconds for somebody to write.
    parser.add_argument("--jobs", type=int, default=5)
    parser.add_argument("--only", default="")
    parser.add_argument("--least", type=int, default=900, help="hand-made cases that there must be")
    arguments = parser.parse_args()
    only = re.compile(arguments.only)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="foretrace_hostile_") as work:
        runner = Runner(arguments.foretrace, work)
        tasks = []
        hand_made = cases.all_cases(runner.damage)
        if len(hand_made) < arguments.least:
            sys.exit(f"only {len(hand_made)} hand-made cases")
        for case in hand_made:
            if only.search(case.name):
                tasks.append((runner.hand_made, (case,)))
        slots = [slot for slot in MUTATED if slot in runner.seeds]
        missing = sorted(MUTATED.keys() - runner.seeds.keys())
        if missing:
            sys.exit(f"no seed of {', '.join(missing)}")
        for i in range(arguments.mutations):
            slot, number = slots[i % len(slots)], i // len(slots)
            if only.search(f"mutation/{slot}/{number}"):
                tasks.append((runner.mutation, (slot, MUTATED[slot], number)))
        with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
            failures = 0
            for failure in pool.map(lambda task: task[0](*task[1]), tasks):
                if failure:
                    failures += 1
                    print("FAILED", failure, flush=True)
    print(f"hostile: {len(tasks)} runs ({len(hand_made)} hand-made cases there), "
          f"{failures} failed, {time.monotonic() - begin:.0f} s")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
