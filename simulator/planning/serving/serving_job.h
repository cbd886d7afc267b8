#pragma once
// A deployment as `serve` is asked for it, and its requests.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/planning/serving/serving_base.h"
#include "simulator/serve/memory_ledger.h"
#include "simulator/serve/metrics.h"
#include "simulator/serve/request_files.h"

namespace foretrace {

// Of options.requests or the generator; `notes` learns what was assumed.
absl::StatusOr<serve::RequestTrace> LoadRequests(const ServingOptions& options,
                                                 int32_t max_model_len,
                                                 std::vector<std::string>& notes);

// A deployment, and what reports say of it.
struct ServingJob {
  serve::ServingPlan plan;
  serve::MemoryLedger ledger;
  serve::Deployment deployment;
  int32_t devices = 0;  // of all engines
};
// Devices that the options ask for. Errors: a plan that cannot be read.
absl::StatusOr<int32_t> DevicesOf(const ServingOptions& options);
// Errors: degrees that do not divide the model, more devices than the platform has, a model that
// does not fit (exit code 3, with what would).
absl::StatusOr<ServingJob> MakeServingJob(const ServingBase& base, const ServingOptions& options);

serve::ServiceLevel LevelOf(const ServingOptions& options);
}  // namespace foretrace
