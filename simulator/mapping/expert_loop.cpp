#include "simulator/mapping/expert_loop.h"

#include <algorithm>

#include "simulator/cost/operator/element_work.h"
#include "simulator/mapping/cpu_costs.h"
#include "simulator/mapping/kernel_lists.h"

namespace foretrace {
namespace {

// Over `n` indices, of which `read` are read.
void AppendIndices(KernelList& list, int64_t n, int64_t read) {
  Append(list, ElementwiseOp{n, read}, DType::kInt64);
}

KernelList ShareOf(const KernelList& list, int64_t experts) {
  KernelList share = list;
  for (KernelWork& work : share) {
    const auto parts = static_cast<double>(experts);
    work.flop = Flop(work.flop.count() / parts);
    work.instructions /= parts;
    work.read = Bytes(work.read.count() / experts);
    work.written = Bytes(work.written.count() / experts);
  }
  return share;
}

// A radix sort of indices by one block, as CUB has it of so few: 256 threads of 9 keys and values
// of 8 bytes (cub/device/dispatch/tuning/tuning_radix_sort.cuh, SingleTilePolicy: 19 of 4 bytes);
// of more a histogram, a prefix sum and two passes, as indices of at most 65,536 rows have 16 bits.
constexpr int64_t kOneBlockKeys = 256 * 9;
constexpr int kSortKernels = 4;

}  // namespace

bool LoopsOverExperts(const MappedLayer& layer, const ClusterParameters& cluster) {
  return cluster.forms.looped_experts && layer.sizes().of(layer.axes().experts) > 0;
}

ExpertLoop::ExpertLoop(const MappedLayer& layer, const ParallelMapping& mapping,
                       const ClusterParameters& cluster)
    : l_(layer),
      m_(mapping),
      p_(cluster),
      experts_(LoopsOverExperts(layer, cluster) ? layer.sizes().of(layer.axes().experts) : 0),
      tokens_(layer.sizes().of(layer.axes().stream)),
      choices_(layer.sizes().of(layer.axes().stream_routed)),
      rows_(std::max<int64_t>(choices_ / std::max<int64_t>(experts_, 1), 1)) {}

ExpertLoop::Each ExpertLoop::Apply(const GraphOp& op, KernelList& forward,
                                   KernelList& backward) const {
  if (experts_ == 0 || !op.in_block) return {};
  if (op.name == "dispatch") return Dispatch(op, forward, backward);
  if (op.name == "combine") return Combine(op, forward, backward);
  return op.name == "activation" ? Divided(forward, backward) : Each();
}

// torch.where of an expert's row of the mask, whose elements lie a row of all experts apart: a copy
// in one piece, their number by two kernels and a copy to the host, for which the CPU waits; then
// those that are set by two kernels, and both of their indices (PyTorch,
// aten/src/ATen/native/cuda/Nonzero.cu, nonzero_cuda_out_impl).
int64_t ExpertLoop::FindTokens(KernelList& list) const {
  const int64_t before = std::ssize(list);
  Append(list, CopyOp{choices_, true}, DType::kInt64);
  AppendIndices(list, 1, choices_);
  for (int i = 0; i < 3; ++i) AppendIndices(list, 1, 1);
  AppendIndices(list, rows_, choices_);
  AppendIndices(list, 2 * rows_, rows_);
  return std::ssize(list) - before - 1;
}

// PyTorch, aten/src/ATen/native/cuda/Indexing.cu, index_put_with_sort_kernel: a cleared gradient,
// indices wrapped, scaled and divided by a row's size, numbered and sorted, rows added up in their
// order; and the sum with the gradient that is there (torch/csrc/autograd/input_buffer.cpp).
int64_t ExpertLoop::ScatterRows(int64_t columns, int64_t all, DType dtype, KernelList& list) const {
  constexpr int64_t kOperators = 3;  // clears, puts, adds
  const int64_t before = std::ssize(list);
  const int64_t n = rows_ * columns;
  Append(list, FillOp{all}, dtype);
  for (int i = 0; i < 4; ++i) AppendIndices(list, rows_, rows_);
  const int sorts = rows_ <= kOneBlockKeys ? 1 : kSortKernels;
  for (int i = 0; i < sorts; ++i) AppendIndices(list, 2 * rows_, 2 * rows_);
  Append(list, ElementwiseOp{n, 2 * n}, dtype);
  Append(list, ElementwiseOp{all, 2 * all}, dtype);
  return std::ssize(list) - before - kOperators;
}

// Once: the two best choices and their order, their sum, its division and a cast; the mask, cleared
// and set. Then each expert's tokens are found and gathered. From the answer to the first GEMM the
// CPU issues the last three kernels that find them and starts two operators, whose device waits.
ExpertLoop::Each ExpertLoop::Dispatch(const GraphOp& op, KernelList& forward,
                                      KernelList& backward) const {
  constexpr int kIssuedBeforeWork = 3, kStartedBeforeWork = 2;
  const DType dtype = l_.graph().tensor(op.outputs[0]).dtype;
  const int64_t all = Elements(l_.graph(), l_.sizes(), op.inputs[0]);
  const int64_t hidden = OfToken(all);
  forward.clear();
  backward.clear();
  for (int i = 0; i < 5; ++i) Append(forward, ElementwiseOp{choices_, choices_}, DType::kFloat32);
  Append(forward, FillOp{choices_ * experts_}, DType::kInt64);
  AppendIndices(forward, choices_, choices_);
  Each each;
  each.experts = experts_;
  each.forward_further = FindTokens(each.forward);
  Append(each.forward, IndexOp{rows_ * hidden, rows_, all}, dtype);
  each.backward_further = ScatterRows(hidden, all, dtype, each.backward);
  const SimTime start = std::max(ForwardKernelCpu(m_, p_), p_.issue);
  const double wait = kIssuedBeforeWork * p_.issue.seconds() + kStartedBeforeWork * start.seconds();
  each.waits = wait * static_cast<double>(experts_);
  return each;
}

// A cleared result; of each expert its weights gathered, their product with what it gave, and its
// addition to the tokens' rows (index_add_). Backward these rows are gathered, multiplied with the
// weights and with what the expert gave, whose sums are the weights' gradients.
ExpertLoop::Each ExpertLoop::Combine(const GraphOp& op, KernelList& forward,
                                     KernelList& backward) const {
  const DType dtype = l_.graph().tensor(op.inputs[0]).dtype;
  const int64_t all = Elements(l_.graph(), l_.sizes(), op.outputs[0]);
  const int64_t hidden = OfToken(all);
  const int64_t n = rows_ * hidden;
  forward.clear();
  backward.clear();
  Append(forward, FillOp{all}, dtype);
  Each each;
  each.experts = experts_;
  Append(each.forward, IndexOp{rows_, rows_, choices_}, dtype);
  Append(each.forward, ElementwiseOp{n, n + rows_}, dtype);
  Append(each.forward, ElementwiseOp{n, 2 * n}, dtype, Direction::kForward,
         GatherInstructions(static_cast<double>(n)));
  Append(each.backward, IndexOp{n, rows_, all}, dtype);
  Append(each.backward, ElementwiseOp{n, n + rows_}, dtype);
  Append(each.backward, ElementwiseOp{n, 2 * n}, dtype);
  Append(each.backward, ReductionOp{rows_, hidden}, dtype);
  each.backward_further = ScatterRows(1, choices_, dtype, each.backward);
  return each;
}

ExpertLoop::Each ExpertLoop::Divided(KernelList& forward, KernelList& backward) const {
  Each each;
  each.experts = experts_;
  each.forward = ShareOf(forward, experts_);
  each.backward = ShareOf(backward, experts_);
  forward.clear();
  backward.clear();
  return each;
}

}  // namespace foretrace
