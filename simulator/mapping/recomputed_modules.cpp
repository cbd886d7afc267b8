#include "simulator/mapping/recomputed_modules.h"

#include <algorithm>
#include <initializer_list>

#include "simulator/base/error.h"

namespace foretrace {
namespace {

bool IsOneOf(const GraphOp& op, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, op.name) != names.end();
}

// What a layer has, besides attention and a feed-forward layer.
struct LayerKind {
  bool routed = false, latent = false;
};

LayerKind KindOf(const OperatorGraph& graph) {
  const auto has = [&](std::string_view name) {
    return std::ranges::any_of(graph.ops(),
                               [&](const GraphOp& op) { return op.in_block && op.name == name; });
  };
  return {has("router"), has("key and value up")};
}

// Whether an operator of a layer is of the module. Norms before dense feed-forward layers and
// before attention without latents are part of the GEMM that follows
// (models/gpt/gpt_layer_specs.py: TELayerNormColumnParallelLinear), so that they run again with
// that one or not at all.
bool IsOf(RecomputeModule module, const GraphOp& op, const LayerKind& layer) {
  const bool routed = layer.routed;
  switch (module) {
    case RecomputeModule::kCoreAttention:
      return op.attention_core || op.kind == GraphOpKind::kAttention ||
             op.kind == GraphOpKind::kContext;
    case RecomputeModule::kMlp:
      return !routed && IsOneOf(op, {"norm 2", "ffn up", "activation", "ffn down"});
    case RecomputeModule::kMoe:
      return routed &&
             (IsOf(RecomputeModule::kSharedExperts, op, layer) ||
              IsOneOf(op, {"router", "router softmax", "latent in", "dispatch", "ffn up",
                           "activation", "ffn down", "combine", "latent out", "expert sum"}));
    case RecomputeModule::kMoeActivation:
      return routed && op.name == "activation";
    case RecomputeModule::kLayerNorm:
      return (layer.latent && op.name == "norm 1") || (routed && op.name == "norm 2");
    case RecomputeModule::kLatentUp:
      return IsOneOf(op, {"latent norm", "query up", "query", "key and value up", "rotary"});
    case RecomputeModule::kSharedExperts:
      return IsOneOf(op, {"shared up", "shared activation", "shared down"});
    default:
      return false;
  }
}

bool DropsOutputs(RecomputeModule module) {
  return module == RecomputeModule::kLayerNorm || module == RecomputeModule::kMoeActivation ||
         module == RecomputeModule::kLatentUp;
}

// RunPartsAgain's.
int PartOf(const GraphOp& op, RecomputeModules modules, const LayerKind& layer) {
  for (int i = 0; i < static_cast<int>(RecomputeModule::kCount); ++i) {
    const auto module = static_cast<RecomputeModule>(i);
    if (!modules.has(module) || !IsOf(module, op, layer)) continue;
    return DropsOutputs(module) ? kOutputs : i;
  }
  return kNotAgain;
}

}  // namespace

bool NeedsInput(const GraphOp& op, const ParallelMapping& m) {
  return IsTrained(op, m) || IsAdapted(op, m);
}

PartialRecomputation PartsAgain(const OperatorGraph& graph, const ParallelMapping& m) {
  const auto needs_input = [&m](const GraphOp& op) { return NeedsInput(op, m); };
  if (m.recompute == Recompute::kLight) return RunLightAgain(graph, needs_input);
  if (m.recompute != Recompute::kModules) {
    return {std::vector<bool>(graph.ops().size()), KeptOfBlock(graph, needs_input)};
  }
  const LayerKind layer = KindOf(graph);
  const auto part_of = [&](const GraphOp& op) { return PartOf(op, m.modules, layer); };
  return RunPartsAgain(graph, part_of, needs_input);
}

RecomputeModules IdleModules(const TransformerConfig& model, RecomputeModules modules) {
  const bool experts = model.experts > 0;
  const bool dense = model.pattern.empty() ? !experts || DenseLayers(model) > 0
                                           : HasPart(model, LayerPart::kFeedForward);
  const bool moe = modules.has(RecomputeModule::kMoe) && experts;
  const std::pair<RecomputeModule, bool> used[] = {
      {RecomputeModule::kMlp, dense},
      {RecomputeModule::kMoe, experts},
      {RecomputeModule::kMoeActivation, experts && !moe},
      {RecomputeModule::kLayerNorm, experts || model.latent > 0},
      {RecomputeModule::kLatentUp, model.latent > 0},
      {RecomputeModule::kSharedExperts, model.shared_ffn > 0 && experts && !moe}};
  RecomputeModules idle;
  for (const auto& [module, is_used] : used) {
    if (modules.has(module) && !is_used) idle.add(module);
  }
  return idle;
}

absl::Status CheckModules(const TransformerConfig& model, const ParallelMapping& m) {
  if (m.recompute != Recompute::kModules) return absl::OkStatus();
  if (m.modules.empty()) {
    return Infeasible("mapping {}: no module is named; recompute=mlp would do", ToString(m));
  }
  const RecomputeModules idle = IdleModules(model, m.modules);
  if (!idle.empty()) {
    return Infeasible(
        "mapping {}: recompute={} would change nothing: mlp is of layers without experts, moe, "
        "moe_act and shared_experts are of those with them (moe has the others in it), "
        "mla_up_proj of latent attention, and layernorm of either; leave it out",
        ToString(m), ToString(idle));
  }
  if (m.overlap_experts && m.modules.has(RecomputeModule::kMoe)) {
    return Infeasible(
        "mapping {}: ep-overlap runs parts of what recompute=moe runs whole; moe_act, "
        "shared_experts or none would do",
        ToString(m));
  }
  return absl::OkStatus();
}

}  // namespace foretrace
