#!/usr/bin/env python3
"""Generates synthetic traces of DLRM-like training: one Chakra .et file per rank.

No measurement is behind these files: a small forward simulation in this script (CPU overheads,
streams, events, rendezvous of collectives, noise from a seeded generator) makes the times, so that
recorded collectives contain waiting as real ones do. Every file is marked synthetic. Same
arguments, same bytes.

The model: data-parallel MLPs and table-parallel embeddings, as in DLRM. Per iteration: copies of
the inputs, bottom MLP, embedding lookup, all-to-all, interaction, top MLP, loss; backward on the
autograd thread with the all-to-all of embedding gradients and two DDP all-reduces that overlap it;
optimizer; a blocking read of the loss. Tables differ in number and size between ranks.

The files use the attributes of docs/format.md. Needs Python 3 only.
"""
import argparse
import os
import random
import sys

from sample_encoding import (CPU_OP, RUNTIME, KERNEL, MEMCPY, COLLECTIVE, ANNOTATION, LAUNCH,
                             MEMCPY_ASYNC, STREAM_SYNC, EVENT_RECORD, WAIT_EVENT, HTOD_PINNED,
                             DTOH_PAGEABLE, ALL_REDUCE, ALL_TO_ALL, FLOAT32, INT64, MAIN,
                             AUTOGRAD, COMPUTE, COMM, US, Row, encode_rank)

BATCH, DIM = 1024, 64  # samples per rank, columns of every table
BOTTOM = [13, 512, 256, 64]
TOP = [479, 1024, 512, 1]
FLOPS, BANDWIDTH = 9e12, 700e9  # a V100's, as kernels reach them


class Tables:
    """Which embedding tables each rank holds: how many, and rows looked up per sample in each."""

    def __init__(self, ranks, seed):
        draw = random.Random(seed)
        self.pooling = [[draw.choice((4, 8, 16, 32)) for _ in range(draw.choice((1, 2, 2, 3)))]
                        for _ in range(ranks)]


