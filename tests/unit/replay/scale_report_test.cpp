// Between which times a step on more ranks lies.
#include "simulator/replay/scale/scale_report.h"

#include <gtest/gtest.h>

#include "simulator/replay/absent_ranks.h"
#include "simulator/replay/run.h"
#include "tests/support/job_script.h"

namespace foretrace {
namespace {

// Rank 0 of two. Each step all-reduces for 500 us, most of which it may have waited for rank 1.
TraceStore OneOfTwo(int64_t steps) {
  JobScript job(1, 2);
  for (int64_t s = 0; s < steps; ++s) {
    const auto at = [s](double us) { return 1000.0 * static_cast<double>(s) + us; };
    const std::string n = std::to_string(s);
    job.rank(0)
        .Group("dp", {0, 1})
        .Step(s, {at(0), at(1000)})
        .Kernel("gemm" + n, {at(10), at(15)}, 7, {at(20), at(320)})
        .Collective("reduce" + n, CollectiveOp::kAllReduce, "dp", {at(392), at(396)}, 20,
                    {at(400), at(900)})
        .Call("cudaDeviceSynchronize", RuntimeCall::kDeviceSynchronize, {at(398), at(906)});
  }
  return job.Build();
}

ScaleOutSummary Scaled(const TraceStore& store, int32_t ranks, std::string absent = "alike") {
  SimulationOptions options;
  options.allow_missing_ranks = true;
  options.ranks = ranks;
  options.platform = "dgx-a100";
  options.absent = std::move(absent);
  const SimulationSetup setup = *SimulationSetup::Make(options, store);
  std::optional<Prediction> unedited;
  const Prediction prediction =
      *Simulate(store, setup, setup.compile(), setup.network(), &unedited);
  const std::optional<StepSummary> no_step;
  const auto interval = *IntervalOfAbsentRanks(store, setup, prediction, 0, StepWindow::kMarks);
  return **SummarizeScaleOut(
      store, setup,
      {0, prediction, unedited.has_value() ? &*unedited : nullptr, no_step, interval});
}

TEST(ScaleReport, WaitsThatNothingTellsFromTransfersAreDoubted) {
  const ScaleOutSummary found = Scaled(OneOfTwo(1), 2);
  EXPECT_NEAR(found.expected.us(), 1000, 1);
  EXPECT_EQ(found.last_at_hand, found.last_late);  // nobody joins
  EXPECT_LT(found.lower.us(), 600);                // 500 us less what 1000 bytes take
  EXPECT_GT(found.lower.us(), 495);
  EXPECT_GE(found.upper, found.expected);
}

TEST(ScaleReport, OthersOfTheKindTellThem) {
  const ScaleOutSummary found = Scaled(OneOfTwo(3), 2);
  EXPECT_NEAR(found.lower.us(), 1000, 1);
}

TEST(ScaleReport, TheIntervalHoldsWhatWasRecordedWhateverIsAssumed) {
  for (const char* absent : {"alike", "never-last", "as-recorded"}) {
    const ScaleOutSummary found = Scaled(OneOfTwo(3), 2, absent);
    EXPECT_LE(found.lower.us(), 1000) << absent;
    EXPECT_GE(found.upper.us(), 999.9) << absent;
  }
}

}  // namespace
}  // namespace foretrace
