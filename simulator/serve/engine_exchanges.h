#pragma once
// What engines exchange, by the costs of their devices: among the ranks of one, among those that
// share experts, and from one to the next.

#include <cstdint>
#include <memory>

#include "simulator/serve/device_costs.h"
#include "simulator/serve/engine_config.h"
#include "simulator/serve/layer_profile.h"
#include "simulator/serve/serving_plan.h"
#include "simulator/serve/simulate.h"

namespace foretrace::serve {

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
