"""Documents of --json against proto/json/COMMAND.json, by other command lines than those that scripts/make_schemas.py derives
them from; skipped without jsonschema (Debian: python3-jsonschema)."""
import json
import os
import pathlib
import re
import shlex
import subprocess
import tempfile
import unittest

try:
    import jsonschema
except ImportError:
    jsonschema = None

ROOT = pathlib.Path(__file__).resolve().parents[2]
FORETRACE = os.environ["FORETRACE"]
SAMPLE = "traces/samples/dlrm_8rank"
COMMANDS = [
    f"predict {SAMPLE} --semantics algorithm1", f"predict {SAMPLE} --iteration 1 --top 2", f"predict {SAMPLE} --by kernel",
    f"predict {SAMPLE} --cpu-scale 2 --sensitivity", "predict tests/data/doctor/bare.json --allow-missing-ranks",
    f"diff {SAMPLE} --what-if name=gemm:x2", f"doctor {SAMPLE} --strict", "inspect tests/data/doctor/bare.json",
    f"validate --trace {SAMPLE} --ablation", "collective all_gather --topology dgx-a100 --ranks 16 --bytes 1MB --network fitted",
    "search traces/workloads/gpt-small.yaml --platform dgx-h100 --gpus 2 --global-batch 4",
    "shard traces/samples/dlrm_sharding.yaml --sharders size_greedy", "serve llama3.1-8b --platform dgx-a100 --requests tests/data/serving/requests.csv",
    "place gpt3-350m --backends framework --device h100-sxm5-80gb", f"sweep predict {SAMPLE} --over top=1,2 --value ranks[0].busy_us",
    "list gpus", "inspect topologies/dgx-a100.yaml", "collective all_reduce --measured tests/data/calibrate/all_reduce.csv --topology dgx-h100",
    "architect gpt-small --space tests/golden/architect_small/space.yaml --devices 8 --hbm 32 --global-batch 64 --objective per-area",
    "calibrate collective tests/data/calibrate/all_reduce.csv --hold-out powers-of-two", "calibrate kernel tests/data/calibrate/operators.csv", "calibrate serving tests/data/calibrate/iterations.csv",
    "calibrate power tests/data/calibrate/powers.csv --platform dgx-h200", "serve llama3.1-8b --platform dgx-h200 --rate 5 --count 5",
    f"calibrate trace-overheads {SAMPLE} --ranks 0-3", f"convert {SAMPLE} --check", f"convert {SAMPLE} -o OUT --prefix p",
    "dataflow gpt3-175b --system sn10-8 --batch 1 --tiles 512", "explore dfmodel-fft -o OUT --jobs 2",
    "generate traces/workloads/gpt-small.yaml --platform dgx-h100 --mapping 'tp1 pp1 dp2 mb1 gb4' -o OUT --sizes-only",
    "serve-study decode --platform dgx-h100 --devices 2 --spread 0.5", "shard-study traces/samples/dlrm_sharding.yaml --search",
    "shard-tasks tests/data/sharding/locality.txt --platform dgx-a100 --per-part 1 --gpus 2 -o OUT",
]


def schema(command):
    return json.loads((ROOT / "proto/json" / f"{command}.json").read_text())


def unknown(value, schema, where=""):
    """Members of a document that its schema does not name; it allows more, but those that are there it describes. Points of
    sweeps have members that the command line names."""
    if isinstance(value, list):
        return [name for v in value for name in unknown(v, schema.get("items", {}), f"{where}[]")]
    if not isinstance(value, dict) or "properties" not in schema:
        return []
    found = [f"{where}.{name}" for name in value if name not in schema["properties"] and where != ".points[]"]
    return found + [name for k, v in value.items() for name in unknown(v, schema["properties"].get(k, {}), f"{where}.{k}")]


@unittest.skipIf(jsonschema is None, "needs jsonschema (Debian: python3-jsonschema)")
class Schemas(unittest.TestCase):
    def test_schemas_are_schemas(self):
        files = sorted((ROOT / "proto/json").glob("*.json"))
        self.assertGreater(len(files), 10)
        for file in files:
            jsonschema.Draft202012Validator.check_schema(json.loads(file.read_text()))

    def test_every_command_with_json_has_one(self):
        commands = subprocess.run([FORETRACE, "--help"], capture_output=True, text=True, check=True).stdout.partition("Subcommands:")[2]
        names = re.findall(r"^  ([a-z-]+) ", commands, re.M)
        self.assertGreater(len(names), 15)
        for name in names:
            text = subprocess.run([FORETRACE, name, "--help"], capture_output=True, text=True, check=True).stdout
            if re.search(r"^  --json ", text, re.M):
                self.assertTrue((ROOT / "proto/json" / f"{name}.json").exists(), name)

    def test_documents(self):
        for line in COMMANDS:
            with self.subTest(line):
                with tempfile.TemporaryDirectory(prefix="foretrace-schemas-") as folder:
                    words = [f"{folder}/out" if word == "OUT" else word for word in shlex.split(line)]
                    done = subprocess.run([FORETRACE, *words, "--json"], cwd=ROOT, capture_output=True, text=True)
                if "module ceres is not installed" in done.stderr:
                    continue  # built without modules
                self.assertEqual(done.returncode, 0, done.stderr)
                document = json.loads(done.stdout)
                described = schema(document["command"].replace(" ", "-"))
                jsonschema.Draft202012Validator(described).validate(document)
                self.assertEqual(sorted(set(unknown(document, described))), [], "scripts/make_schemas.py describes them")

    def test_documents_of_golden_cases(self):
        """Every document that a golden case asks for, also where it prints but a part."""
        cases = [cmd.parent.name for cmd in sorted((ROOT / "tests/golden").glob("*/cmd")) if "--json" in cmd.read_text()]
        self.assertGreater(len(cases), 15)
        with tempfile.TemporaryDirectory(prefix="foretrace-schemas-") as folder:
            documents = pathlib.Path(folder) / "documents"
            documents.mkdir()
            program = pathlib.Path(folder) / "foretrace"
            real = pathlib.Path(FORETRACE).resolve()
            program.write_text(f"""#!/bin/bash
[[ " $* " == *" --json "* ]] || exec "{real}" "$@"
"{real}" "$@" | tee -p "$(mktemp "{documents}/XXXXXX")"
exit "${{PIPESTATUS[0]}}"
""")
            program.chmod(0o755)
            subprocess.run(["python3", str(ROOT / "scripts/golden.py"), "--foretrace", str(program), *cases], capture_output=True)
            seen = set()
            for path in documents.iterdir():
                if not path.stat().st_size:
                    continue  # refused before there was a document
                document = json.loads(path.read_text())
                if "error" in document:
                    continue
                with self.subTest(document["command"]):
                    described = schema(document["command"].replace(" ", "-"))
                    jsonschema.Draft202012Validator(described).validate(document)
                    self.assertEqual(sorted(set(unknown(document, described))), [])
                seen.add(document["command"])
        self.assertGreater(len(seen), 8, seen)

    def test_a_wrong_document_is_refused(self):
        line = f"predict {SAMPLE} --json"
        document = json.loads(subprocess.run([FORETRACE, *line.split()], cwd=ROOT, capture_output=True, text=True, check=True).stdout)
        validator = jsonschema.Draft202012Validator(schema("predict"))
        validator.validate(document)
        for change in ({"iteration_time_us": "3"}, {"ranks": {}}, {"schema_version": 2}):
            self.assertFalse(validator.is_valid(document | change), change)
        del document["iteration_time_us"]
        self.assertFalse(validator.is_valid(document))


if __name__ == "__main__":
    unittest.main()
