#include "simulator/architect/core_graph.h"

#include <array>

#include "simulator/base/enum_names.h"
#include "simulator/base/error.h"

namespace foretrace {
namespace {

// The operators that stay when those without a predecessor are taken away, again and again.
absl::Status CycleError(const CoreGraph& graph, const std::vector<int32_t>& waiting) {
  std::string names;
  for (size_t i = 0, listed = 0; i < waiting.size() && listed < 4; ++i) {
    if (waiting[i] == 0) continue;
    names += (names.empty() ? "" : ", ") + graph.ops[i].name;
    ++listed;
  }
  return InvalidInput("layer graph: a cycle runs through or before {}; remove one of its edges",
                      names);
}

bool Uses(const CoreOp& op, CoreClass core) {
  return op.core == core || op.core == CoreClass::kFused;
}

}  // namespace

std::string_view Name(CoreClass core) {
  static constexpr std::array<std::string_view, 3> kNames = {"tensor", "vector", "fused"};
  return EnumName(kNames, core);
}

absl::StatusOr<std::vector<int32_t>> CheckedOrder(const CoreGraph& graph) {
  const auto n = static_cast<int32_t>(graph.ops.size());
  if (n == 0) return InvalidInput("layer graph: it has no operators");
  for (const CoreOp& op : graph.ops) {
    if (op.core == CoreClass::kCount) {
      return InvalidInput("layer graph: operator '{}' has no class; one of tensor, vector, fused",
                          op.name);
    }
    if (op.one < SimTime() || op.all < SimTime()) {
      return InvalidInput("layer graph: operator '{}' takes a negative time", op.name);
    }
  }
  std::vector<int32_t> waiting(graph.ops.size());
  for (const auto& [from, to] : graph.edges) {
    if (from < 0 || from >= n || to < 0 || to >= n) {
      return InvalidInput("layer graph: an edge from {} to {}, but there are {} operators", from,
                          to, n);
    }
    ++waiting[static_cast<size_t>(to)];
  }
  std::vector<int32_t> order;
  for (int32_t i = 0; i < n; ++i) {
    if (waiting[static_cast<size_t>(i)] == 0) order.push_back(i);
  }
  for (size_t next = 0; next < order.size(); ++next) {
    for (const auto& [from, to] : graph.edges) {
      if (from == order[next] && --waiting[static_cast<size_t>(to)] == 0) order.push_back(to);
    }
  }
  if (order.size() < graph.ops.size()) return CycleError(graph, waiting);
  return order;
}

std::string ViolationIn(const CoreGraph& graph, const CoreCounts& cores,
                        const CoreSchedule& schedule) {
  if (schedule.ops.size() != graph.ops.size()) return "not every operator is scheduled";
  SimTime end;
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    const CoreOp& op = graph.ops[i];
    const ScheduledOp& at = schedule.ops[i];
    if (at.end - at.start != (at.on_all ? op.all : op.one)) return op.name + ": wrong duration";
    if (at.start < SimTime()) return op.name + ": starts before the layer";
    const bool tensor = Uses(op, CoreClass::kTensor), vector = Uses(op, CoreClass::kVector);
    if (!at.on_all && (at.core < 0 || (tensor && at.core >= cores.tensor) ||
                       (vector && at.core >= cores.vector))) {
      return op.name + ": no such core";
    }
    end = std::max(end, at.end);
    for (size_t j = 0; j < i; ++j) {
      const CoreOp& other = graph.ops[j];
      const ScheduledOp& b = schedule.ops[j];
      if (at.end <= b.start || b.end <= at.start) continue;
      if (at.on_all || b.on_all) return op.name + " and " + other.name + ": not alone";
      const bool shared = (tensor && Uses(other, CoreClass::kTensor)) ||
                          (vector && Uses(other, CoreClass::kVector));
      if (shared && at.core == b.core) return op.name + " and " + other.name + ": one core";
    }
  }
  for (const auto& [from, to] : graph.edges) {
    if (schedule.ops[static_cast<size_t>(from)].end > schedule.ops[static_cast<size_t>(to)].start) {
      return graph.ops[static_cast<size_t>(to)].name + ": starts before its input is there";
    }
  }
  if (end != schedule.makespan) return "the makespan is not the last end";
  return "";
}

}  // namespace foretrace
