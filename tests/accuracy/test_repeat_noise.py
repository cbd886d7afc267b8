#!/usr/bin/env python3
"""scripts/repeat_noise.py, by numbers worked out by hand."""
import io
import pathlib
import sys
import tempfile
import unittest
from contextlib import redirect_stdout

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import repeat_noise  # noqa: E402

# Eight rows of one tile, one of which took 90 us for 100, and two rows of other tiles.
TIMES = {m: 100.0 for m in range(9, 17)} | {12: 90.0, 8: 50.0, 17: 500.0}


def shape(m):
    return f"m={m};n=4096;k=4096;bias=0"


class RepeatNoise(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def file(self, name, header, lines):
        path = self.folder / name
        path.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
        return path

    def table(self):
        return self.file("table.csv", "op,phase,platform,dtype,shape,time_us,std_us",
                         [f"linear,forward,a100,bfloat16,{shape(m)},{us},0" for m, us in TIMES.items()])

    def test_rows_of_one_tile_are_one_shape(self):
        errors, _ = repeat_noise.repeats(self.table(), one_tile=True)
        self.assertEqual(len(errors["linear"]), 8)
        self.assertEqual(sorted(error for error, _ in errors["linear"])[:7], [0] * 7)
        self.assertAlmostEqual(max(error for error, _ in errors["linear"]), 100 / 90 - 1)

    def test_share_of_fast_rows_by_duration(self):
        errors, _ = repeat_noise.repeats(self.table(), one_tile=True)
        out = io.StringIO()
        with redirect_stdout(out):
            repeat_noise.by_duration("t", "linear", errors["linear"])
        self.assertEqual(out.getvalue(), "t: linear of 50 and more us: 8 rows, median 0.00 %, P90 0.0 %, "
                                         "12.5 % of rows over 6 % faster\n")

    def test_predictions_on_rows_and_on_their_tile(self):
        path = self.file("rows.csv", "platform,model,shape,measured_us,predicted_us,extrapolated",
                         [f"a100,gemm,{shape(m)},{us},99,0" for m, us in TIMES.items()])
        single, of_tile = repeat_noise.predicted_errors(repeat_noise.tiles(path))
        self.assertEqual(len(single), 8)
        self.assertAlmostEqual(max(single), 0.1)  # 99 for 90
        self.assertAlmostEqual(max(of_tile), 0.01)  # 99 for the tile's 100


if __name__ == "__main__":
    unittest.main()
