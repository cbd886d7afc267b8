#pragma once
// Steps for schedulers of others (api/foretrace_step.h).

#include <memory>

#include "absl/status/statusor.h"
#include "simulator/planning/serving/serving_job.h"

namespace foretrace {

// Of an engine of options.parallel, whatever its memory. Errors: those of MakeServingJob, but for
// models that do not fit.
absl::StatusOr<std::shared_ptr<const serve::StepModel>> MakeStepPredictor(
    const ServingOptions& options);

}  // namespace foretrace
