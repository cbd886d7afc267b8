#include "simulator/mapping/operand_casts.h"

#include "simulator/mapping/expert_kernels.h"

namespace foretrace {
namespace {

// By how much compiled kernels that go down columns, and write what they cast the other way round,
// are slower than those that go along rows. Llama 3 8B on eight H100 takes 16.5 us a token and
// device longer with scales by row than by tensor (torchtitan, commit 3537666: 6,424 and 7,186
// tokens a second), and 17.7 (torchao, docs/source/workflows/training.md: 6,768 and 7,689.5). GEMMs
// by row are taken to be as fast as others, so that all of it is casts down columns, which scales
// by tensor do without.
constexpr double kDownColumns = 2.6;

}  // namespace

bool TakesCasts(const GraphOp& op) {
  return op.kind == GraphOpKind::kMatmul && op.in_block && op.name != "router";
}

CastTimes OperandCasts::Of(const GraphOp& op, bool trained) const {
  if (!m_.narrow()) return {};
  if (m_.fp8 && p_.scaled_by_row) return ByRow(op, trained);
  CastTimes times = m_.fp8 && p_.dynamic_scaling ? ByTensor(op, trained) : InOneKernel(op, trained);
  if (!RunsFused(op, l_, m_, p_)) return times;
  // The kernels of the GEMMs before, each way, have cast these.
  (op.name == "ffn down" ? times.forward : times.backward) = 0;
  return times;
}

OperandCasts::Operand OperandCasts::OperandOf(TensorId t, RegionEdge gathered) const {
  Operand operand;
  operand.own = operand.whole = Elements(l_.graph(), l_.sizes(), t);
  operand.dtype = l_.graph().tensor(t).dtype;
  if (gathered == RegionEdge::kNone || !m_.sequence_parallel) return operand;
  operand.whole *= m_.tensor;
  operand.cast_before = GathersCast(gathered, m_, p_);
  return operand;
}

// Forward the input is gathered of a GEMM that enters the tensor-parallel region, backward the
// output's gradient of one that leaves it.
std::pair<RegionEdge, RegionEdge> OperandCasts::GatheredAt(const GraphOp& op) const {
  const RegionEdge edge = EdgeOf(l_, op);
  const auto only = [&](RegionEdge one) { return edge == one ? one : RegionEdge::kNone; };
  return {only(RegionEdge::kEnters), only(RegionEdge::kLeaves)};
}

// Forward the input, backward the output's gradient are cast to 8 bits, and transposed for the
// other GEMM that takes them: two bytes read, two written (Transformer Engine, cast_transpose);
// what is gathered is cast before and transposed behind (pytorch/module/base.py,
// grad_output_preprocess; layernorm_linear.py). Weights are cast once an iteration. By blocks the
// same kernel finds and writes their scales, a byte for 32 values in each order, and both orders
// are gathered; of NVFP4 a byte for 16 values of half a byte, after a kernel that finds the
// tensor's largest magnitude (Transformer Engine, MXFP8BlockScaling and NVFP4BlockScaling of
// common/recipe; NVIDIA, 2025, Pretraining Large Language Models with NVFP4, section 4: forward,
// input gradient and weight gradient all in 4 bits).
CastTimes OperandCasts::InOneKernel(const GraphOp& op, bool trained) const {
  const auto [entered, left] = GatheredAt(op);
  // The other order is of the weights' gradient.
  const int64_t orders = trained ? 2 : 1;
  const auto cast = [&](const Operand& o) {
    if (m_.fp8 && o.cast_before) {
      return Cast(o.own, 1, o.dtype) + (trained ? Transpose(o.whole) : 0);
    }
    const int64_t n = o.cast_before ? o.own : o.whole;
    return Cast(n, orders, o.dtype) + (m_.nvfp4 ? Largest(n, o.dtype) : 0);
  };
  CastTimes times;
  times.forward = cast(OperandOf(op.inputs[0], entered));
  for (const TensorId t : op.outputs) {
    times.backward += cast(OperandOf(t, left));
  }
  return times;
}

// The scale of a whole tensor is its largest magnitude, which a kernel of its own finds. Operands
// are kept in 16 bits, and the input and the weights scaled and cast again for the backward pass
// (torchao, float8/float8_linear.py, matmul_with_hp_or_float8_args); the output's gradient is
// cast in both orders. What is gathered is cast before, kept so, and transposed behind
// (float8_tensor_parallel.py). Weights that are gathered in 8 bits were cast while divided.
CastTimes OperandCasts::ByTensor(const GraphOp& op, bool trained) const {
  const OperatorGraph& g = l_.graph();
  const auto [entered, left] = GatheredAt(op);
  const auto cast = [&](int64_t n, int64_t orders, DType dtype) {
    return Largest(n, dtype) + Cast(n, orders, dtype);
  };
  CastTimes times;
  for (const TensorId t : op.inputs) {
    const bool weight = g.tensor(t).role == TensorRole::kWeight;
    if (weight && (p_.eight_bit_gathers || g.tensor(t).axes.size() < 2)) continue;
    const Operand o = OperandOf(t, weight ? RegionEdge::kNone : entered);
    const double seconds = cast(o.cast_before ? o.own : o.whole, 1, o.dtype);
    times.forward += seconds;
    if (!weight && !trained) continue;
    times.backward += o.cast_before ? Transpose(o.whole) : seconds;
  }
  for (const TensorId t : op.outputs) {
    const Operand o = OperandOf(t, left);
    times.backward +=
        o.cast_before ? cast(o.own, 1, o.dtype) + Transpose(o.whole) : cast(o.whole, 2, o.dtype);
  }
  return times;
}

// A scale for each row of what a GEMM sums over: forward along the rows of the input and of the
// weights, backward down their columns, and of the output's gradient both. Along rows one kernel
// finds the scales and casts; down columns two do. All of it of what was gathered in 16 bits
// (torchtitan, parallelize.py, apply_tp: float8 gathers with scales by tensor alone).
CastTimes OperandCasts::ByRow(const GraphOp& op, bool trained) const {
  const OperatorGraph& g = l_.graph();
  const auto [entered, left] = GatheredAt(op);
  const auto down = [&](const Operand& o) {
    return kDownColumns * (Largest(o.whole, o.dtype) + Cast(o.whole, 1, o.dtype));
  };
  CastTimes times;
  for (const TensorId t : op.inputs) {
    const bool weight = g.tensor(t).role == TensorRole::kWeight;
    if (weight && g.tensor(t).axes.size() < 2) continue;
    const Operand o = OperandOf(t, weight ? RegionEdge::kNone : entered);
    times.forward += Cast(o.whole, 1, o.dtype);
    if (weight || trained) times.backward += down(o);
  }
  for (const TensorId t : op.outputs) {
    const Operand o = OperandOf(t, left);
    times.backward += Cast(o.whole, 1, o.dtype) + (trained ? down(o) : 0);
  }
  return times;
}

double OperandCasts::Cast(int64_t n, int64_t orders, DType dtype) const {
  ElementwiseOp call;
  call.read_elements = n;
  call.elements = m_.nvfp4 ? n / 2 + n / 16 : m_.mxfp8 ? n + n / 32 : n;
  call.outputs = orders;
  call.output_dtype = DType::kUInt8;
  return Call(call, dtype);
}

double OperandCasts::Largest(int64_t n, DType dtype) const {
  return Call(ReductionOp{1, n}, dtype);
}

double OperandCasts::Transpose(int64_t n) const { return Call(ElementwiseOp{n, n}, DType::kUInt8); }

}  // namespace foretrace
