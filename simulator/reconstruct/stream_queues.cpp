#include "simulator/reconstruct/stream_queues.h"

#include <algorithm>

#include "simulator/trace/device_units.h"

namespace foretrace {

StreamQueues::StreamQueues(const RankTrace& rank)
    : rank_(rank), queues_(rank.lanes().size()), position_(rank.size(), 0) {
  // Rows of a recorded trace are in order of start, and streams are first in, first out.
  for (uint32_t i = 0; i < rank.size(); ++i) {
    const NodeIndex n(i);
    if (!IsDeviceKind(rank.kind(n)) || !rank.has_duration(n)) continue;
    std::vector<Entry>& queue = queues_[rank.lane(n).value];
    const NodeIndex call = rank.launcher(n);
    Entry entry{n, call.valid() ? rank.start(call) : SimTime::Min(), rank.end(n)};
    if (!queue.empty()) {
      entry.issued = std::max(entry.issued, queue.back().issued);
      entry.end = std::max(entry.end, queue.back().end);
    }
    position_[i] = static_cast<uint32_t>(queue.size());
    queue.push_back(entry);
  }
}

size_t StreamQueues::IssuedBefore(LaneIndex stream, SimTime at) const {
  const std::vector<Entry>& queue = queues_[stream.value];
  return static_cast<size_t>(
      std::lower_bound(queue.begin(), queue.end(), at,
                       [](const Entry& e, SimTime t) { return e.issued < t; }) -
      queue.begin());
}

size_t StreamQueues::EndedBy(LaneIndex stream, SimTime at) const {
  const std::vector<Entry>& queue = queues_[stream.value];
  return static_cast<size_t>(std::upper_bound(queue.begin(), queue.end(), at,
                                              [](SimTime t, const Entry& e) { return t < e.end; }) -
                             queue.begin());
}

NodeIndex StreamQueues::TailAt(LaneIndex stream, SimTime at) const {
  const size_t issued = IssuedBefore(stream, at);
  return issued == 0 ? NodeIndex() : queues_[stream.value][issued - 1].node;
}

bool StreamQueues::DeviceIsFull(NodeIndex device) const {
  if (IsCommunicationKind(rank_.kind(device)) || !OnMultiprocessors(rank_, device)) return false;
  constexpr SimTime kJustEnded = SimTime::FromNs(10'000);
  const SimTime at = rank_.start(device);
  for (uint32_t lane = 0; lane < queues_.size(); ++lane) {
    const LaneIndex stream(lane);
    if (stream == rank_.lane(device) || queues_[lane].empty()) continue;
    for (size_t i = EndedBy(stream, at - kJustEnded); i < queues_[lane].size(); ++i) {
      const NodeIndex other = queues_[lane][i].node;
      if (rank_.start(other) > at) break;
      if (!IsCommunicationKind(rank_.kind(other)) && rank_.waves_milli(other) > 1000) return true;
    }
  }
  return false;
}

SimTime StreamQueues::Explained(NodeIndex device, const std::vector<SyncEdge>& edges) const {
  SimTime explained = SimTime::Min();
  if (const NodeIndex call = rank_.launcher(device); call.valid()) explained = rank_.start(call);
  if (const uint32_t position = position_[device.value]; position > 0) {
    const auto& queue = queues_[rank_.lane(device).value];
    explained = std::max(explained, queue[position - 1].end);
  }
  for (const SyncEdge& e : EdgesOf(edges, device)) {
    explained = std::max(explained, rank_.end(e.producer));
  }
  return explained;
}

}  // namespace foretrace
