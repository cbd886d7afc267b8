#include <algorithm>
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

// What happens to an item. At one time ends come before starts, so that a lane freed at t can take
// what is ready at t, and items are taken by (ready time, program order).
enum class Happening : uint8_t { kEnd, kReady };

struct Happens {
  uint32_t rank = 0;
  uint32_t item = 0;
  Happening what = Happening::kReady;
};

// Who waits for an item.
struct Consumer {
  uint32_t item = 0;
  SimTime lag;
  bool on_start = false;
  bool before_end = false;
};

struct LaneState {
  bool busy = false;
  // (ready time, item), a min-heap.
  std::vector<std::pair<SimTime, uint32_t>> waiting;
};

struct RankState {
  RankSchedule schedule;
  std::vector<SimTime> ready;        // the latest constraint on the start so far
  std::vector<SimTime> earliest_end; // of blocking items
  std::vector<uint32_t> pending;     // constraints on the start not known yet
  std::vector<uint32_t> end_pending; // constraints on the end not known yet
  std::vector<uint32_t> consumers_begin;
  std::vector<Consumer> consumers;
  std::vector<LaneState> lanes;
  // By lane: until when the work that runs there still has blocks to place.
  std::vector<SimTime> placing_until;
};

class DataflowRun {
 public:
  DataflowRun(const Program& program, NetworkModel* network)
      : program_(program), rendezvous_(program, network) {
    for (const RankProgram& rank : program.ranks) ranks_.push_back(Prepare(rank));
  }

  absl::Status Run() {
    for (uint32_t r = 0; r < ranks_.size(); ++r) {
      for (uint32_t i = 0; i < program_.ranks[r].items.size(); ++i) {
        if (ranks_[r].pending[i] == 0) queue_.Push(ranks_[r].ready[i], 1, {r, i, Happening::kReady});
      }
    }
    while (true) {
      const SimTime limit = queue_.empty() ? SimTime::Max() : queue_.Top().time;
      FORETRACE_ASSIGN_OR_RETURN(const std::vector<uint32_t> done,
                                 rendezvous_.AdvanceNetwork(limit));
      for (const uint32_t meeting : done) Complete(meeting);
      if (!done.empty()) continue;
      if (queue_.empty()) return absl::OkStatus();
      const auto event = queue_.Pop();
      if (event.payload.what == Happening::kReady) {
        FORETRACE_RETURN_IF_ERROR(OnReady(event.time, event.payload.rank, event.payload.item));
      } else {
        FORETRACE_RETURN_IF_ERROR(OnEnd(event.time, event.payload.rank, event.payload.item));
      }
    }
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
    return schedule;
  }
  bool done() const {
    for (const RankState& rank : ranks_) {
      for (const SimTime end : rank.schedule.end) {
        if (end == kUnknown) return false;
      }
    }
    return true;
  }
  const Rendezvous& rendezvous() const { return rendezvous_; }

 private:
  static bool Exclusive(const LaneProgram& lane) { return lane.ready_order && !lane.unlimited; }
  static bool InOrder(const LaneProgram& lane) { return !lane.ready_order && !lane.unlimited; }

  static RankState Prepare(const RankProgram& rank) {
    RankState state;
    const size_t items = rank.items.size();
    state.schedule.start.assign(items, kUnknown);
    state.schedule.end.assign(items, kUnknown);
    state.ready.assign(items, rank.start);
    state.earliest_end.assign(items, kUnknown);
    state.pending.assign(items, 0);
    state.end_pending.assign(items, 0);
    state.lanes.resize(rank.lanes.size());
    state.placing_until.assign(rank.lanes.size(), SimTime::Min());
    std::vector<std::pair<uint32_t, Consumer>> edges;
    for (uint32_t i = 0; i < items; ++i) {
      const Item& item = rank.items[i];
      const LaneProgram& lane = rank.lanes[item.lane];
      if (InOrder(lane)) {
        if (i > lane.begin) {
          edges.push_back({i - 1, {i, item.lead, false, false}});
        } else {
          state.ready[i] = rank.start + item.lead;
        }
      }
      if (item.issuer != kNoItem) edges.push_back({item.issuer, {i, item.issue_lag, true, false}});
      for (uint32_t w = item.waits_begin; w < rank.waits_end(i); ++w) {
        const ItemWait& wait = rank.waits[w];
        const bool before_end = wait.before_end && item.kind == ItemKind::kBlocking;
        edges.push_back({wait.item, {i, wait.lag, wait.on_start, before_end}});
      }
    }
    state.consumers_begin.assign(items + 1, 0);
    for (const auto& [producer, consumer] : edges) {
      ++state.consumers_begin[producer + 1];
      ++(consumer.before_end ? state.end_pending : state.pending)[consumer.item];
    }
    std::partial_sum(state.consumers_begin.begin(), state.consumers_begin.end(),
                     state.consumers_begin.begin());
    state.consumers.resize(edges.size());
    std::vector<uint32_t> fill(state.consumers_begin.begin(), state.consumers_begin.end() - 1);
    for (const auto& [producer, consumer] : edges) {
      state.consumers[fill[producer]++] = consumer;
    }
    return state;
  }

