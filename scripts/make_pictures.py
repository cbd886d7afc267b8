#!/usr/bin/env python3
"""Makes the pictures of docs/questions.md out of the pages of its commands, in headless Chromium (Debian: chromium-driver).

  scripts/make_pictures.py [--foretrace build/release/foretrace] [NAME...]
"""
import argparse
import base64
import pathlib
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/pages"))
import browser  # noqa: E402

SAMPLE = "traces/samples/dlrm_8rank"
CONTROL = "tests/data/public/hta-traces/trace_diff/control"
DLRM = "tests/data/public/param-et_replay/dlrm_kineto.tar.gz tests/data/public/param-et_replay/dlrm_pytorch_et.tar.gz"
PICTURES = {  # name: (command, title of the figure or id of the section)
    "time": (f"predict {SAMPLE}", "Time of each rank"),
    "path": (f"predict {SAMPLE} --sensitivity", "What decides when the iteration ends"),
    "what-if": (f"predict {SAMPLE} --what-if name=gemm:x0.5", "Difference by cause"),
    "gpu": (f"predict {DLRM} --on dgx-h100", "What it is spent on"),
    "ranks": (f"predict {SAMPLE} --ranks 64 --platform dgx-a100", "Collectives of groups that grow"),
    "gpus": ("sweep search traces/workloads/gpt-small.yaml --platform dgx-a100 --global-batch 64 --over gpus=2:16:x2 --scaling strong",
             "iteration time"),
    "mapping": ("search traces/workloads/gpt-small.yaml --platform dgx-a100 --gpus 8 --global-batch 16", "Time against memory"),
    "sharding": ("shard traces/samples/dlrm_sharding.yaml --sharders lpt,search", "Memory against capacity"),
    "trust": (f"validate --trace {CONTROL} --allow-missing-ranks", "Predicted over measured"),
    "record": ("doctor tests/data/doctor/bare.json", "#what-it-lacks"),
}


def element(driver, wanted):
    """The figure of that title, or what the selector names."""
    if wanted.startswith("#"):
        return driver.run(f"return document.querySelector('{wanted}')")
    return driver.run(f"return [...document.querySelectorAll('figure')].find((f) => f.firstChild.textContent === {wanted!r})")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--foretrace", default=str(ROOT / "build/release/foretrace"))
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    folder = ROOT / "docs/pictures"
    folder.mkdir(exist_ok=True)
    driver = browser.Browser(width=940, height=900)
    try:
        with tempfile.TemporaryDirectory() as temporary:
            for name in options.names or PICTURES:
                command, wanted = PICTURES[name]
                page = pathlib.Path(temporary) / f"{name}.html"
                done = subprocess.run([options.foretrace, *shlex.split(command), "--html", str(page)], cwd=ROOT, capture_output=True, text=True)
                if done.returncode != 0:
                    sys.exit(f"make_pictures: error: {command}: {done.stderr.strip()}")
                driver.open(page)
                found = element(driver, wanted)
                if found is None:
                    sys.exit(f"make_pictures: error: {command}: its page has no {wanted}")
                picture = driver.call("GET", f"/element/{next(iter(found.values()))}/screenshot")
                (folder / f"{name}.png").write_bytes(base64.b64decode(picture))
    finally:
        driver.close()


if __name__ == "__main__":
    main()
