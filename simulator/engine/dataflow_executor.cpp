#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "simulator/base/check.h"
#include "simulator/base/status_macros.h"
#include "simulator/engine/dataflow_state.h"
#include "simulator/engine/deadlock.h"
#include "simulator/engine/event_queue.h"
#include "simulator/engine/executor.h"
#include "simulator/engine/rendezvous.h"

namespace foretrace {
namespace {

constexpr uint32_t kKnown = ItemState::kKnown;
// What has to be decided in order of time, because it depends on who comes first. At one time what
// became ready earlier goes first, in program order; lanes take their next item last, when all that
// is ready for them is known.
struct Happening {
  enum class Kind : uint32_t { kRendezvous, kReady, kLaneTakes };
  SimTime time;
  SimTime since;  // kReady: when it first became ready; others: before or after all of these
  uint64_t place =
      0;  // from the top: kind, rank, item (kLaneTakes: the lane; kRendezvous: the rendezvous)

  static constexpr uint32_t kRankBits = 30;
  static constexpr uint32_t kItemBits = 32;
  static Happening Make(Kind kind, SimTime time, uint32_t rank, uint32_t item) {
    const SimTime since = kind == Kind::kReady        ? time
                          : kind == Kind::kRendezvous ? SimTime::Min()
                                                      : SimTime::Max();
    return {time, since,
            (static_cast<uint64_t>(kind) << kRankBits | uint64_t{rank}) << kItemBits | item};
  }
  Kind kind() const { return static_cast<Kind>(place >> (kRankBits + kItemBits)); }
  uint32_t rank() const {
    return static_cast<uint32_t>(place >> kItemBits) & ((uint32_t{1} << kRankBits) - 1);
  }
  uint32_t item() const { return static_cast<uint32_t>(place); }
  // Without branches: which of two events comes first is hard to predict.
  bool operator<(const Happening& other) const {
    const int by_place = place < other.place;
    const int by_since = int{since < other.since} | (int{since == other.since} & by_place);
    return (int{time < other.time} | (int{time == other.time} & by_since)) != 0;
  }
};

// What depends on nothing but constraints is settled at once, whatever its time. Only what competes
// (for a lane, for room on the device, for the network) goes through the queue.
class DataflowRun {
 public:
  DataflowRun(const Program& program, NetworkModel* network)
      : program_(program), tracker_(program, network) {
    FORETRACE_CHECK(program.ranks.size() < (size_t{1} << Happening::kRankBits));
    ranks_.reserve(program.ranks.size());
    for (const RankProgram& rank : program.ranks) ranks_.emplace_back(rank);
    missing_.reserve(program.rendezvous.size());
    for (const RendezvousProgram& rendezvous : program.rendezvous) {
      missing_.push_back(static_cast<uint32_t>(rendezvous.members.size()));
    }
  }

  absl::Status Run() {
    for (uint32_t r = 0; r < ranks_.size(); ++r) {
      for (uint32_t i = 0; i < ranks_[r].size(); ++i) {
        if (ranks_[r].items[i].before_start == 0) Ready(r, i);
      }
    }
    FORETRACE_RETURN_IF_ERROR(Settle());
    while (true) {
      const SimTime limit = queue_.empty() ? SimTime::Max() : queue_.Top().time;
      FORETRACE_ASSIGN_OR_RETURN(const std::vector<uint32_t> done, tracker_.AdvanceNetwork(limit));
      for (const uint32_t rendezvous : done) Complete(rendezvous);
      if (done.empty()) {
        if (queue_.empty()) return absl::OkStatus();
        Happen(queue_.Pop());
      }
      FORETRACE_RETURN_IF_ERROR(Settle());
    }
  }

  bool done() const {
    size_t items = 0;
    for (const DataflowRank& rank : ranks_) items += rank.size();
    return ended_ == items;
  }
  Schedule Take() {
    Schedule schedule;
    for (DataflowRank& rank : ranks_) {
      std::vector<Consumer>().swap(rank.consumers);
      schedule.ranks.push_back(rank.TakeSchedule());
      for (const SimTime end : schedule.ranks.back().end) {
        schedule.makespan = std::max(schedule.makespan, end);
      }
    }
    schedule.rendezvous_active = tracker_.TakeActive();
    schedule.rendezvous_source = tracker_.TakeSources();
    schedule.rendezvous_extrapolated = tracker_.TakeExtrapolated();
    return schedule;
  }
  absl::Status Deadlock(const TraceStore& store);

 private:
  struct Step {
    uint32_t rank = 0;
    uint32_t item = 0;
    bool end = false;  // else its start
  };

