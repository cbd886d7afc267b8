#include "simulator/engine/explain.h"

#include <algorithm>


namespace foretrace {
namespace {

class Explainer {
 public:
  Explainer(const TraceStore& store, const Program& program, const Schedule& schedule)
      : store_(store), program_(program), schedule_(schedule) {
    last_arrival_.reserve(program.meetings.size());
    for (const MeetingProgram& meeting : program.meetings) {
      NodeRef last;
      SimTime latest = SimTime::Min();
      for (const auto& m : meeting.members) {
        const SimTime start = schedule.ranks[m.rank].start[m.item];
        if (program.ranks[m.rank].items[m.item].eager || start <= latest) continue;
        latest = start;
        last = {m.rank, program.ranks[m.rank].items[m.item].node};
      }
      last_arrival_.push_back(last);
    }
  }

  NodeEvent Event(uint32_t r, uint32_t index, uint32_t previous) const {
    const RankProgram& rank = program_.ranks[r];
    const Item& item = rank.items[index];
    NodeEvent event;
    event.node = {r, item.node};
    event.lane = rank.lanes[item.lane].cpu ? store_.ranks()[r].lane(item.node)
                                           : rank.lanes[item.lane].lane;
    event.start = schedule_.ranks[r].start[index];
    event.end = schedule_.ranks[r].end[index];
    event.active_start = event.start;
    event.source = item.source;
    event.extrapolated = item.extrapolated;
    BindStart(r, index, previous, event);
    if (item.kind == ItemKind::kComm) BindMeeting(item, event);
    if (item.kind == ItemKind::kBlocking) BindBlock(r, index, event);
    return event;
  }

 private:
  NodeRef Ref(uint32_t r, uint32_t item) const {
    return item == kNoItem ? NodeRef{r, NodeIndex()} : NodeRef{r, program_.ranks[r].items[item].node};
  }

  void BindStart(uint32_t r, uint32_t index, uint32_t previous, NodeEvent& event) const {
    const RankProgram& rank = program_.ranks[r];
    const RankSchedule& schedule = schedule_.ranks[r];
    const Item& item = rank.items[index];
    SimTime bound = SimTime::Min();
    const auto consider = [&](SimTime at, WaitCause cause, uint32_t by) {
      if (at <= bound) return;
      bound = at;
      event.cause = cause;
      event.binding = Ref(r, by);
    };
    if (previous == kNoItem) {
      event.cause = rank.start > SimTime() && item.issuer == kNoItem ? WaitCause::kStartSkew
                                                                     : WaitCause::kNone;
      event.binding = Ref(r, kNoItem);
    } else {
      consider(schedule.end[previous] + item.lead, WaitCause::kProgramOrder, previous);
    }
    if (item.issuer != kNoItem) {
      consider(schedule.start[item.issuer] + item.issue_lag, WaitCause::kLaunch, item.issuer);
    }
    for (uint32_t w = item.waits_begin; w < rank.waits_end(index); ++w) {
      const ItemWait& wait = rank.waits[w];
      if (wait.before_end) continue;
      consider((wait.on_start ? schedule.start : schedule.end)[wait.item] + wait.lag, wait.cause,
               wait.item);
    }
  }

  void BindMeeting(const Item& item, NodeEvent& event) const {
    if (item.meeting == kNoItem) return;
    event.source = schedule_.meeting_source[item.meeting];
    event.extrapolated = schedule_.meeting_extrapolated[item.meeting] != 0;
    event.rendezvous = item.meeting;
    if (item.eager) return;
    event.active_start = std::clamp(schedule_.meeting_active[item.meeting], event.start, event.end);
    const NodeRef last = last_arrival_[item.meeting];
    const bool waited = event.active_start > event.start;
    event.end_cause = waited ? WaitCause::kCollectiveArrival : WaitCause::kNetwork;
    if (waited) event.end_binding = last;
  }

  void BindBlock(uint32_t r, uint32_t index, NodeEvent& event) const {
    const RankProgram& rank = program_.ranks[r];
    const RankSchedule& schedule = schedule_.ranks[r];
    for (uint32_t w = rank.items[index].waits_begin; w < rank.waits_end(index); ++w) {
      const ItemWait& wait = rank.waits[w];
      if (!wait.before_end) continue;
      if ((wait.on_start ? schedule.start : schedule.end)[wait.item] + wait.lag == event.end) {
        event.end_cause = WaitCause::kCpuBlock;
        event.end_binding = Ref(r, wait.item);
      }
    }
  }

  const TraceStore& store_;
  const Program& program_;
  const Schedule& schedule_;
  std::vector<NodeRef> last_arrival_;
};

}  // namespace

void Explain(const TraceStore& store, const Program& program, const Schedule& schedule,
             std::span<EngineObserver* const> observers) {
  if (observers.empty()) return;
  const Explainer explainer(store, program, schedule);
  std::vector<uint32_t> order;
  for (uint32_t r = 0; r < program.ranks.size(); ++r) {
    const RankProgram& rank = program.ranks[r];
    for (const LaneProgram& lane : rank.lanes) {
      order.resize(lane.end - lane.begin);
      for (uint32_t i = lane.begin; i < lane.end; ++i) order[i - lane.begin] = i;
      if (lane.ready_order || lane.unlimited) {
        std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
          return schedule.ranks[r].start[a] < schedule.ranks[r].start[b];
        });
      }
      uint32_t previous = kNoItem;
      for (const uint32_t i : order) {
        // Marks take no time: what follows one follows what came before it.
        if (store.ranks()[r].kind(rank.items[i].node) == NodeKind::kAnnotation) continue;
        const NodeEvent event = explainer.Event(r, i, lane.unlimited ? kNoItem : previous);
        previous = i;
        for (EngineObserver* observer : observers) observer->OnNode(event);
      }
    }
  }
}

}  // namespace foretrace
