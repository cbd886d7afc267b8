#!/usr/bin/env python3
"""Writes the manual page foretrace(1) from what `foretrace --help` and each command's --help say.

usage: make_manual.py FORETRACE OUTPUT
"""
import re
import subprocess
import sys


def help_of(program, *command):
    return subprocess.run([program, *command, "--help"], capture_output=True, text=True, check=True).stdout


def escaped(text):
    """Lines that roff prints as they are."""
    lines = [line.replace("\\", "\\e").replace("-", "\\-") for line in text.rstrip().splitlines()]
    return "\n".join("\\&" + line if line.startswith((".", "'")) else line for line in lines)


def commands_of(text):
    section = text.partition("Subcommands:\n")[2] or text.partition("SUBCOMMANDS:\n")[2]
    return re.findall(r"^  (\S+)", section, re.M)


def main():
    program, output = sys.argv[1:]
    overview = help_of(program)
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.split()[-1]
    commands = commands_of(overview)
    if not commands:
        sys.exit("make_manual: no commands in the output of foretrace --help")
    page = [f'.TH FORETRACE 1 "" "foretrace {version}" "User Commands"',
            ".SH NAME", "foretrace \\- simulator of distributed training, driven by traces",
            ".SH SYNOPSIS", ".B foretrace", "COMMAND [OPTIONS]",
            ".SH DESCRIPTION", ".nf", escaped(overview), ".fi",
            ".SH COMMANDS"]
    for command in commands:
        page += [f".SS foretrace {command}".replace("-", "\\-"), ".nf", escaped(help_of(program, command)), ".fi"]
    page += [".SH ENVIRONMENT",
             ".TP", ".B FORETRACE_DATA",
             "folders, with ':' between, that hold topologies/ and calibration/; they are looked at first.",
             ".TP", ".B FORETRACE_MODULES", "folder of the modules that few commands need.",
             ".SH EXIT STATUS",
             "0 success, 1 a defect of foretrace, 2 bad input, 3 a request that cannot be met."]
    with open(output, "w", encoding="utf-8") as file:
        file.write("\n".join(page) + "\n")


if __name__ == "__main__":
    main()
