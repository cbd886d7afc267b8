#include "simulator/replay/what_if/node_selector.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"

namespace foretrace {
namespace {

constexpr size_t kLongestExpression = 4096;
constexpr int64_t kExpressionMemory = 8 << 20;

std::optional<NodeKind> ParseKind(std::string_view text) {
  for (const NodeKind kind : {NodeKind::kKernel, NodeKind::kMemcpy, NodeKind::kMemset,
                              NodeKind::kCollective, NodeKind::kSend, NodeKind::kRecv}) {
    if (text == Name(kind)) return kind;
  }
  return std::nullopt;
}

// Up to the next comma outside of double quotes; takes it from `text`.
std::string_view NextPart(std::string_view& text) {
  bool quoted = false;
  size_t at = 0;
  for (; at < text.size() && (quoted || text[at] != ','); ++at) {
    if (text[at] == '"') quoted = !quoted;
  }
  const std::string_view part = text.substr(0, at);
  text = at < text.size() ? text.substr(at + 1) : std::string_view();
  return part;
}

std::string_view Unquoted(std::string_view value) {
  const bool quoted = value.size() >= 2 && value.front() == '"' && value.back() == '"';
  return quoted ? value.substr(1, value.size() - 2) : value;
}

absl::StatusOr<std::shared_ptr<const RE2>> Compile(const std::string& context,
                                                   std::string_view value) {
  if (value.size() > kLongestExpression) {
    return InvalidInput("{}...: a regular expression of {} characters; at most {}",
                        context.substr(0, 60), value.size(), kLongestExpression);
  }
  RE2::Options options(RE2::Quiet);
  options.set_case_sensitive(false);
  options.set_max_mem(kExpressionMemory);
  auto expression =
      std::make_shared<const RE2>(re2::StringPiece(value.data(), value.size()), options);
  if (!expression->ok()) {
    return InvalidInput("{}: not a valid regular expression: {}", context, expression->error());
  }
  return expression;
}

// The keys whose values are regular expressions, and lists of numbers.
std::shared_ptr<const RE2>* ExpressionOf(std::string_view key, NodeSelector& selector) {
  if (key == "name") return &selector.name;
  if (key == "op") return &selector.op;
  if (key == "module") return &selector.module;
  if (key == "comm") return &selector.communicator;
  if (key == "cpu") return &selector.cpu;
  return key == "call" ? &selector.call : nullptr;
}
NumberRanges* RangesOf(std::string_view key, NodeSelector& selector) {
  if (key == "rank") return &selector.ranks;
  if (key == "stream") return &selector.streams;
  return key == "step" ? &selector.steps : nullptr;
}

absl::Status ParseParts(const std::string& context, std::string_view text, NodeSelector& selector) {
  NumberRanges* list = nullptr;  // that the part before belongs to
  std::set<std::string_view> keys;
  while (!text.empty()) {
    const std::string_view part = NextPart(text);
    const size_t equals = part.find('=');
    // "rank=0,2": what follows a number without a key is another number.
    if (list != nullptr && equals == std::string_view::npos && list->Add(part)) continue;
    const std::string_view key = part.substr(0, equals);
    const std::string_view value =
        equals == std::string_view::npos ? std::string_view() : Unquoted(part.substr(equals + 1));
    list = RangesOf(key, selector);
    const bool once = keys.insert(key).second;
    bool understood = list != nullptr && list->Add(value);
    if (std::shared_ptr<const RE2>* expression = ExpressionOf(key, selector)) {
      if (value.empty()) {
        return InvalidInput("{}: \"{}\" is empty, which every name matches; leave it out", context,
                            part);
      }
      FORETRACE_ASSIGN_OR_RETURN(*expression, Compile(context, value));
      understood = true;
    } else if (key == "kind") {
      selector.kind = ParseKind(value);
      understood = selector.kind.has_value();
    } else if (key == "collective") {
      selector.collective = ParseCollectiveOp(value);
      understood = selector.collective != CollectiveOp::kUnknown;
    }
    if (!understood) {
      return InvalidInput(
          "{}: cannot read \"{}\"; expected name=, op=, module=, comm=, cpu= or call=REGEX, "
          "kind=kernel|memcpy|memset|collective|send|recv, "
          "collective=OP, rank=, stream= or step=LIST; a value with commas stands in double quotes",
          context, part);
    }
    if (!once) {
      return InvalidInput(
          "{}: \"{}\" is given twice; all keys must hold, so join lists (rank=0,1) "
          "and expressions (name=a|b)",
          context, key);
    }
  }
  return absl::OkStatus();
}

// Some call or range around the node has a name that matches.
bool AnyAround(const TraceStore& store, const RankTrace& rank, NodeIndex node,
               const RE2& expression) {
  for (NodeIndex at = rank.parent(node); at.valid(); at = rank.parent(at)) {
    if (Matches(expression, store.name(rank, at))) return true;
  }
  return false;
}

}  // namespace

bool NumberRanges::Add(std::string_view text) {
  int64_t low = 0;
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, low);
  if (error != std::errc() || low < 0) return false;
  int64_t high = low;
  if (end != last) {
    if (*end != '-') return false;
    const auto [stop, e] = std::from_chars(end + 1, last, high);
    if (e != std::errc() || stop != last || high < low) return false;
  }
  ranges_.emplace_back(low, high);
  return true;
}

