#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "simulator/base/check.h"
#include "simulator/base/status_macros.h"
#include "simulator/des/event_queue.h"
#include "simulator/engine/deadlock.h"
#include "simulator/engine/executor.h"
#include "simulator/engine/rendezvous.h"

namespace foretrace {
namespace {

constexpr SimTime kUnknown = SimTime::Min();
constexpr uint32_t kKnown = 0xffffffff;

// What has to be decided in order of time, because it depends on who comes first. At one time what
// became ready earlier goes first, in program order; lanes take their next item last, when all that
// is ready for them is known.
struct Happening {
  enum class Kind : uint32_t { kMeeting, kReady, kLaneTakes };
  SimTime time;
  SimTime since;       // kReady: when it first became ready; others: before or after all of these
  uint32_t place = 0;  // kind and rank
  uint32_t item = 0;   // kLaneTakes: the lane; kMeeting: the meeting

  static constexpr uint32_t kRankBits = 30;
  static Happening Make(Kind kind, SimTime time, uint32_t rank, uint32_t item) {
    const SimTime since = kind == Kind::kReady     ? time
                          : kind == Kind::kMeeting ? SimTime::Min()
                                                   : SimTime::Max();
    return {time, since, static_cast<uint32_t>(kind) << kRankBits | rank, item};
  }
  Kind kind() const { return static_cast<Kind>(place >> kRankBits); }
  uint32_t rank() const { return place & ((uint32_t{1} << kRankBits) - 1); }
  bool operator<(const Happening& other) const {
    if (time != other.time) return time < other.time;
    if (since != other.since) return since < other.since;
    if (place != other.place) return place < other.place;
    return item < other.item;
  }
};

// Who waits for an item.
struct Consumer {
  SimTime lag;
  uint32_t item = 0;
  bool on_start = false;
  bool before_end = false;
};

// How many constraints of an item are not known yet; kKnown once its start, or end, is.
struct Progress {
  uint32_t before_start = 0;
  uint32_t before_end = 0;
};

// A lane whose items exclude each other and run when ready; of those that wait, the first in program
// order. A rank issues its work in that order, so that an early microbatch is not held up by later
// ones that happened to be ready before it.
struct LaneState {
  bool running = false;  // and the end is not known yet
  SimTime free_at = SimTime::Min();
  std::vector<uint32_t> waiting;  // a min-heap of items, which are numbered in program order
};

struct RankState {
  // Until a start or end is known, the latest of its constraints so far.
  RankSchedule schedule;
  std::vector<Progress> progress;
  std::vector<uint32_t> consumers_begin;  // of an item; the next of a lane in order is left out
  std::vector<Consumer> consumers;
  std::vector<LaneState> lanes;
  // By lane: until when the work that runs there still has blocks to place.
  std::vector<SimTime> placing_until;
};

// What depends on nothing but constraints is settled at once, whatever its time. Only what competes
// (for a lane, for room on the device, for the network) goes through the queue.
class DataflowRun {
 public:
  DataflowRun(const Program& program, NetworkModel* network)
      : program_(program), rendezvous_(program, network) {
    FORETRACE_CHECK(program.ranks.size() < (size_t{1} << Happening::kRankBits));
    for (const RankProgram& rank : program.ranks) ranks_.push_back(Prepare(rank));
    missing_.assign(program.meetings.size(), 0);
    for (size_t m = 0; m < program.meetings.size(); ++m) {
      for (const auto& member : program.meetings[m].members) {
        missing_[m] += !program.ranks[member.rank].items[member.item].eager;
      }
    }
  }

  absl::Status Run() {
    for (uint32_t r = 0; r < ranks_.size(); ++r) {
      for (uint32_t i = 0; i < ranks_[r].progress.size(); ++i) {
        if (ranks_[r].progress[i].before_start == 0) Ready(r, i);
      }
    }
    FORETRACE_RETURN_IF_ERROR(Settle());
    while (true) {
      const SimTime limit = queue_.empty() ? SimTime::Max() : queue_.Top().time;
      FORETRACE_ASSIGN_OR_RETURN(const std::vector<uint32_t> done,
                                 rendezvous_.AdvanceNetwork(limit));
      for (const uint32_t meeting : done) Complete(meeting);
      if (done.empty()) {
        if (queue_.empty()) return absl::OkStatus();
        Happen(queue_.Pop());
      }
      FORETRACE_RETURN_IF_ERROR(Settle());
    }
  }

