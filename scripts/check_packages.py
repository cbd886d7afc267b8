#!/usr/bin/env python3
"""Fails when a build takes from the system what scripts/setup does not install.

Every system header that the build's dependency files name, and every shared library that its
programs, libraries and modules are linked with, must belong to a package that scripts/setup
installs or that one of those depends on. Debian only; exit status 77 (skipped) elsewhere.

usage: check_packages.py BUILD [--without PACKAGE]
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SKIPPED = 77


def output(*command, check=True):
    done = subprocess.run(command, capture_output=True, text=True, check=check, errors="replace")
    return done.stdout


def cache_of(build):
    """CMake's variables of the build."""
    pairs = re.findall(r"^([A-Za-z0-9_]+):[A-Z]+=(.*)$", (build / "CMakeCache.txt").read_text(), re.M)
    return dict(pairs)


def setup_packages(build):
    """What scripts/setup installs for a build that was configured like this one."""
    options = []
    cache = cache_of(build)
    if cache.get("FORETRACE_WITH_MPI") == "ON":
        options.append("--mpi")
    if "clang" in cache.get("CMAKE_CXX_COMPILER", ""):
        options.append("--fuzz")
    return output("bash", str(ROOT / "scripts/setup"), "--list", *options).split()


class Installed:
    """The machine's packages: what each depends on and provides."""

    def __init__(self):
        fields = "${Package}\t${Essential}\t${Provides}\t${Pre-Depends}, ${Depends}\t${db:Status-Status}\n"
        self.depends, self.providers, self.essential = {}, {}, []
        for line in output("dpkg-query", "-W", f"-f={fields}").splitlines():
            name, essential, provides, depends, status = line.split("\t")
            if status != "installed":
                continue
            self.depends[name] = self.names(depends)
            if essential == "yes":
                self.essential.append(name)
            for provided in [name, *self.names(provides)]:
                self.providers.setdefault(provided, set()).add(name)

    @staticmethod
    def names(field):
        return [re.split(r"[\s:(]", part.strip())[0] for part in re.split(r"[,|]", field) if part.strip()]

    def closure(self, packages):
        """These, what they depend on, and what every system has. Of alternatives, the installed."""
        reached, queue = set(), [*packages, *self.essential]
        while queue:
            for name in self.providers.get(queue.pop(), ()):
                if name not in reached:
                    reached.add(name)
                    queue.extend(self.depends[name])
        return reached

    @staticmethod
    def owners(paths):
        """{path: {packages that own it}}; empty sets for files of no package."""
        spellings = {}  # the same file by the names dpkg may know it under
        for path in paths:
            for name in {path, os.path.realpath(path)}:
                for spelling in (name, name.removeprefix("/usr"), "/usr" + name):
                    spellings.setdefault(spelling, set()).add(path)
        owners = {path: set() for path in paths}
        names = list(spellings)
        for begin in range(0, len(names), 2000):
            for line in output("dpkg-query", "-S", *names[begin:begin + 2000], check=False).splitlines():
                packages, separator, path = line.rpartition(": ")
                if not separator or path not in spellings:
                    continue
                for owned in spellings[path]:
                    owners[owned].update(name.split(":")[0] for name in packages.split(", "))
        return owners


def system_headers(build):
    """{header: an object that needs it}, of what the build makes today."""
    compiled = set()
    for entry in json.loads((build / "compile_commands.json").read_text()):
        match = re.search(r" -o (\S+)", entry["command"])
        compiled.add(match.group(1))
    headers, target = {}, None
    for line in output("ninja", "-C", str(build), "-t", "deps").splitlines():
        if line and not line.startswith(" "):
            target = line.split(":")[0]
        elif line.startswith("    ") and target in compiled:
            path = os.path.normpath(os.path.join(build, line.strip()))
            if not path.startswith((str(ROOT) + "/", str(build) + "/")):
                headers.setdefault(path, target)
    return headers


def linked_files(build):
    """Programs and shared objects below the build."""
    for path in sorted(build.rglob("*")):
        if "CMakeFiles" in path.parts or not path.is_file() or path.suffix in (".a", ".o"):
            continue
        with path.open("rb") as file:
            if file.read(4) == b"\x7fELF":
                yield path


def system_libraries(build):
    """{library: a program that is linked with it}: those it names itself, not what these need."""
    libraries = {}
    for program in linked_files(build):
        needed = re.findall(r"\(NEEDED\).*\[(.+)\]", output("readelf", "-d", str(program)))
        found = dict(re.findall(r"^\s*(\S+) => (/\S+)", output("ldd", str(program)), re.M))
        for name in needed:
            path = found.get(name, name)
            if not path.startswith(str(build)):
                libraries.setdefault(path, str(program.relative_to(build)))
    return libraries


def check(build, without=()):
    """Lines that say what is missing from scripts/setup."""
    machine = Installed()
    listed = [name for name in setup_packages(build) if name not in without]
    reached = machine.closure(listed)
    headers, libraries = system_headers(build), system_libraries(build)
    if not headers or not libraries:
        return [f"{build}: nothing is built there; build it with Ninja first"], 0, 0
    owners = machine.owners([*headers, *(path for path in libraries if path.startswith("/"))])
    errors = []
    for what, needed in (("header", headers), ("library", libraries)):
        for path, user in sorted(needed.items()):
            packages = owners.get(path, set())
            if not packages:
                # The loader itself is named without a path and is libc6's.
                if path.startswith("/") or not path.startswith("ld-linux"):
                    errors.append(f"{what} {path}, needed by {user}: belongs to no package")
            elif not packages & reached:
                errors.append(f"{what} {path}, needed by {user}: is of {', '.join(sorted(packages))}, which "
                              "scripts/setup neither installs nor brings along; add it there")
    return errors, len(headers), len(libraries)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path, help="a folder configured for Ninja, and built")
    parser.add_argument("--without", action="append", default=[], metavar="PACKAGE",
                        help="as if scripts/setup did not install it")
    options = parser.parse_args()
    if not pathlib.Path("/var/lib/dpkg/status").exists():
        print("check_packages: skipped: no Debian packages here")
        return SKIPPED
    errors, headers, libraries = check(options.build.resolve(), options.without)
    print("\n".join(errors) if errors else
          f"check_packages: {headers} headers and {libraries} libraries are of packages that scripts/setup installs")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
