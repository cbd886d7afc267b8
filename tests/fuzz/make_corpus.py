#!/usr/bin/env python3
"""Writes the seed corpus of the fuzz targets: FOLDER/kineto/*, FOLDER/pytorch_et/*,
FOLDER/chakra/*, FOLDER/chakra_json/*, FOLDER/pipeline/*, FOLDER/store/*.

The seeds are small documents written here, one for each feature the importers know, and small jobs of
known timing (tests/truth). With FORETRACE_REALDATA also public recordings of under 100 kB.
"""
import gzip
import json
import os
import pathlib
import random
import sys
import tempfile

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path += [str(TESTS.parent / "scripts"), str(TESTS / "truth")]
import job as truth  # noqa: E402
import pipelines  # noqa: E402
from generate_sample import simulate  # noqa: E402
from sample_encoding import (attribute, delimited, encode_rank, field_bytes, field_int,  # noqa: E402
                             packed)


def event(category, name, tid, start, duration, **args):
    return {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": tid, "ts": start,
            "dur": duration, "args": args}


def launch(correlation, kernel, start, **args):
    return [event("cuda_runtime", "cudaLaunchKernel", 9, start, 2, correlation=correlation),
            event("kernel", kernel, 7, start + 5, 3, stream=7, device=0, correlation=correlation,
                  **args)]


def kineto():
    nccl = {"Collective name": "all_to_allv", "In msg nelems": 12, "Out msg nelems": 8,
            "Group size": 2, "dtype": "Half", "In split size": "[4, 8]",
            "Out split size": "[6, 2]", "Process Group Name": "ep", "Process Group Ranks": "[1, 3]",
            "Seq": 17}
    info = {"rank": 1, "world_size": 4,
            "pg_config": [{"pg_name": "0", "pg_size": 4, "ranks": [0, 1, 2, 3]},
                          {"pg_name": "7", "pg_size": 2, "ranks": "[1, 3]"}]}
    yield "launch", {"traceEvents": [
        event("user_annotation", "ProfilerStep#3", 9, 0, 100),
        event("cpu_op", "aten::add", 9, 1.25, 9.5, **{
            "External id": 1, "Record function id": 2, "Input Dims": [[2, 3], [], [[4], [5, 6]]],
            "Input type": ["float", "Scalar", "TensorList"], "Concrete Inputs": ["", "1", ""]}),
        *launch(7, "add_kernel", 3)]}
    yield "collective", {"distributedInfo": info, "traceEvents": [
        event("cpu_op", "c10d::alltoall_base_", 9, 1, 20, **{
            "Input Dims": [[10], [6]], "Input type": ["float", "float"]}),
        event("cpu_op", "record_param_comms", 9, 1, 18, **nccl),
        event("user_annotation", "nccl:all_to_all", 9, 2, 15, **{
            "Input Dims": [[6]], "Input type": ["float"]}),
        *launch(8, "ncclDevKernel_SendRecv(ncclDevComm*)", 4, **nccl)]}
    yield "pipeline", {"traceEvents": [
        event("user_annotation", "nccl:send 0->1", 9, 1, 2, **{
            "Input Dims": [[6]], "Input type": ["float"]}),
        event("user_annotation", "nccl:recv 0<-1", 9, 4, 2, **{
            "Input Dims": [[8]], "Input type": ["float"]}),
        *launch(9, "ncclDevKernel_SendRecv(ncclDevComm*)", 8)]}
    yield "sync", {"baseTimeNanoseconds": 1735632360000000000,
                   "deviceProperties": [{"id": 0, "name": "GPU"}], "traceEvents": [
        event("cuda_runtime", "cudaStreamWaitEvent", 9, 1, 1, correlation=4),
        event("cuda_sync", "Stream Wait Event", 24, 1, 1, wait_on_stream=20, stream=24,
              wait_on_cuda_event_record_corr_id=3, wait_on_cuda_event_id=19, correlation=4)]}
    yield "old", {"traceEvents": [
        event("Operator", "ProfilerStep#5", "25738", 1, 90),
        event("Runtime", "cudaMemcpyAsync", "25738", 2, 3, correlation=4),
        event("Memcpy", "Memcpy HtoD (Pageable -> Device)", "stream 7", 4, 1, correlation=4,
              bytes=1024)]}
    yield "metadata", {"traceEvents": [
        {"ph": "M", "name": "thread_name", "pid": 5000, "tid": 9, "ts": 0,
         "args": {"name": "thread 9 (main)"}},
        event("cpu_op", "aten::\u00e9\U0001f600", 9, "1.5e3", 2)]}


