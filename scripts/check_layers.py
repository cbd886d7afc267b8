#!/usr/bin/env python3
"""Fails when a room includes a header of a room it may not know (table in simulator/README.md), or
when a rule of a room behind the importers reads what a framework calls its calls and kernels."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
ALLOWED = {
    "base": [],
    "trace": ["base"],
    "hardware": ["base"],
    "reconstruct": ["base", "trace", "hardware"],
    "topology": ["base", "hardware"],
    "importers": ["base", "trace", "hardware", "proto"],
    "exporters": ["base", "trace", "reconstruct", "proto"],
    "cost": ["base", "trace", "reconstruct", "hardware", "topology", "proto"],
    "calibrate": ["base", "trace", "hardware", "topology", "cost", "optimise"],
    "optimise": ["base"],
    "network": ["base", "hardware", "topology", "cost"],
    "graph": ["base", "cost:operator/operator.h", "cost:operator/kernel_work.h"],
    "workload": ["base", "graph", "cost:operator/operator.h", "cost:operator/kernel_work.h"],
    "backends": ["base", "graph", "optimise", "workload", "cost:operator/operator.h", "cost:operator/kernel_work.h"],
    "plan": ["base", "trace"],
    "mapping": ["base", "trace", "plan", "workload", "hardware", "topology", "graph", "optimise",
                "cost:operator/kernel_work.h", "cost:operator/element_work.h",
                "cost:collective/expert_exchange.h", "cost:kernel/kernels_beside.h"],
    "engine": ["base", "trace", "reconstruct", "hardware", "topology", "network:network_model.h", "cost:cost_model.h"],
    "report": ["base", "trace", "engine:observer.h",
               "exporters:timeline/timeline_writer.h", "exporters:timeline/trace_event_writer.h"],
    "search": ["base", "graph", "workload", "plan", "mapping", "optimise"],
    "serve": ["base", "graph", "workload", "exporters:timeline/timeline_writer.h",
              "cost:operator/kernel_work.h", "cost:collective/expert_exchange.h"],
    "sharding": ["base", "trace", "reconstruct", "hardware", "topology", "cost",
                 "calibrate:collective/collective_fit.h", "optimise", "network", "engine"],
    "dataflow": ["base", "trace", "hardware", "graph", "optimise", "plan", "mapping:parallel_mapping.h"],
    "architect": ["base", "graph", "workload", "optimise", "search", "cost:operator/operator.h", "cost:operator/kernel_work.h"],
    "capture": ["base", "trace", "workload", "cost:operator/operator.h", "cost:operator/kernel_work.h",
                "cost:operator/trace_operator.h", "backends:operator_view.h", "backends:text_of_sizes.h"],
    "console": ["base", "report:text_table.h"],
    "replay": ["base", "trace", "reconstruct", "hardware", "topology", "importers", "exporters", "cost",
               "network", "engine", "report", "console"],
    "planning": None,  # everything below it
    "cli": ["base", "console"],
    "api": ["base", "console", "replay", "planning", "cli"],
}
# Folders of one room that may not include others of it.
BELOW = {
    "cost/operator": ["cost/kernel", "cost/traced"],
    "cost/kernel": ["cost/traced"],
}
# Rooms whose rules see roles (trace/name_roles.h), not names. They may show names, hash them, and
# look them up in tables; no string that they compare with anything may be a framework's.
ROLES_ALONE = ["reconstruct", "engine"]
FRAMEWORK = re.compile(
    r"nccl|rccl|gloo|c10d|aten::|at::|torch::|autograd|fbgemm|cudnn|cublas|cutlass|miopen|triton|"
    r"profilerstep|record_param_comms|megatron|deepspeed|ncclDevKernel|cuda[A-Z]\w+|hip[A-Z]\w+",
    re.IGNORECASE)
COMPARED = re.compile(r"([=!]=\s*|(find|starts_with|ends_with|[cC]ontains|StartsWith|EndsWith)"
                      r"\((.*,\s*)?)$")
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
INCLUDE = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]')


def allowed(room, folder, header):
    if header.endswith(".pb.h"):
        return "proto" in ALLOWED[room]
    if any(header.startswith(f"simulator/{above}/") for above in BELOW.get(folder, [])):
        return False
    parts = header.split("/")
    if parts[0] != "simulator":
        return True
    target, rest = parts[1], "/".join(parts[2:])
    if target == room:
        return True
    for entry in ALLOWED[room]:
        name, _, only = entry.partition(":")
        if name == target and (not only or only == rest):
            return True
    return False


def names_read(path):
    """(line, text) of strings that are, or may be compared with, a framework's names."""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        code = line.split("//")[0]
        if INCLUDE.match(line):
            continue
        for match in STRING.finditer(code):
            compared = COMPARED.search(code[:match.start()]) or re.match(r"\s*[=!]=",
                                                                        code[match.end():])
            if FRAMEWORK.search(match[1]) or (compared and len(match[1]) > 1):
                yield number, match[1]


