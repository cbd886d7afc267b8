"""Jobs of which each combines several things that others of these tests try alone."""

import random

import job as truth
from job import COMPUTE, COPIES, DATA_PARALLEL, PIPELINE

COPY_IN, GATHERS, SCATTERS = 20, 21, 22


def collective(job, rank, group, operation, kernel, key, us, stream, elements=1 << 20):
    """Issued on `stream`; returns the event of its end."""
    arguments = truth.communication(operation, elements, group, job.groups[group])
    with rank.range(f"c10d::{operation}_"):
        with rank.range("record_param_comms", arguments=arguments):
            launched = rank.launch(stream, None, f"ncclDevKernel_{kernel}(ncclDevKernelArgsStorage)",
                                   arguments, "cudaLaunchKernelExC")
            done = rank.record_event(stream)
    job.rendezvous.setdefault((group, key), (us, []))[1].append(launched)
    return done


def distributed_optimizer(ranks, layers=8, slower=None, gather_us=700.0, scatter_us=500.0,
                          steps=range(3, 8)):
    """Gradients are scattered beside the backward pass; parameters are gathered after the optimizer,
    and the forward pass of the next step waits for those of each layer (Megatron-LM's overlap of
    parameter gathers)."""
    job = truth.Job(ranks, {"dp": list(range(ranks))})
    gathered = [[] for _ in job.ranks]
    for step in steps:
        for rank in job.ranks:
            factor = (slower or {}).get(rank.number, 1.0)
            with rank.range(f"ProfilerStep#{step}", "user_annotation"):
                for layer in range(layers):
                    if gathered[rank.number] and layer % 2 == 0:
                        rank.wait_event(COMPUTE, gathered[rank.number].pop(0))
                    job.compute(rank, "aten::linear", 3, 600.0 * factor, "tn")
                rank.thread = 2
                last = None
                for layer in range(layers):
                    job.compute(rank, "AddmmBackward0", 4, 1200.0 * factor, "nt")
                    if layer % 2 == 1:
                        rank.wait_event(SCATTERS, rank.record_event(COMPUTE))
                        last = collective(job, rank, "dp", "reduce_scatter_base",
                                          "ReduceScatter_Sum_bf16_RING", (step, layer, "scatter"),
                                          scatter_us, SCATTERS)
                rank.thread = 1
                rank.wait_event(COMPUTE, last)
                with rank.range("Optimizer.step#FusedAdam.step", "user_annotation"):
                    job.compute(rank, "multi_tensor_adam", 2, 200.0, "sgd")
                rank.wait_event(GATHERS, rank.record_event(COMPUTE))
                for layer in range(0, layers, 2):
                    gathered[rank.number].append(
                        collective(job, rank, "dp", "allgather_base", "AllGather_RING_LL",
                                   (step, layer, "gather"), gather_us, GATHERS))
    return job.solve()


def sharded_parameters(ranks, layers=8, slower=None, gather_us=500.0, scatter_us=600.0,
                       reduce_us=300.0, replicas=1, read_loss=False, steps=range(3, 8)):
    """FSDP2: parameters are copied in on one stream, gathered on another one layer ahead, copied out by
    the compute stream; an event of the copy before holds back the next. Gradients are scattered on a
    stream of their own and, with `replicas`, reduced on one more."""
    size = ranks // replicas
    groups = {f"shard{i}": [i * size + r for r in range(size)] for i in range(replicas)}
    groups.update({f"replica{r}": [i * size + r for i in range(replicas)] for r in range(size)})
    job = truth.Job(ranks, groups)

    def gather(rank, key, copied_out):
        shard = f"shard{rank.number // size}"
        with rank.range("FSDP::pre_forward", "user_annotation"):
            if copied_out is not None:
                rank.wait_event(COPY_IN, copied_out)
            with rank.range("fsdp::all_gather_copy_in"):
                rank.launch(COPY_IN, 25.0, "cat_copy_kernel")
            rank.wait_event(GATHERS, rank.record_event(COPY_IN))
            return collective(job, rank, shard, "allgather_base", "AllGather_RING_LL", key,
                              gather_us, GATHERS)

    def scatter(rank, key):
        shard = f"shard{rank.number // size}"
        with rank.range("FSDP::post_backward_reduce", "user_annotation"):
            with rank.range("fsdp::chunk_cat"):
                rank.launch(COMPUTE, 20.0, "chunk_cat_kernel")
            rank.wait_event(SCATTERS, rank.record_event(COMPUTE))
            done = collective(job, rank, shard, "reduce_scatter_base",
                              "ReduceScatter_Sum_bf16_RING", key + ("scatter",), scatter_us, SCATTERS)
            if replicas > 1:
                rank.wait_event(DATA_PARALLEL, done)
                done = collective(job, rank, f"replica{rank.number % size}", "allreduce",
                                  "AllReduce_Sum_bf16_RING_LL", key + ("reduce",), reduce_us,
                                  DATA_PARALLEL)
            return done

    for step in steps:
        for rank in job.ranks:
            factor = (slower or {}).get(rank.number, 1.0)
            with rank.range(f"ProfilerStep#{step}", "user_annotation"):
                order = [("forward", x) for x in range(layers)]
                order += [("backward", x) for x in reversed(range(layers))]
                gathered, copied_out, reduced = None, None, []
                for at, (direction, layer) in enumerate(order):
                    if gathered is None:
                        gathered = gather(rank, (step, at), copied_out)
                    with rank.range("FSDP::all_gather_copy_out", "user_annotation"):
                        rank.wait_event(COMPUTE, gathered)
                        with rank.range("fsdp::split_with_sizes_copy"):
                            rank.launch(COMPUTE, 30.0, "split_with_sizes_copy_kernel")
                        copied_out = rank.record_event(COMPUTE)
                    gathered = (gather(rank, (step, at + 1), copied_out)
                                if at + 1 < len(order) else None)
                    backward = direction == "backward"
                    job.compute(rank, "AddmmBackward0" if backward else "aten::linear", 3,
                                (1500.0 if backward else 800.0) * factor, "nt" if backward else "tn")
                    if backward:
                        reduced.append(scatter(rank, (step, at)))
                rank.wait_event(COMPUTE, reduced[-1])
                with rank.range("Optimizer.step#AdamW.step", "user_annotation"):
                    job.compute(rank, "aten::_fused_adamw_", 2, 150.0, "sgd")
                if read_loss:
                    rank.read_loss()
    return job.solve()


