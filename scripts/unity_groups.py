#!/usr/bin/env python3
"""Groups sources so that those of one group may be compiled as one translation unit.

usage: unity_groups.py SIZE SOURCE...    (paths below the current folder)

Prints a line `GROUP SOURCE` for each source. Sources go together only where no name that one of
them keeps to itself (an unnamed namespace, `static`) is written in another, or declared by a header:
C++ would refuse the repeated definition, or take one for the other.
"""
import re
import sys
from pathlib import Path

LITERAL = re.compile(r'R"\((?s:.*?)\)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'(?!\w)|//[^\n]*|/\*(?s:.*?)\*/')
WORD = re.compile(r"[A-Za-z_]\w*")
TYPE = re.compile(r"\b(?:struct|class|enum(?:\s+class)?|union|using|concept)\s+(?:\[\[\w+\]\]\s*)?([A-Za-z_]\w*)")


def plain(path):
    """The text of a source without comments, literals and directives."""
    text = LITERAL.sub(lambda m: " " if m[0].startswith("/") else '""', path.read_text())
    return re.sub(r"^[ \t]*#(?:.*\\\n)*.*$", "", text, flags=re.M)


def statements(text):
    """Yields (inside an unnamed namespace, statement) of all that stands at the level of namespaces."""
    unnamed, depth, start, i = [], 0, 0, 0
    for m in re.finditer(r"[{};]", text):
        i, c = m.start(), m[0]
        if depth == 0:
            head = text[start:i].strip()
            space = re.search(r"\bnamespace\b\s*([\w:]*)\s*$", head)
            if c == "{" and space:
                unnamed.append(space[1] == "")
                start = i + 1
            elif c == "}":
                if unnamed:
                    unnamed.pop()
                start = i + 1
            elif c == ";":
                if head:
                    yield any(unnamed), head
                start = i + 1
            else:
                yield any(unnamed), head
                depth = 1
        else:
            depth += {"{": 1, "}": -1}.get(c, 0)
            if depth == 0:
                start = i + 1


def name_of(statement):
    """The name that a statement declares, or None."""
    statement = re.sub(r"^template\s*<[^{;]*?>\s*(?=\w)", "", statement)
    kind = TYPE.match(statement)
    if kind:
        return kind[1]
    before = re.split(r"[=\[{]|\((?!\))", re.sub(r"\[\[.*?\]\]", "", statement), maxsplit=1)[0]
    words = WORD.findall(before)
    qualified = re.search(r"::\s*~?[A-Za-z_]\w*\s*$", before)
    return words[-1] if len(words) > 1 and not qualified else None


def names_of(statement):
    """All names that a statement declares; of `constexpr int kA = 1, kB = 2` both."""
    first = name_of(statement)
    more = re.findall(r",\s*([A-Za-z_]\w*)\s*=", statement) if re.match(r"(static )?const", statement) else []
    return ([first] if first else []) + more


def included(source, known):
    """The headers of this project that a source includes, and those that they include."""
    if source not in known:
        known[source] = set()
        for name in re.findall(r'^#include "([^"]+)"', Path(source).read_text(), re.M):
            if Path(name).is_file():
                known[source] |= {name} | included(name, known)
    return known[source]


def main():
    size, sources = int(sys.argv[1]), sys.argv[2:]
    reach, declared, own, words, seen = {}, {}, {}, {}, {}
    for source in sources:
        text = plain(Path(source))
        words[source] = set(WORD.findall(text))
        own[source] = {n for inside, s in statements(text)
                       if inside or s.startswith("static ") for n in names_of(s)}
        seen[source] = set()
        for header in included(source, reach):
            if header not in declared:
                found = (name_of(s) for _, s in statements(plain(Path(header))))
                declared[header] = set(filter(None, found))
            seen[source] |= declared[header]

    def clash(a, b):
        return own[a] & (words[b] | seen[b] - seen[a])

    groups = []
    for source in sources:
        for group in groups:
            if len(group) < size and not any(clash(source, o) or clash(o, source) for o in group):
                break
        else:
            group = []
            groups.append(group)
        group.append(source)
    for number, group in enumerate(groups):
        for source in group:
            print(number, source)


if __name__ == "__main__":
    main()
