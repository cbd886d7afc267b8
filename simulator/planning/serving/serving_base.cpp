#include "simulator/planning/serving/serving_base.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/hardware/catalog.h"
#include "simulator/planning/files/table_text.h"
#include "simulator/planning/mappings/measured_device.h"
#include "simulator/planning/mappings/training_models.h"
#include "simulator/planning/serving/operator_table_device.h"
#include "simulator/planning/serving/serving_costs.h"
#include "simulator/planning/serving/serving_engine.h"
#include "simulator/serve/layer_kinds.h"
#include "simulator/serve/operator_costs.h"
#include "simulator/serve/serving_plan.h"
#include "simulator/topology/platform_loader.h"
#include "simulator/workload/layer_pattern.h"
#include "simulator/workload/workload_yaml.h"

namespace foretrace {
namespace {

absl::Status CheckServable(const TransformerConfig& model) {
  if (serve::AttentionLayers(model) == 0) {
    return Infeasible("{}: serve needs a layer with attention; of its pattern none has",
                      model.name);
  }
  if (model.window > 0 && WindowedLayers(model) == model.layers) {
    return Infeasible(
        "{}: serve needs a layer that attends to all tokens; all {} have windows of {}", model.name,
        model.layers, model.window);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TransformerConfig> LoadServedModel(const std::string& name,
                                                  std::vector<std::string>& notes) {
  FORETRACE_ASSIGN_OR_RETURN(const std::string file, FindWorkload(name, notes));
  FORETRACE_ASSIGN_OR_RETURN(const ModelFile model, LoadModel(file));
  notes.insert(notes.end(), model.notes.begin(), model.notes.end());
  if (!model.transformer || model.transformer->decoder_layers > 0 ||
      model.transformer->family == TransformerFamily::kBert) {
    return InvalidInput("{}: serve takes decoder-only transformers", file);
  }
  TransformerConfig config = *model.transformer;
  if (!model.workload.name.empty()) config.name = model.workload.name;
  FORETRACE_RETURN_IF_ERROR(CheckServable(config));
  return config;
}

serve::ProfiledModel ProfiledSizes(const TransformerConfig& model) {
  return {static_cast<int32_t>(model.layers), model.hidden, model.vocabulary,
          static_cast<int32_t>(model.experts), static_cast<int32_t>(model.top_k)};
}

namespace {

// Copies are as many experts more: tokens of an expert are spread evenly over it and its copies,
// and how they are spread over experts is even already.
absl::Status AddRedundantExperts(int32_t copies, ServingBase& base) {
  if (copies == 0) return absl::OkStatus();
  TransformerConfig& model = base.model;
  if (model.experts == 0) {
    return InvalidInput("--redundant-experts {} would change nothing: {} has no experts", copies,
                        model.name);
  }
  if (model.expert_groups > 0 && (model.experts + copies) % model.expert_groups != 0) {
    return InvalidInput("--redundant-experts {}: {} groups of experts do not divide {} and {} more",
                        copies, model.expert_groups, model.experts, copies);
  }
  model.experts += copies;
  return absl::OkStatus();
}

// A model that drafts, where one was asked for.
absl::Status AddDraft(const ServingOptions& options, ServingBase& base) {
  if (!options.speculate.empty() && HasStates(base.model)) {
    return Infeasible(
        "--speculate: {} has state-space mixers, whose states of each drafted token are not "
        "covered",
        base.model.name);
  }
  if (options.draft.empty()) return absl::OkStatus();
  FORETRACE_ASSIGN_OR_RETURN(base.draft, LoadServedModel(options.draft, base.notes));
  if (HasStates(*base.draft)) {
    return Infeasible(
        "--draft {}: a draft model with state-space mixers, whose states would lie beside the "
        "model's, is not covered",
        base.draft->name);
  }
  if (base.draft->vocabulary != base.model.vocabulary) {
    return InvalidInput(
        "--draft {}: it knows {} words and {} knows {}: what it drafts is checked word by word, "
        "so "
        "that both need one vocabulary; take a model of the same family",
        base.draft->name, base.draft->vocabulary, base.model.name, base.model.vocabulary);
  }
  return absl::OkStatus();
}

// Operators as tables have them measured, before what is modelled.
absl::Status AddOperatorTables(const ServingOptions& options, ServingBase& base) {
  if (options.operators.empty()) return absl::OkStatus();
  std::vector<serve::OperatorTableText> tables;
  FORETRACE_ASSIGN_OR_RETURN(const AcceleratorCatalog catalog, AcceleratorCatalog::Load());
  for (const std::string& file : options.operators) {
    FORETRACE_ASSIGN_OR_RETURN(std::string text, ReadTableText(file));
    FORETRACE_RETURN_IF_ERROR(
        CheckTableDevice(file, text, catalog, base.platform.node.accelerator));
    tables.push_back({file, std::move(text)});
  }
  FORETRACE_ASSIGN_OR_RETURN(
      base.costs, serve::WithOperatorTables(
                      base.costs, std::move(tables), base.model.dtype,
                      std::set<WeightFormat>{base.model.weights, base.model.expert_weights}));
  return absl::OkStatus();
}

// Times of layers as a profile has them, before all else.
absl::Status AddProfile(const ServingOptions& options, ServingBase& base) {
  if (options.profiles.empty()) return absl::OkStatus();
  FORETRACE_ASSIGN_OR_RETURN(const serve::ServingPlan plan,
                             serve::ParseServingPlan(options.parallel));
  FORETRACE_ASSIGN_OR_RETURN(serve::LayerProfile profile,
                             serve::ReadLayerProfile(options.profiles, plan.tensor));
  FORETRACE_RETURN_IF_ERROR(serve::CheckUniform(base.model));
  FORETRACE_RETURN_IF_ERROR(serve::CheckProfile(profile, ProfiledSizes(base.model)));
  base.profile = std::make_shared<serve::LayerProfile>(std::move(profile));
  return absl::OkStatus();
}

// Factors of steps that runs were fitted with.
absl::Status AddStepFactors(const ServingOptions& options, ServingBase& base) {
  if (options.step_factors.empty()) return absl::OkStatus();
  FORETRACE_ASSIGN_OR_RETURN(base.factors, serve::ReadStepFactors(options.step_factors));
  base.notes.push_back(fmt::format("{}: factors of steps, fitted to runs of {} on {}",
                                   options.step_factors, base.factors->model,
                                   base.factors->device));
  return absl::OkStatus();
}

}  // namespace

int32_t ContextOf(const ServingOptions& options, const TransformerConfig& model) {
  return options.max_model_len.value_or(
      static_cast<int32_t>(std::max(model.sequence, model.positions)));
}

void TakeLongest(const ServingOptions& options, const serve::RequestTrace& trace,
                 ServingBase& base) {
  int64_t longest = 0;
  for (const serve::Request& r : trace.requests) {
    longest = std::max(longest, int64_t{r.input_tokens} + r.output_tokens);
  }
  base.longest_request = std::min<int64_t>(longest, ContextOf(options, base.model));
  if (!options.max_model_len && base.longest_request > base.model.sequence) {
    base.notes.push_back(fmt::format(
        "engine started for requests of up to {} tokens, the longest of these (--max-model-len)",
        base.longest_request));
  }
}

absl::StatusOr<ServingBase> LoadServingBase(const ServingOptions& options, int32_t devices) {
  ServingBase base;
  FORETRACE_ASSIGN_OR_RETURN(base.model, LoadServedModel(options.model, base.notes));
  if (!options.weights.empty()) {
    const auto format = ParseWeightFormat(options.weights);
    if (!format) {
      return InvalidInput("--weights '{}' is none of model, {}", options.weights,
                          WeightFormatNames());
    }
    base.model.weights = base.model.expert_weights = *format;
  }
  if (HasStates(base.model)) {
    base.notes.push_back(
        "prefixes are not found again, as states of mixers at their ends are not kept (vLLM unless "
        "--enable-prefix-caching, SGLang with --disable-radix-cache)");
  }
  FORETRACE_RETURN_IF_ERROR(AddRedundantExperts(options.redundant_experts, base));
  FORETRACE_RETURN_IF_ERROR(AddDraft(options, base));
  FORETRACE_ASSIGN_OR_RETURN(base.platform, FindPlatform(options.platform, devices));
  if (std::string note = BfloatNote(base.platform.node.accelerator, base.model.dtype);
      !note.empty()) {
    base.notes.push_back(std::move(note));
  }
  const bool experts = base.model.experts > 0 || (base.draft && base.draft->experts > 0);
  FORETRACE_ASSIGN_OR_RETURN(base.costs,
                             MakeDeviceCosts(base.platform, options.kernels, experts, base.notes));
  FORETRACE_RETURN_IF_ERROR(AddOperatorTables(options, base));
  FORETRACE_RETURN_IF_ERROR(AddProfile(options, base));
  FORETRACE_RETURN_IF_ERROR(AddStepFactors(options, base));
  const int64_t positions = std::max(base.model.sequence, base.model.positions);
  if (options.max_model_len.value_or(0) > positions) {
    base.notes.push_back(fmt::format(
        "--max-model-len {} is beyond the {} positions of {}: engines refuse it unless they are "
        "told "
        "otherwise (VLLM_ALLOW_LONG_MAX_MODEL_LEN, SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN)",
        *options.max_model_len, positions, base.model.name));
  }
  FORETRACE_ASSIGN_OR_RETURN(const std::string asked, AskedFor(options));
  if (!asked.empty()) base.notes.push_back("asked for: " + asked);
  return base;
}

}  // namespace foretrace
