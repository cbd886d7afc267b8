// A selective state-space model as a graph.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "simulator/dataflow/mapping.h"
#include "simulator/dataflow/sharding_candidates.h"
#include "simulator/dataflow/workloads.h"

namespace foretrace::dataflow {
namespace {

constexpr int64_t kHidden = 2560, kSequence = 2048, kInner = 5120, kState = 16, kRank = 160;

StateSpaceSizes Mamba(bool train) {
  StateSpaceSizes s;
  s.hidden = kHidden, s.sequence = kSequence, s.layers = 64, s.batch = 64, s.train = train;
  return s;
}

System EightChips(Execution execution) {
  System s;
  s.name = "eight";
  s.chip = {"chip", 256, 16, 16, 1.5, Bytes(48'000'000), execution, 0, 0, 0};
  s.memory = {"hbm", Bandwidth::GBps(900), Bytes(60'000'000'000), 0, 0};
  s.dimensions = {{{NetworkKind::kRing, 8, Bandwidth::GBps(200), false}, {}, Role::kTensor}};
  return s;
}

const Kernel& Named(const Workload& w, const std::string& name) {
  for (const Kernel& k : w.kernels) {
    if (k.name == name) return k;
  }
  ADD_FAILURE() << name;
  return w.kernels.front();
}

TEST(StateSpace, FlopOfABlock) {
  const Workload w = MakeStateSpace(Mamba(false));
  ASSERT_TRUE(Validate(w).ok());
  const double projections = 3. * kHidden * kInner + kInner * (kRank + 2 * kState) + kRank * kInner;
  double gemms = 0;
  for (const Kernel& k : w.kernels) gemms += k.has_weights() ? k.flop(k.size).count() : 0;
  EXPECT_EQ(gemms, 2 * projections * kSequence);
  const Kernel& scan = Named(w, "SCAN");
  EXPECT_EQ(scan.flop(scan.size).count(), 9. * kInner * kState * kSequence);
  // Six times the weights' 2.63 billion for each token, and the scans' share.
  const Workload train = MakeStateSpace(Mamba(true));
  ASSERT_TRUE(Validate(train).ok());
  const double scans = 4 * 9. * kInner * kState * kSequence;
  EXPECT_NEAR(train.flop().count(), 3 * 2 * projections * kSequence + scans,
              0.01 * train.flop().count());
  EXPECT_NEAR(projections * 64 / 1e9, 2.63, 0.01);
}

TEST(StateSpace, ScanIsDividedByChannelsAlone) {
  const Workload w = MakeStateSpace(Mamba(true));
  EXPECT_TRUE(Named(w, "SCAN").label_of(Loop::kN).empty());
  EXPECT_TRUE(Named(w, "CONV_bwd").label_of(Loop::kN).empty());
  EXPECT_EQ(Named(w, "SCAN").label_of(Loop::kM), "ffn");
}

// The optimum divides channels, so that what is exchanged is what leaves a block, and steps and
// states, which are small.
TEST(StateSpace, Optimum) {
  for (const Execution execution : {Execution::kKernelByKernel, Execution::kDataflow}) {
    const Workload w = MakeStateSpace(Mamba(true));
    const auto found = Optimise(w, EightChips(execution), {}, {});
    ASSERT_TRUE(found.ok()) << found.status();
    SearchLimits megatron;
    megatron.megatron = SearchLimits::Megatron::kTensor;
    const auto given = Optimise(w, EightChips(execution), {}, megatron);
    ASSERT_TRUE(given.ok()) << given.status();
    EXPECT_LE(found->time.total.ns(), given->time.total.ns() * (1 + 1e-9));
    for (size_t i = 0; i < w.kernels.size(); ++i) {
      EXPECT_TRUE(w.kernels[i].name != "SCAN" || given->mapping.shardings[i].axis == Loop::kM);
    }
    EXPECT_GT(found->utilisation, 0.1);
  }
}

// Fused, the scan's operands do not go through memory.
TEST(StateSpace, FusionSavesTraffic) {
  const Workload w = MakeStateSpace(Mamba(false));
  const auto fused = Optimise(w, EightChips(Execution::kDataflow), {}, {}),
             alone = Optimise(w, EightChips(Execution::kKernelByKernel), {}, {});
  ASSERT_TRUE(fused.ok() && alone.ok());
  EXPECT_LT(fused->dram_traffic().count(), 0.7 * alone->dram_traffic().count());
  EXPECT_LT(fused->time.total.ns(), alone->time.total.ns());
}

}  // namespace
}  // namespace foretrace::dataflow
