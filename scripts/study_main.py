"""The command line of studies whose rows are those of the folder of public data."""
import argparse
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent


def print_study(description, header, study_rows):
    """Prints a table, a row as soon as there is one. `study_rows(foretrace, data)`: cells of each row."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=pathlib.Path, help="the folder of public data")
    parser.add_argument("--foretrace", default=str(ROOT / "build/release/foretrace"))
    options = parser.parse_args()
    for cells in [header, ["---"] * len(header), *study_rows(options.foretrace, options.data)]:
        print("| " + " | ".join(cells) + " |", flush=True)
