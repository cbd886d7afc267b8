// What a row recomputes.

#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <span>

#include <fmt/format.h>

#include "simulator/base/enum_names.h"
#include "simulator/mapping/recomputed_modules.h"
#include "simulator/mapping/training_row_fields.h"
#include "simulator/mapping/training_row_text.h"

namespace foretrace {
namespace {

struct ModuleTerm {
  std::string_view term;
  RecomputeModule module;
};
// Of Megatron Core's recompute_modules (transformer/transformer_config.py), by their names; the
// longer ones before those that they begin with.
constexpr ModuleTerm kNamed[] = {{"core attn", RecomputeModule::kCoreAttention},
                                 {"core attention", RecomputeModule::kCoreAttention},
                                 {"moe act", RecomputeModule::kMoeActivation},
                                 {"layernorm*", RecomputeModule::kLayerNorm},
                                 {"mla up proj", RecomputeModule::kLatentUp},
                                 {"up proj", RecomputeModule::kLatentUp},
                                 {"shared expert*", RecomputeModule::kSharedExperts},
                                 {"mlp", RecomputeModule::kMlp}};
// Words that are a module's where nothing else is said ("attention + moe"), and what joins them.
constexpr ModuleTerm kPlain[] = {
    {"moe layer*", RecomputeModule::kMoe},       {"moe", RecomputeModule::kMoe},
    {"attn", RecomputeModule::kCoreAttention},   {"attention", RecomputeModule::kCoreAttention},
    {"sdp", RecomputeModule::kCoreAttention},    {"sdpa", RecomputeModule::kCoreAttention},
    {"layer norm*", RecomputeModule::kLayerNorm}};
constexpr std::string_view kJoins[] = {"selective",   "recompute", "recomputation", "modules",
                                       "granularity", "of",        "and",           "only"};

// How many words from `at` on name a module; 0: none.
size_t ModuleAt(const std::vector<std::string>& words, size_t at, std::span<const ModuleTerm> terms,
                RecomputeModules& found) {
  for (const auto& [term, module] : terms) {
    const size_t count = TermAt(words, at, term);
    if (count == 0) continue;
    if (!Denied(words, at, count)) found.add(module);
    return count;
  }
  return 0;
}

struct NamedModules {
  RecomputeModules named, plain;  // kNamed's and kPlain's
  std::string others;             // the first word that names none; empty: there is none
};
NamedModules NamesOf(const std::string& said) {
  const std::vector<std::string> words = TextWords(said);
  NamedModules out;
  for (size_t i = 0; i < words.size();) {
    size_t count = ModuleAt(words, i, kNamed, out.named);
    if (count == 0) count = ModuleAt(words, i, kPlain, out.plain);
    const bool sign = std::isalnum(static_cast<unsigned char>(words[i][0])) == 0;
    const bool known = count > 0 || sign || std::ranges::find(kJoins, words[i]) != std::end(kJoins);
    if (!known && out.others.empty()) out.others = words[i];
    i += std::max<size_t>(count, 1);
  }
  return out;
}

// Of "every 3rd layer", and after "selective" of "every 3 layers" and of torchtitan's
// selective_ac_option ("selective 3", "selective_ac_option=3"), the number; 0: none is said.
int32_t NthLayer(const std::string& said, bool by_option) {
  const std::vector<std::string> words = TextWords(said);
  const auto selects = std::ranges::find(words, "selective");
  for (auto word = words.begin(); by_option && word != words.end(); ++word) {
    const auto behind = word - words.begin() - 1;
    const bool option = word > selects && std::all_of(selects + 1, word, [](const auto& between) {
                          return between == "ac" || between == "option";
                        });
    if (behind >= 0 && option && WholeNumber(*word) > 0) return WholeNumber(*word);
  }
  for (size_t i = 0; i + 2 < words.size(); ++i) {
    if (words[i] != "every" || !words[i + 2].starts_with("layer")) continue;
    std::string number = words[i + 1];
    const bool ordinal =
        number.size() > 2 && std::isalpha(static_cast<unsigned char>(number.back()));
    if (ordinal) number.resize(number.size() - 2);
    if (ordinal || selects != words.end()) return WholeNumber(number);
  }
  return 0;
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

RecomputeModules ModulesIn(const std::string& said) {
  const NamedModules modules = NamesOf(said);
  RecomputeModules named = modules.named;
  if (modules.others.empty() || !named.empty()) named.bits |= modules.plain.bits;
  // SimuMax's recompute_granularity (core/config.py): mlp_only is of experts too.
  if (ToldOf(said, {"mlp only"}) == Told::kYes) named.add(RecomputeModule::kMoe);
  // MaxText's policies that keep no more than attention's GEMMs.
  if (ToldOf(said, {"save qkv proj*", "save dot except mlp*"}) == Told::kYes) {
    named.add(RecomputeModule::kCoreAttention);
    named.add(RecomputeModule::kMlp);
  }
  return named;
}

bool SelectsModules(RecomputeModules modules) {
  modules.remove(RecomputeModule::kCoreAttention);
  return !modules.empty();
}

namespace {

// MaxText's remat_policy (src/maxtext/layers/decoders.py, get_remat_policy), which its name may
// stand before: what GEMMs give is kept, with what attention gives ("context") or without; other
// policies name what they keep. nullopt: it is none of these.
std::optional<Recompute> RematPolicyIn(const std::vector<std::string>& words) {
  size_t at = 0;
  for (const std::string_view term : {"remat policy", "remat"}) {
    if (at == 0) at = TermAt(words, 0, term);
  }
  const auto is = [&](std::string_view term) {
    return TermAt(words, at, term) > 0 && at + TermAt(words, at, term) == words.size();
  };
  if (is("minimal with context") || is("minimal flash")) return Recompute::kLight;
  if (is("minimal")) return Recompute::kSelective;
  if (is("save out proj") || (at > 0 && is("full"))) return Recompute::kFull;
  if (at > 0 && is("none")) return Recompute::kNone;
  return std::nullopt;
}

}  // namespace

std::optional<Recompute> RecomputeIn(const std::string& said, Recompute selective) {
  const std::string text = LowerCase(said);
  if (const auto policy = RematPolicyIn(TextWords(said))) return policy;
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
  if (SelectsModules(ModulesIn(said))) return Recompute::kModules;
  const int32_t nth = NthLayer(said, selective == Recompute::kOperators);
  if (nth > 0) return nth == 2 ? Recompute::kAlternate : Recompute::kFull;
  if (has({"selective", "attn", "attention", "sdp"}) || is({"op", "sac"})) return selective;
  if (is({"yes", "y", "on", "true", "1", "1.0", "all", "recompute all"}) ||
      has({"checkpointing", "uniform", "block", "layer"}) || ChosenLayers(said) > 0) {
    return Recompute::kFull;
  }
  return std::nullopt;
}

namespace {

// The modules of a row that has them as a column of their own, or names them as what it recomputes.
RecomputeModules ModulesOf(const Fields& f, const std::optional<Recompute>& said,
                           TrainingRow& row) {
  const std::string column = f.Text("recompute_modules");
  if (column.empty()) return ModulesIn(f.Text("recompute"));
  const NamedModules all = NamesOf(column);
  RecomputeModules modules = all.named;
  modules.bits |= all.plain.bits;
  const bool other = said == Recompute::kFull || said == Recompute::kNone;
  if (other) {
    NoteUnread(fmt::format("recompute_modules '{}' is of selective recomputation, which the row "
                           "does not have",
                           column),
               row);
    return {};
  }
  if (!all.others.empty()) {
    NoteUnread(fmt::format("recompute_modules '{}': no module that is known is called {}", column,
                           all.others),
               row);
  }
  return modules;
}

// Of these, what layers of the model have.
void SetModules(RecomputeModules modules, TrainingRow& row) {
  const RecomputeModules idle = IdleModules(row.config, modules);
  for (int i = 0; i < static_cast<int>(RecomputeModule::kCount); ++i) {
    const auto module = static_cast<RecomputeModule>(i);
    if (idle.has(module)) modules.remove(module);
  }
  if (!idle.empty()) {
    row.notes.push_back(fmt::format(
        "recompute modules {}: the model has none, or another has them in it", ToString(idle)));
  }
  ParallelMapping& m = row.mapping;
  m.modules = SelectsModules(modules) ? modules : RecomputeModules();
  m.recompute = !m.modules.empty() ? Recompute::kModules
                : modules.empty()  ? Recompute::kNone
                                   : row.software.selective;
}

}  // namespace

void SetRecomputation(const Fields& f, TrainingRow& row) {
  const std::string recompute = f.Text("recompute");
  const StackRelease& software = row.software;
  const bool modules = f.States("recompute_modules");
  const std::string method = LowerCase(f.Text("recompute_method"));
  // Methods are of whole layers.
  const bool whole = recompute.empty() && !modules && (method == "block" || method == "uniform");
  row.recompute_stated =
      !recompute.empty() || modules || whole || software.recompute != Recompute::kNone;
  row.mapping.recompute = whole ? Recompute::kFull : software.recompute;
  if (recompute.empty() && !modules) {
    if (row.mapping.recompute == Recompute::kModules) SetModules(software.modules, row);
    return;
  }
  const auto said = RecomputeIn(recompute, software.selective);
  if (!recompute.empty()) row.mapping.recompute = said.value_or(software.selective);
  if (said == Recompute::kModules || modules) {
    const RecomputeModules named = ModulesOf(f, said, row);
    if (!named.empty()) SetModules(named, row);
  }
  const int32_t nth = NthLayer(recompute, software.selective == Recompute::kOperators);
  if (said == Recompute::kFull && nth > 2) row.mapping.recomputed_every = nth;
  if (!recompute.empty() && !said && !modules && !SaysRecomputation(f)) {
    NoteUnread(
        fmt::format("recompute '{}' is taken for selective; known are none, selective and full",
                    recompute),
        row);
  }
}

}  // namespace foretrace
