#pragma once
// Events of which the recording says what they are: newer profilers name events, streams, and the
// record call that a wait refers to. These are followed exactly.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

class NamedEvents {
 public:
  explicit NamedEvents(const RankTrace& rank);

  // The stream that a record call names, or that a wait names for it; invalid when neither does.
  LaneIndex StreamOf(NodeIndex record_call) const;
  // `held`: what the stream held when the event was recorded, its last work and what its next work
  // was to wait for.
  void Record(NodeIndex record_call, std::vector<NodeIndex> held);
  // The work that a call waits for by event, none where that lies before the recording; unset where
  // the recording does not name the event.
  std::optional<std::span<const NodeIndex>> HeldBy(const SyncAttr& attr) const;

 private:
  const RankTrace& rank_;
  bool events_are_named_ = false;
  absl::flat_hash_map<int64_t, std::vector<NodeIndex>> held_by_event_;
  // By correlation of the record call.
  absl::flat_hash_map<int64_t, std::vector<NodeIndex>> held_by_record_;
  absl::flat_hash_map<int64_t, LaneIndex> record_stream_;
};

}  // namespace foretrace
