#include "simulator/report/event_table.h"

#include "simulator/base/check.h"

namespace foretrace {
namespace {

size_t CountExecuted(const RankTrace& rank) {
  size_t executed = 0;
  for (uint32_t i = 0; i < rank.size(); ++i) {
    const NodeKind kind = rank.kind(NodeIndex(i));
    executed += kind != NodeKind::kCpuOp && kind != NodeKind::kAnnotation;
  }
  return executed;
}

}  // namespace

EventTable::EventTable(const TraceStore& store) : store_(store), ranks_(store.ranks().size()) {}

void EventTable::OnNode(const NodeEvent& event) {
  FORETRACE_CHECK(event.node.rank < ranks_.size());
  PerRank& rank = ranks_[event.node.rank];
  if (rank.position.empty()) {
    // Only once a rank is told of: by then what the simulation needed is free again.
    const RankTrace& trace = store_.ranks()[event.node.rank];
    rank.events.reserve(CountExecuted(trace));
    rank.position.assign(trace.size(), kAbsent);
  }
  FORETRACE_CHECK(event.node.node.value < rank.position.size());
  uint32_t& position = rank.position[event.node.node.value];
  // A bucket that a what-if has split is several events of one node.
  if (position != kAbsent && event.rendezvous == NodeEvent::kNoRendezvous) return;
  position = static_cast<uint32_t>(rank.events.size());
  rank.events.push_back({event.start, event.active_start, event.end, event.binding,
                         event.end_binding, event.node.node, event.rendezvous,
                         static_cast<uint16_t>(event.lane.value), event.source, event.extrapolated,
                         event.cause, event.end_cause});
}

uint64_t EventTable::size() const {
  uint64_t count = 0;
  for (const PerRank& rank : ranks_) count += rank.events.size();
  return count;
}

size_t EventTable::memory_bytes() const {
  size_t bytes = 0;
  for (const PerRank& rank : ranks_) {
    bytes +=
        rank.events.capacity() * sizeof(ExecutedNode) + rank.position.capacity() * sizeof(uint32_t);
  }
  return bytes;
}

}  // namespace foretrace
