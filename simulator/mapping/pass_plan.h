#pragma once
// What a stage of a mapping runs in one pass: kernels in order, and exchanges with what they wait
// for.

#include <cstdint>

#include "simulator/mapping/iteration_model.h"
#include "simulator/mapping/mapping_groups.h"
#include "simulator/plan/job_plan.h"

namespace foretrace {

// What every part of a plan is made of.
struct PlanParts {
  const TransformerConfig& model;
  const ParallelMapping& m;
  const PassTimes& passes;
  const MappingGroups& groups;
};

struct PlannedPass {
  int32_t stage = 0, chunk = 0;
  PassKind kind = PassKind::kForward;
  bool last = false;  // of the last micro-batch, after which gradients are complete
};

PlanBody PlanOfPass(const PlanParts& parts, const PlannedPass& pass);

// Marks the last of the gradients' reductions.
inline constexpr int32_t kReduced = 0;

// Part `index` of the gradients' reductions, each after the one before; `reduced` is the last.
void AddReduction(const PlanParts& p, int64_t index, int64_t parts, PlanBody& body,
                  Awaited& reduced);

}  // namespace foretrace
