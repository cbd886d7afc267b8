#!/usr/bin/env python3
"""Opens pages of --html in a real browser: charts are drawn, tables sort and filter, names stay text, nothing is said on
the console and nothing is asked of a network. Skipped (77) where Debian's chromium-driver or libjs-chart.js is missing.

  tests/pages/test_pages.py FORETRACE [FOLDER FOR PICTURES]
"""
import base64
import csv
import gzip
import io
import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import time
import unittest

import browser

ROOT = pathlib.Path(__file__).resolve().parents[2]
HOSTILE = '</script><img src=x onerror="document.title=\'owned\'">'
FORETRACE, PICTURES = "", None
SAMPLE = "traces/samples/dlrm_8rank"
PAGES = {  # name: (command, charts at least)
    "predict": (f"predict {SAMPLE} --sensitivity --what-if name=gemm:x0.5", 6),
    "predict-ranks": (f"predict {SAMPLE} --ranks 64 --platform dgx-a100", 6),
    "predict-op": (f"predict {SAMPLE} --by op", 6),
    "predict-memory": ("predict tests/data/profile/modules.json --by module --memory", 7),
    "validate": (f"validate --trace {SAMPLE}", 2),
    "diff": (f"diff {SAMPLE} --what-if kind=collective:x0.5", 2),
    "inspect": (f"inspect {SAMPLE}", 3),
    "doctor": (f"doctor {SAMPLE}", 0),
    "collective": ("collective all_reduce --topology dgx-h100 --ranks 8 --bytes 1KB:1GB", 2),
    "collective-measured": ("collective --measured tests/data/calibrate/all_reduce.csv --topology dgx-a100", 3),
    "calibrate": ("calibrate collective tests/data/calibrate/all_reduce.csv --hold-out every-third", 2),
    "sweep": ("sweep collective all_reduce --topology dgx-h100 --bytes 64MB --over ranks=2:8:x2 --over links.nvlink4.bandwidth_GBps=25,50", 2),
    "search": ("search traces/workloads/gpt-small.yaml --platform dgx-a100 --gpus 8 --global-batch 16", 1),
    "shard": ("shard traces/samples/dlrm_sharding.yaml --sharders lpt", 4),
    "dataflow": ("dataflow gpt3-175b --system sn10-8 --batch 2304 --forward --formulas dse", 1),
    "architect": ("architect gpt-small --space tests/golden/architect_small/space.yaml --devices 8 --hbm 32 --global-batch 64", 2),
    "serve-search": ("serve llama3.1-8b --platform dgx-h100 --rate 4 --count 20 --search --gpus 2", 1),
    "predict-memory-if": ("predict tests/data/profile/modules.json --memory --memory-if micro-batch=x2", 7),
    "snapshot": ("inspect tests/data/memory/snapshot.pickle", 2),
    "explore": ("explore dfmodel-fft -o OUT", 2),
    "generate": ("generate traces/workloads/gpt-small.yaml --platform dgx-a100 --mapping 'tp2 pp1 dp2 mb1 gb16' -o OUT", 1),
    "convert": (f"convert {SAMPLE} --check", 1),
    "list": ("list gpus", 1),
    "platform": ("inspect topologies/dgx-h100.yaml", 0),
    "serve": ("serve llama3.1-8b --platform dgx-h100 --requests tests/data/serving/requests.csv", 1),
    "place": ("place gpt3-1.3b --backends framework,flash-attention --device a100-sxm4-80gb", 1),
    "place-recording": ("place tests/data/public/hta-traces/trace_diff/control/control.json.gz --allow-missing-ranks --backends torch-compile,fused-optimizer", 1),
    "place-calls": ("place gpt3-1.3b --backends framework,tensorrt --device a100-sxm4-80gb --graph-level tensorrt --ablation", 5),
}


def page(folder, name, command):
    path = folder / f"{name}.html"
    arguments = [word.replace("OUT", str(folder / f"{name}-files")) for word in shlex.split(command)]
    done = subprocess.run([FORETRACE, *arguments, "--html", str(path)], cwd=ROOT, capture_output=True, text=True)
    return path if done.returncode == 0 else done.stderr


def ranks(folder, count, name):
    """Traces of `count` ranks in which kernels are called `name`."""
    folder.mkdir()
    for rank in range(count):
        events = []
        for step in range(2):
            at = 1000 * step
            events.append({"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": 1, "tid": 1, "ts": at, "dur": 900})
            for i in range(12):
                events.append({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": at + 10 + 20 * i,
                               "dur": 5, "args": {"correlation": 100 * step + i + 1}})
                events.append({"ph": "X", "cat": "kernel", "name": f"{name} {i}", "pid": 0, "tid": 7, "ts": at + 20 + 60 * i, "dur": 50,
                               "args": {"stream": 7, "device": 0, "correlation": 100 * step + i + 1}})
        with gzip.open(folder / f"rank{rank}.json.gz", "wt") as file:
            json.dump({"schemaVersion": 1, "traceEvents": events}, file)
    return folder


