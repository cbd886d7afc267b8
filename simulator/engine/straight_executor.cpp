#include <algorithm>
#include <vector>

#include "simulator/base/check.h"
#include "simulator/base/status_macros.h"
#include "simulator/engine/deadlock.h"
#include "simulator/engine/executor.h"
#include "simulator/engine/rendezvous.h"

namespace foretrace {
namespace {

constexpr uint16_t kNoLane = 0xffff;

// One rank's lanes, each advanced until it meets something that is not known yet. A lane that
// cannot go on is parked on the item it waits for and taken up again when that item is known;
// lanes parked on one item form a list through next_waiter_.
class RankRunner {
 public:
  RankRunner(const Program& program, uint32_t rank, RendezvousTracker& tracker,
             std::vector<RendezvousTracker::Ended>& ended)
      : program_(program.ranks[rank]),
        rendezvous_(program.rendezvous),
        rank_(rank),
        tracker_(tracker),
        ended_(ended) {
    const size_t items = program_.items.size();
    schedule_.start.assign(items, kNotYet);
    schedule_.end.assign(items, kNotYet);
    waiter_.assign(items, kNoLane);
    FORETRACE_CHECK(program_.lanes.size() < kNoLane);
    next_waiter_.assign(program_.lanes.size(), kNoLane);
    cursor_.resize(program_.lanes.size());
    previous_end_.assign(program_.lanes.size(), program_.start);
    for (size_t l = program_.lanes.size(); l-- > 0;) {
      cursor_[l] = program_.lanes[l].begin;
      ready_.push_back(static_cast<uint16_t>(l));
    }
  }

  absl::Status Run() {
    while (!ready_.empty()) {
      const uint16_t lane = ready_.back();
      ready_.pop_back();
      FORETRACE_RETURN_IF_ERROR(RunLane(lane));
    }
    return absl::OkStatus();
  }

  // The end of a communication item has become known.
  void Finish(uint32_t item, SimTime end) {
    schedule_.end[item] = end;
    Wake(item);
  }

  bool has_ready() const { return !ready_.empty(); }
  bool done() const {
    for (size_t l = 0; l < cursor_.size(); ++l) {
      if (cursor_[l] != program_.lanes[l].end) return false;
    }
    return true;
  }
  RankSchedule& schedule() { return schedule_; }

 private:
  void Wake(uint32_t item) {
    uint16_t lane = waiter_[item];
    waiter_[item] = kNoLane;
    while (lane != kNoLane) {
      const uint16_t next = next_waiter_[lane];
      next_waiter_[lane] = kNoLane;
      ready_.push_back(lane);
      lane = next;
    }
  }

  void Park(uint16_t lane, uint32_t item) {
    next_waiter_[lane] = waiter_[item];
    waiter_[item] = lane;
  }

  // The item's start, or kNotYet after parking the lane on what it waits for.
  SimTime StartOf(uint16_t lane, uint32_t index, const Item& item) {
    SimTime start = previous_end_[lane] + item.lead;
    if (item.issuer != kNoItem) {
      const SimTime issued = schedule_.start[item.issuer];
      if (issued == kNotYet) {
        Park(lane, item.issuer);
        return kNotYet;
      }
      start = std::max(start, issued + item.issue_lag);
    }
    const uint32_t end = program_.waits_end(index);
    for (uint32_t w = item.waits_begin; w < end; ++w) {
      const ItemWait& wait = program_.waits[w];
      if (wait.before_end) continue;
      const SimTime at = wait.on_start ? schedule_.start[wait.item] : schedule_.end[wait.item];
      if (at == kNotYet) {
        Park(lane, wait.item);
        return kNotYet;
      }
      start = std::max(start, at + program_.lags[wait.lag]);
    }
    return start;
  }

  // A blocking call's end, or kNotYet after parking.
  SimTime BlockedEnd(uint16_t lane, uint32_t index, const Item& item) {
    SimTime end = schedule_.start[index] + item.duration;
    const uint32_t waits_end = program_.waits_end(index);
    for (uint32_t w = item.waits_begin; w < waits_end; ++w) {
      const ItemWait& wait = program_.waits[w];
      if (!wait.before_end) continue;
      const SimTime at = wait.on_start ? schedule_.start[wait.item] : schedule_.end[wait.item];
      if (at == kNotYet) {
        Park(lane, wait.item);
        return kNotYet;
      }
      end = std::max(end, at + program_.lags[wait.lag]);
    }
    return end;
  }

