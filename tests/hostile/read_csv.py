#!/usr/bin/env python3
"""read_csv.py FIELD FILES: each file is a table of CSV, all rows as wide as its header; some field is FIELD."""
import csv
import sys

found = False
for path in sys.argv[2:]:
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file, strict=True))
    if not rows or len(rows) < 2 or any(len(row) != len(rows[0]) for row in rows):
        sys.exit(f"{path}: {len(rows)} rows, not all as wide as the first")
    found |= any(sys.argv[1] in field for row in rows for field in row)
sys.exit(0 if found else f"no field holds {sys.argv[1]!r}")
