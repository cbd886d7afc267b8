#pragma once
// The engine that `serve` is asked for: a release's defaults with what options say instead.

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "simulator/planning/serving/serving_job.h"

namespace foretrace {

// On `device`, with limits of all data-parallel ranks of `plan` together; `longest_request`: what
// it is started for, where that is not given and more than the model's sequence. Errors: engines
// and features that are not known, options without an effect, limits that are too large.
absl::StatusOr<serve::EngineConfig> EngineOf(const ServingOptions& options,
                                             const TransformerConfig& model,
                                             const serve::ServingPlan& plan,
                                             const Accelerator& device, int64_t longest_request);

// What options say of engine and model beside the names of their files; empty: nothing. Errors:
// as EngineOf.
absl::StatusOr<std::string> AskedFor(const ServingOptions& options);

}  // namespace foretrace
