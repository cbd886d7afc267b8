#pragma once
// Three devices that pass 100 bytes on to the next, once.

#include <utility>

#include "simulator/plan/job_plan.h"
#include "simulator/plan/schedule.h"

namespace foretrace {

// `takes`: what the exchange takes where no network says it; `kernel`: what follows it, if any.
inline JobPlan RingPlan(SimTime takes, SimTime kernel = {}) {
  JobPlan plan;
  plan.name = "ring";
  plan.producer = "test";
  PlannedStage stage;
  stage.ranks = {0, 1, 2};
  stage.passes = GPipeSchedule(1);
  stage.bodies.resize(2);
  stage.body_of = {0, 1};
  PlanStep hop;
  hop.name = Named("hop");
  hop.duration = takes;
  hop.group = plan.AddGroup("context", {{0, 1, 2}});
  hop.op = CollectiveOp::kSendRecv;
  hop.bytes = Bytes(100);
  stage.bodies[0].HoldingExchange(hop);
  if (kernel > SimTime()) stage.bodies[0].Kernel(OfPass(), kernel);
  plan.stages.push_back(std::move(stage));
  return plan;
}

}  // namespace foretrace
