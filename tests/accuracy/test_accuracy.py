#!/usr/bin/env python3
"""docs/accuracy.md says what its commands give on the slice of public data in tests/data/public, and the check sees where it
does not.

  tests/accuracy/test_accuracy.py FORETRACE
"""
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import accuracy_rows  # noqa: E402

FORETRACE = ""


class Accuracy(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.page = (ROOT / "docs/accuracy.md").read_text()
        cls.tables = accuracy_rows.tables_at_hand(accuracy_rows.Runner(FORETRACE, ROOT / "tests/data/public"))

    def test_tables_and_data_agree(self):
        self.assertEqual(list(accuracy_rows.check(self.tables, self.page)), [])

    def test_each_table_has_rows_of_the_slice(self):
        for at, rows in self.tables.items():
            self.assertGreater(len(rows), 1, at)

    def test_no_table_has_its_header_twice(self):
        lines = self.page.splitlines()
        twice = [header for header, rule, row in zip(lines, lines[1:], lines[2:]) if rule.startswith("|---") and row == header]
        self.assertEqual(twice, [])

    def test_another_figure_is_seen(self):
        for at, rows in self.tables.items():
            key, cells = next(iter(rows.items()))
            column, cell = next((c, v) for c, v in cells.items() if v not in key and any(d.isdigit() for d in v))
            line = next(line for line in self.page.splitlines() if line.startswith("| " + " | ".join(key) + " |") and cell in line)
            before, after = line.split(" | ".join(key), 1)
            wrong = self.page.replace(line, before + " | ".join(key) + after.replace(cell, "0.77 %", 1))
            found = list(accuracy_rows.check(self.tables, wrong))
            self.assertEqual([entry[:2] for entry in found], [(at[0], ", ".join(key))], at)

    def test_a_row_that_is_gone_is_seen(self):
        line = next(line for line in self.page.splitlines() if line.startswith("| DLRM-8, in-sample"))
        self.assertTrue(list(accuracy_rows.check(self.tables, self.page.replace(line + "\n", ""))))


if __name__ == "__main__":
    FORETRACE = str(pathlib.Path(sys.argv[1]).resolve())
    unittest.main(argv=sys.argv[:1])
