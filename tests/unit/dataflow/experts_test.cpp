// Expert parallelism out of the shardings of a routed FFN; weights that are larger than SRAM.
#include <gtest/gtest.h>

#include <algorithm>

#include "simulator/dataflow/mapping.h"
#include "simulator/dataflow/workloads.h"

namespace foretrace::dataflow {
namespace {

TransformerSizes Routed(bool train) {
  TransformerSizes sizes = {.hidden = 1024, .heads = 16, .head_size = 64, .sequence = 512};
  sizes.layers = 4, sizes.batch = 8, sizes.train = train;
  sizes.ffn = 3072, sizes.experts = 8, sizes.top_k = 2;
  return sizes;
}

size_t Find(const Workload& w, const std::string& name) {
  const auto it = std::find_if(w.kernels.begin(), w.kernels.end(),
                               [&](const Kernel& k) { return k.name == name; });
  EXPECT_NE(it, w.kernels.end()) << name;
  return static_cast<size_t>(it - w.kernels.begin());
}

System EightChips(double memory_gbps) {
  System s;
  s.name = "eight";
  s.chip = {"chip", 256, 16, 16, 1.5, Bytes(60'000'000), Execution::kDataflow, 0, 0, 0};
  s.memory = {"hbm", Bandwidth::GBps(memory_gbps), Bytes(60'000'000'000), 0, 0};
  s.dimensions = {
      {{NetworkKind::kFullyConnected, 8, Bandwidth::GBps(100), false}, {}, Role::kTensor}};
  return s;
}

// Every expert has weights of its own and computes its even share of the routed positions.
TEST(Experts, WorkAndWeights) {
  const Workload w = MakeTransformer(Routed(true));
  ASSERT_TRUE(Validate(w).ok());
  for (const char* name : {"FFN0", "FFN1", "FFN1_bwd", "FFN0_bwd"}) {
    const Kernel& k = w.kernels[Find(w, name)];
    EXPECT_EQ(NestFlop(true, k.size).count(), 2.0 * 2 * 512 * 1024 * 3072) << name;
    EXPECT_EQ(WeightElements(k.size), 8.0 * 1024 * 3072) << name;
  }
  EXPECT_EQ(ResultElements(w.kernels[Find(w, "FFN0_bwd_weight_update")].size), 8.0 * 1024 * 3072);
  TransformerSizes one = Routed(true);
  one.experts = 0;
  const Workload dense = MakeTransformer(one);
  EXPECT_EQ(dense.kernels.size(), 41U);
  EXPECT_EQ(2 * NestFlop(true, dense.kernels[Find(dense, "FFN0")].size).count(),
            NestFlop(true, w.kernels[Find(w, "FFN0")].size).count());
}

// Between tokens' chips and experts' chips a position goes to top_k of them.
TEST(Experts, AllToAllBetweenTokensAndExperts) {
  const Workload w = MakeTransformer(Routed(false));
  const System system = EightChips(1000);
  const TensorGroup group = {system.networks()};
  Shardings shardings(w.kernels.size(), Loop::kN);
  shardings[Find(w, "FFN0")] = shardings[Find(w, "GeLU")] = shardings[Find(w, "FFN1")] =
      Loop::kOuter;
  const ShardedWorkload sharded = Shard(w, shardings, group);
  const double sent = 2.0 * 512 / 8 * 1024 * 2;
  int exchanges = 0;
  for (const ShardedTensor& t : sharded.tensors) {
    const bool to = t.to == static_cast<int>(Find(w, "FFN0")),
               back = t.from == static_cast<int>(Find(w, "FFN1"));
    if (!to && !back) continue;
    ++exchanges;
    EXPECT_EQ(t.bytes, RealBytes(sent));
    EXPECT_FALSE(t.gathers);
    EXPECT_NEAR(t.convert_time.ns(),
                AllToAllTime(AllToAllFormula::kPhysical, group.networks, RealBytes(sent)).ns(),
                1e-9);
  }
  EXPECT_EQ(exchanges, 2);
  EXPECT_EQ(sharded.kernels[Find(w, "FFN0")].weight_bytes.count(), 2.0 * 1024 * 3072);
}

// Slow memory: a chip reads its own experts alone.
TEST(Experts, ParallelWhereMemoryIsSlow) {
  for (const bool train : {false, true}) {
    const Workload w = MakeTransformer(Routed(train));
    const auto found = Optimise(w, EightChips(100), {}, {});
    ASSERT_TRUE(found.ok()) << found.status();
    for (const char* name : {"FFN0", "GeLU", "FFN1"})
      EXPECT_EQ(found->mapping.shardings[Find(w, name)], Loop::kOuter) << name;
    EXPECT_TRUE(std::any_of(found->exchanges.begin(), found->exchanges.end(), [&](const auto& e) {
      return e.kind == Exchange::Kind::kAllToAll &&
             (e.kernel == static_cast<int>(Find(w, "Dispatch")) ||
              e.kernel == static_cast<int>(Find(w, "FFN1")));
    }));
  }
}

TEST(StreamedWeights, ByHand) {
  ShardedKernel k;
  k.size = {1, 4000, 1000, 500};
  k.weight_bytes = RealBytes(2.0 * 4000 * 1000);  // 8 MB; input 1 MB, result 4 MB
  const auto read = [&](StreamedWeights rule, double micro_batch, int64_t sram) {
    return TimesRead(rule, k, RealBytes(2), micro_batch, Bytes(sram));
  };
  EXPECT_EQ(read(StreamedWeights::kLeast, 1, 8'000'000), 1);
  EXPECT_EQ(read(StreamedWeights::kEachTile, 1, 8'000'000), 1);
  EXPECT_EQ(read(StreamedWeights::kLeast, 1, 1'000'000), 1);  // the input stays
  // Of ten inputs a tenth stays; or weights stay by halves, and the input passes by once more.
  EXPECT_EQ(read(StreamedWeights::kLeast, 10, 1'000'000), 1 + 10.0 * 7 / 8);
  EXPECT_EQ(read(StreamedWeights::kLeast, 10, 4'000'000), 1 + 10.0 / 8);
  EXPECT_EQ(read(StreamedWeights::kEachTile, 1, 4'000'000), 5.0 / 4);
}

}  // namespace
}  // namespace foretrace::dataflow
