"""How a call is timed.

CuptiTimer   device time of a call's kernels as the profiler (CUPTI) records them: no launch
             overhead and no gap between kernels is in the number, so it means exactly what a kernel
             duration in a captured trace means.
EventTimer   CUDA events around calls that were all enqueued behind a spinning kernel; checked: a
             sample counts only if the device had not passed the first event when the last call was
             enqueued.  Contains the gaps between kernels.
WallTimer    host clock around a call and a device synchronisation; for CPUs and for copies that
             block the host.

With cold L2 a buffer of twice the L2 is rewritten before each call, outside the timed part; with
warm L2 the call repeats back to back.  The time is the median over repeats, the spread the standard
deviation over repeats.
"""
import statistics
import time
from dataclasses import dataclass, field
from typing import Any, Callable, List

from support.device import l2_bytes
from support.run import Refusal, import_torch, message


@dataclass
class Job:
    """One row to be measured: `build()` makes the tensors and returns the call without arguments."""
    row: dict
    build: Callable[[], Callable[[], Any]]
    cold: bool = False
    wall: bool = False  # the call blocks the host: only a host clock can time it


@dataclass
class Sample:
    time_us: float
    std_us: float
    repeats: int


@dataclass
class Outcome:
    """What became of a batch: samples by job, and why the others have none."""
    samples: List[tuple] = field(default_factory=list)
    failures: List[tuple] = field(default_factory=list)


def summarise(times_us):
    """Median and spread of the repeats of one call."""
    spread = statistics.stdev(times_us) if len(times_us) > 1 else 0.0
    return Sample(statistics.median(times_us), spread, len(times_us))


def _refuse_if_broken(error):
    """A failed call may leave the CUDA context unusable; then nothing measured later is true."""
    torch = import_torch()
    if not torch.cuda.is_available():
        return
    try:
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
    except RuntimeError as broken:
        raise Refusal("the device failed and cannot go on (%s, after: %s); rows measured so far are "
                      "kept, start again to resume" % (broken, error)) from broken


class _Timer:
    """Common part: runs jobs one by one, keeping failures apart."""
    batch = 1

    def __init__(self, device, repeats, warmup, seconds_per_job=0.2):
        self.device, self.repeats, self.warmup = device, repeats, warmup
        self._seconds = seconds_per_job

    def synchronise(self):
        if self.device.type == "cuda":
            import_torch().cuda.synchronize()

    def warm(self, call):
        """Warms up and returns how many repeats fit the time for one job (3 at the least)."""
        for _ in range(self.warmup):
            call()
        self.synchronise()
        start = time.perf_counter()
        call()
        self.synchronise()
        seconds = max(time.perf_counter() - start, 1e-7)
        return max(min(self.repeats, int(self._seconds / seconds)), min(3, self.repeats))

    def measure(self, jobs):
        outcome = Outcome()
        for job in jobs:
            try:
                sample = wall_time(self, job) if job.wall else self._one(job)
                outcome.samples.append((job, sample))
            except (RuntimeError, NotImplementedError, ValueError, TypeError) as error:
                _refuse_if_broken(error)
                outcome.failures.append((job, str(error).split("\n")[0]))
        return outcome

    def _one(self, job):
        raise NotImplementedError


def wall_time(timer, job):
    call = job.build()
    times = []
    for _ in range(timer.warm(call)):
        timer.synchronise()
        start = time.perf_counter()
        call()
        timer.synchronise()
        times.append((time.perf_counter() - start) * 1e6)
    return summarise(times)


class WallTimer(_Timer):
    name = "wall"

    def _one(self, job):
        return wall_time(self, job)


