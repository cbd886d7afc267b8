#pragma once
// A ranking of sharding plans for people, for programs, and as a picture.

#include <string>
#include <vector>

#include "simulator/planning/sharding/shard_explain.h"
#include "simulator/report/text_table.h"
#include "simulator/sharding/ranking.h"

namespace foretrace {

// Forward and backward.
SimTime LookupTime(const RankLoad& load);
// "column_wise 3,5"
std::string RanksText(const TablePlacement& placement);

// The ranked plans, the best plan's ranks with bars of their load, and what it rests on.
std::string FormatRanking(const ShardingTask& task, const Ranking& ranking,
                          const std::vector<std::string>& notes, const TextStyle& style);
// `explained`: of --explain, the key of that name; left out where there is none.
std::string RankingJson(const ShardingTask& task, const Ranking& ranking,
                        const std::vector<std::string>& notes,
                        const std::vector<TableExplanation>& explained);

// How plan `b` differs from plan `a`: times, ranks, tables that are placed otherwise.
std::string FormatComparison(const ShardingTask& task, const RankedPlan& a, const RankedPlan& b,
                             const TextStyle& style);

// Per rank one bar of what its iteration consists of.
std::string LoadSvg(const ShardingTask& task, const RankedPlan& plan);

}  // namespace foretrace
