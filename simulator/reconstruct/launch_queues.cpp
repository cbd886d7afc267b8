#include "simulator/reconstruct/launch_queues.h"

#include <algorithm>
#include <utility>

#include "simulator/trace/device_units.h"

namespace foretrace {
namespace {

constexpr double kNearlyFull = 0.98;
constexpr size_t kEnough = 5;
// A launch that was held returns this soon after the start that made room (2 to 13 us on an H100),
constexpr SimTime kReturns = SimTime::FromNs(20'000);
// and which start that was is certain where none came this long before it.
constexpr SimTime kAlone = SimTime::FromNs(40'000);

}  // namespace

LaunchQueues::LaunchQueues(const RankTrace& rank)
    : rank_(rank), starts_(2 * rank.lanes().size()), place_(rank.size()) {
  // Rows of a recorded trace are in order of start.
  for (uint32_t i = 0; i < rank.size(); ++i) {
    const NodeIndex n(i);
    if (!IsDeviceKind(rank.kind(n))) continue;
    std::vector<SimTime>& queue = starts_[QueueOf(n)];
    place_[i] = queue.size();
    queue.push_back(rank.start(n));
  }
}

size_t LaunchQueues::QueueOf(NodeIndex device) const {
  return 2 * size_t{rank_.lane(device).value} + (OnMultiprocessors(rank_, device) ? 1 : 0);
}

size_t LaunchQueues::Started(NodeIndex device, SimTime at) const {
  const std::vector<SimTime>& starts = StartsAround(device);
  return static_cast<size_t>(std::upper_bound(starts.begin(), starts.end(), at) - starts.begin());
}

size_t LaunchQueues::Outstanding(NodeIndex device, SimTime at) const {
  const size_t place = PlaceOf(device);
  return place - std::min(place, Started(device, at));
}

size_t NearlyFull(uint32_t depth) { return static_cast<size_t>(kNearlyFull * depth); }

uint32_t MeasureQueueDepth(const RankTrace& rank, uint32_t stated) {
  const size_t full = NearlyFull(stated);
  if (full == 0 || rank.size() < full) return stated;
  const LaunchQueues queues(rank);
  std::vector<NodeIndex> last_call(queues.size());
  std::vector<uint32_t> depths;
  for (uint32_t i = 0; i < rank.size(); ++i) {
    const NodeIndex n(i);
    if (!IsDeviceKind(rank.kind(n))) continue;
    const NodeIndex call = rank.launcher(n);
    // One call issues all kernels of a graph: it finds room for the first.
    if (std::exchange(last_call[queues.QueueOf(n)], call) == call) continue;
    if (!call.valid() || !rank.has_duration(call)) continue;
    const SimTime returned = rank.end(call);
    const size_t started = queues.Started(n, returned);
    const std::vector<SimTime>& starts = queues.StartsAround(n);
    if (started < 2 || queues.PlaceOf(n) < started + full) continue;
    const SimTime last = starts[started - 1];
    const bool certain = last > rank.start(call) + kAlone && returned - last <= kReturns &&
                         last - starts[started - 2] >= kAlone;
    if (certain) depths.push_back(static_cast<uint32_t>(queues.PlaceOf(n) - (started - 1)));
  }
  if (depths.size() < kEnough) return stated;
  const auto median = depths.begin() + static_cast<ptrdiff_t>(depths.size() / 2);
  std::nth_element(depths.begin(), median, depths.end());
  return std::min(*median, stated);
}

}  // namespace foretrace