  bool done() const {
    size_t items = 0;
    for (const RankState& rank : ranks_) items += rank.progress.size();
    return ended_ == items;
  }
  Schedule Take() {
    Schedule schedule;
    for (RankState& rank : ranks_) {
      for (const SimTime end : rank.schedule.end) {
        schedule.makespan = std::max(schedule.makespan, end);
      }
      schedule.ranks.push_back(std::move(rank.schedule));
    }
    schedule.meeting_active = rendezvous_.TakeActive();
    schedule.meeting_source = rendezvous_.TakeSources();
    schedule.meeting_extrapolated = rendezvous_.TakeExtrapolated();
    return schedule;
  }
  absl::Status Deadlock(const TraceStore& store);

 private:
  struct Step {
    uint32_t rank = 0;
    uint32_t item = 0;
    bool end = false;  // else its start
  };

  static bool Exclusive(const LaneProgram& lane) { return lane.ready_order && !lane.unlimited; }
  static bool InOrder(const LaneProgram& lane) { return !lane.ready_order && !lane.unlimited; }
  static RankState Prepare(const RankProgram& rank);

  // All constraints on the item's start are known.
  void Ready(uint32_t r, uint32_t i) {
    const RankProgram& rank = program_.ranks[r];
    const Item& item = rank.items[i];
    const bool competes = Exclusive(rank.lanes[item.lane]) ||
                          (rank.contention && (item.needs_room || item.placement_share > 0));
    if (!competes) {
      steps_.push_back({r, i, false});
      return;
    }
    const SimTime at = std::max(ranks_[r].schedule.start[i], queue_.now());
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
      const uint32_t meeting = gathered_.back();
      gathered_.pop_back();
      bool complete = false;
      for (const auto& member : program_.meetings[meeting].members) {
        if (program_.ranks[member.rank].items[member.item].eager) continue;
        FORETRACE_ASSIGN_OR_RETURN(
            complete,
            rendezvous_.Arrive(meeting, ranks_[member.rank].schedule.start[member.item]));
      }
      if (complete) Complete(meeting);
    }
    return absl::OkStatus();
  }

  void Happen(const Happening& event) {
    switch (event.kind()) {
      case Happening::Kind::kMeeting: gathered_.push_back(event.item); return;
      case Happening::Kind::kReady: Compete(event); return;
      case Happening::Kind::kLaneTakes: break;
    }
    LaneState& lane = ranks_[event.rank()].lanes[event.item];
    std::pop_heap(lane.waiting.begin(), lane.waiting.end(), std::greater<>());
    const uint32_t next = lane.waiting.back();
    lane.waiting.pop_back();
    Take(event.time, event.rank(), next);
  }

  void Compete(const Happening& event) {
    const uint32_t r = event.rank();
    const RankProgram& rank = program_.ranks[r];
    const Item& item = rank.items[event.item];
    if (const SimTime room = RoomAt(event.time, r, item); room > event.time) {
      // Blocks are placed in the order in which kernels came to the device, so what comes to wait
      // here keeps its place before work that becomes ready later.
      Happening again = event;
      again.time = room;
      queue_.Push(again);
      return;
    }
    if (Exclusive(rank.lanes[item.lane])) {
      LaneState& lane = ranks_[r].lanes[item.lane];
      if (!lane.running && lane.waiting.empty()) TakeAt(lane.free_at, r, item.lane);
      lane.waiting.push_back(event.item);
      std::push_heap(lane.waiting.begin(), lane.waiting.end(), std::greater<>());
      return;
    }
    Take(event.time, r, event.item);
  }

  // The item starts now.
  void Take(SimTime now, uint32_t r, uint32_t i) {
    RankState& rank = ranks_[r];
    const Item& item = program_.ranks[r].items[i];
    rank.schedule.start[i] = now;
    rank.lanes[item.lane].running = true;
    if (item.placement_share > 0) {
      rank.placing_until[item.lane] =
          now + item.duration.ScaledBy(static_cast<double>(item.placement_share) / 65536.0);
    }
    steps_.push_back({r, i, false});
  }

