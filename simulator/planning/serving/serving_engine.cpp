#include "simulator/planning/serving/serving_engine.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "absl/strings/str_split.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/workload/layer_pattern.h"

namespace foretrace {
namespace {

absl::Status TakeFeatures(const std::string& without, serve::EngineConfig& engine) {
  for (const absl::string_view part : absl::StrSplit(without, ',', absl::SkipEmpty())) {
    const std::string feature(part);
    if (feature == "chunked-prefill") {
      engine.chunked_prefill = false;
    } else if (feature == "prefix-caching") {
      engine.prefix_caching = false;
    } else if (feature == "async") {
      engine.asynchronous = false;
    } else if (feature == "graphs") {
      engine.graph_sizes.clear();
    } else {
      return InvalidInput(
          "--without '{}' is not known; allowed: chunked-prefill, prefix-caching, async, graphs",
          feature);
    }
  }
  return absl::OkStatus();
}

// Whose limits of a step are; empty: there is one rank, or none were given.
absl::StatusOr<std::string_view> RanksOfLimits(const ServingOptions& o) {
  if (!o.max_num_seqs && !o.max_num_batched_tokens) return "";
  FORETRACE_ASSIGN_OR_RETURN(const serve::ServingPlan plan, serve::ParseServingPlan(o.parallel));
  if (plan.data == 1) return "";
  FORETRACE_ASSIGN_OR_RETURN(const serve::EngineConfig engine, serve::LoadEngine(o.engine));
  return engine.limits_of_each_rank ? " on each rank" : " on all ranks together";
}

}  // namespace

absl::StatusOr<serve::EngineConfig> EngineOf(const ServingOptions& options,
                                             const TransformerConfig& model,
                                             const serve::ServingPlan& plan,
                                             const Accelerator& device, int64_t longest_request) {
  FORETRACE_ASSIGN_OR_RETURN(const serve::EngineConfig release, serve::LoadEngine(options.engine));
  serve::EngineConfig engine = release.On(device.name, device.visible_memory());
  engine.max_num_seqs = options.max_num_seqs.value_or(engine.max_num_seqs);
  engine.max_num_batched_tokens =
      options.max_num_batched_tokens.value_or(engine.max_num_batched_tokens);
  // Ranks that share experts are one engine's; others are whole engines with limits of their own.
  FORETRACE_ASSIGN_OR_RETURN(engine, engine.OfRank(plan.expert ? plan.data : 1));
  engine.max_model_len = options.max_model_len.value_or(
      static_cast<int32_t>(std::max(model.sequence, longest_request)));
  engine.block_tokens = options.block_tokens.value_or(engine.block_tokens);
  if (options.memory_utilization > 0) engine.memory_utilization = options.memory_utilization;
  if (options.kv_cache_dtype == "fp8") engine.kv_cache_width = 1;
  if (options.policy == "priority") engine.policy = serve::AdmissionPolicy::kPriority;
  if (options.policy == "fcfs") engine.policy = serve::AdmissionPolicy::kFcfs;
  if (options.preemption == "swap") engine.preemption = serve::Preemption::kSwap;
  if (options.preemption == "recompute") engine.preemption = serve::Preemption::kRecompute;
  for (const std::string& text : options.kv_tiers) {
    FORETRACE_ASSIGN_OR_RETURN(serve::KvTierSpec tier, serve::ParseKvTier(text));
    for (const serve::KvTierSpec& other : engine.kv_tiers) {
      if (other.name == tier.name) {
        return InvalidInput("--kv-tier: '{}' is given twice; remove one", tier.name);
      }
    }
    engine.kv_tiers.push_back(std::move(tier));
  }
  if (!options.expert_exchange.empty() && model.experts == 0) {
    return InvalidInput("--expert-exchange {} would change nothing: {} has no experts",
                        options.expert_exchange, model.name);
  }
  if (!options.expert_exchange.empty() &&
      !serve::SetExpertTransfers(options.expert_exchange, engine.experts)) {
    return InvalidInput("--expert-exchange '{}' is none of {}", options.expert_exchange,
                        fmt::join(serve::ExpertTransferNames(), ", "));
  }
  FORETRACE_RETURN_IF_ERROR(TakeFeatures(options.without, engine));
  if (HasStates(model)) {
    if (!engine.kv_tiers.empty()) {
      return Infeasible("--kv-tier: {} has state-space mixers, whose states no tier keeps",
                        model.name);
    }
    engine.prefix_caching = false;
  }
  return engine;
}

absl::StatusOr<std::string> AskedFor(const ServingOptions& o) {
  FORETRACE_ASSIGN_OR_RETURN(const std::string_view ranks, RanksOfLimits(o));
  std::vector<std::string> asked;
  const auto add = [&](bool given, const char* what, const auto&... values) {
    if (given) asked.push_back(fmt::format(fmt::runtime(what), values...));
  };
  add(!o.weights.empty(), "weights {}", o.weights);
  add(o.kv_cache_dtype == "fp8", "keys and values {}", o.kv_cache_dtype);
  add(o.redundant_experts > 0, "{} experts that are copies", o.redundant_experts);
  add(!o.expert_exchange.empty(), "tokens to experts by {}", o.expert_exchange);
  add(!o.without.empty(), "without {}", o.without);
  add(!o.speculate.empty(), "drafts {}", o.speculate);
  add(!o.draft.empty(), "of {}", o.draft);
  add(!o.draft_parallel.empty(), "on {} of their own", o.draft_parallel);
  add(o.routing != ServingOptions().routing, "routing {}", o.routing);
  add(!o.policy.empty(), "policy {}", o.policy);
  add(!o.preemption.empty(), "preemption {}", o.preemption);
  for (const std::string& tier : o.kv_tiers) add(true, "tier {}", tier);
  if (o.max_model_len) add(true, "requests of up to {} tokens", *o.max_model_len);
  if (o.max_num_seqs) add(true, "steps of up to {} sequences{}", *o.max_num_seqs, ranks);
  if (o.max_num_batched_tokens) {
    add(true, "steps of up to {} tokens{}", *o.max_num_batched_tokens, ranks);
  }
  if (o.block_tokens) add(true, "blocks of {} tokens", *o.block_tokens);
  if (o.kv_blocks) add(true, "{} blocks", *o.kv_blocks);
  add(o.memory_utilization > 0, "memory utilization {}", o.memory_utilization);
  return fmt::format("{}", fmt::join(asked, ", "));
}

}  // namespace foretrace
