#pragma once
// Which device work a question is about: what-if edits, modelled durations.
//
//   SELECTOR   comma-separated KEY=VALUE, all must hold; empty selects all device work
//     name=REGEX   kernel or operation name (ECMAScript, matched anywhere)
//     kind=KIND    kernel, memcpy, memset, collective, send, recv
//     rank=LIST    0,2 or 4-7
//     comm=REGEX   name of the communicator

#include <cstdint>
#include <optional>
#include <regex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

struct NodeSelector {
  std::optional<std::regex> name;
  std::optional<std::regex> communicator;
  std::optional<NodeKind> kind;
  std::vector<std::pair<int32_t, int32_t>> ranks;  // inclusive ranges; empty: all

  bool SelectsRank(int32_t rank) const;
  // `of_communicator` is empty for nodes that do not communicate.
  bool Selects(const TraceStore& store, const RankTrace& rank, NodeIndex node,
               std::string_view of_communicator) const;
};

// `context` begins the message of an error, such as "--what-if kind=foo:x2".
absl::StatusOr<NodeSelector> ParseSelector(const std::string& context, std::string_view selector);

}  // namespace foretrace
