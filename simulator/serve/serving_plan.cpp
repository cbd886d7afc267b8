#include "simulator/serve/serving_plan.h"

#include <charconv>
#include <set>

#include "absl/strings/str_split.h"
#include "simulator/base/error.h"
#include "simulator/workload/layer_pattern.h"

namespace foretrace::serve {
namespace {

constexpr int32_t kMaxDegree = 1 << 14;

}  // namespace

absl::Status ServingPlan::Fits(const TransformerConfig& model) const {
  const auto refuse = [&](std::string_view degree, int32_t by, std::string_view what,
                          int64_t size) {
    return Infeasible("{} {} does not divide the {} {} of {}", degree, by, size, what, model.name);
  };
  TransformerConfig divided = model;
  if (divided.state_groups == 1) divided.state_groups = tensor;  // copies: ServedKinds
  if (const auto undivided = FirstUndivided(divided, tensor, expert)) {
    return refuse("tp", tensor, undivided->what, undivided->size);
  }
  if (kv > 1 && model.index_keys > 0) {
    return Infeasible("kvp {}: {} chooses of all positions, which no device would have", kv,
                      model.name);
  }
  if (kv > 1 && HasStates(model)) {
    return Infeasible(
        "kvp {}: {} has state-space mixers, whose states are of whole sequences, not of positions",
        kv, model.name);
  }
  if (model.layers < pipeline) return refuse("pp", pipeline, "layers", model.layers);
  if (expert && model.experts == 0) {
    return Infeasible("ep: {} has no experts", model.name);
  }
  if (expert && model.experts % expert_degree() != 0) {
    return refuse("ep over", expert_degree(), "experts", model.experts);
  }
  return absl::OkStatus();
}

absl::StatusOr<ServingPlan> ParseServingPlan(std::string_view text) {
  ServingPlan plan;
  std::set<std::string_view> said;
  for (const absl::string_view word : absl::StrSplit(absl::string_view(text.data(), text.size()),
                                                     absl::ByAnyChar(" ,"), absl::SkipEmpty())) {
    const std::string_view w(word.data(), word.size());
    const size_t letters = w.find_first_of("0123456789");
    const std::string_view name = w.substr(0, letters);
    if (!said.insert(name).second) {
      return InvalidInput("--parallel: '{}' is given twice; remove one", std::string(name));
    }
    if (w == "ep") {
      plan.expert = true;
      continue;
    }
    int32_t* degree = name == "tp"    ? &plan.tensor
                      : name == "pp"  ? &plan.pipeline
                      : name == "dp"  ? &plan.data
                      : name == "kvp" ? &plan.kv
                                      : nullptr;
    int32_t value = 0;
    const char* end = w.data() + w.size();
    if (degree != nullptr && letters != std::string_view::npos) {
      const auto [at, code] = std::from_chars(w.data() + letters, end, value);
      if (code != std::errc() || at != end || value > kMaxDegree) value = 0;
    }
    if (value < 1) {
      return InvalidInput("--parallel: '{}' is none of tpN, ppN, dpN, kvpN (N from 1 to {}) and ep",
                          std::string(w), kMaxDegree);
    }
    *degree = value;
  }
  return plan;
}

std::string Text(const ServingPlan& plan) {
  std::string text = fmt::format("tp{}", plan.tensor);
  if (plan.pipeline > 1) text += fmt::format(" pp{}", plan.pipeline);
  if (plan.data > 1) text += fmt::format(" dp{}", plan.data);
  if (plan.kv > 1) text += fmt::format(" kvp{}", plan.kv);
  if (plan.expert) text += " ep";
  return text;
}

}  // namespace foretrace::serve