def ring_attention(ranks, layers=4, slower=None, transfer_us=350.0, buffered_us=None,
                   batched=True, steps=(3, 4)):
    """Keys and values travel around while attention is done on those that are there."""
    job = truth.Job(ranks, {"cp": list(range(ranks))})
    job.buffered_us = buffered_us
    after, before = (lambda r: (r + 1) % ranks), (lambda r: (r - 1) % ranks)

    def rotate(rank, key):
        transfers = [("send", after(rank.number), key), ("recv", before(rank.number), key)]
        with rank.range("nccl:coalesced", "user_annotation"):
            rank.after_stream(PIPELINE, COMPUTE)
            for kind, peer, _ in transfers:
                arguments, annotation = job._describe(rank, kind, peer, "cp")
                with rank.range(f"c10d::{kind}"):
                    with rank.range("record_param_comms", arguments=arguments):
                        pass
                    with rank.range(annotation, "user_annotation"):
                        pass
            keys = [(rank.number, after(rank.number), key), (before(rank.number), rank.number, key)]
            return job._kernel(rank, PIPELINE, keys, {}, transfer_us)[1]

    for step in steps:
        for rank in job.ranks:
            noise = random.Random(5 + rank.number)
            with rank.range(f"ProfilerStep#{step}", "user_annotation"):
                for layer in range(layers):
                    job.compute(rank, "aten::linear", 2, 150.0, "qkv")
                    for r in range(ranks):
                        moved = rotate(rank, (step, layer, r)) if r + 1 < ranks else None
                        us = (300 + 200 * noise.random()) * (slower or {}).get(rank.number, 1.0)
                        job.compute(rank, "attention", 2, us, "tn")
                        if moved is not None:
                            rank.stream_waits(COMPUTE, moved)
                rank.read_loss()
    return job.solve()


def experts(ranks, layers=4, slower=None, exchange_us=300.0, read_splits=True, steps=range(3, 7)):
    """Tokens are sent to experts and back beside a shared expert; the CPU reads how many."""
    job = truth.Job(ranks, {"ep": list(range(ranks)), "dp": list(range(ranks))})

    def layer_of(rank, key, factor, suffix):
        with rank.range("router"):
            job.compute(rank, "aten::topk", 1, 30.0, "router")
            splits = job.exchange(rank, "ep", key + ("splits",), 40.0, COMPUTE)
            rank.wait_event(COMPUTE, splits)
            if read_splits:
                rank.copy_to_host(COMPUTE)
        there = job.exchange(rank, "ep", key + ("dispatch",), exchange_us, COMPUTE)
        job.compute(rank, "shared_expert", 2, 250.0 * factor, suffix)
        rank.wait_event(COMPUTE, there)
        job.compute(rank, "experts", 3, 700.0 * factor, suffix)
        back = job.exchange(rank, "ep", key + ("combine",), exchange_us, COMPUTE)
        rank.wait_event(COMPUTE, back)
        job.compute(rank, "aten::linear", 2, 400.0 * factor, suffix)

    for step in steps:
        for rank in job.ranks:
            noise = random.Random(1000 * rank.number + step)
            with rank.range(f"ProfilerStep#{step}", "user_annotation"):
                for direction, suffix in (("forward", "tn"), ("backward", "nt")):
                    rank.thread = 1 if direction == "forward" else 2
                    for layer in range(layers):
                        factor = (slower or {}).get(rank.number, 1.0) * (0.8 + 0.4 * noise.random())
                        layer_of(rank, (step, direction, layer), factor, suffix)
                rank.thread = 1
                done = job.all_reduce(rank, "dp", (step, "gradients"), 800.0, stream=DATA_PARALLEL)
                del done
                job.compute(rank, "aten::_foreach_add_", 1, 90.0, "sgd")
    return job.solve()


