#include "simulator/engine/explain.h"

#include <algorithm>

namespace foretrace {
namespace {

struct Arrival {
  NodeRef node;
  SimTime at = SimTime::Min();
};

// By rendezvous: the last member to arrive; by its node, since items may be freed meanwhile.
std::vector<Arrival> LastArrivals(const Program& program, const Schedule& schedule) {
  std::vector<Arrival> last(program.rendezvous.size());
  for (size_t m = 0; m < program.rendezvous.size(); ++m) {
    for (const auto& [rank, item] : program.rendezvous[m].members) {
      const SimTime start = schedule.ranks[rank].start[item];
      if (start <= last[m].at) continue;
      last[m] = {{rank, program.ranks[rank].items[item].node}, start};
    }
  }
  return last;
}

// The same of each member that awaits some only, in order of rendezvous and of member.
std::vector<Arrival> LastAwaited(const Program& program, const Schedule& schedule,
                                 std::vector<uint32_t>& begin) {
  std::vector<Arrival> last;
  begin.assign(program.rendezvous.size(), 0);
  for (size_t m = 0; m < program.rendezvous.size(); ++m) {
    const RendezvousProgram& rendezvous = program.rendezvous[m];
    if (rendezvous.awaiting != Awaiting::kListed) continue;
    begin[m] = static_cast<uint32_t>(last.size());
    last.resize(last.size() + rendezvous.members.size());
    for (const auto& await : rendezvous.awaits) {
      const auto& [rank, item] = rendezvous.members[await.source];
      const SimTime start = schedule.ranks[rank].start[item];
      Arrival& latest = last[begin[m] + await.member];
      if (start > latest.at) latest = {{rank, program.ranks[rank].items[item].node}, start};
    }
  }
  return last;
}

struct Arrivals {
  Arrivals(const Program& program, const Schedule& schedule)
      : of_all(LastArrivals(program, schedule)),
        awaited(LastAwaited(program, schedule, awaited_begin)) {}

  std::vector<Arrival> of_all;
  std::vector<uint32_t> awaited_begin;
  std::vector<Arrival> awaited;
};

// The events of one rank.
class RankExplainer {
 public:
  RankExplainer(const TraceStore& store, const Program& program, const Schedule& schedule,
                const Arrivals& arrivals, uint32_t rank)
      : trace_(store.ranks()[rank]),
        program_(program.ranks[rank]),
        rendezvous_(program.rendezvous),
        schedule_(schedule),
        start_(schedule.ranks[rank].start.data()),
        end_(schedule.ranks[rank].end.data()),
        arrivals_(arrivals),
        rank_(rank) {
    FindTransfers();
    if (!program_.contention) return;
    for (uint32_t i = 0; i < program_.items.size(); ++i) {
      const Item& item = program_.items[i];
      if (item.placement_share > 0) placed_.emplace_back(start_[i] + PlacementTime(item), i);
    }
    std::ranges::sort(placed_);
  }

  void Tell(const LaneProgram& lane, std::span<EngineObserver* const> observers) {
    uint32_t previous = kNoItem;
    const auto tell = [&](uint32_t i) {
      // Marks take no time: what follows one follows what came before it.
      if (trace_.kind(program_.items[i].node) == NodeKind::kAnnotation) return;
      const NodeEvent event = Event(lane, i, lane.unlimited ? kNoItem : previous);
      previous = i;
      for (EngineObserver* observer : observers) observer->OnNode(event);
    };
    if (!lane.ready_order && !lane.unlimited) {
      for (uint32_t i = lane.begin; i < lane.end; ++i) tell(i);
      return;
    }
    order_.resize(lane.end - lane.begin);
    for (uint32_t i = lane.begin; i < lane.end; ++i) order_[i - lane.begin] = i;
    const auto earlier = [this](uint32_t a, uint32_t b) { return start_[a] < start_[b]; };
    if (!std::is_sorted(order_.begin(), order_.end(), earlier)) {
      std::stable_sort(order_.begin(), order_.end(), earlier);
    }
    for (const uint32_t i : order_) tell(i);
  }

 private:
  NodeRef Ref(uint32_t item) const {
    return {rank_, item == kNoItem ? NodeIndex() : program_.items[item].node};
  }

  NodeEvent Event(const LaneProgram& lane, uint32_t index, uint32_t previous) const {
    const Item& item = program_.items[index];
    NodeEvent event;
    event.node = {rank_, item.node};
    event.lane = lane.cpu ? trace_.lane(item.node) : lane.lane;
    event.start = start_[index];
    event.end = end_[index];
    event.active_start = event.start;
    event.source = item.source;
    event.extrapolated = item.extrapolated;
    BindStart(index, previous, event);
    if (item.kind == ItemKind::kComm) BindRendezvous(index, event);
    if (item.kind == ItemKind::kBlocking) BindBlock(index, event);
    return event;
  }

