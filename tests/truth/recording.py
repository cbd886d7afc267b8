"""Jobs of several ranks, solved and written as Kineto profiles. Nothing here shares code or formulas
with foretrace."""

import json
import os

from events import (GEMM, SEND_RECV, ALL_REDUCE, ALL_TO_ALL, COMPUTE, TENSOR_PARALLEL, PIPELINE,
                    EXCHANGE, EventGraph, Rank)


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

    def periods(self, step):
        """By rank: from the completion of the step before to the step's own."""
        first = min(int(name.split("#")[1]) for _, _, name, *_ in self.ranks[0].rows if name.startswith("ProfilerStep#"))
        done = [self.completions(rank.number) for rank in self.ranks]
        return [of_rank[step - first] - of_rank[step - first - 1] for of_rank in done]

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
                # `dumps` is the encoder in C; `dump` takes five times as long.
                file.write(json.dumps({"schemaVersion": 1, "distributedInfo": info,
                                       "deviceProperties": [{"id": rank.number % 8, "numSms": 108,
                                                             "name": DEVICES[vendor]}],
                                       "traceEvents": [e for e in rows if e is not None]}))

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
            earliest = min(kept)
            kept_work = {args["correlation"] for b, _, _, category, _, args in rank.rows
                         if category in ("kernel", "gpu_memcpy") and begin <= times[b]
                         and args["correlation"] <= earliest}
            unlaunched = kept_work - kept
            rows = [row for row in rows if row[3] in ("kernel", "gpu_memcpy")
                    or row[5].get("correlation") not in unlaunched]
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
