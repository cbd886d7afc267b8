#!/usr/bin/env python3
"""What torchtitan's stack says of the CPU (cpu_us) is what scripts/layer_cpu_time.py reads out of the recordings that its
file names, and layers of recordings that were kept aside take about as long.

  tests/accuracy/test_layer_cpu_time.py
"""
import pathlib
import re
import statistics
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import layer_cpu_time  # noqa: E402

STACK = ROOT / "topologies/stacks/torchtitan.yaml"
# Kernels of a layer that the model counts, forward and backward: of Llama 2 7B, whose heads have keys of their own, and of the
# others; compiled.
COUNTS = {"llama2-7b": (18, 31), "llama3-8b": (20, 33), "qwen2.5-0.5b": (20, 36)}
COMPILED_COUNTS = {"llama2-7b": (17, 29), "llama3-8b": (19, 31), "qwen2.5-0.5b": (19, 34)}
SET = ("llama2-7b-l6-s1024-b4-none", "llama2-7b-l6-s4096-b2-none", "llama3-8b-l4-s4096-b1-none-x4", "llama3-8b-l4-s8192-b1-none")
SET_COMPILED = ("llama2-7b-l6-s4096-b2-none-compiled", "llama3-8b-l4-s8192-b1-none-compiled")
ASIDE = ("qwen2.5-0.5b-l24-s4096-b2-none", "qwen2.5-0.5b-l24-s4096-b2-none-compiled")


def counts_of(job):
    return (COMPILED_COUNTS if job.endswith("compiled") else COUNTS)[job.split("-l")[0]]


class LayerCpuTime(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        said = re.findall(r"cpu_us: \{(.*)\}", STACK.read_text())
        assert len(set(said)) == 1, "the releases have the same"
        cls.stated = {key: float(value) for key, value in (part.split(": ") for part in said[0].split(", "))}
        cls.passes = {}
        for job, profile in layer_cpu_time.profiles(layer_cpu_time.ARCHIVE, only=SET + SET_COMPILED + ASIDE):
            cls.passes[job] = [layer_cpu_time.medians(profile.layers(hook, order))
                               for hook, order in (("pre_forward", 1), ("pre_backward", -1))]

    def mean(self, jobs, part):
        return statistics.mean(part(self.passes[job], counts_of(job)) for job in jobs)

    def test_the_stack_has_the_means_of_recordings(self):
        means = {"forward_hooks": self.mean(SET + SET_COMPILED, lambda passes, _: passes[0][0]),
                 "backward_hooks": self.mean(SET + SET_COMPILED, lambda passes, _: passes[1][0]),
                 "forward_kernel": self.mean(SET, lambda passes, counts: passes[0][1] / counts[0]),
                 "backward_kernel": self.mean(SET, lambda passes, counts: passes[1][1] / counts[1]),
                 "compiled_kernel": self.mean(SET_COMPILED, lambda passes, counts: (passes[0][1] / counts[0] +
                                                                                    passes[1][1] / counts[1]) / 2)}
        for key, mean in means.items():
            self.assertLess(abs(self.stated[key] / mean - 1), 0.03, (key, mean))

    def test_layers_that_set_nothing(self):
        for job in ASIDE:
            rate = [self.stated["compiled_kernel"]] * 2 if job.endswith("compiled") else \
                [self.stated["forward_kernel"], self.stated["backward_kernel"]]
            hooks = self.stated["forward_hooks"] + self.stated["backward_hooks"]
            predicted = hooks + sum(each * count for each, count in zip(rate, counts_of(job)))
            measured = sum(hook + others for hook, others, _ in self.passes[job])
            self.assertLess(abs(predicted / measured - 1), 0.25, (job, predicted, measured))


if __name__ == "__main__":
    unittest.main()
