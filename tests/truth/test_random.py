"""Programs drawn at random: their replay takes as long as they did, however little of their waits is
named."""

import tempfile
import unittest

import random_jobs
from predictions import report

# Each once was replayed wrongly: waits explained by those that others were taken for (4, 41), one that
# holds work up for less than a launch takes (274), a first step with other waits (242), copies of which
# none shows how long its launch takes (113).
FOUND = (4, 41, 113, 242, 274)


class Drawn(unittest.TestCase):
    def check(self, seed, steps, **writing):
        job = random_jobs.drawn(seed)
        with tempfile.TemporaryDirectory() as folder:
            job.write(folder, **writing)
            for step in steps:
                expected = job.step_times(step)
                for rank, of_rank in enumerate(report(folder, step=step)["ranks"]):
                    found = of_rank["iteration_time_us"]
                    self.assertAlmostEqual(found / expected[rank], 1.0, delta=0.001,
                                           msg=f"seed {seed}, step {step}, rank {rank}: {found:.1f} us, "
                                               f"not {expected[rank]:.1f}")

    def test_whole(self):
        for seed in (*FOUND, *range(300, 316)):
            with self.subTest(seed=seed):
                self.check(seed, (4, 6), events="absent")

    def test_cut_out(self):
        for seed in range(20, 32):
            for held in (True, False):
                with self.subTest(seed=seed, in_flight=held):
                    self.check(seed, (5, 6), events="absent", recorded=lambda rank: (3, 7),
                               in_flight=held)


# What-ifs on these were wrong without a word: one iteration, or waits of one place of which the first
# alone showed what it meant (41), hung on what nothing shows, or of two waits in a row the one that
# held nothing was taken to be for later work (5065, 5124).
SILENT = (10, 11, 41, 57, 62, 5065, 5124)


class ChangedWithoutNames(unittest.TestCase):
    """Where no wait is named, a change is predicted rightly or the first line says that it may not be:
    doubt begins at 1 % of a step, and a launch that the recording does not show may take 10 us more."""

    def test_right_or_doubted(self):
        for seed in (*SILENT, *range(100, 108)):
            program = random_jobs.Program(seed)
            with tempfile.TemporaryDirectory() as folder:
                random_jobs.drawn(seed, program=program).write(folder, events="absent")
                for change, slower in ((",rank=0:x1.5", {0: 1.5}), (",rank=0:x0.5", {0: 0.5}),
                                       (":x0.4", {r: 0.4 for r in range(program.ranks)}),
                                      (":x2.2", {r: 2.2 for r in range(program.ranks)})):
                    what_if = f"name=gemm.*_(tn|nt){change}"
                    with self.subTest(seed=seed, what_if=what_if):
                        expected = random_jobs.drawn(seed, slower, program=program).step_times(5)
                        found = report(folder, [what_if], step=5)
                        if found["doubt"] is None:
                            for of_rank, time in zip(found["ranks"], expected):
                                self.assertAlmostEqual(of_rank["iteration_time_us"], time,
                                                       delta=0.01 * time + 10)


class Repeated(unittest.TestCase):
    """A step in steady state, against the same iteration over and over. Ranks that get apart, and CPUs
    that get ahead of their device and are held by it later, settle late: after two equal periods these
    did not go on so (9346: the CPU is the slower; 9512: it is held by what it is ahead of)."""

    def test_period(self):
        for seed, slower in ((9346, {0: 0.5}), (9512, {0: 1.5})):
            program = random_jobs.Program(seed, varied=True)
            again = random_jobs.drawn(seed, slower, range(1, 6), program, again=24)
            periods = []
            for rank in range(program.ranks):
                done = again.completions(rank)
                periods.append((done[-1] - done[-9]) / 8)
            what_if = [f"name=gemm.*_(tn|nt),rank={r}:x{f}" for r, f in slower.items()]
            with self.subTest(seed=seed), tempfile.TemporaryDirectory() as folder:
                random_jobs.drawn(seed, program=program).write(folder, events="named")
                found = report(folder, what_if, step=5)["step"]["period_us"]
                self.assertAlmostEqual(found / max(periods), 1.0, delta=0.001)


# Ways to record a job: those that name events, drivers of another vendor, profilers that start amid an
# iteration of each rank, clocks apart.
RECORDINGS = {
    "events named": {"events": "named"},
    "by ROCm": {"events": "absent", "vendor": "amd"},
    "from amid an iteration": {"events": "absent", "recorded": lambda rank: (2.2 + 0.3 * rank, 7)},
    "with work in flight": {"events": "absent", "recorded": lambda rank: (2.4, 7),
                            "in_flight": True},
    "one rank shorter": {"events": "absent",
                         "recorded": lambda rank: (2, 6.6) if rank == 1 else (1, 8)},
    "clocks apart": {"events": "absent", "clocks": lambda rank: (0, 130, -90, 60, 20)[rank]},
}

# Once wrong: copies that held the CPU, of a class most of which did not (9004, 9007), or for less
# than 100 us (9135, 9175), a kernel in flight of which no launch says with whom it exchanges (9013),
# sends and reductions that do not wait, which the recording does not show (9105, 9141), or which take
# longer at one place than at another (9368), clocks apart where sends wait for their receivers
# (9302, 9411) and where nothing shows by how much (9135, 9320).
VARIED = (9001, 9004, 9007, 9013, 9105, 9135, 9141, 9175, 9302, 9320, 9368, 9411)

# Once wrong in recordings of all steps: clocks that agree where roots and members left as far apart
# each time (9522, 9650), sends and waits both of which nothing shows (9604), two waits in a row taken
# for the same work (9637), copies of which nothing shows whether they held the CPU (9390, by ROCm).
WHOLE = (9390, 9522, 9604, 9637, 9650)


class VariedPrograms(unittest.TestCase):
    """Broadcasts, reductions to one, rings, pairs and groups of unequal size, in many recordings."""

    def check(self, found, expected, tolerance):
        for of_rank, time in zip(found["ranks"], expected):
            self.assertAlmostEqual(of_rank["iteration_time_us"], time, delta=tolerance * time + 10)

    def test_right_or_doubted(self):
        for seed in VARIED + WHOLE:
            program = random_jobs.Program(seed, varied=True)
            job = random_jobs.drawn(seed, program=program)
            faster = {r: 0.4 for r in range(program.ranks)}
            changed = [(f"name=gemm.*_(tn|nt){ranks}",
                        random_jobs.drawn(seed, slower, program=program).step_times(5))
                       for ranks, slower in ((":x0.4", faster), (",rank=0:x0.5", {0: 0.5}))]
            for name, writing in RECORDINGS.items():
                if seed in WHOLE and "recorded" in writing:
                    continue  # one iteration then hangs on how the recording begins
                with self.subTest(seed=seed, recording=name), tempfile.TemporaryDirectory() as folder:
                    job.write(folder, **writing)
                    self.check(report(folder, step=6), job.step_times(6), 0.001)
                    for what_if, expected in changed:
                        found = report(folder, [what_if], step=5)
                        unknown_clocks = any("clocks of" in n and "uncertain" in n for n in found["notes"])
                        if found["doubt"] is None and not unknown_clocks:
                            self.check(found, expected, 0.002)
                        if writing["events"] == "named" and found["doubt"] is not None:
                            self.assertRegex(found["doubt"],
                                             "sends wait for their receivers|launches take")


if __name__ == "__main__":
    unittest.main()
