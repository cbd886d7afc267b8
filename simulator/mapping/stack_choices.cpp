#include "simulator/mapping/stack_choices.h"

#include <algorithm>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/mapping/idle_choice.h"

namespace foretrace {
namespace {

// Later than all that tables of runs write.
constexpr std::string_view kNewest = "~";

// Dates and versions ("v25.02") are not compared with one another.
bool WrittenAlike(const std::string& a, const std::string& b) {
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  return a[0] == b[0] || (digit(a[0]) && digit(b[0]));
}

// Where NAME@RELEASE goes on with '@'; npos: it names no release. NAME may be a path.
size_t ReleaseMark(const std::string& text) {
  const size_t folder = text.rfind('/');
  return text.find('@', folder == std::string::npos ? 0 : folder);
}

}  // namespace

std::string NamedRelease::Text() const {
  std::string text = stack;
  if (!release.since.empty()) text += " since " + release.since;
  return release.compiled ? text + " with torch.compile" : text;
}

absl::StatusOr<NamedRelease> ReleaseOf(const SoftwareStack& stack, const std::string& text,
                                       const StackRun& run) {
  std::string date(kNewest);
  if (const size_t at = ReleaseMark(text); at != std::string::npos) {
    date = text.substr(at + 1);
    if (date.empty()) {
      return InvalidInput("software stack '{}': no release behind '@'; leave it out for the newest",
                          text);
    }
    const std::string& earliest = stack.releases.front().since;
    for (const StackRelease& release : stack.releases) {
      if (release.since.empty() || WrittenAlike(date, release.since)) continue;
      return InvalidInput("software stack '{}': its releases are written as {} is", text,
                          release.since);
    }
    if (date < earliest) {
      return InvalidInput("software stack '{}': what is known begins with {}", text, earliest);
    }
  }
  return NamedRelease{stack.name, "", stack.At(date, run)};
}

absl::StatusOr<NamedRelease> NamedReleaseOf(const std::string& text, const StackRun& run) {
  FORETRACE_ASSIGN_OR_RETURN(const std::string file,
                             FindShipped(kSoftwareStacks, text.substr(0, ReleaseMark(text))));
  FORETRACE_ASSIGN_OR_RETURN(const SoftwareStack stack, LoadSoftwareStack(file));
  FORETRACE_ASSIGN_OR_RETURN(NamedRelease named, ReleaseOf(stack, text, run));
  named.file = file;
  return named;
}

void Compile(StackRelease& release) {
  release.fused_pointwise = release.compiled = true;
  release.eager = false;
  if (release.compiled_loss) release.loss = LossForm::kFused;
}

void SetKernels(const StackRelease& release, TransformerConfig& model) {
  model.fused_attention = release.fused_attention;
  model.dropout = release.dropout;
  model.gradient_placeholders = release.gradient_placeholders;
  model.weighs_activations = release.weighs_activations;
  model.copies_gathered = release.per_parameter_sharding;
  model.sharded_masters =
      release.per_parameter_sharding || release.flat_parameters || release.gathers_masters;
  model.expandable_segments = release.expandable_segments;
  model.repeats_keys = release.repeats_keys;
  model.eager = release.eager;
  model.loss = release.loss;
  if (!release.further_tokens) WithoutFurtherTokens(model);
}

LossForm LossOf(const StackRelease& release, const ParallelMapping& m) {
  return m.lora > 0 ? release.adapter_loss.value_or(release.loss) : release.loss;
}

void PadVocabulary(const StackRelease& release, int32_t tensor, TransformerConfig& model) {
  const int64_t unit = int64_t{release.vocabulary_multiple} * tensor;
  if (unit > 0) model.vocabulary = (model.vocabulary + unit - 1) / unit * unit;
}

namespace {

// 1F1B becomes DualPipe where it can, and the other way round.
void SetSchedule(const StackRelease& release, ParallelMapping& m) {
  if (!release.dual_pipe) return;
  if (m.dual()) m.schedule = ScheduleKind::k1F1B;
  const bool plain = m.schedule == ScheduleKind::k1F1B && m.chunks == 1 && m.zero <= 1;
  const bool even = m.pipeline % 2 == 0 && m.microbatches() % 2 == 0;
  if (plain && even && m.microbatches() / 2 >= m.pipeline && m.last_layers == 0) {
    m.schedule = ScheduleKind::kDualPipe;
  }
}

}  // namespace

std::string SetChoices(const StackRelease& release, const TransformerConfig& model,
                       ParallelMapping& m) {
  SetSchedule(release, m);
  const bool hides = release.overlap_from > 0 && m.zero >= release.overlap_from;
  m.overlap_gradients = (release.overlap_gradients || hides) && m.copies() > 1;
  m.overlap_tensor = m.tensor == 1 || release.overlap_tensor;
  m.sequence_parallel = m.tensor > 1 && release.sequence_parallel;
  m.chunked_tensor = m.sequence_parallel && m.overlap_tensor && release.chunked_tensor;
  m.balance_loss = model.experts > 0 && release.balance_loss;
  m.ring = m.context > 1 && release.ring_attention && !m.ulysses;
  const bool divided = m.zero >= 2 && model.dtype == DType::kBFloat16;
  const int32_t own = divided ? release.divided_gradient_bits : 0;
  m.gradient_bytes = (own > 0 ? own : release.gradient_bits) / 8;
  m.moment_bytes = m.offload ? 0 : release.moment_bits / 8;
  m.keeps_eight = release.keeps_eight && (m.fp8 || m.mxfp8) && m.repeats_parts();
  m.hybrid = 0;
  std::string note = DivideAmong(release.shards, m);
  SetDispatch(release, model, m);
  return note;
}

void SetDispatch(const StackRelease& release, const TransformerConfig& model, ParallelMapping& m) {
  m.dispatch = ExpertDispatch::kAllToAll;
  m.dispatch_fp8 = m.overlap_experts = false;
  if (m.expert == 1 || model.experts == 0) return;
  const bool whole = release.dispatch != ExpertDispatch::kAllToAll && m.sequence_parallel;
  if (whole && m.expert_tensor == 0 && m.tensor > 1) m.expert_tensor = 1;
  if (m.expert_width() == 1) m.dispatch = release.dispatch;
  m.dispatch_fp8 = m.narrow() && release.dispatch_fp8;
  const bool whole_layers = m.recompute == Recompute::kFull ||
                            m.recompute == Recompute::kAlternate ||
                            m.modules.has(RecomputeModule::kMoe);
  m.overlap_experts = release.overlap_experts && HasOppositePasses(m) && !whole_layers;
}

int32_t DividedAs(const StackRelease& release, int32_t zero, const ParallelMapping& mapping) {
  if (mapping.replicas() == 1) return 0;
  return release.pipelines_keep_weights && mapping.pipeline > 1 ? std::min(zero, 1) : zero;
}

std::string DivideAmong(int32_t shards, ParallelMapping& m) {
  if (m.zero < 3 || shards <= 1 || shards >= m.replicas() || m.replicas() % shards != 0) return "";
  m.hybrid = shards;
  if (m.divides_experts_in_groups()) return "";
  m.hybrid = 0;
  return fmt::format(
      "weights divided over all {} replicas, not over {} as the software has it (hsdp{}), whose "
      "parts ep{} does not divide",
      m.replicas(), shards, shards, m.expert);
}

absl::Status CheckInputsOf(const StackRelease& release, const ParallelMapping& m) {
  if (!release.divides_on_host || !m.inputs_on_host || m.divided_inputs) return absl::OkStatus();
  return Infeasible(
      "mapping {}: of kept inputs this software had only those on the host that tensor-parallel "
      "ranks divide ({}); {} or a later release, would do",
      ToString(m), release.since.empty() ? "its first release" : "since " + release.since,
      m.tensor > 1 ? "partition-activations too," : "tensor parallelism with it,");
}

void SetCluster(const StackRelease& release, const std::string& chip, ClusterParameters& cluster) {
  static_cast<SoftwareBehaviour&>(cluster) = release;
  cluster.forms = release;
  const std::vector<std::string>& grouped = release.grouped_expert_chips;
  cluster.forms.grouped_experts = std::find(grouped.begin(), grouped.end(), chip) != grouped.end();
  const std::vector<std::string>& fused = release.fused_expert_chips;
  cluster.forms.fused_experts = std::find(fused.begin(), fused.end(), chip) != fused.end();
  const auto slowdown = release.attention_slowdown.find(chip);
  if (slowdown != release.attention_slowdown.end()) cluster.attention_slowdown = slowdown->second;
}

}  // namespace foretrace