  absl::Status OnReady(SimTime now, uint32_t r, uint32_t i) {
    RankState& rank = ranks_[r];
    const uint32_t lane = program_.ranks[r].items[i].lane;
    if (const SimTime room = RoomAt(now, r, i); room > now) {
      // Blocks are placed in the order in which kernels came to the device, so what comes to wait
      // here keeps its place before work that becomes ready later.
      queue_.Push(room, 1, {r, i, Happening::kReady});
      return absl::OkStatus();
    }
    if (Exclusive(program_.ranks[r].lanes[lane])) {
      LaneState& state = rank.lanes[lane];
      if (state.busy) {
        state.waiting.push_back({rank.ready[i], i});
        std::push_heap(state.waiting.begin(), state.waiting.end(), std::greater<>());
        return absl::OkStatus();
      }
      state.busy = true;
    }
    return Begin(now, r, i);
  }

  // When the other streams' kernels have placed their blocks.
  SimTime RoomAt(SimTime now, uint32_t r, uint32_t i) const {
    const RankProgram& program = program_.ranks[r];
    const Item& item = program.items[i];
    if (!program.contention || !item.needs_room) return now;
    SimTime room = now;
    for (uint32_t l = 0; l < program.lanes.size(); ++l) {
      if (l != item.lane) room = std::max(room, ranks_[r].placing_until[l]);
    }
    return room;
  }

  absl::Status Begin(SimTime now, uint32_t r, uint32_t i) {
    RankState& rank = ranks_[r];
    const Item& item = program_.ranks[r].items[i];
    rank.schedule.start[i] = now;
    if (item.placement_share > 0) {
      rank.placing_until[item.lane] =
          now + item.duration.ScaledBy(static_cast<double>(item.placement_share) / 65536.0);
    }
    Notify(r, i, now, true);
    if (item.kind == ItemKind::kComm && !item.eager) {
      FORETRACE_ASSIGN_OR_RETURN(const bool complete, rendezvous_.Arrive(item.meeting, now));
      if (complete) Complete(item.meeting);
      return absl::OkStatus();
    }
    rank.earliest_end[i] = std::max(rank.earliest_end[i], now + item.duration);
    if (rank.end_pending[i] == 0) ScheduleEnd(r, i, rank.earliest_end[i]);
    return absl::OkStatus();
  }

  void ScheduleEnd(uint32_t r, uint32_t i, SimTime end) {
    queue_.Push(std::max(end, queue_.now()), 0, {r, i, Happening::kEnd});
    ranks_[r].earliest_end[i] = end;
  }

  void Complete(uint32_t meeting) {
    for (const auto& member : program_.meetings[meeting].members) {
      const Item& item = program_.ranks[member.rank].items[member.item];
      if (!item.eager) ScheduleEnd(member.rank, member.item, rendezvous_.EndOf(meeting, item));
    }
  }

  absl::Status OnEnd(SimTime now, uint32_t r, uint32_t i) {
    RankState& rank = ranks_[r];
    rank.schedule.end[i] = rank.earliest_end[i];
    Notify(r, i, rank.schedule.end[i], false);
    const uint32_t lane = program_.ranks[r].items[i].lane;
    if (!Exclusive(program_.ranks[r].lanes[lane])) return absl::OkStatus();
    LaneState& state = rank.lanes[lane];
    state.busy = false;
    if (state.waiting.empty()) return absl::OkStatus();
    std::pop_heap(state.waiting.begin(), state.waiting.end(), std::greater<>());
    const uint32_t next = state.waiting.back().second;
    state.waiting.pop_back();
    state.busy = true;
    return Begin(now, r, next);
  }

  // Tells the consumers of an item that its start (or end) is known.
  void Notify(uint32_t r, uint32_t i, SimTime at, bool start) {
    RankState& rank = ranks_[r];
    for (uint32_t c = rank.consumers_begin[i]; c < rank.consumers_begin[i + 1]; ++c) {
      const Consumer& consumer = rank.consumers[c];
      if (consumer.on_start != start) continue;
      const uint32_t target = consumer.item;
      if (consumer.before_end) {
        rank.earliest_end[target] = std::max(rank.earliest_end[target], at + consumer.lag);
        if (--rank.end_pending[target] == 0 && rank.schedule.start[target] != kUnknown) {
          ScheduleEnd(r, target, rank.earliest_end[target]);
        }
        continue;
      }
      rank.ready[target] = std::max(rank.ready[target], at + consumer.lag);
      if (--rank.pending[target] == 0) {
        // A negative overhead (calls of two threads that overlap by a clock tick) lies in the past.
        queue_.Push(std::max(rank.ready[target], queue_.now()), 1, {r, target, Happening::kReady});
      }
    }
  }

  const Program& program_;
  Rendezvous rendezvous_;
  std::vector<RankState> ranks_;
  EventQueue<Happens> queue_;
};

}  // namespace

absl::StatusOr<Schedule> RunDataflow(const TraceStore& store, const Program& program,
                                     NetworkModel* network) {
  DataflowRun run(program, network);
  FORETRACE_RETURN_IF_ERROR(run.Run());
  const bool done = run.done();
  Rendezvous rendezvous = run.rendezvous();
  Schedule schedule = run.Take();
  if (!done) return DeadlockError(store, program, schedule, rendezvous);
  return schedule;
}

}  // namespace foretrace