def node(number, parent, name, inputs=(), outputs=(), schema="", scope=0):
    return {"name": name, "id": number, "rf_id": number, "parent": parent, "scope": scope,
            "tid": 1, "op_schema": schema, "inputs": list(inputs), "input_shapes": [[8]],
            "input_types": ["Tensor(float)"], "outputs": list(outputs), "output_shapes": [[8]],
            "output_types": ["Tensor(float)"]}


def nested(flat):
    return {"id": flat["id"], "name": flat["name"], "ctrl_deps": flat["parent"],
            "inputs": {"values": flat["inputs"], "shapes": flat["input_shapes"],
                       "types": flat["input_types"]},
            "outputs": {"values": flat["outputs"], "shapes": flat["output_shapes"],
                        "types": flat["output_types"]},
            "attrs": [{"name": key, "type": "int64", "value": flat[key]}
                      for key in ("rf_id", "scope", "tid")]}


def pytorch_et():
    first, second = [1, 1, 0, 8, 4, "cuda:0"], [2, 2, 0, 8, 4, "cuda:0"]
    nodes = [
        node(3, 2, "## process_group:init ##", [json.dumps(
            [{"pg_name": "0", "ranks": [], "group_size": 2}])], scope=7),
        node(10, 2, "aten::randn", [], [first]),
        node(11, 10, "aten::empty", [], [first]),
        node(12, 2, "aten::add_", [first, second], [first],
             "aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)"),
        node(13, 2, "c10d::alltoall_base_", [second, first, "<Object>", [4, 4], [4, 4], -1]),
        node(14, 13, "record_param_comms",
             [first, 152, ["0", "dp"], 0, "all_to_allv", [4, 4], [4, 4]], [second]),
        node(15, 2, "record_param_comms", [152, 0, 0, "wait", [], []]),
        node(16, 2, "c10d::allreduce_", [[first, second], "<Object>"], [[first, second]])]
    yield "flat", {"schema": "1.0.1", "pid": 1, "nodes": nodes}
    yield "nested", {"schema": "1.1.0-chakra.0.0.4", "nodes": [nested(n) for n in nodes]}


def chakra():
    """Files of the current schema, of v0.0.1 and v0.0.2, and of this project's own attributes."""
    metadata = field_bytes(1, b"0.0.4")
    attributes = [attribute("is_cpu_op", 27, 0), attribute("comm_type", 9, 6),
                  attribute("comm_size", 13, 4096), attribute("pg_name", 29, "1"),
                  attribute("involved_dim", 28, field_bytes(1, b"\x01\x00"))]
    collective = (field_int(1, 4) + field_bytes(2, b"all_to_all") + field_int(3, 7)
                  + packed(5, [3]) + b"".join(field_bytes(10, a) for a in attributes))
    kernel = (field_int(1, 3) + field_bytes(2, b"gemm") + field_int(3, 4) + packed(4, [2])
              + field_int(6, 1000) + field_int(7, 12)
              + field_bytes(10, attribute("stream", 9, 7))
              + field_bytes(10, attribute("num_ops", 3, b"")))
    groups = json.dumps([{"pg_name": "1", "ranks": [0, 1]}])
    group = (field_int(1, 2) + field_bytes(2, b"## process_group:init ##") + field_int(3, 1)
             + field_bytes(8, field_bytes(1, groups.encode())))
    yield "current", b"".join(map(delimited, (metadata, group, kernel, collective)))
    flat = (field_int(1, 1) + field_bytes(2, b"n") + field_int(3, 6) + field_int(4, 0)
            + field_int(13, 2) + field_int(15, 1) + field_int(18, 64))
    yield "v001", delimited(flat)
    integer = field_bytes(1, b"comm_size") + field_int(2, 1) + field_int(5, 64)
    yield "v002", delimited(field_int(1, 1) + field_bytes(2, b"n") + field_int(3, 6)
                            + field_bytes(11, integer))
    rank = next(iter(simulate(1, 1, 1)))
    yield "own", encode_rank(rank)


def chakra_json():
    """Graphs as Chakra's feeder takes them beside .et files, in both spellings."""
    nodes = [{"Id": 2, "Name": "gemm", "NodeType": 4, "data_deps": [], "runtime": 12, "is_cpu_op": False,
              "num_ops": 10, "tensor_size": 64},
             {"id": 3, "name": "all_reduce", "type": 7, "data_deps": [2], "ctrl_deps": [2], "comm_type": 0,
              "comm_size": 4096, "pg_name": "1", "involved_dim": [True, False], "is_cpu_op": False},
             {"Id": 4, "Name": "send", "NodeType": 5, "data_deps": [3], "comm_src": 0, "comm_dst": 1,
              "comm_tag": 1, "comm_size": 512}]
    yield "graph", {"workload_graph": nodes}
    yield "empty", {"workload_graph": []}


