#include "simulator/serve/expert_transfers.h"

#include <algorithm>
#include <array>

#include "simulator/base/check.h"
#include "simulator/base/dtype.h"
#include "simulator/base/error.h"

namespace foretrace::serve {
namespace {

using Algorithm = ExpertAlgorithm;

struct Choice {
  std::string_view name;
  Algorithm prompts, decodes;
  std::string_view text;
};
constexpr std::array<Choice, 5> kChoices = {{
    {"allgather", Algorithm::kAllGather, Algorithm::kAllGather, "all-gather and reduce-scatter"},
    {"alltoall", Algorithm::kAllToAll, Algorithm::kAllToAll, "all-to-all, a copy for each expert"},
    {"deepep", Algorithm::kDeduplicated, Algorithm::kDirect,
     "DeepEP, normal kernels in steps with prompts, low-latency ones in others"},
    {"deepep-normal", Algorithm::kDeduplicated, Algorithm::kDeduplicated, "DeepEP, normal kernels"},
    {"deepep-low-latency", Algorithm::kDirect, Algorithm::kDirect, "DeepEP, low-latency kernels"},
}};

bool IsDeepEp(Algorithm algorithm) {
  return algorithm == Algorithm::kDeduplicated || algorithm == Algorithm::kDirect;
}

bool InEightBits(WeightFormat format) {
  return format == WeightFormat::kFp8 || format == WeightFormat::kFp8Block;
}

// Experts that multiply in 8 bits are sent tokens in 8 bits; results come back in the model's
// precision. Ranks of one replica send a part of its tokens each.
ExpertExchange ExchangeOf(const TransformerConfig& model, const ServingPlan& plan,
                          const ExpertTransfers& transfers, int64_t tokens, Algorithm algorithm,
                          ExpertDirection direction) {
  ExpertExchange x;
  x.algorithm = algorithm;
  x.direction = direction;
  x.routing.experts = model.experts;
  x.routing.top_k = model.top_k;
  x.routing.ranks = plan.expert_degree();
  x.routing.groups = static_cast<int32_t>(model.expert_groups);
  x.routing.groups_of_token = static_cast<int32_t>(model.chosen_groups);
  x.tokens = static_cast<double>((tokens + plan.tensor - 1) / plan.tensor);
  const bool narrow = direction == ExpertDirection::kDispatch && InEightBits(model.expert_weights);
  const int64_t token = ExpertWidth(model);
  x.token_bytes = narrow ? Fp8TokenBytes(token) : TokenBytes(token, ElementSize(model.dtype));
  x.multiprocessors = transfers.multiprocessors;
  return x;
}

Estimate DeepEpTime(const DeviceCosts& costs, const ExpertExchange& exchange) {
  const std::optional<Estimate> time = costs.ExpertTransfer(exchange);
  FORETRACE_CHECK(time.has_value());
  return *time;
}

}  // namespace

std::vector<std::string_view> ExpertTransferNames() {
  std::vector<std::string_view> names;
  for (const Choice& c : kChoices) names.push_back(c.name);
  return names;
}

bool SetExpertTransfers(std::string_view name, ExpertTransfers& transfers) {
  const auto* found = std::ranges::find(kChoices, name, &Choice::name);
  if (found == kChoices.end()) return false;
  transfers.prompts = found->prompts;
  transfers.decodes = found->decodes;
  return true;
}

std::string Text(const ExpertTransfers& transfers) {
  for (const Choice& c : kChoices) {
    if (c.prompts == transfers.prompts && c.decodes == transfers.decodes) {
      return std::string(c.text);
    }
  }
  return fmt::format("{} in steps with prompts, {} in others", Name(transfers.prompts),
                     Name(transfers.decodes));
}

bool SendsTokens(const TransformerConfig& model, const ServingPlan& plan, Algorithm algorithm) {
  if (model.experts == 0 || !plan.expert) return false;
  return IsDeepEp(algorithm) ? plan.expert_degree() > 1 : plan.data * plan.kv > 1;
}

// Ranks of one replica send a part of its tokens each (vLLM's sequence-parallel experts).
ExpertTransferTimes TransferTimes(const TransformerConfig& model, const ServingPlan& plan,
                                  const ExpertTransfers& transfers, const DeviceCosts& costs,
                                  const ExchangedTokens& tokens, bool with_prompts) {
  const Algorithm algorithm = transfers.Of(with_prompts);
  const int64_t width = ElementSize(model.dtype), token = ExpertWidth(model);
  const int32_t ranks = plan.expert_degree();
  if (algorithm == Algorithm::kAllToAll) {
    const int64_t own = (tokens.most + plan.tensor - 1) / plan.tensor;
    const Bytes sent(own * token * width * model.top_k);
    const Estimate time = costs.Collective(CollectiveOp::kAllToAll, ranks, sent);
    return {time, time};
  }
  if (algorithm == Algorithm::kAllGather) {
    // With tokens go what the router says of every expert.
    return {
        costs.Collective(CollectiveOp::kAllGather, ranks,
                         Bytes(tokens.all * (token + model.experts) * width)),
        costs.Collective(CollectiveOp::kReduceScatter, ranks, Bytes(tokens.all * token * width))};
  }
  const auto time = [&](ExpertDirection direction) {
    return DeepEpTime(costs, ExchangeOf(model, plan, transfers, tokens.most, algorithm, direction));
  };
  return {time(ExpertDirection::kDispatch), time(ExpertDirection::kCombine)};
}

absl::Status CheckExpertTransfers(const TransformerConfig& model, const ServingPlan& plan,
                                  const ExpertTransfers& transfers, const DeviceCosts& costs) {
  for (const bool prompts : {true, false}) {
    const Algorithm algorithm = transfers.Of(prompts);
    if (!IsDeepEp(algorithm) || !SendsTokens(model, plan, algorithm)) continue;
    const auto exchange =
        ExchangeOf(model, plan, transfers, 1, algorithm, ExpertDirection::kDispatch);
    if (costs.ExpertTransfer(exchange)) continue;
    return Infeasible(
        "DeepEP over {} devices needs NVLinks between all of a node, and a network between nodes, "
        "which the platform does not state; --expert-exchange allgather or alltoall would do",
        plan.expert_degree());
  }
  return absl::OkStatus();
}

}  // namespace foretrace::serve
