#include "simulator/cost/traced/autograd_functions.h"

#include "simulator/base/contains.h"

namespace foretrace {
namespace {

// Empty: no function's backward pass. Graphs that PyTorch's compiler made, and parts of a model
// that are computed again, are one function each, which says nothing of its layers.
std::string_view ForwardName(std::string_view name) {
  constexpr std::string_view kBackward = "Backward";
  if (ContainsAny(name, {"CompiledFunction", "CheckpointFunction"})) return {};
  if (!name.ends_with(kBackward) || name.find(' ') != name.npos) return {};
  name.remove_suffix(kBackward.size());
  return name;
}

}  // namespace

AutogradFunctions::AutogradFunctions(const TraceStore& store, const RankTrace& rank) {
  absl::flat_hash_map<std::string_view, uint32_t> names;
  absl::flat_hash_set<uint32_t> seen;  // spares most nodes their name
  for (uint32_t i = 0; i < rank.size(); ++i) {
    const NodeIndex node(i);
    if (rank.kind(node) != NodeKind::kCpuOp) continue;
    if (!seen.insert(rank.name(node).value).second) continue;
    names.try_emplace(store.name(rank, node), rank.name(node).value);
  }
  for (const auto& [name, id] : names) {
    const auto forward = names.find(ForwardName(name));
    if (forward == names.end() || forward->first.empty()) continue;
    forward_of_[id] = forward->second;
    forward_.insert(forward->second);
  }
}

std::optional<StringId> AutogradFunctions::ForwardOf(StringId name) const {
  const auto found = forward_of_.find(name.value);
  if (found == forward_of_.end()) return std::nullopt;
  return StringId(found->second);
}

}  // namespace foretrace
