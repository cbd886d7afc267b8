#include "simulator/cli/node_selector.h"

#include <charconv>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"

namespace foretrace {
namespace {

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

std::optional<NodeKind> ParseKind(std::string_view text) {
  for (const NodeKind kind : {NodeKind::kKernel, NodeKind::kMemcpy, NodeKind::kMemset,
                              NodeKind::kCollective, NodeKind::kSend, NodeKind::kRecv}) {
    if (text == Name(kind)) return kind;
  }
  return std::nullopt;
}

absl::Status ParseParts(const std::string& context, std::string_view text, NodeSelector& selector) {
  bool in_ranks = false;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    const std::string_view part = text.substr(0, comma);
    text = comma == std::string_view::npos ? "" : text.substr(comma + 1);
    const size_t equals = part.find('=');
    const std::string_view key = part.substr(0, equals);
    const std::string_view value =
        equals == std::string_view::npos ? std::string_view() : part.substr(equals + 1);
    // "rank=0,2": what follows a rank without a key is another rank.
    if (in_ranks && equals == std::string_view::npos && ParseRanges(part, selector.ranks)) continue;
    in_ranks = key == "rank";
    if (key == "name" || key == "comm") {
      (key == "name" ? selector.name : selector.communicator)
          .emplace(std::string(value), std::regex::optimize);
      continue;
    }
    if (key == "rank" && ParseRanges(value, selector.ranks)) continue;
    if (key == "kind" && (selector.kind = ParseKind(value)).has_value()) continue;
    return InvalidInput(
        "{}: cannot read \"{}\"; expected name=REGEX, kind=KIND, rank=0-3 or "
        "comm=REGEX",
        context, part);
  }
  return absl::OkStatus();
}

}  // namespace

bool NodeSelector::SelectsRank(int32_t rank) const {
  if (ranks.empty()) return true;
  for (const auto& [low, high] : ranks) {
    if (rank >= low && rank <= high) return true;
  }
  return false;
}

bool NodeSelector::Selects(const TraceStore& store, const RankTrace& rank, NodeIndex node,
                           std::string_view of_communicator) const {
  if (!SelectsRank(rank.info().rank)) return false;
  if (kind.has_value() && *kind != rank.kind(node)) return false;
  if (communicator.has_value() &&
      !std::regex_search(of_communicator.begin(), of_communicator.end(), *communicator)) {
    return false;
  }
  const std::string_view of_node = store.name(rank, node);
  return !name.has_value() || std::regex_search(of_node.begin(), of_node.end(), *name);
}

absl::StatusOr<NodeSelector> ParseSelector(const std::string& context, std::string_view selector) {
  NodeSelector parsed;
  try {
    FORETRACE_RETURN_IF_ERROR(ParseParts(context, selector, parsed));
  } catch (const std::regex_error&) {
    return InvalidInput("{}: not a valid regular expression", context);
  }
  return parsed;
}

}  // namespace foretrace