  // The latest constraint; of equal ones the first.
  void BindStart(uint32_t index, uint32_t previous, NodeEvent& event) const {
    const Item& item = program_.items[index];
    SimTime bound = SimTime::Min();
    WaitCause cause = WaitCause::kNone;
    uint32_t binding = kNoItem;
    const auto consider = [&](SimTime at, WaitCause why, uint32_t by) {
      if (at <= bound) return;
      bound = at;
      cause = why;
      binding = by;
    };
    if (previous != kNoItem) {
      consider(end_[previous] + item.lead, WaitCause::kProgramOrder, previous);
    } else if (program_.start > SimTime() && item.issuer == kNoItem) {
      cause = WaitCause::kStartSkew;
    }
    if (item.issuer != kNoItem) {
      consider(start_[item.issuer] + item.issue_lag, WaitCause::kLaunch, item.issuer);
    }
    const uint32_t waits_end = program_.waits_end(index);
    for (uint32_t w = item.waits_begin; w < waits_end; ++w) {
      const ItemWait& wait = program_.waits[w];
      if (wait.before_end) continue;
      consider((wait.on_start ? start_ : end_)[wait.item] + program_.lags[wait.lag], wait.cause,
               wait.item);
    }
    if (const uint32_t placed = PlacedAt(index); placed != kNoItem && start_[index] > bound) {
      cause = WaitCause::kDeviceRoom;
      binding = placed;
    }
    event.cause = cause;
    event.binding = Ref(binding);
  }

  void FindTransfers() {
    for (uint32_t i = 0; i < program_.items.size(); ++i) {
      const Item& item = program_.items[i];
      if (item.kind != ItemKind::kComm) continue;
      const uint32_t communicator = rendezvous_[item.rendezvous].communicator;
      if (communicator != kNoItem) transfers_.emplace_back(communicator, end_[i], i);
    }
    std::ranges::sort(transfers_);
  }

  // Another item than `own`, whose transfer a communicator ended at that time; kNoItem: none of
  // this rank. What began no earlier held nothing up.
  uint32_t EndedAt(uint32_t communicator, SimTime time, uint32_t own) const {
    for (auto at = std::ranges::lower_bound(transfers_, std::tuple(communicator, time, 0u));
         at != transfers_.end(); ++at) {
      const auto [of, end, item] = *at;
      if (of != communicator || end != time) break;
      const SimTime began = schedule_.rendezvous_active[program_.items[item].rendezvous];
      if (item != own && began < time) return item;
    }
    return kNoItem;
  }

  // The work of another stream whose last blocks found room when an item began; kNoItem: none.
  uint32_t PlacedAt(uint32_t index) const {
    const Item& item = program_.items[index];
    if (!item.needs_room) return kNoItem;
    for (auto at = std::ranges::lower_bound(placed_, std::pair(start_[index], uint32_t{0}));
         at != placed_.end() && at->first == start_[index]; ++at) {
      if (program_.items[at->second].lane != item.lane) return at->second;
    }
    return kNoItem;
  }

  void BindRendezvous(uint32_t index, NodeEvent& event) const {
    const uint32_t id = program_.items[index].rendezvous;
    event.source = schedule_.rendezvous_source[id];
    event.extrapolated = schedule_.rendezvous_extrapolated[id] != 0;
    event.rendezvous = id;
    const RendezvousProgram& rendezvous = rendezvous_[id];
    if (rendezvous.awaiting == Awaiting::kNone) return;
    Arrival last = arrivals_.of_all[id];
    // A communicator that is still busy holds up those who have arrived, too.
    SimTime active = schedule_.rendezvous_active[id];
    if (rendezvous.awaiting == Awaiting::kListed) {
      const auto member = std::ranges::find_if(
          rendezvous.members, [&](const auto& m) { return m.rank == rank_ && m.item == index; });
      last = arrivals_.awaited[arrivals_.awaited_begin[id] +
                               static_cast<size_t>(member - rendezvous.members.begin())];
      active = last.at;
    }
    event.active_start = std::clamp(active, event.start, event.end);
    const bool waited = event.active_start > event.start;
    event.end_cause = waited ? WaitCause::kCollectiveArrival : WaitCause::kNetwork;
    if (!waited) return;
    if (active > std::max(last.at, event.start)) {
      event.end_cause = WaitCause::kCommunicatorBusy;
      event.end_binding = Ref(EndedAt(rendezvous.communicator, active, index));
    } else {
      event.end_binding = last.node;
    }
  }

  void BindBlock(uint32_t index, NodeEvent& event) const {
    const uint32_t waits_end = program_.waits_end(index);
    for (uint32_t w = program_.items[index].waits_begin; w < waits_end; ++w) {
      const ItemWait& wait = program_.waits[w];
      if (!wait.before_end) continue;
      if ((wait.on_start ? start_ : end_)[wait.item] + program_.lags[wait.lag] == event.end) {
        event.end_cause = WaitCause::kCpuBlock;
        event.end_binding = Ref(wait.item);
      }
    }
  }

  const RankTrace& trace_;
  const RankProgram& program_;
  const std::vector<RendezvousProgram>& rendezvous_;
  const Schedule& schedule_;
  const SimTime* start_;
  const SimTime* end_;
  const Arrivals& arrivals_;
  uint32_t rank_;
  std::vector<uint32_t> order_;
  std::vector<std::pair<SimTime, uint32_t>> placed_;  // when all blocks of an item are placed
  // Of communicators whose transfers do not overlap: which, when an item's ended, the item.
  std::vector<std::tuple<uint32_t, SimTime, uint32_t>> transfers_;
};

}  // namespace

void Explain(const TraceStore& store, const Program& program, const Schedule& schedule,
             std::span<EngineObserver* const> observers,
             const std::function<void(uint32_t rank)>& told) {
  if (observers.empty()) return;
  const Arrivals arrivals(program, schedule);
  for (uint32_t r = 0; r < program.ranks.size(); ++r) {
    RankExplainer explainer(store, program, schedule, arrivals, r);
    for (const LaneProgram& lane : program.ranks[r].lanes) explainer.Tell(lane, observers);
    if (told != nullptr) told(r);
  }
}

}  // namespace foretrace
