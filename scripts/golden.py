#!/usr/bin/env python3
"""Runs the whole-tool cases of tests/golden and compares what comes out with what is on file.

A case is a folder tests/golden/NAME with

  cmd               one shell command a line; `foretrace` is the binary under test. The lines run in
                    an empty folder. Lines that begin with # are comments; with "# needs mpi" a
                    case is skipped where mpirun, or the program's module of it, is absent. Variables: $SRC (the
                    project), $REALDATA (public data, or the slice of them in tests/data/public; a
                    case is skipped where what it names of them is absent)
  expected.stdout   standard output of all lines together
  expected.stderr   standard error; an absent file means that there must be none
  expected.exit     exit code of the last line, one number

What differs between machines or runs is normalised before comparing: paths of the project, of the
public data and of the working folder become $SRC, $REALDATA and $WORK.

  scripts/golden.py --foretrace build/release/foretrace [--rebaseline] [CASE...]

Cases named readme_* are the examples of README.md, which must show their output as it is.

--rebaseline rewrites the expected files (and README.md's examples); read the difference before you
commit it.
"""
import argparse
import difflib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
CASES = ROOT / "tests" / "golden"
README = ROOT / "README.md"
SLICE = ROOT / "tests" / "data" / "public"
TIMEOUT_SECONDS = 300
PROGRESS = re.compile(r"^foretrace: .* s so far\n", re.MULTILINE)  # of what takes ten seconds


class Case:
    def __init__(self, folder):
        self.folder = folder
        self.name = folder.name
        lines = (folder / "cmd").read_text().splitlines()
        self.commands = [line for line in lines if line.strip() and not line.startswith("#")]
        self.needs_mpi = "# needs mpi" in lines

    def missing_data(self, real_data):
        """What of $REALDATA the commands name and is not there."""
        named = [name for line in self.commands
                 for name in re.findall(r"\$REALDATA((?:/[^\s\"'|/;,*)]+)*)", line)]
        return [name for name in named if not (real_data / name.lstrip("/")).exists()]

    def expected(self):
        result = {}
        for stream in ("stdout", "stderr", "exit"):
            path = self.folder / f"expected.{stream}"
            result[stream] = path.read_text() if path.exists() else ""
        return result

    def write_expected(self, actual):
        for stream, text in actual.items():
            path = self.folder / f"expected.{stream}"
            if text:
                path.write_text(text)
            elif path.exists():
                path.unlink()


def normalise(text, substitutions):
    # The longest first, so that a folder inside another one gets its own name.
    for value, name in sorted(substitutions.items(), key=lambda item: -len(item[0])):
        text = text.replace(value, name)
    return text


def readme_error(case, actual):
    """Empty where README.md shows the case's output, or the case is none of its examples."""
    if not case.name.startswith("readme_") or actual["stdout"] in README.read_text():
        return ""
    return "    README.md does not show this output; run with --rebaseline"


def update_readme(case, actual):
    old = case.expected()["stdout"]
    if case.name.startswith("readme_") and old:
        README.write_text(README.read_text().replace(old, actual["stdout"]))


