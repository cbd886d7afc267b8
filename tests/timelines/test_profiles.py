#!/usr/bin/env python3
"""What tools find in a predicted timeline is what the report says: temporal, kernel, overlap and idle breakdowns, by the fields
and rules by which HTA (f4d0062) reads profiles, on all ranks of a recorded job; and foretrace reads the timeline back.

  tests/timelines/test_profiles.py FORETRACE

HTA takes rows with a duration and a category, whose args.stream is that of the device; tells kernels by name (nccl...:
communication, Mem...: memory, all else computation); links a kernel to its call by args.correlation; and finds a file's rank by
the text `"rank": N`.
"""
import gzip
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = ROOT / "tests/data/public/param-et_replay"
JOB = [str(DATA / "dlrm_kineto.tar.gz"), str(DATA / "dlrm_pytorch_et.tar.gz")]
FORETRACE = ""
KINDS = {re.compile(r"(^nccl)|(.*ncclKernel)"): "communication", re.compile(r"(^Memcpy)|(^Memset)|(^dma)"): "memory"}
POINTS = 0.1


def foretrace(*arguments):
    done = subprocess.run([FORETRACE, *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    return done.stdout


def kind_of(name):
    return next((kind for pattern, kind in KINDS.items() if pattern.match(name)), "computation")


class Profile:
    def __init__(self, path):
        text = gzip.open(path, "rt").read()
        self.rank = int(re.search(r'"rank":\s+(\d+)', text).group(1))
        self.document = json.loads(text)
        rows = [e for e in self.document["traceEvents"] if "dur" in e and "cat" in e]
        self.kernels = sorted((e for e in rows if e.get("args", {}).get("stream", -1) >= 0 and e["cat"] != "cuda_sync"),
                              key=lambda e: e["ts"])
        self.calls = {e["args"]["correlation"]: e for e in rows if e["cat"].startswith("cuda_runtime") and "correlation" in e["args"]}

    def sets(self):
        """Time by what runs at once, and the span."""
        changes = sorted([(e["ts"], 1, kind_of(e["name"])) for e in self.kernels]
                         + [(e["ts"] + e["dur"], -1, kind_of(e["name"])) for e in self.kernels])
        running, times = dict.fromkeys(("computation", "communication", "memory"), 0), {}
        for (at, change, kind), following in zip(changes, changes[1:]):
            running[kind] += change
            together = "_".join(k for k, n in running.items() if n > 0) or "idle"
            times[together] = times.get(together, 0) + following[0] - at
        return times, changes[-1][0] - changes[0][0]

    def gaps(self):
        """By stream: idle time because its launch came late, between neighbouring kernels, and other."""
        found, ends = {}, {}
        for e in self.kernels:
            stream = e["args"]["stream"]
            sums = found.setdefault(stream, {"host": 0, "kernel": 0, "other": 0})
            if stream in ends:
                gap = e["ts"] - ends[stream]
                late = self.calls.get(e["args"]["correlation"], {"ts": -1})["ts"] > ends[stream]
                sums["host" if late else "kernel" if gap < 30 else "other"] += gap
            ends[stream] = e["ts"] + e["dur"]
        return found


class Profiles(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="foretrace-profiles-")
        cls.folder = pathlib.Path(cls.temporary.name) / "predicted"
        cls.report = json.loads(foretrace("predict", *JOB, "--json", "--timeline", f"{cls.folder}/"))
        cls.profiles = {p.rank: p for p in map(Profile, sorted(cls.folder.iterdir()))}

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def each(self):
        self.assertEqual(sorted(self.profiles), list(range(8)))
        return [(rank, self.profiles[rank["rank"]]) for rank in self.report["ranks"]]

    def points(self, part, whole, other_part, other_whole):
        self.assertAlmostEqual(100 * part / whole, 100 * other_part / other_whole, delta=POINTS)

    def test_temporal_breakdown(self):
        for rank, profile in self.each():
            times, span = profile.sets()
            device = rank["device"]
            self.assertGreater(times["idle"], 0)
            self.points(times["idle"], span, device["idle_us"], device["span_us"])
            computing = sum(t for kinds, t in times.items() if "computation" in kinds)
            said = sum(device[f"{k}_us"] for k in ("computation", "computation_communication", "computation_memory", "all"))
            self.points(computing, span, said, device["span_us"])

    def test_kernel_breakdown(self):
        found, said = {}, {}
        for rank, profile in self.each():
            for kinds, time in profile.sets()[0].items():
                found[kinds] = found.get(kinds, 0) + time
            for key, time in rank["device"].items():
                if key not in ("span_us", "gaps"):
                    said[key] = said.get(key, 0) + time
        found.pop("idle"), said.pop("idle_us")
        self.assertGreater(len(found), 4)
        for kinds, time in said.items():
            name = {"all_us": "computation_communication_memory"}.get(kinds, kinds.removesuffix("_us"))
            self.points(found.get(name, 0), sum(found.values()), time, sum(said.values()))

    def test_overlap(self):
        for rank, profile in self.each():
            times, _ = profile.sets()
            both = sum(t for kinds, t in times.items() if "computation" in kinds and "communication" in kinds)
            communicating = sum(t for kinds, t in times.items() if "communication" in kinds)
            device = rank["device"]
            said = device["computation_communication_us"] + device["all_us"]
            self.points(both, communicating, said,
                        said + device["communication_us"] + device["communication_memory_us"])
            # The report's own share counts copies as computation, which hides little more.
            self.assertAlmostEqual(100 * both / communicating, 100 * rank["overlapped_share"], delta=2 * POINTS)

    def test_idle_breakdown(self):
        for rank, profile in self.each():
            said = {gap["stream"].removeprefix("stream "): gap for gap in rank["device"]["gaps"]}
            for stream, found in profile.gaps().items():
                idle, expected = sum(found.values()), said[str(stream)]
                whole = sum(expected[f"{k}_us"] for k in found)
                for kind, time in found.items():
                    self.points(time, max(idle, 1), expected[f"{kind}_us"], max(whole, 1))

    def test_it_says_that_it_is_a_prediction_and_has_what_profiles_have(self):
        for rank, profile in self.each():
            self.assertIn("foretracePrediction", profile.document)
            self.assertEqual(profile.document["distributedInfo"]["world_size"], 8)
            self.assertTrue(profile.document["deviceProperties"])
            self.assertNotIn("displayTimeUnit", profile.document)
            linked = sum(kernel["args"]["correlation"] in profile.calls for kernel in profile.kernels)
            self.assertGreater(linked, 0.75 * len(profile.kernels))  # some were in flight when recording began

    def test_foretrace_reads_it_back(self):
        again = json.loads(foretrace("predict", str(self.folder), "--json"))
        self.assertTrue(again["synthetic"])
        self.assertAlmostEqual(again["iteration_time_us"] / self.report["iteration_time_us"], 1, delta=0.001)


if __name__ == "__main__":
    FORETRACE = str(pathlib.Path(sys.argv[1]).resolve())
    unittest.main(argv=sys.argv[:1])
