#include "simulator/reconstruct/latencies.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "simulator/reconstruct/end_spread.h"

namespace foretrace {
namespace {

constexpr size_t kEnough = 5;
constexpr SimTime kIdle = SimTime::FromNs(5'000);
// Longer than this is a wait of another kind. Staging a pageable copy takes time before its first
// byte moves.
constexpr SimTime kLongest = SimTime::FromNs(50'000);
constexpr SimTime kLongestStaging = SimTime::FromNs(500'000);

// For latencies that add up: their sum must come out right, so that no tail is cut.
SimTime Mean(const std::vector<int64_t>& values) {
  __int128 sum = 0;
  for (const int64_t v : values) sum += v;
  return SimTime::FromPs(static_cast<int64_t>(sum / static_cast<int64_t>(values.size())));
}

SimTime LowerQuartile(std::vector<int64_t> values) {
  const auto quarter = values.begin() + static_cast<ptrdiff_t>(values.size() / 4);
  std::nth_element(values.begin(), quarter, values.end());
  return SimTime::FromPs(*quarter);
}

bool IsStaged(LaunchClass how) {
  return how == LaunchClass::kCopyFromPageable || how == LaunchClass::kCopyToPageable;
}

}  // namespace

LaunchClass LaunchClassOf(const RankTrace& rank, NodeIndex device) {
  switch (rank.kind(device)) {
    case NodeKind::kMemset:
      return LaunchClass::kMemset;
    case NodeKind::kMemcpy:
      switch (rank.memcpy_kind(device)) {
        case MemcpyKind::kHostToDevicePageable:
          return LaunchClass::kCopyFromPageable;
        case MemcpyKind::kDeviceToHostPageable:
          return LaunchClass::kCopyToPageable;
        default:
          return LaunchClass::kCopyPinned;
      }
    default:
      return LaunchClass::kKernel;
  }
}

EventClass EventClassOf(NodeKind producer, NodeKind consumer) {
  if (IsCommunicationKind(consumer)) return EventClass::kCommunication;
  return IsCommunicationKind(producer) ? EventClass::kAfterCommunication : EventClass::kCompute;
}

void LatencyMeter::Add(const RankTrace& rank, const RankSync& sync) {
  struct Last {
    SimTime end = SimTime::Min();
    NodeKind kind = NodeKind::kKernel;
  };
  std::vector<Last> streams(rank.lanes().size());  // the latest work of each
  auto edge = sync.device_edges.begin();
  const auto sample = [](std::vector<int64_t>& samples, SimTime latency, SimTime longest) {
    if (latency >= SimTime() && latency < longest) samples.push_back(latency.ps());
  };
  for (uint32_t i = 0; i < rank.size(); ++i) {
    const NodeIndex n(i);
    if (!IsDeviceKind(rank.kind(n)) || !rank.has_duration(n)) continue;
    Last& last = streams[rank.lane(n).value];
    const SimTime start = rank.start(n);
    const SimTime before = last.end;
    last.end = std::max(before, rank.end(n));
    const bool comm = IsCommunicationKind(rank.kind(n));
    const NodeKind previous = std::exchange(last.kind, rank.kind(n));
    SimTime dependency = SimTime::Min();
    EventClass event_class = EventClass::kCompute;
    while (edge != sync.device_edges.end() && edge->consumer < n) ++edge;
    for (auto it = edge; it != sync.device_edges.end() && it->consumer == n; ++it) {
      if (rank.end(it->producer) <= dependency) continue;
      dependency = rank.end(it->producer);
      event_class = EventClassOf(rank.kind(it->producer), rank.kind(n));
    }
    const NodeIndex call = rank.launcher(n);
    if (!call.valid()) continue;
    const SimTime issued = rank.start(call);
    const auto c = static_cast<size_t>(LaunchClassOf(rank, n));
    const SimTime longest = IsStaged(static_cast<LaunchClass>(c)) ? kLongestStaging : kLongest;
    const bool few = !comm && launch_[c].size() < kEnough;
    if (few) sample(launch_at_most_[c], start - issued, longest);
    if (few && before <= issued && dependency <= issued) {
      sample(launch_just_idle_[c], start - issued, longest);
    }
    if (dependency > before && dependency > issued + kIdle) {
      sample(event_[static_cast<size_t>(event_class)], start - dependency, kLongest);
    } else if (comm) {
      continue;
    } else if (before > issued + kIdle + kIdle && !IsCommunicationKind(previous)) {
      sample(gap_[static_cast<size_t>(GapClassOf(previous))], start - before, kLongest);
    } else if (before + kIdle < issued && dependency + kIdle < issued) {
      sample(launch_[c], start - issued, longest);
    }
  }
}

Latencies LatenciesOf(const LaunchLatencies& stated) {
  Latencies latencies;
  latencies.launch = {stated.kernel, stated.memset, stated.copy_pinned, stated.copy_from_pageable,
                      stated.copy_to_pageable};
  latencies.gap.fill(stated.stream_gap);
  latencies.event.fill(stated.event);
  return latencies;
}

Latencies LatencyMeter::Measure(const LaunchLatencies& stated) const {
  Latencies result = LatenciesOf(stated);
  for (size_t c = 0; c < kLaunchClasses; ++c) {
    const std::vector<int64_t>& samples =
        launch_[c].size() < kEnough ? launch_just_idle_[c] : launch_[c];
    if (samples.size() < kEnough) {
      if (launch_at_most_[c].size() >= kEnough) {
        result.launch[c] = std::min(result.launch[c], LowerQuartile(launch_at_most_[c]));
      }
      continue;
    }
    result.launch_samples[c] = static_cast<int64_t>(samples.size());
    // Kernels queue behind each other, so the typical latency counts; the CPU waits for copies one
    // by one, so their latencies add up.
    result.launch[c] =
        c == static_cast<size_t>(LaunchClass::kKernel) ? Median(samples) : Mean(samples);
  }
  for (size_t c = 0; c < kGapClasses; ++c) {
    if (gap_[c].size() >= kEnough) {
      result.gap_samples[c] = static_cast<int64_t>(gap_[c].size());
      result.gap[c] = Mean(gap_[c]);
    } else if (c > 0) {
      result.gap_samples[c] = result.gap_samples[0];
      result.gap[c] = result.gap[0];
    }
  }
  constexpr auto kCompute = static_cast<size_t>(EventClass::kCompute);
  for (size_t c = 0; c < kEventClasses; ++c) {
    if (event_[c].size() >= kEnough) {
      result.event_samples[c] = static_cast<int64_t>(event_[c].size());
      // Collectives follow each other by the hundred, each after the one before, so that these
      // latencies add up.
      result.event[c] = c == kCompute ? Median(event_[c]) : Mean(event_[c]);
    } else if (c != kCompute) {
      result.event[c] = result.event[kCompute];
      result.event_samples[c] = result.event_samples[kCompute];
    }
  }
  return result;
}

}  // namespace foretrace
