#include <algorithm>
#include <cmath>

#include "simulator/cost/operator/kernel_expander.h"

namespace foretrace {

KernelWork AcrossReduction(KernelWork gemm, int operands) {
  constexpr int64_t kWidestBytes = 16;
  gemm.across_reduction = operands;
  if (operands < 2) return gemm;
  const int64_t widest = std::max<int64_t>(kWidestBytes / ElementSize(gemm.dtype), 1);
  const auto together = [](int64_t sizes) { return sizes & -sizes; };
  const int64_t loaded = std::min(together(gemm.m | gemm.n), widest);
  if (together(gemm.n | gemm.k) < loaded) gemm.load_elements = loaded;
  return gemm;
}

KernelList KernelExpander::operator()(const LinearOp& op) const {
  if (pass_ == Direction::kForward) {
    KernelWork work = Gemm(KernelKind::kGemm, 1, op.m, op.n, op.k, op.bias);
    work.block_scaled = op.block_scaled;
    return {work};
  }
  KernelList list;
  if (op.needs_input_gradient) {
    list.push_back(  // across weights
        AcrossReduction(Gemm(KernelKind::kGemm, 1, op.m, op.k, op.n, false), 1));
  }
  if (op.needs_weight_gradient) {
    list.push_back(AcrossReduction(Gemm(KernelKind::kGemm, 1, op.n, op.k, op.m, false), 2));
    if (op.bias) list.push_back(ColumnSums(op.n, op.m));
  }
  return list;
}

KernelList KernelExpander::operator()(const BatchedMatmulOp& op) const {
  if (pass_ == Direction::kForward) {
    KernelWork work = Gemm(KernelKind::kBatchedGemm, op.b, op.m, op.n, op.k, false);
    work.read += Bytes(op.read_beside);
    work.written += Bytes(op.written_beside);
    work.flop = Flop(work.flop.count() + 2 * RealProduct({op.b, op.products_beside}));
    work.turns = op.turns;
    return {AcrossReduction(work, 1)};
  }
  return {Gemm(KernelKind::kBatchedGemm, op.b, op.m, op.k, op.n, false),
          AcrossReduction(Gemm(KernelKind::kBatchedGemm, op.b, op.k, op.n, op.m, false), 2)};
}

KernelList KernelExpander::operator()(const Conv2dOp& op) const {
  if (pass_ == Direction::kForward) return {Convolution(op, ConvPass::kForward)};
  KernelList list;
  if (op.needs_input_gradient) list.push_back(Convolution(op, ConvPass::kInputGradient));
  if (!op.needs_weight_gradient) return list;
  list.push_back(Convolution(op, ConvPass::kWeightGradient));
  if (op.bias) list.push_back(ColumnSums(op.k, SaturatingProduct({op.n, op.oh, op.ow})));
  return list;
}

KernelList KernelExpander::operator()(const AttentionOp& op) const {
  return op.flash ? FlashAttention(op) : PlainAttention(op);
}

KernelWork KernelExpander::Gemm(KernelKind kind, int64_t b, int64_t m, int64_t n, int64_t k,
                                bool bias) const {
  KernelWork work = Flat(kind, 2 * RealProduct({b, m, n, k}) + (bias ? RealProduct({m, n}) : 0),
                         Bytes_(SaturatingSum({SaturatingProduct({b, m, k}),
                                               SaturatingProduct({b, k, n}), bias ? n : 0})),
                         Bytes_(SaturatingProduct({b, m, n})));
  work.batch = b;
  work.m = m;
  work.n = n;
  work.k = k;
  work.adds_bias = bias;
  return work;
}

KernelWork KernelExpander::Convolution(const Conv2dOp& op, ConvPass pass) const {
  const int64_t groups = std::max<int64_t>(op.groups, 1);
  const int64_t in = SaturatingProduct({op.n, op.c, op.h, op.w});
  const int64_t filters = SaturatingProduct({op.k, op.c / groups, op.r, op.s});
  const int64_t out = SaturatingProduct({op.n, op.k, op.oh, op.ow});
  const double flop = 2 * RealProduct({op.n, op.k, op.oh, op.ow, op.c / groups, op.r, op.s});
  const int64_t pixels = SaturatingProduct({op.n, op.oh, op.ow});
  const int64_t depth = SaturatingProduct({op.c / groups, op.r, op.s});
  int64_t read = SaturatingSum({in, filters, op.bias ? op.k : 0}), written = out;
  int64_t m = pixels, n = op.k / groups, k = depth;
  if (pass == ConvPass::kInputGradient) {
    read = SaturatingSum({out, filters});
    written = in;
    m = SaturatingProduct({op.n, op.h, op.w});
    n = op.c / groups;
    k = SaturatingProduct({op.k / groups, op.r, op.s});
    // A stride skips inputs: of an input's filters only those that met it count.
    if (SaturatingProduct({op.oh, op.ow}) < SaturatingProduct({op.h, op.w}) && flop > 0) {
      k = std::max<int64_t>(1, std::llround(flop / 2 / RealProduct({m, n, groups})));
    }
  } else if (pass == ConvPass::kWeightGradient) {
    read = SaturatingSum({in, out});
    written = filters;
    m = op.k / groups;
    n = depth;
    k = pixels;
  }
  const bool adds_bias = op.bias && pass == ConvPass::kForward;
  KernelWork work =
      Flat(KernelKind::kConvolution, flop + (adds_bias ? static_cast<double>(out) : 0.0),
           Bytes_(read), Bytes_(written));
  work.batch = groups;
  work.m = m;
  work.n = n;
  work.k = k;
  work.filter_h = op.r;
  work.filter_w = op.s;
  work.stride = op.oh > 0 ? std::max<int64_t>(1, (op.h + op.oh / 2) / op.oh) : 1;
  work.image = op.h;
  work.channels = op.c;
  work.images = op.n;
  work.weight_gradient = pass == ConvPass::kWeightGradient;
  return work;
}

KernelList KernelExpander::FlashAttention(const AttentionOp& op) const {
  const int64_t q = SaturatingProduct({op.b, op.heads, op.sq, op.d});
  const int64_t kv = SaturatingProduct({op.b, op.kv_heads, op.skv, op.d});
  const int64_t lse = SaturatingProduct({op.b, op.heads, op.sq, kStatisticBytes});
  // Causal masks leave the lower triangle, counted as half of the scores.
  const double scores = RealProduct({op.b, op.heads, op.sq, op.skv}) * (op.causal ? 0.5 : 1.0);
  const double matmul = 2 * scores * static_cast<double>(std::max<int64_t>(op.d, 0));
  KernelWork work;
  if (pass_ == Direction::kForward) {
    // Q K^T and P V.
    work = Flat(KernelKind::kAttention, 2 * matmul, Bytes_(SaturatingSum({q, kv, kv})),
                SaturatingSum({Bytes_(q), lse}));
  } else {
    // Scores again, then dV, dP, dQ and dK: five matmuls (FlashAttention, section 3.2).
    work = Flat(KernelKind::kAttention, 5 * matmul,
                SaturatingSum({Bytes_(SaturatingSum({q, q, q, kv, kv})), lse, lse}),
                Bytes_(SaturatingSum({q, kv, kv})));
  }
  work.batch = SaturatingProduct({op.b, op.heads});
  work.m = op.sq;
  work.n = op.skv;
  work.k = op.d;
  return {work};
}

KernelList KernelExpander::PlainAttention(const AttentionOp& op) const {
  // Grouped keys and values are expanded to all heads, as the plain implementations do.
  const int64_t b = SaturatingProduct({op.b, op.heads});
  const SoftmaxOp softmax{SaturatingProduct({b, op.sq}), op.skv};
  const int64_t scores = SaturatingProduct({b, op.sq, op.skv});
  KernelList list;
  const auto append = [&list](const KernelList& more) {
    list.insert(list.end(), more.begin(), more.end());
  };
  const BatchedMatmulOp qk{b, op.sq, op.skv, op.d}, pv{b, op.sq, op.d, op.skv};
  // Scaling, and with a causal mask adding it, is one point-wise pass over the scores.
  const ElementwiseOp scale{scores, scores, 1, op.causal ? 2.0 : 1.0};
  if (pass_ == Direction::kForward) {
    append((*this)(qk));
    append((*this)(scale));
    append((*this)(softmax));
    append((*this)(pv));
  } else {
    append((*this)(pv));
    append((*this)(softmax));
    append((*this)(scale));
    append((*this)(qk));
  }
  return list;
}

}  // namespace foretrace
