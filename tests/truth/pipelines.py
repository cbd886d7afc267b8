"""Jobs whose CPU runs ahead of the device over the limits of steps, by events of earlier steps."""

import contextlib
import random

import job as truth
from job import COMPUTE, COPIES, INPUT_DIST

GATHERS, SCATTERS, LOOKUP = 21, 22, 43


def _collective(job, rank, operation, kernel, key, us, stream):
    arguments = truth.communication(operation, 1 << 22, "dp", job.groups["dp"])
    with rank.range(f"c10d::{operation}_"):
        with rank.range("record_param_comms", arguments=arguments):
            launched = rank.launch(stream, None, f"ncclDevKernel_{kernel}(ncclDevKernelArgsStorage)",
                                   arguments, "cudaLaunchKernelExC")
            done = rank.record_event(stream)
    job.rendezvous.setdefault(("dp", key), (us, []))[1].append(launched)
    return done


def fully_sharded(ranks, layers=8, slower=None, gather_us=300.0, scatter_us=400.0,
                  steps=range(1, 10), limit=2):
    """Parameters are gathered ahead, for at most `limit` layers that are not yet done: the CPU waits
    for the event that the compute stream recorded so many layers ago."""
    job = truth.Job(ranks, {"dp": list(range(ranks))})
    freed = [[] for _ in job.ranks]

    def one_layer(rank, key, factor):
        backward = key[1] == "backward"
        with rank.range("FullyShardedDataParallel._pre", "user_annotation"):
            if len(freed[rank.number]) >= limit:
                rank.wait_on_cpu(freed[rank.number][-limit])
            rank.wait_event(COMPUTE, _collective(job, rank, "allgather_base", "AllGather_RING_LL",
                                                 key + ("gather",), gather_us, GATHERS))
        job.compute(rank, "aten::linear", 3, (1700.0 if backward else 900.0) * factor, "tn")
        reduced = None
        if backward:
            with rank.range("FullyShardedDataParallel._post_backward", "user_annotation"):
                rank.wait_event(SCATTERS, rank.record_event(COMPUTE))
                reduced = _collective(job, rank, "reduce_scatter_base", "ReduceScatter_Sum_bf16_RING",
                                      key + ("scatter",), scatter_us, SCATTERS)
        freed[rank.number].append(rank.record_event(COMPUTE))
        return reduced

    for step in steps:
        for rank in job.ranks:
            factor = (slower or {}).get(rank.number, 1.0)
            with rank.range(f"ProfilerStep#{step}", "user_annotation"):
                for direction in ("forward", "backward"):
                    for layer in range(layers):
                        reduced = one_layer(rank, (step, direction, layer), factor)
                rank.wait_event(COMPUTE, reduced)
                with rank.range("Optimizer.step", "user_annotation"):
                    job.compute(rank, "aten::_foreach_add_", 1, 90.0, "sgd")
    return job.solve()


