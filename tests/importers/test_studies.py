"""scripts/operator_study.py and published_study.py: how rows are held out, and how errors are added up."""
import csv
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import operator_study  # noqa: E402 (a script, beside others)
import published_study  # noqa: E402


class SplitTest(unittest.TestCase):
    def rows_of(self, path):
        lines = path.read_text().splitlines()
        return lines[0], list(csv.DictReader(lines[1:]))

    def test_groups_are_held_out_whole(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            table = folder / "table.csv"
            table.write_text("# source: made\nnum_heads,step,latency_ms\n" +
                             "".join(f"{heads},{step},1\n" for heads in (1, 2, 4, 8, 16, 32, 64) for step in (1, 2)))
            seen = []
            for fold in range(operator_study.FOLDS):
                known, tested = (self.rows_of(path) for path in operator_study.split(table, ("num_heads",), fold, folder))
                self.assertEqual(known[0], "# source: made")
                self.assertFalse({row["num_heads"] for row in known[1]} & {row["num_heads"] for row in tested[1]})
                self.assertEqual(len(known[1]) + len(tested[1]), 14)
                seen += [row["num_heads"] for row in tested[1]]
            # Each group once, with both of its rows.
            self.assertEqual(sorted(seen), sorted(2 * ["1", "2", "4", "8", "16", "32", "64"]))

    def test_rows_are_groups_of_their_own(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            table = folder / "table.csv"
            table.write_text("num_heads,latency_ms\n" + 10 * "1,1\n")
            known, tested = operator_study.split(table, (), 0, folder)
            self.assertEqual(len(known.read_text().splitlines()), 9)
            self.assertEqual(len(tested.read_text().splitlines()), 3)


class SummaryTest(unittest.TestCase):
    def test_errors_and_memory(self):
        cases = [{"error_percent": -4.0, "measured_memory_gib": 50, "predicted_memory_gib": 45},
                 {"error_percent": 2.0, "measured_memory_gib": 50, "predicted_memory_gib": 52},
                 {"error_percent": 3.0}, {"refused": "no layers"}]
        # Mean of 4, 2 and 3; signed 1/3; memory -10 and +4.
        self.assertEqual(published_study.summary(cases), ("3", "1", "3.0", "3.0", "+0.3", "7.0", "-10.0"))
        self.assertEqual(published_study.summary(cases[3:]), ("0", "1", "-", "-", "-", "-", "-"))


if __name__ == "__main__":
    unittest.main()
