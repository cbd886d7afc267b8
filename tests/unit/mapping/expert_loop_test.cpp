// Experts that take their tokens one after another, by hand: bytes over the memory's rate, where
// nothing else takes time.
#include <gtest/gtest.h>

#include "simulator/mapping/iteration_model.h"
#include "tests/unit/mapping/small_model.h"

namespace foretrace {
namespace {

PassTimes Times(const ClusterParameters& p, Recompute recompute = Recompute::kNone) {
  ParallelMapping m;
  m.recompute = recompute;
  const auto times = TimePasses(SmallMixture(), m, p);
  EXPECT_TRUE(times.ok()) << times.status();
  return times.value_or(PassTimes());
}

// In units of the stream, 1,024 x 1,024 of 2 bytes.
// Forward: results that were read twice and written once (3) are multiplied (4), added to a cleared
// sum (1) that is read and written with them (6). Once 5 x 16,384 bytes of choices, a mask of
// 131,072, set by 32,768; of each of 8 experts its row of the mask copied (32,768), counted
// (16,392), numbers (48), found (18,432) and split (6,144), weights gathered (3,072) and read
// (512). Backward: a gradient that was read and written with two rows of a token (6, and 16,384 of
// indices) is cleared for each expert (1), has its rows added (0.75) and is added itself (3);
// results' gradients that took 5 are gathered (0.5), multiplied (0.5 and 0.75) and added up (0.25)
// for each. Of each expert 16,384 and 8,192 of indices twice, of both gathers; 2,048 of
// indices, 512 of weights and of their gradients, which are cleared (4,096), added to (1,536) and
// added (12,288).
TEST(ExpertLoopTest, KernelsOfEachExpert) {
  ClusterParameters p = MemoryAlone(1);
  const PassTimes without = Times(p);
  p.forms.looped_experts = true;
  const PassTimes with = Times(p);
  const double unit = 1024.0 * 1024 * 2;
  const double once = 5 * 16384 + 131072 + 32768;
  const double each = 32768 + 16392 + 48 + 18432 + 6144 + 3072 + 512;
  EXPECT_NEAR((with.layer_forward - without.layer_forward).seconds() * 1e9 / unit,
              11 - 3 + (once + 8 * each) / unit, 0.01);
  const double indices = 2 * (16384 + 8192) + 2048 + 512 + 512 + 4096 + 1536 + 12288;
  EXPECT_NEAR((with.layer_backward - without.layer_backward).seconds() * 1e9 / unit,
              8 * (4.75 + 2) - 6 - 5 + (8 * indices - 16384) / unit, 0.01);
}

// Where kernels take long, the device waits for each expert while two operators are started and
// three kernels issued.
TEST(ExpertLoopTest, DeviceWaitsForItsAnswers) {
  ClusterParameters p = MemoryAlone(1);
  p.forms.looped_experts = true;
  const PassTimes without = Times(p);
  p.cpu.forward_kernel = SimTime::FromUs(10);
  p.issue = SimTime::FromUs(1);
  const PassTimes with = Times(p);
  EXPECT_NEAR((with.layer_forward - without.layer_forward).us(), 8 * (2 * 10 + 3 * 1), 1e-3);
  EXPECT_EQ(with.layer_backward, without.layer_backward);
}

// Where they take no time, a pass takes what the CPU does to start it, as does what runs again.
TEST(ExpertLoopTest, CpuDoesNotRunAhead) {
  ClusterParameters p = MemoryAlone(1e9);
  p.forms.looped_experts = true;
  p.cpu.forward_kernel = SimTime::FromUs(10);
  const PassTimes times = Times(p), again = Times(p, Recompute::kFull);
  EXPECT_NEAR(times.layer_forward.us(), times.cpu.forward.us(), 0.1);
  EXPECT_GT(times.layer_forward.us(), 8 * 10 * 10);
  // Of each expert 6 kernels that find its tokens are issued by the operator that starts a seventh.
  p.issue = SimTime::FromUs(1);
  const PassTimes issued = Times(p);
  EXPECT_NEAR((issued.cpu.forward - times.cpu.forward).us(), 8 * 6 * 1, 1e-6);
  EXPECT_NEAR((again.layer_backward - times.layer_backward).us(), times.layer_forward.us(), 0.1);
  p.issue = SimTime();
  p.forms.looped_experts = false;
  EXPECT_LT(Times(p).layer_forward.us(), 1);
}

// So does a pass that asks how many tokens go to each rank; without expert parallelism none does.
TEST(ExpertLoopTest, AsksForSplits) {
  ClusterParameters p = MemoryAlone(1e9);
  p.forms.asks_for_splits = true;
  p.cpu.forward_kernel = SimTime::FromUs(10);
  ParallelMapping m;
  m.data = m.expert = 4;
  m.global_batch = 4;
  const auto divided = TimePasses(SmallMixture(), m, p);
  ASSERT_TRUE(divided.ok()) << divided.status();
  EXPECT_GT(divided->cpu.forward.us(), 100);
  const SimTime exchanges = divided->Exchanges(true);
  EXPECT_NEAR((divided->layer_forward - exchanges).us(), divided->cpu.forward.us(), 1);
  EXPECT_LT(Times(p).layer_forward.us(), 1);
}

// Layers without experts are as they were.
TEST(ExpertLoopTest, DenseLayers) {
  TransformerConfig dense = SmallMixture();
  dense.experts = dense.top_k = 0;
  ClusterParameters p = MemoryAlone(1);
  p.cpu.forward_kernel = SimTime::FromUs(10);
  const auto without = TimePasses(dense, ParallelMapping(), p);
  p.forms.looped_experts = true;
  const auto with = TimePasses(dense, ParallelMapping(), p);
  ASSERT_TRUE(without.ok() && with.ok());
  EXPECT_EQ(with->layer_forward, without->layer_forward);
  EXPECT_EQ(with->layer_backward, without->layer_backward);
}

}  // namespace
}  // namespace foretrace
