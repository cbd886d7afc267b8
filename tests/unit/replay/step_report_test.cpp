// Where the difference between two steps comes from.
#include "simulator/replay/step_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "simulator/engine/step_times.h"
#include "simulator/replay/run.h"
#include "simulator/replay/step_explanation.h"
#include "tests/support/job_script.h"

namespace foretrace {
namespace {

// Two ranks that exchange for 500 us in a group that no trace names.
TraceStore Job() {
  JobScript job(2);
  for (size_t r = 0; r < 2; ++r) {
    job.rank(r)
        .Step(0, {0, 1000})
        .Kernel("gemm", {10, 15}, 7, {20, 320})
        .Collective("ncclAllReduce", CollectiveOp::kAllReduce, "", {330, 335}, 20, {400, 900})
        .Call("cudaDeviceSynchronize", RuntimeCall::kDeviceSynchronize, {340, 906});
  }
  return job.Build();
}

ExplainedRun Explained(const TraceStore& store, std::vector<std::string> what_if) {
  SimulationOptions options;
  options.what_if = std::move(what_if);
  const SimulationSetup setup = *SimulationSetup::Make(options, store);
  std::optional<Prediction> unedited;
  Prediction prediction = *Simulate(store, setup, setup.compile(), setup.network(), &unedited);
  return *ExplainedRun::Make(store, prediction, 0, false);
}

TEST(Differences, NameGroupsThatNoTraceNames) {
  const TraceStore store = Job();
  const ExplainedRun before = Explained(store, {});
  const ExplainedRun after = Explained(store, {"kind=collective:x2"});
  const std::vector<StepCause> causes = Differences(before, after);
  ASSERT_EQ(causes.size(), 1U);
  EXPECT_EQ(causes.front().what, "communication: all_reduce of stream 20 of ranks 0,1");
  EXPECT_EQ(causes.front().difference(), Us(500));
}

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Prediction Replayed(const TraceStore& store) {
  const SimulationSetup setup = *SimulationSetup::Make({}, store);
  return *Simulate(store, setup, setup.compile(), setup.network());
}

StepSummary Steady(double period_us, double completion_us) {
  StepSummary summary;
  summary.period = Us(period_us);
  summary.completion = Us(completion_us);
  return summary;
}

// Steps of 1,000 us, each of which launches a kernel that is at work until 300 us after its end.
TraceStore Lagging() {
  JobScript job(1);
  for (int s = 0; s < 3; ++s) {
    const double t = 1000.0 * s;
    job.rank(0).Step(s, {t, t + 1000}).Kernel("gemm", {t + 500, t + 505}, 7, {t + 510, t + 1300});
  }
  return job.Build();
}

// The first step is three times as long as the others. With kernels twenty times as long, only its
// own starts between its marks; the step that stands for all is one of the others all the same.
TEST(ExplainStep, OfAChangeThatMakesTheDeviceLagIsOneOfMany) {
  JobScript job(1);
  for (int s = 0; s < 4; ++s) {
    const double t = s == 0 ? 0 : 2000 + 1000.0 * s, end = 3000 + 1000.0 * s;
    job.rank(0).Step(s, {t, end}).Kernel("gemm", {t + 500, t + 505}, 7, {t + 510, t + 810});
  }
  const TraceStore store = job.Build();
  SimulationOptions options;
  options.what_if = {"name=gemm:x20"};
  const SimulationSetup setup = *SimulationSetup::Make(options, store);
  std::optional<Prediction> unedited;
  Prediction prediction = *Simulate(store, setup, setup.compile(), setup.network(), &unedited);
  ASSERT_TRUE(unedited.has_value());
  EXPECT_EQ(RepresentativeStep(store, prediction), 0);
  const auto report = ExplainStep(store, setup, {}, prediction, &*unedited);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->iteration, testing::Optional(testing::Gt(0)));
}

// A device that lags no further behind with each step has other steps' work between their marks.
TEST(WindowsOfDevice, OfStepsThatAreCompleteLateButGoOnAsFast) {
  const TraceStore store = Lagging();
  const Prediction prediction = Replayed(store);
  const DeviceWindows windows = WindowsOfDevice(store, prediction, 1, Steady(1000, 1300));
  EXPECT_EQ(windows.window, StepWindow::kCompletions);
  ASSERT_EQ(windows.ranks.size(), 1U);
  EXPECT_EQ(windows.ranks[0].predicted(), Us(1000));
  EXPECT_EQ(windows.ranks[0].recorded_start - windows.ranks[0].recorded_end, Us(-1000));
  EXPECT_THAT(NoteOfWindows(1, Steady(1000, 1300), Us(1000), windows.window),
              AllOf(HasSubstr("ahead of its device"), HasSubstr("completion of the step before")));
  EXPECT_EQ(WindowsOfDevice(store, prediction, 1, Steady(1000, 1010)).window, StepWindow::kMarks);
  EXPECT_EQ(WindowsOfDevice(store, prediction, 1, std::nullopt).window, StepWindow::kMarks);
}

TEST(WindowsOfDevice, OfAFirstStepBeginAtItsMark) {
  const TraceStore store = Lagging();
  const DeviceWindows windows = WindowsOfDevice(store, Replayed(store), 0, Steady(1000, 1300));
  EXPECT_EQ(windows.window, StepWindow::kUntilDone);
  ASSERT_EQ(windows.ranks.size(), 1U);
  EXPECT_NEAR(windows.ranks[0].predicted().us(), 1300, 5);
  EXPECT_THAT(NoteOfWindows(0, Steady(1000, 1300), Us(1000), windows.window),
              HasSubstr("from its begin mark"));
}

// Work of step 0 on a stream that nothing waits for ends after all of step 1.
TEST(WindowsOfDevice, OfAStepThatEndsBeforeTheOneBeforeBeginAtItsMark) {
  JobScript job(1);
  job.rank(0)
      .Step(0, {0, 1000})
      .Kernel("long", {10, 15}, 8, {20, 5020})
      .Step(1, {1000, 2000})
      .Kernel("gemm", {1500, 1505}, 7, {1510, 2300});
  const TraceStore store = job.Build();
  const Prediction prediction = Replayed(store);
  const DeviceWindows windows = WindowsOfDevice(store, prediction, 1, Steady(1000, 1300));
  EXPECT_EQ(windows.window, StepWindow::kUntilDone);
  ASSERT_EQ(windows.ranks.size(), 1U);
  EXPECT_NEAR(windows.ranks[0].predicted().us(), 1300, 5);
  EXPECT_EQ(windows.ranks[0].recorded_end - windows.ranks[0].recorded_start, Us(1300));
  EXPECT_FALSE(ExplainedRun::HasPeriod(store, prediction, 1));
}

TEST(NoteOfWindows, OfACpuThatWorksBetweenTheMarks) {
  EXPECT_THAT(NoteOfWindows(1, Steady(1500, 1000), Us(1000), StepWindow::kCompletions),
              AllOf(HasSubstr("from one step's end mark"), Not(HasSubstr("ahead"))));
}

// What comes to a stop as recorded is the recording's fault, and nobody else's.
TEST(Simulate, SaysWhatToDoAboutARecordingThatStops) {
  JobScript job(2);
  for (int r = 0; r < 2; ++r) {
    const std::string first = r == 0 ? "a" : "b", second = r == 0 ? "b" : "a";
    job.rank(static_cast<size_t>(r))
        .Group("a", {0, 1})
        .Group("b", {0, 1})
        .Collective("ar " + first, CollectiveOp::kAllReduce, first, {0, 4}, 20, {9, 19})
        .Collective("ar " + second, CollectiveOp::kAllReduce, second, {5, 9}, 20, {29, 39});
  }
  const TraceStore store = job.Build();
  const auto error = [&](const SimulationOptions& options) {
    const SimulationSetup setup = *SimulationSetup::Make(options, store);
    return std::string(Simulate(store, setup, setup.compile(), setup.network()).status().message());
  };
  EXPECT_THAT(error({}), AllOf(HasSubstr("script: deadlock: "), HasSubstr("record them again")));
  SimulationOptions scaled;
  scaled.cpu_scale = 2;
  EXPECT_THAT(error(scaled), AllOf(HasSubstr("deadlock: "), Not(HasSubstr("record them again"))));
}

}  // namespace
}  // namespace foretrace
