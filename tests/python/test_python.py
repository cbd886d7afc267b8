"""The Python package, as built by CMake: FORETRACE_BUILD/python on the path."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import numpy

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ["FORETRACE_BUILD"])
sys.path.insert(0, str(BUILD / "python"))
import foretrace  # noqa: E402
from foretrace import _foretrace  # noqa: E402

PROGRAM = BUILD / "foretrace"
SAMPLE = ROOT / "traces/samples/dlrm_8rank"
GPT = ROOT / "traces/workloads/gpt-small.yaml"
TASK = ROOT / "traces/samples/dlrm_sharding.yaml"


def printed(*arguments):
    return json.loads(subprocess.run([PROGRAM, *map(str, arguments), "--json"], capture_output=True, check=True).stdout)


class Answers(unittest.TestCase):
    """Each function against what the command prints with --json."""

    def test_predict(self):
        prediction = foretrace.predict(SAMPLE, what_if=["kind=collective:x0.5", "rank=2:delay=1ms"], top=3)
        self.assertIsInstance(prediction, foretrace.Prediction)
        self.assertEqual(prediction.to_dict(), printed("predict", SAMPLE, "--what-if", "kind=collective:x0.5", "--what-if",
                                                       "rank=2:delay=1ms", "--top", 3))
        self.assertEqual(prediction.ranks[4].rank, 4)
        self.assertEqual(prediction.critical_path.total_us, prediction["critical_path"]["total_us"])

    def test_validate(self):
        self.assertEqual(foretrace.load(SAMPLE).validate().to_dict(), printed("validate", "--trace", SAMPLE))

    def test_search(self):
        ours = foretrace.search(GPT, "dgx-a100", global_batch=16, gpus=4).to_dict()
        theirs = printed("search", GPT, "--platform", "dgx-a100", "--global-batch", 16, "--gpus", 4)
        for document in (ours, theirs):  # the clock's
            del document["seconds"], document["evaluations_per_second"]
        self.assertEqual(ours, theirs)

    def test_job_is_imported_once(self):
        job = foretrace.load(SAMPLE)
        self.assertEqual((job.rank_count, job.world_size), (8, 8))
        self.assertEqual(job.inspection.to_dict(), printed("inspect", SAMPLE))
        self.assertEqual(job.predict(iteration=1).to_dict(), printed("predict", SAMPLE, "--iteration", 1))
        self.assertEqual(job.sensitivity().to_dict(), printed("predict", SAMPLE, "--sensitivity"))
        self.assertGreater(job.what_if("name=embedding:x0.5", iteration=0).saved_us, 0)

    def test_generate(self):
        with tempfile.TemporaryDirectory() as folder:
            made = foretrace.generate(GPT, "dgx-a100", "tp2 pp2 dp2 mb1 gb16", folder)
            self.assertEqual((made.output, made.ranks), (folder, 8))
            again = foretrace.predict(folder)
            self.assertAlmostEqual(again.iteration_time_us / made.iteration_time_us, 1, delta=0.01)

    def test_shard(self):
        self.assertEqual(foretrace.shard(TASK, sharders="lpt").to_dict(), printed("shard", TASK, "--sharders", "lpt"))

    def test_collective(self):
        ours = foretrace.collective("all_reduce", "dgx-a100", bytes="1M:4M")
        self.assertEqual(ours.to_dict(), printed("collective", "all_reduce", "--topology", "dgx-a100", "--bytes", "1M:4M"))
        self.assertEqual(len(ours.rows), 3)

    def test_step_predictor(self):
        steps = foretrace.StepPredictor("llama3.1-8b", "dgx-h100")
        one = steps.predict(chunks=[(512, 0)], decodes=32, decode_cached=32000)
        more = steps.predict(chunks=[(1024, 0)], decodes=32, decode_cached=32000)
        self.assertLess(one["us"], more["us"])
        self.assertAlmostEqual(one["calibrated"] + one["analytic"], 1)
        with self.assertRaisesRegex(ValueError, "at least one token"):
            steps.predict()

    def test_step_predictor_refuses(self):
        with self.assertRaisesRegex(foretrace.BadInput, "tp3"):
            foretrace.StepPredictor("llama3.1-8b", "dgx-h100", "tp3x")

    def test_notebook(self):
        done = subprocess.run([sys.executable, ROOT / "tests/python/notebook.py"], capture_output=True, text=True,
                              env={**os.environ, "PYTHONPATH": str(BUILD / "python"), "FORETRACE_SOURCE": str(ROOT)})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("rank 4 is last", done.stdout)


class Columns(unittest.TestCase):
    def test_numbers_are_views_that_keep_their_table(self):
        prediction = foretrace.predict(SAMPLE)
        columns = prediction.columns("ranks")
        expected = prediction.to_dict()["ranks"]
        del prediction
        self.assertEqual(columns["rank"].dtype, numpy.int64)
        self.assertEqual(columns["busy_us"].dtype, numpy.float64)
        self.assertFalse(columns["busy_us"].flags.owndata)  # no copy: the memory is the table's
        self.assertFalse(columns["busy_us"].flags.writeable)
        numpy.testing.assert_array_equal(columns["busy_us"], [rank["busy_us"] for rank in expected])
        self.assertNotIn("streams", columns)

    def test_texts_and_paths(self):
        prediction = foretrace.predict(SAMPLE)
        names = prediction.columns("top_kernels")["name"]
        self.assertEqual(names, [kernel.name for kernel in prediction.top_kernels])
        self.assertIn("time_us", prediction.columns("critical_path.runs"))
        with self.assertRaisesRegex(foretrace.BadInput, "no list of objects"):
            prediction.columns("notes")


class Failures(unittest.TestCase):
    def test_the_same_one_line(self):
        theirs = subprocess.run([PROGRAM, "predict", "/nowhere"], capture_output=True, text=True).stderr
        with self.assertRaises(foretrace.BadInput) as raised:
            foretrace.predict("/nowhere")
        self.assertEqual(f"foretrace: error: {raised.exception}\n", theirs)
        with self.assertRaises(foretrace.BadInput) as raised:
            foretrace.load("/nowhere")
        self.assertEqual(f"foretrace: error: {raised.exception}\n", theirs)
        self.assertEqual(raised.exception.exit_status, 2)

    def test_kinds(self):
        with self.assertRaises(foretrace.Infeasible):
            foretrace.search(GPT, "dgx-a100", global_batch=16, memory_gib=0.01)
        with self.assertRaises(foretrace.Error):
            foretrace.predict(SAMPLE, no_such_option=True)

    def test_commands_are_lists_of_words(self):
        for words in ("list gpus", [], ""):
            with self.assertRaisesRegex(foretrace.BadInput, "as a list") as raised:
                foretrace.run(words)
            self.assertEqual(raised.exception.exit_status, 2)


class Long(unittest.TestCase):
    def test_progress(self):
        told = []
        foretrace.predict(SAMPLE, progress=lambda *what: told.append(what))
        self.assertIn(("reading traces", 8, 8), told)

    # A search of far longer than any test takes, which only an interruption ends.
    ENDLESS = ("foretrace.search({!r}, 'dgx-a100', global_batch=4096, searcher='local', steps=10000000)\n"
               "print('answered')").format(str(GPT))

    def start(self, program):
        return subprocess.Popen([sys.executable, "-c", program + self.ENDLESS], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True,
                                env={**os.environ, "PYTHONPATH": str(BUILD / "python")})

    def check_interrupted(self, running, printed):
        try:
            out, error = running.communicate(timeout=60)
        finally:
            running.kill()
        self.assertIn("KeyboardInterrupt", error)
        self.assertEqual(out, printed)

    def test_other_threads_run_meanwhile(self):
        # Were the interpreter's lock held during the search, the thread would never come to interrupt it.
        running = self.start("import foretrace, os, signal, threading, time\n"
                             "def count():\n"
                             "    for _ in range(100):\n"
                             "        time.sleep(0.001)\n"
                             "    print('counted', flush=True)\n"
                             "    os.kill(os.getpid(), signal.SIGINT)\n"
                             "threading.Thread(target=count).start()\n")
        self.check_interrupted(running, "counted\n")

    def test_ctrl_c_ends_the_work(self):
        running = self.start("import foretrace\nprint('begun', flush=True)\n")
        self.assertEqual(running.stdout.readline(), "begun\n")
        time.sleep(0.5)
        running.send_signal(signal.SIGINT)
        self.check_interrupted(running, "")

    def test_an_exception_of_progress_ends_the_work(self):
        def refuse(*_):
            raise RuntimeError("not now")
        with self.assertRaisesRegex(RuntimeError, "not now"):
            foretrace.predict(SAMPLE, progress=refuse)


if __name__ == "__main__":
    unittest.main()
