"""Jobs whose timing is known exactly, recorded as Kineto profiles.

A job is a graph of events, each as late as the latest event before it plus its own time, over the CPU
threads, streams and transfers of all ranks. Building it anew with other durations gives what would
have been measured, which a what-if on the profile has to predict. Nothing here shares code or
formulas with foretrace.
"""

import json
import os
import random

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


# What ROCm's profiles call it. One call copies and waits: hipMemcpyWithStream.
HIP = {"cudaLaunchKernel": "hipLaunchKernel", "cudaLaunchKernelExC": "hipExtLaunchKernel",
       "cudaMemcpyAsync": "hipMemcpyAsync", "Memcpy HtoD (Pinned -> Device)": "Memcpy HtoD (Host -> Device)",
       "Memcpy DtoH (Device -> Pinned)": "Memcpy DtoH (Device -> Host)",
       "Memcpy DtoH (Device -> Pageable)": "Memcpy DtoH (Device -> Host)"}
DEVICES = {"nvidia": "NVIDIA A100-SXM4-80GB", "amd": "AMD Instinct MI300X"}


def as_rocm(row):
    begin, end, name, category, thread, arguments = row
    if name.startswith("ncclDevKernel"):
        name = "ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)"
        arguments = {k: v for k, v in arguments.items() if k[0].islower()}
    elif name in HIP:
        name = HIP[name]
    elif name.startswith("cuda"):
        name = "hip" + name[len("cuda"):]
    return begin, end, name, category, thread, arguments


def communication(operation, elements, group, ranks, **more):
    """What PyTorch 2.3 and later record of a collective."""
    return {"Collective name": operation, "dtype": "BFloat16", "In msg nelems": elements,
            "Out msg nelems": elements, "Group size": len(ranks), "Process Group Name": group,
            "Process Group Ranks": str(ranks), "In split size": "[]", "Out split size": "[]", **more}


