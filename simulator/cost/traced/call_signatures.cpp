#include "simulator/cost/traced/call_signatures.h"

#include <algorithm>

namespace foretrace {

CallSignatures::Key CallSignatures::KeyOf(NodeIndex call,
                                          std::span<const NodeIndex> kernels) const {
  Key key = {rank_.name(call).value};
  for (const NodeIndex kernel : kernels) {
    key.push_back(rank_.name(kernel).value);
    key.push_back(rank_.kind(kernel) == NodeKind::kKernel ? rank_.waves_milli(kernel) : 0);
  }
  return key;
}

bool CallSignatures::SameShapes(NodeIndex a, NodeIndex b) const {
  const auto same = [this](const Tensor& x, const Tensor& y) {
    return x.dtype == y.dtype && x.is_output == y.is_output &&
           std::ranges::equal(rank_.dims(x), rank_.dims(y));
  };
  return std::ranges::equal(rank_.tensors(a), rank_.tensors(b), same);
}

void CallSignatures::Learn(NodeIndex call, std::span<const NodeIndex> kernels) {
  const auto [it, inserted] = known_.try_emplace(KeyOf(call, kernels), Known{call, false});
  if (!inserted && !SameShapes(it->second.call, call)) it->second.ambiguous = true;
}

std::optional<NodeIndex> CallSignatures::Find(NodeIndex call,
                                              std::span<const NodeIndex> kernels) const {
  const auto it = known_.find(KeyOf(call, kernels));
  if (it == known_.end() || it->second.ambiguous) return std::nullopt;
  return it->second.call;
}

}  // namespace foretrace
