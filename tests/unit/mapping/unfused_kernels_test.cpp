// What kernels of their own cost, by hand: bytes over the memory's rate, where nothing else takes
// time.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

#include "simulator/mapping/iteration_model.h"
#include "simulator/mapping/kernel_coster.h"
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

// Two GEMMs more read the input for queries, keys and values, one for the gate. Backward each
// writes a gradient of the input, which compiled kernels read once more and others add up in three
// passes; weight gradients read the input again.
TEST(UnfusedKernelsTest, SeparateGemms) {
  KernelForms forms;
  forms.separate_gemms = true;
  const More compiled = Beyond(forms), eager = Beyond(forms, false);
  EXPECT_NEAR(compiled.forward, 3, 0.01);
  EXPECT_NEAR(compiled.backward, 3 + 3 + 3, 0.01);
  EXPECT_NEAR(eager.forward, 3, 0.01);
  EXPECT_NEAR(eager.backward, 3 + 3 + 9, 0.01);
}

// Kernels that run one by one, but for norms: what norms add is gone.
TEST(UnfusedKernelsTest, FusedNorms) {
  ClusterParameters p = MemoryAlone();
  p.fused_pointwise = false;
  const auto stepwise = TimePasses(Grouped(), ParallelMapping(), p);
  p.forms.fused_norms = true;
  const auto fused = TimePasses(Grouped(), ParallelMapping(), p);
  ASSERT_TRUE(stepwise.ok() && fused.ok());
  // Of each of two norms, in units of the rows in 16 bits: casts 3 and 3, the square 4, its mean 2,
  // the scaling 4; backward the weights' gradient 3, casts 3 and 3, scalings 4 and 6, the mean's
  // gradient 2, the square's 4, the sum 6.
  const double unit = 1024.0 * 1024 * 2 / 1e9;
  EXPECT_NEAR((stepwise->layer_forward - fused->layer_forward).seconds() / unit, 2 * 16, 0.05);
  EXPECT_NEAR((stepwise->layer_backward - fused->layer_backward).seconds() / unit, 2 * 31, 0.05);
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
  // Keys of latent attention have fewer elements than queries before their rotated part is there.
  TransformerConfig latent = all;
  latent.latent = 256;
  latent.head_size = 96;
  latent.rotary_size = 32;
  latent.value_size = 64;
  EXPECT_NEAR(Beyond(latent, ParallelMapping(), copies).forward, 0, 1e-9);
  EXPECT_NEAR(Beyond(latent, ParallelMapping(), copies).backward, 0, 1e-9);
}

// Of both norms the rows and their gradients are read once less; what 128 multiprocessors sum of
// 1,024 weights in 32 bits, a quarter of a unit, is written and read. Statistics are 0.004.
TEST(UnfusedKernelsTest, SummedNorms) {
  ClusterParameters p = MemoryAlone();
  p.multiprocessors = 128;
  const auto apart = TimePasses(Grouped(), ParallelMapping(), p);
  p.forms.summed_norms = true;
  const auto summed = TimePasses(Grouped(), ParallelMapping(), p);
  ASSERT_TRUE(apart.ok() && summed.ok());
  const double unit = 1024.0 * 1024 * 2 / 1e9;
  EXPECT_NEAR((apart->layer_backward - summed->layer_backward).seconds() / unit, 2 * (2 - 2 * 0.25),
              0.02);
  EXPECT_EQ(apart->layer_forward, summed->layer_forward);
}

// Bytes a logit beyond those of two reading passes (2 and 2) and a gradient read and written (4).
// In place: cast 6, largest 4, difference 8, exponential 8, sum 4, division 8; product 8 and
// cast 6. Compiled: 6, 8 and 8; a copy 8, and 10. Overwritten: read 2, read and written 4; 4. Step
// by step: cast 6 and logarithms 8; cleared 4, gradient 12, cast 6.
TEST(UnfusedKernelsTest, LossesByForm) {
  const auto head = [](LossForm form) {
    TransformerConfig c = Grouped();
    c.loss = form;
    const auto times = TimePasses(c, ParallelMapping(), MemoryAlone());
    EXPECT_TRUE(times.ok()) << times.status();
    const double logits = 1024.0 * 2048 / 1e9;
    return More{times->head_forward.seconds() / logits, times->head_backward.seconds() / logits};
  };
  const More fused = head(LossForm::kFused);
  const std::pair<LossForm, More> forms[] = {{LossForm::kInPlace, {38 - 4, 14 - 4}},
                                             {LossForm::kCompiledInPlace, {22 - 4, 18 - 4}},
                                             {LossForm::kOverwritten, {6 - 4, 0}},
                                             {LossForm::kStepwise, {14 - 4, 22 - 4}}};
  for (const auto& [form, more] : forms) {
    EXPECT_NEAR(head(form).forward - fused.forward, more.forward, 0.02);
    EXPECT_NEAR(head(form).backward - fused.backward, more.backward, 0.02);
  }
}