def lookup_ahead(ranks, layers=6, slower=None, exchange_factor=1.0, steps=range(1, 10)):
    """The embeddings of batch i+1 are looked up on a stream of their own, beside the dense part of batch
    i, after the optimizer of batch i-1 (torchrec's TrainPipelineSemiSync)."""
    job = truth.Job(ranks, {"mp": list(range(ranks))})
    pooled_before = [None] * ranks
    updated = [None] * ranks

    def distribute(rank, step):
        with rank.range("## sparse_data_dist ##", "user_annotation"):
            rank.wait_event(INPUT_DIST, rank.record_event(COPIES))
            rank.wait_event(INPUT_DIST, job.exchange(rank, "mp", (step, "lengths"),
                                                     70.0 * exchange_factor, INPUT_DIST))
            with rank.range("aten::tolist"):
                rank.copy_to_host(INPUT_DIST)
            rank.wait_event(INPUT_DIST, job.exchange(rank, "mp", (step, "indices"),
                                                     260.0 * exchange_factor, INPUT_DIST))
            with rank.range("fbgemm::permute_sparse_data"):
                rank.launch(INPUT_DIST, 30.0, "permute_data_kernel")
            return rank.record_event(INPUT_DIST)

    def look_up(rank, step, distributed):
        with rank.range("## start_embedding_lookup ##", "user_annotation"):
            rank.wait_event(LOOKUP, distributed)
            if updated[rank.number] is not None:
                rank.wait_event(LOOKUP, updated[rank.number])
            with rank.range("fbgemm::split_embedding_codegen_lookup"):
                rank.launch(LOOKUP, 800.0, "split_embedding_codegen_forward_kernel")
            rank.wait_event(LOOKUP, job.exchange(rank, "mp", (step, "pooled"),
                                                 330.0 * exchange_factor, LOOKUP))
            return rank.record_event(LOOKUP)

    for step in steps:
        for rank in job.ranks:
            factor = (slower or {}).get(rank.number, 1.0)
            with rank.range(f"ProfilerStep#{step}", "user_annotation"):
                with rank.range("aten::to"), rank.range("aten::copy_"):
                    rank.launch(COPIES, 700.0, "Memcpy HtoD (Pinned -> Device)",
                                {"bytes": 1 << 20}, "cudaMemcpyAsync", "gpu_memcpy")
                pooled = look_up(rank, step, distribute(rank, step))
                with rank.range("## dense ##", "user_annotation"):
                    if pooled_before[rank.number] is not None:
                        rank.wait_event(COMPUTE, pooled_before[rank.number])
                    for _ in range(layers):
                        job.compute(rank, "aten::linear", 2, 420.0 * factor, "tn")
                    for _ in range(layers):
                        job.compute(rank, "AddmmBackward0", 2, 500.0 * factor, "nt")
                pooled_before[rank.number] = pooled
                with rank.range("## optimizer ##", "user_annotation"):
                    job.compute(rank, "aten::_foreach_add_", 1, 90.0, "sgd")
                updated[rank.number] = rank.record_event(COMPUTE)
    return job.solve()


def data_parallel_ahead(ranks, layers=12, slower=None, steps=range(1, 16)):
    """Data-parallel training that reads nothing back: the CPU is as far ahead as the launch queue lets
    it be, and hundreds of kernels are in flight at any time."""
    job = truth.Job(ranks, {"dp": list(range(ranks))})
    for step in steps:
        for rank in job.ranks:
            rank.noise = random.Random(7 + rank.number)  # every step alike
            factor = (slower or {}).get(rank.number, 1.0)
            with rank.range(f"ProfilerStep#{step}", "user_annotation"):
                for _ in range(layers):
                    job.compute(rank, "aten::linear", 10, 2200 * factor, "tn")
                rank.thread = 2
                pending = []
                for layer in range(layers):
                    job.compute(rank, "AddmmBackward0", 20, 4300 * factor, "nt")
                    if layer % 2 == 1:
                        pending.append(job.all_reduce(rank, "dp", (step, layer), 6000.0, wait=False))
                for end in pending:
                    rank.stream_waits(COMPUTE, end)
                rank.thread = 1
                with rank.range("Optimizer.step#SGD.step", "user_annotation"):
                    job.compute(rank, "aten::_foreach_add_", 5, 90.0, "sgd")
    return job.solve()


def decoding(ahead, slower=None, kernels=30, us=60.0, steps=range(1, 12)):
    """Steps of a graph each, whose tokens a side stream copies to pinned memory; the CPU waits for the
    event of the copy `ahead` steps before (asynchronous scheduling)."""
    job = truth.Job(1, {})
    rank = job.ranks[0]
    copied = []
    for step in steps:
        with rank.range(f"ProfilerStep#{step}", "user_annotation"):
            with rank.range("schedule"):
                rank.spend(150.0)
            with rank.range("aten::copy_"):
                rank.launch(COMPUTE, 2.0, "Memcpy HtoD (Pinned -> Device)", {"bytes": 4096},
                            "cudaMemcpyAsync", "gpu_memcpy")
            with rank.range("graph_replay"):
                rank.launch_graph(COMPUTE, f"{truth.GEMM}_graph",
                                  [us * (slower or {}).get(0, 1.0)] * kernels)
            with rank.range("sampler"):
                rank.launch(COMPUTE, 40.0, "softmax_kernel")
            rank.wait_event(COPIES, rank.record_event(COMPUTE))
            with rank.range("aten::to"), rank.range("aten::copy_"):
                rank.launch(COPIES, 3.0, "Memcpy DtoH (Device -> Pinned)", {"bytes": 256},
                            "cudaMemcpyAsync", "gpu_memcpy")
            copied.append(rank.record_event(COPIES))
            if len(copied) > ahead:
                with rank.range("get_output"):
                    rank.wait_on_cpu(copied[-1 - ahead])
    return job.solve()