def written_table():
    """{room: [allowed]} as simulator/README.md shows it to people."""
    table = {}
    text = (ROOT / "simulator" / "README.md").read_text()
    section = text.partition("## Who may include whom")[2].partition("\n## ")[0]
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|") or len(cells) != 2 or cells[0] in ("Room", "---"):
            continue
        names = None if cells[1] == "everything" else [
            name.strip().replace("/", ":", 1) for name in cells[1].split(",") if name != "nothing"]
        table[cells[0]] = names
    return table


def lost_pointers():
    """Files that simulator/README.md names and that are not there. A name without a folder is of
    one that the row names before."""
    pages = ROOT / "simulator" / "README.md"
    names = {path.name for path in (ROOT / "simulator").rglob("*.*")}
    for name in re.findall(r"`([\w./-]+\.(?:cpp|h|py|yaml|cmake|js))`", pages.read_text()):
        there = any((base / name).exists() for base in (ROOT, ROOT / "simulator"))
        if not there and ("/" in name or name not in names):
            yield name


def shared_temporaries():
    """Tests that choose names in the folder for temporary files themselves: two runs at once, or of two users, would meet there."""
    for path in sorted((ROOT / "tests").rglob("*")):
        if path.suffix not in (".h", ".cpp") or path.name == "temp_folder.h":
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if re.search(r"\bTempDir\(\)|temp_directory_path", line):
                yield f"{path.relative_to(ROOT)}:{number}: names a temporary file; take TempFolder (tests/support/temp_folder.h)"


def main():
    errors = list(shared_temporaries())
    errors += [f"simulator/README.md names {name}, which is not there" for name in lost_pointers()]
    written = written_table()
    for room in sorted(ALLOWED.keys() | written.keys()):
        if room not in written or ALLOWED.get(room, []) != written[room]:
            errors.append(f"simulator/README.md: the row of room '{room}' differs from "
                          "scripts/check_layers.py")
    for path in sorted((ROOT / "simulator").rglob("*")):
        if path.suffix not in (".h", ".cpp"):
            continue
        room = path.relative_to(ROOT / "simulator").parts[0]
        folder = path.parent.relative_to(ROOT / "simulator").as_posix()
        if room in ROLES_ALONE:
            for number, text in names_read(path):
                errors.append(f'{path.relative_to(ROOT)}:{number}: "{text}" is, or is compared with, '
                              "a name; rules of this room read roles (trace/name_roles.h)")
        if room not in ALLOWED:
            errors.append(f"{path.relative_to(ROOT)}: room '{room}' is not in the layer table")
            continue
        if ALLOWED[room] is None:
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            if match and not allowed(room, folder, match.group(1)):
                errors.append(f"{path.relative_to(ROOT)}:{number}: '{folder}' may not include "
                              f"{match.group(1)}")
    print("\n".join(errors) if errors else "layer check: every include is allowed")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
