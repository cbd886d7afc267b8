#include "simulator/sharding/study.h"

#include <algorithm>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/sharding/generate.h"

namespace foretrace {

absl::StatusOr<StudyRow> StudyTask(const ShardingTask& task, const ShardingModels& models,
                                   uint64_t seed, int64_t search_budget) {
  FORETRACE_ASSIGN_OR_RETURN(const auto full, SimulatedEvaluator::Create(task, models));
  ShardingModels paper_models = models;
  paper_models.form = CollectiveForm::kThreeRegion;
  paper_models.semantics = JobSemantics::kAlgorithm1;
  FORETRACE_ASSIGN_OR_RETURN(const auto paper,
                             SimulatedEvaluator::Create(task, std::move(paper_models)));
  std::vector<std::unique_ptr<Sharder>> sharders = AllSharders();
  sharders.resize(kPaperSharders);
  FORETRACE_ASSIGN_OR_RETURN(const Ranking ranking, RankPlans(task, *full, sharders, {}, seed, 0));
  StudyRow row;
  row.task = task.name;
  row.platform = task.platform;
  row.heavy = std::all_of(task.tables.begin(), task.tables.end(),
                          [](const EmbeddingTable& t) { return t.pooling >= kHeavyPooling; });
  for (const RankedPlan& p : ranking.plans) {
    if (!p.memory.fits) continue;
    FORETRACE_ASSIGN_OR_RETURN(const SimTime predicted, paper->IterationTime(p.plan));
    const SimTime actual = p.evaluation.iteration;
    if (row.predicted_fastest.empty() || predicted < row.predicted) {
      row.predicted_fastest = p.plan.sharder;
      row.predicted = predicted;
      row.actual_of_predicted = actual;
    }
    if (row.actual_fastest.empty() || actual < row.actual) {
      row.actual_fastest = p.plan.sharder;
      row.actual = actual;
    }
  }
  if (row.actual_fastest.empty()) {
    return Infeasible("{}: none of the six plans fits in memory", task.file);
  }
  if (search_budget > 0) {
    const std::unique_ptr<Sharder> search = MakeSearchSharder();
    FORETRACE_ASSIGN_OR_RETURN(const Ranking searched,
                               RankPlans(task, *full, {&search, 1}, {}, seed, search_budget));
    row.searched = searched.plans.front().evaluation.iteration;
  }
  return row;
}

}  // namespace foretrace
