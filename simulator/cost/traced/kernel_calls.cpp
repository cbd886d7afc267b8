#include "simulator/cost/traced/kernel_calls.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/container/inlined_vector.h"
#include "simulator/base/contains.h"
#include "simulator/cost/kernel/grouped_gemms.h"
#include "simulator/cost/kernel/launched_kernels.h"
#include "simulator/cost/operator/trace_operator.h"
#include "simulator/cost/traced/call_signatures.h"
#include "simulator/cost/traced/recurrent_calls.h"

namespace foretrace {
namespace {

using Launched = std::map<uint32_t, CallKernels>;

// How far up from a launch an operator is looked for: aten::to > aten::_to_copy > aten::copy_ is
// typical, the innermost call knows most.
constexpr int kMaxLevels = 6;

bool IsModelled(const RankTrace& rank, NodeIndex n) {
  const NodeKind kind = rank.kind(n);
  return kind == NodeKind::kKernel || kind == NodeKind::kMemset ||
         (kind == NodeKind::kMemcpy && rank.memcpy_kind(n) == MemcpyKind::kDeviceToDevice);
}

// The tensors of a call.
struct CallTensors {
  absl::InlinedVector<TensorShape, 8> inputs, outputs;
  CallTensors(const RankTrace& rank, NodeIndex call) {
    for (const Tensor& tensor : rank.tensors(call)) {
      (tensor.is_output ? outputs : inputs).push_back({rank.dims(tensor), tensor.dtype});
    }
  }
};

std::optional<TracedOperator> OperatorOfCall(const TraceStore& store, const RankTrace& rank,
                                             NodeIndex call) {
  const std::string_view name = store.name(rank, call);
  // cuDNN's and MIOpen's halves of a convolution's backward pass lack one shape each; the call
  // around them has all three.
  const bool input = name.ends_with("convolution_backward_input");
  if (input || name.ends_with("convolution_backward_weight")) {
    const NodeIndex whole = rank.parent(call);
    if (!whole.valid() || rank.kind(whole) != NodeKind::kCpuOp) return std::nullopt;
    const CallTensors tensors(rank, whole);
    auto traced = OperatorFromTrace(store.name(rank, whole), tensors.inputs, tensors.outputs);
    auto* shape = traced ? std::get_if<Conv2dOp>(&traced->op.shape) : nullptr;
    if (shape == nullptr) return std::nullopt;
    shape->needs_input_gradient = input;
    shape->needs_weight_gradient = !input;
    return traced;
  }
  const CallTensors tensors(rank, call);
  auto traced = OperatorFromTrace(name, tensors.inputs, tensors.outputs);
  if (traced) {
    SetMask(rank.attention_mask(call), *traced);
    traced->access.scattered = rank.scattered_tensors(call);
    if (const int dimensions = rank.index_dimensions(call); dimensions > 0) {
      traced->access.dimensions = dimensions;
    }
  }
  return traced;
}

std::optional<TracedOperator> OpaqueCall(const TraceStore& store, const RankTrace& rank,
                                         NodeIndex call) {
  const CallTensors tensors(rank, call);
  auto traced = OpaqueOperator(store.name(rank, call), tensors.inputs, tensors.outputs);
  if (traced) traced->access.scattered = rank.scattered_tensors(call);
  return traced;
}

// The innermost enclosing call that `find` knows as an operator; invalid when there is none.
template <typename Find>
NodeIndex EnclosingCall(const RankTrace& rank, NodeIndex device, TracedCalls& known, Find find) {
  const NodeIndex launcher = rank.launcher(device);
  NodeIndex at = launcher.valid() ? rank.parent(launcher) : rank.parent(device);
  for (int level = 0; at.valid() && level < kMaxLevels; ++level, at = rank.parent(at)) {
    if (rank.kind(at) != NodeKind::kCpuOp) continue;
    const auto [it, inserted] = known.try_emplace(at.value);
    if (inserted) it->second = find(at);
    if (it->second) return at;
  }
  return NodeIndex();
}

// A kernel counts once: what an inner call is known to have launched is no longer the outer's.
void LeaveEnclosing(const RankTrace& rank, const CallKernels& inner, Launched& ops) {
  NodeIndex at = rank.parent(inner.call);
  while (at.valid() && !ops.contains(at.value)) at = rank.parent(at);
  if (!at.valid()) return;
  std::erase_if(ops.at(at.value).kernels, [&](NodeIndex node) {
    return std::ranges::find(inner.kernels, node) != inner.kernels.end();
  });
}

// Gives calls without shapes those that CallSignatures finds.
void BorrowShapes(const TraceStore& store, const RankTrace& rank, KernelCalls& calls) {
  if (calls.shapeless.empty()) return;
  TracedCalls& known = calls.operators;
  Launched& ops = calls.launched;
  CallSignatures signatures(rank);
  for (const auto& [call, op] : ops) signatures.Learn(op.call, op.kernels);
  Launched left;
  for (const auto& [call, op] : calls.shapeless) {
    const auto like = signatures.Find(op.call, op.kernels);
    const std::string_view name = store.name(rank, op.call);
    const bool concat = !like.has_value() && (name == "aten::cat" || name == "aten::_cat") &&
                        std::ranges::all_of(op.kernels, [&](NodeIndex n) {
                          return rank.kind(n) == NodeKind::kKernel;  // copies name their bytes
                        });
    std::optional<TracedOperator> traced;
    if (concat) {
      traced = ConcatFromNeighbours(store, rank, op.call);
    } else if (like.has_value()) {
      traced = known[like->value];
    }
    if (!traced.has_value()) {
      left[call] = op;
      continue;
    }
    known[call] = traced;
    known[call]->assumed = true;
    LeaveEnclosing(rank, op, ops);
    ops[call] = op;
  }
  calls.shapeless = std::move(left);
}

// Calls that launch kernels, are not among the known ones and have no tensor with a shape.
Launched ShapelessCalls(const RankTrace& rank, const Launched& known) {
  Launched shapeless;
  for (uint32_t i = 0; i < rank.size(); ++i) {
    const NodeIndex node(i), launcher = rank.launcher(node);
    if (!IsModelled(rank, node) || !launcher.valid()) continue;
    const NodeIndex call = rank.parent(launcher);
    const bool open = call.valid() && rank.kind(call) == NodeKind::kCpuOp;
    if (!open || known.contains(call.value)) continue;
    const bool has_shapes = std::ranges::any_of(
        rank.tensors(call), [&](const Tensor& t) { return !rank.dims(t).empty(); });
    if (has_shapes) continue;
    CallKernels& op = shapeless[call.value];
    op.call = call;
    op.kernels.push_back(node);
  }
  return shapeless;
}

// Whether kernels of a call of which only the tensors are known, or not even these, say what it
// computes, and their launches what is left. GEMMs of all experts at once have rules of their own.
bool IsFunction(const TraceStore& store, const RankTrace& rank, const CallKernels& op) {
  bool computes = false;
  for (const NodeIndex node : op.kernels) {
    const std::string_view name = store.name(rank, node);
    const bool launched = rank.kind(node) != NodeKind::kKernel || rank.waves_milli(node) > 0;
    if (!launched || GroupedKernelOf(name)) return false;
    computes |= IsMatrixKernel(name);
  }
  return computes;
}

void TakeFunctions(const TraceStore& store, const RankTrace& rank, KernelCalls& calls) {
  const auto take = [&](Launched& from, auto fits) {
    for (const auto& [call, op] : from) {
      if (fits(call) && IsFunction(store, rank, op)) calls.functions[call] = op;
    }
    std::erase_if(from, [&](const auto& e) { return calls.functions.contains(e.first); });
  };
  take(calls.launched, [&](uint32_t call) {
    const std::optional<TracedOperator>& traced = calls.operators[call];
    return traced && std::holds_alternative<OpaqueOp>(traced->op.shape) && !traced->weighed &&
           !IsRecurrence(store.name(rank, NodeIndex(call)));
  });
  take(calls.shapeless,
       [&](uint32_t call) { return !store.name(rank, NodeIndex(call)).starts_with("aten::"); });
  for (const auto& [call, op] : calls.functions) calls.operators.erase(call);
}

// Names of kernels that multiply sparse matrices.
class SparseNames {
 public:
  SparseNames(const TraceStore& store, const RankTrace& rank) : store_(store), rank_(rank) {}
  bool Has(NodeIndex node) {
    const auto [it, inserted] = known_.try_emplace(rank_.name(node).value, false);
    if (inserted) {
      it->second = ContainsAny(store_.name(rank_, node),
                               {"cusparse", "csrmm", "csrmv", "spmm", "rocsparse"});
    }
    return it->second;
  }

