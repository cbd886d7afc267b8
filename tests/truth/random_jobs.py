"""Jobs drawn at random: what an iteration does is drawn once, and each iteration does it."""

import random

import job as truth
from job import AUXILIARY, COMPUTE, COPIES, EXCHANGE, INPUT_DIST

LOOKUP = 43
SIDES = (COPIES, INPUT_DIST, LOOKUP, AUXILIARY)


class Phase:
    """A stretch of an iteration: what its stream waits for, what it does, what waits for that."""

    def __init__(self, rng, number, streams, events):
        main = number == 0 or rng.random() < 0.45
        self.name = f"## {rng.choice(['forward', 'dist', 'copy', 'fill', 'lookup', 'step'])} {chr(97 + number)} ##"
        self.stream = COMPUTE if main else rng.choice(streams)
        self.waits = []  # (phase, iterations before), or a stream as it is now
        for _ in range(rng.choice((0, 1, 1, 2))):
            if rng.random() < 0.4:
                other = rng.choice([s for s in [COMPUTE] + list(streams) if s != self.stream])
                self.waits.append(("stream", other, 0))
            elif events:
                phase, stream = rng.choice(events)
                lag = rng.choice((0, 0, 1, 1, 2)) if phase < number else rng.choice((1, 1, 2))
                if stream != self.stream:
                    self.waits.append(("event", phase, lag))
        self.kernels = rng.choice((1, 2, 3, 6))
        self.us = rng.choice((40.0, 150.0, 400.0, 900.0)) * (2.0 if main else 1.0)
        kind = rng.random()
        self.copy = not main and kind < 0.3
        self.collective = rng.choice((None, None, "at once", "later")) if not self.copy else None
        self.collective_us = rng.choice((60.0, 250.0, 500.0))
        self.reads = rng.random() < 0.12  # .item()
        self.blocks = None  # on the event of another phase, iterations before
        if rng.random() < 0.12 and events:
            self.blocks = (rng.choice(events)[0], rng.choice((1, 2)))
        self.thread = 2 if main and number > 0 and rng.random() < 0.4 else 1
        self.records = rng.random() < 0.7
        self.together, self.group, self.root = "all_to_all", "mp", 0


# What a phase's ranks do together, in programs that are varied.
TOGETHER = ("all_to_all", "all_reduce", "broadcast", "reduce", "ring", "pairs")


class Program:
    """`varied`: with other communication than all-to-alls too, partly in groups of unequal size, and
    sends that may not wait for their receivers."""

    def __init__(self, seed, varied=False):
        rng = random.Random(seed)
        self.phases = []
        streams = rng.sample(SIDES, rng.choice((1, 2, 3, 4)))
        count = rng.choice((3, 4, 5, 7, 9))
        # Events of all phases, of later ones as they were an iteration before.
        planned = [(n, None) for n in range(count)]
        drawn = [random.Random(seed * 1000 + n) for n in range(count)]
        streams_of = [Phase(random.Random(seed * 1000 + n), n, streams, []).stream
                      for n, _ in planned]
        events = list(enumerate(streams_of))
        for number in range(count):
            self.phases.append(Phase(drawn[number], number, streams, events))
            self.phases[-1].stream = streams_of[number]
            self.phases[-1].waits = [w for w in self.phases[-1].waits
                                     if not (w[0] == "event" and streams_of[w[1]] == streams_of[number])
                                     and not (w[0] == "stream" and w[1] == streams_of[number])]
        self.reads_loss = rng.random() < 0.4
        self.throttle = rng.choice((0, 0, 2)) if not self.reads_loss else 0
        self.uneven = rng.choice((0.0, 0.0, 0.3))
        self.ranks = rng.choice((1, 2, 2, 4))
        self.buffered_us = None
        if varied:
            self.vary(random.Random(seed * 31 + 7))

    def vary(self, rng):
        self.ranks = rng.choice((2, 3, 4, 5))
        self.buffered_us = rng.choice((None, None, 12.0))
        for phase in self.phases:
            phase.together = rng.choice(TOGETHER)
            phase.root = rng.randrange(self.ranks)
            if phase.collective and rng.random() < 0.5 and phase.together in TOGETHER[:4]:
                phase.group = "part"  # of which some ranks are not
                phase.root = rng.choice(self.groups()["part"])

    def groups(self):
        """A group of all ranks, and one of fewer."""
        return {"mp": list(range(self.ranks)), "part": list(range(max(2, self.ranks - 1)))}


