#include "simulator/cost/traced/weight_sizes.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "simulator/base/contains.h"
#include "simulator/cost/operator/kernel_work.h"

namespace foretrace {
namespace {

constexpr int64_t kBlock = 1024;  // elements of a cast's block
// Autocast casts three arguments of a layer, and what a norm gives.
constexpr int64_t kLeastRun = 6;

// Of contiguous tensors, which weights are.
bool IsCast(std::string_view name) {
  return ContainsAny(name, {"vectorized_elementwise_kernel<"}) &&
         ContainsAny(name, {"float16_copy_kernel"});
}

}  // namespace

WeightSizes::WeightSizes(const TraceStore& store, const RankTrace& rank, const MovedElements& moved,
                         Bytes element)
    : shards_(std::max(store.world_size(), 1)) {
  std::vector<Copy> copies;  // of all runs
  std::vector<int64_t> run(rank.lanes().size());
  int64_t longest = 0;
  // Nodes are ordered by start.
  for (uint32_t i = 0; i < rank.size(); ++i) {
    const NodeIndex node(i);
    const NodeKind kind = rank.kind(node);
    if (kind != NodeKind::kKernel && kind != NodeKind::kMemcpy) continue;
    const bool copied =
        kind == NodeKind::kMemcpy && rank.memcpy_kind(node) == MemcpyKind::kDeviceToDevice;
    const WorkAttr* work = copied ? rank.work(node) : nullptr;
    Copy copy;
    const std::string_view name = store.name(rank, node);
    if (kind == NodeKind::kKernel && IsCast(name)) {
      copy = {moved.of(node), kBlock};
    } else if (kind == NodeKind::kKernel && !ContainsAny(name, {"nccl"})) {
      // What goes on beside a layer, as copies of gradients do, is no gathering.
      std::ranges::fill(run, 0);
    } else if (work != nullptr) {
      copy = {work->bytes.count() / element.count(), 1};
    }
    int64_t& length = run[rank.lane(node).value];
    length = copy.elements > 0 ? length + 1 : 0;
    if (length > 1) copies.push_back(copy);
    longest = std::max(longest, length);
  }
  if (longest < kLeastRun) return;
  for (const Copy& copy : copies) Add(copy);
}

void WeightSizes::Add(const Copy& copy) {
  for (const int64_t whole : {copy.elements, SaturatingProduct({copy.elements, shards_})}) {
    const auto [at, added] = sizes_.try_emplace(whole, copy.rounded);
    if (!added) at->second = std::min(at->second, copy.rounded);
  }
}

bool WeightSizes::Has(int64_t elements) const {
  const auto at = sizes_.lower_bound(elements);
  return at != sizes_.end() && elements > 0 && elements > at->first - at->second;
}

}  // namespace foretrace
