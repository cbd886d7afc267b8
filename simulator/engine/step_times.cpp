#include "simulator/engine/step_times.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

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

// Numbers of the steps between whose marks some device starts work.
std::set<int64_t> StepsWithWork(const TraceStore& store, const Prediction& prediction) {
  std::set<int64_t> works;
  for (uint32_t r = 0; r < prediction.ranks.size(); ++r) {
    const std::vector<PredictedIteration>& steps = prediction.ranks[r].iterations;
    const RankProgram& program = prediction.job.program.ranks[r];
    for (uint32_t i = 0; i < program.items.size(); ++i) {
      if (!IsDeviceKind(store.ranks()[r].kind(program.items[i].node))) continue;
      const SimTime start = prediction.schedule.ranks[r].start[i];
      const auto after = std::upper_bound(
          steps.begin(), steps.end(), start,
          [](SimTime t, const PredictedIteration& it) { return t < it.predicted_start; });
      if (after == steps.begin() || start >= (after - 1)->predicted_end) continue;
      works.insert((after - 1)->number);
    }
  }
  return works;
}

// Of the steps that all ranks have, those between whose marks some device starts work, or all where
// none does; by the time of their slowest ranks.
std::vector<int64_t> StepsByTime(const TraceStore& store, const Prediction& prediction) {
  struct Step {
    size_t ranks = 0;
    SimTime longest;
  };
  std::map<int64_t, Step> steps;
  for (const PredictedRank& rank : prediction.ranks) {
    for (const PredictedIteration& it : rank.iterations) {
      Step& step = steps[it.number];
      ++step.ranks;
      step.longest = std::max(step.longest, it.predicted_end - it.predicted_start);
    }
  }
  std::erase_if(steps, [&](const auto& s) { return s.second.ranks != prediction.ranks.size(); });
  const std::set<int64_t> works = StepsWithWork(store, prediction);
  const bool any =
      std::ranges::any_of(steps, [&](const auto& s) { return works.contains(s.first); });
  std::vector<std::pair<SimTime, int64_t>> by_time;
  for (const auto& [number, step] : steps) {
    if (!any || works.contains(number)) by_time.emplace_back(step.longest, number);
  }
  std::sort(by_time.begin(), by_time.end());
  std::vector<int64_t> numbers;
  for (const auto& [time, number] : by_time) numbers.push_back(number);
  return numbers;
}

// How many places from the median one, the shorter of two, each is.
std::map<int64_t, size_t> FromMedian(const std::vector<int64_t>& numbers) {
  std::map<int64_t, size_t> places;
  for (size_t i = 0; i < numbers.size(); ++i) {
    const size_t middle = (numbers.size() - 1) / 2;
    places[numbers[i]] = std::max(i, middle) - std::min(i, middle);
  }
  return places;
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

std::optional<int64_t> RepresentativeStep(const TraceStore& store, const Prediction& prediction,
                                          const Prediction* unedited) {
  const std::vector<int64_t> numbers = StepsByTime(store, prediction);
  if (unedited == nullptr) {
    return numbers.empty() ? std::nullopt : std::optional(numbers[(numbers.size() - 1) / 2]);
  }
  const std::map<int64_t, size_t> changed = FromMedian(numbers);
  std::optional<std::tuple<size_t, size_t, int64_t>> best;  // in both, in the change's, number
  for (const auto& [number, place] : FromMedian(StepsByTime(store, *unedited))) {
    const auto at = changed.find(number);
    // A device that a change makes lag starts no work between the marks of later steps.
    const size_t with_change = at == changed.end() ? numbers.size() : at->second;
    const std::tuple candidate(place + with_change, with_change, number);
    if (!best || candidate < *best) best = candidate;
  }
  return best ? std::optional(std::get<2>(*best)) : std::nullopt;
}

}  // namespace foretrace
