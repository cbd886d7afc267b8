#include <gtest/gtest.h>

#include "simulator/mapping/iteration_model.h"

namespace foretrace {
namespace {

// 4 devices of 100 TFLOP/s do 8e14 FLOP in 2 s; 2e14 of them are the model's.
TEST(ModelFlopUtilisation, IsModelFlopOverWhatTheDevicesCouldDo) {
  EXPECT_DOUBLE_EQ(
      ModelFlopUtilisation(Flop(2e14), SimTime::FromSeconds(2), FlopRate::Teraflops(100), 4), 0.25);
}

// Nothing waits for anything: not by what rounding leaves either.
TEST(BubbleTest, OfOneStageIsNone) {
  TransformerConfig model;
  model.hidden = 512;
  model.layers = 7;
  model.heads = 8;
  model.vocabulary = 1000;
  model.sequence = 128;
  ParallelMapping m;
  for (m.global_batch = 1; m.global_batch < 60; ++m.global_batch) {
    const auto estimate = EstimateIteration(model, m, ClusterParameters());
    ASSERT_TRUE(estimate.ok()) << estimate.status();
    EXPECT_EQ(estimate->bubble, 0) << m.global_batch;
  }
}

}  // namespace
}  // namespace foretrace
