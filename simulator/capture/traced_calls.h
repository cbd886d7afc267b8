#pragma once
// The calls of one iteration that do device work, by pass; a detail of traced_model.h.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "simulator/cost/operator/kernel_work.h"
#include "simulator/cost/operator/trace_operator.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace::traced {

enum class Pass : uint8_t { kForward, kBackward, kOptimizer, kCount };

inline constexpr int32_t kNoCall = -1;

// The iteration's CPU calls in order.
class Calls {
 public:
  // Of the iteration that is marked so; where none is marked, of the one after that many optimizer
  // steps.
  Calls(const TraceStore& store, const RankTrace& rank, int64_t iteration);

  const std::vector<NodeIndex>& nodes() const { return nodes_; }
  Pass pass(NodeIndex n) const { return pass_[n.value]; }
  // The innermost call around device work: it has a known operator and no other one inside.
  bool chosen(NodeIndex n) const { return chosen_[n.value] != 0; }
  // Inside such a call.
  bool nested(NodeIndex n) const;
  // The operator of a chosen call.
  const TracedOperator& operation(NodeIndex n) const { return operators_[index_[n.value]]; }
  std::string_view name(NodeIndex n) const { return store_.name(rank_, n); }
  // The autograd node around a backward call; itself where it is one. Invalid: none.
  NodeIndex AutogradNode(NodeIndex n) const;

 private:
  void FindPasses();
  void FindOperators();

  const TraceStore& store_;
  const RankTrace& rank_;
  std::vector<NodeIndex> nodes_;
  std::vector<Pass> pass_;       // by node
  std::vector<uint8_t> chosen_;  // by node
  std::vector<uint32_t> index_;  // by node: into operators_
  std::vector<TracedOperator> operators_;
};

// "AddmmBackward0", "aten::addmm" and "autograd::engine::evaluate_function: AddmmBackward0" alike:
// "addmm".
std::string BaseName(std::string_view name);
// A base name as networks spell the function: "mul" is "multiply".
std::string FunctionOf(const std::string& base);
inline constexpr std::string_view kAccumulateGrad = "accumulategrad";

// Iterations are told apart by marks and times, not by optimizer steps.
inline bool HasMarks(const RankTrace& rank) {
  return rank.info().has_times && !rank.iterations().empty();
}

int64_t Elements(const RankTrace& rank, const Tensor& tensor);
int64_t ByteCount(const RankTrace& rank, const Tensor& tensor);
// Identifies the memory of a tensor; 0: the trace does not say.
inline int64_t StorageOf(const Tensor& t) { return t.storage != 0 ? t.storage : t.id; }

}  // namespace foretrace::traced
