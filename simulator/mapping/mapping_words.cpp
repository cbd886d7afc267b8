// Mappings as words: "tp8 pp4 dp16 mb2".

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <iterator>
#include <set>
#include <sstream>
#include <utility>

#include "simulator/base/enum_names.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/mapping/parallel_mapping.h"

namespace foretrace {
namespace {

constexpr std::string_view kLayers = "layers=", kDispatch = "dispatch=", kHybrid = "hsdp",
                           kModulesWord = "recompute=";

// "6,7,7,6" or "[6,7,7,6]", each 1 to kMaxDegree.
bool ReadLayers(std::string_view text, std::vector<int32_t>& layers) {
  layers.clear();
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

// Attention alone has a word of its own.
bool ReadModules(std::string_view text, ParallelMapping& m) {
  const std::optional<RecomputeModules> read = ParseRecomputeModules(text);
  if (!read) return false;
  const RecomputeModules modules = *read;
  RecomputeModules attention;
  attention.add(RecomputeModule::kCoreAttention);
  m.recompute = modules == attention ? Recompute::kSelective : Recompute::kModules;
  m.modules = modules == attention ? RecomputeModules() : modules;
  return true;
}

struct Flag {
  std::string_view word;
  bool ParallelMapping::*target;
  bool value = true;
};
constexpr Flag kFlags[] = {{"sp", &ParallelMapping::sequence_parallel},
                           {"ring", &ParallelMapping::ring},
                           {"ulysses", &ParallelMapping::ulysses},
                           {"overlap", &ParallelMapping::overlap_gradients},
                           {"tp-exposed", &ParallelMapping::overlap_tensor, false},
                           {"tp-async", &ParallelMapping::async_tensor},
                           {"tp-chunked", &ParallelMapping::chunked_tensor},
                           {"ends", &ParallelMapping::counted_ends},
                           {"partition-activations", &ParallelMapping::divided_inputs},
                           {"offload-activations", &ParallelMapping::inputs_on_host},
                           {"qwz", &ParallelMapping::eight_bit_weights},
                           {"offload", &ParallelMapping::offload},
                           {"offload-weights", &ParallelMapping::offload_weights},
                           {"fp8", &ParallelMapping::fp8},
                           {"mxfp8", &ParallelMapping::mxfp8},
                           {"nvfp4", &ParallelMapping::nvfp4},
                           {"lora-all", &ParallelMapping::lora_everywhere},
                           {"train-attention", &ParallelMapping::train_attention},
                           {"train-ffn", &ParallelMapping::train_ffn},
                           {"balance-loss", &ParallelMapping::balance_loss},
                           {"dispatch-fp8", &ParallelMapping::dispatch_fp8},
                           {"ep-overlap", &ParallelMapping::overlap_experts},
                           {"keep-fp8", &ParallelMapping::keeps_eight}};

struct Degree {
  std::string_view word;
  int32_t ParallelMapping::*target;
};
constexpr Degree kDegrees[] = {{"tp", &ParallelMapping::tensor},
                               {"cp", &ParallelMapping::context},
                               {"pp", &ParallelMapping::pipeline},
                               {"dp", &ParallelMapping::data},
                               {"ep", &ParallelMapping::expert},
                               {"etp", &ParallelMapping::expert_tensor},
                               {"mb", &ParallelMapping::micro_batch},
                               {"gb", &ParallelMapping::global_batch},
                               {"v", &ParallelMapping::chunks},
                               {"vp", &ParallelMapping::chunks},
                               {"k", &ParallelMapping::k},
                               {"zero", &ParallelMapping::zero},
                               {"lora", &ParallelMapping::lora},
                               {kHybrid, &ParallelMapping::hybrid},
                               {"hpz", &ParallelMapping::second_shards},
                               {"last", &ParallelMapping::last_layers},
                               {"uniform", &ParallelMapping::recomputed_together},
                               {"block", &ParallelMapping::recomputed_layers},
                               {"every", &ParallelMapping::recomputed_every},
                               {"imbalance", &ParallelMapping::expert_imbalance},
                               {"capacity", &ParallelMapping::expert_capacity}};

// "8" of "tp8" and "tp=8"; nullopt: another word.
std::optional<int32_t> Behind(std::string_view name, std::string_view word) {
  if (!word.starts_with(name)) return std::nullopt;
  std::string_view digits = word.substr(name.size());
  if (digits.starts_with('=')) digits.remove_prefix(1);
  int32_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

bool ReadDegree(std::string_view word, ParallelMapping& m) {
  for (const auto& [name, target] : kDegrees) {
    const std::optional<int32_t> value = Behind(name, word);
    // Below 0 all layers are meant, which no number says.
    if (target == &ParallelMapping::recomputed_layers && value && *value < 0) return false;
    m.*target = value.value_or(m.*target);
    if (value) return true;
  }
  return false;
}

template <typename Enum>
bool ReadEnum(std::string_view word, Enum& value) {
  const auto found = ParseEnum<Enum>(word);
  value = found.value_or(value);
  return found.has_value();
}

bool ReadWord(std::string_view word, ParallelMapping& m) {
  if (word.starts_with(kLayers)) return ReadLayers(word.substr(kLayers.size()), m.layers);
  if (word.starts_with(kDispatch)) return ReadEnum(word.substr(kDispatch.size()), m.dispatch);
  if (word.starts_with(kModulesWord)) return ReadModules(word.substr(kModulesWord.size()), m);
  if (word != Name(Recompute::kModules) && ReadEnum(word, m.recompute)) {
    m.modules = RecomputeModules();
    return true;
  }
  if (ReadEnum(word, m.schedule)) {
    // Chunks say whether 1F1B interleaves.
    if (m.schedule == ScheduleKind::kInterleaved) m.schedule = ScheduleKind::k1F1B;
    return true;
  }
  for (const Flag& flag : kFlags) {
    if (word != flag.word) continue;
    m.*flag.target = flag.value;
    return true;
  }
  if (word == "grad16" || word == "grad32") {
    m.gradient_bytes = word == "grad16" ? 2 : 4;
    return true;
  }
  if (word == "moments8" || word == "moments16") {
    m.moment_bytes = word == "moments8" ? 1 : 2;
    return true;
  }
  return ReadDegree(word, m);
}

// "tp" of "tp8": each of these may be said once, and one word of recomputation and of schedules;
// other words without a number are their own.
std::string SubjectOf(const std::string& word) {
  if (word.starts_with(kDispatch)) return "dispatch";
  if (ParseEnum<Recompute>(word) || word.starts_with(kModulesWord)) return "recomputation";
  if (ParseEnum<ScheduleKind>(word)) return "schedule";
  if (word.starts_with("vp")) return "v";
  const size_t digits = word.find_first_of("=0123456789");
  return digits == 0 ? word : word.substr(0, digits);
}

}  // namespace

std::vector<std::string> MappingWords(const std::string& text) {
  std::string plain = LowerCase(text);
  for (size_t i = 0; i + 1 < plain.size(); ++i) {
    const char next = plain[i + 1];
    const bool between = std::isspace(static_cast<unsigned char>(next)) != 0;
    if (plain[i] == ',' && (between || (next >= 'a' && next <= 'z'))) plain[i] = ' ';
  }
  std::istringstream in(plain);
  return {std::istream_iterator<std::string>(in), {}};
}

std::string_view Name(Recompute recompute) {
  static constexpr std::array<std::string_view, 7> kNames = {
      "none", "selective", "full", "operators", "alternate", "light", "modules"};
  return EnumName(kNames, recompute);
}

std::string_view Name(RecomputeModule module) {
  static constexpr std::array<std::string_view, 7> kNames = {
      "core_attn", "mlp", "moe", "moe_act", "layernorm", "mla_up_proj", "shared_experts"};
  return EnumName(kNames, module);
}

std::string ToString(RecomputeModules modules) {
  std::string text;
  for (int i = 0; i < static_cast<int>(RecomputeModule::kCount); ++i) {
    const auto module = static_cast<RecomputeModule>(i);
    if (modules.has(module)) text += fmt::format("{}{}", text.empty() ? "" : "+", Name(module));
  }
  return text;
}

std::optional<RecomputeModules> ParseRecomputeModules(std::string_view text) {
  RecomputeModules modules;
  while (true) {
    const size_t end = std::min(text.find('+'), text.size());
    const auto module = ParseEnum<RecomputeModule>(text.substr(0, end));
    if (!module || modules.has(*module)) return std::nullopt;
    modules.add(*module);
    if (end == text.size()) return modules;
    text.remove_prefix(end + 1);
  }
}

std::string_view Name(ExpertDispatch dispatch) {
  static constexpr std::array<std::string_view, 4> kNames = {"alltoall", "deepep", "hybridep",
                                                             "allgather"};
  return EnumName(kNames, dispatch);
}

std::string ToString(const ParallelMapping& m) {
  std::string text = fmt::format("tp{}", m.tensor);
  if (m.context > 1) text += fmt::format(" cp{}", m.context);
  text += fmt::format(" pp{} dp{}", m.pipeline, m.data);
  if (m.ring) text += " ring";
  if (m.ulysses) text += " ulysses";
  if (m.expert > 1) text += fmt::format(" ep{}", m.expert);
  if (m.expert_tensor > 0) text += fmt::format(" etp{}", m.expert_tensor);
  text += fmt::format(" mb{} v{} ", m.micro_batch, m.chunks);
  text += m.recompute == Recompute::kModules ? std::string(kModulesWord) + ToString(m.modules)
                                             : std::string(Name(m.recompute));
  if (m.recomputed_layers >= 0) text += fmt::format(" block{}", m.recomputed_layers);
  if (m.recomputed_every > 0) text += fmt::format(" every{}", m.recomputed_every);
  if (m.recomputed_together > 0) text += fmt::format(" uniform{}", m.recomputed_together);
  if (m.divided_inputs) text += " partition-activations";
  if (m.inputs_on_host) text += " offload-activations";
  if (m.sequence_parallel) text += " sp";
  if (m.zero > 0) text += fmt::format(" zero{}", m.zero);
  if (m.overlap_gradients) text += " overlap";
  if (!m.overlap_tensor) text += " tp-exposed";
  if (m.async_tensor) text += " tp-async";
  if (m.chunked_tensor) text += " tp-chunked";
  if (m.hybrid > 0) text += fmt::format(" hsdp{}", m.hybrid);
  if (m.second_shards > 0) text += fmt::format(" hpz{}", m.second_shards);
  if (m.eight_bit_weights) text += " qwz";
  if (m.offload) text += " offload";
  if (m.offload_weights) text += " offload-weights";
  if (m.counted_ends) text += " ends";
  if (!m.layers.empty()) text += fmt::format(" layers={}", fmt::join(m.layers, ","));
  if (m.fp8) text += " fp8";
  if (m.mxfp8) text += " mxfp8";
  if (m.nvfp4) text += " nvfp4";
  if (m.lora > 0) text += fmt::format(" lora{}", m.lora);
  if (m.lora_everywhere) text += " lora-all";
  if (m.last_layers > 0) text += fmt::format(" last{}", m.last_layers);
  if (m.train_attention) text += " train-attention";
  if (m.train_ffn) text += " train-ffn";
  if (m.expert_imbalance > 0) text += fmt::format(" imbalance{}", m.expert_imbalance);
  if (m.expert_capacity > 0) text += fmt::format(" capacity{}", m.expert_capacity);
  if (m.dispatch != ExpertDispatch::kAllToAll) {
    text += fmt::format(" dispatch={}", Name(m.dispatch));
  }
  if (m.dispatch_fp8) text += " dispatch-fp8";
  if (m.overlap_experts) text += " ep-overlap";
  if (m.balance_loss) text += " balance-loss";
  if (m.gradient_bytes > 0) text += fmt::format(" grad{}", 8 * m.gradient_bytes);
  if (m.moment_bytes > 0) text += fmt::format(" moments{}", 8 * m.moment_bytes);
  if (m.keeps_eight) text += " keep-fp8";
  if (m.schedule != ScheduleKind::k1F1B) text += fmt::format(" {}", Name(m.schedule));
  if (m.k > 1) text += fmt::format(" k{}", m.k);
  return text;
}

namespace {

// "hsdp2x64": copies, and the shards of each; 0: no such word.
int32_t ReadCopies(std::string_view word, ParallelMapping& m) {
  const size_t by = word.find('x');
  if (!word.starts_with(kHybrid) || by == std::string_view::npos) return 0;
  ParallelMapping copies;
  const std::string shards = std::string(kHybrid) + std::string(word.substr(by + 1));
  return ReadDegree(word.substr(0, by), copies) && ReadDegree(shards, m) ? copies.hybrid : 0;
}

}  // namespace

absl::Status AddWords(const std::string& text, const std::string& source, ParallelMapping& m) {
  std::set<std::string> said;
  int32_t copies = 0;
  for (const std::string& word : MappingWords(text)) {
    if (!said.insert(SubjectOf(word)).second) {
      return InvalidInput("{}: '{}' is given twice; remove one", source, SubjectOf(word));
    }
    if (const int32_t groups = ReadCopies(word, m); groups > 0) {
      copies = groups;
      continue;
    }
    if (!ReadWord(word, m)) {
      return InvalidInput(
          "{}: '{}' is not part of a mapping; words are tpN cpN ppN dpN epN etpN mbN gbN vN kN "
          "zeroN hsdpN hsdpCxN hpzN qwz loraN lora-all lastN train-attention train-ffn imbalanceN "
          "capacityN "
          "dispatch=alltoall|deepep|hybridep|allgather dispatch-fp8 ep-overlap balance-loss ring "
          "ulysses sp "
          "overlap tp-exposed tp-async tp-chunked "
          "offload offload-weights ends layers=N,N,... fp8 mxfp8 nvfp4 grad16 grad32 moments16 "
          "moments8 keep-fp8 none selective full operators alternate light "
          "recompute=MODULE+MODULE... (core_attn mlp moe moe_act layernorm mla_up_proj "
          "shared_experts) blockN everyN uniformN partition-activations offload-activations gpipe "
          "1f1b kfkb zb-h1 zb-v dualpipe dualpipev",
          source, word);
    }
  }
  if (m.returns() && !said.contains("v")) m.chunks = 2;
  if (m.global_batch == 0 && !said.contains("gb")) {
    return InvalidInput(
        "{}: how many samples is one iteration? gbN says it, or --global-batch beside words",
        source);
  }
  FORETRACE_RETURN_IF_ERROR(CheckDegrees(m));
  if (copies > 0 && int64_t{copies} * m.hybrid != m.replicas()) {
    return InvalidInput("{}: hsdp{}x{} is {} replicas, but dp {} x cp {} is {}", source, copies,
                        m.hybrid, int64_t{copies} * m.hybrid, m.data, m.context, m.replicas());
  }
  return absl::OkStatus();
}

std::optional<int32_t> NumberOf(std::string_view word, const std::string& text) {
  for (const std::string& said : MappingWords(text)) {
    if (const std::optional<int32_t> value = Behind(word, said)) return value;
  }
  return std::nullopt;
}

absl::StatusOr<ParallelMapping> ParseMapping(const std::string& text, int32_t global_batch,
                                             const std::string& source) {
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) {
    return InvalidInput("{}: the mapping is empty; an example: tp8 pp4 dp2 mb1", source);
  }
  ParallelMapping m;
  m.global_batch = global_batch;
  FORETRACE_RETURN_IF_ERROR(AddWords(text, source, m));
  return m;
}

}  // namespace foretrace
