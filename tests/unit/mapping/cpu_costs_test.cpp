// What the CPU takes to start a step's work.

#include <gtest/gtest.h>

#include "simulator/mapping/iteration_model.h"
#include "simulator/mapping/software_stack.h"
#include "tests/support/round_links.h"
#include "tests/unit/mapping/small_model.h"

namespace foretrace {
namespace {

ClusterParameters Fast() {
  ClusterParameters p;
  p.exchanges = Exchanges();
  p.peak = FlopRate::Teraflops(1e6);
  p.peak_memory = Bandwidth::GBps(1e6);
  p.issue = SimTime();
  p.per_parameter_sharding = true;
  return p;
}

// Two micro-batches of each of two replicas.
ParallelMapping Divided() {
  ParallelMapping m;
  m.data = 2;
  m.global_batch = 4;
  m.zero = 3;
  return m;
}

IterationEstimate Estimate(const ParallelMapping& m, const ClusterParameters& p) {
  const auto estimate = EstimateIteration(SmallModel(), m, p);
  EXPECT_TRUE(estimate.ok()) << estimate.status();
  return estimate.value_or(IterationEstimate());
}

SimTime CpuOf(const ParallelMapping& m, const ClusterParameters& p) { return Estimate(m, p).cpu; }

// Of four layers, and of what is outside of them, before and after passes of two micro-batches;
// four layers are updated once. Weights that nothing divides have no hooks.
TEST(CpuCostsTest, HooksOfDividedWeights) {
  ClusterParameters p = Fast();
  p.cpu.forward_hooks = SimTime::FromUs(10);
  p.cpu.backward_hooks = SimTime::FromUs(20);
  p.cpu.update = SimTime::FromUs(7);
  EXPECT_EQ(CpuOf(Divided(), p), SimTime::FromUs(2 * 5 * 30 + 4 * 7));
  ClusterParameters slower = p;
  slower.cpu = p.cpu.ScaledBy(1.5);
  EXPECT_EQ(CpuOf(Divided(), slower), SimTime::FromUs(1.5 * (2 * 5 * 30 + 4 * 7)));
  ParallelMapping two = Divided();
  two.zero = 2;
  EXPECT_EQ(CpuOf(two, p), SimTime::FromUs(4 * 7));
  p.per_parameter_sharding = false;
  EXPECT_EQ(CpuOf(Divided(), p), SimTime::FromUs(4 * 7));
  // The longest stage's: two of four layers, of which one is trained, on two stages.
  ParallelMapping stages = Divided();
  stages.pipeline = 2;
  EXPECT_EQ(CpuOf(stages, p), SimTime::FromUs(2 * 7));
  stages.last_layers = 3;
  EXPECT_EQ(CpuOf(stages, p), SimTime::FromUs(2 * 7));
}

// A step waits for the CPU, or hides it.
TEST(CpuCostsTest, StepsAreNoShorter) {
  ClusterParameters p = Fast();
  const SimTime alone = Estimate(Divided(), p).time;
  EXPECT_FALSE(Estimate(Divided(), p).CpuBound());
  p.cpu.update = SimTime::FromUs(1);
  EXPECT_EQ(Estimate(Divided(), p).time, alone);
  EXPECT_FALSE(Estimate(Divided(), p).CpuBound());
  p.cpu.update = alone;
  EXPECT_EQ(Estimate(Divided(), p).time, SimTime::FromPs(4 * alone.ps()));
  EXPECT_TRUE(Estimate(Divided(), p).CpuBound());
}

// Layers that run again start their forward kernels twice, and a policy is asked both times.
TEST(CpuCostsTest, KernelsThatRunAgain) {
  ClusterParameters p = Fast();
  p.cpu.forward_kernel = SimTime::FromUs(1);
  const SimTime once = CpuOf(Divided(), p);
  ParallelMapping m = Divided();
  m.recompute = Recompute::kFull;
  const SimTime twice = CpuOf(m, p);
  m.recompute = Recompute::kOperators;
  EXPECT_EQ(CpuOf(m, p), twice);
  p.cpu.policy = SimTime::FromUs(1);
  const SimTime layers = twice - once;  // all that start a forward kernel again, of 1 us each
  EXPECT_GT(layers, SimTime());
  EXPECT_EQ(CpuOf(m, p), twice + layers + layers);
  // Compiled layers have the same kernels at their own rate, both ways, and no policy.
  p = Fast();
  p.cpu.forward_kernel = p.cpu.backward_kernel = SimTime::FromUs(1);
  const SimTime both = CpuOf(Divided(), p);
  p.forms.compiled = true;
  const SimTime ends = CpuOf(Divided(), p);
  p.cpu.compiled_kernel = SimTime::FromUs(1);
  EXPECT_LT(ends, both);
  EXPECT_EQ(CpuOf(Divided(), p), both);
  p.cpu.policy = SimTime::FromUs(1000);
  EXPECT_EQ(CpuOf(Divided(), p), both);
}

// What is shipped: layers of FSDP2 have hooks, and a compiled layer's kernels are started by
// Python in both passes.
TEST(CpuCostsTest, Torchtitan) {
  const auto stack = LoadSoftwareStack(FindShipped(kSoftwareStacks, "torchtitan").value());
  ASSERT_TRUE(stack.ok()) << stack.status();
  for (const StackRelease& release : stack->releases) {
    EXPECT_GT(release.cpu.forward_hooks, SimTime()) << release.since;
    EXPECT_GT(release.cpu.compiled_kernel, release.cpu.backward_kernel) << release.since;
  }
}

}  // namespace
}  // namespace foretrace
