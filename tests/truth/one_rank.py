"""Jobs of one rank, of which a side stream or another thread works beside the rest."""

import job as truth
from job import AUXILIARY, COMPUTE, COPIES


def forked_streams(layers=6, slower=None, beside_us=260.0, steps=(3, 4, 5)):
    """One rank, whose side stream is forked before the work of each layer that is issued first, and
    joined at the end of the layer. Its CPU reads the loss."""
    job = truth.Job(1, {})
    rank = job.ranks[0]
    factor = (slower or {}).get(0, 1.0)
    for step in steps:
        with rank.range(f"ProfilerStep#{step}", "user_annotation"):
            for layer in range(layers):
                job.compute(rank, "norm", 1, 40.0, "norm")
                rank.wait_event(AUXILIARY, rank.record_event(COMPUTE))
                job.compute(rank, "attention", 3, 300.0 * factor, "tn")
                job.compute(rank, "mlp", 2, 200.0 * factor, "tn")
                with rank.range("aten::topk"):
                    rank.launch(AUXILIARY, beside_us * (0.7 + 0.2 * layer), "gatherTopK")
                rank.wait_event(COMPUTE, rank.record_event(AUXILIARY))
            rank.read_loss()
    return job.solve()


class OnThread:
    """Calls within are made by another thread, which goes on where it stopped, or after `start`."""

    def __init__(self, rank, thread, start=None):
        self.rank, self.thread, self.start = rank, thread, start
        rank.of_threads = getattr(rank, "of_threads", {})

    def __enter__(self):
        rank = self.rank
        self.other = rank.thread, rank.now
        after = [e for e in (rank.of_threads.get(self.thread), self.start) if e is not None]
        rank.thread, rank.now = self.thread, rank.graph.add(after)

    def __exit__(self, *_):
        self.rank.of_threads[self.thread] = self.rank.now
        self.rank.thread, self.rank.now = self.other


def saving(layers=8, slower=None, save_us=3000.0, shards=4, steps=(3, 4, 5)):
    """One rank that trains while another thread copies a checkpoint to the host, shard by shard, each
    copy of which holds that thread; the checkpoint of a step is of the weights after it."""
    job = truth.Job(1, {})
    rank = job.ranks[0]
    factor = (slower or {}).get(0, 1.0)
    for step in steps:
        with rank.range(f"ProfilerStep#{step}", "user_annotation"):
            for direction, us in (("tn", 500.0), ("nt", 1000.0)):
                for _ in range(layers):
                    job.compute(rank, "aten::linear", 3, us * factor, direction)
            job.compute(rank, "aten::_foreach_add_", 1, 90.0, "sgd")
            rank.read_loss()
            with OnThread(rank, 9, rank.now):
                for _ in range(shards):
                    with rank.range("aten::to"), rank.range("aten::copy_"):
                        _, copied = rank.launch(COPIES, save_us / shards,
                                                "Memcpy DtoH (Device -> Pageable)",
                                                {"bytes": 1 << 24}, "cudaMemcpyAsync", "gpu_memcpy")
                        rank.graph.after[rank.now] += [rank.graph.add([copied], 3.0)]
                        rank.block("cudaStreamSynchronize", [copied])
    return job.solve()
