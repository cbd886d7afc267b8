#include "simulator/mapping/software_stack.h"

#include <algorithm>
#include <array>

#include "simulator/base/check.h"
#include "simulator/base/enum_names.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/base/yaml_reader.h"

namespace foretrace {
namespace {

StackRelease ReadRelease(const YamlReader& in) {
  static constexpr std::array<std::string_view, 28> kKeys = {"since",
                                                             "source",
                                                             "models",
                                                             "fused_attention",
                                                             "attention_slowdown",
                                                             "fused_pointwise",
                                                             "fused_accumulation",
                                                             "blocking_transfers",
                                                             "blocking_chunks",
                                                             "ring_attention",
                                                             "recompute",
                                                             "gathers_ahead",
                                                             "per_parameter_sharding",
                                                             "dynamic_scaling",
                                                             "reduces_scales",
                                                             "dropout",
                                                             "packed_document",
                                                             "sequence_parallel",
                                                             "overlap_tensor",
                                                             "chunked_tensor",
                                                             "gradient_bits",
                                                             "overlap_gradients",
                                                             "zero",
                                                             "selective",
                                                             "loss",
                                                             "compiled_loss",
                                                             "gradient_placeholders",
                                                             "eager"};
  static constexpr std::array<std::string_view, 2> kSelective = {"attention", "operators"};
  static constexpr std::array<std::string_view, 3> kLoss = {"in_place", "stepwise", "fused"};
  in.ExpectKeys(kKeys);
  StackRelease r;
  r.since = in.String("since", "");
  r.source = in.String("source");
  if (in.Has("models")) {
    for (const YamlReader& name : in.Child("models").Items()) {
      r.models.push_back(PlainName(name.AsString()));
    }
  }
  r.fused_attention = in.Bool("fused_attention", false);
  if (in.Has("attention_slowdown")) {
    for (const auto& [chip, slowdown] : in.Child("attention_slowdown").Entries()) {
      r.attention_slowdown[chip] = slowdown.AsNumber(0.5, 10);
    }
  }
  r.fused_pointwise = in.Bool("fused_pointwise", true);
  r.fused_accumulation = in.Bool("fused_accumulation", true);
  r.blocking_transfers = in.Bool("blocking_transfers", false);
  r.gathers_ahead = in.Bool("gathers_ahead", true);
  r.per_parameter_sharding = in.Bool("per_parameter_sharding", false);
  r.dynamic_scaling = in.Bool("dynamic_scaling", false);
  r.blocking_chunks = in.Bool("blocking_chunks", false);
  static constexpr std::array<std::string_view, 3> kRecompute = {"none", "selective", "full"};
  if (in.Has("recompute")) r.recompute = static_cast<Recompute>(in.Choice("recompute", kRecompute));
  r.ring_attention = in.Bool("ring_attention", false);
  r.reduces_scales = in.Bool("reduces_scales", false);
  r.dropout = in.Bool("dropout", false);
  r.packed_document = in.Integer("packed_document", 1, 1 << 20, 0);
  r.sequence_parallel = in.Bool("sequence_parallel", false);
  r.overlap_tensor = in.Bool("overlap_tensor", false);
  r.chunked_tensor = in.Bool("chunked_tensor", false);
  r.gradient_bits = in.Integer("gradient_bits", 16, 32, 0);
  r.overlap_gradients = in.Bool("overlap_gradients", false);
  r.zero = in.Integer("zero", 0, 3, 0);
  if (in.Has("selective") && in.Choice("selective", kSelective) == 1) {
    r.selective = Recompute::kOperators;
  }
  if (in.Has("loss")) r.loss = static_cast<LossForm>(in.Choice("loss", kLoss));
  r.compiled_loss = in.Bool("compiled_loss", false);
  r.gradient_placeholders = in.Bool("gradient_placeholders", false);
  r.eager = in.Bool("eager", false);
  return r;
}

}  // namespace

std::string PlainName(const std::string& name) {
  std::string plain;
  for (const char c : LowerCase(name)) {
    if (c != '-' && c != '_' && c != ' ') plain += c;
  }
  return plain;
}

const StackRelease& SoftwareStack::At(const std::string& date, const std::string& model) const {
  FORETRACE_CHECK(!releases.empty());
  const std::string plain = PlainName(model);
  const StackRelease* found = &releases.front();
  for (const StackRelease& release : releases) {
    const auto& models = release.models;
    const bool own = std::any_of(models.begin(), models.end(), [&](const std::string& beginning) {
      return plain.starts_with(beginning);
    });
    if (!date.empty() && release.since <= date && (models.empty() || own)) found = &release;
  }
  return *found;
}

absl::StatusOr<SoftwareStack> LoadSoftwareStack(const std::string& file) {
  FORETRACE_ASSIGN_OR_RETURN(const YamlReader root, ReadYamlFile(file));
  static constexpr std::array<std::string_view, 3> kKeys = {"name", "frameworks", "releases"};
  root.ExpectKeys(kKeys);
  SoftwareStack stack;
  stack.name = root.String("name");
  for (const YamlReader& word : root.Child("frameworks").Items()) {
    stack.frameworks.push_back(LowerCase(word.AsString()));
  }
  for (const YamlReader& item : root.Child("releases").Items()) {
    stack.releases.push_back(ReadRelease(item));
    const size_t n = stack.releases.size();
    if (n == 1 && !stack.releases[0].models.empty()) {
      item.Fail("models", "the first release must be for all models");
    }
    if (n == 1) continue;
    const StackRelease &before = stack.releases[n - 2], &release = stack.releases[n - 1];
    if (before.since > release.since || (before.since == release.since && release.models.empty())) {
      item.Fail("since", "releases must be in order");
    }
  }
  FORETRACE_RETURN_IF_ERROR(root.status());
  if (stack.releases.empty() || stack.frameworks.empty()) {
    return InvalidInput("{}: a stack needs frameworks and releases", file);
  }
  return stack;
}

absl::StatusOr<std::vector<SoftwareStack>> LoadSoftwareStacks() {
  std::vector<SoftwareStack> stacks;
  for (const ShippedFile& file : ListShipped(kSoftwareStacks)) {
    FORETRACE_ASSIGN_OR_RETURN(SoftwareStack stack, LoadSoftwareStack(file.path));
    stacks.push_back(std::move(stack));
  }
  return stacks;
}

const SoftwareStack* FindStack(std::span<const SoftwareStack> stacks,
                               const std::string& framework) {
  const std::string name = LowerCase(framework);
  const SoftwareStack* found = nullptr;
  size_t longest = 0;
  for (const SoftwareStack& stack : stacks) {
    for (const std::string& word : stack.frameworks) {
      if (word.size() <= longest || name.find(word) == std::string::npos) continue;
      longest = word.size();
      found = &stack;
    }
  }
  return found;
}

}  // namespace foretrace
