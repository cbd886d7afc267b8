// Megatron's sequence parallelism out of the shardings: partial results are reduce-scattered, what
// several kernels read is gathered once, and layouts fit from one layer to the next.
#include <gtest/gtest.h>

#include <map>

#include "simulator/dataflow/mapping.h"
#include "simulator/dataflow/sharding_candidates.h"
#include "simulator/dataflow/workloads.h"

namespace foretrace::dataflow {
namespace {

constexpr double kHidden = 2048, kSequence = 1024, kChips = 8, kGbps = 200;

System EightGpus() {
  System s;
  s.name = "eight";
  s.chip = {"chip", 256, 16, 16, 1.5, Bytes(48'000'000), Execution::kKernelByKernel, 0, 0, 0};
  s.memory = {"hbm", Bandwidth::GBps(900), Bytes(60'000'000'000), 0, 0};
  s.dimensions = {{{NetworkKind::kRing, 8, Bandwidth::GBps(kGbps), false}, {}, Role::kTensor}};
  return s;
}

Workload Gpt(bool train) { return MakeTransformer({2048, 16, 128, 1024, 16, 64, train}); }

std::map<Exchange::Kind, double> NsByKind(const Workload& w, const Shardings& shardings,
                                          const Formulas& formulas = {}) {
  Mapping mapping;
  mapping.roles = {Role::kTensor};
  mapping.tensor = 8;
  mapping.tiles = 1024;
  mapping.shardings = shardings;
  for (size_t i = 0; i < w.kernels.size(); ++i) mapping.partition_of.push_back(static_cast<int>(i));
  const auto mapped = Evaluate(w, EightGpus(), formulas, mapping);
  EXPECT_TRUE(mapped.ok()) << mapped.status();
  std::map<Exchange::Kind, double> ns;
  if (!mapped.ok()) return ns;
  for (const Exchange& e : mapped->exchanges) ns[e.kind] += e.time.ns();
  return ns;
}

// Two all-reduces become two reduce-scatters and two gathers, which take as long together.
TEST(SequenceParallel, ExchangesOfAForwardPass) {
  const Workload w = Gpt(false);
  const double half = kHidden * kSequence * 2 * (kChips - 1) / kChips / kGbps;
  auto tensor = NsByKind(w, MegatronShardings(w));
  EXPECT_NEAR(tensor[Exchange::Kind::kAllReduce], 4 * half, 1e-6);
  EXPECT_EQ(tensor.size(), 1U);
  auto sequence = NsByKind(w, SequenceParallelShardings(w, 8));
  EXPECT_NEAR(sequence[Exchange::Kind::kReduceScatter], 2 * half, 1e-6);
  EXPECT_NEAR(sequence[Exchange::Kind::kAllGather], 2 * half, 1e-6);
  EXPECT_EQ(sequence.size(), 2U);
}

// Backward gathers what norms made once more, for the gradients of weights.
TEST(SequenceParallel, ExchangesOfTraining) {
  const Workload w = Gpt(true);
  const double half = kHidden * kSequence * 2 * (kChips - 1) / kChips / kGbps;
  auto sequence = NsByKind(w, SequenceParallelShardings(w, 8));
  EXPECT_NEAR(sequence[Exchange::Kind::kReduceScatter], 4 * half, 1e-6);
  EXPECT_NEAR(sequence[Exchange::Kind::kAllGather], 6 * half, 1e-6);
  EXPECT_EQ(sequence[Exchange::Kind::kAllReduce], 0);
}

// A result left divided is gathered where the next layer reads all of it.
TEST(SequenceParallel, LayoutsFitFromLayerToLayer) {
  const Workload w = Gpt(false);
  Shardings shardings = MegatronShardings(w);
  shardings.back() = Loop::kN;
  const double half = kHidden * kSequence * 2 * (kChips - 1) / kChips / kGbps;
  EXPECT_NEAR(NsByKind(w, shardings)[Exchange::Kind::kAllGather], half, 1e-6);
  Formulas published;
  published.iteration = IterationRule::kDse;
  EXPECT_EQ(NsByKind(w, shardings, published)[Exchange::Kind::kAllGather], 0);
}

// It takes less memory traffic, so that the optimum on GPUs has it.
TEST(SequenceParallel, OptimumHasIt) {
  const Workload w = MakeTransformer({12288, 96, 128, 2048, 2, 8, true});
  const System system = EightGpus();
  const auto found = Optimise(w, system, {}, {});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_LT(found->gap(), 1e-9);
  int scattered = 0;
  for (const Exchange& e : found->exchanges)
    scattered += e.kind == Exchange::Kind::kReduceScatter ? 1 : 0;
  EXPECT_GE(scattered, 2);
  SearchLimits megatron;
  megatron.megatron = SearchLimits::Megatron::kTensor;
  const auto without = Optimise(w, system, {}, megatron);
  ASSERT_TRUE(without.ok());
  EXPECT_LT(found->time.total.ns(), without->time.total.ns());
}

}  // namespace
}  // namespace foretrace::dataflow
