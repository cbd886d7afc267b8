#pragma once
// Steps with a draft before them, and other steps put together from steps and transfers.

#include <memory>

#include "simulator/serve/device_costs.h"
#include "simulator/serve/layer_profile.h"
#include "simulator/serve/serving_plan.h"
#include "simulator/serve/simulate.h"
#include "simulator/serve/speculation.h"

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

// A sum over `ranks` devices, by the engine's own kernel where it takes it (EngineAllReduce).
Estimate SumOverRanks(const EngineConfig& engine, const DeviceCosts& costs, int32_t ranks,
                      Bytes bytes);
// Such sums; null for one device.
std::shared_ptr<const RankExchange> MakeRankExchange(const EngineConfig& engine,
                                                     std::shared_ptr<const DeviceCosts> costs,
                                                     int32_t ranks);
// Of `ranks` engines that share experts.
std::shared_ptr<const EngineExchange> MakeEngineExchange(std::shared_ptr<const DeviceCosts> costs,
                                                         int32_t ranks);

// From each device of an engine to the one in its place of the next: bandwidth and latency of a
// transfer, from its times for one and for many tokens.
KvLink LinkOf(const DeviceCosts& costs, const ServingPlan& plan, Bytes kv_per_token);

}  // namespace foretrace::serve
