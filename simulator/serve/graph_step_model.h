#pragma once
// Steps of a model from its operator graph and the costs of its devices.

#include <memory>

#include "simulator/serve/device_costs.h"
#include "simulator/serve/engine_config.h"
#include "simulator/serve/serving_plan.h"
#include "simulator/serve/step_model.h"

namespace foretrace::serve {

// What a step computes and moves: every operator of the model's graph over the step's tokens, of
// each kind of layer; attention (layer_attention.h); the output layer for one token of each
// sequence. Collectives by plan (serving_plan.h). Of one data-parallel rank; with experts divided
// over ranks what the others' tokens (StepBatch::peer_tokens) make of it.
std::shared_ptr<const StepModel> MakeGraphStepModel(const TransformerConfig& model,
                                                    const ServingPlan& plan,
                                                    const EngineConfig& engine,
                                                    std::shared_ptr<const DeviceCosts> costs);

}  // namespace foretrace::serve
