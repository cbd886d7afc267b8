"""What foretrace predicts of a folder of recordings."""

import json
import os
import subprocess

FORETRACE = os.environ.get("FORETRACE", "build/release/foretrace")


def report(folder, what_if=(), step=3, options=()):
    command = [FORETRACE, "predict", folder, "--iteration", str(step), "--json", *options]
    for change in what_if:
        command += ["--what-if", change]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise AssertionError(run.stderr)
    return json.loads(run.stdout)


def predict(folder, what_if=(), step=3, options=()):
    return [rank["iteration_time_us"] for rank in report(folder, what_if, step, options)["ranks"]]
