"""Builds the wheel of the Python package with CMake, as pip asks for it (PEP 517, PEP 660 not).

The wheel holds the package, and below it what `cmake --install` puts down: the program, its modules and its
data. Needs what scripts/setup installs; downloads nothing.
"""
import base64
import hashlib
import os
import pathlib
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NAME = f"{PROJECT['name']}-{PROJECT['version']}"


def get_requires_for_build_wheel(config_settings=None):
    return []


def metadata():
    lines = ["Metadata-Version: 2.1", f"Name: {PROJECT['name']}", f"Version: {PROJECT['version']}",
             f"Summary: {PROJECT['description']}", f"License: {PROJECT['license']['text']}",
             f"Requires-Python: {PROJECT['requires-python']}"]
    lines += [f"Requires-Dist: {name}" for name in PROJECT["dependencies"]]
    return "\n".join(lines) + "\n"


def tag():
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    return f"{python}-{python}-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.stderr.write(done.stdout + done.stderr)
        raise SystemExit(f"foretrace: error: {command[0]} failed, see above; scripts/setup installs what it needs")


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    build = pathlib.Path(os.environ.get("FORETRACE_WHEEL_BUILD", ROOT / "build/wheel"))
    run("cmake", "-S", ROOT, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DFORETRACE_TESTS=OFF", "-DFORETRACE_UNITY=ON",
        "-DFORETRACE_PYTHON=ON", "-DFORETRACE_PYTHON_DIR=.", f"-DPython3_EXECUTABLE={sys.executable}", f"-DPYTHON_EXECUTABLE={sys.executable}")
    run("cmake", "--build", build)
    name = f"{NAME}-{tag()}.whl"
    with tempfile.TemporaryDirectory() as folder:
        tree = pathlib.Path(folder)
        run("cmake", "--install", build, "--component", "python", "--prefix", tree)
        run("cmake", "--install", build, "--component", "foretrace", "--prefix", tree / "foretrace", "--strip")
        information = tree / f"{NAME}.dist-info"
        information.mkdir()
        (information / "METADATA").write_text(metadata())
        (information / "WHEEL").write_text(f"Wheel-Version: 1.0\nGenerator: foretrace\nRoot-Is-Purelib: false\nTag: {tag()}\n")
        (information / "entry_points.txt").write_text("[console_scripts]\nforetrace = foretrace.__main__:main\n")
        record = []
        with zipfile.ZipFile(pathlib.Path(wheel_directory) / name, "w", zipfile.ZIP_DEFLATED) as wheel:
            for path in sorted(path for path in tree.rglob("*") if path.is_file()):
                inside = path.relative_to(tree).as_posix()
                content = path.read_bytes()
                digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
                record.append(f"{inside},sha256={digest},{len(content)}")
                wheel.write(path, inside)
            record.append(f"{information.name}/RECORD,,")
            wheel.writestr(f"{information.name}/RECORD", "\n".join(record) + "\n")
    return name
