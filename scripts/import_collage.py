#!/usr/bin/env python3
"""Collage's logs of measured operators (operator_cost*.json) to the neutral CSV, with a column
`backend`; one file per log.

A key of a log is "op_type: ..., data_shape: (...), attrs: frozenset({...}), op_name: BACKEND_...",
its value [mean ms, standard deviation ms]. data_shape is that of the first input alone, so the
attributes are part of the shape. Operators are written as a tree, add(*,conv2d(*,*)), where the log
has one, else as types in order of execution, conv2d+add. Every entry becomes a row, also where one
log has the same operator in two notations (a repeated measurement); an entry that cannot be read,
or a time that is none, is an error. The number of operators on which each backend
is the fastest of several goes to standard error.
"""
import ast
import collections
import csv
import io
import json
import math
import os
import pathlib
import re
import statistics
import sys

import import_common as common

KEY = re.compile(r"op_type: (.*?), data_shape: (.*?), attrs: (.*), op_name: ([^_]+)_(.*)", re.S)
# relay's names of operators, and those of the logs' own chains; one of each here.
SPELLINGS = {"avg_pool2d": "avgpool2d", "max_pool2d": "maxpool2d", "bias_add": "biasadd",
             "concatenate": "concat"}
HARDWARE = re.compile(r"operator_cost_(?:(rtx2070|jetson)_)?[0-9a-f]+\.json$")


def operator(text):
    """Of the three notations that the logs have: the tree, or the chain as it is."""
    text = re.sub(r"CallPatternNode\(Op\(([^()]*)\), \[", r"Op(\1)[", text).replace("])", "]")
    if "Op(" not in text:
        return "concat(*,*,*,*,*)" if text == "tuple_five_idx+concat" else text
    text = re.sub(r"(?:\d+-)?Op\(([^()]*)\)", r"\1", text)
    text = text.replace("[", "(").replace("]", ")").replace(" ", "")
    text = re.sub(r"\w+", lambda m: SPELLINGS.get(m[0], m[0]), re.sub(r"\bnn\.", "", text))
    # A concatenation reads one tuple: of its operands where the log has it, else of some.
    return re.sub(r"concat\((?:\d+-)?Tuple\(([^()]*)\)\)", r"concat(\1)", text).replace(
        "concat(*)", "concat")


def written(value):
    if isinstance(value, tuple):
        if all(isinstance(v, str) for v in value):
            return "".join(value)
        return "x".join(written(v) for v in value)
    return str(value)


def attributes(text, where):
    """`type.key=value` of every operator, each once, in order."""
    if not (text.startswith("frozenset({") and text.endswith("})")):
        common.fail(f"{where}: attributes '{text}' are no frozenset({{...}})")
    try:
        paths = ast.literal_eval("[" + text[len("frozenset({"):-2] + "]")
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        common.fail(f"{where}: attributes '{text}' cannot be read")
    found = set()
    for path in paths:
        if len(path) % 2:
            common.fail(f"{where}: attributes '{text}' are no pairs of operator and values")
        for name, pairs in zip(path[::2], path[1::2]):
            for key, value in pairs or ():
                if value not in ((), ""):
                    op = re.sub("^nn[.]", "", name)
                    found.add(f"{SPELLINGS.get(op, op)}.{key}={written(value)}")
    return sorted(found)


def read_entry(name, key, value):
    match = KEY.fullmatch(key)
    if not match:
        common.fail(f"{name}: entry '{key}' is not op_type, data_shape, attrs, op_name")
    op, shape, attrs, backend, _ = match.groups()
    where = f"{name}: {op} on {backend}"
    if not (isinstance(value, list) and len(value) == 2 and
            all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in value)):
        common.fail(f"{where}: the value is {value}, not [mean ms, standard deviation ms]")
    mean, deviation = value
    if not (math.isfinite(mean) and mean > 0 and math.isfinite(deviation) and deviation >= 0):
        common.fail(f"{where}: {mean} ms with deviation {deviation} is no measured time")
    sizes = re.findall(r"-?\d+", shape)
    row_shape = ";".join(["data=" + "x".join(sizes)] + attributes(attrs, where))
    return operator(op), row_shape, backend, mean * 1000, deviation * 1000


def read_log(path):
    try:
        log = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        common.fail(f"{path}: no readable JSON ({error})")
    if not isinstance(log, dict) or not log:
        common.fail(f"{path}: no JSON object of measured operators")
    return [read_entry(path.name, key, value) for key, value in log.items()]


def winners(rows):
    """(operators that several backends were measured on, {backend: how many it is fastest on})."""
    times = collections.defaultdict(lambda: collections.defaultdict(list))
    for op, shape, backend, mean, _ in rows:
        times[op, shape][backend].append(mean)
    contested = [{b: statistics.median(t) for b, t in by_backend.items()}
                 for by_backend in times.values() if len(by_backend) > 1]
    return len(contested), collections.Counter(min(t, key=t.get) for t in contested)


def write(path, rows, platform):
    text = io.StringIO()
    text.write("# source: cmu-catalyst/collage, " + path.with_suffix(".json").name + "\n")
    text.write("# licence: Apache-2.0\n# command: scripts/import_collage.py\n")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(common.COLUMNS + ["backend"])
    for op, shape, backend, mean, deviation in sorted(rows):
        writer.writerow(["operator", op, "forward", platform, "float32", shape,
                         repr(float(f"{mean:.9g}")), repr(float(f"{deviation:.4g}")), "1", "",
                         "collage", backend])
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(text.getvalue(), encoding="utf-8")
    os.replace(temporary, path)


def run(source, folder):
    logs = sorted(source.glob("operator_cost*.json")) if source.is_dir() else [source]
    if not logs:
        common.fail(f"{source}: no operator_cost*.json in it")
    for log in logs:
        rows = read_log(log)
        match = HARDWARE.search(log.name)
        platform = match.group(1) if match and match.group(1) else "unnamed"
        output = folder / log.with_suffix(".csv").name
        write(output, rows, platform)
        contested, fastest = winners(rows)
        wins = ", ".join(f"{b} {n}" for b, n in sorted(fastest.items(), key=lambda w: (-w[1], w[0])))
        print(f"{output}: {len(rows)} rows, {contested} operators on several backends; fastest: "
              f"{wins or 'none'}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(common.main(__doc__.splitlines()[0], run))
