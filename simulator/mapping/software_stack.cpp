#include "simulator/mapping/software_stack.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <string>

#include "simulator/base/check.h"
#include "simulator/base/contains.h"
#include "simulator/base/enum_names.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/base/yaml_reader.h"

namespace foretrace {
namespace {

struct Flag {
  std::string_view key;
  bool StackRelease::*target;
};
constexpr Flag kFlags[] = {{"with_experts", &StackRelease::with_experts},
                           {"fused_attention", &StackRelease::fused_attention},
                           {"fused_pointwise", &StackRelease::fused_pointwise},
                           {"fused_accumulation", &StackRelease::fused_accumulation},
                           {"blocking_transfers", &StackRelease::blocking_transfers},
                           {"transfers_in_turn", &StackRelease::transfers_in_turn},
                           {"whole_gradient_messages", &StackRelease::whole_gradient_messages},
                           {"blocking_chunks", &StackRelease::blocking_chunks},
                           {"ring_attention", &StackRelease::ring_attention},
                           {"gathers_ahead", &StackRelease::gathers_ahead},
                           {"gathers_twice", &StackRelease::gathers_twice},
                           {"per_parameter_sharding", &StackRelease::per_parameter_sharding},
                           {"flat_parameters", &StackRelease::flat_parameters},
                           {"pipelines_keep_weights", &StackRelease::pipelines_keep_weights},
                           {"dynamic_scaling", &StackRelease::dynamic_scaling},
                           {"promotes_forward", &StackRelease::promotes_forward},
                           {"casts_before_gathers", &StackRelease::casts_before_gathers},
                           {"reduces_scales", &StackRelease::reduces_scales},
                           {"scales_gradients", &StackRelease::scales_gradients},
                           {"checks_gradients", &StackRelease::checks_gradients},
                           {"whole_reductions", &StackRelease::whole_reductions},
                           {"gathers_after_update", &StackRelease::gathers_after_update},
                           {"gathers_masters", &StackRelease::gathers_masters},
                           {"reduces_copies_last", &StackRelease::reduces_copies_last},
                           {"pageable_inputs", &StackRelease::pageable_inputs},
                           {"divides_on_host", &StackRelease::divides_on_host},
                           {"dropout", &StackRelease::dropout},
                           {"sequence_parallel", &StackRelease::sequence_parallel},
                           {"overlap_tensor", &StackRelease::overlap_tensor},
                           {"balance_loss", &StackRelease::balance_loss},
                           {"chunked_tensor", &StackRelease::chunked_tensor},
                           {"dispatch_fp8", &StackRelease::dispatch_fp8},
                           {"overlap_experts", &StackRelease::overlap_experts},
                           {"keeps_fp8", &StackRelease::keeps_eight},
                           {"weighs_activations", &StackRelease::weighs_activations},
                           {"dual_pipe", &StackRelease::dual_pipe},
                           {"overlap_gradients", &StackRelease::overlap_gradients},
                           {"compiled_loss", &StackRelease::compiled_loss},
                           {"gradient_placeholders", &StackRelease::gradient_placeholders},
                           {"eager", &StackRelease::eager},
                           {"further_tokens", &StackRelease::further_tokens},
                           {"offloads_layers", &StackRelease::offloads_layers},
                           {"spares_last_chunk", &StackRelease::spares_last_chunk},
                           {"expandable_segments", &StackRelease::expandable_segments},
                           {"prints_reserved", &StackRelease::prints_reserved},
                           {"separate_gemms", &StackRelease::separate_gemms},
                           {"complex_rotary", &StackRelease::complex_rotary},
                           {"repeats_keys", &StackRelease::repeats_keys},
                           {"copies_groups", &StackRelease::copies_groups},
                           {"fused_norms", &StackRelease::fused_norms},
                           {"summed_norms", &StackRelease::summed_norms},
                           {"wide_merges", &StackRelease::wide_merges},
                           {"sequential_experts", &StackRelease::sequential_experts},
                           {"asks_for_splits", &StackRelease::asks_for_splits},
                           {"looped_experts", &StackRelease::looped_experts},
                           {"padded_experts", &StackRelease::padded_experts},
                           {"stepwise_choices", &StackRelease::stepwise_choices},
                           {"stepwise_expert_biases", &StackRelease::stepwise_expert_biases},
                           {"copies_heads", &StackRelease::copies_heads},
                           {"stepwise_gelu", &StackRelease::stepwise_gelu},
                           {"separate_bias", &StackRelease::separate_bias},
                           {"separate_dropout", &StackRelease::separate_dropout},
                           {"fused_optimizer", &StackRelease::fused_optimizer}};

void CheckKeys(const YamlReader& in) {
  static constexpr std::string_view kValues[] = {"since",
                                                 "source",
                                                 "models",
                                                 "devices",
                                                 "as_all",
                                                 "attention_slowdown",
                                                 "attention_slowdown_depth",
                                                 "grouped_experts",
                                                 "fused_experts",
                                                 "shards",
                                                 "zero",
                                                 "overlap_from",
                                                 "sums_whole",
                                                 "selective",
                                                 "recompute",
                                                 "some_layers",
                                                 "packed_document",
                                                 "loss",
                                                 "token_ns",
                                                 "gradient_bits",
                                                 "divided_gradient_bits",
                                                 "recorded_losses",
                                                 "vocabulary_multiple",
                                                 "dispatch",
                                                 "score_steps",
                                                 "reuse_distance",
                                                 "pipeline_batches",
                                                 "moment_bits",
                                                 "adapter_loss",
                                                 "cpu_us"};
  std::vector<std::string_view> keys(std::begin(kValues), std::end(kValues));
  for (const Flag& flag : kFlags) keys.push_back(flag.key);
  in.ExpectKeys(keys);
}

CpuCosts ReadCpuCosts(const YamlReader& in) {
  CpuCosts cpu;
  std::vector<std::string_view> keys;
  for (const auto& [key, cost] : CpuCosts::Parts()) {
    keys.push_back(key);
    cpu.*cost = SimTime::FromUs(in.Number(key, 0, 1e6, 0));
  }
  in.ExpectKeys(keys);
  return cpu;
}

// Names of a list, where there is one.
template <typename Function>
void ReadNames(const YamlReader& in, const char* key, std::vector<std::string>& names,
               const Function& plain) {
  if (!in.Has(key)) return;
  names.clear();
  for (const YamlReader& name : in.Child(key).Items()) names.push_back(plain(name.AsString()));
}

// "none", "selective", "full", "light", or modules as Megatron Core names them
// ("mla_up_proj+moe_act").
void ReadRecompute(const YamlReader& in, StackRelease& r) {
  if (!in.Has("recompute")) return;
  static constexpr std::array<std::string_view, 4> kRecompute = {"none", "selective", "full",
                                                                 "light"};
  static constexpr Recompute kMeant[] = {Recompute::kNone, Recompute::kSelective, Recompute::kFull,
                                         Recompute::kLight};
  r.modules = RecomputeModules();
  const std::string said = in.String("recompute");
  if (const auto modules = ParseRecomputeModules(said)) {
    r.modules = *modules;
    r.recompute = Recompute::kModules;
    return;
  }
  r.recompute = kMeant[in.Choice("recompute", kRecompute)];
}

// `all`: the last release before that is for all; null: there is none.
StackRelease ReadRelease(const YamlReader& in, const StackRelease* all) {
  CheckKeys(in);
  StackRelease r;
  if (in.Bool("as_all", false)) {
    if (all == nullptr) in.Fail("as_all", "no release before is for all");
    if (all != nullptr) r = *all;
  }
  r.since = in.String("since", "");
  r.source = in.String("source");
  const auto as_is = [](const std::string& name) { return name; };
  ReadNames(in, "models", r.models, PlainName);
  ReadNames(in, "devices", r.devices, as_is);
  for (const Flag& flag : kFlags) r.*flag.target = in.Bool(flag.key, r.*flag.target);
  if (in.Has("attention_slowdown")) {
    for (const auto& [chip, slowdown] : in.Child("attention_slowdown").Entries()) {
      r.attention_slowdown[chip] = slowdown.AsNumber(0.5, 10);
    }
  }
  ReadNames(in, "grouped_experts", r.grouped_expert_chips, as_is);
  ReadNames(in, "fused_experts", r.fused_expert_chips, as_is);
  r.attention_slowdown_depth =
      in.Integer("attention_slowdown_depth", 1, 1024, r.attention_slowdown_depth);
  r.recorded_losses = in.Integer("recorded_losses", 1, 16, r.recorded_losses);
  r.reuse_distance = in.Integer("reuse_distance", 1, 2'000'000'000, r.reuse_distance);
  r.score_steps = in.Integer("score_steps", 1, 16, r.score_steps);
  r.vocabulary_multiple = in.Integer("vocabulary_multiple", 1, 1 << 16, r.vocabulary_multiple);
  ReadRecompute(in, r);
  r.packed_document = in.Integer("packed_document", 1, 1 << 20, r.packed_document);
  if (in.Has("token_ns")) {
    r.token_preparation = SimTime::FromUs(1e-3 * in.Integer("token_ns", 1, 1 << 20, 0));
  }
  if (in.Has("cpu_us")) r.cpu = ReadCpuCosts(in.Child("cpu_us"));
  static constexpr int32_t kGradientBits[] = {16, 32}, kMomentBits[] = {8, 16};
  r.gradient_bits = in.OneOf("gradient_bits", kGradientBits, r.gradient_bits);
  r.divided_gradient_bits =
      in.OneOf("divided_gradient_bits", kGradientBits, r.divided_gradient_bits);
  r.moment_bits = in.OneOf("moment_bits", kMomentBits, r.moment_bits);
  r.zero = in.Integer("zero", 0, 3, r.zero);
  r.sums_whole = in.Integer("sums_whole", 1, 2, r.sums_whole);
  r.overlap_from = in.Integer("overlap_from", 1, 3, r.overlap_from);
  r.shards = in.Integer("shards", 2, 1 << 20, r.shards);
  static constexpr std::array<std::string_view, 3> kSelective = {"attention", "operators",
                                                                 "layers"};
  if (in.Has("selective")) {
    constexpr Recompute kForms[] = {Recompute::kSelective, Recompute::kOperators, Recompute::kFull};
    r.selective = kForms[static_cast<size_t>(in.Choice("selective", kSelective))];
  }
  static constexpr std::array<std::string_view, 3> kSome = {"none", "first", "every"};
  if (in.Has("some_layers")) {
    r.some_layers = static_cast<SomeLayers>(in.Choice("some_layers", kSome));
  }
  static constexpr std::array<std::string_view, 4> kBatches = {"as_stated", "stages", "chunks",
                                                               "samples"};
  if (in.Has("pipeline_batches")) {
    r.pipeline_batches = static_cast<PipelineBatches>(in.Choice("pipeline_batches", kBatches));
  }
  if (in.Has("dispatch")) {
    r.dispatch = static_cast<ExpertDispatch>(in.Choice("dispatch", EnumNames<ExpertDispatch>()));
  }
  static constexpr std::array<std::string_view, 5> kLoss = {"in_place", "compiled_in_place",
                                                            "overwritten", "stepwise", "fused"};
  if (in.Has("loss")) r.loss = static_cast<LossForm>(in.Choice("loss", kLoss));
  if (in.Has("adapter_loss")) {
    r.adapter_loss = static_cast<LossForm>(in.Choice("adapter_loss", kLoss));
  }
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

namespace {

// "v25.02.01", "25.02.01" and "2025-02.01" alike; "v25" as "2025".
std::string AsDate(const std::string& release) {
  const std::string text = release.starts_with('v') ? release.substr(1) : release;
  const auto digit = [&](size_t i) { return i < text.size() && text[i] >= '0' && text[i] <= '9'; };
  if (!digit(0) || !digit(1) || (text.size() > 2 && text[2] != '.')) return release;
  return "20" + text.substr(0, 2) + (text.size() > 3 ? "-" + text.substr(3) : "");
}

bool IsNumber(const std::string& word) { return word[0] >= '0' && word[0] <= '9'; }

// A number of one or two digits from 1 to `most`, else 0.
int SmallNumber(const std::string& word, int most) {
  const int value = IsNumber(word) && word.size() <= 2 ? std::stoi(word) : 0;
  return value <= most ? value : 0;
}

// January to December by number or by name ("mar", "sept", "march"), else 0.
int MonthIn(const std::string& word) {
  static constexpr std::array<std::string_view, 12> kMonths = {
      "january", "february", "march",     "april",   "may",      "june",
      "july",    "august",   "september", "october", "november", "december"};
  if (IsNumber(word)) return SmallNumber(word, 12);
  const auto month = std::ranges::find_if(
      kMonths, [&](std::string_view name) { return word.size() >= 3 && name.starts_with(word); });
  return month == kMonths.end() ? 0 : static_cast<int>(month - kMonths.begin()) + 1;
}

// Runs of digits, and runs of letters in lower case.
std::vector<std::string> WordsAndNumbers(const std::string& text) {
  std::vector<std::string> words;
  int before = 0;
  for (const char c : LowerCase(text)) {
    const int kind = c >= '0' && c <= '9' ? 1 : c >= 'a' && c <= 'z' ? 2 : 0;
    if (kind != 0 && kind != before) words.emplace_back();
    if (kind != 0) words.back().push_back(c);
    before = kind;
  }
  return words;
}

// "v25.03", "25.03.1", of which AsDate makes a date.
bool IsVersionByDate(const std::string& text, std::span<const std::string> words) {
  if (!words.empty() && words[0] == "v") words = words.subspan(1);
  if (words.empty() || words[0].size() != 2 || AsDate(text) == text) return false;
  return words.size() == 1 || MonthIn(words[1]) > 0;
}

// "20250601" and "202506" as a date; empty: the word is neither.
std::string CompactDate(const std::string& word) {
  if (!IsNumber(word) || !word.starts_with("20") || MonthIn(word.substr(4, 2)) == 0) return "";
  const std::string month = word.substr(0, 4) + "-" + word.substr(4, 2);
  if (word.size() == 6) return month;
  return SmallNumber(word.substr(6), 31) > 0 ? month + "-" + word.substr(6) : "";
}

// The month of the two words before a year: "3 March", "March 3", "13/04"; 0: nobody knows, as of
// "03/04", or they are something else, as "Q4" and "week 2".
int MonthBesideDay(const std::string& first, const std::string& second) {
  const int a = MonthIn(first), b = MonthIn(second);
  const bool may_be_first = a > 0 && SmallNumber(second, 31) > 0;
  const bool may_be_second = b > 0 && SmallNumber(first, 31) > 0;
  if (may_be_first && may_be_second) return a == b ? a : 0;
  return may_be_first ? a : may_be_second ? b : 0;
}

// As dates of models and devices are written, with which it is compared.
bool IsPlainDate(const std::string& text) {
  return ReleaseDate(text) == text && AsDate(text) == text;
}

}  // namespace

std::string ReleaseDate(const std::string& text) {
  const std::vector<std::string> words = WordsAndNumbers(text);
  for (const std::string& word : words) {
    if (word.size() != 6 && word.size() != 8) continue;
    if (std::string date = CompactDate(word); !date.empty()) return date;
  }
  const auto year = std::ranges::find_if(words, [](const std::string& word) {
    return word.size() == 4 && word.starts_with("20") && IsNumber(word);
  });
  if (year == words.end()) return IsVersionByDate(text, words) ? text : "";
  if (words.size() == 1) return *year;
  const auto in_year = [&](int month) {
    return month > 0 ? fmt::format("{}-{:02}", *year, month) : "";
  };
  if (year == words.begin()) {
    const std::string date = in_year(MonthIn(words[1]));
    const int day = words.size() > 2 ? SmallNumber(words[2], 31) : 0;
    return date.empty() || day == 0 ? date : date + fmt::format("-{:02}", day);
  }
  if (year == words.begin() + 1) return in_year(MonthIn(words[0]));
  return year == words.begin() + 2 ? in_year(MonthBesideDay(words[0], words[1])) : "";
}

bool StackRelease::IsFor(const StackRun& run) const {
  const auto begins = [](const std::vector<std::string>& beginnings, const std::string& name) {
    return beginnings.empty() || std::ranges::any_of(beginnings, [&](const std::string& beginning) {
             return name.starts_with(beginning);
           });
  };
  return (!with_experts || run.experts) && begins(models, PlainName(run.model)) &&
         begins(devices, run.device);
}

const StackRelease& SoftwareStack::At(const std::string& date, const StackRun& run) const {
  FORETRACE_CHECK(!releases.empty());
  const std::string of = AsDate(date.empty() ? undated : date);
  const StackRelease* found = &releases.front();
  for (const StackRelease& release : releases) {
    if (!of.empty() && AsDate(release.since) <= of && release.IsFor(run)) found = &release;
  }
  return *found;
}

absl::StatusOr<SoftwareStack> LoadSoftwareStack(const std::string& file) {
  FORETRACE_ASSIGN_OR_RETURN(const YamlReader root, ReadYamlFile(file));
  static constexpr std::array<std::string_view, 9> kKeys = {
      "name",    "frameworks", "releases",  "undated",       "experts_since",
      "generic", "specific",   "with_zero", "model_parallel"};
  root.ExpectKeys(kKeys);
  SoftwareStack stack;
  stack.name = root.String("name");
  stack.undated = root.String("undated", "");
  stack.experts_since = root.String("experts_since", "");
  for (const auto& [key, date] :
       {std::pair("undated", &stack.undated), std::pair("experts_since", &stack.experts_since)}) {
    if (date->empty() || IsPlainDate(*date)) continue;
    root.Fail(key, "no date ('2025', '2025-04', '2025-04-11')");
  }
  stack.generic = root.Bool("generic", false);
  stack.specific = root.Bool("specific", false);
  stack.model_parallel = root.String("model_parallel", "");
  const auto words = [&](const char* key, std::vector<std::string>& read) {
    for (const YamlReader& word : root.Child(key).Items()) {
      read.push_back(LowerCase(word.AsString()));
    }
  };
  if (root.Has("with_zero")) words("with_zero", stack.with_zero);
  if (root.Has("frameworks") || stack.with_zero.empty()) words("frameworks", stack.frameworks);
  for (const YamlReader& item : root.Child("releases").Items()) {
    const auto all = std::find_if(stack.releases.rbegin(), stack.releases.rend(),
                                  [](const StackRelease& r) { return r.for_all(); });
    StackRelease read = ReadRelease(item, all == stack.releases.rend() ? nullptr : &*all);
    const bool first = stack.releases.empty();
    if (first && !read.for_all()) {
      item.Fail("models", "the first release must be for all models and devices");
    }
    const std::string before = first ? "" : stack.releases.back().since;
    if (!first && (before > read.since || (before == read.since && read.for_all()))) {
      item.Fail("since", "releases must be in order");
    }
    stack.releases.push_back(std::move(read));
  }
  FORETRACE_RETURN_IF_ERROR(root.status());
  if (stack.releases.empty() || (stack.frameworks.empty() && stack.with_zero.empty())) {
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

const SoftwareStack* FindStack(std::span<const SoftwareStack> stacks, const std::string& framework,
                               const std::string& sharding) {
  const std::string name = LowerCase(framework), divides = LowerCase(sharding) + " " + name;
  // FULL_SHARD is also called ZeRO-3, by PyTorch itself.
  const bool zero = !ContainsAny(divides, {"fsdp"}) && ContainsAny(divides, {"zero", "deepspeed"});
  const auto rank = [](const SoftwareStack& stack) {
    return stack.specific ? 0 : stack.generic ? 2 : 1;
  };
  const auto look = [&](int wanted, std::vector<std::string> SoftwareStack::*words) {
    const SoftwareStack* found = nullptr;
    size_t first = name.size(), longest = 0;
    for (const SoftwareStack& stack : stacks) {
      if (rank(stack) != wanted) continue;
      for (const std::string& word : stack.*words) {
        const size_t at = name.find(word);
        if (at > first || (at == first && word.size() <= longest)) continue;
        first = at;
        longest = word.size();
        found = &stack;
      }
    }
    return found;
  };
  for (const int wanted : {0, 1, 2}) {
    const SoftwareStack* found = look(wanted, &SoftwareStack::frameworks);
    if (found == nullptr && zero) found = look(wanted, &SoftwareStack::with_zero);
    if (found != nullptr) return found;
  }
  return nullptr;
}

const SoftwareStack* ForModelParallel(std::span<const SoftwareStack> stacks,
                                      const SoftwareStack* stack) {
  if (stack->model_parallel.empty()) return stack;
  const auto other = std::ranges::find(stacks, stack->model_parallel, &SoftwareStack::name);
  return other == stacks.end() ? stack : &*other;
}

}  // namespace foretrace