class _GpuTimer(_Timer):
    def __init__(self, device, repeats, warmup, seconds_per_job=0.2):
        super().__init__(device, repeats, warmup, seconds_per_job)
        torch = import_torch()
        self._flush = torch.zeros(2 * l2_bytes(device) // 4, dtype=torch.int32, device=device)
        self._tiny = torch.zeros(1, dtype=torch.int32, device=device)

    def flush(self, cold):
        """A kernel before each call: over twice the L2 where it is to be cold, else over one word."""
        (self._flush if cold else self._tiny).bitwise_not_()


class EventTimer(_GpuTimer):
    name = "events"
    calls = 10             # a sample with warm L2 is the mean of so many calls back to back
    max_spin = 1 << 31     # cycles; about a second

    def _one(self, job):
        torch = import_torch()
        call = job.build()
        repeats = self.warm(call)
        calls = 1 if job.cold else self.calls
        spin, times = 1 << 20, []
        while len(times) < repeats:
            first = torch.cuda.Event(enable_timing=True)
            last = torch.cuda.Event(enable_timing=True)
            torch.cuda._sleep(spin)
            self.flush(job.cold)
            first.record()
            for _ in range(calls):
                call()
            queued_in_time = not first.query()
            last.record()
            last.synchronize()
            if queued_in_time:
                times.append(first.elapsed_time(last) * 1e3 / calls)
            elif spin < self.max_spin:
                spin *= 2
            else:
                raise RuntimeError("the call waits for the device; it cannot be timed by events")
        return summarise(times)


# Waits that newer profilers list among the device's work; they are none.
WAITS = frozenset(("Event Sync", "Stream Sync", "Context Sync", "Unknown Sync", "Stream Wait Event"))
MARK, DELIMITER = "spin_kernel", "bitwise_not"  # parts of these kernels' names, in every version


def split_segments(events):
    """Device events (start, duration_us, name) to one list per marker kernel, each a list of the
    durations' sums per delimiter kernel.  Events before the first marker are dropped, those between
    a marker and its first delimiter too.
    """
    segments = []
    for _, duration, name in sorted(events, key=lambda e: e[0]):
        if MARK in name:
            segments.append([])
        elif segments and DELIMITER in name:
            segments[-1].append(0.0)
        elif segments and segments[-1]:
            segments[-1][-1] += duration
    return segments


class CuptiTimer(_GpuTimer):
    """Many jobs share one profiler session, since starting one takes tens of milliseconds.  Marker
    kernels separate set-up from measuring, delimiter kernels one repeat from the next."""
    name = "cupti"
    batch = 40

    def measure(self, jobs):
        torch = import_torch()
        outcome, measured, segment = Outcome(), [], -1
        profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA])
        profiler.start()
        for job in jobs:
            if job.wall:
                continue
            try:
                torch.cuda._sleep(1000)
                segment += 1
                call = job.build()
                repeats = self.warm(call)
                torch.cuda._sleep(1000)
                segment += 1
                for _ in range(repeats):
                    self.flush(job.cold)
                    call()
                measured.append((segment, repeats, job))
            except (RuntimeError, NotImplementedError, ValueError, TypeError) as error:
                _refuse_if_broken(error)
                outcome.failures.append((job, str(error).split("\n")[0]))
            finally:
                call = None
        torch.cuda.synchronize()
        profiler.stop()
        segments = split_segments(device_events(profiler))
        if len(segments) != segment + 1:
            raise Refusal("the profiler returned %d of %d marker kernels; use --timing events" %
                          (len(segments), segment + 1))
        for index, repeats, job in measured:
            sums = segments[index]
            if len(sums) != repeats or min(sums, default=0.0) <= 0:
                outcome.failures.append((job, "the profiler recorded %d of %d repeats, or none of "
                                         "their kernels" % (len(sums), repeats)))
            else:
                outcome.samples.append((job, summarise(sums)))
        wall = super().measure([job for job in jobs if job.wall])
        outcome.samples += wall.samples
        outcome.failures += wall.failures
        return outcome


def device_events(profiler):
    """(start_ns, duration_us, name) of all work on the device, from a stopped torch profiler."""
    events = []
    for event in profiler.profiler.kineto_results.events():
        if not str(event.device_type()).endswith("CUDA"):
            continue
        if event.name() in WAITS or getattr(event, "is_user_annotation", bool)():
            continue
        events.append((event.start_ns(), event.duration_ns() * 1e-3, event.name()))
    return events


def _cupti_works(device):
    """Whether the profiler sees the device, in nanoseconds, with the kernel names relied on."""
    torch = import_torch()
    try:
        timer = CuptiTimer(device, 3, 1)
        x = torch.ones(1 << 20, device=device)
        outcome = timer.measure([Job({}, lambda: x.sin_), Job({}, lambda: x.cos_, cold=True)])
    except (Refusal, RuntimeError, AttributeError) as error:
        message("note: kernels cannot be timed by the profiler (%s); using events" % error)
        return False
    if len(outcome.samples) != 2:
        message("note: kernels cannot be timed by the profiler (%s); using events" %
                [why for _, why in outcome.failures])
        return False
    return True


def make_timer(device, options):
    """The timer that --timing names; `auto` takes the profiler where it works, else events."""
    choice = getattr(options, "timing", "auto")
    if device.type == "cpu":
        if choice not in ("auto", "wall"):
            raise Refusal("--timing %s needs a GPU" % choice)
        return WallTimer(device, options.repeats, options.warmup)
    if choice == "wall":
        return WallTimer(device, options.repeats, options.warmup)
    if choice == "cupti" or (choice == "auto" and _cupti_works(device)):
        return CuptiTimer(device, options.repeats, options.warmup)
    return EventTimer(device, options.repeats, options.warmup)


def add_timing_option(parser):
    parser.add_argument("--timing", choices=("auto", "cupti", "events", "wall"), default="auto",
                        help="auto: cupti where the profiler works, else events; wall on a CPU")
