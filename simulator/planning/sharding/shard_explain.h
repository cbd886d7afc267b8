#pragma once
// Why a table is where a plan has it: what the iteration takes with that table elsewhere.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/report/text_table.h"
#include "simulator/sharding/ranking.h"

namespace foretrace {

// The plan with one table placed otherwise, everything else as it is.
struct OtherPlacement {
  TablePlacement placement;
  SimTime iteration;
  bool fits = true;
};

struct TableExplanation {
  size_t table = 0;
  TablePlacement placement;            // the plan's
  SimTime iteration;                   // with it
  std::vector<OtherPlacement> others;  // those that fit first, then by time
};

// Every rank, and the other kinds of placement that the task allows, columns on the ranks that have
// least to look up. Errors: no table of that name.
absl::StatusOr<TableExplanation> ExplainTable(const ShardingTask& task, const RankedPlan& plan,
                                              const std::string& table,
                                              SimulatedEvaluator& evaluator);

std::string ExplanationText(const ShardingTask& task, const RankedPlan& plan,
                            const TableExplanation& explanation, const TextStyle& style);

}  // namespace foretrace