  absl::Status RunLane(uint16_t lane) {
    const uint32_t lane_end = program_.lanes[lane].end;
    while (cursor_[lane] < lane_end) {
      const uint32_t index = cursor_[lane];
      const Item& item = program_.items[index];
      if (schedule_.start[index] == kNotYet) {
        const SimTime start = StartOf(lane, index, item);
        if (start == kNotYet) return absl::OkStatus();
        schedule_.start[index] = start;
        if (item.kind == ItemKind::kComm) {
          if (waiter_[index] != kNoLane) Wake(index);
          FORETRACE_RETURN_IF_ERROR(Arrive(index, item.rendezvous, start));
        }
      }
      SimTime& end = schedule_.end[index];
      if (end == kNotYet) {
        switch (item.kind) {
          case ItemKind::kBlocking: {
            const SimTime blocked = BlockedEnd(lane, index, item);
            if (blocked == kNotYet) {
              // Lanes that wait for the start alone go on; the others park again.
              if (waiter_[index] != kNoLane) Wake(index);
              return absl::OkStatus();
            }
            end = blocked;
            break;
          }
          case ItemKind::kComm:
            Park(lane, index);
            return absl::OkStatus();
          default:
            end = schedule_.start[index] + item.duration;
        }
      }
      if (waiter_[index] != kNoLane) Wake(index);
      previous_end_[lane] = end;
      ++cursor_[lane];
    }
    return absl::OkStatus();
  }

  absl::Status Arrive(uint32_t index, uint32_t rendezvous, SimTime start) {
    const RendezvousProgram& program = rendezvous_[rendezvous];
    if (program.awaiting != Awaiting::kAll) {
      tracker_.ArriveAmongSome(rendezvous, rank_, index, start, ended_);
      return absl::OkStatus();
    }
    FORETRACE_ASSIGN_OR_RETURN(const bool complete, tracker_.Arrive(rendezvous, start));
    if (complete) tracker_.EndAll(rendezvous, ended_);
    return absl::OkStatus();
  }

  const RankProgram& program_;
  const std::vector<RendezvousProgram>& rendezvous_;
  uint32_t rank_;
  RendezvousTracker& tracker_;
  std::vector<RendezvousTracker::Ended>& ended_;
  RankSchedule schedule_;
  std::vector<uint16_t> waiter_;
  std::vector<uint16_t> next_waiter_;
  std::vector<uint32_t> cursor_;
  std::vector<SimTime> previous_end_;
  std::vector<uint16_t> ready_;
};

}  // namespace

absl::StatusOr<Schedule> RunStraight(const TraceStore& store, const Program& program,
                                     NetworkModel* network) {
  FORETRACE_CHECK(!NeedsDataflow(program));
  RendezvousTracker tracker(program, network);
  std::vector<RendezvousTracker::Ended> ended;
  std::vector<RankRunner> ranks;
  ranks.reserve(program.ranks.size());
  std::vector<uint32_t> runnable;
  for (uint32_t r = 0; r < program.ranks.size(); ++r) {
    ranks.emplace_back(program, r, tracker, ended);
    runnable.push_back(r);
  }
  const auto finish = [&] {
    for (const auto& [rank, item, end] : ended) {
      const bool idle = !ranks[rank].has_ready();
      ranks[rank].Finish(item, end);
      if (idle && ranks[rank].has_ready()) runnable.push_back(rank);
    }
    ended.clear();
  };
  while (true) {
    while (!runnable.empty()) {
      const uint32_t r = runnable.back();
      runnable.pop_back();
      FORETRACE_RETURN_IF_ERROR(ranks[r].Run());
      finish();
    }
    FORETRACE_ASSIGN_OR_RETURN(const std::vector<uint32_t> done,
                               tracker.AdvanceNetwork(SimTime::Max()));
    if (done.empty()) break;
    for (const uint32_t rendezvous : done) tracker.EndAll(rendezvous, ended);
    finish();
  }
  Schedule schedule;
  bool all_done = true;
  for (RankRunner& rank : ranks) {
    all_done = all_done && rank.done();
    schedule.ranks.push_back(std::move(rank.schedule()));
  }
  if (!all_done) return DeadlockError(store, program, schedule, tracker);
  schedule.rendezvous_active = tracker.TakeActive();
  schedule.rendezvous_source = tracker.TakeSources();
  schedule.rendezvous_extrapolated = tracker.TakeExtrapolated();
  for (const RankSchedule& rank : schedule.ranks) {
    for (const SimTime end : rank.end) schedule.makespan = std::max(schedule.makespan, end);
  }
  return schedule;
}

}  // namespace foretrace