// Divided among two ranks: forward cast 6, largest 4, difference 8, exponential 8, sum 4,
// difference 8; backward cleared 4, exponential 8, sum 12, product 8, cast 6; of half of the logits
// each.
TEST(UnfusedKernelsTest, LossOfADividedVocabulary) {
  const auto head = [](LossForm form) {
    TransformerConfig c = Grouped();
    c.loss = form;
    ParallelMapping m;
    m.tensor = 2;
    const auto times = TimePasses(c, m, MemoryAlone());
    EXPECT_TRUE(times.ok()) << times.status();
    const double each = 1e9 / (1024.0 * 2048 / 2);
    return More{times->head_forward.seconds() * each, times->head_backward.seconds() * each};
  };
  const More fused = head(LossForm::kFused), steps = head(LossForm::kStepwise);
  EXPECT_NEAR(steps.forward - fused.forward, 38 - 4, 0.05);
  EXPECT_NEAR(steps.backward - fused.backward, 38 - 4, 0.05);
}

// A multiprocessor moves 0.28 x 8,000 GB/s x 10 / 8 / 148 = 18.92 GB/s of rows of logits: with one
// of them and memory of twice that rate, the 6 and 4 bytes of the overwritten form take as long as
// 12 and 8; with two, or of a device whose number is not known, what they are.
TEST(UnfusedKernelsTest, RowsOfLogitsByMultiprocessors) {
  const auto beyond = [](int32_t multiprocessors) {
    ClusterParameters p = MemoryAlone();
    p.peak_memory = Bandwidth::GBps(2 * 0.28 * 8000 * 10 / 8 / 148);
    p.multiprocessors = multiprocessors;
    const auto bytes = [&p](LossForm form) {
      TransformerConfig c = Grouped();
      c.loss = form;
      const auto times = TimePasses(c, ParallelMapping(), p);
      EXPECT_TRUE(times.ok()) << times.status();
      const double each = p.peak_memory.bytes_per_second() / (1024.0 * 2048);
      return More{times->head_forward.seconds() * each, times->head_backward.seconds() * each};
    };
    const More fused = bytes(LossForm::kFused), own = bytes(LossForm::kOverwritten);
    return More{own.forward - fused.forward, own.backward - fused.backward};
  };
  for (const auto& [multiprocessors, more] :
       {std::pair(1, More{12 - 4, 8 - 4}), std::pair(2, More{6 - 4, 0}),
        std::pair(0, More{2, 0})}) {
    EXPECT_NEAR(beyond(multiprocessors).forward, more.forward, 0.05) << multiprocessors;
    EXPECT_NEAR(beyond(multiprocessors).backward, more.backward, 0.05) << multiprocessors;
  }
}

// Two parts, a step beyond the first; keys and values are half as many elements as queries. In
// units of the queries' 2 bytes: a filled output, two sums of 3, the keys' copy 1 and half of it
// without; merged, two differences of 6 and a GEMM of 4 in 32 bits, the keys' packing 1,
// two casts of 3 and one of 3.
TEST(UnfusedKernelsTest, RingsMergedIn32Bits) {
  ParallelMapping m;
  m.context = 2;
  m.ring = true;
  KernelForms forms;
  forms.wide_merges = true;
  const More more = Beyond(Grouped(), m, forms);
  EXPECT_NEAR(more.forward, (12 + 4 + 1 + 6 + 3) - (1 + 6 + 1.5), 0.01);
  // Without, of queries a copy 2 and a sum 3; of keys and values, half as many, a copy 1 of all and
  // 0.5 of the other part's half, their gradients put together 1 and 0.5, copied 0.5 and added 1.5.
  // Merged,
  // the keys' packing 1; sums of 5 bytes an element of 2: twice all queries and once the keys and
  // once half of them (10 + 2.5 + 1.25); three copies of the keys in 32 bits, 2 each; 1.5 cleared
  // in 32 bits, 3, and cast, 4.5.
  EXPECT_NEAR(more.backward, (1 + 10 + 2.5 + 1.25 + 6 + 3 + 4.5) - (2 + 3 + 5), 0.01);
}

// Compiled, forward instead a sum of 5 bytes an element of 2 and the keys' packing. Backward the
// sum for queries; of keys and values, half as many, the packing 1, a cast to 32 bits and back 1.5
// each and a kernel that reads 5 bytes and writes 4.
TEST(UnfusedKernelsTest, CompiledRings) {
  ParallelMapping m;
  m.context = 2;
  m.ring = true;
  KernelForms forms;
  forms.wide_merges = forms.compiled = true;
  const More more = Beyond(Grouped(), m, forms);
  EXPECT_NEAR(more.forward, (5 + 1) - (1 + 6 + 1.5), 0.01);
  EXPECT_NEAR(more.backward, (5 + 1 + 1.5 + 1.5 + 2.25) - (2 + 3 + 5), 0.01);
}

