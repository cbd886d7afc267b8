#include "simulator/workload/workload.h"

#include <array>
#include <set>
#include <utility>

#include "simulator/base/enum_names.h"
#include "simulator/base/error.h"

namespace foretrace {

std::string_view Name(OperatorKind kind) {
  static constexpr std::array<std::string_view, 11> kNames = {
      "linear", "attention", "norm",   "elementwise", "embedding", "embedding_bag",
      "router", "experts",   "concat", "loss",        "generic"};
  return EnumName(kNames, kind);
}

int64_t Workload::ParameterCount() const {
  int64_t total = 0;
  for (const Operator& op : operators) total += op.parameters;
  return total;
}

int64_t Workload::ActiveParameterCount() const {
  int64_t total = 0;
  for (const Operator& op : operators) total += op.active_parameters;
  return total;
}

Flop Workload::ForwardFlop() const {
  Flop total;
  for (const Operator& op : operators) total += op.forward_flop;
  return total;
}

Flop Workload::ModelFlop() const {
  Flop total;
  for (const Operator& op : operators) total += op.forward_flop + op.backward_flop;
  return total;
}

absl::Status Workload::Validate() const {
  if (operators.empty()) return InvalidInput("workload '{}' has no operators", name);
  for (const Operator& op : operators) {
    if (op.parameters < 0 || op.active_parameters < 0 || op.active_parameters > op.parameters ||
        op.forward_flop < Flop() || op.backward_flop < Flop() || op.forward_bytes < Bytes() ||
        op.backward_bytes < Bytes() || op.stash_tensor < Bytes() || op.stash_sequence < Bytes() ||
        op.stash_selective < Bytes() || op.stash_selective > op.stash_tensor ||
        op.output_bytes < Bytes() || op.tensor_ways < 0) {
      return InvalidInput("workload '{}': operator '{}' has a negative or inconsistent quantity",
                          name, op.name);
    }
  }
  std::set<std::pair<int32_t, int32_t>> seen;
  const auto count = static_cast<int32_t>(operators.size());
  for (const OperatorEdge& e : edges) {
    if (e.from < 0 || e.to < 0 || e.from >= count || e.to >= count) {
      return InvalidInput("workload '{}': edge {} -> {} names an operator that does not exist",
                          name, e.from, e.to);
    }
    if (e.from >= e.to) {
      return InvalidInput(
          "workload '{}': edge '{}' -> '{}' goes backward; list operators in an order in which "
          "every edge goes forward",
          name, operators[e.from].name, operators[e.to].name);
    }
    if (e.bytes < Bytes()) {
      return InvalidInput("workload '{}': edge '{}' -> '{}' has negative bytes", name,
                          operators[e.from].name, operators[e.to].name);
    }
    if (!seen.emplace(e.from, e.to).second) {
      return InvalidInput("workload '{}': edge '{}' -> '{}' is given twice", name,
                          operators[e.from].name, operators[e.to].name);
    }
  }
  return absl::OkStatus();
}

}  // namespace foretrace
