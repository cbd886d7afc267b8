// Where the difference between two steps comes from.
#include "simulator/replay/step_report.h"

#include <gtest/gtest.h>

#include "simulator/replay/run.h"
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

}  // namespace
}  // namespace foretrace