  // When the other streams' kernels have placed their blocks.
  SimTime RoomAt(SimTime now, uint32_t r, const Item& item) const {
    if (!program_.ranks[r].contention || !item.needs_room) return now;
    SimTime room = now;
    const std::vector<SimTime>& placing_until = ranks_[r].placing_until;
    for (uint32_t l = 0; l < placing_until.size(); ++l) {
      if (l != item.lane) room = std::max(room, placing_until[l]);
    }
    return room;
  }

  void TakeAt(SimTime time, uint32_t r, uint32_t lane) {
    queue_.Push(Happening::Make(Happening::Kind::kLaneTakes, std::max(time, queue_.now()), r, lane));
  }

  // The item's start is known.
  void Begin(uint32_t r, uint32_t i) {
    RankState& rank = ranks_[r];
    const Item& item = program_.ranks[r].items[i];
    const SimTime start = rank.schedule.start[i];
    rank.progress[i].before_start = kKnown;
    Notify(r, i, start, true);
    if (item.kind == ItemKind::kComm && !item.eager) {
      if (--missing_[item.meeting] == 0) Gather(item.meeting);
      return;
    }
    rank.schedule.end[i] = std::max(rank.schedule.end[i], start + item.duration);
    if (rank.progress[i].before_end == 0) End(r, i);
  }

  // All members of a meeting have arrived. Whose transfer comes first matters where transfers share
  // a communicator or a network.
  void Gather(uint32_t meeting) {
    if (program_.meetings[meeting].fixed) {
      gathered_.push_back(meeting);
      return;
    }
    SimTime last = queue_.now();
    for (const auto& member : program_.meetings[meeting].members) {
      if (program_.ranks[member.rank].items[member.item].eager) continue;
      last = std::max(last, ranks_[member.rank].schedule.start[member.item]);
    }
    queue_.Push(Happening::Make(Happening::Kind::kMeeting, last, 0, meeting));
  }

  void Complete(uint32_t meeting) {
    for (const auto& member : program_.meetings[meeting].members) {
      const Item& item = program_.ranks[member.rank].items[member.item];
      if (item.eager) continue;
      ranks_[member.rank].schedule.end[member.item] = rendezvous_.EndOf(meeting, item);
      steps_.push_back({member.rank, member.item, true});
    }
  }

  // The item's end is known.
  void End(uint32_t r, uint32_t i) {
    RankState& rank = ranks_[r];
    const RankProgram& program = program_.ranks[r];
    const SimTime end = rank.schedule.end[i];
    rank.progress[i].before_end = kKnown;
    ++ended_;
    Notify(r, i, end, false);
    const uint32_t l = program.items[i].lane;
    const LaneProgram& lane = program.lanes[l];
    if (InOrder(lane)) {
      if (i + 1 < lane.end) Satisfy(r, i + 1, end + program.items[i + 1].lead);
    } else if (Exclusive(lane)) {
      LaneState& state = rank.lanes[l];
      state.running = false;
      state.free_at = end;
      if (!state.waiting.empty()) TakeAt(end, r, l);
    }
  }

  // Tells the consumers of an item that its start (or end) is known.
  void Notify(uint32_t r, uint32_t i, SimTime at, bool start) {
    RankState& rank = ranks_[r];
    for (uint32_t c = rank.consumers_begin[i]; c < rank.consumers_begin[i + 1]; ++c) {
      const Consumer& consumer = rank.consumers[c];
      if (consumer.on_start != start) continue;
      if (!consumer.before_end) {
        Satisfy(r, consumer.item, at + consumer.lag);
        continue;
      }
      SimTime& end = rank.schedule.end[consumer.item];
      end = std::max(end, at + consumer.lag);
      Progress& progress = rank.progress[consumer.item];
      if (--progress.before_end == 0 && progress.before_start == kKnown) {
        steps_.push_back({r, consumer.item, true});
      }
    }
  }

