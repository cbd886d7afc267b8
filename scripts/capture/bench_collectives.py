#!/usr/bin/env python3
"""Times collectives over sizes and numbers of ranks, in place and out of place.

Start it with torchrun on every node, or with --ranks N on one machine:
    torchrun --nproc_per_node 8 bench_collectives.py --output collectives.csv
    bench_collectives.py --ranks 2 --device cpu --tiny --output collectives.csv
`bytes` is the largest of bytes sent and bytes received over the ranks, the size that nccl-tests
prints: all-reduce, broadcast, reduce, send/recv the buffer; all-gather the gathered output;
reduce-scatter the whole input; all-to-all one rank's whole buffer.
Writes the neutral CSV schema (README.md); on an existing table it measures only what is missing.
"""
import os
import random
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from support.device import library_name, platform_name, provenance, torch_dtype, versions  # noqa: E402
from support.ranks import Ranks, start  # noqa: E402
from support.run import (Budget, Progress, Refusal, benchmark_parser, import_torch,  # noqa: E402
                         message, run_main, scale_of)
from support.table import TableWriter, make_row  # noqa: E402
from support.timing import summarise  # noqa: E402

SOURCE = "foretrace scripts/capture/bench_collectives.py"
OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce",
              "send_recv")
# PyTorch's all-reduce, broadcast and reduce have no form with a second buffer.
IN_PLACE = {"all_reduce": (1,), "all_gather": (1, 0), "reduce_scatter": (1, 0), "all_to_all": (0,),
            "broadcast": (1,), "reduce": (1,), "send_recv": (0,)}


def sizes(scale):
    """Bytes: every power of two, and in full runs the points half-way between."""
    low, high = {"full": (8, 32), "quick": (10, 28), "tiny": (8, 12)}[scale]
    found = []
    for power in range(low, high + 1, 1 if scale == "full" else 2):
        found.append(1 << power)
        if scale == "full" and power < high:
            found.append(3 << (power - 1))
    return found


def group_sizes(world, local_world):
    """Powers of two up to the world, the node, and the whole world."""
    found = {world, min(local_world, world)}
    count = 2
    while count <= world:
        found.add(count)
        count *= 2
    return sorted(n for n in found if n >= 2)


def make_call(op, elements, ranks, dtype, device, group, rank, in_place):
    """The collective as a call; `elements` is the size by this script's definition."""
    torch = import_torch()
    dist = torch.distributed
    part = elements // ranks
    full = torch.ones(elements, dtype=dtype, device=device)
    if op == "all_reduce":
        return lambda: dist.all_reduce(full, group=group)
    mine = full[rank * part:(rank + 1) * part]
    if not in_place:
        mine = torch.ones(part, dtype=dtype, device=device)
    if op == "all_gather":
        gather = getattr(dist, "all_gather_into_tensor", None) if device.type == "cuda" else None
        if gather:
            return lambda: gather(full, mine, group=group)
        pieces = list(full.chunk(ranks))
        return lambda: dist.all_gather(pieces, mine, group=group)
    if op == "reduce_scatter":
        scatter = getattr(dist, "reduce_scatter_tensor", None) or dist._reduce_scatter_base
        return lambda: scatter(mine, full, group=group)
    if op == "all_to_all":
        received = torch.empty_like(full)
        return lambda: dist.all_to_all_single(received, full, group=group)
    if op == "broadcast":
        return lambda: dist.broadcast(full, 0, group=group)
    if op == "reduce":
        return lambda: dist.reduce(full, 0, group=group)

    def send_recv():  # ranks 0 and 1 of the group; the others stand by
        if rank == 0:
            dist.send(full, 1, group=group)
        elif rank == 1:
            dist.recv(full, 0, group=group)
    return send_recv


def time_call(call, ranks, repeats, warmup, calls, device):
    """Times of `repeats` samples in us, each the mean of `calls` back-to-back collectives, on this
    rank; the caller takes the slowest rank's."""
    torch = import_torch()
    cuda = device.type == "cuda"
    for _ in range(warmup):
        call()
    times = []
    for _ in range(repeats):
        if cuda:
            torch.cuda.synchronize()
        ranks.barrier()
        if cuda:
            torch.cuda.synchronize()
            first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda._sleep(150_000 * calls)  # the host enqueues all calls meanwhile
            first.record()
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        if cuda:
            last.record()
            last.synchronize()
            times.append(first.elapsed_time(last) * 1e3 / calls)
        else:
            times.append((time.perf_counter() - begin) * 1e6 / calls)
    return times


