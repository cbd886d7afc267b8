#include "simulator/trace/infer/latencies.h"

#include <algorithm>
#include <vector>

namespace foretrace {
namespace {

constexpr size_t kEnough = 20;
constexpr SimTime kIdle = SimTime::FromNs(5'000);
constexpr SimTime kLongest = SimTime::FromNs(50'000);

SimTime Median(std::vector<int64_t>& values) {
  const auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return SimTime::FromPs(*middle);
}

// The mean of all but the largest tenth: sums over thousands of gaps must come out right, and the
// largest hide waits that are not gaps.
SimTime TrimmedMean(std::vector<int64_t>& values) {
  std::sort(values.begin(), values.end());
  const size_t kept = values.size() - values.size() / 10;
  __int128 sum = 0;
  for (size_t i = 0; i < kept; ++i) sum += values[i];
  return SimTime::FromPs(static_cast<int64_t>(sum / static_cast<int64_t>(kept)));
}

}  // namespace

Latencies MeasureLatencies(const RankTrace& rank, const RankSync& sync) {
  std::vector<int64_t> launch;
  std::vector<int64_t> gap;
  std::vector<int64_t> event;
  std::vector<SimTime> stream_end(rank.lanes().size(), SimTime::Min());
  std::vector<bool> after_comm(rank.lanes().size(), false);
  auto edge = sync.device_edges.begin();
  for (uint32_t i = 0; i < rank.size(); ++i) {
    const NodeIndex n(i);
    if (!IsDeviceKind(rank.kind(n)) || !rank.has_duration(n)) continue;
    const uint32_t lane = rank.lane(n).value;
    const SimTime start = rank.start(n);
    const SimTime before = stream_end[lane];
    const bool previous_comm = after_comm[lane];
    stream_end[lane] = std::max(before, rank.end(n));
    const bool comm = IsCommunicationKind(rank.kind(n));
    after_comm[lane] = comm;
    SimTime dependency = SimTime::Min();
    while (edge != sync.device_edges.end() && edge->consumer < n) ++edge;
    for (auto it = edge; it != sync.device_edges.end() && it->consumer == n; ++it) {
      dependency = std::max(dependency, rank.end(it->producer));
    }
    const NodeIndex call = rank.launcher(n);
    if (comm || !call.valid()) continue;
    const SimTime issued = rank.start(call);
    if (dependency > before && dependency > issued + kIdle) {
      if (start - dependency < kLongest && start >= dependency) {
        event.push_back((start - dependency).ps());
      }
    } else if (before > issued + kIdle + kIdle && !previous_comm) {
      if (start - before < kLongest && start >= before) gap.push_back((start - before).ps());
    } else if ((before == SimTime::Min() || before + kIdle < issued) &&
               rank.kind(n) == NodeKind::kKernel) {
      if (start - issued < kLongest && start >= issued) launch.push_back((start - issued).ps());
    }
  }
  Latencies result;
  if (launch.size() >= kEnough) {
    result.launch_samples = static_cast<int64_t>(launch.size());
    result.launch = Median(launch);
  }
  if (gap.size() >= kEnough) {
    result.gap_samples = static_cast<int64_t>(gap.size());
    result.gap = TrimmedMean(gap);
  }
  if (event.size() >= kEnough / 4) {
    result.event_samples = static_cast<int64_t>(event.size());
    result.event = Median(event);
  }
  return result;
}

}  // namespace foretrace
