#pragma once
// What a rank of a captured job does in the iteration that plans are judged by.

#include "simulator/sharding/evaluator.h"

namespace foretrace {

// Without lookups, which the plan knows. Adds device work and the CPU's overheads of the iteration
// to `by_source`.
RankLoad CapturedLoad(const TemplateJob& job, const Schedule& schedule, uint32_t rank,
                      std::array<SimTime, static_cast<size_t>(EstimateSource::kCount)>& by_source);

}  // namespace foretrace
