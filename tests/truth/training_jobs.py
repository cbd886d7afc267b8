"""Jobs that train in parallel: pipelines, tensor, data and context parallelism, rooted collectives."""

import random

from events import COMPUTE, EMBEDDING, DATA_PARALLEL, Rank
from recording import Job, communication


def rooted(ranks, rounds, operation, slower=None, steps=(3, 4)):
    """Each round all compute, and rank 1 broadcasts to them, or reduces what they have."""
    job = Job(ranks, {"dp": list(range(ranks))})
    for step in steps:
        for rank in job.ranks:
            noise = random.Random(77 + rank.number)
            with rank.range(f"ProfilerStep#{step}", "user_annotation"):
                for r in range(rounds):
                    us = (500 + 600 * noise.random()) * (slower or {}).get(rank.number, 1.0)
                    job.compute(rank, "block", 3, us, "tn")
                    rank.wait_event(COMPUTE, job.from_or_to_root(rank, "dp", operation, 1, (step, r),
                                                                 70.0))
                rank.read_loss()
    return job.solve()


def fused_and_separate(rounds, slower=None, steps=(3, 4)):
    """Rank 1 sends and receives by one kernel; rank 0 receives by one and sends by the next, on one
    stream."""
    job = Job(2, {"pp": [0, 1]})
    for step in steps:
        for rank in job.ranks:
            noise = random.Random(13 + rank.number)
            with rank.range(f"ProfilerStep#{step}", "user_annotation"):
                for r in range(rounds):
                    us = (600 + 300 * noise.random()) * (slower or {}).get(rank.number, 1.0)
                    job.compute(rank, "block", 3, us, "tn")
                    to, back = ("x", step, r), ("y", step, r)
                    if rank.number == 1:
                        job.send_and_receive(rank, "pp", [("send", 0, to), ("recv", 0, back)], True)
                    else:
                        job.send_and_receive(rank, "pp", [("recv", 1, to)], True)
                        job.compute(rank, "head", 1, 120.0, "tn")
                        job.send_and_receive(rank, "pp", [("send", 1, back)], True)
                rank.read_loss()
    return job.solve()


def pipeline(stages, tensor_parallel, microbatches, batched, slower=None, steps=(3, 4),
             synchronize=False, buffered_us=None):
    """1F1B as Megatron-LM runs it; `slower`: (rank, forward or backward) -> factor of its GEMMs."""
    tp, slower = tensor_parallel, slower or {}
    groups = {f"tp{s}": [s * tp + i for i in range(tp)] for s in range(stages)}
    groups.update({f"pp{i}": [s * tp + i for s in range(stages)] for i in range(tp)})
    job = Job(stages * tp, groups)
    job.buffered_us = buffered_us

    def work(rank, direction, key):
        us = (900 if direction == "forward" else 1800) * slower.get((rank.number, direction), 1.0)
        suffix = "tn" if direction == "forward" else "nt"
        for part, (name, share) in enumerate((("attention", 0.4), ("mlp", 0.6))):
            job.compute(rank, name, 4, us * share, suffix)
            if tp > 1:
                job.all_reduce(rank, f"tp{rank.number // tp}", (direction, part) + key)

    def one_step(rank, step):
        stage, group = rank.number // tp, f"pp{rank.number % tp}"
        before, after = rank.number - tp, rank.number + tp
        warm_up = min(stages - stage - 1, microbatches)

        def exchange(*transfers):
            present = [(kind, peer, (what, step, microbatch))
                       for kind, peer, what, microbatch in transfers
                       if 0 <= peer < stages * tp and microbatch is not None]
            if present:
                job.send_and_receive(rank, group, present, batched, synchronize=synchronize)

        for m in range(warm_up):
            exchange(("recv", before, "activation", m))
            work(rank, "forward", (step, m))
            exchange(("send", after, "activation", m))
        if warm_up < microbatches:
            exchange(("recv", before, "activation", warm_up))
        for m in range(microbatches - warm_up):
            work(rank, "forward", (step, warm_up + m))
            exchange(("send", after, "activation", warm_up + m), ("recv", after, "gradient", m))
            work(rank, "backward", (step, m))
            following = warm_up + m + 1
            exchange(("send", before, "gradient", m),
                     ("recv", before, "activation", following if following < microbatches else None))
        for m in range(microbatches - warm_up, microbatches):
            exchange(("recv", after, "gradient", m))
            work(rank, "backward", (step, m))
            exchange(("send", before, "gradient", m))

    for step in steps:
        for rank in job.ranks:
            with rank.range(f"ProfilerStep#{step}", "user_annotation"):
                one_step(rank, step)
                rank.read_loss()
    return job.solve()


