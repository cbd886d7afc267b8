#include "simulator/cli/what_if.h"

#include <charconv>
#include <optional>
#include <regex>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"

namespace foretrace {
namespace {

struct Edit {
  std::optional<std::regex> name;
  std::optional<std::regex> communicator;
  std::optional<NodeKind> kind;
  std::vector<std::pair<int32_t, int32_t>> ranks;  // inclusive ranges; empty: all
  enum class Action { kScale, kReplace, kAdd, kDelay } action = Action::kScale;
  double factor = 1;
  SimTime time;

  bool SelectsRank(int32_t rank) const {
    if (ranks.empty()) return true;
    for (const auto& [low, high] : ranks) {
      if (rank >= low && rank <= high) return true;
    }
    return false;
  }
};

class WhatIf : public DurationEdit {
 public:
  explicit WhatIf(std::vector<Edit> edits) : edits_(std::move(edits)) {}

  DurationChange Change(const TraceStore& store, const RankTrace& rank, NodeIndex node,
                        std::string_view communicator) const override {
    DurationChange change;
    for (const Edit& e : edits_) {
      if (e.action == Edit::Action::kDelay || !e.SelectsRank(rank.info().rank)) continue;
      if (e.kind.has_value() && *e.kind != rank.kind(node)) continue;
      if (e.communicator.has_value() &&
          !std::regex_search(communicator.begin(), communicator.end(), *e.communicator)) {
        continue;
      }
      const std::string_view name = store.name(rank, node);
      if (e.name.has_value() && !std::regex_search(name.begin(), name.end(), *e.name)) continue;
      switch (e.action) {
        case Edit::Action::kScale:
          change = {change.factor * e.factor, change.added.ScaledBy(e.factor)};
          break;
        case Edit::Action::kReplace: change = {0, e.time}; break;
        case Edit::Action::kAdd: change.added += e.time; break;
        case Edit::Action::kDelay: break;
      }
    }
    return change;
  }

  SimTime StartDelay(int32_t rank) const override {
    SimTime delay;
    for (const Edit& e : edits_) {
      if (e.action == Edit::Action::kDelay && e.SelectsRank(rank)) delay += e.time;
    }
    return delay;
  }

 private:
  std::vector<Edit> edits_;
};

bool ParseNumber(std::string_view text, double& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value >= 0 && value < 1e12;
}

bool ParseTime(std::string_view text, SimTime& time) {
  static constexpr std::pair<std::string_view, double> kUnits[] = {
      {"us", 1.0}, {"ms", 1e3}, {"s", 1e6}};
  for (const auto& [unit, microseconds] : kUnits) {
    double value = 0;
    if (!text.ends_with(unit) || !ParseNumber(text.substr(0, text.size() - unit.size()), value)) {
      continue;
    }
    time = SimTime::FromUs(value * microseconds);
    return true;
  }
  return false;
}

bool ParseRanges(std::string_view text, std::vector<std::pair<int32_t, int32_t>>& ranges) {
  int32_t low = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), low);
  if (error != std::errc()) return false;
  int32_t high = low;
  if (end != text.data() + text.size()) {
    if (*end != '-') return false;
    const auto [last, e] = std::from_chars(end + 1, text.data() + text.size(), high);
    if (e != std::errc() || last != text.data() + text.size() || high < low) return false;
  }
  ranges.push_back({low, high});
  return true;
}

absl::Status ParseSelector(const std::string& text, std::string_view selector, Edit& edit) {
  bool in_ranks = false;
  while (!selector.empty()) {
    const size_t comma = selector.find(',');
    const std::string_view part = selector.substr(0, comma);
    selector = comma == std::string_view::npos ? "" : selector.substr(comma + 1);
    const size_t equals = part.find('=');
    const std::string_view key = part.substr(0, equals);
    const std::string_view value =
        equals == std::string_view::npos ? std::string_view() : part.substr(equals + 1);
    // "rank=0,2": what follows a rank without a key is another rank.
    if (in_ranks && equals == std::string_view::npos && ParseRanges(part, edit.ranks)) continue;
    in_ranks = key == "rank";
    if (key == "name" || key == "comm") {
      (key == "name" ? edit.name : edit.communicator)
          .emplace(std::string(value), std::regex::optimize);
      continue;
    }
    bool ok = false;
    if (key == "rank") ok = ParseRanges(value, edit.ranks);
    if (key == "kind") {
      for (const NodeKind kind : {NodeKind::kKernel, NodeKind::kMemcpy, NodeKind::kMemset,
                                  NodeKind::kCollective, NodeKind::kSend, NodeKind::kRecv}) {
        if (value == Name(kind)) {
          edit.kind = kind;
          ok = true;
        }
      }
    }
    if (!ok) {
      return InvalidInput("--what-if {}: cannot read \"{}\"; expected name=REGEX, kind=KIND, "
                          "rank=0-3 or comm=REGEX", text, part);
    }
  }
  return absl::OkStatus();
}

absl::Status ParseAction(const std::string& text, std::string_view action, Edit& edit) {
  bool ok = false;
  if (action.starts_with("x")) {
    edit.action = Edit::Action::kScale;
    ok = ParseNumber(action.substr(1), edit.factor);
  } else if (action.starts_with("=")) {
    edit.action = Edit::Action::kReplace;
    ok = ParseTime(action.substr(1), edit.time);
  } else if (action.starts_with("+")) {
    edit.action = Edit::Action::kAdd;
    ok = ParseTime(action.substr(1), edit.time);
  } else if (action.starts_with("delay=")) {
    edit.action = Edit::Action::kDelay;
    ok = ParseTime(action.substr(6), edit.time);
  }
  if (ok) return absl::OkStatus();
  return InvalidInput("--what-if {}: cannot read the action \"{}\"; expected x0.5, =12us, +3us or "
                      "delay=1ms", text, action);
}

}  // namespace

absl::StatusOr<std::unique_ptr<DurationEdit>> ParseWhatIf(const std::vector<std::string>& texts) {
  std::vector<Edit> edits;
  for (const std::string& text : texts) {
    // Names may hold colons ("nccl:all_reduce"): the action follows the last one.
    const size_t colon = text.rfind(':');
    if (colon == std::string::npos) {
      return InvalidInput("--what-if {}: expected SELECTOR:ACTION, such as kind=collective:x0.5",
                          text);
    }
    Edit edit;
    try {
      FORETRACE_RETURN_IF_ERROR(ParseSelector(text, std::string_view(text).substr(0, colon), edit));
    } catch (const std::regex_error&) {
      return InvalidInput("--what-if {}: not a valid regular expression", text);
    }
    FORETRACE_RETURN_IF_ERROR(ParseAction(text, std::string_view(text).substr(colon + 1), edit));
    edits.push_back(std::move(edit));
  }
  if (edits.empty()) return std::unique_ptr<DurationEdit>();
  return std::unique_ptr<DurationEdit>(std::make_unique<WhatIf>(std::move(edits)));
}

}  // namespace foretrace
