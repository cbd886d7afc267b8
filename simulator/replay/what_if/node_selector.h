#pragma once
// Which work a question is about: what-if edits, modelled durations.
//
//   SELECTOR   comma-separated KEY=VALUE, all must hold, each key once; empty selects all device
//   work device work
//     name=REGEX        kernel or operation name
//     op=REGEX          name of a framework call or range around its launch
//     module=REGEX      modules around its launch, or for backward work around its forward call,
//                       as Outer_0.Inner_2 (recorded with_modules)
//     kind=KIND         kernel, memcpy, memset, collective, send, recv
//     collective=OP     all_reduce, all_to_all, ...
//     comm=REGEX        name of the communicator
//     stream=LIST       0,7 or 20-23
//   CPU work
//     cpu=REGEX         overhead of the framework calls (outermost ones) of that name, with their
//                       launches
//     call=REGEX        runtime calls by name: cudaLaunchKernel, cudaStreamSynchronize
//   both
//     rank=LIST         0,2 or 4-7
//     step=LIST         numbers of iterations
//   REGEX follows RE2, matches anywhere and in any case ((?-i) minds it). A value that holds commas
//   stands in double quotes: name="elementwise_kernel<128, 4>".

#include <re2/re2.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/replay/attribution/module_map.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

// Inclusive ranges; empty: everything.
class NumberRanges {
 public:
  bool Add(std::string_view text);  // "3" or "4-7"; false when it is neither
  bool Contains(int64_t number) const;
  bool empty() const { return ranges_.empty(); }

 private:
  std::vector<std::pair<int64_t, int64_t>> ranges_;
};

struct NodeSelector {
  std::shared_ptr<const RE2> name, op, module, communicator, cpu, call;
  std::shared_ptr<const ModuleMap> modules;  // of the store; where `module` is given
  std::optional<NodeKind> kind;
  std::optional<CollectiveOp> collective;
  NumberRanges ranks, streams, steps;

  bool selects_cpu_work() const { return cpu != nullptr || call != nullptr; }
  // Whether nothing but `rank=` is given.
  bool selects_whole_ranks() const {
    return !selects_cpu_work() && name == nullptr && op == nullptr && module == nullptr &&
           communicator == nullptr && !kind && !collective && streams.empty() && steps.empty();
  }
  bool SelectsRank(int32_t rank) const { return ranks.Contains(rank); }
  bool SelectsStepOf(const RankTrace& rank, SimTime recorded) const {
    return steps.empty() || steps.Contains(rank.iteration_at(recorded));
  }
  // Whether device work is selected; `of_communicator` is empty for what does not communicate.
  bool Selects(const TraceStore& store, const RankTrace& rank, NodeIndex node,
               std::string_view of_communicator) const;
  // Whether a runtime call is selected, by its own name or by the framework call around it.
  bool SelectsCall(const TraceStore& store, const RankTrace& rank, NodeIndex node) const;
};

bool Matches(const RE2& expression, std::string_view text);

// The outermost framework call around a CPU node; invalid: none.
NodeIndex OutermostCall(const RankTrace& rank, NodeIndex node);

enum class SelectorScope : uint8_t { kDeviceWork, kAllWork };

// `context` begins the message of an error, such as "--what-if kind=foo:x2".
absl::StatusOr<NodeSelector> ParseSelector(const std::string& context, std::string_view selector,
                                           SelectorScope scope);

}  // namespace foretrace
