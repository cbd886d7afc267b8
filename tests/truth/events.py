"""Events of CPU threads, streams and transfers, and what a profiler would see of a rank's. Nothing here
shares code or formulas with foretrace."""

import gc
import random

# A job is millions of small objects that hold no cycles, which the collector would search over and over.
gc.disable()

GEMM = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5"
SEND_RECV = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
ALL_TO_ALL = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
LAUNCH_QUEUE = 1021  # launches of a stream that wait before a launch call waits for room
# Streams. Those of pairs of ranks, in transfers one by one, lie above PIPELINE.
COMPUTE, TENSOR_PARALLEL, EMBEDDING, DATA_PARALLEL, PIPELINE = 7, 20, 24, 28, 30
COPIES, INPUT_DIST, EXCHANGE = 40, 41, 42  # of a pipeline that prefetches its input
AUXILIARY = 50


class EventGraph:
    """Times in microseconds."""

    def __init__(self):
        self.own, self.after, self.times = [], [], []

    def add(self, after=(), own=0.0):
        self.own.append(own)
        self.after.append(list(after))
        return len(self.own) - 1

    def solve(self):
        waiting = [len(a) for a in self.after]
        following = [[] for _ in self.own]
        for event, after in enumerate(self.after):
            for earlier in after:
                following[earlier].append(event)
        self.times = [0.0] * len(self.own)
        ready = [event for event, count in enumerate(waiting) if count == 0]
        solved = 0
        while ready:
            event = ready.pop()
            solved += 1
            self.times[event] += self.own[event]
            for later in following[event]:
                self.times[later] = max(self.times[later], self.times[event])
                waiting[later] -= 1
                if waiting[later] == 0:
                    ready.append(later)
        assert solved == len(self.own), "the job deadlocks"