bool NumberRanges::Contains(int64_t number) const {
  return ranges_.empty() || std::any_of(ranges_.begin(), ranges_.end(), [&](const auto& range) {
           return number >= range.first && number <= range.second;
         });
}

bool Matches(const RE2& expression, std::string_view text) {
  return RE2::PartialMatch(re2::StringPiece(text.data(), text.size()), expression);
}

NodeIndex OutermostCall(const RankTrace& rank, NodeIndex node) {
  NodeIndex outermost;
  for (NodeIndex at = rank.parent(node); at.valid(); at = rank.parent(at)) {
    if (rank.kind(at) == NodeKind::kCpuOp) outermost = at;
  }
  return outermost;
}

bool NodeSelector::Selects(const TraceStore& store, const RankTrace& rank, NodeIndex node,
                           std::string_view of_communicator) const {
  if (!SelectsRank(rank.info().rank) || selects_cpu_work()) return false;
  if (kind.has_value() && *kind != rank.kind(node)) return false;
  if (collective.has_value() &&
      (rank.kind(node) != NodeKind::kCollective || rank.collective_op(node) != *collective)) {
    return false;
  }
  if (!streams.empty() && !streams.Contains(rank.lane_at(rank.lane(node)).id)) return false;
  const NodeIndex launcher = rank.launcher(node);
  if (!SelectsStepOf(rank, rank.start(launcher.valid() ? launcher : node))) return false;
  if (communicator != nullptr && !Matches(*communicator, of_communicator)) return false;
  if (name != nullptr && !Matches(*name, store.name(rank, node))) return false;
  if (module != nullptr && !Matches(*module, modules->PathOf(rank, node))) return false;
  return op == nullptr || AnyAround(store, rank, launcher.valid() ? launcher : node, *op);
}

bool NodeSelector::SelectsCall(const TraceStore& store, const RankTrace& rank,
                               NodeIndex node) const {
  if (!SelectsRank(rank.info().rank) || !SelectsStepOf(rank, rank.start(node))) return false;
  if (call != nullptr && !Matches(*call, store.name(rank, node))) return false;
  if (cpu == nullptr) return call != nullptr;
  const NodeIndex outermost = OutermostCall(rank, node);
  return Matches(*cpu, outermost.valid() ? store.name(rank, outermost) : std::string_view());
}

absl::StatusOr<NodeSelector> ParseSelector(const std::string& context, std::string_view selector,
                                           SelectorScope scope) {
  NodeSelector parsed;
  FORETRACE_RETURN_IF_ERROR(ParseParts(context, selector, parsed));
  const bool device = parsed.name != nullptr || parsed.op != nullptr || parsed.module != nullptr ||
                      parsed.communicator != nullptr || parsed.kind.has_value() ||
                      parsed.collective.has_value() || !parsed.streams.empty();
  if (parsed.selects_cpu_work() && (device || scope == SelectorScope::kDeviceWork)) {
    return InvalidInput("{}: cpu= and call= select CPU work{}", context,
                        device ? ", the other keys device work; no work is both"
                               : "; only device work can be meant");
  }
  return parsed;
}

}  // namespace foretrace
