#!/usr/bin/env python3
"""Fails when a file calls a function of a header that it does not include, directly or through others.

Sources that are compiled several at once (FORETRACE_UNITY) see what their neighbours include, so that
such a file builds there and not by itself.
"""
import os
import re
import sys
from collections import defaultdict
from pathlib import Path

from unity_groups import included, name_of, plain, statements

ROOT = Path(__file__).resolve().parent.parent
# A name behind one of these is a member's or of another namespace.
CALL = re.compile(r"(?<![\w.])(?<!->)(?<!::)([A-Z]\w*)(?=\s*\()")
# A type and then a name: a member, a parameter, a function of the file's own.
DECLARED = re.compile(r"(\w+|[>&*\]])\s+[&*]?([A-Z]\w*)\s*[({;=,:)]")
TYPE = re.compile(r"\b(?:struct|class|enum|enum\s+class|union|using|concept)\s+([A-Z]\w*)")
NO_TYPES = {"return", "co_return", "else", "case", "new", "throw", "and", "or", "not"}


def declarations(headers):
    """{name: headers that declare it} of the functions that headers declare outside of classes."""
    found = defaultdict(set)
    for header in headers:
        for _, statement in statements(plain(Path(header))):
            name = name_of(statement)
            if name and re.search(rf"\b{name}\s*\(", statement):
                found[name].add(header)
    return found


def own_names(text):
    """Names that a text declares, anywhere in it."""
    return {m[2] for m in DECLARED.finditer(text) if m[1] not in NO_TYPES} | set(TYPE.findall(text))


def missing(files):
    """(file, name, header) of each function that one header declares and the file only calls."""
    declared = declarations(f for f in files if f.endswith(".h"))
    one = {name: next(iter(where)) for name, where in declared.items() if len(where) == 1}
    texts = {file: plain(Path(file)) for file in files}
    own = {file: own_names(text) for file, text in texts.items()}
    reach = {}
    for file, text in texts.items():
        seen = included(file, reach)
        known = own[file].union(*(own.get(header, set()) for header in seen))
        for name in sorted(set(CALL.findall(text)) - known):
            header = one.get(name)
            if header and header != file and header not in seen:
                yield file, name, header


def main():
    os.chdir(ROOT)
    files = sorted(str(p) for pattern in ("*.h", "*.cpp") for p in Path("simulator").rglob(pattern))
    problems = [f"{file}: calls {name}; include {header}" for file, name, header in missing(files)]
    for problem in problems:
        print(f"check_includes: {problem}", file=sys.stderr)
    if not problems:
        print(f"check_includes: {len(files)} files include what they call")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