class Rank:
    """Issues one rank's calls and device work, and keeps what a profiler would see of them."""

    def __init__(self, graph, number):
        self.graph, self.number = graph, number
        self.now = graph.add(own=1000.0 + 37 * number)
        self.noise = random.Random(100 + number)
        self.started = {}  # by stream, of all launches in order
        self.last, self.waits = {}, {}  # by stream: end of its last kernel, what its next one awaits
        self.correlation = number * 1_000_000
        self.thread = 1
        self.numbers = {}  # of the last collective of each group
        self.rows = []  # begin, end, name, category, thread or stream, arguments
        # From the end of what a stream waits for to the start of what waits, least and most: compute,
        # and kernels that communicate.
        self.compute_follows, self.communication_follows = (1.0, 1.0), (1.0, 1.0)

    def spend(self, us):
        begin = self.now
        self.now = self.graph.add([begin], us * (0.85 + 0.3 * self.noise.random()))
        return begin, self.now

    def range(self, name, category="cpu_op", arguments=None):
        return Range(self, name, category, arguments or {})

    def call(self, name, us, queue=None):
        """`queue`: the stream on which it needs room."""
        self.spend(0.4)
        begin = self.now
        started = self.started.get(queue, ())
        if len(started) >= LAUNCH_QUEUE:
            self.now = self.graph.add([begin, started[-LAUNCH_QUEUE]])
        admitted, end = self.spend(us)
        self.correlation += 1
        self.rows.append((begin, end, name, "cuda_runtime", self.thread,
                          {"correlation": self.correlation}))
        return admitted

    def launch(self, stream, us, name, arguments=None, call="cudaLaunchKernel", category="kernel"):
        """Returns the kernel's start and end; `us` None: the end is what it will be made to await."""
        return self.kernel(self.call(call, 6.0, queue=stream), stream, us, name, arguments, category)

    def launch_graph(self, stream, name, times):
        """One call that issues kernels one after the other."""
        issued = self.call("cudaGraphLaunch", 9.0)
        return [self.kernel(issued, stream, us, name, {"graph id": 1}) for us in times][-1]

    def launch_forked_graph(self, main, side, name, times):
        """One call; on `main` a kernel, then one beside two on `side`, then one that follows both."""
        issued = self.call("cudaGraphLaunch", 9.0)

        def kernel(stream, us, suffix):
            return self.kernel(issued, stream, us, f"{name}_{suffix}", {"graph id": 2})[1]

        def follow(stream, end):
            self.waits.setdefault(stream, []).append(self.graph.add([end], 1.0))

        follow(side, kernel(main, times["first"], "first"))
        for _ in range(2):
            last = kernel(side, times["side"], "side")
        kernel(main, times["beside"], "beside")
        follow(main, last)
        kernel(main, times["last"], "last")

    def kernel(self, issued, stream, us, name, arguments=None, category="kernel"):
        after = [self.graph.add([issued], 7.0)] + self.waits.pop(stream, [])
        if stream in self.last:
            after.append(self.graph.add([self.last[stream]], 1.3))
        start = self.graph.add(after)
        end = self.graph.add([start], us or 0.0)
        self.last[stream] = end
        self.started.setdefault(stream, []).append(start)
        device, number = stream if isinstance(stream, tuple) else (self.number % 8, stream)
        self.rows.append((start, end, name, category, number,
                          {"stream": number, "device": device, "context": 1,
                           # Room for all: foretrace models streams that contend for it, jobs do not.
                           "correlation": self.correlation, "blocks per SM": 1.0,
                           "warps per SM": 8.0, **(arguments or {})}))
        return start, end

    def stream_waits(self, stream, end):
        self.call("cudaStreamWaitEvent", 1.2)
        least, most = self.compute_follows if stream == COMPUTE else self.communication_follows
        us = least + (most - least) * self.noise.random() if most > least else least
        self.waits.setdefault(stream, []).append(self.graph.add([end], us))

    def record_event(self, stream):
        """What `stream` holds by now, for a wait to come."""
        self.call("cudaEventRecord", 1.1)
        end = self.last.get(stream)
        if stream in self.waits:  # for which nothing was issued since: the event comes after them
            end = self.graph.add(self.waits[stream] + ([] if end is None else [end]))
        return {"end": end, "stream": stream, "record": self.correlation}

    def wait_event(self, stream, event):
        self.call("cudaStreamWaitEvent", 1.2)
        self.rows[-1][5]["_wait"] = (stream, event)
        if event["end"] is not None:
            self.waits.setdefault(stream, []).append(self.graph.add([event["end"]], 1.0))

    def copy_to_host(self, stream):
        """`.item()` or `.tolist()` of something on the stream: a pageable copy returns once copied."""
        with self.range("aten::item"), self.range("aten::_local_scalar_dense"):
            _, copied = self.launch(stream, 2.0, "Memcpy DtoH (Device -> Pageable)", {"bytes": 4},
                                    "cudaMemcpyAsync", "gpu_memcpy")
            self.graph.after[self.now] += [self.graph.add([copied], 3.0)]
            self.block("cudaStreamSynchronize", [])

    def after_stream(self, stream, other):
        """Makes `stream` wait for what `other` holds by now."""
        if other in self.last:
            self.call("cudaEventRecord", 1.1)
            self.stream_waits(stream, self.last[other])

    def block(self, call, ends, event=None):
        """A call that returns 3 us after the last of `ends`; `event`: which it names."""
        begin, _ = self.spend(2.0)
        self.graph.after[self.now] += [self.graph.add([end], 3.0) for end in ends]
        self.correlation += 1
        self.rows.append((begin, self.now, call, "cuda_runtime", self.thread,
                          {"correlation": self.correlation}))
        if event is not None:
            self.rows[-1][5]["_wait"] = (-1, event)

    def wait_on_cpu(self, event):
        """cudaEventSynchronize."""
        self.block("cudaEventSynchronize", [] if event["end"] is None else [event["end"]], event)

    def read_loss(self):
        with self.range("aten::item"), self.range("aten::_local_scalar_dense"):
            _, copied = self.launch(COMPUTE, 2.0, "Memcpy DtoH (Device -> Pageable)", {"bytes": 4},
                                    "cudaMemcpyAsync", "gpu_memcpy")
            self.block("cudaStreamSynchronize", [copied])


class Range:
    def __init__(self, rank, name, category, arguments):
        self.rank, self.row = rank, (name, category, rank.thread, arguments)

    def __enter__(self):
        self.begin, _ = self.rank.spend(3.0)
        return self

    def __exit__(self, *_):
        _, end = self.rank.spend(1.5)
        self.rank.rows.append((self.begin, end) + self.row)
