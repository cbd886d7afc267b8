"""The CSV schema: shapes, rows, resuming, refusing."""
import os
import tempfile
import unittest

import support_path  # noqa: F401
from support import table

FACTS = {"platform": "p", "device": "d", "driver": "1", "libraries": "torch=2", "command": "c"}


def row(m=1, **changes):
    made = table.make_row("kernel", "linear", "forward", "p", "float32", dict(m=m, n=2, k=3, bias=1),
                          "torch-2;timing=events;l2=warm", "test", 1.5, 0.1, 3)
    return dict(made, **changes)


class ShapeTest(unittest.TestCase):
    def test_order_is_the_schemas_not_the_callers(self):
        self.assertEqual(table.shape_text("linear", dict(bias=True, k=3, m=1, n=2)), "m=1;n=2;k=3;bias=1")

    def test_missing_and_extra_keys_are_errors(self):
        with self.assertRaises(ValueError):
            table.shape_text("linear", dict(m=1, n=2, k=3))
        with self.assertRaises(ValueError):
            table.shape_text("softmax", dict(rows=1, cols=2, x=3))

    def test_reserved_characters_are_errors(self):
        with self.assertRaises(ValueError):
            table.shape_text("reduction", dict(rows=1, cols=2, op="a;b"))

    def test_every_operator_round_trips(self):
        for op, keys in table.SHAPE_KEYS.items():
            shape = {key: str(i) for i, key in enumerate(keys)}
            self.assertEqual(table.parse_shape(op, table.shape_text(op, shape)), shape)


class RowTest(unittest.TestCase):
    def test_bad_rows_are_refused(self):
        for changes in (dict(time_us="0"), dict(time_us="-1"), dict(time_us="nan"), dict(std_us="inf"),
                        dict(repeats="0"), dict(kind="x"), dict(phase="sideways"), dict(op="gemm"),
                        dict(shape="m=1;n=2"), dict(library="")):
            with self.assertRaises(ValueError, msg=str(changes)):
                table.check_row(row(**changes))


class WriterTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "sub", "t.csv")

    def write(self, *rows, **facts):
        writer = table.TableWriter(self.path, dict(FACTS, **facts))
        for r in rows:
            writer.add(r)
        writer.close()
        return writer

    def test_what_is_written_is_read(self):
        self.write(row(1), row(2))
        provenance, rows = table.read_table(self.path)
        self.assertEqual(provenance["device"], "d")
        self.assertEqual([r["shape"] for r in rows], ["m=1;n=2;k=3;bias=1", "m=2;n=2;k=3;bias=1"])
        with open(self.path, encoding="utf-8") as file:
            self.assertIn("\n" + ",".join(table.COLUMNS) + "\n", file.read())

    def test_resuming_keeps_rows_and_adds_only_new_ones(self):
        self.write(row(1))
        writer = self.write(row(1), row(2))
        self.assertEqual((writer.resumed, writer.added), (1, 1))
        self.assertEqual(len(table.read_table(self.path)[1]), 2)

    def test_a_cut_off_last_line_is_dropped(self):
        self.write(row(1), row(2))
        with open(self.path, "r+b") as file:
            file.truncate(os.path.getsize(self.path) - 5)
        writer = self.write(row(2))
        self.assertEqual((writer.resumed, writer.added), (1, 1))
        self.assertEqual(len(table.read_table(self.path)[1]), 2)

    def test_another_machine_is_refused(self):
        self.write(row(1))
        for key in ("platform", "device", "driver", "libraries"):
            with self.assertRaisesRegex(table.TableError, key):
                self.write(row(2), **{key: "other"})

    def test_a_broken_line_is_named(self):
        self.write(row(1))
        with open(self.path, "a", encoding="utf-8") as file:
            file.write("kernel,linear\n")
        with self.assertRaisesRegex(table.TableError, "t.csv:8: 2 fields"):
            table.read_table(self.path)


if __name__ == "__main__":
    unittest.main()
