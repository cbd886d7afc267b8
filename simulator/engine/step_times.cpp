#include "simulator/engine/step_times.h"

#include <algorithm>
#include <map>

namespace foretrace {
namespace {

// Which step of a rank issued an item; kNoItem: none.
class StepOf {
 public:
  StepOf(const RankTrace& trace, const RankProgram& program) : trace_(trace), program_(program) {
    for (const IterationItems& it : program.iterations) {
      if (it.begin_item != kNoItem && it.end_item != kNoItem) steps_.push_back(&it);
    }
  }
  size_t count() const { return steps_.size(); }
  const IterationItems& step(size_t s) const { return *steps_[s]; }

  uint32_t operator()(const Item& item) const {
    if (item.issuer == kNoItem) return kNoItem;
    const Item& call = program_.items[item.issuer];
    const bool main = call.lane == 0;
    const SimTime at = trace_.start(call.node);
    // Steps are in order of time.
    const auto after = std::upper_bound(
        steps_.begin(), steps_.end(), item.issuer, [&](uint32_t issuer, const IterationItems* it) {
          return main ? issuer < it->begin_item : at < it->recorded_begin;
        });
    if (after == steps_.begin()) return kNoItem;
    const IterationItems& it = **(after - 1);
    const bool within = main ? item.issuer < it.end_item : at < it.recorded_end;
    return within ? static_cast<uint32_t>(after - 1 - steps_.begin()) : kNoItem;
  }

 private:
  const RankTrace& trace_;
  const RankProgram& program_;
  std::vector<const IterationItems*> steps_;
};

void SetPeriods(std::vector<MeasuredStep>& steps) {
  for (size_t s = 1; s < steps.size(); ++s) {
    for (StepTimes MeasuredStep::*times : {&MeasuredStep::predicted, &MeasuredStep::recorded}) {
      (steps[s].*times).period = (steps[s].*times).done - (steps[s - 1].*times).done;
    }
  }
}

}  // namespace

std::vector<std::vector<MeasuredStep>> MeasureSteps(const TraceStore& store,
                                                    const Prediction& prediction) {
  if (prediction.job.symbolic) {
    return std::vector<std::vector<MeasuredStep>>(store.ranks().size());
  }
  return MeasureSteps(store, prediction.job.program, prediction.schedule);
}

std::vector<std::vector<MeasuredStep>> MeasureSteps(const TraceStore& store, const Program& job,
                                                    const Schedule& schedule) {
  std::vector<std::vector<MeasuredStep>> ranks(store.ranks().size());
  for (uint32_t r = 0; r < ranks.size(); ++r) {
    const RankTrace& trace = store.ranks()[r];
    const RankProgram& program = job.ranks[r];
    const RankSchedule& times = schedule.ranks[r];
    const StepOf step_of(trace, program);
    std::vector<MeasuredStep>& steps = ranks[r];
    for (size_t s = 0; s < step_of.count(); ++s) {
      const IterationItems& it = step_of.step(s);
      MeasuredStep step;
      step.number = it.number;
      step.predicted.done = times.start[it.end_item];
      step.recorded.done = it.recorded_end;
      steps.push_back(step);
    }
    for (uint32_t i = 0; i < program.items.size(); ++i) {
      const uint32_t s = step_of(program.items[i]);
      if (s == kNoItem) continue;
      steps[s].predicted.done = std::max(steps[s].predicted.done, times.end[i]);
      steps[s].recorded.done = std::max(steps[s].recorded.done, trace.end(program.items[i].node));
    }
    for (size_t s = 0; s < steps.size(); ++s) {
      const IterationItems& it = step_of.step(s);
      const SimTime begin = times.start[it.begin_item];
      steps[s].predicted.cpu = times.start[it.end_item] - begin;
      steps[s].predicted.completion = steps[s].predicted.done - begin;
      steps[s].recorded.cpu = it.recorded_end - it.recorded_begin;
      steps[s].recorded.completion = steps[s].recorded.done - it.recorded_begin;
    }
    SetPeriods(steps);
  }
  return ranks;
}

std::optional<int64_t> RepresentativeStep(const TraceStore& store, const Prediction& prediction) {
  struct Step {
    size_t ranks = 0;
    SimTime longest;
    bool works = false;
  };
  std::map<int64_t, Step> steps;
  for (uint32_t r = 0; r < prediction.ranks.size(); ++r) {
    std::vector<const PredictedIteration*> of_rank;
    for (const PredictedIteration& it : prediction.ranks[r].iterations) {
      Step& step = steps[it.number];
      ++step.ranks;
      step.longest = std::max(step.longest, it.predicted_end - it.predicted_start);
      of_rank.push_back(&it);
    }
    const RankProgram& program = prediction.job.program.ranks[r];
    for (uint32_t i = 0; i < program.items.size(); ++i) {
      if (!IsDeviceKind(store.ranks()[r].kind(program.items[i].node))) continue;
      const SimTime start = prediction.schedule.ranks[r].start[i];
      const auto after = std::upper_bound(
          of_rank.begin(), of_rank.end(), start,
          [](SimTime t, const PredictedIteration* it) { return t < it->predicted_start; });
      if (after == of_rank.begin() || start >= (*(after - 1))->predicted_end) continue;
      steps[(*(after - 1))->number].works = true;
    }
  }
  std::erase_if(steps, [&](const auto& s) { return s.second.ranks != prediction.ranks.size(); });
  const bool any =
      std::any_of(steps.begin(), steps.end(), [](const auto& s) { return s.second.works; });
  std::vector<std::pair<SimTime, int64_t>> by_time;
  for (const auto& [number, step] : steps) {
    if (step.works || !any) by_time.emplace_back(step.longest, number);
  }
  if (by_time.empty()) return std::nullopt;
  std::sort(by_time.begin(), by_time.end());
  return by_time[(by_time.size() - 1) / 2].second;
}

}  // namespace foretrace
