"""Jobs one thread of which copies batches to the device for the other."""

import job as truth
from one_rank import OnThread
from job import COMPUTE

LOADER = 60


def loading(ranks=1, layers=6, slower=None, copy_us=700.0, depth=2, reads=True, decode_us=300.0,
            steps=range(1, 10)):
    """The thread copies up to `depth` batches ahead, on a stream that waits until the forward and
    backward passes of the batch whose buffer it reuses are done; the main thread takes batches from a
    queue, and its stream waits for their copies. `reads`: and its CPU for the loss."""
    job = truth.Job(ranks, {"dp": list(range(ranks))})
    for rank in job.ranks:
        # By step: the events of the copy and of the last use; when they were issued.
        rank.copied, rank.used, rank.copy_issued, rank.use_issued = {}, {}, {}, {}

    def load(rank, step):
        with OnThread(rank, 9, rank.use_issued.get(step - depth)):
            rank.spend(decode_us)
            if step - depth in rank.used:
                rank.wait_event(LOADER, rank.used[step - depth])
            with rank.range("aten::to"), rank.range("aten::copy_"):
                rank.launch(LOADER, copy_us, "Memcpy HtoD (Pinned -> Device)", {"bytes": 1 << 22},
                            "cudaMemcpyAsync", "gpu_memcpy")
            rank.copied[step] = rank.record_event(LOADER)
            rank.copy_issued[step] = rank.now

    def one_step(rank, step, factor):
        rank.now = job.graph.add([rank.now, rank.copy_issued[step]])
        rank.wait_event(COMPUTE, rank.copied[step])
        for _ in range(layers):
            job.compute(rank, "aten::linear", 2, 420.0 * factor, "tn")
        rank.thread = 2
        reduced = []
        for layer in range(layers):
            job.compute(rank, "AddmmBackward0", 3, 700.0 * factor, "nt")
            if ranks > 1 and layer % 2 == 1:
                reduced.append(job.all_reduce(rank, "dp", (step, layer), 500.0, wait=False))
        for end in reduced:
            rank.stream_waits(COMPUTE, end)
        rank.thread = 1
        job.compute(rank, "aten::_foreach_add_", 1, 90.0, "sgd")
        rank.used[step] = rank.record_event(COMPUTE)
        rank.use_issued[step] = rank.now
        for ahead in range(1, depth):
            if step + ahead not in rank.copied:
                load(rank, step + ahead)
        if reads:
            rank.read_loss()

    for step in steps:
        for rank in job.ranks:
            if step not in rank.copied:
                load(rank, step)
            with rank.range(f"ProfilerStep#{step}", "user_annotation"):
                one_step(rank, step, (slower or {}).get(rank.number, 1.0))
    return job.solve()
