#pragma once
// Keeps what the engine tells, so that every report is a pure function of one run.

#include <cstdint>
#include <span>
#include <vector>

#include "simulator/engine/observer.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

// One executed node; see NodeEvent for the meaning. 56 bytes.
struct ExecutedNode {
  SimTime start;
  SimTime active_start;
  SimTime end;
  NodeRef binding;
  NodeRef end_binding;
  NodeIndex node;
  uint32_t rendezvous = NodeEvent::kNoRendezvous;
  uint16_t lane = 0;
  EstimateSource source = EstimateSource::kRecorded;
  bool extrapolated = false;
  WaitCause cause = WaitCause::kNone;
  WaitCause end_cause = WaitCause::kNone;
};

class EventTable : public EngineObserver {
 public:
  // Keeps a reference to `store`.
  explicit EventTable(const TraceStore& store);

  // A node that is told twice keeps its first event.
  void OnNode(const NodeEvent& event) override;

  const TraceStore& store() const { return store_; }
  RankIndex rank_count() const { return static_cast<RankIndex>(ranks_.size()); }
  // In the order in which they were told: per lane in order of time.
  std::span<const ExecutedNode> events(RankIndex rank) const { return ranks_[rank].events; }
  // Null when the node was not executed or the reference is empty.
  const ExecutedNode* Find(NodeRef ref) const {
    if (!ref.node.valid() || ref.rank >= ranks_.size()) return nullptr;
    const PerRank& rank = ranks_[ref.rank];
    if (ref.node.value >= rank.position.size()) return nullptr;
    const uint32_t at = rank.position[ref.node.value];
    return at == kAbsent ? nullptr : &rank.events[at];
  }
  uint64_t size() const;
  size_t memory_bytes() const;

 private:
  static constexpr uint32_t kAbsent = 0xffffffffu;
  struct PerRank {
    std::vector<ExecutedNode> events;
    std::vector<uint32_t> position;  // by node
  };
  const TraceStore& store_;
  std::vector<PerRank> ranks_;
};

// One iteration of one rank, in predicted and in recorded time. Without recorded times (symbolic
// traces) recorded_start equals recorded_end.
struct IterationWindow {
  int64_t number = 0;
  SimTime predicted_start;
  SimTime predicted_end;
  SimTime recorded_start;
  SimTime recorded_end;

  SimTime predicted() const { return predicted_end - predicted_start; }
  SimTime recorded() const { return recorded_end - recorded_start; }
};

// The part of [start, end) within the window; zero when they do not meet.
inline SimTime Overlap(const IterationWindow& window, SimTime start, SimTime end) {
  const SimTime from = start > window.predicted_start ? start : window.predicted_start;
  const SimTime to = end < window.predicted_end ? end : window.predicted_end;
  return to > from ? to - from : SimTime();
}

// part / whole; 0 for an empty whole.
inline double Share(SimTime part, SimTime whole) {
  return whole > SimTime() ? static_cast<double>(part.ps()) / static_cast<double>(whole.ps()) : 0.0;
}

}  // namespace foretrace
