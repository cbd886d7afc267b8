#pragma once
// Events of which the recording says what they are: newer profilers name events, streams, and the
// record call that a wait refers to. These are followed exactly.

#include <cstdint>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

class NamedEvents {
 public:
  explicit NamedEvents(const RankTrace& rank);

  // The stream that a record call names, or that a wait names for it; invalid when neither does.
  LaneIndex StreamOf(NodeIndex record_call) const;
  // `tail` is the last work of the stream when the event was recorded; invalid for none.
  void Record(NodeIndex record_call, NodeIndex tail);
  // The work that a call waits for by event, invalid where that lies before the recording; unset
  // where the recording does not name the event.
  std::optional<NodeIndex> TailFor(const SyncAttr& attr) const;

 private:
  const RankTrace& rank_;
  bool events_are_named_ = false;
  absl::flat_hash_map<int64_t, NodeIndex> event_tail_;
  // By correlation of the record call.
  absl::flat_hash_map<int64_t, NodeIndex> record_tail_;
  absl::flat_hash_map<int64_t, LaneIndex> record_stream_;
};

}  // namespace foretrace
