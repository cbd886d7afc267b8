#!/usr/bin/env python3
"""Examples that --help ends with: every command has some, and each names commands and options that there are.
The files of topologies/accelerators/README.md, and the commands below them, as they stand.

  tests/docs/test_examples.py FORETRACE
"""
import functools
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

FORETRACE = ""
WITHOUT_EXAMPLES = ("help",)


@functools.cache
def help_of(*command):
    # Lines are as long as they are: names of options are not divided.
    return subprocess.run([FORETRACE, *command, "--help"], capture_output=True, text=True, check=True,
                          env={**os.environ, "COLUMNS": "400"}).stdout


def subcommands(*command):
    _, found, rest = help_of(*command).partition("Subcommands:\n")
    return re.findall(r"^  ([a-z][a-z-]*) ", rest.split("\nExamples:")[0], re.M) if found else []


def commands():
    for name in subcommands():
        yield (name,)
        for sub in subcommands(name):
            yield (name, sub)


def examples(*command):
    text = help_of(*command).partition("Examples:\n")[2]
    for line in re.sub(r"\\\n\s*", "", text).splitlines():
        for part in re.sub(r"\s#.*", "", line).split("&&"):
            words = shlex.split(part)
            words = words[words.index("foretrace"):] if "foretrace" in words else []
            if words:
                yield words[1:]


def options_of(*command):
    return set(re.findall(r"(?<![\w-])(--?[a-zA-Z][a-z0-9-]*)", help_of(*command).split("Examples:")[0]))


def problems(words):
    """What is wrong with the words of a command line, as far as names go."""
    command = tuple(words[:2]) if len(words) > 1 and words[1] in subcommands(words[0]) else (words[0],)
    if words[0] not in subcommands():
        return [f"no command {words[0]}"]
    known, arguments = options_of(*command), words[len(command):]
    inner = []
    if command == ("sweep",):
        inner = [a for a in arguments if a in subcommands()]
        if not inner:
            return ["sweep of no command"]
        known |= options_of(inner[0])
    found = [f"no option {a}" for a in arguments if re.match(r"--?[a-zA-Z]", a) and a.split("=")[0] not in known]
    for name in re.findall(r"--over ([^= ]+)=", " ".join(arguments)):
        swept = f"--{name}" in known or f"{{{name}}}" in " ".join(arguments) or "." in name
        found += [] if swept else [f"sweep over no option {name}"]
    return found


class Examples(unittest.TestCase):
    def test_every_command_has_examples(self):
        for command in commands():
            if command[0] not in WITHOUT_EXAMPLES:
                self.assertTrue(list(examples(*command)), command)

    def test_examples_name_what_there_is(self):
        for command in commands():
            for words in examples(*command):
                self.assertEqual(problems(words), [], (command, words))

    def test_a_new_accelerator_as_its_page_writes_it(self):
        root = pathlib.Path(__file__).resolve().parents[2]
        page = (root / "topologies/accelerators/README.md").read_text()
        with tempfile.TemporaryDirectory() as folder:
            blocks = re.findall(r"```yaml\n# (\S+)\n(.*?)```", page, re.S)
            self.assertEqual([name for name, _ in blocks], ["newgpu.yaml", "platform.yaml"])
            for name, text in blocks:
                pathlib.Path(folder, name).write_text(text)
            commands_of_page = re.findall(r"^    foretrace (.*)$", page, re.M)
            self.assertEqual(len(commands_of_page), 2)
            for command in [*commands_of_page, "inspect platform.yaml", "collective all_reduce --topology platform.yaml "
                            "--bytes 1G"]:
                words = [pathlib.Path(folder, w) if w == "platform.yaml" else w for w in shlex.split(command)]
                done = subprocess.run([FORETRACE, *words], capture_output=True, text=True, check=False)
                self.assertEqual((done.returncode, done.stderr), (0, ""), command)


if __name__ == "__main__":
    FORETRACE = sys.argv.pop(1)
    unittest.main()
