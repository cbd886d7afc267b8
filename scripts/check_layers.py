#!/usr/bin/env python3
"""Fails when a room includes a header of a room it may not know (table in simulator/README.md)."""
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
                "cost:operator/kernel_work.h", "cost:operator/element_work.h"],
    "engine": ["base", "trace", "reconstruct", "hardware", "topology", "network:network_model.h", "cost:cost_model.h"],
    "report": ["base", "trace", "engine:observer.h",
               "exporters:timeline/timeline_writer.h", "exporters:timeline/trace_event_writer.h"],
    "search": ["base", "graph", "workload", "plan", "mapping", "optimise"],
    "serve": ["base", "graph", "workload", "exporters:timeline/timeline_writer.h",
              "cost:operator/kernel_work.h"],
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
INCLUDE = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]')


def allowed(room, header):
    if header.endswith(".pb.h"):
        return "proto" in ALLOWED[room]
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


def main():
    errors = []
    written = written_table()
    for room in sorted(ALLOWED.keys() | written.keys()):
        if room not in written or ALLOWED.get(room, []) != written[room]:
            errors.append(f"simulator/README.md: the row of room '{room}' differs from "
                          "scripts/check_layers.py")
    for path in sorted((ROOT / "simulator").rglob("*")):
        if path.suffix not in (".h", ".cpp"):
            continue
        room = path.relative_to(ROOT / "simulator").parts[0]
        if room not in ALLOWED:
            errors.append(f"{path.relative_to(ROOT)}: room '{room}' is not in the layer table")
            continue
        if ALLOWED[room] is None:
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            if match and not allowed(room, match.group(1)):
                errors.append(f"{path.relative_to(ROOT)}:{number}: room '{room}' may not include "
                              f"{match.group(1)}")
    print("\n".join(errors) if errors else "layer check: every include is allowed")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
