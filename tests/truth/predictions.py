"""What foretrace predicts of a folder of recordings."""

import json
import os
import subprocess

FORETRACE = os.environ.get("FORETRACE", "build/release/foretrace")


def _run(folder, what_if, step, options):
    command = [FORETRACE, "predict", folder, "--iteration", str(step), *options]
    for change in what_if:
        command += ["--what-if", change]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise AssertionError(run.stderr)
    return run.stdout


def report(folder, what_if=(), step=3, options=()):
    return json.loads(_run(folder, what_if, step, ["--json", *options]))


def text(folder, what_if=(), step=3, options=()):
    return " ".join(_run(folder, what_if, step, options).split())


def difference(folder, what_if):
    """What diff says of a change."""
    command = [FORETRACE, "diff", folder, "--what-if", what_if, "--json"]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def predict(folder, what_if=(), step=3, options=()):
    return [rank["iteration_time_us"] for rank in report(folder, what_if, step, options)["ranks"]]