 private:
  const TraceStore& store_;
  const RankTrace& rank_;
  absl::flat_hash_map<uint32_t, bool> known_;
};

// Products of a sparse matrix, whose sizes are those of a dense one: how many elements it has is
// not recorded. What is known is moved: the dense factor, and the result, which may be added to.
void WeighSparse(const TraceStore& store, const RankTrace& rank, KernelCalls& calls) {
  SparseNames sparse(store, rank);
  for (const auto& [call, op] : calls.launched) {
    if (std::ranges::none_of(op.kernels, [&](NodeIndex node) { return sparse.Has(node); })) {
      continue;
    }
    const auto traced = calls.operators.find(call);
    if (traced == calls.operators.end() || !traced->second) continue;
    const CallTensors tensors(rank, op.call);
    auto dense = OperatorFromTrace("aten::mm", tensors.inputs, tensors.outputs);
    const auto* sizes = dense ? std::get_if<LinearOp>(&dense->op.shape) : nullptr;
    if (sizes == nullptr) continue;
    constexpr int64_t kMost = int64_t{1} << 61;
    const auto bytes = [&](int64_t rows) {
      return std::min(SaturatingProduct({rows, sizes->n, ElementSize(dense->op.dtype)}), kMost);
    };
    dense->op.shape = OpaqueOp{bytes(sizes->k) + bytes(sizes->m), bytes(sizes->m)};
    dense->assumed = dense->weighed = true;
    traced->second = std::move(dense);
  }
}

// Whether no call launched a kernel, as far as is recorded.
bool IsUncalled(const RankTrace& rank, NodeIndex kernel) {
  const NodeIndex launcher = rank.launcher(kernel);
  const NodeIndex around = launcher.valid() ? rank.parent(launcher) : rank.parent(kernel);
  return !around.valid() || rank.kind(around) != NodeKind::kCpuOp;
}

// Kernels of calls say more of those of the same name (kernel_likes.h).
void DropLikes(const RankTrace& rank, KernelCalls& calls) {
  if (calls.uncalled.empty()) return;
  absl::flat_hash_set<uint32_t> called;
  for (const auto& [call, op] : calls.launched) {
    for (const NodeIndex node : op.kernels) called.insert(rank.name(node).value);
  }
  std::erase_if(calls.uncalled,
                [&](NodeIndex node) { return called.contains(rank.name(node).value); });
}

}  // namespace

KernelCalls FindKernelCalls(const TraceStore& store, const RankTrace& rank) {
  KernelCalls calls;
  TracedCalls opaque;
  TracedCalls& known = calls.operators;
  for (uint32_t i = 0; i < rank.size(); ++i) {
    const NodeIndex node(i);
    if (!IsModelled(rank, node)) continue;
    NodeIndex call = EnclosingCall(rank, node, known,
                                   [&](NodeIndex at) { return OperatorOfCall(store, rank, at); });
    if (!call.valid()) {
      call = EnclosingCall(rank, node, opaque,
                           [&](NodeIndex at) { return OpaqueCall(store, rank, at); });
      if (!call.valid()) {
        if (IsUncalled(rank, node)) calls.uncalled.push_back(node);
        continue;
      }
      known[call.value] = opaque[call.value];
    }
    CallKernels& op = calls.launched[call.value];
    op.call = call;
    op.kernels.push_back(node);
  }
  DropLikes(rank, calls);
  calls.shapeless = ShapelessCalls(rank, calls.launched);
  BorrowShapes(store, rank, calls);
  WeighSparse(store, rank, calls);
  TakeFunctions(store, rank, calls);
  CompletePairs(known);
  CompleteFromFollowers(rank, known);
  return calls;
}

}  // namespace foretrace