// They wait for what is exchanged, which others hide: keys and values of both parts once a pass, of
// 256 per token, and backward twice a part's bytes, in one message, after each of two steps. By
// rings 512 and 2,048 kB go once to the other device; at 1 kB an us and 2 us a step.
TEST(UnfusedKernelsTest, CompiledRingsWaitForExchanges) {
  ParallelMapping m;
  m.context = 2;
  m.ring = true;
  ClusterParameters p = MemoryAlone();
  p.forms.wide_merges = true;
  const auto longer = [&](bool compiled) {
    p.forms.compiled = compiled;
    const auto passes = [&](double gbps, double inside_us) {
      p.exchanges = Exchanges({.node_gbps = 1e6, .gather_gbps = gbps, .inside_us = inside_us});
      const auto times = TimePasses(Grouped(), m, p);
      EXPECT_TRUE(times.ok()) << times.status();
      return (times->layer_forward + times->layer_backward).us();
    };
    return passes(1, 2) - passes(1e6, 0);
  };
  const double part = 512.0 * 512 * 2 / 1e3;  // kB
  EXPECT_NEAR(longer(true), 2 * (part + 2) + 2 * (2 * part + 2), 1);
  EXPECT_LT(longer(false), longer(true) / 2);
}

// 16 heads' scores are 16 units of elements, queries, keys and values 3, what GELU takes 4,
// results 1.
TEST(UnfusedKernelsTest, StepsOfPlainLayers) {
  TransformerConfig c = Grouped();
  c.family = TransformerFamily::kGpt;
  c.kv_heads = c.heads;
  c.fused_attention = false;
  c.dropout = true;
  const auto beyond = [&](const auto& set) {
    KernelForms forms;
    set(forms);
    return Beyond(c, ParallelMapping(), forms);
  };
  const More scores = beyond([](KernelForms& f) { f.score_steps = 2; });
  EXPECT_NEAR(scores.forward, 2 * 16 * 2, 0.01);
  EXPECT_NEAR(scores.backward, 2 * 16 * 2, 0.01);
  const More heads = beyond([](KernelForms& f) { f.copies_heads = true; });
  EXPECT_NEAR(heads.forward, 3 * 2, 0.01);
  EXPECT_NEAR(heads.backward, 2 * 3 * 2, 0.01);
  // Eight kernels read 10 and write 8, eleven 17 and 11, of which one of 2 and one of 3 are fused.
  const More gelu = beyond([](KernelForms& f) { f.stepwise_gelu = true; });
  EXPECT_NEAR(gelu.forward, 4 * (18 - 2), 0.01);
  EXPECT_NEAR(gelu.backward, 4 * (28 - 3), 0.01);
  const More bias = beyond([](KernelForms& f) { f.separate_bias = true; });
  EXPECT_NEAR(bias.forward, 2 * (4 + 2), 0.01);
  EXPECT_NEAR(bias.backward, 0, 1e-9);
  EXPECT_NEAR(beyond([](KernelForms& f) { f.separate_dropout = true; }).forward, 2 * 2, 0.01);
  c.dropout = false;
  EXPECT_NEAR(beyond([](KernelForms& f) { f.separate_dropout = true; }).forward, 0, 1e-9);
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

// The whole operator was measured: a second.
class WholeOperators : public DeviceMeasurements {
 public:
  Estimate KernelTime(const KernelWork&) const override {
    return {SimTime::FromSeconds(1), EstimateSource::kCalibrated, false};
  }
  std::optional<Estimate> CollectiveTime(CollectiveOp, int32_t, Bytes) const override {
    return std::nullopt;
  }
  std::string Source() const override { return "test"; }
};

// 16 heads of 1,024 queries of 64. Beside the main kernel results and their gradients are read (4
// bytes) for a number of 4 bytes a row, queries' gradients cleared (4), read and cast (6); of heads
// that share 4 of keys and values their gradients are read once more, and the sums written.
TEST(UnfusedKernelsTest, KernelsAroundAttentionGradients) {
  ClusterParameters p = MemoryAlone();
  const double queries = 16.0 * 1024 * 64, rows = 16.0 * 1024;
  const auto beside = [&](int64_t key_heads) {
    const AttentionOp op{1, 16, key_heads, 1024, 1024, 64, true, true};
    const KernelWork work = Kernels({op, DType::kBFloat16, Direction::kBackward})[0];
    CostSources sources;
    const double seconds = KernelCoster(p).Time(work, sources).seconds();
    EXPECT_NEAR(sources.total(), seconds, 1e-9);
    return seconds * 1e9 - static_cast<double>(work.total_bytes());
  };
  EXPECT_NEAR(beside(16), 14 * queries + 4 * rows, 1);
  EXPECT_NEAR(beside(4), 14 * queries + 4 * rows + 4 * queries + queries, 1);
  const AttentionOp op{1, 16, 16, 1024, 1024, 64, true, true};
  CostSources sources;
  const auto seconds = [&](Direction pass) {
    return KernelCoster(p).Time(Kernels({op, DType::kBFloat16, pass})[0], sources).seconds();
  };
  EXPECT_NEAR(seconds(Direction::kForward) * 1e9, 8 * queries + 4 * rows, 1);
  p.measured = std::make_shared<const WholeOperators>();
  EXPECT_NEAR(seconds(Direction::kBackward), 1, 1e-9);
}

// Of 1,024 tokens over 2,048 words the logarithmic probabilities are written out (2 bytes read, 2
// written) and cast (2 and 4), twice. Of two tensor-parallel devices each has half of them.
TEST(UnfusedKernelsTest, LossesForTheRecord) {
  const auto more = [](int32_t tensor) {
    ParallelMapping m;
    m.tensor = tensor;
    ClusterParameters p = MemoryAlone();
    const auto without = TimePasses(Grouped(), m, p);
    p.recorded_losses = 2;
    const auto with = TimePasses(Grouped(), m, p);
    EXPECT_TRUE(without.ok() && with.ok());
    EXPECT_EQ(with->head_backward, without->head_backward);
    return (with->head_forward - without->head_forward).seconds() * 1e9;
  };
  EXPECT_NEAR(more(1), 2 * 10 * 1024.0 * 2048, 100);
  EXPECT_NEAR(more(2), 10 * 1024.0 * 2048, 100);
}

// A kernel takes a second at any head dimension. One that is twice as slow at 128 loses a second
// there and at 64 half of one, as its loss goes by the head dimension.
TEST(UnfusedKernelsTest, AttentionLosesByHeadDimension) {
  ClusterParameters p = MemoryAlone();
  p.measured = std::make_shared<const WholeOperators>();
  p.attention_slowdown = 2;
  const auto seconds = [&](int64_t depth) {
    const AttentionOp op{1, 16, 16, 1024, 1024, depth, true, true};
    CostSources sources;
    return KernelCoster(p)
        .Time(Kernels({op, DType::kBFloat16, Direction::kForward})[0], sources)
        .seconds();
  };
  EXPECT_NEAR(seconds(64), 2, 1e-9);
  p.attention_slowdown_depth = 128;
  EXPECT_NEAR(seconds(64), 1.5, 1e-9);
  EXPECT_NEAR(seconds(128), 2, 1e-9);
}

// Eight experts on four devices, two experts a token.
TransformerConfig Mixture() {
  TransformerConfig c = Grouped();
  c.experts = 8;
  c.top_k = 2;
  return c;
}
ParallelMapping TwoExpertsADevice() {
  ParallelMapping m;
  m.data = m.expert = 4;
  m.global_batch = 4;
  return m;
}

// Results of both experts, two tokens each, are put together; backward gradients of their inputs.
TEST(ExpertKernelsTest, OneExpertAfterAnother) {
  KernelForms forms;
  forms.sequential_experts = true;
  const More more = Beyond(Mixture(), TwoExpertsADevice(), forms);
  EXPECT_NEAR(more.forward, 4, 0.01);
  EXPECT_NEAR(more.backward, 4, 0.01);
  ParallelMapping one = TwoExpertsADevice();
  one.data = one.expert = 8;
  one.global_batch = 8;
  EXPECT_NEAR(Beyond(Mixture(), one, forms).forward, 0, 1e-9);
  EXPECT_NEAR(Beyond(Grouped(), ParallelMapping(), forms).forward, 0, 1e-9);
}

// Instead of results read twice and written once (3): their product with the weights (4), a cleared
// sum (1), read and written with the results (4). Backward instead of 5: gathered gradients (3),
// two GEMMs (4 and 6), a sum by row (2). And 27 and 16 kernels over 8 numbers a token.
TEST(ExpertKernelsTest, PaddedExperts) {
  KernelForms forms;
  forms.padded_experts = true;
  const More more = Beyond(Mixture(), TwoExpertsADevice(), forms);
  const double choices = 8 * 8 / 2048.0;
  EXPECT_NEAR(more.forward, 9 - 3 + 27 * choices, 0.01);
  EXPECT_NEAR(more.backward, 15 - 5 + 16 * choices, 0.01);
}

}  // namespace
}  // namespace foretrace
