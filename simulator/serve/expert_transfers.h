#pragma once
// Tokens of a step on their way to experts of other devices, and results back.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "simulator/cost/collective/expert_exchange.h"
#include "simulator/serve/device_costs.h"
#include "simulator/serve/serving_plan.h"
#include "simulator/workload/transformer.h"

namespace foretrace::serve {

// By which algorithm, in steps with prompts and in steps of decodes alone.
struct ExpertTransfers {
  ExpertAlgorithm prompts = ExpertAlgorithm::kAllGather;
  ExpertAlgorithm decodes = ExpertAlgorithm::kAllGather;
  int32_t multiprocessors = 20;  // that DeepEP's normal kernels take

  ExpertAlgorithm Of(bool with_prompts) const { return with_prompts ? prompts : decodes; }
};

// "allgather", "alltoall", "deepep", "deepep-normal", "deepep-low-latency".
std::vector<std::string_view> ExpertTransferNames();
// Sets both algorithms; false: no such name.
bool SetExpertTransfers(std::string_view name, ExpertTransfers& transfers);
// For reports: "all-gather and reduce-scatter", "DeepEP, low latency in steps of decodes alone".
std::string Text(const ExpertTransfers& transfers);

// Whether tokens of one device go to another. Devices of one replica have all of its tokens and sum
// what their experts make of them, unless each sends a part of the tokens (DeepEP).
bool SendsTokens(const TransformerConfig& model, const ServingPlan& plan,
                 ExpertAlgorithm algorithm);

// Tokens of a step that go to experts.
struct ExchangedTokens {
  int64_t most = 0;  // of the replica that has most
  int64_t all = 0;
};

// Dispatch and combine of a layer. Gathered are the tokens of all; what each sends by itself takes
// as long as the fullest. Requires that SendsTokens, and of DeepEP that CheckExpertTransfers.
struct ExpertTransferTimes {
  Estimate dispatch, combine;
};
ExpertTransferTimes TransferTimes(const TransformerConfig& model, const ServingPlan& plan,
                                  const ExpertTransfers& transfers, const DeviceCosts& costs,
                                  const ExchangedTokens& tokens, bool with_prompts);

// Errors: DeepEP on devices whose links it cannot use.
absl::Status CheckExpertTransfers(const TransformerConfig& model, const ServingPlan& plan,
                                  const ExpertTransfers& transfers, const DeviceCosts& costs);

}  // namespace foretrace::serve