class Pages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="foretrace-pages-")
        cls.folder = pathlib.Path(cls.temporary.name)
        cls.browser = browser.Browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.temporary.cleanup()

    def quiet(self):
        self.assertEqual(self.browser.messages(), [])
        self.assertEqual(self.browser.requests(), [])

    def test_every_kind(self):
        for name, (command, charts) in PAGES.items():
            with self.subTest(name):
                path = page(self.folder, name, command)
                self.assertIsInstance(path, pathlib.Path, path)
                self.assertLess(path.stat().st_size, 2_000_000)
                self.browser.open(path)
                self.quiet()
                self.assertGreaterEqual(int(self.browser.run("return document.documentElement.dataset.charts")), charts)
                blank = self.browser.run("""return [...document.querySelectorAll('canvas')].filter((c) =>
                    !c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some((v) => v !== 0)).length""")
                self.assertEqual(blank, 0, "charts without a drawing")
                if PICTURES:
                    self.browser.picture(PICTURES / f"{name}.png")

    def test_tables_sort_and_filter(self):
        self.browser.open(page(self.folder, "sort", PAGES["collective"][0]))
        cells = """return [...document.querySelector('tbody').rows].map((r) => r.cells[0].textContent)"""
        before = self.browser.run(cells)
        self.browser.run("document.querySelector('th button').click()")
        self.assertEqual(self.browser.run(cells), before[::-1])
        self.assertEqual(self.browser.run("return document.querySelector('th').getAttribute('aria-sort')"), "descending")
        self.browser.run("""const f = document.querySelector('input[type=search]'); f.value = 'ring'; f.dispatchEvent(new Event('input'))""")
        kept = self.browser.run("return [...document.querySelector('tbody').rows].map((r) => r.textContent)")
        self.assertTrue(kept and all("ring" in row for row in kept))
        self.assertLess(len(kept), len(before))
        self.quiet()

    def test_values_of_a_sweep_sort_as_numbers(self):
        self.browser.open(page(self.folder, "numbers", "sweep collective all_reduce --topology dgx-h100 --bytes 64MB --over ranks=16,8,2"))
        ranks = """const t = [...document.querySelectorAll('table')].find((t) => t.textContent.startsWith('ranks'));
            %s return [...t.tBodies[0].rows].map((r) => r.cells[0].textContent)"""
        self.assertEqual(self.browser.run(ranks % ""), ["16", "8", "2"])
        self.assertEqual(self.browser.run(ranks % "t.querySelector('th button').click();"), ["16", "8", "2"])
        self.assertEqual(self.browser.run(ranks % "t.querySelector('th button').click();"), ["2", "8", "16"])

    def test_keyboard(self):
        """Sections, charts, and every table's filter, sorting and copying are reached by Tab and used without a pointer."""
        self.browser.open(page(self.folder, "keys", PAGES["collective"][0]))
        focused = "return document.activeElement.tagName + ' ' + (document.activeElement.textContent || document.activeElement.ariaLabel || '').slice(0, 30)"
        seen = []
        for _ in range(30):
            self.browser.press("Tab")
            seen.append(self.browser.run(focused))
            if self.browser.run("return document.activeElement.matches('canvas')") and "marked" not in seen:
                marked = "const c = Chart.getChart(document.activeElement); return [c.tooltip.opacity, c.tooltip.dataPoints?.[0]?.dataIndex ?? -1]"
                self.browser.press("Right", "Right")
                self.assertEqual(self.browser.run(marked)[1], 1)
                self.browser.press("Left")
                self.assertEqual(self.browser.run(marked)[1], 0)
                seen.append("marked")
            if self.browser.run("return document.activeElement.type === 'search'"):
                self.browser.press(*"ring")
                kept = self.browser.run("return [...document.querySelector('tbody').rows].map((r) => r.textContent)")
                self.assertTrue(kept and all("ring" in row for row in kept))
            if seen[-1].startswith("BUTTON bytes"):
                self.browser.press("Enter")
                self.assertEqual(self.browser.run("return document.querySelector('th').getAttribute('aria-sort')"), "descending")
                self.assertEqual(self.browser.run(focused), seen[-1])  # goes on from there
                break
        order = [next((i for i, s in enumerate(seen) if s.startswith(start)), -1)
                 for start in ("A ", "CANVAS", "INPUT", "BUTTON copy", "BUTTON bytes")]
        self.assertEqual(order, sorted(order), seen)
        self.assertNotIn(-1, order, seen)
        self.assertIn("marked", seen)
        self.quiet()

    def test_copies_what_is_shown_as_csv(self):
        path = page(self.folder, "copy", PAGES["place"][0])
        self.browser.open(path)
        self.browser.devtools("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
        self.browser.run("""const f = document.querySelector('input[type=search]'); f.value = 'flash'; f.dispatchEvent(new Event('input'));
            document.querySelector('.tools button').focus()""")
        self.browser.press("Enter")
        said = "return [...document.querySelectorAll('.tools')][0].textContent"
        for _ in range(100):
            if "copied" in self.browser.run(said):
                break
            time.sleep(0.02)
        self.assertIn("copied", self.browser.run(said))
        self.browser.run("const area = document.createElement('textarea'); document.body.append(area); area.focus()")
        self.browser.press(("Control", "v"))
        rows = list(csv.DictReader(io.StringIO(self.browser.run("return document.querySelector('textarea').value"))))
        kernels = json.loads(path.read_text().split('id="answer">')[1].split("</script>")[0])["kernels"]
        expected = [k for k in kernels if k["backend"].startswith("flash")]
        self.assertGreater(len(expected), 10)
        self.assertEqual([(r["backend"], float(r["time_us"]), r["operators"]) for r in rows],
                         [(k["backend"], k["time_us"], ", ".join(k["operators"])) for k in expected])
        self.quiet()

    def test_printed(self):
        """On paper: light whatever the screen, nothing cut at the right, all rows of a table, and as before afterwards."""
        self.browser.open(page(self.folder, "print", PAGES["place"][0]))
        self.browser.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
        ink = "return getComputedStyle(document.body).color"
        rows = "return document.querySelector('tbody').rows.length"
        dark, first = self.browser.run(ink), self.browser.run(rows)
        self.assertEqual(first, 100)
        try:
            self.browser.run("dispatchEvent(new Event('beforeprint'))")
            self.browser.devtools("Emulation.setEmulatedMedia", media="print", features=[{"name": "prefers-color-scheme", "value": "dark"}])
            self.assertLess(max(int(c) for c in re.findall(r"\d+", self.browser.run(ink))), 60)
            self.assertEqual(self.browser.run(rows), 245)
            paper = 718  # A4 without Chromium's margins, in CSS pixels
            self.assertLess(self.browser.run("return Math.max(...[...document.querySelectorAll('canvas, table')].map((c) => c.offsetWidth))"), paper)
            self.assertEqual(self.browser.run("return getComputedStyle(document.querySelector('nav')).display"), "none")
            self.assertEqual(self.browser.run("return Chart.defaults.color"), "#1c1f23")
            self.browser.devtools("Emulation.setEmulatedMedia", media="", features=[{"name": "prefers-color-scheme", "value": "dark"}])
            self.browser.run("dispatchEvent(new Event('afterprint'))")
            self.assertEqual((self.browser.run(ink), self.browser.run(rows)), (dark, first))
        finally:
            self.browser.devtools("Emulation.setEmulatedMedia", media="", features=[])
        printed = base64.b64decode(self.browser.call("POST", "/print", {}))
        self.assertGreater(printed.count(b"/Type /Page\n") + printed.count(b"/Type /Page "), 3)
        self.quiet()

    def test_wide_tables_fit_paper(self):
        self.browser.open(page(self.folder, "wide", PAGES["predict"][0]))
        try:
            self.browser.run("dispatchEvent(new Event('beforeprint'))")
            self.browser.devtools("Emulation.setEmulatedMedia", media="print")
            self.assertLess(self.browser.run("return Math.max(...[...document.querySelectorAll('canvas, table')].map((c) => c.offsetWidth))"), 718)
        finally:
            self.browser.devtools("Emulation.setEmulatedMedia", media="")

    def test_names_are_text(self):
        path = page(self.folder, "hostile", f"predict {ranks(self.folder / 'hostile', 1, HOSTILE)} --by kernel")
        self.assertNotIn(HOSTILE, path.read_text())
        self.browser.open(path)
        self.assertEqual(self.browser.run("return document.title"), "foretrace predict")
        self.assertEqual(self.browser.run("return document.querySelectorAll('img').length"), 0)
        self.assertIn(HOSTILE, self.browser.run("return document.body.textContent"))
        self.quiet()

    def test_injected_script_does_not_run(self):
        path = page(self.folder, "policy", PAGES["doctor"][0])
        path.write_text(path.read_text().replace("<main", "<script>document.title = 'owned'</script><main"))
        self.browser.open(path)
        self.assertEqual(self.browser.run("return document.title"), "foretrace doctor")
        self.assertTrue(any("Content Security Policy" in m["message"] for m in self.browser.messages()))

    def test_64_ranks(self):
        path = page(self.folder, "64", f"predict {ranks(self.folder / '64', 64, 'kernel')} --by kernel")
        self.assertIsInstance(path, pathlib.Path, path)
        self.assertLess(path.stat().st_size, 10_000_000)
        self.browser.open(path)
        self.assertLess(int(self.browser.run("return document.documentElement.dataset.milliseconds")), 2000)
        self.quiet()


if __name__ == "__main__":
    FORETRACE = str(pathlib.Path(sys.argv[1]).resolve())
    if len(sys.argv) > 2:
        PICTURES = pathlib.Path(sys.argv[2])
        PICTURES.mkdir(parents=True, exist_ok=True)
    if not browser.CHROMIUM or not browser.DRIVER:
        print("skipped: needs chromium and chromedriver (Debian: chromium-driver)")
        sys.exit(77)
    if not (pathlib.Path("/usr/share/javascript/chart.js/chart.min.js").exists()):
        print("skipped: needs Chart.js (Debian: libjs-chart.js)")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
