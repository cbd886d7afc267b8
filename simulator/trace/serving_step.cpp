#include "simulator/trace/serving_step.h"

#include <array>
#include <charconv>
#include <utility>

#include "simulator/base/enum_names.h"

namespace foretrace {
namespace {

// Takes `text` from the front.
bool Take(std::string_view text, std::string_view& from) {
  if (!from.starts_with(text)) return false;
  from.remove_prefix(text.size());
  return true;
}

std::optional<int64_t> TakeCount(std::string_view& from) {
  int64_t count = 0;
  const auto [end, error] = std::from_chars(from.data(), from.data() + from.size(), count);
  if (error != std::errc() || count < 0) return std::nullopt;
  from.remove_prefix(static_cast<size_t>(end - from.data()));
  return count;
}

// "1(512)": the number of requests. In the parentheses stand tokens, and sums of other quantities
// after them, as the release has it ("888_788544").
std::optional<int64_t> TakeRequests(std::string_view& from) {
  const auto requests = TakeCount(from);
  const size_t close = from.find(')');
  if (!requests || !from.starts_with('(') || close == std::string_view::npos) return std::nullopt;
  from.remove_prefix(close + 1);
  return requests;
}

ServingPhase PhaseOf(int64_t prefills, int64_t decodes) {
  if (prefills == 0) return decodes == 0 ? ServingPhase::kIdle : ServingPhase::kDecode;
  return decodes == 0 ? ServingPhase::kPrefill : ServingPhase::kMixed;
}

std::optional<ServingPhase> ParseVllm(std::string_view rest) {
  if (Take("context_", rest)) {
    const auto prefills = TakeRequests(rest);
    if (!prefills || !Take("_generation_", rest)) return std::nullopt;
    const auto decodes = TakeRequests(rest);
    if (!decodes) return std::nullopt;
    return PhaseOf(*prefills, *decodes);
  }
  if (!Take("new_", rest)) return std::nullopt;
  const auto fresh = TakeCount(rest);
  if (!fresh || !Take("_cached_", rest)) return std::nullopt;
  const auto cached = TakeCount(rest);
  if (!cached) return std::nullopt;
  return *cached > 0 ? ServingPhase::kUnstated : PhaseOf(*fresh, 0);
}

std::optional<ServingPhase> ParseSglang(std::string_view rest) {
  static constexpr std::pair<std::string_view, ServingPhase> kModes[] = {
      {"EXTEND", ServingPhase::kPrefill},       {"SPLIT_PREFILL", ServingPhase::kPrefill},
      {"DECODE", ServingPhase::kDecode},        {"MIXED", ServingPhase::kMixed},
      {"TARGET_VERIFY", ServingPhase::kDecode}, {"IDLE", ServingPhase::kIdle},
  };
  const std::string_view mode = rest.substr(0, rest.find(' '));
  rest.remove_prefix(mode.size());
  if (!Take(" bs=", rest) || !TakeCount(rest)) return std::nullopt;
  for (const auto& [text, phase] : kModes) {
    if (mode == text) return phase;
  }
  return std::nullopt;
}

}  // namespace

std::string_view Name(ServingPhase phase) {
  static constexpr std::array<std::string_view, 5> kNames = {"prefill", "decode", "mixed", "idle",
                                                             "not stated"};
  return EnumName(kNames, phase);
}

std::optional<ServingPhase> ParseServingStep(std::string_view name) {
  if (Take("execute_", name)) return ParseVllm(name);
  if (Take("step[", name)) return ParseSglang(name);
  return std::nullopt;
}

std::optional<ServingPhase> PhaseOfStep(const TraceStore& store, int64_t number) {
  const RankTrace& rank = store.ranks()[0];
  for (const IterationMark& mark : rank.iterations()) {
    if (mark.number == number) return ParseServingStep(store.strings().Get(rank.name(mark.node)));
  }
  return std::nullopt;
}

}  // namespace foretrace