def make_cases(options, ranks):
    """(row, op, elements, ranks, in_place) of every row, in one random order on all ranks."""
    scale = scale_of(options)
    platform = platform_name(ranks.device, options.platform)
    element = import_torch().empty(0, dtype=torch_dtype(options.dtype)).element_size()
    library = "%s;%s;timing=%s" % (
        library_name(), "nccl-" + versions().get("nccl", "unknown") if ranks.backend == "nccl" else "gloo",
        "events" if ranks.device.type == "cuda" else "wall")
    cases = []
    for count in group_sizes(ranks.world, ranks.local_world):
        nodes = -(-count // ranks.local_world)
        for op in options.ops.split(","):
            if op == "send_recv" and count != 2:
                continue
            for size in sizes(scale):
                elements = max(size // element // count, 1) * count
                for in_place in IN_PLACE[op]:
                    shape = dict(bytes=elements * element, ranks=count, nodes=nodes,
                                 placement="cross" if nodes > 1 else "node", inplace=in_place)
                    row = make_row("collective", op, "-", platform, options.dtype, shape, library, SOURCE)
                    cases.append((row, op, elements, count, in_place))
    random.Random(options.seed).shuffle(cases)
    return cases[:options.limit] if options.limit else cases


def body(options):
    torch = import_torch()
    if int(os.environ.get("WORLD_SIZE", "1")) < 2:
        raise Refusal("collectives need two ranks or more; start with torchrun, or give --ranks N")
    ranks = Ranks(options.device)
    budget = Budget(options.budget_seconds)
    groups = {n: torch.distributed.new_group(list(range(n)))
              for n in group_sizes(ranks.world, ranks.local_world)}
    table, cases, error = None, [], None
    if ranks.rank == 0:
        try:
            table = TableWriter(options.output, provenance(ranks.device, options, SOURCE, {
                "timing": "slowest rank of each sample; median over samples"}))
            cases = [case for case in make_cases(options, ranks) if not table.has(case[0])]
        except Exception as failed:  # noqa: B902 - every rank must learn of it
            error = str(failed)
    plan = [(error, cases)]
    torch.distributed.broadcast_object_list(plan, 0)
    error, cases = plan[0]
    if error:
        raise Refusal(error)
    unsupported = measure(cases, groups, ranks, table, options, budget)
    if table:
        table.close()
        for op, why in sorted(unsupported.items()):
            message("not measured: %s: %s" % (op, why))
        message("%s: %d rows added to %d" % (options.output, table.added, table.resumed))
    ranks.barrier()
    ranks.close()


def measure(cases, groups, ranks, table, options, budget):
    """Measures all cases on all ranks in step; returns {operation or shape: why it has no row}."""
    torch = import_torch()
    progress = Progress(options.output, len(cases)) if ranks.rank == 0 else None
    unsupported = {}
    for row, op, elements, count, in_place in cases:
        # Rank 0's clock decides for all, so that no rank waits for one that has stopped.
        stop = ranks.gather(budget.expired())[0]
        if stop:
            if ranks.rank == 0:
                message("out of time; call again to go on")
            break
        if op not in unsupported:
            call, why = _prepare(groups[count], ranks, op, elements, count, in_place, options)
            # All ranks agree before the first collective: one that lacks memory would hang the rest.
            why = next((w for w in ranks.gather(why) if w), None)
            times = []
            if not why:
                times, why = _time(call, groups[count], ranks, count, elements, options)
                results = ranks.gather((times, why))
                why = next((w for _, w in results if w), None)
            del call
            if why:
                unsupported[op if "memory" not in why else row["shape"]] = why
            elif table:
                slowest = [max(sample) for sample in zip(*[t for t, _ in results if t])]
                result = summarise(slowest)
                table.add(dict(row, time_us="%.6g" % result.time_us, std_us="%.4g" % result.std_us,
                               repeats=str(result.repeats)))
        if progress:
            progress.step()
        if ranks.device.type == "cuda":
            torch.cuda.empty_cache()
    if progress:
        progress.close()
    return unsupported


class _GroupBarrier:
    """A barrier of the measured ranks alone."""

    def __init__(self, group):
        self._group = group

    def barrier(self):
        import_torch().distributed.barrier(group=self._group)


def _prepare(group, ranks, op, elements, count, in_place, options):
    """(call or None, why not): the call of a rank that takes part."""
    if ranks.rank >= (2 if op == "send_recv" else count):
        return None, None
    try:
        return make_call(op, elements, count, torch_dtype(options.dtype), ranks.device, group, ranks.rank,
                         in_place), None
    except (RuntimeError, NotImplementedError, AttributeError) as error:
        return None, str(error).split("\n")[0][:200] or "failed"


def _time(call, group, ranks, count, elements, options):
    """(times, why not) of a rank that takes part; nothing of the others."""
    if call is None:
        return [], None
    calls = 1 if options.tiny else max(1, min(20, (64 << 20) // (elements * 4)))
    try:
        return time_call(call, _GroupBarrier(group), options.repeats, options.warmup, calls,
                         ranks.device), None
    except (RuntimeError, NotImplementedError, ValueError, TypeError) as error:
        return [], str(error).split("\n")[0][:200] or "failed"


def main():
    parser = benchmark_parser(__doc__)
    parser.add_argument("--ranks", type=int, default=1, help="processes to start where torchrun did not")
    parser.add_argument("--ops", default=",".join(OPERATIONS), help="comma-separated operations")
    parser.add_argument("--dtype", choices=("float32", "float16", "bfloat16"), default="float32")
    options = parser.parse_args()
    for op in options.ops.split(","):
        if op not in OPERATIONS:
            raise Refusal("operation %r is none of %s" % (op, ", ".join(OPERATIONS)))
    return start(body, options)


if __name__ == "__main__":
    run_main(main)
