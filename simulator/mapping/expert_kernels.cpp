#include "simulator/mapping/expert_kernels.h"

#include <algorithm>

#include "simulator/base/dtype.h"
#include "simulator/cost/operator/element_work.h"
#include "simulator/mapping/kernel_lists.h"

namespace foretrace {
namespace {

// Kernels over a number for each token and expert, which hardly have work (Megatron Core v0.9,
// transformer/moe/router.py and moe_utils.py). Forward: largest of a token and their order (3),
// their softmax and its cast (2), both masks, each cleared, copied and written (6), largest of an
// expert with a copy before (2), its mask (3), copies of both results (2), tokens of each expert
// (1), the loss: softmax, sum, product, sum, scale, division for its record (6) and that record
// (2). Backward: of the loss its scale, two products, a softmax (5), of the choices gathered and
// scattered gradients, two cleared buffers (6), their casts and softmax (3), the sum of both ways
// (1), the router's weights' own sum (1).
constexpr int kChoicesForward = 27, kChoicesBackward = 16;
// Of these, what only experts have that are padded: the largest of an expert, its mask, copies of
// both results; backward the gradient through that mask.
constexpr int kPaddingForward = 7, kPaddingBackward = 1;

// Each of a batch of GEMMs by itself.
void Divide(KernelList& list) {
  KernelList divided;
  for (const KernelWork& work : list) {
    const int64_t count = work.kind == KernelKind::kBatchedGemm ? work.batch : 1;
    KernelWork each = work;
    if (count > 1) {
      each.kind = KernelKind::kGemm;
      each.batch = 1;
      each.flop = Flop(work.flop.count() / static_cast<double>(count));
      each.read = Bytes(work.read.count() / count);
      each.written = Bytes(work.written.count() / count);
    }
    for (int64_t i = 0; i < count; ++i) divided.push_back(each);
  }
  list = divided;
}

}  // namespace

bool RunsFused(const GraphOp& op, const MappedLayer& layer, const ParallelMapping& m,
               const ClusterParameters& cluster) {
  if (!cluster.forms.fused_experts || !m.mxfp8 || !op.in_block) return false;
  if (layer.sizes().of(layer.axes().experts) < 1) return false;
  return op.name == "ffn up" || op.name == "activation" || op.name == "ffn down";
}

void ExpertKernels::Apply(const GraphOp& op, KernelList& forward, BackwardWork& backward) const {
  if (l_.sizes().of(l_.axes().experts) < 1 || !op.in_block) return;
  if (RunsFused(op, l_, m_, p_)) {
    if (op.name != "activation") return;
    forward.clear();
    backward.input.clear();
    return;
  }
  if (op.kind == GraphOpKind::kMatmul) OneByOne(op, forward, backward);
  if (p_.forms.stepwise_expert_biases) {
    if (op.name == "ffn down" && op.inputs.size() > 2) AddBiases(op, forward, backward.input);
    if (op.name == "activation" && l_.clamped()) Clamp(op, forward, backward.input);
  }
  const bool padded = p_.forms.padded_experts, stepwise = p_.forms.stepwise_choices;
  if (op.name == "router softmax" && (padded || stepwise)) {
    ChooseTokens(op, forward, backward.input);
  }
  if (!padded) return;
  if (op.name == "dispatch") GatherRows(op, forward, backward.input);
  if (op.name == "combine") AddUp(op, forward, backward.input);
}

// Grouped layers start a GEMM for each expert (Transformer Engine, common/gemm/cublaslt_gemm.cu,
// nvte_multi_stream_cublas_gemm), which take as long as those GEMMs by themselves: on a B200,
// 20 to 256 experts of 128 to 9,832 tokens -34 to +49 % by shape, +1 % in the mean (SimuMax's two
// tables, efficiency_group_matmul and efficiency_matmul). Batches that were measured say more.
bool ExpertKernels::RunsOneByOne(const KernelWork& batch) const {
  return p_.measured != nullptr &&
         p_.measured->KernelTime(batch).source != EstimateSource::kCalibrated;
}

void ExpertKernels::OneByOne(const GraphOp& op, KernelList& forward, BackwardWork& backward) const {
  const int64_t experts = l_.sizes().of(l_.axes().experts);
  const auto batched = [&](const KernelWork& work) {
    return work.kind == KernelKind::kBatchedGemm && work.batch == experts;
  };
  const auto found = std::find_if(forward.begin(), forward.end(), batched);
  if (experts < 2 || found == forward.end()) return;
  if (p_.forms.grouped_experts) return;
  const bool alone = p_.forms.sequential_experts || p_.forms.looped_experts;
  if (!alone && !RunsOneByOne(*found)) return;
  Divide(forward);
  Divide(backward.input);
  Divide(backward.weights);
  if (!p_.forms.sequential_experts || op.name != "ffn down") return;
  const int64_t n = CountAtExperts(op.outputs[0]);
  const DType dtype = l_.graph().tensor(op.outputs[0]).dtype;
  Append(forward, ElementwiseOp{n, n}, dtype);
  Append(backward.input, ElementwiseOp{n, n}, dtype);
}

int64_t ExpertKernels::CountAtExperts(TensorId id) const {
  const int64_t each = Count(id) / std::max<int64_t>(l_.sizes().of(l_.axes().stream_routed), 1);
  return each * l_.sizes().of(l_.axes().routed);
}

// Of each expert its bias times its tokens' weights, in the 32 bits of these, and the sum with what
// the GEMM gave; all of them put together, and cast. Backward the cast; of each expert the gradient
// of what its GEMM gave, cast, that of the product times the weights, whose sum over tokens is the
// bias's gradient, and times the bias, whose sum over a row is the weight's; all put together.
void ExpertKernels::AddBiases(const GraphOp& op, KernelList& forward, KernelList& backward) const {
  const DType own = l_.graph().tensor(op.outputs[0]).dtype, wide = DType::kFloat32;
  const int64_t experts = l_.sizes().of(l_.axes().experts);
  const int64_t n = CountAtExperts(op.outputs[0]);
  const int64_t rows = std::max<int64_t>(l_.sizes().of(l_.axes().routed), 1);
  const int64_t part = std::max<int64_t>(n / experts, 1), tokens = (rows + experts - 1) / experts;
  const int64_t width = std::max<int64_t>(n / rows, 1), as_wide = part * ElementSize(own) / 4;
  ElementwiseOp narrow{n, n}, narrow_part{part, part}, widen{n, n};
  narrow.output_dtype = narrow_part.output_dtype = own;
  widen.output_dtype = wide;
  for (int64_t i = 0; i < experts; ++i) {
    Append(forward, ElementwiseOp{part, tokens + width}, wide);
    Append(forward, ElementwiseOp{part, part + as_wide}, wide);
  }
  Append(forward, ConcatOp{n, experts}, wide);
  Append(forward, narrow, wide);
  Append(backward, widen, own);
  for (int64_t i = 0; i < experts; ++i) {
    Append(backward, narrow_part, wide);
    Append(backward, ElementwiseOp{part, part + tokens}, wide);
    Append(backward, ReductionOp{width, tokens, true}, wide);
    Append(backward, ElementwiseOp{part, part + width}, wide);
    Append(backward, ReductionOp{tokens, width}, wide);
  }
  Append(backward, ConcatOp{n, experts}, own);
}

// Both halves of what a gated activation takes, one from above alone, put together; backward masks
// of one and of two comparisons, gradients by these, put together.
void ExpertKernels::Clamp(const GraphOp& op, KernelList& forward, KernelList& backward) const {
  const DType dtype = l_.graph().tensor(op.outputs[0]).dtype;
  const int64_t n = Count(op.outputs[0]);
  ElementwiseOp mask{n, n};
  mask.output_dtype = DType::kUInt8;
  for (int half = 0; half < 2; ++half) Append(forward, ElementwiseOp{n, n}, dtype);
  Append(forward, ConcatOp{2 * n, 2}, dtype);
  for (int i = 0; i < 3; ++i) Append(backward, mask, dtype);
  Append(backward, ElementwiseOp{n, 2 * n}, DType::kUInt8);
  for (int half = 0; half < 2; ++half) {
    Append(backward, ElementwiseOp{n, n + n / std::max<int64_t>(ElementSize(dtype), 1)}, dtype);
  }
  Append(backward, ConcatOp{2 * n, 2}, dtype);
}

void ExpertKernels::ChooseTokens(const GraphOp& op, KernelList& forward,
                                 KernelList& backward) const {
  const int64_t n = Count(op.inputs[0]);
  const bool padded = p_.forms.padded_experts;
  const auto append = [&](KernelList& list, int count) {
    for (int i = 0; i < count; ++i) Append(list, ElementwiseOp{n, n}, DType::kFloat32);
  };
  append(forward, kChoicesForward - (padded ? 0 : kPaddingForward));
  append(backward, kChoicesBackward - (padded ? 0 : kPaddingBackward));
}

// index_select; backward its gradient is added row by row to a cleared one, which the graph has.
void ExpertKernels::GatherRows(const GraphOp& op, KernelList& forward, KernelList& backward) const {
  const auto instructions = GatherInstructions(static_cast<double>(Count(op.outputs[0])));
  for (KernelList* list : {&forward, &backward}) {
    for (KernelWork& work : *list) {
      if (work.kind == KernelKind::kIndex || work.kind == KernelKind::kEmbedding) {
        work.instructions = instructions;
      }
    }
  }
}

// Results times their weights, scatter_add into a cleared tensor (moe_utils.py,
// unpermute_with_padded_tokens). Backward its gradient is gathered, multiplied with the weights,
// and with the results, whose sum by row is the weights'.
void ExpertKernels::AddUp(const GraphOp& op, KernelList& forward, KernelList& backward) const {
  const DType dtype = l_.graph().tensor(op.inputs[0]).dtype;
  const int64_t n = Count(op.inputs[0]), tokens = Count(op.outputs[0]);
  const int64_t routed = std::max<int64_t>(l_.sizes().of(l_.axes().stream_routed), 1);
  const double scattered = StridedInstructions(static_cast<double>(n), 2, 3);
  forward.clear();
  Append(forward, ElementwiseOp{n, n}, dtype);
  Append(forward, FillOp{tokens}, dtype);
  Append(forward, ElementwiseOp{tokens, n + tokens}, dtype, Direction::kForward, scattered);
  backward.clear();
  Append(backward, ElementwiseOp{n, tokens}, dtype, Direction::kForward, scattered);
  Append(backward, ElementwiseOp{n, n}, dtype);
  Append(backward, ElementwiseOp{n, 2 * n}, dtype);
  Append(backward, ReductionOp{routed, n / routed}, dtype);
}

}  // namespace foretrace
