#!/usr/bin/env python3
"""Writes the Kineto traces of a job of two ranks into the folder `job`, with what is wanted wrong in them.

  job.py [RANK:]KEY=JSON...

KEY is an argument of the collectives' events ("Group size"), or rank., world_size. or pg_config. of
distributedInfo as info.rank; without RANK: the change is made in both ranks.
"""
import json
import pathlib
import sys

import files

RANKS = 2


def trace(rank):
    document = json.loads(files.kineto())
    document["deviceProperties"][0]["name"] = "NVIDIA A100-SXM4-40GB"
    document["distributedInfo"] = {"rank": rank, "world_size": RANKS, "backend": "nccl"}
    for step in range(2):
        begin, correlation = 1000.0 * step, 300 + step
        document["traceEvents"] += [
            {"ph": "X", "name": "cudaLaunchKernel", "cat": "cuda_runtime", "pid": 1, "tid": 1,
             "ts": begin + 62, "dur": 5, "args": {"correlation": correlation}},
            {"ph": "X", "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "cat": "kernel", "pid": 0,
             "tid": 20, "ts": begin + 70, "dur": 90, "args": {
                 "stream": 20, "device": 0, "correlation": correlation, "Collective name": "allreduce",
                 "Process Group Name": "0", "Process Group Ranks": "[0, 1]", "Group size": RANKS,
                 "In msg nelems": 1048576, "Out msg nelems": 1048576, "dtype": "Float"}}]
    return document


def change(document, key, value):
    if key.startswith("info."):
        document["distributedInfo"][key.removeprefix("info.")] = value
        return
    for event in document["traceEvents"]:
        if "Collective name" in event.get("args", {}):
            event["args"][key] = value


def main():
    documents = [trace(rank) for rank in range(RANKS)]
    for word in sys.argv[1:]:
        key, value = word.split("=", 1)
        rank, colon, rest = key.partition(":")
        for document in documents[int(rank):int(rank) + 1] if colon else documents:
            change(document, rest if colon else key, json.loads(value))
    folder = pathlib.Path("job")
    folder.mkdir()
    for rank, document in enumerate(documents):
        (folder / f"rank{rank}.json").write_text(json.dumps(document))


if __name__ == "__main__":
    main()
