#include "simulator/cost/operator/kernel_expander.h"

#include <algorithm>
#include <array>

#include "simulator/cost/operator/element_work.h"

namespace foretrace {
namespace {

int64_t SizeOf(DType dtype) { return std::max<int64_t>(ElementSize(dtype), 1); }

}  // namespace

KernelExpander::KernelExpander(DType dtype, Direction pass)
    : dtype_(dtype), size_(SizeOf(dtype)), pass_(pass) {}

KernelWork KernelExpander::Flat(KernelKind kind, double flop, int64_t read, int64_t written) const {
  KernelWork work;
  work.kind = kind;
  work.pass = pass_;
  work.dtype = dtype_;
  work.flop = Flop(flop);
  work.read = Bytes(read);
  work.written = Bytes(written);
  return work;
}

KernelWork KernelExpander::Rows(KernelKind kind, int64_t rows, int64_t cols,
                                double flop_per_element, int64_t read, int64_t written) const {
  KernelWork work = Flat(kind, RealProduct({rows, cols}) * flop_per_element, read, written);
  work.rows = std::max<int64_t>(rows, 0);
  work.cols = std::max<int64_t>(cols, 0);
  return work;
}

KernelWork KernelExpander::Reduction(int64_t rows, int64_t cols) const {
  return Rows(KernelKind::kReduction, rows, cols, 1.0, Bytes_(SaturatingProduct({rows, cols})),
              Bytes_(rows));
}

KernelWork KernelExpander::ColumnSums(int64_t columns, int64_t rows) const {
  KernelWork work = Reduction(columns, rows);
  work.across_rows = true;
  return work;
}

KernelList KernelExpander::operator()(const LayerNormOp& op) const {
  const int64_t elements = SaturatingProduct({op.rows, op.cols});
  const int64_t statistics = SaturatingProduct({2, op.rows, kStatisticBytes});
  if (pass_ == Direction::kForward) {
    // Mean, variance, normalise, scale and shift: 8 FLOP an element.
    KernelWork work = Rows(KernelKind::kLayerNorm, op.rows, op.cols, 8.0,
                           SaturatingSum({Bytes_(elements), Bytes_(2 * op.cols)}),
                           SaturatingSum({Bytes_(elements), statistics}));
    work.read_again = work.read;
    return {work};
  }
  // Two kernels: the input's gradient by rows, then gamma's and beta's by columns.
  const int64_t both = SaturatingSum({Bytes_(elements), Bytes_(elements), statistics});
  KernelWork input = Rows(KernelKind::kLayerNorm, op.rows, op.cols, 11.0,
                          SaturatingSum({both, Bytes_(op.cols)}), Bytes_(elements));
  input.read_again = input.read;
  KernelWork weights = Rows(KernelKind::kOther, op.cols, op.rows, 4.0, both,
                            Bytes_(SaturatingProduct({2, op.cols})));
  weights.across_rows = true;
  // aten/src/ATen/native/cuda/layer_norm_kernel.cu, GammaBetaBackwardCUDAKernelTemplate: 32 columns
  // a block, 256 rows a step, whose means and deviations come first, then eight rows of a thread.
  constexpr int64_t kRowsOfStep = 256, kTripsOfStep = 3;
  weights.trips = 1 + kTripsOfStep * ((std::max<int64_t>(op.rows, 1) - 1) / kRowsOfStep + 1);
  return {input, weights};
}

KernelList KernelExpander::operator()(const SoftmaxOp& op) const {
  const int64_t bytes = Bytes_(SaturatingProduct({op.rows, op.cols}));
  // Forward: max, subtract, exp, sum, divide. Backward: y (dy - sum(y dy)).
  const bool forward = pass_ == Direction::kForward;
  const int64_t twice = SaturatingSum({bytes, bytes});
  KernelWork work = Rows(KernelKind::kSoftmax, op.rows, op.cols, forward ? 5.0 : 4.0,
                         forward ? bytes : twice, bytes);
  // Forward the maximum, then the sum come first. Backward it is one sum, of a logarithm's over the
  // gradients alone (aten/src/ATen/native/cuda/SoftMax.cu: SumExpFloat, MulFloat, AddFloat).
  work.read_again = Bytes(!forward && op.logarithm ? bytes : twice);
  if (forward || op.logarithm || op.one_kernel) return {work};
  // softmax_backward_cuda_out multiplies gradient and result by a kernel of its own.
  return {Flat(KernelKind::kElementwise, RealProduct({op.rows, op.cols}), twice, bytes), work};
}

KernelList KernelExpander::operator()(const BatchNormOp& op) const {
  const int64_t per_channel = SaturatingProduct({op.n, op.h, op.w});
  const int64_t bytes = Bytes_(SaturatingProduct({per_channel, op.c}));
  const int64_t statistics = SaturatingProduct({4, op.c, kStatisticBytes});
  // Statistics need the whole channel before it is normalised, hence two passes over the inputs.
  const bool forward = pass_ == Direction::kForward;
  const int64_t pass = forward ? bytes : SaturatingSum({bytes, bytes});
  return {Rows(KernelKind::kBatchNorm, op.c, per_channel, forward ? 8.0 : 11.0,
               SaturatingSum({pass, pass, statistics}), SaturatingSum({bytes, statistics}))};
}

KernelList KernelExpander::operator()(const DropoutOp& op) const {
  const int64_t bytes = Bytes_(op.elements);
  const int64_t mask = std::max<int64_t>(op.elements, 0);  // one byte each
  const bool forward = pass_ == Direction::kForward;
  KernelWork work = Flat(KernelKind::kDropout, RealProduct({op.elements}) * 2,
                         forward ? bytes : SaturatingSum({bytes, mask}),
                         forward ? SaturatingSum({bytes, mask}) : bytes);
  if (forward) work.instructions = DropoutInstructions(op.elements);
  return {work};
}

KernelList KernelExpander::operator()(const ElementwiseOp& op) const {
  const int64_t out = op.output_dtype == DType::kUnknown ? size_ : SizeOf(op.output_dtype);
  return {Flat(KernelKind::kElementwise, RealProduct({op.elements}) * op.flop_per_element,
               Bytes_(op.read_elements), SaturatingProduct({op.elements, op.outputs, out}))};
}

KernelList KernelExpander::operator()(const ReductionOp& op) const {
  // The gradient of a mean is spread over what it was taken of.
  if (pass_ == Direction::kBackward) {
    const int64_t elements = SaturatingProduct({op.rows, op.cols});
    KernelWork work = Flat(KernelKind::kElementwise, RealProduct({op.rows, op.cols}),
                           Bytes_(op.rows), Bytes_(elements));
    work.instructions = StridedInstructions(static_cast<double>(elements), 1, 2);
    return {work};
  }
  KernelWork work = Reduction(op.rows, op.cols);
  work.across_rows = op.across_rows;
  return {work};
}

KernelList KernelExpander::operator()(const ConcatOp& op) const {
  KernelWork work = Flat(KernelKind::kConcat, 0, Bytes_(op.elements), Bytes_(op.elements));
  work.instructions = ContiguousConcatInstructions(op.elements, op.parts, size_);
  return {work};
}

KernelList KernelExpander::operator()(const CopyOp& op) const {
  const int64_t out = op.output_dtype == DType::kUnknown ? size_ : SizeOf(op.output_dtype);
  return {Flat(op.strided ? KernelKind::kTranspose : KernelKind::kCopy, 0, Bytes_(op.elements),
               SaturatingProduct({op.elements, out}))};
}

KernelList KernelExpander::operator()(const FillOp& op) const {
  return {Flat(KernelKind::kFill, 0, 0, Bytes_(op.elements))};
}

KernelList KernelExpander::operator()(const MemcpyOp& op) const {
  KernelWork work = Flat(KernelKind::kMemcpy, 0, op.bytes, op.bytes);
  work.direction = op.direction;
  work.pinned = op.pinned;
  return {work};
}

// Rows that lie in whole vectors of 16 bytes have a block each for every 256 of those; others go
// element by element, four a thread, each of which waits for its index and then for its value
// (aten/src/ATen/native/cuda/{IndexKernelUtils,IndexKernel}.cu).
void KernelExpander::AsGather(const IndexOp& op, KernelWork& work) const {
  constexpr int64_t kVector = 16, kVectorsOfBlock = 256, kElementsOfThread = 4, kThreads = 128;
  const int64_t row = Bytes_(op.elements) / op.index_count;
  const bool whole = op.elements % op.index_count == 0 && row % kVector == 0;
  if (whole) {
    const int64_t block = kVector * kVectorsOfBlock;
    work.blocks = SaturatingProduct({op.index_count, (row + block - 1) / block});
    work.trips = 2;
    return;
  }
  work.instructions = IndexedInstructions(static_cast<double>(op.elements));
  work.trips = 2 * std::clamp<int64_t>(op.elements / kThreads, 1, kElementsOfThread);
}

KernelList KernelExpander::operator()(const IndexOp& op) const {
  const int64_t indices = SaturatingProduct({op.index_count, kIndexBytes});
  const int64_t bytes = Bytes_(op.elements);
  if (pass_ == Direction::kForward) {
    KernelWork work = Flat(KernelKind::kIndex, 0, SaturatingSum({bytes, indices}), bytes);
    if (op.index_count > 0) AsGather(op, work);
    return {work};
  }
  // Clear the gradient, then read, add and write each gathered value.
  return {Flat(KernelKind::kFill, 0, 0, Bytes_(op.source_elements)),
          Flat(KernelKind::kIndex, RealProduct({op.elements}),
               SaturatingSum({bytes, bytes, indices}), bytes)};
}

KernelList KernelExpander::operator()(const PoolOp& op) const {
  const int64_t in = Bytes_(op.input_elements), out = Bytes_(op.output_elements);
  const int64_t saved = op.saves_indices ? SaturatingProduct({op.output_elements, kIndexBytes}) : 0;
  const double flop = RealProduct({op.output_elements, op.window});
  if (pass_ == Direction::kForward) {
    return {Flat(KernelKind::kPooling, flop, in, SaturatingSum({out, saved}))};
  }
  return {Flat(KernelKind::kPooling, flop, SaturatingSum({out, saved}), in)};
}

KernelList KernelExpander::operator()(const OpaqueOp& op) const {
  return {Flat(KernelKind::kOther, 0, op.read_bytes, op.written_bytes)};
}

// Elementary steps of the unfused Adam: m.mul_, m.add_(g), v.mul_, v.addcmul_(g, g), sqrt, div,
// add_(eps), p.addcdiv_(m, d); elements moved by each, in units of the parameter count.
KernelList KernelExpander::operator()(const OptimizerOp& op) const {
  struct Step {
    int read, written, flop;
  };
  static constexpr std::array<Step, 1> kSgd = {{{2, 1, 2}}};
  static constexpr std::array<Step, 3> kMomentum = {{{1, 1, 1}, {2, 1, 1}, {2, 1, 2}}};
  static constexpr std::array<Step, 8> kAdam = {
      {{1, 1, 1}, {2, 1, 2}, {1, 1, 1}, {2, 1, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {3, 1, 3}}};
  static constexpr std::array<Step, 4> kAdagrad = {{{2, 1, 3}, {1, 1, 1}, {1, 1, 1}, {3, 1, 3}}};
  const auto expand = [&](auto steps, Step fused) {
    KernelList list;
    const auto add = [&](const Step& step) {
      KernelWork work = Flat(KernelKind::kOptimizer, RealProduct({op.params}) * step.flop,
                             Bytes_(SaturatingProduct({op.params, step.read})),
                             Bytes_(SaturatingProduct({op.params, step.written})));
      if (op.impl == OptimizerImpl::kLoop) work.launches = std::max<int64_t>(op.tensors, 1);
      list.push_back(work);
    };
    if (op.impl == OptimizerImpl::kFused) {
      add(fused);
    } else {
      for (const Step& step : steps) add(step);
    }
    return list;
  };
  switch (op.kind) {
    case OptimizerKind::kSgdMomentum:
      return expand(kMomentum, Step{3, 2, 4});
    case OptimizerKind::kAdam:
      return expand(kAdam, Step{4, 3, 13});
    case OptimizerKind::kAdagrad:
      return expand(kAdagrad, Step{3, 2, 8});
    default:
      return expand(kSgd, Step{2, 1, 2});
  }
}

KernelList KernelExpander::operator()(const EmbeddingOp& op) const {
  const int64_t gathered = Bytes_(SaturatingProduct({op.lookups, op.dim}));
  const int64_t pooled = Bytes_(SaturatingProduct({op.bags, op.dim}));
  const int64_t indices = SaturatingSum(
      {SaturatingProduct({op.lookups, kIndexBytes}), SaturatingProduct({op.bags, kIndexBytes})});
  const double flop = RealProduct({op.lookups, op.dim});
  KernelWork work;
  if (pass_ == Direction::kForward) {
    work = Flat(KernelKind::kEmbedding, flop, SaturatingSum({gathered, indices}), pooled);
  } else {
    // Each lookup reads its bag's gradient; each distinct row is read, updated and written once,
    // with its optimizer state.
    const int64_t unique = op.unique_rows > 0 ? op.unique_rows : op.lookups;
    const int64_t rows = Bytes_(SaturatingProduct({unique, op.dim}));
    const bool state = op.fused_update && op.optimizer != OptimizerKind::kSgd;
    const int64_t per_state = op.rowwise ? SaturatingProduct({unique, kStatisticBytes}) : rows;
    const int64_t states = !state ? 0
                           : op.optimizer == OptimizerKind::kAdam
                               ? SaturatingSum({per_state, per_state})
                               : per_state;
    work = Flat(KernelKind::kEmbedding, flop + 4 * RealProduct({unique, op.dim}),
                SaturatingSum({gathered, indices, op.fused_update ? rows : 0, states}),
                SaturatingSum({rows, states}));
  }
  work.rows = op.bags;
  work.cols = op.dim;
  return {work};
}

}  // namespace foretrace
