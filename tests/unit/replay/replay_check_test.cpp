// A replay is judged by the run at hand wherever that one replays the recording as it is.
#include "simulator/replay/replay_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "simulator/replay/run.h"
#include "tests/support/job_script.h"

namespace foretrace {
namespace {

using ::testing::HasSubstr;
using ::testing::Optional;

// One kernel of 900 us in a step of 1,000 us, for which the CPU waits.
TraceStore Job() {
  JobScript job(1);
  job.rank(0)
      .Step(0, {0, 1000})
      .Kernel("gemm", {10, 15}, 7, {20, 920})
      .Call("cudaDeviceSynchronize", RuntimeCall::kDeviceSynchronize, {30, 926});
  return job.Build();
}

// A run in which every step takes twice as long as it does, so that whoever looks at it doubts.
Prediction Slowed(Prediction prediction) {
  for (PredictedRank& rank : prediction.ranks) {
    for (PredictedIteration& it : rank.iterations) {
      it.predicted_end += it.predicted_end - it.predicted_start;
    }
  }
  return prediction;
}

struct Simulated {
  explicit Simulated(SimulationOptions options)
      : store(Job()), setup(*SimulationSetup::Make(options, store)) {
    prediction = *Simulate(store, setup, setup.compile(), setup.network(), &unedited);
  }
  TraceStore store;
  SimulationSetup setup;
  Prediction prediction;
  std::optional<Prediction> unedited;
};

TEST(DoubtOfReplay, NoneWhereTheReplayMatches) {
  Simulated run({});
  EXPECT_FALSE(run.unedited.has_value());
  EXPECT_EQ(*DoubtOfReplay(run.store, run.setup, run.prediction, nullptr), std::nullopt);
}

TEST(DoubtOfReplay, JudgesThePredictionAtHand) {
  Simulated run({});
  EXPECT_THAT(*DoubtOfReplay(run.store, run.setup, Slowed(run.prediction), nullptr),
              Optional(HasSubstr("step 0 of rank 0 takes")));
}

TEST(DoubtOfReplay, JudgesTheUneditedRunOfAWhatIf) {
  SimulationOptions options;
  options.what_if = {"name=gemm:x3"};
  Simulated run(options);
  ASSERT_TRUE(run.unedited.has_value());
  // The edited run differs from the recording on purpose.
  EXPECT_EQ(*DoubtOfReplay(run.store, run.setup, run.prediction, &*run.unedited), std::nullopt);
  const Prediction slowed = Slowed(*run.unedited);
  EXPECT_THAT(*DoubtOfReplay(run.store, run.setup, run.prediction, &slowed),
              Optional(HasSubstr("step 0 of rank 0 takes")));
}

TEST(DoubtOfReplay, ReplaysOnceMoreWhereTheRunIsAnother) {
  SimulationOptions options;
  options.without = {"blocking"};
  Simulated run(options);
  EXPECT_EQ(*DoubtOfReplay(run.store, run.setup, Slowed(run.prediction), nullptr), std::nullopt);
}

TEST(DoubtOfReplay, NamesDeviceWorkThatIsMissingAltogether) {
  JobScript job(1);
  job.rank(0)
      .Step(0, {0, 1000})
      .Call("cudaLaunchKernel", RuntimeCall::kLaunchKernel, {10, 15})
      .Call("cudaLaunchKernel", RuntimeCall::kLaunchKernel, {20, 25});
  const TraceStore store = job.Build();
  const SimulationSetup setup = *SimulationSetup::Make({}, store);
  const Prediction prediction = *Simulate(store, setup, setup.compile(), setup.network());
  EXPECT_THAT(*DoubtOfReplay(store, setup, prediction, nullptr),
              Optional(HasSubstr("lacks the device work of 2 of 2 launches")));
}

}  // namespace
}  // namespace foretrace
