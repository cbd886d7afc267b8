"""The command line of studies whose rows are those of the folder of public data."""
import argparse
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def import_tables(source, data, folder, script=None):
    """What scripts/import_SOURCE.py, or another script, makes of DATA/SOURCE, into a folder."""
    subprocess.run([sys.executable, str(ROOT / "scripts" / (script or f"import_{source}.py")), str(data / source), "-o",
                    str(folder)], check=True, capture_output=True)


def print_study(description, header, study_rows):
    """Prints a table, a row as soon as there is one. `study_rows(foretrace, data)`: cells of each row."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=pathlib.Path, help="the folder of public data")
    parser.add_argument("--foretrace", default=str(ROOT / "build/release/foretrace"))
    options = parser.parse_args()
    for cells in [header, ["---"] * len(header), *study_rows(options.foretrace, options.data)]:
        print("| " + " | ".join(cells) + " |", flush=True)
