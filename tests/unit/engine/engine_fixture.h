#pragma once
// Predictions of scripted jobs with round latencies: launch 5 us, gap 1 us, event 2 us, a
// synchronise 3 us, its return 6 us after the device work.

#include <gtest/gtest.h>

#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "simulator/engine/edit.h"
#include "simulator/engine/ingredients.h"
#include "simulator/engine/replay.h"
#include "tests/support/job_script.h"
#include "tests/support/test_driver.h"

namespace foretrace {

inline CompileOptions RoundLatencies() {
  CompileOptions options;
  Latencies latencies;
  latencies.launch.fill(Us(5));
  latencies.gap.fill(Us(1));
  latencies.event.fill(Us(2));
  options.latencies = latencies;
  options.sync_costs = {Us(3), Us(6)};
  options.accelerators = &TestAccelerators();
  return options;
}

struct Outcome {
  TraceStore store;
  Prediction prediction;

  // The item's times, in microseconds.
  Span Ran(uint32_t rank, std::string_view name) const {
    const NodeIndex node = FindNode(store, rank, name);
    EXPECT_TRUE(node.valid()) << name;
    const RankProgram& program = prediction.job.program.ranks[rank];
    for (uint32_t i = 0; i < program.items.size(); ++i) {
      if (program.items[i].node != node) continue;
      const RankSchedule& schedule = prediction.schedule.ranks[rank];
      return {schedule.start[i].us(), schedule.end[i].us()};
    }
    ADD_FAILURE() << name << " was not executed";
    return {};
  }
};

inline Outcome SimulateJob(JobScript& script, const CompileOptions& options, NetworkModel* network,
                           EngineObserver* observer,
                           const std::function<void(CompiledJob&)>& edit) {
  TraceStore store = script.Build();
  std::vector<EngineObserver*> observers;
  if (observer != nullptr) observers.push_back(observer);
  auto job = Compile(store, options);
  if (!job.ok()) ADD_FAILURE() << job.status();
  FORETRACE_CHECK(job.ok());
  edit(*job);
  auto prediction = Replay(store, *std::move(job), network);
  if (!prediction.ok()) ADD_FAILURE() << prediction.status();
  FORETRACE_CHECK(prediction.ok());
  Tell(store, *prediction, observers, ProgramUse::kKeep);
  return {std::move(store), *std::move(prediction)};
}

inline Outcome Simulate(JobScript& script, const CompileOptions& options = RoundLatencies(),
                        NetworkModel* network = nullptr, EngineObserver* observer = nullptr,
                        const std::function<void(Program&)>& edit = nullptr) {
  return SimulateJob(script, options, network, observer, [&](CompiledJob& job) {
    if (edit != nullptr) edit(job.program);
  });
}

inline Outcome SimulateWithout(Ingredient ingredient, JobScript& script) {
  return SimulateJob(script, RoundLatencies(), nullptr, nullptr,
                     [&](CompiledJob& job) { LeaveOut(ingredient, job); });
}

#define EXPECT_RAN(outcome, rank, name, from, to) \
  do {                                            \
    const Span span = (outcome).Ran(rank, name);  \
    EXPECT_NEAR(span.start, from, 1e-6) << name;  \
    EXPECT_NEAR(span.end, to, 1e-6) << name;      \
  } while (false)

}  // namespace foretrace
