// What a row recomputes, and how it keeps what that needs.

#include <algorithm>
#include <cctype>
#include <charconv>
#include <initializer_list>

#include <fmt/format.h>

#include "simulator/base/enum_names.h"
#include "simulator/mapping/training_row_fields.h"

namespace foretrace {
namespace {

// Of Megatron Core's recompute_modules (transformer/transformer_config.py) those whose outputs are
// dropped and made again, which light recomputation has all of.
constexpr std::string_view kLightModules[] = {"layernorm", "moe act", "up proj"};
// Those that are parts of layers, which no word has.
constexpr std::string_view kPartModules[] = {"mlp", "moe", "shared experts"};

// In lower case, words apart by one blank.
std::string Plain(const std::string& said) {
  std::string text = LowerCase(said);
  std::ranges::replace_if(
      text, [](char c) { return c == '_' || c == '-'; }, ' ');
  return text;
}

bool NamesLightModules(const std::string& said) {
  const std::string text = Plain(said);
  return std::ranges::any_of(kLightModules,
                             [&](std::string_view m) { return text.find(m) != std::string::npos; });
}

// torchtitan's selective_ac_option of a number: one of so many layers is recomputed ("selective 2",
// "selective_ac_option=2"). Of numbers only those that words have.
bool NamesEveryNth(const std::string& text) {
  const size_t at = text.find("selective"), last = text.find_last_not_of("0123456789");
  if (at == std::string::npos || last == std::string::npos || last + 2 != text.size()) return false;
  const std::string between = Plain(text.substr(at + 9, last + 1 - at - 9));
  const bool option = between.find_first_not_of(" =:acoption") == std::string::npos;
  return option && !between.empty() && (text.back() == '1' || text.back() == '2');
}

// Of a list of modules those that are parts of layers, but for light ones ("moe act").
std::string PartModules(const std::string& said) {
  std::string text = Plain(said), found;
  if (const size_t at = text.find("moe act"); at != std::string::npos) text.erase(at, 7);
  for (const std::string_view module : kPartModules) {
    if (text.find(module) == std::string::npos) continue;
    found += fmt::format("{}{}", found.empty() ? "" : ", ", module);
  }
  return found;
}

}  // namespace

std::optional<Recompute> RecomputeIn(const std::string& said, Recompute selective) {
  const std::string text = LowerCase(said);
  const auto is = [&](std::initializer_list<std::string_view> words) {
    return std::ranges::find(words, text) != words.end();
  };
  const auto has = [&](std::initializer_list<std::string_view> words) {
    return std::ranges::any_of(
        words, [&](std::string_view word) { return text.find(word) != std::string::npos; });
  };
  // "none (FlashAttention)", "no checkpointing", "checkpointing off".
  constexpr std::string_view kNone[] = {"none",     "no",      "off", "false", "0",
                                        "disabled", "without", "0.0", "n"};
  const std::string begins = text.substr(0, text.find_first_of(" ,;:(-_"));
  if (std::ranges::find(kNone, begins) != std::end(kNone) || has({" off", "disabled"})) {
    return Recompute::kNone;
  }
  if (NamesLightModules(said)) return Recompute::kLight;
  if (has({"every other layer", "every second layer", "every 2nd layer", "every 2 layers",
           "every two layers", "alternate"})) {
    return Recompute::kAlternate;
  }
  if (text.starts_with("full")) return Recompute::kFull;
  if (selective == Recompute::kOperators && NamesEveryNth(text)) {
    return text.back() == '1' ? Recompute::kFull : Recompute::kAlternate;
  }
  if (has({"selective", "attn", "attention"}) || is({"op", "sac"})) return selective;
  if (is({"yes", "y", "on", "true", "1", "1.0", "all", "recompute all"}) ||
      has({"checkpointing", "uniform", "block", "layer"})) {
    return Recompute::kFull;
  }
  return std::nullopt;
}

void SetRecomputation(const Fields& f, TrainingRow& row) {
  const std::string recompute = f.Text("recompute");
  const StackRelease& software = row.software;
  row.recompute_stated = !recompute.empty() || software.recompute != Recompute::kNone;
  row.mapping.recompute = software.recompute;
  if (recompute.empty()) return;
  const auto said = RecomputeIn(recompute, software.selective);
  row.mapping.recompute = said.value_or(software.selective);
  const std::string parts = PartModules(recompute);
  if (row.mapping.recompute == Recompute::kLight) {
    row.notes.push_back(fmt::format(
        "recompute '{}' is taken for light: norms, rotary embedding, gated activations and GEMMs "
        "up from latents run again{}",
        recompute, parts.empty() ? "" : ", not " + parts));
  } else if (said && *said != Recompute::kNone && !parts.empty()) {
    row.notes.push_back(fmt::format("recompute '{}': {} by itself is not covered, taken for {}",
                                    recompute, parts, Name(row.mapping.recompute)));
  }
  if (!said && !SaysRecomputation(f)) {
    NoteUnread(
        fmt::format("recompute '{}' is taken for selective; known are none, selective and full",
                    recompute),
        row);
  }
}

namespace {

// Of the texts about it, in lower case, words apart by one blank.
std::string SaidOfInputs(const Fields& f) {
  return " " + Plain(f.Text("note") + "; " + f.Text("recompute"));
}

// Whether one of the words is there and not denied, before ("no") or behind it ("off").
bool SaysAny(const std::string& text, std::initializer_list<std::string_view> words) {
  const auto denied = [&](size_t at, size_t length) {
    const std::string_view before = std::string_view(text).substr(0, at);
    for (const std::string_view word : {" no ", " not ", " without "}) {
      if (before.ends_with(word)) return true;
    }
    // "cpu checkpointing=off" has the word "cpu checkpoint".
    size_t end = at + length;
    while (end < text.size() && std::isalpha(static_cast<unsigned char>(text[end])) != 0) ++end;
    const size_t behind = text.find_first_not_of(" =:", end);
    const std::string rest = behind == std::string::npos ? "" : text.substr(behind);
    constexpr std::string_view kOff[] = {"off", "false", "disabled", "none", "0"};
    return std::ranges::any_of(kOff, [&](std::string_view off) { return rest.starts_with(off); });
  };
  return std::ranges::any_of(words, [&](std::string_view word) {
    const size_t at = text.find(word);
    return at != std::string::npos && !denied(at, word.size());
  });
}

// The number behind one of the words; 0: none.
int32_t CountBehind(const std::string& text, std::initializer_list<std::string_view> words) {
  for (const std::string_view word : words) {
    const size_t at = text.find(word);
    if (at == std::string::npos) continue;
    const size_t number = text.find_first_not_of(" =:", at + word.size());
    if (number == std::string::npos) continue;
    int32_t value = 0;
    const auto [end, error] =
        std::from_chars(text.data() + number, text.data() + text.size(), value);
    if (error == std::errc() && value > 0 && value <= kMaxDegree) return value;
  }
  return 0;
}

// Layers that run again at once, as Megatron's --recompute-num-layers (before 2022
// --checkpoint-num-layers) of method "uniform" has them.
int32_t LayersTogether(const Fields& f, const std::string& said, TrainingRow& row) {
  std::string unread;
  auto layers =
      static_cast<int32_t>(std::min<int64_t>(f.Int("recompute_num_layers", 0, unread), kMaxDegree));
  if (layers == 0) {
    layers = CountBehind(said, {"checkpoint every", "checkpoints every", "recompute num layers",
                                "checkpoint num layers"});
  }
  const int32_t block = CountBehind(said, {"block"});
  if (block > 0) layers = block;
  if (layers <= (block > 0 ? 0 : 1)) return 0;
  const bool method = LowerCase(f.Text("recompute_method")) == "block";
  if (block > 0 || method || SaysAny(said, {"method block"})) {
    row.notes.push_back(fmt::format(
        "recomputation of {} layers a chunk (block) is taken for recomputation of all", layers));
    return 0;
  }
  // Halves of layers are counted, and kept, by themselves (DeepSpeedExamples,
  // Megatron-LM-v1.1.5-ZeRO3 and its successors,
  // setup_deepspeed_random_and_activation_checkpointing: num_layers *= 2).
  if (SaysAny(said, {"split transformers"})) layers /= 2;
  return layers;
}

}  // namespace

void SetKeptInputs(const Fields& f, TrainingRow& row) {
  ParallelMapping& m = row.mapping;
  const std::string said = SaidOfInputs(f);
  const bool divided =
      f.Says("partition_activations") || f.Says("distribute_saved_activations") ||
      SaysAny(said, {"partition activations", "partitioned activations", "activation partitioning",
                     "distribute saved activations", "distributed saved activations"});
  const bool checkpoints_on_host =
      f.Says("cpu_checkpointing") || f.Says("checkpoint_in_cpu") ||
      SaysAny(said, {"cpu checkpoint", "checkpoint in cpu", "checkpoints in cpu",
                     "checkpoints on cpu", "checkpoints in host", "checkpoints on the host"});
  const bool on_host =
      checkpoints_on_host ||
      SaysAny(said, {"activation offload", "activations offload", "offload activation",
                     "offloaded activation", "activation cpu offload"});
  if (!row.recompute_stated && !SaysRecomputation(f) && (divided || checkpoints_on_host)) {
    m.recompute = Recompute::kFull;
    row.recompute_stated = true;
    row.notes.emplace_back("full recomputation, whose kept inputs those are");
  }
  if (m.recompute != Recompute::kFull) {
    if (divided || on_host) {
      row.notes.emplace_back(
          "activations that are divided, or on the host, are covered where whole layers are "
          "recomputed: taken to stay where they are");
    }
    return;
  }
  const int32_t together = LayersTogether(f, said, row);
  const int64_t chunks = std::max<int64_t>(int64_t{m.pipeline} * m.chunks, 1);
  const int64_t most = std::max<int64_t>((row.config.layers + chunks - 1) / chunks, 1);
  if (together > 1) m.recomputed_together = static_cast<int32_t>(std::min<int64_t>(together, most));
  m.inputs_on_host |= on_host;
  const bool can_be = m.tensor > 1 && !m.sequence_parallel;
  m.divided_inputs |= divided && can_be;
  if (on_host && !m.divided_inputs && can_be && row.software.divides_on_host) {
    m.divided_inputs = true;
    row.notes.emplace_back(
        "kept activations divided, as the software copied only such to the host");
  }
}

}  // namespace foretrace
