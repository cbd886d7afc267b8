#!/usr/bin/env python3
"""Writes into the folder `anonymous` the Kineto traces of a Megatron-like job (tensor, pipeline and data
parallelism of two each) that name no group, partner or rank of communication, each kind of communicator on a
stream of its own as NCCL has it. Ranks differ in pace, so that the ends of collectives tell groups apart."""
import glob
import gzip
import json
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
STREAMS = {"tensor": 30, "data": 31, "recv": 32, "send": 33, "tied": 34}
PACES = [f"rank={rank},name={which}:x{factor}" for rank, which, factor in (
    (1, "forward", 1.07), (2, "forward", 1.13), (3, "backward", 1.11), (5, "forward", 1.09),
    (6, "backward", 1.05), (7, "forward", 1.03))]
NAMING = ("Process Group Name", "Process Group Description", "Process Group Ranks", "Group size", "Src Rank",
          "Dst Rank", "Seq")


def main():
    foretrace = os.environ["FORETRACE"]
    subprocess.run([foretrace, "generate", ROOT / "traces/workloads/gpt-small.yaml", "--platform", "dgx-a100",
                    "--mapping", "tp2 pp2 dp2 mb1 gb8", "--launch-us", "5", "-o", "generated"], check=True)
    edits = [word for pace in PACES for word in ("--what-if", pace)]
    subprocess.run([foretrace, "predict", "generated", "--timeline", "named/", *edits], check=True)
    os.mkdir("anonymous")
    for path in glob.glob("named/*.json.gz"):
        with gzip.open(path) as file:
            document = json.load(file)
        document.pop("foretracePrediction", None)
        document.get("distributedInfo", {}).pop("pg_config", None)
        for event in document["traceEvents"]:
            arguments = event.get("args", {})
            if "Collective name" in arguments and event.get("cat") == "kernel":
                kind = arguments["Process Group Name"].split("_")[0]
                event["tid"] = arguments["stream"] = STREAMS.get(kind) or STREAMS[arguments["Collective name"]]
            for key in NAMING:
                arguments.pop(key, None)
        pathlib.Path("anonymous", pathlib.Path(path).name.removesuffix(".gz")).write_text(json.dumps(document))


if __name__ == "__main__":
    main()