def staged(ranks, layers=6, slower=None, copy_us=700.0, exchange_factor=1.0, uneven=0.0, names="{}",
           reads=True, first=True, gradients=False, lag=1, loss=True, steps=range(1, 10)):
    """Every stage of a batch's preparation has a stream, on which it waits for the event of the stage
    before, recorded `lag` iterations earlier (torchrec's StagedTrainPipeline). Batches differ by
    `uneven`; `names`: of annotations, none without; `reads`: the CPU reads the lengths that it
    exchanged, `loss`: and the loss; `first`: stages come before the dense part, else between forward and
    backward."""
    job = truth.Job(ranks, {"mp": list(range(ranks)), "ddp": list(range(ranks))})
    for rank in job.ranks:
        rank.done = {}  # (stage, iteration) -> event

    def annotated(rank, name):
        if names is None:
            return contextlib.nullcontext()
        return rank.range(names.format(name), "user_annotation")

    def copy(rank, step, size):
        with rank.range("aten::to"), rank.range("aten::copy_"):
            rank.launch(COPIES, copy_us * size, "Memcpy HtoD (Pinned -> Device)",
                        {"bytes": 1 << 20}, "cudaMemcpyAsync", "gpu_memcpy")

    def distribute(rank, step, size):
        rank.wait_event(INPUT_DIST, job.exchange(rank, "mp", (step, "lengths"),
                                                 70.0 * exchange_factor, INPUT_DIST))
        if reads:
            with rank.range("aten::tolist"):
                rank.copy_to_host(INPUT_DIST)
        rank.wait_event(INPUT_DIST, job.exchange(rank, "mp", (step, "indices"),
                                                 300.0 * exchange_factor, INPUT_DIST))
        with rank.range("fbgemm::permute_sparse_data"):
            rank.launch(INPUT_DIST, 60.0 * size, "permute_data_kernel")

    def look_up(rank, step, size):
        with rank.range("fbgemm::split_embedding_codegen_lookup"):
            rank.launch(LOOKUP, 900.0 * size, "split_embedding_codegen_forward_kernel")

    def stages(rank, step, size):
        for number, (stream, work) in reversed(list(enumerate((
                (COPIES, copy), (INPUT_DIST, distribute), (LOOKUP, look_up))))):
            with annotated(rank, work.__name__):
                before = rank.done.get((number - 1, step - lag))
                if before is not None:
                    rank.wait_event(stream, before)
                work(rank, step, size)
                rank.done[number, step] = rank.record_event(stream)

    def backward(rank, step, factor):
        rank.thread = 2
        reduced = []
        for layer in range(layers):
            job.compute(rank, "AddmmBackward0", 2, 700.0 * factor, "nt")
            if gradients:
                reduced.append(job.all_reduce(rank, "ddp", (step, layer), 300.0 * exchange_factor,
                                              wait=False, stream=truth.DATA_PARALLEL))
        for end in reduced:
            rank.stream_waits(COMPUTE, end)
        rank.thread = 1

    for step in steps:
        for rank in job.ranks:
            size = 1 + uneven * (random.Random(31 * step + rank.number).random() - 0.5)
            factor = (slower or {}).get(rank.number, 1.0) * size
            with rank.range(f"ProfilerStep#{step}", "user_annotation"):
                if first:
                    stages(rank, step, size)
                if (ready := rank.done.get((2, step - lag))) is not None:
                    rank.wait_event(COMPUTE, ready)
                with annotated(rank, "dense"):
                    for _ in range(layers):
                        job.compute(rank, "aten::linear", 2, 420.0 * factor, "tn")
                if not first:
                    stages(rank, step, size)
                backward(rank, step, factor)
                with rank.range("Optimizer.step#SGD.step", "user_annotation"):
                    job.compute(rank, "aten::_foreach_add_", 1, 90.0, "sgd")
                if loss:
                    rank.read_loss()
    return job.solve()