def tensor_parallel_decoding(ranks, ahead, slower=None, layers=6, us=55.0, reduce_us=14.0,
                             prefill_every=0, steps=range(1, 12)):
    """Steps of a graph each, in which every layer ends with an all-reduce; tokens are copied to pinned
    memory by a side stream, and awaited `ahead` steps later. `prefill_every`: so often a step without a
    graph comes first."""
    job = truth.Job(ranks, {"tp": list(range(ranks))})
    copied = [[] for _ in job.ranks]
    for step in steps:
        for rank in job.ranks:
            factor = (slower or {}).get(rank.number, 1.0)
            with rank.range(f"ProfilerStep#{step}", "user_annotation"):
                with rank.range("schedule"):
                    rank.spend(150.0)
                with rank.range("aten::copy_"):
                    rank.launch(COMPUTE, 2.0, "Memcpy HtoD (Pinned -> Device)", {"bytes": 4096},
                                "cudaMemcpyAsync", "gpu_memcpy")
                if prefill_every and step % prefill_every == 0:
                    for layer in range(layers):
                        job.compute(rank, "aten::linear", 3, 6 * us * factor, "tn")
                        job.all_reduce(rank, "tp", (step, "prefill", layer), 4 * reduce_us,
                                       stream=COMPUTE)
                with rank.range("graph_replay"):
                    issued = rank.call("cudaGraphLaunch", 9.0)
                    for layer in range(layers):
                        for part in (0.4, 0.6):
                            rank.kernel(issued, COMPUTE, 2 * us * part * factor,
                                        f"{truth.GEMM}_graph", {"graph id": 1})
                        reduced = rank.kernel(issued, COMPUTE, None, truth.ALL_REDUCE, {"graph id": 1})
                        job.rendezvous.setdefault(("tp", (step, layer)), (reduce_us, []))[1].append(
                            reduced)
                with rank.range("sampler"):
                    rank.launch(COMPUTE, 40.0, "softmax_kernel")
                rank.wait_event(COPIES, rank.record_event(COMPUTE))
                with rank.range("aten::to"), rank.range("aten::copy_"):
                    rank.launch(COPIES, 3.0, "Memcpy DtoH (Device -> Pinned)", {"bytes": 256},
                                "cudaMemcpyAsync", "gpu_memcpy")
                copied[rank.number].append(rank.record_event(COPIES))
                if len(copied[rank.number]) > ahead:
                    with rank.range("get_output"):
                        rank.wait_on_cpu(copied[rank.number][-1 - ahead])
    return job.solve()