class Rank:
    """Simulates one rank's program; a generator that yields at each collective with its arrival
    time and is sent the time at which it ends."""

    def __init__(self, rank, ranks, tables, seed):
        self.rank, self.ranks, self.tables = rank, ranks, tables
        self.random = random.Random(seed * 1000 + rank)
        self.rows, self.iterations = [], []
        self.now = int(self.random.random() * 400 * US)  # ranks start at different times
        self.thread = MAIN
        self.free = {COMPUTE: 0, COMM: 0}       # when the stream's last work ends
        self.not_before = {COMPUTE: 0, COMM: 0}  # events that the stream was told to wait for
        self.recorded = {}                       # event -> (time it fires, call)
        self.stack = []
        self.correlation = 0
        self.events = 0
        self.tensor = 100 + rank * 1_000_000
        self.producer = {}
        self.sequence = 0

    def noise(self, us, spread=0.05):
        return int(us * US * (1 + spread * (2 * self.random.random() - 1)))

    def row(self, kind, detail, name, duration=0, lane=None, start=None, source_id=0):
        parent = self.stack[-1] if self.stack and lane is None else None
        row = Row(kind, detail, self.thread if lane is None else lane, name,
                  self.now if start is None else start, duration, parent, source_id)
        self.rows.append(row)
        return row

    def begin(self, name, kind=CPU_OP):
        self.now += self.noise(2.5, 0.4)  # between ops
        row = self.row(kind, 0, name)
        self.stack.append(row)
        self.now += self.noise(3.0, 0.3)  # before its first call
        return row

    def end(self):
        self.now += self.noise(2.0, 0.3)
        row = self.stack.pop()
        row.duration = self.now - row.start

    def new_tensor(self):
        self.tensor += 1
        return self.tensor

    def arguments(self, op, inputs, outputs):
        """(tensor id, dims, dtype) of an op; data dependencies follow from the ids."""
        for is_output, arguments in ((0, inputs), (1, outputs)):
            for tensor, dims, dtype in arguments:
                op.tensors += [tensor, tensor, dtype, is_output, len(dims), *dims]
        for tensor, _, _ in inputs:
            producer = self.producer.get(tensor)
            if producer is not None and producer is not op and producer not in op.data:
                op.data.append(producer)
        for tensor, _, _ in outputs:
            self.producer[tensor] = op

    def call(self, detail, name, us):
        self.correlation += 1
        row = self.row(RUNTIME, detail, name, self.noise(us, 0.3), source_id=self.correlation)
        return row

    def device(self, call, kind, detail, lane, name, start, duration):
        row = self.row(kind, detail, name, duration, lane, start, call.source_id)
        row.launcher = call
        self.free[lane] = start + duration
        return row

    def earliest(self, call, lane):
        issue = call.start + call.duration + self.noise(2.2, 0.1)
        return max(issue, self.free[lane] + self.noise(1.2, 0.1), self.not_before[lane])

    def launch(self, name, us, kind=KERNEL, detail=0, call=(LAUNCH, "cudaLaunchKernel")):
        row = self.call(call[0], call[1], 4.5)
        self.now += row.duration + self.noise(1.0, 0.3)
        return self.device(row, kind, detail, COMPUTE, name, self.earliest(row, COMPUTE),
                           self.noise(us))

    def op(self, name, kernels, inputs=(), outputs=()):
        op = self.begin(name)
        for kernel, us in kernels:
            self.launch(kernel, us)
        self.end()
        self.arguments(op, inputs, outputs)

    def record(self, stream):
        call = self.call(EVENT_RECORD, "cudaEventRecord", 1.0)
        self.now += call.duration
        self.events += 1
        call.sync = [self.events, stream + 1, -1, 0]
        fires = max(self.free[stream], self.not_before[stream], call.start + call.duration)
        self.recorded[self.events] = (fires, call, stream)
        return self.events

    def wait(self, stream, event):
        call = self.call(WAIT_EVENT, "cudaStreamWaitEvent", 1.0)
        self.now += call.duration
        fires, record, recorded_on = self.recorded[event]
        call.sync = [event, stream + 1, record.source_id, recorded_on + 1]
        self.not_before[stream] = max(self.not_before[stream], fires + self.noise(1.5, 0.1))

    def collective(self, op, op_name, kernel, in_splits, out_splits, tensors):
        """Issues it on the communication stream; the event that it ends with."""
        row = self.begin(op_name)
        self.arguments(row, *tensors)
        self.wait(COMM, self.record(COMPUTE))
        call = self.call(LAUNCH, "cudaLaunchKernel", 5.5)
        self.now += call.duration
        arrival = self.earliest(call, COMM)
        finish = yield op, arrival, max(sum(in_splits), sum(out_splits))
        node = self.device(call, COLLECTIVE, op, COMM, kernel, arrival, finish - arrival)
        splits = (in_splits, out_splits) if op == ALL_TO_ALL else ([], [])
        node.comm = ([sum(in_splits), sum(out_splits), -1, 0, FLOAT32, self.ranks, self.sequence],
                     *splits)
        self.sequence += 1
        done = self.record(COMM)
        self.end()
        return done

    # --- the model ---

    def gemm_us(self, m, n, k):
        return 3.0 + max(2.0 * m * n * k / FLOPS, 4.0 * (m * k + k * n + m * n) / BANDWIDTH) * 1e6

    def memory_us(self, size):
        return 2.0 + size / BANDWIDTH * 1e6

    def mlp_forward(self, sizes, x):
        saved = []
        for fan_in, fan_out in zip(sizes, sizes[1:]):
            y = self.new_tensor()
            self.op("aten::addmm", [("volta_sgemm_128x64_tn", self.gemm_us(BATCH, fan_out, fan_in)),
                                    ("relu_kernel", self.memory_us(BATCH * fan_out * 8))],
                    [(x, (BATCH, fan_in), FLOAT32)], [(y, (BATCH, fan_out), FLOAT32)])
            saved.append((fan_in, fan_out))
            x = y
        return x, saved

    def mlp_backward(self, saved, gradient):
        for fan_in, fan_out in reversed(saved):
            out = self.new_tensor()
            self.op("AddmmBackward0",
                    [("volta_sgemm_128x64_nn", self.gemm_us(BATCH, fan_in, fan_out)),
                     ("volta_sgemm_128x64_nt", self.gemm_us(fan_in, fan_out, BATCH))],
                    [(gradient, (BATCH, fan_out), FLOAT32)], [(out, (BATCH, fan_in), FLOAT32)])
            gradient = out
        return gradient

    def embedding(self, name, kernel, scale, inputs, outputs):
        pooling = self.tables.pooling[self.rank]
        batch = BATCH * self.ranks
        self.op(name, [(kernel, scale * self.memory_us(batch * (rows + 1) * DIM * 4))
                       for rows in pooling], inputs, outputs)

    def iteration(self, number):
        mark = self.begin("ProfilerStep#%d" % number, ANNOTATION)
        self.iterations.append((number, mark))
        mine = len(self.tables.pooling[self.rank])
        counts = [len(p) for p in self.tables.pooling]
        block = BATCH * DIM * 4
        sent = [mine * block] * self.ranks
        received = [count * block for count in counts]
        dense, lookups, pooled, gathered = (self.new_tensor() for _ in range(4))
        everything = (BATCH, sum(counts) * DIM)

        for tensor, dims, dtype in ((dense, (BATCH, BOTTOM[0]), FLOAT32),
                                    (lookups, (BATCH * self.ranks, mine), INT64)):
            op = self.begin("aten::to")
            self.launch("Memcpy HtoD (Pinned -> Device)",
                        2 + dims[0] * dims[1] * 8 / 12e9 * 1e6, MEMCPY, HTOD_PINNED,
                        (MEMCPY_ASYNC, "cudaMemcpyAsync"))
            self.end()
            self.arguments(op, [], [(tensor, dims, dtype)])
        self.embedding("aten::embedding_bag", "embedding_bag_kernel", 1.0,
                       [(lookups, (BATCH * self.ranks, mine), INT64)],
                       [(pooled, (BATCH * self.ranks, mine * DIM), FLOAT32)])
        exchanged = yield from self.collective(
            ALL_TO_ALL, "c10d::alltoall_base_", "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t",
            sent, received, ([(pooled, (BATCH * self.ranks, mine * DIM), FLOAT32)],
                             [(gathered, everything, FLOAT32)]))
        bottom, bottom_saved = self.mlp_forward(BOTTOM, dense)
        self.wait(COMPUTE, exchanged)
        features = self.new_tensor()
        self.op("aten::bmm", [("cat_kernel", self.memory_us(BATCH * (sum(counts) + 1) * DIM * 8)),
                              ("volta_sgemm_32x32_sliced", 14.0)],
                [(bottom, (BATCH, DIM), FLOAT32), (gathered, everything, FLOAT32)],
                [(features, (BATCH, TOP[0]), FLOAT32)])
        top, top_saved = self.mlp_forward(TOP, features)
        loss = self.new_tensor()
        self.op("aten::binary_cross_entropy", [("bce_kernel", 4.0)],
                [(top, (BATCH, 1), FLOAT32)], [(loss, (), FLOAT32)])
        yield from self.backward(loss, top_saved, bottom_saved, sent, received)
        self.op("Optimizer.step#SGD.step", [("multi_tensor_apply_kernel", 22.0)])
        self.begin("aten::item")
        self.read_loss()
        self.end()
        self.end()

    def backward(self, loss, top_saved, bottom_saved, sent, received):
        main_stack, self.stack = self.stack, []
        self.now += self.noise(12.0)  # hand-over to the autograd thread
        self.thread = AUTOGRAD
        grad, exchanged_grad, sparse_grad = (self.new_tensor() for _ in range(3))
        self.op("BinaryCrossEntropyBackward0", [("bce_backward_kernel", 4.0)],
                [(loss, (), FLOAT32)], [(grad, (BATCH, 1), FLOAT32)])
        features = self.mlp_backward(top_saved, grad)
        weights = sum(a * b + b for a, b in top_saved) * 4
        reduced = [(yield from self.all_reduce(weights))]
        interaction = self.new_tensor()
        self.op("BmmBackward0", [("volta_sgemm_32x32_sliced", 24.0), ("split_kernel", 12.0)],
                [(features, (BATCH, TOP[0]), FLOAT32)], [(interaction, (BATCH, DIM), FLOAT32)])
        exchanged = yield from self.collective(
            ALL_TO_ALL, "c10d::alltoall_base_", "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t",
            received, sent, ([(interaction, (BATCH, DIM), FLOAT32)],
                             [(exchanged_grad, (BATCH * self.ranks, DIM), FLOAT32)]))
        self.mlp_backward(bottom_saved, interaction)
        reduced.append((yield from self.all_reduce(sum(a * b + b for a, b in bottom_saved) * 4)))
        self.wait(COMPUTE, exchanged)
        self.embedding("EmbeddingBagBackward0", "embedding_bag_backward_kernel", 2.2,
                       [(exchanged_grad, (BATCH * self.ranks, DIM), FLOAT32)],
                       [(sparse_grad, (BATCH * self.ranks, DIM), FLOAT32)])
        for event in reduced:
            self.wait(COMPUTE, event)
        self.now += self.noise(12.0)
        self.thread, self.stack = MAIN, main_stack

    def all_reduce(self, size):
        bucket = self.new_tensor()
        arguments = [(bucket, (size // 4,), FLOAT32)]
        return (yield from self.collective(
            ALL_REDUCE, "c10d::allreduce_", "ncclKernel_AllReduce_RING_LL_Sum_float", [size],
            [size], (arguments, arguments)))

    def read_loss(self):
        """A copy to pageable memory holds the CPU until it is done."""
        copy = self.call(MEMCPY_ASYNC, "cudaMemcpyAsync", 5.0)
        node = self.device(copy, MEMCPY, DTOH_PAGEABLE, COMPUTE, "Memcpy DtoH (Device -> Pageable)",
                           self.earliest(copy, COMPUTE), self.noise(2.0))
        copy.duration = max(copy.duration, node.start + node.duration + self.noise(6.0)
                            - copy.start)
        self.now += copy.duration
        sync = self.call(STREAM_SYNC, "cudaStreamSynchronize", 2.0)
        sync.sync = [-1, COMPUTE + 1, -1, 0]
        self.now += sync.duration

    def program(self, iterations):
        for number in range(iterations):
            yield from self.iteration(number)


# --- the job --------------------------------------------------------------------------------------

def collective_ps(op, size, ranks):
    """Intrinsic duration: latency and bandwidth of eight V100 with NVLink, roughly."""
    if op == ALL_TO_ALL:
        return int((25 + size / 18e9 * 1e6) * US)
    return int((30 + 2 * (ranks - 1) / ranks * size / 55e9 * 1e6) * US)


def simulate(ranks, iterations, seed):
    tables = Tables(ranks, seed)
    job = [Rank(rank, ranks, tables, seed) for rank in range(ranks)]
    noise = random.Random(seed + 1)
    programs = [rank.program(iterations) for rank in job]
    arrivals = [next(program) for program in programs]
    while arrivals:
        op = arrivals[0][0]
        assert all(arrival[0] == op for arrival in arrivals), "ranks disagree on a collective"
        duration = collective_ps(op, max(arrival[2] for arrival in arrivals), ranks)
        end = max(arrival[1] for arrival in arrivals) + int(duration * (1 + 0.05 * noise.random()))
        following = []
        for program in programs:
            try:
                following.append(program.send(end))
            except StopIteration:
                pass
        arrivals = following
    return job


def write_rank(rank, path):
    content = encode_rank(rank)
    partial = path + ".tmp"
    with open(partial, "wb") as out:
        out.write(content)
    os.replace(partial, path)
    return len(rank.rows), len(content)


def main():
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--iterations", type=int, default=3)
    parser.add_argument("--nodes", type=int, default=0,
                        help="as many iterations as give about this many nodes over all ranks")
    parser.add_argument("--seed", type=int, default=2)
    parser.add_argument("--output", default=os.path.join(root, "traces", "samples", "dlrm_8rank"))
    parser.add_argument("--prefix", default="dlrm")
    arguments = parser.parse_args()
    if arguments.ranks < 1 or arguments.iterations < 1:
        parser.error("--ranks and --iterations must be at least 1")
    iterations = arguments.iterations
    if arguments.nodes:
        one = sum(len(rank.rows) for rank in simulate(arguments.ranks, 1, arguments.seed))
        iterations = max(1, round(arguments.nodes / one))
    os.makedirs(arguments.output, exist_ok=True)
    nodes = size = 0
    for rank in simulate(arguments.ranks, iterations, arguments.seed):
        path = os.path.join(arguments.output, "%s.%d.et" % (arguments.prefix, rank.rank))
        rows, written = write_rank(rank, path)
        nodes, size = nodes + rows, size + written
    print("%d ranks, %d iterations, %d nodes, %d bytes in %s"
          % (arguments.ranks, iterations, nodes, size, arguments.output), file=sys.stderr)


if __name__ == "__main__":
    main()
