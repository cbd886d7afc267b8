#include "simulator/mapping/parallel_mapping.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <set>
#include <sstream>

#include "simulator/base/enum_names.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"

namespace foretrace {
namespace {

// No degree or batch size comes near this; products of two stay inside 32 bits times 2.
constexpr int32_t kMaxDegree = 1 << 20;

absl::Status CheckDegrees(const ParallelMapping& m) {
  const std::pair<const char*, int32_t> degrees[] = {
      {"tp", m.tensor}, {"cp", m.context}, {"pp", m.pipeline},
      {"dp", m.data},   {"ep", m.expert},  {"mb", m.micro_batch},
      {"v", m.chunks},  {"k", m.k},        {"gb", m.global_batch}};
  for (const auto& [what, value] : degrees) {
    if (value < 1 || value > kMaxDegree) {
      return InvalidInput("mapping {}: {} must be between 1 and {}, not {}", ToString(m), what,
                          kMaxDegree, value);
    }
  }
  if (m.zero < 0 || m.zero > 3) {
    return InvalidInput("mapping {}: zero must be between 0 and 3, not {}", ToString(m), m.zero);
  }
  if (m.expert_tensor < 0 || m.expert_tensor > kMaxDegree) {
    return InvalidInput("mapping {}: etp must be between 0 and {}, not {}", ToString(m), kMaxDegree,
                        m.expert_tensor);
  }
  if (m.hybrid < 0 || m.hybrid > kMaxDegree) {
    return InvalidInput("mapping {}: hsdp must be between 0 and {}, not {}", ToString(m),
                        kMaxDegree, m.hybrid);
  }
  if (m.lora_everywhere && m.lora == 0) {
    return InvalidInput("mapping {}: lora-all needs a rank, loraN", ToString(m));
  }
  if (m.lora < 0 || m.lora > kMaxDegree) {
    return InvalidInput("mapping {}: lora must be between 0 and {}, not {}", ToString(m),
                        kMaxDegree, m.lora);
  }
  return absl::OkStatus();
}

absl::Status CheckSchedule(const ParallelMapping& m) {
  if (m.chunks > 1 && (m.pipeline == 1 || m.microbatches() % m.pipeline != 0)) {
    return Infeasible(
        "C4: mapping {}: interleaving needs a pipeline, and its {} stages to divide {} "
        "micro-batches; v1 would do",
        ToString(m), m.pipeline, m.microbatches());
  }
  if (m.chunks > 1 && m.schedule != ScheduleKind::k1F1B) {
    return Infeasible("C4: mapping {}: only 1F1B interleaves chunks; v1 would do", ToString(m));
  }
  if (m.k > 1 && m.schedule != ScheduleKind::kKFKB) {
    return Infeasible("C4: mapping {}: k is of the kfkb schedule alone", ToString(m));
  }
  return absl::OkStatus();
}

absl::Status CheckSharding(const TransformerConfig& model, const ParallelMapping& m) {
  if (model.heads % m.tensor != 0 || model.hidden % m.tensor != 0) {
    return Infeasible(
        "mapping {}: tensor parallelism {} does not divide {} heads and hidden {}; a divisor of "
        "both would do",
        ToString(m), m.tensor, model.heads, model.hidden);
  }
  if (m.sequence_parallel && (m.tensor == 1 || model.sequence % m.tensor != 0)) {
    return Infeasible(
        "mapping {}: sequence parallelism needs tensor parallelism that divides the sequence of {}",
        ToString(m), model.sequence);
  }
  if ((m.async_tensor || m.chunked_tensor) && !m.sequence_parallel) {
    return Infeasible("mapping {}: tp-async and tp-chunked need sequence parallelism (sp)",
                      ToString(m));
  }
  if (m.async_tensor && m.chunked_tensor) {
    return Infeasible("mapping {}: tp-async and tp-chunked are two ways of one thing; say one",
                      ToString(m));
  }
  if (m.hybrid > 0 &&
      (m.zero != 3 || model.experts > 0 || m.hybrid == 1 || m.replicas() % m.hybrid != 0)) {
    return Infeasible(
        "mapping {}: hsdp needs zero3, a model without experts, and at least 2 replicas that "
        "divide "
        "all {}",
        ToString(m), m.replicas());
  }
  // Causal attention is balanced by giving each device one part from the front, one from the back.
  if (m.context > 1 && model.sequence % (2 * int64_t{m.context}) != 0) {
    return Infeasible(
        "mapping {}: twice the context parallelism {} does not divide the sequence of {}",
        ToString(m), m.context, model.sequence);
  }
  if (m.ring && m.context == 1) {
    return Infeasible("mapping {}: ring needs context parallelism", ToString(m));
  }
  if (m.expert > 1 && (model.experts == 0 || model.experts % m.expert != 0)) {
    return Infeasible("mapping {}: expert parallelism {} does not divide {} experts", ToString(m),
                      m.expert, model.experts);
  }
  if (m.expert_tensor > 0 && model.experts == 0) {
    return Infeasible("mapping {}: etp needs experts, which the model does not have", ToString(m));
  }
  if (m.expert_width() != m.tensor && (m.expert_width() != 1 || !m.sequence_parallel)) {
    return Infeasible(
        "mapping {}: experts are divided as other products are, or, under sequence parallelism, "
        "not at all: etp{} or etp1 sp",
        ToString(m), m.tensor);
  }
  if (m.expert_groups() % m.expert != 0) {
    return Infeasible(
        "C3: mapping {}: expert parallelism {} does not divide the {} replicas (dp * cp{})",
        ToString(m), m.expert, m.expert_groups(), m.expert_tensor == 1 ? " * tp" : "");
  }
  return absl::OkStatus();
}

absl::Status CheckLayers(const TransformerConfig& model, const ParallelMapping& m) {
  const size_t chunks = static_cast<size_t>(m.pipeline) * static_cast<size_t>(m.chunks);
  int64_t sum = 0;
  for (const int32_t layers : m.layers) sum += layers;
  if (m.layers.size() != chunks || sum != model.layers || m.counted_ends) {
    return Infeasible(
        "C1: mapping {}: {} counts of layers add up to {}; as many counts as chunks ({} stages of "
        "{}) must add up to {} layers, without ends",
        ToString(m), m.layers.size(), sum, m.pipeline, m.chunks, model.layers);
  }
  return absl::OkStatus();
}

absl::Status CheckBatch(const ParallelMapping& m) {
  if (m.global_batch % (int64_t{m.data} * m.micro_batch) != 0) {
    return Infeasible(
        "C5: mapping {}: micro-batch {} times data parallelism {} does not divide the batch of {}",
        ToString(m), m.micro_batch, m.data, m.global_batch);
  }
  return CheckSchedule(m);
}

constexpr std::string_view kLayers = "layers=";

// "6,7,7,6" or "[6,7,7,6]", each 1 to kMaxDegree.
bool ReadLayers(std::string_view text, std::vector<int32_t>& layers) {
  if (text.starts_with('[') && text.ends_with(']')) text = text.substr(1, text.size() - 2);
  for (const char* at = text.data(); at <= text.data() + text.size();) {
    int32_t count = 0;
    const auto [end, error] = std::from_chars(at, text.data() + text.size(), count);
    if (error != std::errc() || count < 1 || count > kMaxDegree) return false;
    layers.push_back(count);
    if (end == text.data() + text.size()) return true;
    if (*end != ',') return false;
    at = end + 1;
  }
  return false;
}

}  // namespace

std::string_view Name(Recompute recompute) {
  static constexpr std::array<std::string_view, 5> kNames = {"none", "selective", "full",
                                                             "operators", "alternate"};
  return EnumName(kNames, recompute);
}

std::string ToString(const ParallelMapping& m) {
  std::string text = fmt::format("tp{}", m.tensor);
  if (m.context > 1) text += fmt::format(" cp{}", m.context);
  text += fmt::format(" pp{} dp{}", m.pipeline, m.data);
  if (m.ring) text += " ring";
  if (m.expert > 1) text += fmt::format(" ep{}", m.expert);
  if (m.expert_tensor > 0) text += fmt::format(" etp{}", m.expert_tensor);
  text += fmt::format(" mb{} v{} {}", m.micro_batch, m.chunks, Name(m.recompute));
  if (m.sequence_parallel) text += " sp";
  if (m.zero > 0) text += fmt::format(" zero{}", m.zero);
  if (m.overlap_gradients) text += " overlap";
  if (!m.overlap_tensor) text += " tp-exposed";
  if (m.async_tensor) text += " tp-async";
  if (m.chunked_tensor) text += " tp-chunked";
  if (m.hybrid > 0) text += fmt::format(" hsdp{}", m.hybrid);
  if (m.counted_ends) text += " ends";
  if (!m.layers.empty()) text += fmt::format(" layers={}", fmt::join(m.layers, ","));
  if (m.fp8) text += " fp8";
  if (m.lora > 0) text += fmt::format(" lora{}", m.lora);
  if (m.lora_everywhere) text += " lora-all";
  if (m.gradient_bytes > 0) text += fmt::format(" grad{}", 8 * m.gradient_bytes);
  if (m.schedule != ScheduleKind::k1F1B) text += fmt::format(" {}", Name(m.schedule));
  if (m.k > 1) text += fmt::format(" k{}", m.k);
  return text;
}

absl::StatusOr<ParallelMapping> ParseMapping(const std::string& text, int32_t global_batch,
                                             const std::string& source) {
  ParallelMapping m;
  m.global_batch = global_batch;
  const std::pair<std::string_view, int32_t*> numbers[] = {
      {"tp", &m.tensor},      {"cp", &m.context},
      {"pp", &m.pipeline},    {"dp", &m.data},
      {"ep", &m.expert},      {"etp", &m.expert_tensor},
      {"mb", &m.micro_batch}, {"gb", &m.global_batch},
      {"v", &m.chunks},       {"k", &m.k},
      {"zero", &m.zero},      {"lora", &m.lora},
      {"hsdp", &m.hybrid}};
  const auto read = [&](std::string_view word) {
    if (word.starts_with(kLayers)) return ReadLayers(word.substr(kLayers.size()), m.layers);
    for (int i = 0; i < static_cast<int>(Recompute::kCount); ++i) {
      if (word != Name(static_cast<Recompute>(i))) continue;
      m.recompute = static_cast<Recompute>(i);
      return true;
    }
    for (int i = 0; i < static_cast<int>(ScheduleKind::kCount); ++i) {
      if (word != Name(static_cast<ScheduleKind>(i))) continue;
      m.schedule = static_cast<ScheduleKind>(i);
      // Chunks say whether 1F1B interleaves.
      if (m.schedule == ScheduleKind::kInterleaved) m.schedule = ScheduleKind::k1F1B;
      return true;
    }
    if (word == "sp") return m.sequence_parallel = true;
    if (word == "ring") return m.ring = true;
    if (word == "overlap") return m.overlap_gradients = true;
    if (word == "tp-exposed") return !(m.overlap_tensor = false);
    if (word == "tp-async") return m.async_tensor = true;
    if (word == "tp-chunked") return m.chunked_tensor = true;
    if (word == "ends") return m.counted_ends = true;
    if (word == "fp8") return m.fp8 = true;
    if (word == "lora-all") return m.lora_everywhere = true;
    if (word == "grad16" || word == "grad32") {
      m.gradient_bytes = word == "grad16" ? 2 : 4;
      return true;
    }
    for (const auto& [name, target] : numbers) {
      if (word.substr(0, name.size()) != name) continue;
      const std::string_view digits = word.substr(name.size());
      const auto [end, error] =
          std::from_chars(digits.data(), digits.data() + digits.size(), *target);
      if (error == std::errc() && end == digits.data() + digits.size()) return true;
    }
    return false;
  };
  // "tp" of "tp8": each of these may be said once, and one word of recomputation and of schedules;
  // other words without a number are their own.
  const auto subject = [](const std::string& word) -> std::string {
    for (int i = 0; i < static_cast<int>(Recompute::kCount); ++i) {
      if (word == Name(static_cast<Recompute>(i))) return "recomputation";
    }
    for (int i = 0; i < static_cast<int>(ScheduleKind::kCount); ++i) {
      if (word == Name(static_cast<ScheduleKind>(i))) return "schedule";
    }
    const size_t digits = word.find_first_of("0123456789");
    return digits == 0 ? word : word.substr(0, digits);
  };
  std::set<std::string> said;
  std::istringstream words(text);
  bool any = false;
  for (std::string word; words >> word; any = true) {
    if (!said.insert(subject(word)).second) {
      return InvalidInput("{}: '{}' is given twice; remove one", source, subject(word));
    }
    if (!read(word)) {
      return InvalidInput(
          "{}: '{}' is not part of a mapping; words are tpN cpN ppN dpN epN etpN mbN gbN vN kN "
          "zeroN hsdpN loraN lora-all ring sp overlap tp-exposed tp-async tp-chunked ends "
          "layers=N,N,... fp8 grad16 grad32 none selective full operators alternate gpipe 1f1b "
          "kfkb zb-h1",
          source, word);
    }
  }
  if (!any) return InvalidInput("{}: the mapping is empty; an example: tp8 pp4 dp2 mb1", source);
  FORETRACE_RETURN_IF_ERROR(CheckDegrees(m));
  return m;
}

absl::Status CheckMapping(const TransformerConfig& model, const ParallelMapping& m,
                          int64_t devices) {
  FORETRACE_RETURN_IF_ERROR(CheckDegrees(m));
  if (devices > 0 && m.devices() != devices) {
    return Infeasible(
        "C3: mapping {} uses {} devices of {}; tp * cp * pp * dp must equal their number",
        ToString(m), m.devices(), devices);
  }
  FORETRACE_RETURN_IF_ERROR(CheckSharding(model, m));
  if (!m.layers.empty()) {
    FORETRACE_RETURN_IF_ERROR(CheckLayers(model, m));
    return CheckBatch(m);
  }
  const int64_t counted = model.layers + (m.counted_ends ? 2 : 0);
  if (counted % (int64_t{m.pipeline} * m.chunks) != 0) {
    return Infeasible("C1: mapping {}: {} stages of {} chunks do not divide {} layers{}",
                      ToString(m), m.pipeline, m.chunks, model.layers,
                      m.counted_ends ? " with embedding and output layer"
                                     : "; ends (embedding and output layer count as layers) may");
  }
  if (m.counted_ends && (m.pipeline == 1 || counted / (int64_t{m.pipeline} * m.chunks) < 2)) {
    return Infeasible(
        "C1: mapping {}: ends needs a pipeline, and leaves the first or the last chunk without "
        "layers",
        ToString(m));
  }
  return CheckBatch(m);
}

int64_t LayersOf(const TransformerConfig& model, const ParallelMapping& m, int32_t stage,
                 int32_t chunk) {
  const int64_t chunks = int64_t{m.pipeline} * m.chunks;
  const int64_t index = int64_t{chunk} * m.pipeline + stage;
  if (!m.layers.empty()) return m.layers[static_cast<size_t>(index)];
  if (!m.counted_ends) return model.layers / chunks;
  return (model.layers + 2) / chunks - (index == 0 ? 1 : 0) - (index + 1 == chunks ? 1 : 0);
}

int64_t StageLayers(const TransformerConfig& model, const ParallelMapping& m, int32_t stage) {
  int64_t layers = 0;
  for (int32_t c = 0; c < m.chunks; ++c) layers += LayersOf(model, m, stage, c);
  return layers;
}

std::vector<int32_t> SpreadLayers(int64_t layers, int64_t chunks) {
  std::vector<int32_t> spread;
  for (int64_t i = 0; i < chunks; ++i) {
    spread.push_back(static_cast<int32_t>(layers / chunks + (i < layers % chunks ? 1 : 0)));
  }
  return spread;
}

absl::StatusOr<PassList> StagePasses(const ParallelMapping& m, int32_t stage) {
  const int32_t count = m.microbatches();
  if (m.chunks > 1) return InterleavedSchedule(count, m.pipeline, stage, m.chunks);
  switch (m.schedule) {
    case ScheduleKind::kGPipe:
      return GPipeSchedule(count);
    case ScheduleKind::kKFKB:
      return KFKBSchedule(count, m.k, static_cast<int32_t>(ChunksInFlight(m, stage)));
    case ScheduleKind::kZeroBubbleH1:
      return ZeroBubbleH1Schedule(count, m.pipeline)[static_cast<size_t>(stage)];
    default:
      return KFKBSchedule(count, 1, std::min(count, m.pipeline - stage));
  }
}

int64_t ChunksInFlight(const ParallelMapping& m, int32_t stage) {
  const int64_t count = m.microbatches();
  const int64_t behind = m.pipeline - stage - 1;
  if (m.chunks > 1) {
    const int64_t total = count * m.chunks;
    if (count == m.pipeline) return total;  // all forward passes come first
    return std::min(total, behind * 2 + int64_t{m.chunks - 1} * m.pipeline + 1);
  }
  switch (m.schedule) {
    case ScheduleKind::kGPipe:
      return count;
    case ScheduleKind::kKFKB:
      // Table 3.2 of GraphPipe for equal neighbours: groups of k overlap by all but two.
      return std::min(count, m.k + std::min(m.k, 2) * behind);
    case ScheduleKind::kZeroBubbleH1:
      // Weight gradients are put off, but no stage holds more than the first does under 1F1B.
      return std::min<int64_t>(count, m.pipeline);
    default:
      return std::min(count, behind + 1);
  }
}

}  // namespace foretrace