class Job:
    def __init__(self, ranks, groups):
        self.graph = EventGraph()
        self.ranks = [Rank(self.graph, r) for r in range(ranks)]
        self.groups = {"0": list(range(ranks)), **groups}
        self.rendezvous = {}  # key -> starts, ends and time of kernels that all wait for each other
        self.exchanges = {}  # transfer -> kernels; kernels end when all their transfers can
        self.kernels = []
        self.rooted = {}  # key -> kernel, its time, whether it waits, whether it is the root's
        self.buffered_us = None  # of sends that do not wait for their receivers, if they don't

    def compute(self, rank, name, kernels, us, suffix):
        with rank.range(name):
            for _ in range(kernels):
                with rank.range("aten::mm"):
                    rank.launch(COMPUTE, us / kernels, f"{GEMM}_{suffix}")

    def all_reduce(self, rank, group, key, us=60.0, wait=True, stream=TENSOR_PARALLEL,
                   elements=1 << 20):
        number = rank.numbers[group] = rank.numbers.get(group, 0) + 1
        arguments = communication("allreduce", elements, group, self.groups[group], _Seq=number)
        with rank.range("c10d::allreduce_"):
            with rank.range("record_param_comms", arguments=arguments):
                rank.after_stream(stream, COMPUTE)
                kernel = rank.launch(stream, None, ALL_REDUCE, arguments,
                                     "cudaLaunchKernelExC")
        self.rendezvous.setdefault((group, key), (us, []))[1].append(kernel)
        if wait:
            rank.stream_waits(COMPUTE, kernel[1])
        return kernel[1]

    def exchange(self, rank, group, key, us, stream, own=EXCHANGE, operation="all_to_allv"):
        """Of all with all, issued from `stream` on the communicator's own; returns what its wait()
        awaits."""
        call, kernel_name = {"all_to_allv": ("alltoall_base_", ALL_TO_ALL),
                             "allreduce": ("allreduce_", ALL_REDUCE)}[operation]
        arguments = communication(operation, 1 << 20, group, self.groups[group])
        with rank.range(f"c10d::{call}"):
            with rank.range("record_param_comms", arguments=arguments):
                rank.wait_event(own, rank.record_event(stream))
                kernel = rank.launch(own, None, kernel_name, arguments, "cudaLaunchKernelExC")
                done = rank.record_event(own)
        self.rendezvous.setdefault((group, key), (us, []))[1].append(kernel)
        return done

    def from_or_to_root(self, rank, group, operation, root, key, us, stream=COMPUTE,
                        own=TENSOR_PARALLEL):
        """Issued from `stream` on the communicator's own; returns what its wait() awaits. Of a broadcast
        the root leaves when it likes, of a reduction all but the root do."""
        arguments = communication(operation, 1 << 20, group, self.groups[group],
                                  **{"Root Rank": self.groups[group].index(root)})
        with rank.range(f"c10d::{operation}_"):
            with rank.range("record_param_comms", arguments=arguments):
                rank.wait_event(own, rank.record_event(stream))
                kernel = rank.launch(own, None, f"ncclDevKernel_{operation.title()}_RING",
                                     arguments, "cudaLaunchKernelExC")
                done = rank.record_event(own)
        self.rooted.setdefault((group, key), []).append(
            (kernel, us, (rank.number == root) == (operation == "reduce"), rank.number == root))
        return done

    def exchange_by_list(self, rank, group, transfers, us, stream):
        """`transfers` (send or recv, peer, what) by one kernel issued from `stream`, as
        batch_isend_irecv does; returns what its wait() awaits."""
        with rank.range("nccl:coalesced", "user_annotation"):
            rank.wait_event(EXCHANGE, rank.record_event(stream))
            self._announce(rank, group, transfers)
            keys = [(rank.number, peer, what) if kind == "send" else (peer, rank.number, what)
                    for kind, peer, what in transfers]
            self._kernel(rank, EXCHANGE, keys, {}, us)
            return rank.record_event(EXCHANGE)

    def _describe(self, rank, kind, peer, group):
        ranks = self.groups[group]
        arguments = communication(kind, 1 << 22, group, ranks,
                                  **{"Dst Rank" if kind == "send" else "Src Rank": peer})
        own, other = ranks.index(rank.number), ranks.index(peer)
        arrow = f"{own}->{other}" if kind == "send" else f"{own}<-{other}"
        return arguments, f"nccl:{kind} {arrow}"

    def _announce(self, rank, group, transfers):
        """What is recorded of each transfer of one kernel."""
        for kind, peer, _ in transfers:
            arguments, annotation = self._describe(rank, kind, peer, group)
            with rank.range(f"c10d::{kind}"):
                with rank.range("record_param_comms", arguments=arguments):
                    pass
                with rank.range(annotation, "user_annotation"):
                    pass

    def _kernel(self, rank, stream, keys, arguments, us):
        kernel = rank.launch(stream, None, SEND_RECV, arguments, "cudaLaunchKernelExC")
        self.kernels.append((rank.number, kernel, keys, us))
        for key in keys:
            self.exchanges.setdefault(key, []).append(kernel)
        return kernel

    def send_and_receive(self, rank, group, transfers, batched, us=150.0, synchronize=False):
        """`transfers`: (send or recv, peer, what), as one kernel (batch_isend_irecv) or one each;
        `synchronize`: the CPU then waits for the device, as Megatron-LM does without overlap."""
        def key(kind, peer, what):
            return (rank.number, peer, what) if kind == "send" else (peer, rank.number, what)

        ends = []
        if batched:
            with rank.range("nccl:coalesced", "user_annotation"):
                rank.after_stream(PIPELINE, COMPUTE)
                self._announce(rank, group, transfers)
                ends.append(self._kernel(rank, PIPELINE, [key(*t) for t in transfers], {}, us)[1])
        else:
            # Each pair of ranks has its own stream, on which the lower rank sends first.
            for kind, peer, what in sorted(transfers,
                                           key=lambda t: (t[0] == "send") != (rank.number < t[1])):
                arguments, annotation = self._describe(rank, kind, peer, group)
                stream = PIPELINE + 10 * min(peer, rank.number) + max(peer, rank.number)
                with rank.range(f"c10d::{kind}"):
                    with rank.range("record_param_comms", arguments=arguments):
                        rank.after_stream(stream, COMPUTE)
                        kernel = self._kernel(rank, stream, [key(kind, peer, what)], arguments, us)
                        with rank.range(annotation, "user_annotation"):
                            pass
                ends.append(kernel[1])
        for end in ends:
            rank.stream_waits(COMPUTE, end)
        if synchronize:
            rank.block("cudaDeviceSynchronize", list(rank.last.values()))

    def solve(self):
        for us, kernels in self.rendezvous.values():
            for _, end in kernels:
                self.graph.after[end] += [start for start, _ in kernels]
                self.graph.own[end] = us
        for kernels in self.rooted.values():
            for (start, end), us, waits, is_root in kernels:
                self.graph.own[end] = us
                self.graph.after[end].append(start)
                if waits:  # the root for all, all for the root
                    self.graph.after[end] += [other[0] for other, _, _, other_is_root in kernels
                                              if other_is_root != is_root]
        for number, (start, end), keys, us in self.kernels:
            sends_only = all(key[0] == number for key in keys)
            for key in keys:
                assert len(self.exchanges[key]) == 2, f"transfer {key} lacks an end"
                if self.buffered_us is None or key[0] != number:
                    self.graph.after[end] += [other for other, _ in self.exchanges[key]]
            self.graph.own[end] = self.buffered_us if self.buffered_us and sends_only else us
        self.graph.solve()
        return self

    def step_times(self, step):
        """By rank."""
        times = self.graph.times
        return [times[end] - times[begin] for rank in self.ranks
                for begin, end, name, *_ in rank.rows if name == f"ProfilerStep#{step}"]

    def completions(self, rank=0):
        """When the device work that each step issued is done, in order of steps."""
        times, rows = self.graph.times, self.ranks[rank].rows
        issued = {args["correlation"]: times[begin] for begin, _, _, category, _, args in rows
                  if category == "cuda_runtime"}
        steps = sorted((times[begin], times[end]) for begin, end, name, *_ in rows
                       if name.startswith("ProfilerStep#"))
        return [max([end] + [times[row[1]] for row in rows if row[3] in ("kernel", "gpu_memcpy")
                             and begin <= issued[row[5]["correlation"]] < end])
                for begin, end in steps]

    def period(self, rank=0):
        """In steady state, of a job with enough steps to reach it."""
        done = self.completions(rank)
        return done[-1] - done[-2]

    def kernel_starts(self, rank):
        """Of one rank's kernels, in order of time."""
        return sorted(self.graph.times[row[0]] for row in self.ranks[rank].rows
                      if row[3] == "kernel")

    def write(self, folder, clocks=lambda rank: 0.0, metadata="all", events="recorded",
              recorded=None, in_flight=False, vendor="nvidia"):
        """One profile a rank. `metadata` of communication: all, numbered (and its sequence numbers),
        annotations, none. `events`: their records are calls without arguments (recorded), are left
        out (absent), or waits name them, as newer profilers write it (named). `recorded`: the first
        and last step that a rank's profile holds; `in_flight`: and the device work issued before
        that began later, whose launch it does not hold; a step and a fraction: from, or until, amid it.
        `vendor` amd: calls, copies and kernels as profiles of ROCm name them, which hold no records of
        events and say of communication only what the CPU's ranges do."""
        os.makedirs(folder, exist_ok=True)
        for rank in self.ranks:
            rows = [row for row in rank.rows if events != "absent" or row[2] != "cudaEventRecord"]
            if events == "named":
                rows += self._named_waits(rank)
            if recorded is not None:
                rows = self._within(rank, rows, *recorded(rank.number), in_flight)
            if vendor == "amd":
                rows = [as_rocm(row) for row in rows if row[2] != "cudaEventRecord"]
            rows = [self._event(rank, row, clocks(rank.number), metadata) for row in rows]
            info = {"backend": "nccl", "rank": rank.number, "world_size": len(self.ranks)}
            if metadata in ("all", "numbered"):
                info["pg_config"] = [
                    {"pg_name": name, "pg_desc": name, "backend_config": "cuda:nccl",
                     "pg_size": len(ranks), "ranks": ranks}
                    for name, ranks in self.groups.items() if rank.number in ranks]
            with open(os.path.join(folder, f"rank{rank.number}.json"), "w") as file:
                json.dump({"schemaVersion": 1, "distributedInfo": info,
                           "deviceProperties": [{"id": rank.number % 8, "numSms": 108,
                                                 "name": DEVICES[vendor]}],
                           "traceEvents": [e for e in rows if e is not None]}, file)

    def _within(self, rank, rows, first, last, in_flight):
        """Rows of those steps and of what they issued."""
        times = self.graph.times
        marks = {name: (times[begin], times[end]) for begin, end, name, *_ in rank.rows
                 if name.startswith("ProfilerStep#")}
        def amid(step):
            since, until = marks[f"ProfilerStep#{int(step)}"]
            return since + (step - int(step)) * (until - since)

        begin = amid(first)
        end = amid(last) if last != int(last) else marks[f"ProfilerStep#{last}"][1]
        kept = {args["correlation"] for b, _, _, category, _, args in rank.rows
                if category == "cuda_runtime" and begin <= times[b] < end}
        if in_flight:
            kept_work = {args["correlation"] for b, _, _, category, _, args in rank.rows
                         if category in ("kernel", "gpu_memcpy") and begin <= times[b]
                         and args["correlation"] <= min(kept)}
            rows = [row for row in rows if row[3] in ("kernel", "gpu_memcpy")
                    or row[5].get("correlation") not in kept_work - kept]
            kept = kept | kept_work
        return [row for row in rows if (row[5]["correlation"] in kept if "correlation" in row[5]
                                        else begin <= times[row[0]] < end)]

    @staticmethod
    def _named_waits(rank):
        rows = []
        for begin, end, name, _, _, arguments in rank.rows:
            if "_wait" not in arguments:
                continue
            stream, event = arguments["_wait"]
            kind = "Event Sync" if stream < 0 else "Stream Wait Event"
            rows.append((begin, end, kind, "cuda_sync", stream,
                         {"stream": stream, "correlation": arguments["correlation"],
                          "device": rank.number % 8,
                          "wait_on_stream": event["stream"], "wait_on_cuda_event_id": 1,
                          "wait_on_cuda_event_record_corr_id": event["record"]}))
        return rows

    def _event(self, rank, row, clock, metadata):
        begin, end, name, category, thread, arguments = row
        if metadata == "numbered" and "_Seq" in arguments:
            arguments = {**arguments, "Seq": arguments["_Seq"]}
        arguments = {k: v for k, v in arguments.items() if k[0] != "_"}
        if metadata == "none" and (name == "record_param_comms" or name.startswith("nccl:")):
            return None
        if metadata not in ("all", "numbered"):
            arguments = {k: v for k, v in arguments.items() if k[0].islower()}
        # Rounded alike, or what is nested would end after what it is nested in.
        start, done = (round(1e9 + clock + self.graph.times[event], 3) for event in (begin, end))
        return {"ph": "X", "cat": category, "name": name, "args": arguments,
                "pid": 0 if "stream" in arguments else 5000 + rank.number, "tid": thread,
                "ts": start, "dur": round(done - start, 3)}


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


def data_parallel(ranks, layers, slower=None, all_reduce_factor=1.0, steps=(3, 4)):
    """Backward on its own thread, gradients of two layers reduced while the next are computed."""
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
                rank.read_loss()
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
