#pragma once
// A workload under one mapping of either kind: its evaluation, picture and traces.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/plan/lowering.h"
#include "simulator/planning/mappings/search_report.h"
#include "simulator/planning/mappings/training_job.h"
#include "simulator/search/graph_searchers.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

// The problem that graph searchers solve; transformers block by block. Errors: a batch that is no
// power of two, fewer devices than one. Each of its operators has a name of its own. Tensor
// parallelism is within a node, of powers of two up to `max_tensor`.
absl::StatusOr<GraphPipeProblem> GraphProblemOf(const TrainingJob& job, int32_t mini_batch,
                                                int32_t max_tensor = 1 << 16);

SearchRow RowOf(const TrainingJob& job, const GraphPipeProblem& problem, std::string searcher,
                const GraphSearchResult& result);
SearchRow RowOf(const TrainingJob& job, std::string searcher, const ParallelMapping& mapping,
                const Evaluation& evaluation);

struct EvaluatedGraph {
  GraphPipeProblem problem;
  GraphSearchResult result;
};
// Errors as EvaluateMapping.
absl::StatusOr<EvaluatedGraph> EvaluateStageMapping(const TrainingJob& job,
                                                    const StageMapping& mapping);

// Errors: infeasible mappings, operators that the workload lacks or that are left out.
absl::StatusOr<SearchRow> EvaluateMapping(const TrainingJob& job, const MappingFile& mapping);
// SearchRow::reserved, of parallel mappings.
absl::Status FollowMemory(const TrainingJob& job, SearchRow& row);
// SearchRow::cpu, likewise.
absl::Status FollowCpu(const TrainingJob& job, SearchRow& row);
absl::StatusOr<PipelinePicture> PictureOfMapping(const TrainingJob& job,
                                                 const MappingFile& mapping);

struct GeneratedJob {
  TraceStore store;
  SimTime iteration;  // of the folded evaluation
};
absl::StatusOr<GeneratedJob> GenerateJob(const TrainingJob& job, const MappingFile& mapping,
                                         const LoweringOptions& options);

}  // namespace foretrace
