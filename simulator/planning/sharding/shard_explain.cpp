#include "simulator/planning/sharding/shard_explain.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "simulator/base/error.h"
#include "simulator/base/nearest_name.h"
#include "simulator/base/status_macros.h"
#include "simulator/planning/sharding/shard_output.h"

namespace foretrace {
namespace {

constexpr size_t kMostShown = 12;

// Ranks from the least lookup time of the plan to the most.
std::vector<int32_t> ByLoad(const RankedPlan& plan) {
  std::vector<int32_t> ranks(plan.evaluation.ranks.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  std::ranges::stable_sort(ranks, {}, [&](int32_t r) {
    return LookupTime(plan.evaluation.ranks[static_cast<size_t>(r)]);
  });
  return ranks;
}

std::vector<TablePlacement> Others(const ShardingTask& task, const RankedPlan& plan, size_t table,
                                   int32_t ranks_per_node) {
  const TablePlacement& now = plan.plan.tables[table];
  const std::vector<int32_t> ranks = ByLoad(plan);
  std::vector<TablePlacement> others;
  const auto add = [&](TablePlacement p) {
    p.uvm = now.uvm && p.kind != PlacementKind::kDataParallel;
    if (task.allows(p.kind) && p != now) others.push_back(std::move(p));
  };
  for (int32_t r = 0; r < task.gpus; ++r) add(OnRank(r));
  for (int32_t n = 2; n <= task.gpus && task.tables[table].dim / n >= kNarrowestColumns; n *= 2) {
    add({PlacementKind::kColumn, {ranks.begin(), ranks.begin() + n}, false});
  }
  if (task.gpus > 1) {
    add(OnAllRanks(PlacementKind::kRow, task.gpus));
    add(OnAllRanks(PlacementKind::kDataParallel, task.gpus));
  }
  for (int32_t node = 0; ranks_per_node > 0 && node < task.gpus / ranks_per_node; ++node) {
    add(OnNode(node, ranks_per_node));
  }
  return others;
}

absl::StatusOr<size_t> FindTable(const ShardingTask& task, const std::string& name) {
  std::vector<std::string> names;
  for (size_t t = 0; t < task.tables.size(); ++t) {
    if (task.tables[t].name == name) return t;
    names.push_back(task.tables[t].name);
  }
  const std::string near = NearestName(name, names);
  return InvalidInput("--explain: {} has no table '{}'{}", task.file, name,
                      near.empty() ? "" : fmt::format(" (did you mean {}?)", near));
}

}  // namespace

absl::StatusOr<TableExplanation> ExplainTable(const ShardingTask& task, const RankedPlan& plan,
                                              const std::string& table,
                                              SimulatedEvaluator& evaluator) {
  TableExplanation out;
  FORETRACE_ASSIGN_OR_RETURN(out.table, FindTable(task, table));
  out.placement = plan.plan.tables[out.table];
  out.iteration = plan.evaluation.iteration;
  ShardingPlan changed = plan.plan;
  for (TablePlacement& other : Others(task, plan, out.table, evaluator.ranks_per_node())) {
    changed.tables[out.table] = other;
    if (!CheckPlan(task, changed, evaluator.ranks_per_node()).ok()) continue;
    FORETRACE_ASSIGN_OR_RETURN(const SimTime time, evaluator.IterationTime(changed));
    out.others.push_back({std::move(other), time, MemoryOf(task, evaluator.dense(), changed).fits});
  }
  std::ranges::stable_sort(out.others, [](const OtherPlacement& a, const OtherPlacement& b) {
    if (a.fits != b.fits) return a.fits;
    return a.iteration < b.iteration;
  });
  return out;
}

std::string ExplanationText(const ShardingTask& task, const RankedPlan& plan,
                            const TableExplanation& e, const TextStyle& style) {
  const EmbeddingTable& table = task.tables[e.table];
  std::string text = fmt::format(
      "\nTable {} in the plan of {}: {}; {:.1f} MB, {} lookups, {} columns\n", table.name,
      plan.plan.sharder, RanksText(e.placement),
      static_cast<double>(table.weight_bytes().count()) * 1e-6, table.access.lookups, table.dim);
  if (e.others.empty()) return text + "The task allows no other placement of it.\n";
  const OtherPlacement& next = e.others.front();
  if (!next.fits) {
    text += "Nothing else fits, everything else left where it is.\n";
  } else {
    const double percent = 100 * (next.iteration.us() / e.iteration.us() - 1);
    text += fmt::format("The best other place takes {:.1f} us an iteration ({:+.2f} %){}\n",
                        next.iteration.us(), percent,
                        percent >= 0                    ? ""
                        : plan.plan.sharder == "search" ? "; a larger --budget lets search try more"
                                                        : "; the sharder search looks for such");
  }
  using Align = TextTable::Align;
  TextTable rows({{"elsewhere", Align::kLeft, true},
                  {"iteration us"},
                  {"to the plan us"},
                  {"%"},
                  {"fits", Align::kLeft}});
  for (size_t i = 0; i < std::min(kMostShown, e.others.size()); ++i) {
    const OtherPlacement& o = e.others[i];
    rows.AddRow({RanksText(o.placement), fmt::format("{:.1f}", o.iteration.us()),
                 fmt::format("{:+.1f}", o.iteration.us() - e.iteration.us()),
                 fmt::format("{:+.2f}", 100 * (o.iteration.us() / e.iteration.us() - 1)),
                 o.fits ? "yes" : "no"});
  }
  text += rows.Format(style);
  if (e.others.size() > kMostShown) {
    text += fmt::format("... and {} more places (--json has all)\n", e.others.size() - kMostShown);
  }
  return text;
}

}  // namespace foretrace
