#!/usr/bin/env python3
"""Fails where documentation, help or reports use a word of our own for what the field has a name."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# {house word: the field's}
WORDS = {
    r"(kept|keeps?) (rows )?back|keep_back": "held out, hold rows out",
    r"boards of one chip": "SKUs",
    r"sums? down columns": "column reduction",
    r"a stage passes no faster": "stage throughput is capped by link bandwidth",
    r"matrix products?|products (of experts|beside|in \d+ bits)|(large|measured|skinny|grouped) products": "GEMMs",
    r"visits? (of|a|each) (token|expert)|(token|expert)s? visit": "tokens are routed to experts",
    r"collectives? that met": "rendezvous",
    r"\bmeetings?\b": "rendezvous",
    r"\bown %": "surrogate error %",
    r"rows that stayed outside": "held-out rows",
}
PLACES = ["README.md", "docs/*.md", "topologies/README.md", "calibration/README.md",
          "traces/README.md", "simulator/README.md", 
          "simulator/console/**/*.cpp", "simulator/replay/**/*.cpp", "simulator/planning/**/*.cpp",
          "simulator/report/**/*.cpp", "simulator/reconstruct/*", "simulator/engine/*",
          "simulator/mapping/**/*.cpp", "simulator/search/**/*.cpp", "simulator/calibrate/**/*.cpp"]


def main():
    errors = []
    for pattern in PLACES:
        for path in sorted(ROOT.glob(pattern)):
            for number, line in enumerate(path.read_text().splitlines(), 1):
                for word, field in WORDS.items():
                    if found := re.search(word, line, re.IGNORECASE):
                        errors.append(f"{path.relative_to(ROOT)}:{number}: \"{found.group(0)}\"; "
                                      f"the field says {field}")
    print("\n".join(errors) if errors else "check_words: no house words")
    sys.exit(1 if errors else 0)


if __name__ == "__main__":
    main()
