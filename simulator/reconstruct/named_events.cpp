#include "simulator/reconstruct/named_events.h"

#include <utility>

namespace foretrace {

// Waits of newer profiles name the record call and its stream; the record call itself names none.
NamedEvents::NamedEvents(const RankTrace& rank) : rank_(rank) {
  for (uint32_t i = 0; i < rank.size(); ++i) {
    const NodeIndex n(i);
    if (rank.kind(n) != NodeKind::kRuntimeCall) continue;
    const SyncAttr* attr = rank.sync(n);
    if (attr == nullptr) continue;
    if (rank.runtime_call(n) == RuntimeCall::kEventRecord) {
      events_are_named_ = events_are_named_ || attr->event >= 0;
    } else if (attr->waits_for_correlation >= 0) {
      events_are_named_ = true;
      if (attr->waits_for_stream.valid()) {
        record_stream_[attr->waits_for_correlation] = attr->waits_for_stream;
      }
    }
  }
}

LaneIndex NamedEvents::StreamOf(NodeIndex record_call) const {
  const auto named = record_stream_.find(static_cast<int64_t>(rank_.source_id(record_call)));
  if (named != record_stream_.end()) return named->second;
  const SyncAttr* attr = rank_.sync(record_call);
  return attr == nullptr ? LaneIndex() : attr->stream;
}

void NamedEvents::Record(NodeIndex record_call, std::vector<NodeIndex> held) {
  const SyncAttr* attr = rank_.sync(record_call);
  if (attr != nullptr && attr->event >= 0) held_by_event_[attr->event] = held;
  held_by_record_[static_cast<int64_t>(rank_.source_id(record_call))] = std::move(held);
}

std::optional<std::span<const NodeIndex>> NamedEvents::HeldBy(const SyncAttr& attr) const {
  if (attr.waits_for_correlation >= 0) {
    const auto it = held_by_record_.find(attr.waits_for_correlation);
    if (it != held_by_record_.end()) return it->second;
  }
  if (attr.event < 0) return std::nullopt;
  if (const auto it = held_by_event_.find(attr.event); it != held_by_event_.end())
    return it->second;
  // A recording that names events and does not have this one began after it was recorded.
  if (events_are_named_) return std::span<const NodeIndex>();
  return std::nullopt;
}

}  // namespace foretrace
