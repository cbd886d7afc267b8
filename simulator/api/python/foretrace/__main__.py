"""The program foretrace that the package brings: `python3 -m foretrace predict run1/`."""
import os
import pathlib
import sys


def main():
    program = pathlib.Path(__file__).resolve().parent / "bin/foretrace"
    if not program.exists():
        sys.exit("foretrace: error: this package is beside an installation; run the program foretrace itself")
    os.execv(program, [str(program), *sys.argv[1:]])


if __name__ == "__main__":
    main()
