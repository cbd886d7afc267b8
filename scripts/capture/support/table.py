"""The neutral CSV schema of benchmark tables: writing, resuming, reading.

Standard library only, so that tables can be checked without PyTorch.  The schema is documented in
README.md beside this folder; `foretrace calibrate` reads it.
"""
import csv
import io
import math
import os

COLUMNS = ("kind", "op", "phase", "platform", "dtype", "shape", "time_us", "std_us", "repeats",
           "library", "source")
KINDS = ("kernel", "collective", "embedding", "overhead", "memory")
PHASES = ("forward", "backward", "optimizer", "-")

# Keys of the shape column, in the order in which they are written, by operator.
_COLLECTIVE = ("bytes", "ranks", "nodes", "placement", "inplace")
SHAPE_KEYS = {
    "linear": ("m", "n", "k", "bias"),
    "bmm": ("b", "m", "n", "k"),
    "conv2d": ("n", "c", "h", "w", "k", "r", "s", "stride", "pad", "dilation", "groups"),
    "attention": ("b", "heads", "kv_heads", "sq", "skv", "d", "causal", "impl"),
    "layer_norm": ("rows", "cols"),
    "softmax": ("rows", "cols"),
    "batch_norm": ("n", "c", "h", "w"),
    "dropout": ("elements", "inputs", "op"),
    "elementwise": ("elements", "inputs", "op"),
    "reduction": ("rows", "cols", "op"),
    "concat": ("parts", "elements"),
    "transpose": ("b", "m", "n"),
    "index": ("n", "rows", "cols"),
    "tril": ("n", "b"),
    "memcpy": ("bytes", "direction", "pinned"),
    "optimizer": ("params", "tensors", "op", "impl"),
    "embedding": ("tables", "b", "e", "d", "l", "weights", "rf"),
    "all_reduce": _COLLECTIVE,
    "all_gather": _COLLECTIVE,
    "reduce_scatter": _COLLECTIVE,
    "all_to_all": _COLLECTIVE,
    "broadcast": _COLLECTIVE,
    "reduce": _COLLECTIVE,
    "send_recv": _COLLECTIVE,
    "overhead": ("name",),
}


class TableError(Exception):
    """A table that cannot be read, or cannot be resumed; the message names file, line and remedy."""


def shape_text(op, shape):
    """The shape column of `op` from a dict; every key of the operator, and no other, must be there."""
    keys = SHAPE_KEYS[op]
    if set(shape) != set(keys):
        raise ValueError("operator %s takes the shape keys %s, not %s" %
                         (op, list(keys), sorted(shape)))
    parts = []
    for key in keys:
        value = shape[key]
        if isinstance(value, bool):
            value = int(value)
        text = "%.6g" % value if isinstance(value, float) else str(value)
        if any(c in text for c in ";=,\n\" "):
            raise ValueError("shape value %r of %s holds a reserved character" % (text, key))
        parts.append("%s=%s" % (key, text))
    return ";".join(parts)


def parse_shape(op, text):
    """The inverse of `shape_text`, with values left as strings; raises ValueError."""
    pairs = [part.split("=", 1) for part in text.split(";")]
    if any(len(pair) != 2 for pair in pairs) or tuple(p[0] for p in pairs) != SHAPE_KEYS[op]:
        raise ValueError("shape of %s must be %s=... in this order, not %r" %
                         (op, "=;".join(SHAPE_KEYS[op]), text))
    return dict(pairs)


def row_key(row):
    """What makes a row unique: two rows with one key are the same measurement."""
    return tuple(row[c] for c in ("kind", "op", "phase", "platform", "dtype", "shape", "library"))


def make_row(kind, op, phase, platform, dtype, shape, library, source, time_us=0.0, std_us=0.0,
             repeats=0):
    """A row as a dict of strings, in the schema's column order."""
    return {"kind": kind, "op": op, "phase": phase, "platform": platform, "dtype": dtype,
            "shape": shape_text(op, shape), "time_us": "%.6g" % time_us, "std_us": "%.4g" % std_us,
            "repeats": str(repeats), "library": library, "source": source}


