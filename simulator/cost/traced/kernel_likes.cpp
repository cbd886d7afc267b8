#include "simulator/cost/traced/kernel_likes.h"

#include <algorithm>
#include <map>
#include <utility>

namespace foretrace {

KernelLikes::KernelLikes(const RankTrace& rank, std::span<const NodeIndex> unknown) {
  if (unknown.empty()) return;
  position_.resize(rank.size());
  for (uint32_t i = 0; i < rank.size(); ++i) {
    if (rank.kind(NodeIndex(i)) == NodeKind::kKernel) order_.emplace_back(i);
  }
  // Nodes are ordered by start.
  std::ranges::stable_sort(order_, {}, [&](NodeIndex n) { return rank.lane(n).value; });
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> likenesses;
  for (const NodeIndex node : order_) {
    position_[node.value] = static_cast<uint32_t>(likeness_.size());
    const std::pair key(rank.name(node).value, rank.waves_milli(node));
    likeness_.push_back(
        likenesses.try_emplace(key, static_cast<uint32_t>(likenesses.size() + 1)).first->second);
  }
  for (size_t level = 0; level < kNeighbours.size(); ++level) {
    for (const NodeIndex kernel : unknown)
      sums_[level].try_emplace(KeyOf(kernel, kNeighbours[level]));
  }
}

KernelLikes::Key KernelLikes::KeyOf(NodeIndex kernel, int32_t neighbours) const {
  const int64_t at = position_[kernel.value];
  Key key;
  for (int64_t i = at - neighbours; i <= at + neighbours; ++i) {
    const bool within = i >= 0 && i < std::ssize(likeness_);
    key.push_back(within ? likeness_[static_cast<size_t>(i)] : 0);
  }
  return key;
}

void KernelLikes::Learn(NodeIndex kernel, const Like& like) {
  for (size_t level = 0; level < kNeighbours.size(); ++level) {
    const auto it = sums_[level].find(KeyOf(kernel, kNeighbours[level]));
    if (it == sums_[level].end()) continue;
    it->second.total_ps += like.time.ps();
    it->second.kind = like.kind;
    ++it->second.count;
  }
}

std::optional<KernelLikes::Like> KernelLikes::Find(NodeIndex kernel) const {
  for (size_t level = 0; level < kNeighbours.size(); ++level) {
    const auto it = sums_[level].find(KeyOf(kernel, kNeighbours[level]));
    if (it == sums_[level].end() || it->second.count == 0) continue;
    return Like{SimTime::FromPs(it->second.total_ps / it->second.count), it->second.kind};
  }
  return std::nullopt;
}

}  // namespace foretrace