def jobs():
    """Name, and the profiles of all ranks."""
    small = range(1, 5)
    built = {
        "rooted": truth.rooted(2, 3, "broadcast"),
        "fused": truth.fused_and_separate(2),
        "pipeline": truth.pipeline(2, 1, 2, batched=False),
        "batched": truth.pipeline(2, 2, 2, batched=True),
        "megatron": truth.megatron(1, 2),
        "ring": truth.ring(3, 2, buffered_us=30.0),
        "ddp": truth.data_parallel(2, 4),
        "buckets": truth.bucketed(2, (1, 2, 1)),
        "auxiliary": truth.auxiliary(2, beside=True),
        "prefetching": truth.prefetching(2, layers=2, gradients=True, cache=True, steps=range(3, 7)),
        "ahead": truth.run_ahead(3, 40, 90.0, graphs=1),
        "graphs": truth.forked_graphs(2),
        "sharded": pipelines.fully_sharded(2, layers=2),
        "lookup": pipelines.lookup_ahead(2, layers=2, steps=small),
        "ddp_ahead": pipelines.data_parallel_ahead(2, layers=2, steps=small),
        "decoding": pipelines.decoding(True, kernels=5, steps=small),
    }
    ways = ({}, {"metadata": "annotations"}, {"metadata": "none", "events": "absent"},
            {"events": "named"}, {"clocks": lambda rank: 300.0 * rank},
            {"in_flight": True})
    for at, (name, job) in enumerate(built.items()):
        marks = [row[2] for row in job.ranks[0].rows if row[2].startswith("ProfilerStep#")]
        steps = [int(mark.split("#")[1]) for mark in marks]
        for way in (ways[0], ways[1 + at % 5]):
            if "in_flight" in way:
                way["recorded"] = lambda _, steps=steps: (steps[len(steps) > 1], steps[-1])
            with tempfile.TemporaryDirectory() as folder:
                job.write(folder, **way)
                yield (f"{name}_{ways.index(way)}",
                       [path.read_bytes() for path in sorted(pathlib.Path(folder).iterdir())])


def recordings():
    """Profiles and execution traces among the public data, each as a job of one rank."""
    root = os.environ.get("FORETRACE_REALDATA", "")
    if not os.path.isdir(root):
        print("make_corpus: no public data: FORETRACE_REALDATA names no folder", file=sys.stderr)
        return
    for path in sorted(pathlib.Path(root).rglob("*.json.gz")):
        if path.stat().st_size < 100_000 and ("hta-traces" in path.parts or "traces" in path.parts):
            yield path.name.split(".")[0], gzip.decompress(path.read_bytes())


def as_lines(document):
    """An event a line, which is what mutations take out and repeat."""
    return document.replace(b"}, {", b"},\n{")


def store():
    """Bytes that decide programs (tests/support/random_store.h): long ones and short ones."""
    for seed in range(40):
        source = random.Random(seed)
        yield f"seed{seed}", source.randbytes(60 + 40 * seed)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    corpus = pathlib.Path(sys.argv[1])

    def write(target, name, content):
        (corpus / target).mkdir(parents=True, exist_ok=True)
        (corpus / target / name).write_bytes(content)

    for name, seeds in (("kineto", kineto()), ("pytorch_et", pytorch_et()),
                        ("chakra_json", chakra_json())):
        for seed, document in seeds:
            write(name, f"{seed}.json", json.dumps(document).encode())
    for seed, document in kineto():  # as two ranks
        rank = as_lines(json.dumps(document).encode())
        write("pipeline", f"{seed}.json", b"\0" + rank + b"\0" + rank)
    for at, (seed, ranks) in enumerate(jobs()):
        options = bytes(1 + (7 * at + k) % 255 for k in range(8))  # one that decides nothing else
        for form, first in (("plain", b""), ("changed", options)):
            write("pipeline", f"{seed}_{form}.json", b"\0".join([first, *map(as_lines, ranks)]))
    for seed, content in recordings():
        write("pipeline", seed, b"\0" + as_lines(content))
    for seed, content in chakra():
        write("chakra", f"{seed}.et", content)
    for seed, content in store():
        write("store", seed, content)


if __name__ == "__main__":
    main()
