#!/usr/bin/env python3
"""The replay of training that runs ahead of its device (traces/captured, llama-training): steps between the CPU's marks and
until the device's work is done. A CPU that is held by full launch queues, copies within the device and streams with
priority decide them, none of which a profile states.

  tests/accuracy/test_captured_training.py FORETRACE
"""
import json
import pathlib
import subprocess
import sys
import tarfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
ARCHIVE = ROOT / "traces/captured/h100-sxm5/llama-training.tar.xz"
PERCENT = 0.3  # what a replay of recorded durations may be off by
FORETRACE = ""


def cases_of(job):
    out = subprocess.run([FORETRACE, "validate", "--trace", "%s:%s" % (ARCHIVE, job), "--json"], check=True,
                         stdout=subprocess.PIPE).stdout
    return json.loads(out)["cases"]


class CapturedTraining(unittest.TestCase):
    def test_steps_are_as_recorded(self):
        with tarfile.open(ARCHIVE) as archive:
            jobs = sorted({member.name.split("/")[0] for member in archive if member.isfile()})
        self.assertGreater(len(jobs), 10)
        for job in jobs:
            cases = cases_of(job)
            self.assertEqual([case["step"] for case in cases], [12, 13], job)
            for case in cases:
                for error in ("error_percent", "completion_error_percent", "period_error_percent"):
                    if case[error] is not None:
                        self.assertLess(abs(case[error]), PERCENT, (job, case["step"], error))


if __name__ == "__main__":
    FORETRACE = str(pathlib.Path(sys.argv[1]).resolve())
    unittest.main(argv=sys.argv[:1])
