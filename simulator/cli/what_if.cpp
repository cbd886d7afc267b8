#include "simulator/cli/what_if.h"

#include <charconv>
#include <string_view>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/cli/node_selector.h"

namespace foretrace {
namespace {

struct Edit {
  NodeSelector selector;
  enum class Action { kScale, kReplace, kAdd, kDelay } action = Action::kScale;
  double factor = 1;
  SimTime time;
};

class WhatIf : public DurationEdit {
 public:
  explicit WhatIf(std::vector<Edit> edits) : edits_(std::move(edits)) {}

  DurationChange Change(const TraceStore& store, const RankTrace& rank, NodeIndex node,
                        std::string_view communicator) const override {
    DurationChange change;
    for (const Edit& e : edits_) {
      if (e.action == Edit::Action::kDelay ||
          !e.selector.Selects(store, rank, node, communicator)) {
        continue;
      }
      switch (e.action) {
        case Edit::Action::kScale:
          change = {change.factor * e.factor, change.added.ScaledBy(e.factor)};
          break;
        case Edit::Action::kReplace:
          change = {0, e.time};
          break;
        case Edit::Action::kAdd:
          change.added += e.time;
          break;
        case Edit::Action::kDelay:
          break;
      }
    }
    return change;
  }

  SimTime StartDelay(int32_t rank) const override {
    SimTime delay;
    for (const Edit& e : edits_) {
      if (e.action == Edit::Action::kDelay && e.selector.SelectsRank(rank)) delay += e.time;
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
  return InvalidInput(
      "--what-if {}: cannot read the action \"{}\"; expected x0.5, =12us, +3us or "
      "delay=1ms",
      text, action);
}

// Communicators have no names before the job is compiled: any will do here.
bool SelectsSomething(const Edit& edit, const TraceStore& store) {
  NodeSelector anywhere = edit.selector;
  anywhere.communicator.reset();
  for (const RankTrace& rank : store.ranks()) {
    if (!anywhere.SelectsRank(rank.info().rank)) continue;
    if (edit.action == Edit::Action::kDelay) return true;
    for (uint32_t i = 0; i < rank.size(); ++i) {
      const NodeIndex node(i);
      const NodeKind kind = rank.kind(node);
      const bool fits =
          edit.selector.communicator.has_value() ? IsCommunicationKind(kind) : IsDeviceKind(kind);
      if (fits && anywhere.Selects(store, rank, node, "")) return true;
    }
  }
  return false;
}

}  // namespace

absl::StatusOr<std::unique_ptr<DurationEdit>> ParseWhatIf(const std::vector<std::string>& texts,
                                                          const TraceStore& store) {
  std::vector<Edit> edits;
  for (const std::string& text : texts) {
    // Names may hold colons ("nccl:all_reduce"): the action follows the last one.
    const size_t colon = text.rfind(':');
    if (colon == std::string::npos) {
      return InvalidInput("--what-if {}: expected SELECTOR:ACTION, such as kind=collective:x0.5",
                          text);
    }
    Edit edit;
    FORETRACE_ASSIGN_OR_RETURN(
        edit.selector, ParseSelector("--what-if " + text, std::string_view(text).substr(0, colon)));
    FORETRACE_RETURN_IF_ERROR(ParseAction(text, std::string_view(text).substr(colon + 1), edit));
    if (!SelectsSomething(edit, store)) {
      return InvalidInput(
          "--what-if {}: selects nothing in these traces; `foretrace inspect` lists "
          "their ranks, kernels and communicators",
          text);
    }
    edits.push_back(std::move(edit));
  }
  if (edits.empty()) return std::unique_ptr<DurationEdit>();
  return std::unique_ptr<DurationEdit>(std::make_unique<WhatIf>(std::move(edits)));
}

}  // namespace foretrace