  // All constraints on the item's start are known.
  void Ready(uint32_t r, uint32_t i) {
    const ItemState& item = ranks_[r].items[i];
    if (!item.competes) {
      steps_.push_back({r, i, false});
      return;
    }
    const SimTime at = std::max(item.start, queue_.now());
    queue_.Push(Happening::Make(Happening::Kind::kReady, at, r, i));
  }

  absl::Status Settle() {
    while (!steps_.empty() || !gathered_.empty()) {
      if (!steps_.empty()) {
        const Step step = steps_.back();
        steps_.pop_back();
        step.end ? End(step.rank, step.item) : Begin(step.rank, step.item);
        continue;
      }
      const uint32_t rendezvous = gathered_.back();
      gathered_.pop_back();
      bool complete = false;
      for (const auto& member : program_.rendezvous[rendezvous].members) {
        FORETRACE_ASSIGN_OR_RETURN(
            complete, tracker_.Arrive(rendezvous, ranks_[member.rank].items[member.item].start));
      }
      if (complete) Complete(rendezvous);
    }
    return absl::OkStatus();
  }

  void Happen(const Happening& event) {
    switch (event.kind()) {
      case Happening::Kind::kRendezvous:
        gathered_.push_back(event.item());
        return;
      case Happening::Kind::kReady:
        Compete(event);
        return;
      case Happening::Kind::kLaneTakes:
        break;
    }
    LaneState& lane = ranks_[event.rank()].lanes[event.item()];
    std::pop_heap(lane.waiting.begin(), lane.waiting.end(), std::greater<>());
    const uint32_t next = lane.waiting.back();
    lane.waiting.pop_back();
    Take(event.time, event.rank(), next);
  }

  void Compete(const Happening& event) {
    const uint32_t r = event.rank();
    const RankProgram& program = program_.ranks[r];
    DataflowRank& rank = ranks_[r];
    if (program.contention) {
      const Item& item = program.items[event.item()];
      if (const SimTime room = RoomAt(event.time, r, item); room > event.time) {
        // Blocks are placed in the order in which kernels came to the device, so what comes to wait
        // here keeps its place before work that becomes ready later.
        Happening again = event;
        again.time = room;
        queue_.Push(again);
        return;
      }
    }
    const uint32_t l = rank.items[event.item()].lane;
    if (IsExclusive(program.lanes[l])) {
      LaneState& lane = rank.lanes[l];
      if (!lane.running && lane.waiting.empty()) TakeAt(lane.free_at, r, l);
      lane.waiting.push_back(event.item());
      std::push_heap(lane.waiting.begin(), lane.waiting.end(), std::greater<>());
      return;
    }
    Take(event.time, r, event.item());
  }

  // The item starts now.
  void Take(SimTime now, uint32_t r, uint32_t i) {
    DataflowRank& rank = ranks_[r];
    ItemState& state = rank.items[i];
    state.start = now;
    rank.lanes[state.lane].running = true;
    if (program_.ranks[r].contention) {
      const Item& item = program_.ranks[r].items[i];
      if (item.placement_share > 0) {
        rank.placing_until[state.lane] = now + PlacementTime(item);
      }
    }
    steps_.push_back({r, i, false});
  }

  // When the other streams' kernels have placed their blocks.
  SimTime RoomAt(SimTime now, uint32_t r, const Item& item) const {
    if (!item.needs_room) return now;
    SimTime room = now;
    const std::vector<SimTime>& placing_until = ranks_[r].placing_until;
    for (uint32_t l = 0; l < placing_until.size(); ++l) {
      if (l != item.lane) room = std::max(room, placing_until[l]);
    }
    return room;
  }

  void TakeAt(SimTime time, uint32_t r, uint32_t lane) {
    queue_.Push(
        Happening::Make(Happening::Kind::kLaneTakes, std::max(time, queue_.now()), r, lane));
  }

  // The item's start is known.
  void Begin(uint32_t r, uint32_t i) {
    ItemState& item = ranks_[r].items[i];
    item.before_start = kKnown;
    if (item.start_awaited) Notify(r, i, item.start, true);
    if (item.meets) {
      const uint32_t rendezvous = program_.ranks[r].items[i].rendezvous;
      if (program_.rendezvous[rendezvous].awaiting != Awaiting::kAll) {
        tracker_.ArriveAmongSome(rendezvous, r, i, item.start, known_ends_);
        TakeKnownEnds();
      } else if (--missing_[rendezvous] == 0) {
        Gather(rendezvous);
      }
      return;
    }
    if (item.fixed_length) {
      item.end = item.start + item.end;
    } else {
      item.end = std::max(item.end, item.start + program_.ranks[r].items[i].duration);
      if (item.before_end != 0) return;
    }
    End(r, i);
  }

