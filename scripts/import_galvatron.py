#!/usr/bin/env python3
"""Galvatron's hardware profile (sp_time_*.json, ms by MiB) to the neutral CSV.

The GPU is not named in the files; the bus bandwidth of 8 GPUs at 1 GiB (231 GB/s) is that of an
A100 with NVSwitch. The times come from nccl-tests, so 1 MB is 2^20 bytes.
"""
import json
import re
import sys

import import_common as common

OPS = {"allreduce": "all_reduce", "all2all": "all_to_all"}
PLATFORM = "a100-sxm4-nvswitch"


def run(source, output):
    table = common.Table(
        source="https://github.com/PKU-DAIR/Hetu-Galvatron",
        commit="cea12ffb146a220643c8f99f9cb84294755d29f8", licence="Apache-2.0",
        path="galvatron/profile_hardware/hardware_configs",
        command="scripts/import_galvatron.py", interconnect="switch",
        note="GPU inferred from its bus bandwidth; times were in ms")
    for name, text in common.read_tree(source, r"sp_time_1nodes.*\.json$"):
        try:
            times = json.loads(text)
        except ValueError as error:
            common.fail(f"{name}: not JSON ({error})")
        for key, value in times.items():
            match = re.fullmatch(r"(\w+)_size_(\d+)_(\d+)MB_time", key)
            if not match or match.group(1) not in OPS:
                common.fail(f"{name}: unknown key '{key}'")
            op = OPS[match.group(1)]
            table.add("collective", op, PLATFORM, "float32",
                      common.shape(bytes=int(match.group(3)) << 20, ranks=int(match.group(2)),
                                   nodes=1, placement="node", inplace=False),
                      float(value) * 1e3, library="nccl", source="galvatron")
    table.write(output / f"galvatron-{PLATFORM}-collectives.csv")


if __name__ == "__main__":
    sys.exit(common.main(__doc__, run))
