#include "simulator/plan/greedy_schedule.h"

#include <algorithm>
#include <utility>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"

namespace foretrace {

absl::StatusOr<PassList> GreedySchedule(const TimedPipeline& successors,
                                        const std::vector<int32_t>& feeds, int32_t micro_batch,
                                        SimTime forward, SimTime backward) {
  if (micro_batch < 1 || successors.mini_batch % micro_batch != 0) {
    return InvalidInput("micro-batch size {} does not divide the mini-batch of {}", micro_batch,
                        successors.mini_batch);
  }
  TimedPipeline pipeline = successors;
  const auto self = static_cast<int32_t>(pipeline.stages.size());
  pipeline.stages.push_back({micro_batch, {}, {forward}, {backward}, {}});
  for (const int32_t to : feeds) pipeline.edges.push_back({self, 0, to, 0, {}, {}});
  const int32_t count = successors.mini_batch / micro_batch;
  // When the new stage ends under a schedule; Max if that cannot run.
  const auto end_of = [&](const PassList& passes) {
    pipeline.stages.back().passes = passes;
    const auto timing = TimePipeline(pipeline);
    return timing.ok() ? timing->stage_end.back() : SimTime::Max();
  };
  // Appends 1F1B from (forwards, backwards) done, starting with a forward pass.
  const auto complete = [&](PassList passes, int32_t forwards, int32_t backwards) {
    while (backwards < count) {
      if (forwards < count) passes.push_back({PassKind::kForward, forwards++, 0});
      passes.push_back({PassKind::kBackward, backwards++, 0});
    }
    return passes;
  };
  // By theorem 3.1 some monotonous 1F1B schedule is time-optimal.
  SimTime optimum = SimTime::Max();
  for (int32_t warmup = 1; warmup <= count; ++warmup) {
    optimum = std::min(optimum, end_of(KFKBSchedule(count, 1, warmup)));
  }
  if (optimum == SimTime::Max()) {
    return InvalidInput("the successors' schedules cannot run in front of this stage");
  }
  PassList passes = {{PassKind::kForward, 0, 0}};
  int32_t forwards = 1, backwards = 0;
  while (backwards < count) {
    bool back = forwards == count;
    if (!back && backwards < forwards) {
      PassList candidate = passes;
      candidate.push_back({PassKind::kBackward, backwards, 0});
      back = end_of(complete(std::move(candidate), forwards, backwards + 1)) == optimum;
    }
    if (back) {
      passes.push_back({PassKind::kBackward, backwards++, 0});
    } else {
      passes.push_back({PassKind::kForward, forwards++, 0});
    }
  }
  return passes;
}

}  // namespace foretrace
