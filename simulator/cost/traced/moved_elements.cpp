#include "simulator/cost/traced/moved_elements.h"

#include <algorithm>
#include <string_view>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "simulator/base/contains.h"
#include "simulator/cost/kernel/generated_kernels.h"

namespace foretrace {
namespace {

constexpr int64_t kNeighbours = 4, kSmallShare = 16;

}  // namespace

int64_t ElementsOfThread(const TraceStore& store, const RankTrace& rank) {
  constexpr int64_t kSince27 = 8;
  for (uint32_t i = 0; i < rank.size(); ++i) {
    const NodeIndex node(i);
    if (rank.kind(node) != NodeKind::kKernel) continue;
    const std::string_view name = store.name(rank, node);
    if (ContainsAny(name, {"vectorized_elementwise_kernel<8,", "vectorized_elementwise_kernel<16,",
                           "GammaBetaBackwardCUDAKernelTemplate<"})) {
      return kSince27;
    }
    // Reductions name how many elements they load at once since then (ReduceOp's last parameter).
    if (ContainsAny(name, {"reduce_kernel<"}) && ContainsAny(name, {", 4, 4>", ", 4, 8>"})) {
      return kSince27;
    }
  }
  return Launch::kElementsOfThread;
}

MovedElements::MovedElements(const TraceStore& store, const RankTrace& rank, const GpuPeaks& device,
                             int64_t thread_elements)
    : position_(rank.size()) {
  for (uint32_t i = 0; i < rank.size(); ++i) {
    if (rank.kind(NodeIndex(i)) == NodeKind::kKernel) order_.emplace_back(i);
  }
  // Nodes are ordered by start.
  std::ranges::stable_sort(order_, {}, [&](NodeIndex n) { return rank.lane(n).value; });
  // Steps repeat: equal launches share what is kept of their grids.
  absl::flat_hash_map<std::tuple<uint32_t, uint32_t, const LaunchAttr*>, int64_t> known;
  for (const NodeIndex node : order_) {
    position_[node.value] = static_cast<uint32_t>(elements_.size());
    lane_.push_back(rank.lane(node).value);
    Launch launch = LaunchOf(store, rank, node);
    launch.thread_elements = thread_elements;
    const auto [at, added] =
        known.try_emplace({rank.name(node).value, launch.waves_milli, launch.attr});
    if (added) {
      const auto generated =
          launch.attr != nullptr ? GeneratedKernelOf(launch.name, *launch.attr) : std::nullopt;
      const auto work = WorkOfLaunch(launch, device);
      if (generated) at->second = generated->elements;
      const bool moves = work.has_value() && work->kind == KernelKind::kElementwise;
      if (moves) at->second = work->written.count() / ElementSize(work->dtype);
    }
    elements_.push_back(at->second);
  }
}

int64_t MovedElements::Near(NodeIndex kernel, KernelKind kind) const {
  const auto at = static_cast<int64_t>(position_[kernel.value]);
  const auto moved = [&](int64_t i) -> int64_t {
    if (i < 0 || i >= std::ssize(elements_)) return 0;
    const auto j = static_cast<size_t>(i);
    return lane_[j] == lane_[static_cast<size_t>(at)] ? elements_[j] : 0;
  };
  int64_t most = 0;
  for (int64_t d = 1; d <= kNeighbours; ++d) most = std::max({most, moved(at - d), moved(at + d)});
  if (kind == KernelKind::kReduction || kind == KernelKind::kPooling) return most;
  // But for counters and the like that lie between.
  for (int64_t d = 1; d <= kNeighbours; ++d) {
    const int64_t nearest = std::max(moved(at - d), moved(at + d));
    if (nearest > 0 && nearest >= most / kSmallShare) return nearest;
  }
  return 0;
}

}  // namespace foretrace
