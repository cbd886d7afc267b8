#include "simulator/cost/kernel/kernel_likes.h"

#include <algorithm>
#include <map>
#include <utility>

#include "simulator/cost/kernel/kernel_names.h"

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

namespace {

// The number behind "Array<char*, " or "array<char*, ": pointers that the kernel has.
int64_t TensorsOf(std::string_view name) {
  constexpr std::string_view kPointers = "rray<char*, ";
  const size_t at = name.find(kPointers);
  if (at == name.npos || at + kPointers.size() >= name.size()) return 0;
  const char digit = name[at + kPointers.size()];
  return digit >= '1' && digit <= '9' ? digit - '0' : 0;
}

DType ElementOf(std::string_view name) {
  const auto has = [&](std::string_view part) { return name.find(part) != name.npos; };
  if (has("BFloat16") || has("c10::Half")) return DType::kFloat16;
  if (has("<double") || has("<long")) return DType::kInt64;
  return DType::kFloat32;
}

}  // namespace

std::optional<KernelWork> WorkOfLaunch(std::string_view name, uint32_t waves_milli,
                                       double resident_threads) {
  const KernelRole role = TraitsOfKernel(name).role;
  const bool elementwise = role == KernelRole::kElementwise || role == KernelRole::kConverted;
  const int64_t tensors = TensorsOf(name);
  if (!elementwise || tensors == 0 || waves_milli == 0) return std::nullopt;
  constexpr double kElementsPerThread = 4;
  const DType dtype = ElementOf(name);
  const auto elements =
      static_cast<int64_t>(waves_milli / 1000.0 * resident_threads * kElementsPerThread);
  KernelWork work;
  work.kind = tensors == 1 ? KernelKind::kFill : KernelKind::kElementwise;
  work.dtype = dtype;
  work.read = Bytes(SaturatingProduct({elements, tensors - 1, ElementSize(dtype)}));
  work.written = Bytes(SaturatingProduct({elements, ElementSize(dtype)}));
  return work;
}

}  // namespace foretrace
