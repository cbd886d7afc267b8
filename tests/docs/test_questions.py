#!/usr/bin/env python3
"""docs/questions.md: every command runs as it stands and prints the lines below it (figures within 5 %, since models
change), and every picture is there.

  tests/docs/test_questions.py FORETRACE
"""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/questions.md"
FORETRACE = ""


def blocks():
    """(commands, lines that they print) of each indented block."""
    for block in re.findall(r"(?:^    .*\n)+", PAGE.read_text(), re.M):
        lines = [line[4:] for line in block.splitlines()]
        yield [line[2:] for line in lines if line.startswith("$ ")], [line for line in lines if not line.startswith("$ ")]


def same(printed, said):
    try:
        return abs(float(printed.strip("(),;")) - float(said.strip("(),;"))) <= max(0.05 * abs(float(said.strip("(),;"))), 0.05)
    except ValueError:
        return printed == said


def holds(printed, said):
    """Whether these words follow each other in what is printed."""
    return any(all(map(same, printed[i:], said)) for i in range(len(printed) - len(said) + 1))


class Questions(unittest.TestCase):
    def test_commands_print_what_the_page_says(self):
        found = list(blocks())
        self.assertGreater(len(found), 8)
        for commands, expected in found:
            with self.subTest(commands[-1]), tempfile.TemporaryDirectory(prefix="foretrace-docs-") as folder:
                for data in ("traces", "tests", "topologies"):
                    (pathlib.Path(folder) / data).symlink_to(ROOT / data)
                script = f'foretrace() {{ "{FORETRACE}" "$@"; }}\n' + "\n".join(commands)
                done = subprocess.run(["bash", "-c", script], cwd=folder, capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)
                for line in expected:
                    self.assertTrue(holds(done.stdout.split(), line.split()), f"{line!r} is not in\n{done.stdout}")

    def test_pictures_are_there(self):
        pictures = re.findall(r"!\\[[^]]+\\]\\(([^)]+)\\)".replace("\\\\", "\\"), PAGE.read_text())
        self.assertGreater(len(pictures), 8)
        for picture in pictures:
            self.assertTrue((PAGE.parent / picture).exists(), picture)


if __name__ == "__main__":
    FORETRACE = str(pathlib.Path(sys.argv[1]).resolve())
    unittest.main(argv=sys.argv[:1])
