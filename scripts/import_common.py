"""What the importers of public benchmark tables share: reading a source, writing the neutral CSV.

The schema is documented in calibration/README.md. Standard library only.
"""
import argparse
import contextvars
import csv
import io
import lzma
import math
import os
import pathlib
import re
import statistics
import sys
import tarfile
import zipfile
from xml.etree import ElementTree

COLUMNS = ["kind", "op", "phase", "platform", "dtype", "shape", "time_us", "std_us", "repeats",
           "library", "source"]
SENTINEL_US = 1e9  # no benchmark of one operation takes a thousand seconds


class ImportFailure(Exception):
    """One line for the user."""


def fail(message):
    raise ImportFailure(message)


# File, or file and line, that a run is reading: where what an importer does not understand stands.
_PLACE = contextvars.ContextVar("place", default="")


def reading(place):
    _PLACE.set(place)


def explanation(error):
    """Of what an importer did not expect, in words."""
    return f"no '{error.args[0]}'" if isinstance(error, KeyError) else f"{error}".splitlines()[0]


def guarded(work, name):
    """Runs `work`; prints what is wrong with its input on one line. Returns the exit code."""
    context = contextvars.copy_context()
    try:
        context.run(work)
        return 0
    except ImportFailure as error:
        message = str(error)
    except OSError as error:
        message = f"{error.filename or context.get(_PLACE)}: {error.strerror or error}"
    except (ArithmeticError, AttributeError, EOFError, LookupError, TypeError, ValueError, csv.Error, lzma.LZMAError,
            tarfile.TarError, zipfile.BadZipFile, ElementTree.ParseError) as error:
        message = f"{context.get(_PLACE) or 'the input'}: {explanation(error)}; is the file whole, and as its source has it?"
    print(f"{name}: error: {message}", file=sys.stderr)
    return 2


def shape(**keys):
    """`key=value;key=value` in the order given; booleans as 0 and 1."""
    return ";".join(f"{k}={int(v) if isinstance(v, bool) else v}" for k, v in keys.items())


def write_file(path, text):
    """Whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)


class Table:
    """Rows of the neutral CSV for one platform and source, with provenance."""

    def __init__(self, **provenance):
        self.provenance = provenance
        self.rows = []
        self.skipped = {}

    def skip(self, reason):
        self.skipped[reason] = self.skipped.get(reason, 0) + 1

    def add(self, kind, op, platform, dtype, row_shape, times_us, *, phase="-", library="",
            source="", std_us=0.0, repeats=1):
        """Adds a row; `times_us` is one time or several repeats, of which the median is taken."""
        if isinstance(times_us, (int, float)):
            times_us = [times_us]
        good = [t for t in times_us if math.isfinite(t) and 0 < t < SENTINEL_US]
        if len(good) < len(times_us):
            for _ in range(len(times_us) - len(good)):
                self.skip("time is zero, negative, not finite or a failure sentinel")
        if not good:
            return
        if len(good) > 1:
            std_us = statistics.pstdev(good)
            repeats = len(good)
        self.rows.append([kind, op, phase, platform, dtype, row_shape,
                          repr(float(f"{statistics.median(good):.9g}")),
                          repr(float(f"{std_us:.4g}")), str(repeats), library, source])

    def merge_duplicates(self):
        """Rows of the same measurement become one, with the median time and all repeats."""
        groups = {}
        for row in self.rows:
            groups.setdefault(tuple(row[:6] + row[9:]), []).append(row)
        self.rows = []
        for rows in groups.values():
            if len(rows) > 1:
                times = [float(r[6]) for r in rows]
                merged = list(rows[0])
                merged[6] = repr(float(f"{statistics.median(times):.9g}"))
                merged[7] = repr(float(f"{statistics.pstdev(times):.4g}"))
                merged[8] = str(sum(int(r[8]) for r in rows))
                rows = [merged]
            self.rows.append(rows[0])

    def write(self, path):
        self.merge_duplicates()
        self.write_rows(path, COLUMNS, self.rows)

    def write_rows(self, path, header, rows):
        """Rows of any columns, with this table's provenance; says what was skipped."""
        path = pathlib.Path(path)
        notes = "".join(f"; skipped {n} ({why})" for why, n in sorted(self.skipped.items()))
        print(f"{path}: {len(rows)} rows{notes}", file=sys.stderr)
        if not rows:
            return
        text = io.StringIO()
        for key, value in self.provenance.items():
            text.write(f"# {key}: {value}\n")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
        write_file(path, text.getvalue())


