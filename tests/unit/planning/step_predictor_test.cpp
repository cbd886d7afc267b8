#include "simulator/planning/serving/step_predictor.h"

#include <gtest/gtest.h>

namespace foretrace {
namespace {

// Equal batches take equal times, whatever was asked in between (tests/bench/serving_bench.cpp says
// how long a call takes).
TEST(StepPredictor, TimesAreOfTheBatchAlone) {
  ServingOptions options;
  options.model = "llama3.1-8b";
  options.platform = "dgx-h100";
  const auto steps = MakeStepPredictor(options);
  ASSERT_TRUE(steps.ok()) << steps.status();
  serve::StepBatch batch;
  batch.prefills = {{512, 0}, {700, 300}};
  for (int i = 0; i < 64; ++i) batch.AddDecode(1000 + i);
  const double first = (*steps)->Time(batch).us();
  EXPECT_GT(first, 5000);
  EXPECT_LT(first, 100000);
  serve::StepBatch longer = batch;
  longer.decode_cached += 100'000;
  EXPECT_GT((*steps)->Time(longer).us(), first);
  EXPECT_EQ((*steps)->Time(batch).us(), first);
}

TEST(StepPredictor, TwoDevicesAreFasterThanOne) {
  ServingOptions options;
  options.model = "llama3.1-70b";
  options.platform = "dgx-h100";
  const auto one = MakeStepPredictor(options);
  options.parallel = "tp2";
  const auto two = MakeStepPredictor(options);
  ASSERT_TRUE(one.ok() && two.ok());
  serve::StepBatch batch;
  for (int i = 0; i < 16; ++i) batch.AddDecode(500);
  const double alone = (*one)->Time(batch).us(), both = (*two)->Time(batch).us();
  EXPECT_LT(both, 0.8 * alone);
  EXPECT_GT(both, 0.5 * alone);
}

}  // namespace
}  // namespace foretrace