  // One more constraint on the item's start is known.
  void Satisfy(uint32_t r, uint32_t i, SimTime at) {
    RankState& rank = ranks_[r];
    rank.schedule.start[i] = std::max(rank.schedule.start[i], at);
    if (--rank.progress[i].before_start == 0) Ready(r, i);
  }

  const Program& program_;
  Rendezvous rendezvous_;
  std::vector<RankState> ranks_;
  EventQueue<Happening> queue_;
  std::vector<Step> steps_;          // known, to be told to those who wait
  std::vector<uint32_t> gathered_;   // meetings whose members are all there, at or before now
  std::vector<uint32_t> missing_;    // by meeting: members whose arrival is not known
  size_t ended_ = 0;
};

RankState DataflowRun::Prepare(const RankProgram& rank) {
  RankState state;
  const size_t items = rank.items.size();
  state.schedule.start.assign(items, kUnknown);
  state.schedule.end.assign(items, kUnknown);
  state.progress.assign(items, {});
  state.lanes.resize(rank.lanes.size());
  state.placing_until.assign(rank.lanes.size(), SimTime::Min());
  // Calls `edge` with every producer and consumer.
  const auto for_each_edge = [&rank, items](const auto& edge) {
    for (uint32_t i = 0; i < items; ++i) {
      const Item& item = rank.items[i];
      if (item.issuer != kNoItem) edge(item.issuer, Consumer{item.issue_lag, i, true, false});
      for (uint32_t w = item.waits_begin; w < rank.waits_end(i); ++w) {
        const ItemWait& wait = rank.waits[w];
        if (wait.before_end && item.kind != ItemKind::kBlocking) continue;
        edge(wait.item, Consumer{wait.lag, i, wait.on_start, wait.before_end});
      }
    }
  };
  state.consumers_begin.assign(items + 1, 0);
  for_each_edge([&state](uint32_t producer, const Consumer& consumer) {
    ++state.consumers_begin[producer];
    Progress& progress = state.progress[consumer.item];
    ++(consumer.before_end ? progress.before_end : progress.before_start);
  });
  // Each begin is first where the item's consumers end, and moves to where they begin as they are
  // filled in, the last first.
  std::partial_sum(state.consumers_begin.begin(), state.consumers_begin.end(),
                   state.consumers_begin.begin());
  state.consumers.resize(state.consumers_begin.back());
  for_each_edge([&state](uint32_t producer, const Consumer& consumer) {
    state.consumers[--state.consumers_begin[producer]] = consumer;
  });
  for (uint32_t i = 0; i < items; ++i) {
    const Item& item = rank.items[i];
    const LaneProgram& lane = rank.lanes[item.lane];
    // Nothing starts before its rank, and the first of a lane in order no sooner than its lead
    // after it; the others follow the item before them.
    const bool first = i == lane.begin;
    if (!InOrder(lane)) {
      state.schedule.start[i] = rank.start;
    } else if (first) {
      state.schedule.start[i] = rank.start + item.lead;
    } else {
      ++state.progress[i].before_start;
    }
  }
  return state;
}

absl::Status DataflowRun::Deadlock(const TraceStore& store) {
  for (size_t m = 0; m < program_.meetings.size(); ++m) {
    if (missing_[m] == 0) continue;
    for (const auto& member : program_.meetings[m].members) {
      const RankState& rank = ranks_[member.rank];
      if (program_.ranks[member.rank].items[member.item].eager) continue;
      if (rank.progress[member.item].before_start != kKnown) continue;
      FORETRACE_RETURN_IF_ERROR(
          rendezvous_.Arrive(static_cast<uint32_t>(m), rank.schedule.start[member.item]).status());
    }
  }
  for (RankState& rank : ranks_) {
    for (size_t i = 0; i < rank.progress.size(); ++i) {
      if (rank.progress[i].before_start != kKnown) rank.schedule.start[i] = kUnknown;
      if (rank.progress[i].before_end != kKnown) rank.schedule.end[i] = kUnknown;
    }
  }
  const Rendezvous rendezvous = rendezvous_;
  return DeadlockError(store, program_, Take(), rendezvous);
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
