"""A program of its own against an installation: find_package(foretrace), and what the library answers."""
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ["FORETRACE_BUILD"])


def run(*command, **options):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)


class Api(unittest.TestCase):
    maxDiff = None

    def test_example_against_the_installation(self):
        with tempfile.TemporaryDirectory(prefix="foretrace-api-") as folder:
            prefix, example = pathlib.Path(folder) / "prefix", pathlib.Path(folder) / "example"
            self.done(run("cmake", "--install", BUILD, "--prefix", prefix))
            self.done(run("cmake", "-S", ROOT / "tests/api/program", "-B", example, "-G", "Ninja",
                          f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_BUILD_TYPE=Debug"))
            self.done(run("cmake", "--build", example))
            data = prefix / "share/foretrace"
            lines = self.done(run(example / "example", data, cwd=folder)).splitlines()
            program = prefix / "bin/foretrace"
            sample = data / "traces/samples/dlrm_8rank"
            whole = json.loads(self.done(run(program, "predict", sample, "--json")))
            first, half = (json.loads(self.done(run(program, "predict", sample, "--iteration", "0", "--json", *more)))
                           for more in ((), ("--what-if", "name=embedding,rank=4:x0.5")))
            saved = first["step_time_us"] - half["step_time_us"]
            self.assertGreater(saved, 0)
            numbers = [name for name, value in whole["ranks"][0].items() if not isinstance(value, (list, dict))]
            validated = json.loads(self.done(run(program, "validate", "--trace", sample, "--json")))
            found = json.loads(self.done(run(program, "search", data / "traces/workloads/gpt-small.yaml", "--platform",
                                             "dgx-a100", "--global-batch", "16", "--json")))
            self.assertEqual(lines[:-1], [
                f"ranks {len(whole['ranks'])} iterations {len(whole['iterations'])}",
                f"iteration_time_us {whole['iteration_time_us']:.6f} saved_us {saved:.6f}",
                f"columns {len(numbers)} rows {len(whole['ranks'])}",
                f"steps {len(validated['cases'])}",
                f"mapping {found['mappings'][0]['mapping']}",
                "plan lpt",
                "stopped 1"])
            message = run(program, "inspect", "/nowhere").stderr.strip().removeprefix("foretrace: error: ")
            self.assertEqual(lines[-1], f"error 2 {message}")

    def done(self, completed):
        self.assertEqual(completed.returncode, 0, completed.stdout + completed.stderr)
        return completed.stdout


if __name__ == "__main__":
    unittest.main()
