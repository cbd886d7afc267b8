// Bounds on the error of predicted steps against the step marks recorded in public traces
// (traces/README.md). Overheads and durations are the recorded ones; waits are simulated, as
// replay_no_leak_test.cpp proves. The bounds are those that the project promises, not the figures
// reached (docs/accuracy.md).
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "simulator/engine/ingredients.h"
#include "simulator/engine/replay.h"
#include "simulator/importers/import.h"
#include "tests/support/real_data.h"

namespace foretrace {
namespace {

struct StepErrorPercent {
  int32_t rank = 0;
  int64_t step = 0;
  bool first = false;
  double percent = 0;
};

std::vector<StepErrorPercent> StepErrors(const std::vector<std::string>& paths,
                                         const CompileOptions& options,
                                         std::optional<Ingredient> without = std::nullopt) {
  std::vector<StepErrorPercent> errors;
  const auto store = ImportTraces(paths, {});
  EXPECT_TRUE(store.ok()) << store.status();
  if (!store.ok()) return errors;
  auto job = Compile(*store, options);
  EXPECT_TRUE(job.ok()) << job.status();
  if (!job.ok()) return errors;
  if (without.has_value()) LeaveOut(*without, *job);
  const auto prediction = Replay(*store, *std::move(job), nullptr);
  EXPECT_TRUE(prediction.ok()) << prediction.status();
  if (!prediction.ok()) return errors;
  EXPECT_TRUE(prediction->marked_iterations);
  for (uint32_t r = 0; r < prediction->ranks.size(); ++r) {
    for (const PredictedIteration& it : prediction->ranks[r].iterations) {
      const double recorded = (it.recorded_end - it.recorded_start).us();
      const double predicted = (it.predicted_end - it.predicted_start).us();
      errors.push_back({store->ranks()[r].info().rank, it.number,
                        &it == &prediction->ranks[r].iterations.front(),
                        100.0 * (predicted / recorded - 1.0)});
    }
  }
  return errors;
}

double MeanAbsolute(const std::vector<StepErrorPercent>& errors, bool without_first) {
  double sum = 0;
  int count = 0;
  for (const StepErrorPercent& e : errors) {
    if (without_first && e.first) continue;
    sum += std::abs(e.percent);
    ++count;
  }
  return count == 0 ? 0 : sum / count;
}

CompileOptions MissingRanksAllowed() {
  CompileOptions options;
  options.allow_missing_ranks = true;
  return options;
}

const char* const kDlrmProfile = "param-et_replay/dlrm_kineto.tar.gz";
const char* const kDlrmGraph = "param-et_replay/dlrm_pytorch_et.tar.gz";

TEST(ReplayAccuracy, DlrmOnEightRanks) {
  FORETRACE_SKIP_WITHOUT(RealData(kDlrmProfile));
  FORETRACE_SKIP_WITHOUT(RealData(kDlrmGraph));
  const auto errors = StepErrors({RealData(kDlrmProfile), RealData(kDlrmGraph)}, {});
  ASSERT_EQ(errors.size(), 8u);
  for (const StepErrorPercent& e : errors) EXPECT_LE(std::abs(e.percent), 0.5) << "rank " << e.rank;
}

// What each ingredient is worth; a bound that a replay of recorded waits could not break.
TEST(ReplayAccuracy, DlrmNeedsEveryIngredient) {
  FORETRACE_SKIP_WITHOUT(RealData(kDlrmProfile));
  FORETRACE_SKIP_WITHOUT(RealData(kDlrmGraph));
  for (const Ingredient ingredient :
       {Ingredient::kRankSync, Ingredient::kStreamSync, Ingredient::kCpu, Ingredient::kBlocking}) {
    const auto errors = StepErrors({RealData(kDlrmProfile), RealData(kDlrmGraph)}, {}, ingredient);
    EXPECT_GT(MeanAbsolute(errors, false), 1.0);
  }
}

TEST(ReplayAccuracy, TraceDiffControl) {
  const std::string path = RealData("hta-traces/trace_diff/control");
  FORETRACE_SKIP_WITHOUT(path);
  const auto errors = StepErrors({path}, MissingRanksAllowed());
  ASSERT_GE(errors.size(), 2u);
  EXPECT_LE(MeanAbsolute(errors, true), 5.0);
}

TEST(ReplayAccuracy, ResNet50) {
  const std::string path =
      RealData("kineto-tb_plugin/resnet50_num_workers_0.worker0.1623143089861.pt.trace.json.gz");
  FORETRACE_SKIP_WITHOUT(path);
  const auto errors = StepErrors({path}, MissingRanksAllowed());
  ASSERT_EQ(errors.size(), 6u);
  for (const StepErrorPercent& e : errors) {
    if (!e.first) {
      EXPECT_LE(std::abs(e.percent), 0.5) << "step " << e.step;
    }
  }
}

TEST(ReplayAccuracy, NanosecondResolution) {
  const std::string path = RealData("hta-traces/ns_resolution_trace");
  FORETRACE_SKIP_WITHOUT(path);
  const auto errors = StepErrors({path}, MissingRanksAllowed());
  ASSERT_GE(errors.size(), 1u);
  EXPECT_LE(MeanAbsolute(errors, false), 0.5);
}

}  // namespace
}  // namespace foretrace
