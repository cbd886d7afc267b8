#pragma once
// What a deployment that does not fit in its devices' memory could have instead.

#include <functional>
#include <string>

#include "simulator/planning/serving/serving_job.h"

namespace foretrace {

// "; --max-model-len 2048 or --parallel 'tp2 pp2' would fit"; empty: nothing of these would. What
// is named is what `fits` takes, with the limits of a step that `options` state. `room`: tokens of
// one request that the cache holds.
std::string MemoryRemedy(const ServingBase& base, const ServingOptions& options,
                         const serve::ServingPlan& plan, int64_t room,
                         const std::function<bool(const ServingOptions&)>& fits);

}  // namespace foretrace
