#include "simulator/engine/repeat.h"

#include <algorithm>
#include <utility>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/engine/executor.h"

namespace foretrace {
namespace {

// Copies are added until the period settles, up to so many, and so many items in all.
constexpr uint32_t kFewestCopies = 4;
constexpr uint32_t kMostCopies = 32;
constexpr uint64_t kMostItems = 16'000'000;
constexpr double kSettled = 1e-4;

// The items of one step of one rank, by lane.
class StepItems {
 public:
  StepItems(const RankTrace& trace, const RankProgram& program, const IterationItems& step,
            const IterationItems* before)
      : trace_(trace), program_(program), step_(step), place_(program.items.size(), kNoItem) {
    items_.resize(program.lanes.size());
    for (size_t l = 0; l < program.lanes.size(); ++l) {
      const LaneProgram& lane = program.lanes[l];
      if (!lane.cpu) continue;
      if (l == 0) {
        const uint32_t begin = before != nullptr ? before->end_item + 1 : step.begin_item;
        for (uint32_t i = begin; i <= step.end_item; ++i) Add(l, i);
        continue;
      }
      const SimTime from = before != nullptr ? before->recorded_end : step.recorded_begin;
      for (uint32_t i = lane.begin; i < lane.end; ++i) {
        const SimTime at = trace.start(program.items[i].node);
        if (at >= from && at < step.recorded_end) Add(l, i);
      }
    }
    for (size_t l = 0; l < program.lanes.size(); ++l) {
      const LaneProgram& lane = program.lanes[l];
      if (lane.cpu) continue;
      AddStream(l, lane);
    }
  }

  const std::vector<uint32_t>& lane(size_t l) const { return items_[l]; }
  size_t lanes() const { return items_.size(); }
  bool Has(uint32_t item) const { return place_[item] != kNoItem; }
  // Position on its lane within the step.
  uint32_t PlaceOf(uint32_t item) const { return place_[item]; }

 private:
  void Add(size_t l, uint32_t i) {
    place_[i] = static_cast<uint32_t>(items_[l].size());
    items_[l].push_back(i);
  }
  // Streams are first in, first out: work without a launch in the recording belongs with what was
  // issued before it, and to no step where it was in flight when the recording began.
  void AddStream(size_t l, const LaneProgram& lane) {
    const auto begin = program_.items.begin() + lane.begin;
    const auto end = program_.items.begin() + lane.end;
    const bool has_launches =
        std::any_of(begin, end, [](const Item& item) { return item.issuer != kNoItem; });
    bool in_step = false;
    for (uint32_t i = lane.begin; i < lane.end; ++i) {
      const Item& item = program_.items[i];
      if (item.issuer != kNoItem) in_step = Has(item.issuer);
      if (has_launches ? in_step : RanWithin(item)) Add(l, i);
    }
  }
  bool RanWithin(const Item& item) const {
    const SimTime at = trace_.start(item.node);
    return at >= step_.recorded_begin && at < step_.recorded_end;
  }

  const RankTrace& trace_;
  const RankProgram& program_;
  const IterationItems& step_;
  std::vector<uint32_t> place_;  // by item; kNoItem: not in the step
  std::vector<std::vector<uint32_t>> items_;
};

// Writes the copies of one rank.
class RankRepeater {
 public:
  RankRepeater(const RankTrace& trace, const RankProgram& from, const StepItems& step,
               const IterationItems& marks, bool first_step, uint32_t copies)
      : trace_(trace),
        from_(from),
        step_(step),
        marks_(marks),
        first_step_(first_step),
        copies_(copies) {}

  RankProgram Run(std::vector<RepeatedStep::Lane>& lanes) {
    lanes_ = &lanes;
    to_.lags = from_.lags;
    to_.contention = from_.contention;
    to_.fences = from_.fences;
    to_.launch_queue_depth = from_.launch_queue_depth;
    size_t items = 0;
    for (size_t l = 0; l < step_.lanes(); ++l) {
      const auto count = static_cast<uint32_t>(step_.lane(l).size());
      lanes.push_back({static_cast<uint32_t>(items), count});
      items += size_t{count} * copies_;
    }
    to_.items.reserve(items);
    for (size_t l = 0; l < step_.lanes(); ++l) AddLane(l);
    AddLaunchQueue(to_, waits_);
    SetWaits(to_, std::move(waits_));
    return std::move(to_);
  }

  // Where an item of the step is in a copy.
  uint32_t ItemOf(uint32_t item, uint32_t copy) const {
    const RepeatedStep::Lane& lane = (*lanes_)[from_.items[item].lane];
    return lane.begin + copy * lane.count + step_.PlaceOf(item);
  }

 private:
  // What a wait for an item means in a copy; kNoItem: for what came before the first.
  uint32_t ProducerOf(uint32_t item, uint32_t copy) const {
    if (step_.Has(item)) return ItemOf(item, copy);
    const uint32_t l = from_.items[item].lane;
    const RepeatedStep::Lane& lane = (*lanes_)[l];
    if (lane.count == 0 || step_.lane(l).front() <= item) return kNoItem;
    const uint32_t back = step_.lane(l).front() - item;  // places before the step's first
    const uint64_t place = uint64_t{copy} * lane.count;
    return back > place ? kNoItem : lane.begin + static_cast<uint32_t>(place - back);
  }