def megatron(layers, microbatches, slower=None, steps=(3,), data_parallel_us=900.0):
    """8 ranks, tensor parallel 2, data parallel 2, pipeline parallel 2 (rank = 4 pp + 2 dp + tp), with
    the latencies of a recording on A800: communication starts 5 to 6 us after what it waits for,
    compute 2 us after a collective. `slower`: rank -> factor of its GEMMs."""
    groups = {f"tp{r}": [r, r + 1] for r in (0, 2, 4, 6)}
    groups.update({f"dp{r}": [r, r + 2] for r in (0, 1, 4, 5)})
    groups.update({f"pp{r}": [r, r + 4] for r in range(4)})
    groups.update({f"embedding{r}": [r, r + 4] for r in range(4)})
    job = Job(8, groups)
    for rank in job.ranks:
        rank.compute_follows, rank.communication_follows = (1.8, 2.2), (5.0, 6.0)

    def one_step(rank, step):
        stage, tensor, replica = rank.number // 4, rank.number - rank.number % 2, rank.number % 4
        data = replica % 2 + 4 * stage
        factor = (slower or {}).get(rank.number, 1.0)
        noise = random.Random(31 * rank.number + step)

        def work(direction, microbatch):
            us, suffix = (160, "tn") if direction == "forward" else (320, "nt")
            for part in range(2 * layers):
                job.compute(rank, "mlp" if part % 2 else "attention", 2,
                            us * factor * (0.97 + 0.06 * noise.random()), suffix)
                job.all_reduce(rank, f"tp{tensor}", (direction, part, step, microbatch), 90.0)

        def exchange(*transfers):
            job.send_and_receive(rank, f"pp{replica}", [
                (kind, rank.number + (4 if stage == 0 else -4), (what, step, microbatch))
                for kind, what, microbatch in transfers], True)

        last = microbatches - 1
        if stage == 0:
            work("forward", 0)
            exchange(("send", "activation", 0))
            for m in range(1, microbatches):
                work("forward", m)
                exchange(("send", "activation", m), ("recv", "gradient", m - 1))
                work("backward", m - 1)
            exchange(("recv", "gradient", last))
            work("backward", last)
        else:
            exchange(("recv", "activation", 0))
            for m in range(microbatches):
                work("forward", m)
                work("backward", m)
                if m < last:
                    exchange(("send", "gradient", m), ("recv", "activation", m + 1))
            exchange(("send", "gradient", last))
        job.all_reduce(rank, f"embedding{replica}", ("embedding", step), 250.0,
                       stream=EMBEDDING)
        job.all_reduce(rank, f"dp{data}", ("gradients", step), data_parallel_us, stream=DATA_PARALLEL)
        job.compute(rank, "Optimizer", 4, 300.0, "adam")

    for step in steps:
        for rank in job.ranks:
            with rank.range(f"ProfilerStep#{step}", "user_annotation"):
                one_step(rank, step)
                rank.read_loss()
    return job.solve()


def ring(ranks, rounds, slower=None, steps=(3, 4), buffered_us=None):
    """Context parallelism: each round a kernel that sends to the next rank and receives from the last."""
    job = Job(ranks, {"cp": list(range(ranks))})
    job.buffered_us = buffered_us
    for step in steps:
        for rank in job.ranks:
            noise = random.Random(5 + rank.number)
            with rank.range(f"ProfilerStep#{step}", "user_annotation"):
                for r in range(rounds):
                    us = (700 + 300 * noise.random()) * (slower or {}).get(rank.number, 1.0)
                    job.compute(rank, "attention", 3, us, "tn")
                    job.send_and_receive(
                        rank, "cp", [("send", (rank.number + 1) % ranks, (step, r)),
                                     ("recv", (rank.number - 1) % ranks, (step, r))], True, 80.0)
                rank.read_loss()
    return job.solve()


def data_parallel(ranks, layers, slower=None, all_reduce_factor=1.0, steps=(3, 4), read_loss=True,
                  between_us=0.0):
    """Backward on its own thread, gradients of two layers reduced while the next are computed. Without
    `read_loss` nothing holds the CPU; `between_us`: what it does from one step's end mark to the next."""
    job = Job(ranks, {"dp": list(range(ranks))})
    for step in steps:
        for rank in job.ranks:
            factor = (slower or {}).get(rank.number, 1.0)
            with rank.range(f"ProfilerStep#{step}", "user_annotation"):
                for _ in range(layers):
                    job.compute(rank, "aten::linear", 2, 220 * factor, "tn")
                rank.thread = 2
                pending = []
                for layer in range(layers):
                    job.compute(rank, "AddmmBackward0", 4, 430 * factor, "nt")
                    if layer % 2 == 1:
                        pending.append(job.all_reduce(rank, "dp", (step, layer),
                                                      600.0 * all_reduce_factor, wait=False))
                for end in pending:
                    rank.stream_waits(COMPUTE, end)
                rank.thread = 1
                with rank.range("Optimizer.step#SGD.step", "user_annotation"):
                    job.compute(rank, "aten::_foreach_add_", 1, 90.0, "sgd")
                if read_loss:
                    rank.read_loss()
            if between_us > 0:
                rank.now = job.graph.add([rank.now], between_us)
    return job.solve()


def bucketed(ranks, buckets, slower=None, steps=(3, 4)):
    """Backward, in which each of `buckets` is reduced as soon as its layers are done: 120 us and 200 us
    a layer of 2 MB."""
    job = Job(ranks, {"dp": list(range(ranks))})
    for step in steps:
        for rank in job.ranks:
            factor = (slower or {}).get(rank.number, 1.0)
            with rank.range(f"ProfilerStep#{step}", "user_annotation"):
                pending = []
                for bucket, layers in enumerate(buckets):
                    for _ in range(layers):
                        job.compute(rank, "AddmmBackward0", 2, 430 * factor, "nt")
                    pending.append(job.all_reduce(rank, "dp", (step, bucket), 120.0 + 200.0 * layers,
                                                  wait=False, elements=layers << 20))
                for end in pending:
                    rank.stream_waits(COMPUTE, end)
                job.compute(rank, "aten::_foreach_add_", 1, 90.0, "sgd")
                rank.read_loss()
    return job.solve()
