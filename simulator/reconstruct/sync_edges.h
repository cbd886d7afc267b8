#pragma once
// What waits for what inside a rank, and which rule says so.

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "simulator/base/ids.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

enum class SyncRule : uint8_t {
  kEventId,             // the recording names the event or stream
  kDataDependency,      // tensor ids of the execution trace
  kDeclaredDependency,  // dependency between device nodes in the file
  kCollectiveInput,     // a collective follows the tail of the current stream at its launch
  kCollectiveWait,      // a stream wait outside the collective's own range is its wait()
  kStreamHandOff,       // a stream wait where the current stream changes follows the stream left
  kBlockingLastStream,  // a blocking call without a named stream targets the stream used last
  kEarlierEvent,        // a wait on what a stream held at an earlier point of the program
  kGraphBranch,         // streams of one graph, and what follows its launch
  kCount,
};
std::string_view Name(SyncRule rule);

struct SyncEdge {
  NodeIndex consumer;  // device node; or the blocking runtime call
  NodeIndex producer;  // device node that must have ended
  SyncRule rule = SyncRule::kEventId;
};

// By consumer, then producer; one rule for each pair, the first in the enum's order.
void SortEdges(std::vector<SyncEdge>& edges);

// Of sorted edges those of one consumer.
inline std::span<const SyncEdge> EdgesOf(const std::vector<SyncEdge>& edges, NodeIndex consumer) {
  const auto first =
      std::lower_bound(edges.begin(), edges.end(), consumer,
                       [](const SyncEdge& e, NodeIndex n) { return e.consumer < n; });
  auto last = first;
  while (last != edges.end() && last->consumer == consumer) ++last;
  return {first, last};
}

}  // namespace foretrace
