#include "simulator/plan/job_plan.h"

namespace foretrace {

int32_t JobPlan::AddGroup(std::string kind, std::vector<std::vector<int32_t>> sets) {
  std::erase_if(sets, [](const std::vector<int32_t>& ranks) { return ranks.size() < 2; });
  if (sets.empty()) return kNoGroup;
  groups.push_back({std::move(kind), std::move(sets)});
  return static_cast<int32_t>(groups.size()) - 1;
}

double JobPlan::Nodes() const {
  double nodes = 0;
  for (size_t s = 0; s < stages.size(); ++s) {
    const PlannedStage& stage = stages[s];
    auto own = static_cast<double>(stage.end.steps.size());
    for (const uint32_t body : stage.body_of) {
      own += static_cast<double>(stage.bodies[body].steps.size());
    }
    for (const PlannedEdge& e : edges) {
      const auto at = static_cast<int32_t>(s);
      const double ends = (e.ends.from == at ? 1 : 0) + (e.ends.to == at ? 1 : 0);
      own += 2 * ends * mini_batch / stage.micro_batch;
    }
    nodes += own * static_cast<double>(stage.ranks.size());
  }
  return nodes;
}

}  // namespace foretrace
