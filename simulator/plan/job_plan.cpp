#include "simulator/plan/job_plan.h"

namespace foretrace {

int32_t JobPlan::AddGroup(std::string kind, std::vector<std::vector<int32_t>> sets) {
  std::erase_if(sets, [](const std::vector<int32_t>& ranks) { return ranks.size() < 2; });
  if (sets.empty()) return kNoGroup;
  groups.push_back({std::move(kind), std::move(sets)});
  return static_cast<int32_t>(groups.size()) - 1;
}

}  // namespace foretrace
