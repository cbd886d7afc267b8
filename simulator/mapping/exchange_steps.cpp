#include "simulator/mapping/exchange_steps.h"

#include <utility>

namespace foretrace {

PlanStep ExchangeStep(CollectiveOp op, StepName name, int32_t group, Bytes bytes,
                      SimTime duration) {
  PlanStep step;
  step.name = std::move(name);
  step.duration = duration;
  step.group = group;
  step.op = op;
  step.bytes = bytes;
  return step;
}

std::vector<PlanStep> ReductionSteps(StepName name, const LayerExchange& e,
                                     const MappingGroups::Reducers& groups) {
  std::vector<PlanStep> steps;
  if (e.time > SimTime()) {
    steps.push_back(ExchangeStep(e.op, name, groups.shards, e.bytes, e.time));
  }
  if (e.copies > SimTime()) {
    steps.push_back(ExchangeStep(CollectiveOp::kAllReduce, name, groups.copies, e.share, e.copies));
  }
  return steps;
}

}  // namespace foretrace
