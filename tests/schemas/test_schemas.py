"""Documents of --json against schemas/COMMAND.json, by other command lines than those that scripts/make_schemas.py derives
them from; skipped without jsonschema (Debian: python3-jsonschema)."""
import json
import os
import pathlib
import subprocess
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
    "list gpus",
]


def schema(command):
    return json.loads((ROOT / "schemas" / f"{command}.json").read_text())


@unittest.skipIf(jsonschema is None, "needs jsonschema (Debian: python3-jsonschema)")
class Schemas(unittest.TestCase):
    def test_schemas_are_schemas(self):
        files = sorted((ROOT / "schemas").glob("*.json"))
        self.assertGreater(len(files), 10)
        for file in files:
            jsonschema.Draft202012Validator.check_schema(json.loads(file.read_text()))

    def test_documents(self):
        for line in COMMANDS:
            with self.subTest(line):
                done = subprocess.run([FORETRACE, *line.split(), "--json"], cwd=ROOT, capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)
                jsonschema.Draft202012Validator(schema(line.split()[0])).validate(json.loads(done.stdout))

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