  void AddLane(size_t l) {
    LaneProgram lane = from_.lanes[l];
    lane.begin = static_cast<uint32_t>(to_.items.size());
    for (uint32_t copy = 0; copy < copies_; ++copy) {
      for (const uint32_t i : step_.lane(l)) AddItem(l, i, copy);
    }
    lane.end = static_cast<uint32_t>(to_.items.size());
    to_.lanes.push_back(lane);
  }

  void AddItem(size_t l, uint32_t i, uint32_t copy) {
    const auto index = static_cast<uint32_t>(to_.items.size());
    Item item = from_.items[i];
    const bool first = i == step_.lane(l).front();
    // The begin of the first step comes after whatever the recording began with.
    if (from_.lanes[l].cpu && first && (first_step_ || l != 0)) {
      item.lead = SimTime();
    } else {
      AddOverheads(i, index);
    }
    if (item.issuer != kNoItem) item.issuer = ItemOf(item.issuer, copy);
    if (!from_.lanes[l].cpu && i == from_.lanes[l].begin) item.lead = GapOf(from_.lanes[l]);
    to_.items.push_back(item);
    for (uint32_t w = from_.items[i].waits_begin; w < from_.waits_end(i); ++w) {
      ItemWait wait = from_.waits[w];
      // Launch queues are counted anew; other waits for a start are for work of before the
      // recording.
      if (wait.on_start) continue;
      wait.item = ProducerOf(wait.item, copy);
      if (wait.item != kNoItem) waits_.push_back({index, wait});
    }
    // Other threads keep their distance from the main one.
    if (from_.lanes[l].cpu && l != 0 && first) {
      const SimTime after = trace_.start(item.node) - marks_.recorded_begin;
      const uint32_t lag = to_.lags.Add(std::max(after, SimTime()));
      waits_.push_back(
          {index, {ItemOf(marks_.begin_item, copy), lag, true, false, WaitCause::kDependency}});
    }
  }

  // Of a stream's first work, which followed nothing in the recording, as of that after it.
  SimTime GapOf(const LaneProgram& lane) const {
    for (uint32_t i = lane.begin + 1; i < lane.end; ++i) {
      if (from_.items[i].issuer != kNoItem) return from_.items[i].lead;
    }
    return SimTime();
  }

  void AddOverheads(uint32_t item, uint32_t copied) {
    auto part = std::lower_bound(from_.overheads.begin(), from_.overheads.end(), item,
                                 [](const OverheadPart& p, uint32_t i) { return p.item < i; });
    for (; part != from_.overheads.end() && part->item == item; ++part) {
      to_.overheads.push_back(*part);
      to_.overheads.back().item = copied;
    }
  }