def interleaved(stages, chunks, microbatches, slower=None, transfer_us=150.0, buffered_us=None,
                steps=(3, 4)):
    """Megatron-LM's interleaved 1F1B with batched transfers, each kernel of which does all that a rank
    sends and receives between two passes."""
    job = truth.Job(stages, {"pp": list(range(stages))})
    job.buffered_us = buffered_us
    total = chunks * microbatches

    def place(i, forward):
        """Chunk and micro-batch of the i-th pass."""
        group, within = divmod(i, stages * chunks)
        chunk = within // stages
        return (chunk if forward else chunks - 1 - chunk), group * stages + within % stages

    def work(rank, i, forward, step):
        chunk, microbatch = place(i, forward)
        factor = (slower or {}).get(rank.number, 1.0)
        noise = random.Random(f"{rank.number} {step} {i} {forward}")
        job.compute(rank, "forward" if forward else "backward", 3,
                    (500.0 if forward else 1000.0) * factor * (0.9 + 0.2 * noise.random()),
                    "tn" if forward else "nt")
        return chunk, microbatch

    def sent(rank, chunk, microbatch, forward, step):
        """The transfer of what a pass made, or none at the ends."""
        if forward:
            if rank == stages - 1 and chunk == chunks - 1:
                return None
            return (rank + 1) % stages, ("activation", step, microbatch,
                                         chunk + (rank == stages - 1))
        if rank == 0 and chunk == 0:
            return None
        return (rank - 1) % stages, ("gradient", step, microbatch, chunk - (rank == 0))

    def received(rank, i, forward, step):
        if not 0 <= i < total:
            return None
        chunk, microbatch = place(i, forward)
        if forward:
            if rank == 0 and chunk == 0:
                return None
            return (rank - 1) % stages, ("activation", step, microbatch, chunk)
        if rank == stages - 1 and chunk == chunks - 1:
            return None
        return (rank + 1) % stages, ("gradient", step, microbatch, chunk)

    def one_step(rank, step):
        r = rank.number
        warm_up = min((stages - r - 1) * 2 + (chunks - 1) * stages, total)

        def exchange(sends, receives):
            transfers = [("send",) + s for s in sends if s] + [("recv",) + x for x in receives if x]
            if transfers:
                job.send_and_receive(rank, "pp", transfers, True, transfer_us)

        exchange([], [received(r, 0, True, step)])
        for i in range(warm_up):
            made = sent(r, *work(rank, i, True, step), True, step)
            incoming = [received(r, i + 1, True, step)]
            if i == warm_up - 1:
                incoming.append(received(r, 0, False, step))
            exchange([made], incoming)
        for i in range(total - warm_up):
            forward = sent(r, *work(rank, warm_up + i, True, step), True, step)
            backward = sent(r, *work(rank, i, False, step), False, step)
            exchange([forward, backward], [received(r, warm_up + i + 1, True, step),
                                           received(r, i + 1, False, step)])
        for i in range(total - warm_up, total):
            made = sent(r, *work(rank, i, False, step), False, step)
            exchange([made], [received(r, i + 1, False, step)])

    for step in steps:
        for rank in job.ranks:
            with rank.range(f"ProfilerStep#{step}", "user_annotation"):
                one_step(rank, step)
                rank.read_loss()
    return job.solve()


def accumulating(ranks, layers=6, batches=3, slower=None, all_reduce_us=900.0, steps=(3, 4, 5)):
    """Gradients of several batches are added up; those of the last are reduced beside its backward
    pass. Inputs are copied from pinned memory by a stream of their own, one batch ahead."""
    job = truth.Job(ranks, {"dp": list(range(ranks))})
    copied = [None] * ranks
    read = [None] * ranks

    def copy(rank):
        if read[rank.number] is not None:
            rank.wait_event(COPIES, read[rank.number])
        with rank.range("aten::to"), rank.range("aten::copy_"):
            rank.launch(COPIES, 600.0, "Memcpy HtoD (Pinned -> Device)", {"bytes": 1 << 20},
                        "cudaMemcpyAsync", "gpu_memcpy")
        copied[rank.number] = rank.record_event(COPIES)

    for step in steps:
        for rank in job.ranks:
            factor = (slower or {}).get(rank.number, 1.0)
            with rank.range(f"ProfilerStep#{step}", "user_annotation"):
                for batch in range(batches):
                    if copied[rank.number] is None:
                        copy(rank)
                    rank.wait_event(COMPUTE, copied[rank.number])
                    job.compute(rank, "embedding", 1, 100.0, "embedding")
                    read[rank.number] = rank.record_event(COMPUTE)
                    copy(rank)
                    for _ in range(layers):
                        job.compute(rank, "aten::linear", 2, 300.0 * factor, "tn")
                    rank.thread = 2
                    pending = []
                    for layer in range(layers):
                        job.compute(rank, "AddmmBackward0", 3, 600.0 * factor, "nt")
                        if batch == batches - 1 and layer % 2 == 1:
                            pending.append(job.all_reduce(rank, "dp", (step, layer), all_reduce_us,
                                                          wait=False))
                    for end in pending:
                        rank.stream_waits(COMPUTE, end)
                    rank.thread = 1
                job.compute(rank, "aten::_foreach_add_", 1, 90.0, "sgd")
                rank.read_loss()
    return job.solve()


def one_way(batches=10, slower=None, buffered_us=None, ahead_us=1000.0, steps=(3, 4, 5)):
    """Inference by two stages: the second is always there first."""
    job = truth.Job(2, {"pp": [0, 1]})
    job.buffered_us = buffered_us
    for step in steps:
        for rank in job.ranks:
            factor = (slower or {}).get(rank.number, 1.0)
            with rank.range(f"ProfilerStep#{step}", "user_annotation"):
                for batch in range(batches):
                    if rank.number == 1:
                        job.send_and_receive(rank, "pp", [("recv", 0, (step, batch))], False)
                    job.compute(rank, "aten::linear", 3,
                                (ahead_us if rank.number == 0 else 500.0) * factor, "tn")
                    if rank.number == 0:
                        job.send_and_receive(rank, "pp", [("send", 1, (step, batch))], False)
                rank.read_loss()
    return job.solve()
