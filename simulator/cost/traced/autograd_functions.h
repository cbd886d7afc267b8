#pragma once
// Names of functions that define their own gradients (torch.autograd.Function).

#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

// A function's forward call has its class's name ("_Linear"), autograd's node that goes through its
// backward pass the same with "Backward" behind it; nodes of PyTorch's own operators end in a
// number ("AddmmBackward0"). Those of which a rank has both; names as its pool's ids.
class AutogradFunctions {
 public:
  AutogradFunctions(const TraceStore& store, const RankTrace& rank);

  bool IsForward(StringId name) const { return forward_.contains(name.value); }
  // Of a node's name the forward call's; nullopt: no such node.
  std::optional<StringId> ForwardOf(StringId name) const;

 private:
  absl::flat_hash_set<uint32_t> forward_;
  absl::flat_hash_map<uint32_t, uint32_t> forward_of_;
};

}  // namespace foretrace