  const RankTrace& trace_;
  const RankProgram& from_;
  const StepItems& step_;
  const IterationItems& marks_;
  bool first_step_;
  uint32_t copies_;
  RankProgram to_;
  std::vector<RepeatedStep::Lane>* lanes_ = nullptr;
  std::vector<WaitOfItem> waits_;
};

absl::Status RepeatRendezvous(const Program& program, const std::vector<StepItems>& steps,
                              const std::vector<RankRepeater>& ranks, uint32_t copies,
                              Program& repeated) {
  for (const RendezvousProgram& rendezvous : program.rendezvous) {
    size_t inside = 0;
    for (const auto& m : rendezvous.members) inside += steps[m.rank].Has(m.item);
    if (inside == 0) continue;
    if (inside != rendezvous.members.size()) {
      return absl::NotFoundError("some of its communication lies in other steps on other ranks");
    }
    for (uint32_t copy = 0; copy < copies; ++copy) {
      const auto id = static_cast<uint32_t>(repeated.rendezvous.size());
      RendezvousProgram next = rendezvous;
      for (auto& m : next.members) {
        m.item = ranks[m.rank].ItemOf(m.item, copy);
        repeated.ranks[m.rank].items[m.item].rendezvous = id;
      }
      repeated.rendezvous.push_back(std::move(next));
    }
  }
  return absl::OkStatus();
}

}  // namespace

SimTime RepeatedStep::CpuDone(const Schedule& schedule, size_t rank, uint32_t copy) const {
  // The last item of the main timeline's copy is the end mark.
  const Lane& lane = lanes[rank].front();
  return schedule.ranks[rank].start[lane.begin + (copy + 1) * lane.count - 1];
}

SimTime RepeatedStep::Done(const Schedule& schedule, size_t rank, uint32_t copy) const {
  SimTime done = CpuDone(schedule, rank, copy);
  for (size_t l = 0; l < lanes[rank].size(); ++l) {
    if (program.ranks[rank].lanes[l].cpu) continue;
    const Lane& lane = lanes[rank][l];
    const auto begin = schedule.ranks[rank].end.begin() + lane.begin + copy * lane.count;
    for (auto end = begin; end != begin + lane.count; ++end) done = std::max(done, *end);
  }
  return done;
}

SimTime RepeatedStep::Took(const Schedule& schedule, uint32_t from, uint32_t to) const {
  SimTime longest;
  for (size_t r = 0; r < lanes.size(); ++r) {
    longest = std::max(longest, Done(schedule, r, to) - Done(schedule, r, from));
  }
  return longest;
}

SimTime RepeatedStep::CpuTook(const Schedule& schedule, uint32_t from, uint32_t to) const {
  SimTime longest;
  for (size_t r = 0; r < lanes.size(); ++r) {
    longest = std::max(longest, CpuDone(schedule, r, to) - CpuDone(schedule, r, from));
  }
  return longest;
}

std::optional<RepeatedStep::Pace> RepeatedStep::PaceOf(const Schedule& schedule,
                                                       SimTime tolerance) const {
  Pace pace;
  for (size_t r = 0; r < lanes.size(); ++r) {
    const RankProgram& rank = program.ranks[r];
    const std::vector<SimTime>& end = schedule.ranks[r].end;
    SimTime cpu, device;
    bool blocks = false;
    for (size_t l = 0; l < lanes[r].size(); ++l) {
      const Lane& lane = lanes[r][l];
      if (lane.count == 0) continue;
      const auto step = [&](uint32_t copy, uint32_t i) {
        const uint32_t item = lane.begin + copy * lane.count + i;
        return end[item] - end[item - lane.count];
      };
      const SimTime all = step(copies - 1, 0);
      for (uint32_t i = 0; i < lane.count; ++i) {
        for (const uint32_t copy : {copies - 2, copies - 1}) {
          const SimTime own = step(copy, i);
          if (own > all + tolerance || all > own + tolerance) return std::nullopt;
        }
        blocks |= rank.items[lane.begin + i].kind == ItemKind::kBlocking;
      }
      SimTime& of_kind = rank.lanes[l].cpu ? cpu : device;
      of_kind = std::max(of_kind, all);
    }
    pace.slowest = std::max({pace.slowest, cpu, device});
    pace.gets_ahead |= blocks && cpu + tolerance < device;
  }
  return pace;
}

absl::StatusOr<RepeatedStep> RepeatStep(const TraceStore& store, const Program& program,
                                        int64_t step, uint32_t copies) {
  RepeatedStep repeated;
  repeated.copies = copies;
  std::vector<StepItems> steps;
  std::vector<RankRepeater> repeaters;
  steps.reserve(program.ranks.size());
  repeaters.reserve(program.ranks.size());
  repeated.lanes.resize(program.ranks.size());
  for (uint32_t r = 0; r < program.ranks.size(); ++r) {
    const RankProgram& rank = program.ranks[r];
    const IterationItems* marks = nullptr;
    const IterationItems* before = nullptr;
    for (const IterationItems& it : rank.iterations) {
      if (it.begin_item == kNoItem || it.end_item == kNoItem) continue;
      if (it.number == step) {
        marks = &it;
        break;
      }
      before = &it;
    }
    if (marks == nullptr) return absl::NotFoundError("it is not marked on every rank");
    steps.emplace_back(store.ranks()[r], rank, *marks, before);
    repeaters.emplace_back(store.ranks()[r], rank, steps.back(), *marks, before == nullptr, copies);
  }
  for (uint32_t r = 0; r < program.ranks.size(); ++r) {
    repeated.program.ranks.push_back(repeaters[r].Run(repeated.lanes[r]));
  }
  FORETRACE_RETURN_IF_ERROR(RepeatRendezvous(program, steps, repeaters, copies, repeated.program));
  return repeated;
}

absl::StatusOr<SteadyState> FindSteadyState(const TraceStore& store, const Program& program,
                                            int64_t step, NetworkModel* network) {
  if (network != nullptr && network->contends()) {
    return absl::NotFoundError("transfers contend in the network");
  }
  SteadyState steady;
  steady.step = step;
  for (uint32_t copies = kFewestCopies; copies <= kMostCopies; copies *= 2) {
    if (copies > kFewestCopies && copies * (program.item_count() / kFewestCopies) > kMostItems) {
      break;
    }
    FORETRACE_ASSIGN_OR_RETURN(const RepeatedStep repeated,
                               RepeatStep(store, program, step, copies));
    FORETRACE_ASSIGN_OR_RETURN(const Schedule schedule, Execute(store, repeated.program, network));
    const uint32_t half = copies / 2 - 1;
    const auto mean = [&](SimTime whole) {
      return SimTime::FromPs(whole.ps() / (copies - 1 - half));
    };
    steady.copies = copies;
    steady.period = mean(repeated.Took(schedule, half, copies - 1));
    steady.cpu_period = mean(repeated.CpuTook(schedule, half, copies - 1));
    const auto pace = repeated.PaceOf(schedule, steady.period.ScaledBy(kSettled));
    steady.settled = pace.has_value() && (!pace->gets_ahead || copies == kMostCopies);
    if (steady.settled) {
      steady.period = pace->slowest;
      steady.cpu_period = repeated.CpuTook(schedule, copies - 2, copies - 1);
    }
    if (steady.settled) break;
  }
  return steady;
}

}  // namespace foretrace
