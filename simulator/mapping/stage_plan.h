#pragma once
// Stages that may differ in devices and micro-batch size as what each of their devices runs.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/plan/job_plan.h"

namespace foretrace {

// A stage of a stage graph: its replicas share each micro-batch, and `tensor` devices divide each
// replica's operators.
struct PlacedStage {
  std::string name;
  int32_t devices = 1;
  int32_t tensor = 1;
  SimTime gradient_reduction;
  Bytes gradient_bytes;
};

// The ranks of stage 0, then of stage 1, ... `edge_bytes`: of a message between two devices, by
// edge of the pipeline. Lowered it takes as long as TimePipeline, with each stage's reduction after
// its end. Errors: chunks, split backward passes.
absl::StatusOr<JobPlan> PlanOfStages(const TimedPipeline& pipeline,
                                     const std::vector<PlacedStage>& stages,
                                     const std::vector<Bytes>& edge_bytes, DType dtype);

}  // namespace foretrace