def drawn(seed, slower=None, steps=range(1, 9), program=None, again=0):
    """`again`: the last of the steps follows itself so many times, each time with what was drawn for it
    at first."""
    program = program or Program(seed)
    job = truth.Job(program.ranks, program.groups() if program.ranks > 1 else {"mp": [0]})
    job.buffered_us = program.buffered_us
    for rank in job.ranks:
        rank.events = {}  # (phase, step) -> event of its end
        rank.ends = []
        rank.later = {}   # phase -> what its collective's wait() awaits

    def together(rank, number, phase, step, stream):
        """Returns the event of the end of what the phase's ranks do together; none, where this rank takes
        no part."""
        key, us = (step, number), phase.collective_us
        if rank.number not in job.groups[phase.group]:
            return None
        own = EXCHANGE if phase.group == "mp" else truth.DATA_PARALLEL
        if phase.together in ("all_to_all", "all_reduce"):
            operation = "allreduce" if phase.together == "all_reduce" else "all_to_allv"
            return job.exchange(rank, phase.group, key, us, stream, own, operation)
        if phase.together in ("broadcast", "reduce"):
            return job.from_or_to_root(rank, phase.group, phase.together, phase.root, key, us, stream, own)
        if phase.together == "ring":
            transfers = [("send", (rank.number + 1) % program.ranks, key),
                         ("recv", (rank.number - 1) % program.ranks, key)]
        else:
            other = rank.number ^ 1
            if other >= program.ranks:
                return None
            transfers = [("send" if rank.number < other else "recv", other, key)]
        return job.exchange_by_list(rank, "mp", transfers, us, stream)

    def one_phase(rank, number, phase, step, factor):
        stream = phase.stream
        rank.thread = phase.thread
        with rank.range(phase.name, "user_annotation"):
            if phase.blocks is not None:
                event = rank.events.get((phase.blocks[0], step - phase.blocks[1]))
                if event is not None and event["end"] is not None:
                    rank.wait_on_cpu(event)
            for kind, what, lag in phase.waits:
                if kind == "stream":
                    rank.wait_event(stream, rank.record_event(what))
                else:
                    event = rank.events.get((what, step - lag))
                    if event is not None:
                        rank.wait_event(stream, event)
            if (pending := rank.later.pop(number - 1, None)) is not None:
                # The work of two phases goes on without the collective of the first.
                rank.wait_event(stream, pending)
            if phase.copy:
                for _ in range(min(phase.kernels, 2)):
                    with rank.range("aten::to"), rank.range("aten::copy_"):
                        rank.launch(stream, phase.us, "Memcpy HtoD (Pinned -> Device)",
                                    {"bytes": 1 << 20}, "cudaMemcpyAsync", "gpu_memcpy")
            else:
                for _ in range(phase.kernels):
                    with rank.range("aten::mm"):
                        rank.launch(stream, phase.us * factor() / phase.kernels, f"{truth.GEMM}_tn")
            if phase.reads:
                rank.copy_to_host(stream)
            done = together(rank, number, phase, step, stream) if phase.collective else None
            if done is not None:
                if phase.collective == "at once":
                    rank.wait_event(stream, done)
                    with rank.range("aten::add"):
                        rank.launch(stream, 20.0, "add_kernel")
                else:
                    rank.later[number] = done
            if phase.records:
                rank.events[number, step] = rank.record_event(stream)
        rank.thread = 1

    for step in [*steps, *range(steps[-1] + 1, steps[-1] + 1 + again)]:
        for rank in job.ranks:
            noise = random.Random(1000 * rank.number + min(step, steps[-1]))
            if step == steps[-1]:
                rank.noise_of_last = rank.noise.getstate()
            elif step > steps[-1]:
                rank.noise.setstate(rank.noise_of_last)

            def factor():
                return (slower or {}).get(rank.number, 1.0) * (
                    1 + program.uneven * (noise.random() - 0.5))

            with rank.range(f"ProfilerStep#{step}", "user_annotation"):
                if program.throttle and len(rank.ends) >= program.throttle:
                    rank.block("cudaEventSynchronize", [rank.ends[-program.throttle]])
                for number, phase in enumerate(program.phases):
                    one_phase(rank, number, phase, step, factor)
                with rank.range("## optimizer ##", "user_annotation"):
                    job.compute(rank, "aten::_foreach_add_", 1, 90.0, "sgd")
                rank.ends.append(rank.last[COMPUTE])
                if program.reads_loss:
                    rank.read_loss()
    return job.solve()
