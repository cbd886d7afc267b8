// What a row recomputes.

#include <algorithm>
#include <cctype>
#include <initializer_list>

#include <fmt/format.h>

#include "simulator/base/enum_names.h"
#include "simulator/mapping/training_row_fields.h"
#include "simulator/mapping/training_row_text.h"

namespace foretrace {
namespace {

// Of Megatron Core's recompute_modules (transformer/transformer_config.py) those whose outputs are
// dropped and made again, which light recomputation has all of.
bool NamesLightModules(const std::string& said) {
  return ToldOf(said, {"layernorm*", "moe act", "up proj", "mla up proj"}) == Told::kYes;
}

// torchtitan's selective_ac_option of a number: one of so many layers is recomputed ("selective 2",
// "selective_ac_option=2"). Of numbers only those that words have.
bool NamesEveryNth(const std::string& text) {
  const size_t at = text.find("selective"), last = text.find_last_not_of("0123456789");
  if (at == std::string::npos || last == std::string::npos || last + 2 != text.size()) return false;
  std::string between = text.substr(at + 9, last + 1 - at - 9);
  std::ranges::replace_if(
      between, [](char c) { return c == '_' || c == '-'; }, ' ');
  const bool option = between.find_first_not_of(" =:acoption") == std::string::npos;
  return option && !between.empty() && (text.back() == '1' || text.back() == '2');
}

// Of a list of modules those that are parts of layers, which no word has.
std::string PartModules(const std::string& said, bool light) {
  const std::vector<std::string> words = TextWords(said);
  std::string found;
  const auto add = [&](std::string_view module) {
    found += fmt::format("{}{}", found.empty() ? "" : ", ", module);
  };
  // Attention alone is what selective recomputation has.
  if (light && ToldOf(words, {"core attn", "core attention"}) == Told::kYes) add("core attn");
  if (ToldOf(words, {"mlp"}) == Told::kYes) add("mlp");
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] != "moe" || TermAt(words, i, "moe act") > 0 || Denied(words, i, 1)) continue;
    add("moe");
    break;
  }
  if (ToldOf(words, {"shared experts"}) == Told::kYes) add("shared experts");
  return found;
}

// "none (FlashAttention)", "no checkpointing", "checkpointing off"; not "full, no offload".
bool SaysNone(const std::vector<std::string>& words) {
  constexpr std::string_view kNone[] = {"none",     "no",      "off", "false", "0",
                                        "disabled", "without", "0.0", "n"};
  if (words.empty()) return false;
  if (std::ranges::find(kNone, words[0]) != std::end(kNone)) return true;
  for (const std::string& word : words) {
    if (std::isalnum(static_cast<unsigned char>(word[0])) == 0) return false;
    if (word == "off" || word == "disabled" || word == "false") return true;
  }
  return false;
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
  if (SaysNone(TextWords(said))) return Recompute::kNone;
  if (has({"every other layer", "every second layer", "every 2nd layer", "every 2 layers",
           "every two layers", "alternate"})) {
    return Recompute::kAlternate;
  }
  if (text.starts_with("full")) return Recompute::kFull;
  if (NamesLightModules(said)) return Recompute::kLight;
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
  const bool light = said == Recompute::kLight;
  const std::string parts = PartModules(recompute, light);
  if (light) {
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

}  // namespace foretrace
