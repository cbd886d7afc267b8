#include "simulator/architect/core_graph.h"

#include <algorithm>
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

// Chains that cover chosen operators: by augmenting paths, each operator gets a next one.
class Matching {
 public:
  Matching(std::vector<std::vector<bool>> reaches, const std::vector<bool>& chosen)
      : reaches_(std::move(reaches)), chosen_(chosen), before_(chosen.size(), -1) {
    for (size_t i = 0; i < chosen_.size(); ++i) {
      if (!chosen_[i]) continue;
      ++chains_;
      std::vector<bool> seen(chosen_.size());
      if (Augment(i, seen)) --chains_;
    }
  }
  int32_t Unmatched() const { return chains_; }

 private:
  bool Augment(size_t i, std::vector<bool>& seen) {
    for (size_t j = 0; j < chosen_.size(); ++j) {
      if (!chosen_[j] || !reaches_[i][j] || seen[j]) continue;
      seen[j] = true;
      if (before_[j] < 0 || Augment(static_cast<size_t>(before_[j]), seen)) {
        before_[j] = static_cast<int32_t>(i);
        return true;
      }
    }
    return false;
  }
  std::vector<std::vector<bool>> reaches_;
  const std::vector<bool>& chosen_;
  std::vector<int32_t> before_;
  int32_t chains_ = 0;
};

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

std::vector<std::vector<bool>> Reachable(const std::vector<std::pair<int32_t, int32_t>>& edges,
                                         const std::vector<int32_t>& order) {
  const size_t n = order.size();
  std::vector<std::vector<bool>> reaches(n, std::vector<bool>(n));
  for (size_t k = n; k-- > 0;) {
    const auto i = static_cast<size_t>(order[k]);
    for (const auto& [from, to] : edges) {
      if (from != order[k]) continue;
      const auto j = static_cast<size_t>(to);
      reaches[i][j] = true;
      for (size_t x = 0; x < n; ++x) {
        if (reaches[j][x]) reaches[i][x] = true;
      }
    }
  }
  return reaches;
}

int32_t Concurrency(const std::vector<std::pair<int32_t, int32_t>>& edges,
                    const std::vector<int32_t>& order, const std::vector<bool>& chosen) {
  const Matching matching(Reachable(edges, order), chosen);
  return matching.Unmatched();
}

CoreCounts Concurrency(const CoreGraph& graph, const std::vector<int32_t>& order) {
  std::vector<bool> tensor, vector;
  for (const CoreOp& op : graph.ops) {
    tensor.push_back(Uses(op, CoreClass::kTensor));
    vector.push_back(Uses(op, CoreClass::kVector));
  }
  return {std::max(Concurrency(graph.edges, order, tensor), 1),
          std::max(Concurrency(graph.edges, order, vector), 1)};
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