def read_tree(path, pattern):
    """Yields (name, text) of the files below a folder or inside a tar whose name matches."""
    matcher = re.compile(pattern)
    path = pathlib.Path(path)
    found = False
    if path.is_dir():
        for file in sorted(p for p in path.rglob("*") if p.is_file()):
            if matcher.search(str(file)):
                found = True
                reading(str(file))
                yield str(file), file.read_text(encoding="utf-8-sig")
        if not found:
            for archive in sorted(path.glob("*.tar.*")):
                for item in _read_tar(archive, matcher):
                    found = True
                    yield item
    elif path.is_file():
        for item in _read_tar(path, matcher):
            found = True
            yield item
    else:
        fail(f"{path}: no such file or folder")
    if not found:
        fail(f"{path}: no file matches '{pattern}'; is this the right source?")


def _read_tar(path, matcher):
    try:
        archive = tarfile.open(path)
    except (tarfile.TarError, OSError) as error:
        fail(f"{path}: not a readable tar archive ({error})")
    with archive:
        for member in sorted(archive.getmembers(), key=lambda m: m.name):
            if member.isfile() and matcher.search(member.name):
                reading(f"{path}, {member.name}")
                yield member.name, archive.extractfile(member).read().decode("utf-8-sig")


class CsvRows:
    """Rows as dicts, each with all columns of the header."""

    def __init__(self, name, text):
        self.name = name
        self._reader = csv.DictReader(io.StringIO(text))
        self.fieldnames = self._reader.fieldnames or []

    @property
    def place(self):
        """Of the row that was last given."""
        return f"{self.name}:{self._reader.line_num}"

    def __iter__(self):
        for row in self._reader:
            reading(self.place)
            fields = len(row.get(None, [])) + sum(v is not None for k, v in row.items() if k is not None)
            if fields != len(self.fieldnames):
                fail(f"{self.place}: has {fields} fields, the header {len(self.fieldnames)}; is the file cut?")
            yield row


def read_csv(name, text, needed):
    """Rows as dicts; says which column is missing."""
    rows = CsvRows(name, text)
    missing = [c for c in needed if c not in rows.fieldnames]
    if missing:
        fail(f"{name}: no column {', '.join(missing)}")
    return rows


def read_xlsx(path):
    """Yields (sheet name, rows) of a workbook; a row maps column letters to text."""
    space = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
    relation = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
    try:
        book = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, OSError) as error:
        fail(f"{path}: not a readable workbook ({error})")
    with book:
        strings = ["".join(t.text or "" for t in item.iter(space + "t"))
                   for item in ElementTree.fromstring(book.read("xl/sharedStrings.xml"))]
        targets = {r.get("Id"): r.get("Target") for r in
                   ElementTree.fromstring(book.read("xl/_rels/workbook.xml.rels"))}
        for sheet in ElementTree.fromstring(book.read("xl/workbook.xml")).iter(space + "sheet"):
            tree = ElementTree.fromstring(book.read("xl/" + targets[sheet.get(relation)]))
            rows = []
            for row in tree.iter(space + "row"):
                cells = {}
                for cell in row:
                    value = cell.find(space + "v")
                    if value is None:
                        continue
                    text = strings[int(value.text)] if cell.get("t") == "s" else value.text
                    cells[re.match("[A-Z]+", cell.get("r")).group()] = text.strip()
                rows.append(cells)
            yield sheet.get("name"), rows


def main(description, run):
    """Parses `INPUT -o FOLDER`, calls run(input, folder), prints failures on one line."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("input", help="the source's folder or archive")
    parser.add_argument("-o", "--output", required=True, help="folder for the neutral CSV files")
    arguments = parser.parse_args()
    return guarded(lambda: run(pathlib.Path(arguments.input), pathlib.Path(arguments.output)),
                   pathlib.Path(sys.argv[0]).name)