  // All members have arrived where all await all. Whose transfer comes first matters where
  // transfers share a communicator or a network.
  void Gather(uint32_t rendezvous) {
    if (program_.rendezvous[rendezvous].fixed) {
      gathered_.push_back(rendezvous);
      return;
    }
    SimTime last = queue_.now();
    for (const auto& member : program_.rendezvous[rendezvous].members) {
      last = std::max(last, ranks_[member.rank].items[member.item].start);
    }
    queue_.Push(Happening::Make(Happening::Kind::kRendezvous, last, 0, rendezvous));
  }

  void Complete(uint32_t rendezvous) {
    tracker_.EndAll(rendezvous, known_ends_);
    TakeKnownEnds();
  }

  void TakeKnownEnds() {
    for (const auto& [rank, item, end] : known_ends_) {
      ranks_[rank].items[item].end = end;
      steps_.push_back({rank, item, true});
    }
    known_ends_.clear();
  }

  // The item's end is known.
  void End(uint32_t r, uint32_t i) {
    DataflowRank& rank = ranks_[r];
    ItemState& item = rank.items[i];
    const SimTime end = item.end;
    item.before_end = kKnown;
    ++ended_;
    if (item.end_awaited) Notify(r, i, end, false);
    const uint32_t l = item.lane;
    const RankProgram& program = program_.ranks[r];
    const LaneProgram& lane = program.lanes[l];
    if (IsInOrder(lane)) {
      if (i + 1 < lane.end) Satisfy(r, i + 1, end + program.items[i + 1].lead);
    } else if (IsExclusive(lane)) {
      LaneState& state = rank.lanes[l];
      state.running = false;
      state.free_at = end;
      if (!state.waiting.empty()) TakeAt(end, r, l);
    }
  }

  // Tells the consumers of an item that its start (or end) is known.
  void Notify(uint32_t r, uint32_t i, SimTime at, bool start) {
    DataflowRank& rank = ranks_[r];
    const uint32_t consumers_end = rank.items[i + 1].consumers_begin;
    for (uint32_t c = rank.items[i].consumers_begin; c < consumers_end; ++c) {
      const Consumer& consumer = rank.consumers[c];
      if (consumer.on_start != start) continue;
      if (!consumer.before_end) {
        Satisfy(r, consumer.item, at + rank.lags[consumer.lag]);
        continue;
      }
      ItemState& item = rank.items[consumer.item];
      item.end = std::max(item.end, at + rank.lags[consumer.lag]);
      if (--item.before_end == 0 && item.before_start == kKnown) {
        steps_.push_back({r, consumer.item, true});
      }
    }
  }

  // One more constraint on the item's start is known.
  void Satisfy(uint32_t r, uint32_t i, SimTime at) {
    ItemState& item = ranks_[r].items[i];
    item.start = std::max(item.start, at);
    if (--item.before_start == 0) Ready(r, i);
  }

  const Program& program_;
  RendezvousTracker tracker_;
  std::vector<DataflowRank> ranks_;
  EventQueue<Happening> queue_;
  std::vector<Step> steps_;         // known, to be told to those who wait
  std::vector<uint32_t> gathered_;  // rendezvous whose members are all there, at or before now
  std::vector<uint32_t> missing_;   // by rendezvous: members whose arrival is not known
  std::vector<RendezvousTracker::Ended> known_ends_;
  size_t ended_ = 0;
};

absl::Status DataflowRun::Deadlock(const TraceStore& store) {
  for (size_t m = 0; m < program_.rendezvous.size(); ++m) {
    if (missing_[m] == 0 || program_.rendezvous[m].awaiting != Awaiting::kAll) continue;
    for (const auto& member : program_.rendezvous[m].members) {
      const ItemState& item = ranks_[member.rank].items[member.item];
      if (!item.meets || item.before_start != kKnown) continue;
      FORETRACE_RETURN_IF_ERROR(tracker_.Arrive(static_cast<uint32_t>(m), item.start).status());
    }
  }
  for (DataflowRank& rank : ranks_) {
    for (ItemState& item : rank.items) {
      if (item.before_start != kKnown) item.start = kNotYet;
      if (item.before_end != kKnown) item.end = kNotYet;
    }
  }
  const RendezvousTracker tracker = tracker_;
  return DeadlockError(store, program_, Take(), tracker);
}

}  // namespace

absl::StatusOr<Schedule> RunDataflow(const TraceStore& store, const Program& program,
                                     NetworkModel* network) {
  DataflowRun run(program, network);
  FORETRACE_RETURN_IF_ERROR(run.Run());
  if (!run.done()) return run.Deadlock(store);
  return run.Take();
}

}  // namespace foretrace
