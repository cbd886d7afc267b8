"""Reads the overheads of launching and waiting out of a Kineto trace.  Standard library only.

The trace was made by bench_overheads.py: a user annotation of the overhead's name covers the calls
that show it.  All results are in us, one value per occurrence.
"""
LAUNCHES = ("cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernel", "cuLaunchKernelEx",
            "hipLaunchKernel", "hipModuleLaunchKernel", "hipExtModuleLaunchKernel")
SYNCHRONISES = ("cudaDeviceSynchronize", "cudaStreamSynchronize", "hipDeviceSynchronize",
                "hipStreamSynchronize")
SPIN = "spin_kernel"


def _end(event):
    return event["ts"] + event["dur"]


class Recording:
    """Calls and kernels of a trace by annotation; `events` is the list traceEvents."""

    def __init__(self, events):
        complete = [e for e in events if e.get("ph") == "X" and "dur" in e]
        self.ranges = [e for e in complete if e.get("cat") == "user_annotation"]
        runtime = [e for e in complete if e.get("cat") in ("cuda_runtime", "cuda_driver")]
        self.launches = [e for e in runtime if e["name"] in LAUNCHES]
        self.syncs = [e for e in runtime if e["name"] in SYNCHRONISES]
        self.kernels = {e["args"]["correlation"]: e for e in complete
                        if e.get("cat") == "kernel" and "correlation" in e.get("args", {})}

    def within(self, name, calls):
        """Those of `calls` that begin inside a range called `name`, in time order."""
        ranges = [r for r in self.ranges if r["name"] == name]
        return sorted((c for c in calls if any(r["ts"] <= c["ts"] <= _end(r) for r in ranges)),
                      key=lambda c: c["ts"])

    def pairs(self, name):
        """(launch call, kernel) inside the range, in launch order."""
        found = [(call, self.kernels.get(call.get("args", {}).get("correlation")))
                 for call in self.within(name, self.launches)]
        return [(call, kernel) for call, kernel in found if kernel]


def launch_latency(recording):
    """From the begin of a launch call to the start of its kernel on an idle device."""
    return [kernel["ts"] - call["ts"] for call, kernel in recording.pairs("launch_latency")]


def launch_call(recording):
    """Duration of a launch call while the device is busy and its queue not full."""
    return [call["dur"] for call, kernel in recording.pairs("kernel_gap") if SPIN not in kernel["name"]]


def kernel_gap(recording):
    """From the end of a kernel to the start of the next one of its stream, launched long before."""
    kernels = [kernel for _, kernel in recording.pairs("kernel_gap")]
    return [after["ts"] - _end(before) for before, after in zip(kernels, kernels[1:])
            if SPIN not in before["name"] and SPIN not in after["name"]]


def event_latency(recording):
    """From the end of a kernel to the start of one on another stream that waits for its event."""
    kernels = [kernel for _, kernel in recording.pairs("event_latency")]
    return [after["ts"] - _end(before) for before, after in zip(kernels, kernels[1:])
            if SPIN in before["name"] and SPIN not in after["name"]]


def sync_return(recording):
    """From the end of the last kernel to the return of the synchronisation that waited for it."""
    found = []
    syncs = recording.within("sync_return", recording.syncs)
    for _, kernel in recording.pairs("sync_return"):
        waiting = [s for s in syncs if s["ts"] < _end(kernel) <= _end(s)]
        if waiting:
            found.append(_end(waiting[0]) - _end(kernel))
    return found


MEASURED = {"launch_latency": launch_latency, "launch_call": launch_call, "kernel_gap": kernel_gap,
            "event_latency": event_latency, "sync_return": sync_return}


def queue_depth(call_seconds):
    """Launches outstanding when a launch call first blocked, from the host durations of consecutive
    calls behind a kernel that outlasts them; None where none blocked."""
    if len(call_seconds) < 100:
        return None
    typical = sorted(call_seconds)[len(call_seconds) // 2]
    for number, seconds in enumerate(call_seconds):
        if number >= 50 and seconds > max(1e-3, 50 * typical):
            return number + 1  # the kernel in front counts too
    return None
