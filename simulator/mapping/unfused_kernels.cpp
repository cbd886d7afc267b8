#include "simulator/mapping/unfused_kernels.h"

#include <algorithm>
#include <variant>

#include "simulator/mapping/kernel_lists.h"

namespace foretrace {
namespace {

constexpr DType kWide = DType::kFloat32;

// What a multiprocessor moves in kernels that walk rows of logits by blocks of 1,024 threads, each
// of which ends in a reduction (Transformer Engine, common/triton/cross_entropy.py): SimuMax's
// measurement on a B200 (memory_bandwidth.csv, ce_fusion) is 0.28 of 8,000 GB/s for 8 bytes a
// logit, of 10 that are moved, on 148 multiprocessors.
constexpr Bandwidth kRowsOfLogits = Bandwidth::GBps(0.28 * 8000 * 10 / 8 / 148);

// A kernel that makes n elements of `to` from n of each of its operands.
void Step(KernelList& list, int64_t n, int64_t operands, DType from, DType to) {
  ElementwiseOp call{n, operands * n};
  call.output_dtype = to;
  Append(list, call, from);
}

}  // namespace

void UnfusedKernels::Apply(OpId id, KernelList& forward, BackwardWork& backward) const {
  const GraphOp& op = l_.graph().op(id);
  const KernelForms& forms = p_.forms;
  // What a mixer's scan takes is one matrix in all software.
  if (forms.separate_gemms && op.kind == GraphOpKind::kMatmul && op.in_block &&
      op.name != "mixer in") {
    Separate(id, forward, backward);
  }
  const bool narrow = ElementSize(l_.graph().tensor(op.inputs[0]).dtype) < 4;
  if (op.name == "rotary") {
    if (narrow && (!p_.fused_pointwise || forms.complex_rotary)) {
      AddRotarySteps(op, forward);
      AddRotarySteps(op, backward.input);
    }
    if (forms.repeats_keys) RepeatKeys(op, forward, backward.input);
    if (forms.copies_groups) CopyGroups(op, forward, backward.input);
    return;
  }
  if (op.kind == GraphOpKind::kLogSoftmax) AddLossSteps(op, forward, backward.input);
  if (op.in_block) {
    if (op.kind == GraphOpKind::kSoftmax && op.attention_core) {
      AddScoreSteps(op, forward, backward.input);
    }
    const bool core = op.kind == GraphOpKind::kScores || op.kind == GraphOpKind::kContext;
    if (core && forms.copies_heads) CopyHeads(op, forward, backward.input);
    if (op.kind == GraphOpKind::kElementwise && op.kept == 1) {
      AddGeluSteps(op, forward, backward.input);
    }
    if (op.kind == GraphOpKind::kAdd) AddResidualSteps(op, forward);
  }
  if (forms.summed_norms && op.kind == GraphOpKind::kNorm) SumNorms(op, backward.input);
  if (p_.fused_pointwise && op.kind == GraphOpKind::kNorm) {
    ShareBlocks(forward);
    ShareBlocks(backward.input);
  }
  if (p_.fused_pointwise || !narrow) return;
  if (op.kind == GraphOpKind::kNorm && !forms.fused_norms) {
    AddNormSteps(op, forward, backward.input);
  }
  if (op.kind == GraphOpKind::kElementwise && op.kept == 1) {
    AddGateSteps(op, forward, backward.input);
  }
}

// What is summed of the input's gradients is read once more where compiled kernels that follow take
// it in; otherwise it is a kernel of its own.
void UnfusedKernels::Separate(OpId id, KernelList& forward, BackwardWork& backward) const {
  const OperatorGraph& g = l_.graph();
  const GraphOp& op = g.op(id);
  const auto count = static_cast<int64_t>(op.outputs.size()) * op.parts;
  const auto calls = CallsOf(g, l_.sizes(), id, Direction::kForward);
  if (count < 2 || calls.size() != 1) return;
  const auto* whole = std::get_if<LinearOp>(&calls.front().shape);
  if (whole == nullptr) return;
  const DType dtype = calls.front().dtype;
  forward.clear();
  backward.weights.clear();
  const auto is_gemm = [](const KernelWork& work) { return work.m > 0; };
  backward.input.erase(std::remove_if(backward.input.begin(), backward.input.end(), is_gemm),
                       backward.input.end());
  for (const TensorId output : op.outputs) {
    LinearOp each = *whole;
    each.n = Count(output) / op.parts / std::max<int64_t>(whole->m, 1);
    for (int8_t part = 0; part < op.parts; ++part) {
      Append(forward, each, dtype);
      each.needs_weight_gradient = false;
      Append(backward.input, each, dtype, Direction::kBackward);
      std::swap(each.needs_weight_gradient, each.needs_input_gradient);
      Append(backward.weights, each, dtype, Direction::kBackward);
      each.needs_input_gradient = each.needs_weight_gradient = true;
    }
  }
  const int64_t n = whole->m * whole->k;
  for (int64_t i = 1; i < count; ++i) {
    if (p_.fused_pointwise) {
      Append(backward.input, ReductionOp{1, n}, dtype);
    } else {
      Step(backward.input, n, 2, dtype, dtype);
    }
  }
}

// A norm's own weights are its last inputs.
void UnfusedKernels::SumNorms(const GraphOp& op, KernelList& backward) const {
  int64_t weights = 0;
  for (size_t i = 1; i < op.inputs.size(); ++i) weights += Count(op.inputs[i]);
  for (KernelWork& work : backward) {
    if (!work.across_rows) continue;
    const ReductionOp sums{weights, std::max(p_.multiprocessors, 1), true};
    const DType dtype = work.dtype;
    work = Kernels({sums, kWide, Direction::kForward}).front();
    work.written = Bytes(weights * ElementSize(dtype));
    const auto rows = std::find_if(backward.begin(), backward.end(), [](const KernelWork& w) {
      return w.kind == KernelKind::kLayerNorm;
    });
    if (rows != backward.end()) rows->written += work.read;
  }
}

// Norms of heads: a warp a row, four rows a block, which goes on to others until all are done
// (Transformer Engine, common/normalization/rmsnorm, rows of up to 512 columns: WARPS_M 4), or as
// many as a compiler puts into a block. A framework's own kernel has a block for each.
void UnfusedKernels::ShareBlocks(KernelList& list) {
  constexpr int64_t kShort = 512;
  const bool shared = std::ranges::any_of(list, [](const KernelWork& work) {
    return work.kind == KernelKind::kLayerNorm && work.cols <= kShort;
  });
  if (!shared) return;
  for (KernelWork& work : list) {
    work.kind = KernelKind::kElementwise;
    work.rows = work.cols = work.trips = 0;
    work.read_again = Bytes();
    work.across_rows = work.mean_square = false;
  }
}

// Of root mean squares: the cast to 32 bits, the square, its mean, the scaling, the cast back; the
// product with the weights is the fused kernel's own traffic. Backward each step's own gradient,
// the sum of both ways to the input, and the product with the weights' gradient.
void UnfusedKernels::AddNormSteps(const GraphOp& op, KernelList& forward,
                                  KernelList& backward) const {
  const GraphTensor& input = l_.graph().tensor(op.inputs[0]);
  const DType dtype = input.dtype;
  const int64_t n = Count(op.inputs[0]);
  const int64_t columns = std::max<int64_t>(l_.sizes().of(input.axes.back()), 1);
  const ReductionOp mean{n / columns, columns};
  Step(forward, n, 1, dtype, kWide);
  Step(forward, n, 1, kWide, kWide);
  Append(forward, mean, kWide);
  Step(forward, n, 1, kWide, kWide);
  Step(forward, n, 1, kWide, dtype);
  Step(backward, n, 2, dtype, dtype);  // weights' gradient before its sum
  Step(backward, n, 1, dtype, kWide);  // cast
  Step(backward, n, 1, kWide, kWide);  // scaling, to the input
  Step(backward, n, 2, kWide, kWide);  // scaling, to the mean
  Append(backward, mean, kWide);
  Step(backward, n, 1, kWide, kWide);  // square
  Step(backward, n, 2, kWide, kWide);  // sum of both
  Step(backward, n, 1, kWide, dtype);  // cast
}

// Both casts; the multiplication in 32 bits moves as much again as the fused kernel in 16.
void UnfusedKernels::AddRotarySteps(const GraphOp& op, KernelList& list) const {
  const DType dtype = l_.graph().tensor(op.inputs[0]).dtype;
  int64_t n = 0;
  for (const TensorId t : op.inputs) n += Count(t);
  Step(list, n, 1, dtype, kWide);
  Step(list, n, 1, kWide, dtype);
  Step(list, n, 0, kWide, kWide);
}

// The activation's function apart from the product.
void UnfusedKernels::AddGateSteps(const GraphOp& op, KernelList& forward,
                                  KernelList& backward) const {
  const DType dtype = l_.graph().tensor(op.inputs[0]).dtype;
  const int64_t out = Count(op.outputs[0]);
  if (Count(op.inputs[0]) <= out) return;
  Step(forward, out, 1, dtype, dtype);
  Step(backward, out, 2, dtype, dtype);
  Step(backward, out, 1, dtype, dtype);
}

void UnfusedKernels::AddScoreSteps(const GraphOp& op, KernelList& forward,
                                   KernelList& backward) const {
  const DType dtype = l_.graph().tensor(op.inputs[0]).dtype;
  for (int32_t i = 0; i < p_.forms.score_steps; ++i) {
    Step(forward, Count(op.outputs[0]), 1, dtype, dtype);
    Step(backward, Count(op.outputs[0]), 1, dtype, dtype);
  }
}

// Backward also into the gradient of the GEMM that made them all.
void UnfusedKernels::CopyHeads(const GraphOp& op, KernelList& forward, KernelList& backward) const {
  const bool scores = op.kind == GraphOpKind::kScores;
  const int64_t n = scores ? Count(op.inputs[0]) + Count(op.inputs[1]) : Count(op.inputs[1]);
  const DType dtype = l_.graph().tensor(op.inputs[0]).dtype;
  Step(forward, n, 1, dtype, dtype);
  for (int i = 0; i < 2; ++i) Step(backward, n, 1, dtype, dtype);
}

// Of x (1 + tanh(a (x + b x^3))) / 2: power, three products with numbers, two sums, the function;
// the last product reads two. Backward both gradients of the product, of the function, of the
// numbers' products and the power (itself, a number's product, a product), and two sums. One kernel
// of each way is the fused one's.
void UnfusedKernels::AddGeluSteps(const GraphOp& op, KernelList& forward,
                                  KernelList& backward) const {
  const DType dtype = l_.graph().tensor(op.inputs[0]).dtype;
  const int64_t n = Count(op.outputs[0]);
  if (Count(op.inputs[0]) > n) return;  // gated
  if (p_.forms.separate_bias) Step(forward, n, 1, dtype, dtype);
  if (!p_.forms.stepwise_gelu) return;
  for (const int64_t operands : {1, 1, 2, 1, 1, 1, 2}) Step(forward, n, operands, dtype, dtype);
  for (const int64_t operands : {2, 2, 1, 1, 1, 1, 2, 1, 2, 2}) {
    Step(backward, n, operands, dtype, dtype);
  }
}

void UnfusedKernels::AddResidualSteps(const GraphOp& op, KernelList& forward) const {
  const DType dtype = l_.graph().tensor(op.inputs[0]).dtype;
  const int64_t n = Count(op.outputs[0]);
  if (p_.forms.separate_bias) Step(forward, n, 1, dtype, dtype);
  if (p_.forms.separate_dropout && op.outputs.size() > 1) Step(forward, n, 1, dtype, dtype);
}

double UnfusedKernels::SlowerRows() const {
  if (p_.multiprocessors <= 0) return 1;
  const double streams = p_.peak_memory.gbps() * p_.memory_efficiency;
  return std::max(streams / (kRowsOfLogits.gbps() * p_.multiprocessors), 1.0);
}

UnfusedKernels::Logits UnfusedKernels::LogitsOf(const GraphOp& op) const {
  const GraphTensor& logits = l_.graph().tensor(op.inputs[0]);
  const int64_t n = Count(op.inputs[0]);
  const int64_t columns = std::max<int64_t>(l_.sizes().of(logits.axes.back()), 1);
  return {logits.dtype, ElementSize(logits.dtype) < 4, n, {n / columns, columns}};
}

// In the buffer of 32 bits: the cast, each row's largest, the difference, the exponential, its sum,
// the division; backward the product with the loss's gradient and the cast. Compiled, the largest
// is found while casting, and the sum while exponentials are made; backward all is copied before
// the target's entries change, as a compiler does not change a view of what it was given
// (torch/_inductor/fx_passes/reinplace.py, can_inplace), and the last kernel writes both forms.
// Transformer Engine reads each row twice, writes the gradient over it, and scales that backward.
// Step by step PyTorch clears the gradient of the logarithms before the target's is set
// (nll_loss_backward).
void UnfusedKernels::AddLossSteps(const GraphOp& op, KernelList& forward,
                                  KernelList& backward) const {
  const auto [dtype, narrow, n, rows] = LogitsOf(op);
  const LossForm form = l_.loss();
  if (form == LossForm::kFused) return;
  if (form == LossForm::kStepwise) {
    Append(backward, FillOp{n}, kWide);
    return;
  }
  if (form == LossForm::kStepwiseParallel) return AddParallelLossSteps(op, forward, backward);
  forward.clear();
  backward.clear();
  if (form == LossForm::kOverwritten) {
    const double slower = SlowerRows();
    const auto longer = static_cast<int64_t>(slower * static_cast<double>(n));
    Append(forward, ReductionOp{longer / rows.cols, rows.cols}, dtype);
    Step(forward, longer, 1, dtype, dtype);
    Step(backward, longer, 1, dtype, dtype);
    return;
  }
  const bool compiled = form == LossForm::kCompiledInPlace;
  if (narrow) Step(forward, n, 1, dtype, kWide);
  if (!compiled || !narrow) Append(forward, rows, kWide);
  Step(forward, n, 1, kWide, kWide);
  if (!compiled) {
    Step(forward, n, 1, kWide, kWide);
    Append(forward, rows, kWide);
  }
  Step(forward, n, 1, kWide, kWide);
  if (compiled) Step(backward, n, 1, kWide, kWide);
  if (!compiled || !narrow) Step(backward, n, 1, kWide, kWide);
  // Compiled, 4 bytes more are written, here read.
  if (narrow) Step(backward, n, compiled ? 2 : 1, kWide, dtype);
}

// Forward the cast, the largest, what is left of each, exponentials, their sum and the logarithm;
// backward zeros with the targets' places, exponentials, their sum, its product with the loss's
// gradient, and the cast (loss.py, _log_softmax, _nll_loss_and_log_softmax_backward).
void UnfusedKernels::AddParallelLossSteps(const GraphOp& op, KernelList& forward,
                                          KernelList& backward) const {
  const auto [dtype, narrow, n, rows] = LogitsOf(op);
  forward.clear();
  backward.clear();
  if (narrow) Step(forward, n, 1, dtype, kWide);
  Append(forward, rows, kWide);
  Step(forward, n, 1, kWide, kWide);
  Step(forward, n, 1, kWide, kWide);
  Append(forward, rows, kWide);
  Step(forward, n, 1, kWide, kWide);
  Append(backward, FillOp{n}, kWide);
  Step(backward, n, 1, kWide, kWide);
  Step(backward, n, 2, kWide, kWide);
  Step(backward, n, 1, kWide, kWide);
  if (narrow) Step(backward, n, 1, kWide, dtype);
}

void UnfusedKernels::RepeatKeys(const GraphOp& op, KernelList& forward,
                                KernelList& backward) const {
  const DType dtype = l_.graph().tensor(op.inputs[0]).dtype;
  const int64_t queries = Count(op.inputs[0]), keys = Count(op.inputs[1]);
  if (keys >= queries) return;
  for (int i = 0; i < 2; ++i) {
    Append(forward, ElementwiseOp{queries, keys}, dtype);
    Append(backward, ElementwiseOp{keys, queries}, dtype);
  }
}

void UnfusedKernels::CopyGroups(const GraphOp& op, KernelList& forward,
                                KernelList& backward) const {
  const DType dtype = l_.graph().tensor(op.inputs[0]).dtype;
  const int64_t queries = Count(op.inputs[0]), keys = Count(op.inputs[1]);
  // Of latent attention, whose keys' rotated part is a third input, the kernel that rotates also
  // takes values apart from keys, and of queries moves the rotated part alone, which is no more
  // (Megatron Core, fusions/fused_mla_yarn_rope_apply.py).
  if (keys >= queries || op.inputs.size() > 2) return;
  Step(forward, queries, 1, dtype, dtype);
  Step(forward, keys, 1, dtype, dtype);
  Step(backward, queries + 2 * keys, 1, dtype, dtype);
}

}  // namespace foretrace
