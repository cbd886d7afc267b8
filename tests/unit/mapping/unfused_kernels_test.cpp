// What kernels of their own cost, by hand: bytes over the memory's rate, where nothing else takes
// time.
#include <gtest/gtest.h>

#include "simulator/mapping/iteration_model.h"
#include "tests/support/round_links.h"
#include "tests/unit/mapping/small_model.h"

namespace foretrace {
namespace {

// 16 query heads share 4 of keys and values; gated.
TransformerConfig Grouped() {
  TransformerConfig c = SmallModel();
  c.family = TransformerFamily::kLlama;
  c.dtype = DType::kBFloat16;
  c.fused_attention = true;
  c.kv_heads = 4;
  c.ffn = 4096;
  return c;
}

ClusterParameters MemoryAlone() {
  ClusterParameters p;
  p.overlap_slowdown = p.device_spread = 0;
  p.peak = FlopRate::Teraflops(1e9);
  p.peak_memory = Bandwidth::GBps(1);
  p.memory_efficiency = 1;
  p.exchanges = Exchanges({.node_gbps = 1e6, .gather_gbps = 1e6, .inside_us = 0});
  p.issue = SimTime();
  p.multiprocessors = 0;
  return p;
}

// In units of 1,024 tokens x 1,024 of 2 bytes: with forms beyond without them.
struct More {
  double forward, backward;
};
More Beyond(const TransformerConfig& c, const ParallelMapping& m, const KernelForms& forms,
            bool fused = true) {
  ClusterParameters p = MemoryAlone();
  p.fused_pointwise = fused;
  const auto without = TimePasses(c, m, p);
  p.forms = forms;
  const auto with = TimePasses(c, m, p);
  EXPECT_TRUE(without.ok() && with.ok()) << with.status();
  if (!without.ok() || !with.ok()) return {};
  const double unit = 1024.0 * 1024 * 2 / m.context / 1e9;
  return {(with->layer_forward - without->layer_forward).seconds() / unit,
          (with->layer_backward - without->layer_backward).seconds() / unit};
}
More Beyond(const KernelForms& forms, bool fused = true) {
  return Beyond(Grouped(), ParallelMapping(), forms, fused);
}

// Two products more read the input for queries, keys and values, one for the gate. Backward each
// writes a gradient of the input, which compiled kernels read once more and others add up in three
// passes; weight gradients read the input again.
TEST(UnfusedKernelsTest, SeparateProducts) {
  KernelForms forms;
  forms.separate_products = true;
  const More compiled = Beyond(forms), eager = Beyond(forms, false);
  EXPECT_NEAR(compiled.forward, 3, 0.01);
  EXPECT_NEAR(compiled.backward, 3 + 3 + 3, 0.01);
  EXPECT_NEAR(eager.forward, 3, 0.01);
  EXPECT_NEAR(eager.backward, 3 + 3 + 9, 0.01);
}

// Of queries and a quarter as many keys 6 and 6 bytes for the casts and 4 more than the fused
// kernel's 4.
TEST(UnfusedKernelsTest, ComplexRotaryEmbedding) {
  KernelForms forms;
  forms.complex_rotary = true;
  EXPECT_NEAR(Beyond(forms).forward, 1.25 * 16 / 2, 0.01);
  EXPECT_NEAR(Beyond(forms).backward, 1.25 * 16 / 2, 0.01);
  // Kernels that run one by one have it already.
  EXPECT_NEAR(Beyond(forms, false).forward, 0, 1e-9);
}

TEST(UnfusedKernelsTest, RepeatedKeysAndCopiedGroups) {
  KernelForms repeats, copies;
  repeats.repeats_keys = copies.copies_groups = true;
  EXPECT_NEAR(Beyond(repeats).forward, 2 * 1.25, 0.01);
  EXPECT_NEAR(Beyond(repeats).backward, 2 * 1.25, 0.01);
  EXPECT_NEAR(Beyond(copies).forward, 2 * 1.25, 0.01);
  EXPECT_NEAR(Beyond(copies).backward, 2 * 1.5, 0.01);
  TransformerConfig all = Grouped();
  all.kv_heads = all.heads;
  EXPECT_NEAR(Beyond(all, ParallelMapping(), repeats).forward, 0, 1e-9);
  EXPECT_NEAR(Beyond(all, ParallelMapping(), copies).forward, 0, 1e-9);
}

// Two parts, a step beyond the first; keys and values are half as many elements as queries. In
// units of the queries' 2 bytes: a filled output, two sums of 3 and half of the keys' copy (2 x
// 0.25) without; merged, two differences of 6 and a product of 4 in 32 bits, the keys' packing 1,
// two casts of 3 and one of 3.
TEST(UnfusedKernelsTest, RingsMergedIn32Bits) {
  ParallelMapping m;
  m.context = 2;
  m.ring = true;
  KernelForms forms;
  forms.wide_merges = true;
  const More more = Beyond(Grouped(), m, forms);
  EXPECT_NEAR(more.forward, (12 + 4 + 1 + 6 + 3) - (1 + 6 + 0.5), 0.01);
  // Without, a copy of the queries 2, and once a sum 3, a copy of keys 1 and their sum 1.5. Merged,
  // the keys' packing 1; sums of 5 bytes an element of 2: twice all queries and once the keys and
  // once half of them (10 + 2.5 + 1.25); three copies of the keys in 32 bits, 2 each; 1.5 cleared
  // in 32 bits, 3, and cast, 4.5.
  EXPECT_NEAR(more.backward, (1 + 10 + 2.5 + 1.25 + 6 + 3 + 4.5) - (2 + 3 + 1 + 1.5), 0.01);
}

// A weight's update on the memory alone: foreach kernels move more than the fused one.
TEST(UnfusedKernelsTest, ForeachOptimizer) {
  ClusterParameters p = MemoryAlone();
  const auto fused = TimePasses(Grouped(), ParallelMapping(), p);
  p.forms.fused_optimizer = false;
  const auto foreach = TimePasses(Grouped(), ParallelMapping(), p);
  ASSERT_TRUE(fused.ok() && foreach.ok());
  EXPECT_EQ(foreach->layer_backward, fused->layer_backward);
  EXPECT_GT(foreach->optimizer.seconds(), 1.5 * fused->optimizer.seconds());
}

}  // namespace
}  // namespace foretrace
