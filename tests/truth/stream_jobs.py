"""Jobs of several streams, queues and graphs of a rank, and of a pipeline that prefetches its input."""

import random

from events import GEMM, COMPUTE, DATA_PARALLEL, COPIES, INPUT_DIST, AUXILIARY
from recording import Job


def auxiliary(layers, beside=False, factor=1.0, steps=(3, 4)):
    """One rank; each layer is followed by a kernel whose result only the end of the step needs. `beside`:
    on a stream of its own."""
    job = Job(1, {})
    rank = job.ranks[0]
    for step in steps:
        with rank.range(f"ProfilerStep#{step}", "user_annotation"):
            last = None
            for _ in range(layers):
                job.compute(rank, "aten::linear", 2, 300.0, "tn")
                with rank.range("aten::topk"):
                    if beside:
                        rank.waits.setdefault(AUXILIARY, []).append(
                            job.graph.add([rank.last[COMPUTE]], 1.3))
                    last = rank.launch(AUXILIARY if beside else COMPUTE, 180.0 * factor,
                                       "gatherTopK")[1]
            job.compute(rank, "aten::linear", 1, 300.0, "tn")
            with rank.range("aten::item"), rank.range("aten::_local_scalar_dense"):
                _, copied = rank.launch(COMPUTE, 2.0, "Memcpy DtoH (Device -> Pageable)",
                                        {"bytes": 4}, "cudaMemcpyAsync", "gpu_memcpy")
                rank.block("cudaStreamSynchronize", [copied, last])
    return job.solve()


def first_used_late(slower=None, late_us=400.0, idle=False, steps=range(1, 6)):
    """One rank, which copies what it logs on a stream of its own in the last step alone. That begins late,
    by what nothing recorded explains (memory that the driver maps), and holds nothing up for long; `idle`:
    at the begin of the step, where the device does nothing else."""
    job = Job(1, {})
    rank = job.ranks[0]
    factor = (slower or {}).get(0, 1.0)
    for step in steps:
        with rank.range(f"ProfilerStep#{step}", "user_annotation"):
            last = step == steps[-1]
            for layer in range(8):
                if layer > 0 or not (last and idle):
                    job.compute(rank, "aten::linear", 1, 2000.0 * factor, "tn")
                if last and layer == (0 if idle else 1):
                    with rank.range("aten::copy_"):
                        rank.waits.setdefault(COPIES, []).append(job.graph.add([rank.now], late_us))
                        copied = rank.launch(COPIES, 50.0, "Memcpy DtoD (Device -> Device)", {"bytes": 4096},
                                             "cudaMemcpyAsync", "gpu_memcpy")[1]
                    rank.stream_waits(COMPUTE, copied)
            rank.read_loss()
    return job.solve()


