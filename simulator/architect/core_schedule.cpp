#include "simulator/architect/core_schedule.h"

#include <algorithm>

#include "simulator/architect/core_milp.h"
#include "simulator/architect/core_search.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"

namespace foretrace {
namespace {

// For each operator, how many others come before or after it on paths.
std::vector<size_t> Comparable(const CoreGraph& graph, const std::vector<int32_t>& order) {
  const size_t n = graph.ops.size();
  const std::vector<std::vector<bool>> reaches = Reachable(graph.edges, order);
  std::vector<size_t> count(n);
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j) count[i] += reaches[i][j] || reaches[j][i] ? 1 : 0;
  }
  return count;
}

// Operators between two that everything else comes before or after; those alone.
std::vector<std::vector<int32_t>> Parts(const CoreGraph& graph, const std::vector<int32_t>& order) {
  const std::vector<size_t> comparable = Comparable(graph, order);
  std::vector<std::vector<int32_t>> parts(1);
  for (const int32_t id : order) {
    const bool cut = comparable[static_cast<size_t>(id)] + 1 == graph.ops.size();
    if (cut && !parts.back().empty()) parts.emplace_back();
    parts.back().push_back(id);
    if (cut) parts.emplace_back();
  }
  if (parts.back().empty()) parts.pop_back();
  return parts;
}

struct Subgraph {
  CoreGraph graph;
  std::vector<int32_t> order;
};
Subgraph Cut(const CoreGraph& graph, const std::vector<int32_t>& ids) {
  Subgraph part;
  std::vector<int32_t> local(graph.ops.size(), -1);
  for (size_t k = 0; k < ids.size(); ++k) {
    local[static_cast<size_t>(ids[k])] = static_cast<int32_t>(k);
    part.graph.ops.push_back(graph.ops[static_cast<size_t>(ids[k])]);
    part.order.push_back(static_cast<int32_t>(k));
  }
  for (const auto& [from, to] : graph.edges) {
    const int32_t a = local[static_cast<size_t>(from)], b = local[static_cast<size_t>(to)];
    if (a >= 0 && b >= 0) part.graph.edges.emplace_back(a, b);
  }
  return part;
}

}  // namespace

absl::StatusOr<CoreSchedule> ScheduleCores(const CoreGraph& graph, const CoreCounts& cores,
                                           const ScheduleLimits& limits) {
  FORETRACE_ASSIGN_OR_RETURN(const std::vector<int32_t> order, CheckedOrder(graph));
  if (cores.tensor < 1 || cores.vector < 1) {
    return InvalidInput("schedule: {} tensor and {} vector cores; at least 1 of each", cores.tensor,
                        cores.vector);
  }
  CoreSchedule whole;
  whole.ops.resize(graph.ops.size());
  for (const std::vector<int32_t>& ids : Parts(graph, order)) {
    if (ids.size() > kMaxSearchedOps) {
      return InvalidInput(
          "schedule: {} operators that run beside each other; cut the layer into layers of at most "
          "{}",
          ids.size(), kMaxSearchedOps);
    }
    const Subgraph part = Cut(graph, ids);
    FORETRACE_ASSIGN_OR_RETURN(
        const CoreSchedule found,
        ImproveByMilp(part.graph, part.order, cores,
                      SearchSchedule(part.graph, part.order, cores, limits), limits));
    for (size_t k = 0; k < ids.size(); ++k) {
      ScheduledOp at = found.ops[k];
      at.start += whole.makespan;
      at.end += whole.makespan;
      whole.ops[static_cast<size_t>(ids[k])] = at;
    }
    whole.makespan += found.makespan;
    whole.bound += found.bound;
    whole.nodes += found.nodes;
  }
  return whole;
}

}  // namespace foretrace