def run(case, foretrace, real_data):
    """Returns {stdout, stderr, exit} of the case, normalised."""
    # Paths of one length wherever the project and the data are: sentences fold by it.
    with tempfile.TemporaryDirectory(prefix="fg", dir="/tmp") as work:
        source, data = pathlib.Path(work) / "src", pathlib.Path(work) / "data"
        source.symlink_to(ROOT)
        data.symlink_to(real_data)
        bin_folder = pathlib.Path(work) / "bin"
        bin_folder.mkdir()
        (bin_folder / "foretrace").symlink_to(foretrace)
        run_folder = pathlib.Path(work) / "run"
        run_folder.mkdir()
        environment = dict(os.environ)
        environment.update(SRC=str(source), REALDATA=str(data), LC_ALL="C", TZ="UTC",
                           FORETRACE_REALDATA=str(data), FORETRACE_DATA=str(source),
                           PATH=f"{bin_folder}:{environment['PATH']}")
        stdout, stderr, code = "", "", 0
        for command in case.commands:
            try:
                done = subprocess.run(["bash", "-c", command], cwd=run_folder, env=environment,
                                      capture_output=True, timeout=TIMEOUT_SECONDS)
            except subprocess.TimeoutExpired:
                stderr += f"no end after {TIMEOUT_SECONDS} s: {command}\n"
                code = -1
                break
            stdout += done.stdout.decode(errors="backslashreplace")
            stderr += PROGRESS.sub("", done.stderr.decode(errors="backslashreplace"))
            code = done.returncode
        substitutions = {str(run_folder): "$WORK", str(source): "$SRC", str(ROOT): "$SRC",
                         str(data): "$REALDATA", str(real_data): "$REALDATA"}
        return {"stdout": normalise(stdout, substitutions),
                "stderr": normalise(stderr, substitutions), "exit": f"{code}\n"}


def difference(expected, actual, stream):
    lines = difflib.unified_diff(expected[stream].splitlines(), actual[stream].splitlines(),
                                 f"expected.{stream}", f"actual.{stream}", lineterm="")
    return "\n".join(f"    {line}" for line in list(lines)[:80])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0],
                                     epilog="cases: tests/golden/NAME; see the script's head")
    parser.add_argument("--foretrace", default=str(ROOT / "build" / "release" / "foretrace"),
                        help="the binary under test")
    parser.add_argument("--rebaseline", action="store_true", help="rewrite the expected files")
    parser.add_argument("cases", nargs="*", help="names; default: all")
    options = parser.parse_args()
    foretrace = pathlib.Path(options.foretrace).resolve()
    if not os.access(foretrace, os.X_OK):
        sys.exit(f"golden: error: {foretrace}: no such program; build it, or give --foretrace")
    whole = ROOT.parent / "shared" / "realdata"
    real_data = pathlib.Path(os.path.abspath(
        os.environ.get("FORETRACE_REALDATA") or (whole if whole.is_dir() else SLICE)))
    known = {path.parent.name: Case(path.parent) for path in sorted(CASES.glob("*/cmd"))}
    unknown = [name for name in options.cases if name not in known]
    if unknown:
        sys.exit(f"golden: error: no case {unknown[0]}; known: {', '.join(known)}")
    sys.stdout.reconfigure(line_buffering=True)
    passed, failed, skipped = 0, 0, 0
    for name in options.cases or known:
        case = known[name]
        missing_data = case.missing_data(real_data)
        if missing_data:
            print(f"SKIP {name}: {real_data}{missing_data[0]} is absent; scripts/fetch_public_data "
                  "fetches it, FORETRACE_REALDATA names its folder")
            skipped += 1
            continue
        if case.needs_mpi and not (shutil.which("mpirun") and
                                   (foretrace.parent / "foretrace_mpi.so").exists()):
            print(f"SKIP {name}: there is no mpirun, or no foretrace_mpi.so beside {foretrace}; "
                  "scripts/setup --mpi installs OpenMPI, and a build finds it")
            skipped += 1
            continue
        actual = run(case, foretrace, real_data)
        if options.rebaseline:
            absent = re.search(r"module \w+ is not installed", actual["stderr"])
            if absent:
                sys.exit(f"golden: error: {name}: {absent[0]}; build all targets before rewriting what is expected")
            changed = actual != case.expected()
            update_readme(case, actual)
            case.write_expected(actual)
            print(f"{'NEW ' if changed else 'same'} {name}")
            continue
        expected = case.expected()
        missing = readme_error(case, actual)
        if actual == expected and not missing:
            print(f"PASS {name}")
            passed += 1
            continue
        failed += 1
        print(f"FAIL {name}")
        for command in case.commands:
            print(f"    $ {command}")
        for stream in ("exit", "stderr", "stdout"):
            text = difference(expected, actual, stream)
            if text:
                print(text)
        if missing:
            print(missing)
    if not options.rebaseline:
        print(f"golden: {passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