def prefetching(ranks, layers=6, slower=None, copy_us=900.0, exchange_factor=1.0, order="late",
                reuse=1, cache=False, gradients=False, throttle=0, uneven=0.0, steps=range(3, 9)):
    """A recommendation model whose pipeline copies batch i+2, distributes the indices of batch i+1 and
    trains on batch i, on a stream each. The event that the distribution waits for is recorded before
    the forward pass; it is issued after it (`order` late) or before it (early: then it waits for what
    the compute stream held at the end of the iteration before). `reuse`: the copy waits until the
    forward pass of so many iterations before has read the buffer; 0: for nothing. `cache`: a fourth
    stream fills a cache of embedding rows for the next forward pass. `gradients`: of the layers, reduced
    beside the backward pass. `throttle`: the CPU waits for the end of so many iterations before.
    `uneven`: by how much the times of one kernel differ. `slower`: rank -> factor of its GEMMs."""
    job = Job(ranks, {"mp": list(range(ranks)), "ddp": list(range(ranks))})
    for rank in job.ranks:
        rank.reads, rank.ends = [], []
        rank.forward_begins, rank.distributed, rank.cached = None, None, None

    def copy_batch(rank):
        with rank.range("## copy_batch_to_gpu ##", "user_annotation"):
            if reuse and len(rank.reads) >= reuse:
                rank.wait_event(COPIES, rank.reads[-reuse])
            for part in (0.7, 0.3):
                with rank.range("aten::to"), rank.range("aten::copy_"):
                    rank.launch(COPIES, copy_us * part, "Memcpy HtoD (Pinned -> Device)",
                                {"bytes": 1 << 20}, "cudaMemcpyAsync", "gpu_memcpy")

    def distribute(rank, step):
        with rank.range("## sparse_data_dist ##", "user_annotation"):
            rank.wait_event(INPUT_DIST, rank.record_event(COPIES))
            if rank.forward_begins is not None:
                rank.wait_event(INPUT_DIST, rank.forward_begins)
            with rank.range("fbgemm::permute_2D_sparse_data"):
                rank.launch(INPUT_DIST, 40.0, "permute_2D_lengths_kernel")
                rank.copy_to_host(INPUT_DIST)
            done = job.exchange(rank, "mp", (step, "lengths"), 70.0 * exchange_factor, INPUT_DIST)
            rank.wait_event(INPUT_DIST, done)
            with rank.range("aten::tolist"):
                rank.copy_to_host(INPUT_DIST)
            rank.distributed = job.exchange(rank, "mp", (step, "indices"), 260.0 * exchange_factor,
                                            INPUT_DIST)

    def fill_cache(rank, factor):
        with rank.range("## prefetch ##", "user_annotation"):
            rank.wait_event(AUXILIARY, rank.forward_begins)
            rank.wait_event(AUXILIARY, rank.record_event(INPUT_DIST))
            with rank.range("fbgemm::lru_cache_populate"):
                rank.launch(AUXILIARY, 800.0 * factor(), f"{GEMM}_tn")
            rank.cached = rank.record_event(AUXILIARY)

    def backward(rank, step, factor):
        rank.thread = 2
        reduced = []
        for layer in range(layers):
            job.compute(rank, "autograd::engine::evaluate_function: AddmmBackward0", 2,
                        900.0 * factor(), "nt")
            if gradients and layer % 2 == 1:
                reduced.append(job.all_reduce(rank, "ddp", (step, layer), 500.0 * exchange_factor,
                                              wait=False, stream=DATA_PARALLEL))
        rank.wait_event(COMPUTE, job.exchange(rank, "mp", (step, "gradients"),
                                              400.0 * exchange_factor, COMPUTE))
        job.compute(rank, "autograd::engine::evaluate_function: EmbeddingBackward", 1,
                    500.0 * factor(), "nt")
        for end in reduced:
            rank.stream_waits(COMPUTE, end)
        rank.thread = 1

    def forward(rank, step, factor):
        with rank.range("## forward ##", "user_annotation"):
            job.compute(rank, "embedding_lookup", 2, 700.0 * factor(), "tn")
            pooled = job.exchange(rank, "mp", (step, "pooled"), 330.0 * exchange_factor, COMPUTE)
            job.compute(rank, "bottom_mlp", 3, 600.0 * factor(), "tn")
            rank.wait_event(COMPUTE, pooled)
            for _ in range(layers):
                job.compute(rank, "aten::linear", 1, 420.0 * factor(), "tn")
        rank.reads.append(rank.record_event(COMPUTE))

    def one_step(rank, step):
        noise = random.Random(1000 * rank.number + step)

        def factor():
            return (slower or {}).get(rank.number, 1.0) * (1 + uneven * (noise.random() - 0.5))

        if throttle and len(rank.ends) >= throttle:
            rank.block("cudaEventSynchronize", [rank.ends[-throttle]])
        with rank.range("## zero_grad ##", "user_annotation"), rank.range("aten::zero_"):
            rank.launch(COMPUTE, 25.0, "vectorized_elementwise_kernel")
        copy_batch(rank)
        with rank.range("## wait_for_batch ##", "user_annotation"):
            if rank.distributed is not None:
                rank.wait_event(INPUT_DIST, rank.distributed)
                with rank.range("fbgemm::permute_sparse_data"):
                    rank.launch(INPUT_DIST, 30.0, "permute_data_kernel")
            rank.wait_event(COMPUTE, rank.record_event(INPUT_DIST))
        if rank.cached is not None:
            rank.wait_event(COMPUTE, rank.cached)
        if order == "early":
            distribute(rank, step)
        rank.forward_begins = rank.record_event(COMPUTE)
        forward(rank, step, factor)
        if order == "late":
            distribute(rank, step)
        if cache:
            fill_cache(rank, factor)
        backward(rank, step, factor)
        with rank.range("## optimizer ##", "user_annotation"):
            job.compute(rank, "aten::_foreach_add_", 1, 90.0, "sgd")
        rank.ends.append(rank.last[COMPUTE])

    for step in steps:
        for rank in job.ranks:
            with rank.range(f"ProfilerStep#{step}", "user_annotation"):
                one_step(rank, step)
    return job.solve()


def run_ahead(steps, kernels, us, factor=1.0, graphs=0):
    """One rank that never waits for its device. Every step does the same, in the same time. `graphs`:
    so many launches of graphs of ten kernels besides."""
    job = Job(1, {})
    rank = job.ranks[0]
    for step in range(steps):
        rank.noise = random.Random(7)
        with rank.range(f"ProfilerStep#{step}", "user_annotation"):
            for _ in range(kernels):
                with rank.range("aten::mm"):
                    rank.launch(COMPUTE, us * factor, f"{GEMM}_tn")
            for _ in range(graphs):
                with rank.range("graph_replay"):
                    rank.launch_graph(COMPUTE, f"{GEMM}_graph", [us * factor] * 10)
    return job.solve()


def two_queues(kernels, slower=None, devices=1, steps=(3, 4)):
    """One rank that fills the queue of one stream, nearly or wholly, and goes on with another's, whose
    result it reads before it issues the longest kernel of all. `devices`: 2: the other stream is of
    another device, and has the same number."""
    job = Job(1, {})
    rank = job.ranks[0]
    factor = (slower or {}).get
    other = AUXILIARY if devices == 1 else (1, COMPUTE)
    for step in steps:
        with rank.range(f"ProfilerStep#{step}", "user_annotation"):
            for _ in range(kernels):
                rank.launch(COMPUTE, 100.0 * factor("gemm", 1.0), f"{GEMM}_tn")
            for _ in range(300):
                rank.launch(other, 3.0, "small_kernel")
            rank.copy_to_host(other)
            _, last = rank.launch(other, 140_000.0 * factor("long", 1.0), "long_kernel")
            rank.block("cudaDeviceSynchronize", [last])
            rank.block("cudaDeviceSynchronize", [rank.last[COMPUTE]])
    return job.solve()


def forked_graphs(launches, factors=None, steps=(0, 1, 2, 3)):
    """One rank that launches graphs of two streams and reads the loss; `factors`: by kernel."""
    job = Job(1, {})
    rank = job.ranks[0]
    for step in steps:
        rank.noise = random.Random(7)
        with rank.range(f"ProfilerStep#{step}", "user_annotation"):
            for _ in range(launches):
                times = {"first": 60.0, "side": 110.0, "beside": 90.0, "last": 40.0}
                times = {k: us * (factors or {}).get(k, 1.0) for k, us in times.items()}
                rank.launch_forked_graph(COMPUTE, COPIES, f"{GEMM}_graph", times)
            rank.read_loss()
    return job.solve()
