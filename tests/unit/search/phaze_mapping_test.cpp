#include "simulator/search/phaze_mapping.h"

#include <gtest/gtest.h>

#include <optional>

#include "tests/support/round_links.h"

namespace foretrace {
namespace {

TransformerConfig Model(int64_t hidden, int64_t layers, int64_t heads) {
  TransformerConfig c;
  c.hidden = hidden;
  c.layers = layers;
  c.heads = heads;
  c.vocabulary = 51200;
  c.sequence = 2048;
  return c;
}

MappingSpace Space(int64_t devices, int32_t batch) {
  MappingSpace s;
  s.devices = devices;
  s.global_batch = batch;
  s.max_micro_batch = 8;
  s.max_tensor = 8;
  s.max_chunks = 1;
  s.max_zero = 0;
  s.sequence_parallel = false;
  return s;
}

// What the program may choose: no selective recomputation.
std::optional<Evaluation> BestOfAll(const TransformerConfig& model, const Evaluator& evaluator,
                                    const MappingSpace& space) {
  std::optional<Evaluation> best;
  for (const ParallelMapping& m : EnumerateMappings(model, space)) {
    if (m.recompute != Recompute::kNone && m.recompute != Recompute::kFull) continue;
    const auto found = evaluator.Evaluate(m);
    if (found.ok() && (!best || found->iteration < best->iteration)) best = *found;
  }
  return best;
}

// Its formula counts neither the optimizer nor what the first stage alone waits for, and every slot
// as long as the slowest stage, so its choice is near the best of the iterations, not always it.
TEST(PhazeMappingTest, CloseToTheBestOfItsMappings) {
  for (const auto& [model, devices, batch, gib] : {std::tuple(Model(2048, 24, 16), 8, 64, 40),
                                                   {Model(4096, 32, 32), 16, 32, 40},
                                                   {Model(6144, 44, 48), 16, 32, 80},
                                                   {Model(12288, 96, 96), 128, 128, 40}}) {
    const ClusterParameters cluster = FlatCluster();
    const Bytes capacity(int64_t{gib} << 30);
    const MappingSpace space = Space(devices, batch);
    const auto found = SearchPhazeMapping(model, cluster, capacity, space);
    ASSERT_TRUE(found.ok()) << found.status();
    const IterationEvaluator evaluator(model, cluster, capacity);
    const auto best = BestOfAll(model, evaluator, space);
    ASSERT_TRUE(best.has_value());
    const double seconds = found->ranked.evaluation.iteration.seconds();
    EXPECT_LE(seconds, 1.03 * best->iteration.seconds()) << ToString(found->ranked.mapping);
    EXPECT_NEAR(found->estimate.seconds() / seconds, 1, 0.1) << ToString(found->ranked.mapping);
    EXPECT_EQ(found->ranked.mapping.devices(), devices);
    RecordProperty(ToString(found->ranked.mapping),
                   fmt::format("{:.4f}, {:.4f} by the formula, {:.4f} best", seconds,
                               found->estimate.seconds(), best->iteration.seconds()));
  }
}

// 96 layers of 12,288 on 128 devices of 40 GiB take tensor parallelism and recomputation; of twice
// as much memory they keep what they can.
TEST(PhazeMappingTest, WidthsAndRecomputationFollowMemory) {
  const ClusterParameters cluster = FlatCluster();
  const auto model = Model(12288, 96, 96);
  const auto tight = SearchPhazeMapping(model, cluster, Bytes(int64_t{40} << 30), Space(128, 128));
  ASSERT_TRUE(tight.ok()) << tight.status();
  EXPECT_GT(tight->ranked.mapping.tensor, 1);
  EXPECT_EQ(tight->ranked.mapping.recompute, Recompute::kFull);
  const auto roomy = SearchPhazeMapping(model, cluster, Bytes(int64_t{320} << 30), Space(128, 128));
  ASSERT_TRUE(roomy.ok());
  EXPECT_EQ(roomy->ranked.mapping.recompute, Recompute::kNone);
  const auto none = SearchPhazeMapping(model, cluster, Bytes(1 << 30), Space(128, 128));
  EXPECT_EQ(none.status().code(), absl::StatusCode::kFailedPrecondition);
}

// Passes of an uneven pipeline's stages, as the program adds them up and as the iteration model
// does.
TEST(PhazeMappingTest, LayersAddUpToTheIterationModelsStages) {
  const ClusterParameters cluster = FlatCluster();
  const auto model = Model(4096, 12, 32);
  const auto layers =
      PhazeLayersOf(model, cluster, Bandwidth::GBps(100), PhazeOption{2, 1, RealSeconds(), false});
  ASSERT_TRUE(layers.ok()) << layers.status();
  ASSERT_EQ(layers->layers.size(), 12u);
  ParallelMapping m;
  m.tensor = 2;
  m.pipeline = 3;
  m.layers = {3, 5, 4};
  m.global_batch = 8;
  const auto passes = TimePasses(model, m, cluster);
  ASSERT_TRUE(passes.ok());
  const auto pipeline = PipelineOf(model, m, *passes);
  ASSERT_TRUE(pipeline.ok());
  size_t at = 0;
  for (size_t s = 0; s < 3; ++s) {
    double forward = 0, backward = 0;
    for (int32_t i = 0; i < m.layers[s]; ++i, ++at) {
      forward += layers->layers[at].forward.seconds();
      backward += layers->layers[at].backward.seconds();
    }
    EXPECT_NEAR(pipeline->stages[s].forward[0].seconds(), forward, 1e-9) << s;
    EXPECT_NEAR(pipeline->stages[s].backward[0].seconds(), backward, 1e-9) << s;
  }
}

}  // namespace
}  // namespace foretrace
