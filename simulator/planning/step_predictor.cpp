#include "simulator/planning/step_predictor.h"

#include "simulator/base/status_macros.h"

namespace foretrace {

absl::StatusOr<std::shared_ptr<const serve::StepModel>> MakeStepPredictor(
    const ServingOptions& options) {
  FORETRACE_ASSIGN_OR_RETURN(const int32_t devices, DevicesOf(options));
  FORETRACE_ASSIGN_OR_RETURN(const ServingBase base, LoadServingBase(options, devices));
  ServingOptions any = options;
  any.kv_blocks = 1;  // steps do not depend on it
  FORETRACE_ASSIGN_OR_RETURN(const ServingJob job, MakeServingJob(base, any));
  return job.deployment.pool.model;
}

}  // namespace foretrace
