#include <gtest/gtest.h>

#include "simulator/mapping/iteration_model.h"

namespace foretrace {
namespace {

// 4 devices of 100 TFLOP/s do 8e14 FLOP in 2 s; 2e14 of them are the model's.
TEST(ModelFlopUtilisation, IsModelFlopOverWhatTheDevicesCouldDo) {
  EXPECT_DOUBLE_EQ(
      ModelFlopUtilisation(Flop(2e14), SimTime::FromSeconds(2), FlopRate::Teraflops(100), 4), 0.25);
}

// GEMMs in fewer bits are told against the peak that they have, where the device's is stated.
TEST(ModelFlopUtilisation, IsOfWhatGemmsTake) {
  TransformerConfig model;
  model.hidden = 512;
  model.layers = 2;
  model.heads = 8;
  model.vocabulary = 1000;
  model.sequence = 128;
  model.dtype = DType::kBFloat16;
  ClusterParameters cluster;
  cluster.peak = FlopRate::Teraflops(100);
  ParallelMapping m;
  m.fp8 = true;
  EXPECT_EQ(PeakOf(m, cluster), FlopRate::Teraflops(100));
  const auto unknown = EstimateIteration(model, m, cluster);
  cluster.peak_fp8 = FlopRate::Teraflops(200);
  cluster.peak_fp4 = FlopRate::Teraflops(400);
  const auto known = EstimateIteration(model, m, cluster);
  ASSERT_TRUE(unknown.ok() && known.ok());
  EXPECT_DOUBLE_EQ(known->model_flop_utilisation, unknown->model_flop_utilisation / 2);
  EXPECT_EQ(PeakOf(ParallelMapping(), cluster), FlopRate::Teraflops(100));
  m.fp8 = false;
  m.mxfp8 = true;
  EXPECT_EQ(PeakOf(m, cluster), FlopRate::Teraflops(200));
  m.mxfp8 = false;
  m.nvfp4 = true;
  EXPECT_EQ(PeakOf(m, cluster), FlopRate::Teraflops(400));
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
