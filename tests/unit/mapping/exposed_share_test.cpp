// The share of an iteration in which devices only communicate.
#include <gtest/gtest.h>

#include "simulator/mapping/iteration_model.h"
#include "tests/support/random_mapping.h"
#include "tests/support/round_links.h"

namespace foretrace {
namespace {

// Four layers on two stages, the first two dense: the first stage exchanges nothing within its
// passes, the second the tokens of two layers of experts, 2 x 8 micro-batches; each then reduces
// its gradients.
TEST(ExposedShareTest, IsTheMeanOverStages) {
  TransformerConfig model = TinyTransformer(4);
  model.experts = 8;
  model.top_k = 2;
  model.dense_first = 2;
  model.dense_ffn = 4096;
  model.tied = false;
  ParallelMapping m;
  m.pipeline = 2;
  m.data = m.expert = 4;
  m.micro_batch = 1;
  m.global_batch = 4 * 8;
  ClusterParameters cluster;
  cluster.exchanges = Exchanges();
  const auto estimate = EstimateIteration(model, m, cluster);
  ASSERT_TRUE(estimate.ok()) << estimate.status();
  const PassTimes& passes = estimate->passes;
  ASSERT_EQ(passes.others.size(), 1u);
  EXPECT_EQ(passes.others[0]->LayerExchanges(), SimTime());
  ASSERT_GT(passes.LayerExchanges(), SimTime());
  const SimTime reduced = passes.gradient_reduction + passes.expert_reduction;
  const double waited = 8 * 2 * passes.LayerExchanges().seconds() + 2 * reduced.seconds();
  EXPECT_NEAR(estimate->exposed_communication, waited / (2 * estimate->time.seconds()), 1e-9);
}

}  // namespace
}  // namespace foretrace
