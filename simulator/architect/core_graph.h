#pragma once
// A layer as operators on the cores of one accelerator (Wang et al., ICML 2024, section 4).

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/base/time.h"

namespace foretrace {

// A fused operator takes one pair of a tensor and a vector core.
enum class CoreClass : uint8_t { kTensor, kVector, kFused, kCount };
std::string_view Name(CoreClass core);

struct CoreOp {
  std::string name;
  CoreClass core = CoreClass::kCount;
  SimTime one;  // on one core (or pair)
  SimTime all;  // on all of them, while nothing else runs
};

struct CoreGraph {
  std::vector<CoreOp> ops;
  std::vector<std::pair<int32_t, int32_t>> edges;  // from, to
};

// Tensor core c and vector core c are a pair.
struct CoreCounts {
  int32_t tensor = 1;
  int32_t vector = 1;
};

struct ScheduledOp {
  SimTime start;
  SimTime end;
  bool on_all = false;
  int32_t core = -1;  // where not on all; a fused operator's is the pair
};

struct CoreSchedule {
  std::vector<ScheduledOp> ops;
  SimTime makespan;
  SimTime bound;  // no schedule is shorter
  int64_t nodes = 0;

  bool optimal() const { return makespan == bound; }
};

// `core` is kTensor or kVector.
inline bool Uses(const CoreOp& op, CoreClass core) {
  return op.core == core || op.core == CoreClass::kFused;
}
// Whether running on all cores can pay: it excludes everything else.
inline bool MayRunOnAll(const CoreOp& op) { return op.all < op.one; }
inline SimTime Shortest(const CoreOp& op) { return op.all < op.one ? op.all : op.one; }

// Operators in a topological order. Errors: a cycle (the message names an operator on it), an edge
// to nowhere, an operator without a class, negative times.
absl::StatusOr<std::vector<int32_t>> CheckedOrder(const CoreGraph& graph);

// Which operators each has a path to. `order` is topological.
std::vector<std::vector<bool>> Reachable(const std::vector<std::pair<int32_t, int32_t>>& edges,
                                         const std::vector<int32_t>& order);

// How many of the operators `chosen` can run at once: the largest set without a path between two of
// them (Dilworth: their number less a maximum matching of the paths). `order` is topological.
int32_t Concurrency(const std::vector<std::pair<int32_t, int32_t>>& edges,
                    const std::vector<int32_t>& order, const std::vector<bool>& chosen);
// Of the operators on tensor and on vector cores.
CoreCounts Concurrency(const CoreGraph& graph, const std::vector<int32_t>& order);

// Dependencies, exclusive operators and cores: what `schedule` violates, in words; empty: nothing.
std::string ViolationIn(const CoreGraph& graph, const CoreCounts& cores,
                        const CoreSchedule& schedule);

}  // namespace foretrace
