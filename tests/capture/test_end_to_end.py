"""Capture and import of a tiny training run on two processes of this machine.

    test_end_to_end.py --foretrace PATH [unittest arguments]
PATH may also come from the environment variable FORETRACE; without either, and without PyTorch, the
tests are skipped.  A trace from a CPU has no kernels, so that it is read, and nothing predicted; the
golden `captured` predicts and validates a capture of GPUs.
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from support_path import NO_TORCH, TORCH_PYTHON, run  # noqa: E402

FORETRACE = os.environ.get("FORETRACE", "")
STEPS = 4


def foretrace(*arguments):
    """The JSON document that a command prints."""
    done = subprocess.run([FORETRACE] + list(arguments) + ["--json"], capture_output=True, text=True,
                          timeout=120, check=False)
    if done.returncode != 0:
        raise AssertionError("foretrace %s: exit code %d: %s" %
                             (" ".join(arguments), done.returncode, done.stderr))
    return json.loads(done.stdout)


@unittest.skipUnless(TORCH_PYTHON, NO_TORCH)
class EndToEndTest(unittest.TestCase):
    def setUp(self):
        if not FORETRACE:
            self.skipTest("no foretrace binary was given (--foretrace PATH)")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.traces = os.path.join(folder.name, "traces")

    def capture(self, ranks, workload):
        code, errors = run("capture_trace.py", "--device", "cpu", "--tiny", "--ranks", ranks, "--steps",
                           STEPS, "--warmup", 3, "--profiler-warmup", 1, "--workload", workload,
                           "--output", self.traces)
        self.assertEqual(code, 0, errors)
        with open(os.path.join(self.traces, "manifest.json"), encoding="utf-8") as file:
            return json.load(file)

    def check(self, ranks, workload):
        manifest = self.capture(ranks, workload)
        inspected = foretrace("inspect", self.traces)
        found = inspected["ranks"]
        self.assertEqual(found if isinstance(found, int) else len(found), ranks)

        self.assertEqual(len(manifest["per_rank"]), ranks)
        for command in (["predict", self.traces], ["validate", "--trace", self.traces]):
            done = subprocess.run([FORETRACE] + command, capture_output=True, text=True, timeout=120,
                                  check=False)
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertIn("ProfilerActivity.CUDA", done.stderr)

    def test_one_rank_of_a_transformer(self):
        self.check(1, "gpt2-small")

    def test_two_ranks_of_dlrm(self):
        self.check(2, "dlrm")


if __name__ == "__main__":
    if "--foretrace" in sys.argv:
        place = sys.argv.index("--foretrace")
        FORETRACE = os.path.abspath(sys.argv[place + 1])
        del sys.argv[place:place + 2]
    unittest.main()