def check_row(row):
    """Raises ValueError where a row breaks the schema."""
    if row["kind"] not in KINDS:
        raise ValueError("kind %r is none of %s" % (row["kind"], ", ".join(KINDS)))
    if row["phase"] not in PHASES:
        raise ValueError("phase %r is none of %s" % (row["phase"], ", ".join(PHASES)))
    if row["op"] not in SHAPE_KEYS:
        raise ValueError("operator %r is unknown" % row["op"])
    parse_shape(row["op"], row["shape"])
    time_us, std_us, repeats = float(row["time_us"]), float(row["std_us"]), int(row["repeats"])
    if not (math.isfinite(time_us) and time_us > 0):
        raise ValueError("time_us must be finite and positive, not %s" % row["time_us"])
    if not (math.isfinite(std_us) and std_us >= 0):
        raise ValueError("std_us must be finite and not negative, not %s" % row["std_us"])
    if repeats < 1:
        raise ValueError("repeats must be at least 1, not %s" % row["repeats"])
    for column in ("platform", "dtype", "library", "source"):
        if not row[column]:
            raise ValueError("column %s is empty" % column)


def read_table(path):
    """(provenance dict, list of rows) of a table; a last line without its newline is left out, as
    an interrupted run leaves one.  Raises TableError."""
    with open(path, encoding="utf-8", newline="") as file:
        text = file.read()
    text = text[:text.rfind("\n") + 1]
    provenance, rows, header_seen = {}, [], False
    for number, line in enumerate(text.splitlines(), start=1):
        if not header_seen and line.startswith("#"):
            key, _, value = line[1:].partition(":")
            provenance[key.strip()] = value.strip()
            continue
        fields = next(csv.reader([line]))
        if not header_seen:
            if tuple(fields) != COLUMNS:
                raise TableError("%s:%d: the header must be %s" % (path, number, ",".join(COLUMNS)))
            header_seen = True
            continue
        if len(fields) != len(COLUMNS):
            raise TableError("%s:%d: %d fields instead of %d" %
                             (path, number, len(fields), len(COLUMNS)))
        row = dict(zip(COLUMNS, fields))
        try:
            check_row(row)
        except ValueError as error:
            raise TableError("%s:%d: %s" % (path, number, error)) from error
        rows.append(row)
    return provenance, rows


class TableWriter:
    """Appends rows to a table, each flushed at once; an existing table of the same platform, device
    and library versions is resumed."""

    # A table mixes no two of these: such rows would look comparable and are not.
    _MUST_AGREE = ("platform", "device", "driver", "libraries")

    def __init__(self, path, provenance, key=row_key):
        """`key` maps a row to its identity, by which a resumed run knows what it has."""
        self.path = path
        self._key = key
        self.keys = set()
        self.resumed = 0
        self.added = 0
        folder = os.path.dirname(os.path.abspath(path))
        os.makedirs(folder, exist_ok=True)
        if os.path.exists(path) and os.path.getsize(path) > 0:
            self._resume(provenance)
            self._file = open(path, "a", encoding="utf-8", newline="")
        else:
            self._file = open(path, "w", encoding="utf-8", newline="")
            for key, value in provenance.items():
                self._file.write("# %s: %s\n" % (key, " ".join(str(value).split())))
            self._file.write(",".join(COLUMNS) + "\n")
            self._file.flush()

    def _resume(self, provenance):
        with open(self.path, "rb") as file:
            data = file.read()
        end = data.rfind(b"\n") + 1
        known, rows = read_table(self.path)
        for key in self._MUST_AGREE:
            if key in provenance and known.get(key) != " ".join(str(provenance[key]).split()):
                raise TableError("%s: measured with %s %r, this run has %r; name another --output" %
                                 (self.path, key, known.get(key), provenance[key]))
        if end < len(data):
            with open(self.path, "r+b") as file:
                file.truncate(end)
        self.keys = {self._key(row) for row in rows}
        self.resumed = len(rows)

    def has(self, row):
        return self._key(row) in self.keys

    def add(self, row):
        """Writes a row unless the table has it; raises ValueError where it breaks the schema."""
        check_row(row)
        if self.has(row):
            return
        line = io.StringIO()
        csv.writer(line, lineterminator="\n").writerow([row[c] for c in COLUMNS])
        self._file.write(line.getvalue())
        self._file.flush()
        self.keys.add(self._key(row))
        self.added += 1

    def close(self):
        self._file.close()
