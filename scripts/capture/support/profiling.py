"""Runs training steps, timed, without and with the profiler and the execution-trace observer."""
import contextlib
import gzip
import json
import os
import shutil
import time

from support.run import Refusal, import_torch
from support.trace_files import write_plain_trace


def _synchronise(device):
    if device.type == "cuda":
        import_torch().cuda.synchronize()


def timed_steps(step, count, device, mark=None):
    """(time of each step, wall time of all) in us; `mark(i)` is a context around step i.

    On a GPU a step lasts from event to event on the current stream: nothing is synchronised between
    steps, as in training.
    """
    torch = import_torch()
    cuda = device.type == "cuda"
    events = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)] if cuda else []
    _synchronise(device)
    begin = time.perf_counter()
    bounds = [begin]
    if cuda:
        events[0].record()
    for number in range(count):
        if mark:
            with mark(number):
                step(number)
        else:
            step(number)
        if cuda:
            events[number + 1].record()
        bounds.append(time.perf_counter())
    _synchronise(device)
    wall = (time.perf_counter() - begin) * 1e6
    if cuda:
        return [a.elapsed_time(b) * 1e3 for a, b in zip(events, events[1:])], wall
    return [(b - a) * 1e6 for a, b in zip(bounds, bounds[1:])], wall


def make_observer(path):
    """The execution-trace observer writing to `path`, under either of its names; None without one."""
    profiler = import_torch().profiler
    for name in ("ExecutionTraceObserver", "ExecutionGraphObserver"):
        if hasattr(profiler, name):
            observer = getattr(profiler, name)()
            observer.register_callback(path)
            return observer
    return None


def make_profiler(device, event_ids):
    """A stopped profiler; (profiler, whether it will record CUDA event and stream ids of waits)."""
    torch = import_torch()
    activities = [torch.profiler.ProfilerActivity.CPU]
    if device.type == "cuda":
        activities.append(torch.profiler.ProfilerActivity.CUDA)
        if not torch.autograd.kineto_available():
            raise Refusal("this PyTorch was built without Kineto; GPU traces need it")
    options = {}
    if event_ids and device.type == "cuda":
        try:
            from torch._C._profiler import _ExperimentalConfig
            options["experimental_config"] = _ExperimentalConfig(enable_cuda_sync_events=True)
        except (ImportError, TypeError):
            pass  # PyTorch before 2.1
    return (torch.profiler.profile(activities=activities, record_shapes=True, **options), bool(options))


def distributed_info(ranks):
    if not ranks.group:
        return None
    return {"backend": ranks.backend, "rank": ranks.rank, "world_size": ranks.world, "pg_count": 1,
            "pg_config": [{"pg_name": "0", "pg_desc": "default_pg",
                           "backend_config": "%s:%s" % (ranks.device.type, ranks.backend),
                           "pg_size": ranks.world, "ranks": list(range(ranks.world))}]}


def profiled_steps(step, first, options, ranks, folder):
    """Profiles `options.steps` steps after `options.profiler_warmup`; writes kineto.<rank>.json.gz and
    et.<rank>.json into `folder`.  Returns the rank's facts for the manifest."""
    torch = import_torch()
    trace = os.path.join(folder, "kineto.%d.json.gz" % ranks.rank)
    execution = os.path.join(folder, "et.%d.json" % ranks.rank)
    observer = None if options.no_execution_trace else make_observer(execution)
    profiler, event_ids = make_profiler(ranks.device, not options.no_event_ids)

    @contextlib.contextmanager
    def mark(number):
        with torch.profiler.record_function("ProfilerStep#%d" % (first + number)):
            yield
        if observer and number + 1 == options.execution_trace_steps:
            observer.stop()

    profiler.prepare_trace()
    for number in range(options.profiler_warmup):
        step(number)
    _synchronise(ranks.device)
    ranks.barrier()
    if observer:
        observer.start()
    profiler.start_trace()
    times, wall = timed_steps(step, options.steps, ranks.device, mark)
    profiler.stop_trace()
    if observer:
        observer.stop()
        observer.unregister_callback()
    kineto = torch.autograd.kineto_available()
    facts = {"steps_us": times, "wall_us": wall, "writer": "kineto" if kineto else "autograd profiler",
             "cuda_event_ids": event_ids, "execution_trace": observer is not None}
    if kineto:
        profiler.export_chrome_trace(trace)
    else:
        facts.update(write_plain_trace(trace, profiler, execution if observer else None, os.getpid(),
                                       distributed_info(ranks)))
    facts["files"] = [_described(trace)]
    if observer:
        facts["files"].append(_finish_execution_trace(execution, options.gzip_execution_trace))
    return facts


def _described(path):
    """Size and content counts of a trace file; refuses one that PyTorch left broken."""
    opener = gzip.open if path.endswith(".gz") else open
    try:
        with opener(path, "rt", encoding="utf-8") as file:
            document = json.load(file)
    except (OSError, ValueError) as error:
        raise Refusal("%s: PyTorch wrote a broken trace (%s); run again, or with "
                      "--no-execution-trace" % (path, error)) from error
    facts = {"name": os.path.basename(path), "bytes": os.path.getsize(path)}
    if "nodes" in document:
        facts.update(nodes=len(document["nodes"]), schema=document.get("schema", ""))
    else:
        counts = {}
        for event in document["traceEvents"]:
            if event.get("ph") == "X":
                counts[event.get("cat", "")] = counts.get(event.get("cat", ""), 0) + 1
        facts["events"] = counts
    return facts


def _finish_execution_trace(path, compress):
    if not compress:
        return _described(path)
    with open(path, "rb") as source, gzip.open(path + ".gz", "wb", compresslevel=9) as target:
        shutil.copyfileobj(source, target)
    os.remove(path)
    return _described(path + ".gz")
