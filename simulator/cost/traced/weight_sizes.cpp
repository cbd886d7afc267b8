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
constexpr size_t kLeastRun = 6;
// Layers are alike: copies of more sizes are of something else.
constexpr size_t kMostSizes = 256;

// Of contiguous tensors, which weights are.
bool IsCast(std::string_view name) {
  return ContainsAny(name, {"vectorized_elementwise_kernel<"}) &&
         ContainsAny(name, {"float16_copy_kernel"});
}

}  // namespace

WeightSizes::WeightSizes(const TraceStore& store, const RankTrace& rank, const MovedElements& moved,
                         Bytes element)
    : shards_(std::max(store.world_size(), 1)) {
  std::vector<Run> runs(rank.lanes().size());  // that go on, by stream
  std::vector<Run> ended;
  const auto end = [&](Run& run) {
    if (run.copies.size() > 1) ended.push_back(std::move(run));
    run = Run();
  };
  // Nodes are ordered by start.
  for (uint32_t i = 0; i < rank.size(); ++i) {
    const NodeIndex node(i);
    const NodeKind kind = rank.kind(node);
    const std::string_view name = store.name(rank, node);
    const WorkAttr* work = kind == NodeKind::kMemcpy ? rank.work(node) : nullptr;
    Run& run = runs[rank.lane(node).value];
    if (kind == NodeKind::kKernel && IsCast(name)) {
      run.copies.push_back({moved.of(node), kBlock});
      run.casts.push_back(node);
    } else if (work != nullptr && rank.memcpy_kind(node) == MemcpyKind::kDeviceToDevice) {
      run.copies.push_back({work->bytes.count() / element.count(), 1});
    } else if (kind == NodeKind::kKernel && !ContainsAny(name, {"nccl"})) {
      // What goes on beside a layer, as copies of gradients do, is no gathering.
      for (Run& other : runs) end(other);
    }
  }
  for (Run& run : runs) end(run);
  const bool gathers =
      std::ranges::any_of(ended, [](const Run& run) { return run.copies.size() >= kLeastRun; });
  for (const Run& run : ended) {
    if (gathers) Add(run);
  }
  if (sizes_.size() <= kMostSizes) return;
  sizes_.clear();
  casts_.clear();
}

void WeightSizes::Add(const Run& run) {
  casts_.insert(run.casts.begin(), run.casts.end());
  for (const Copy& copy : run.copies) Add(copy);
}

void WeightSizes::Add(const Copy& copy) {
  if (copy.elements < 1) return;
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
