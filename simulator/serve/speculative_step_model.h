#pragma once
// Steps with a draft before them.

#include <cstdint>
#include <memory>

#include "simulator/serve/device_costs.h"
#include "simulator/serve/speculation.h"
#include "simulator/serve/step_model.h"

namespace foretrace::serve {

// What ids of tokens take between the target's devices and the draft's, one way; zero where they
// are the same devices.
class TokenExchange {
 public:
  virtual ~TokenExchange() = default;
  virtual Estimate Time(int64_t tokens) const = 0;
};
std::shared_ptr<const TokenExchange> MakeTokenExchange(std::shared_ptr<const DeviceCosts> costs,
                                                       int32_t distance);

// The draft model makes its tokens one depth after another, each a step of its own over the
// decodes; then the target checks all of them in one step. Prompts pass both. On devices of its own
// (`exchange` not null) the draft reads a prompt while the target does, and its tokens and those
// that are accepted go over the network.
std::shared_ptr<const StepModel> MakeSpeculativeStepModel(
    std::shared_ptr<const StepModel> target, std::shared_ptr<const StepModel> draft,
    const Speculation& speculation, std::shared_ptr<const TokenExchange> exchange);

}  // namespace foretrace::serve
