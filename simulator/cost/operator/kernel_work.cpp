#include "simulator/cost/operator/kernel_work.h"

#include <algorithm>
#include <array>

#include "simulator/base/enum_names.h"

namespace foretrace {
namespace {

constexpr int64_t kLargest = int64_t{1} << 62;
constexpr int64_t kStatistic = 4;  // saved means and deviations are fp32 whatever the dtype
constexpr int64_t kIndexBytes = 8;

constexpr std::array<std::string_view, 20> kKernelKindNames = {
    "gemm",        "bmm",       "conv2d", "attention", "layer_norm", "batch_norm", "softmax",
    "dropout",     "elementwise", "reduction", "concat", "copy",     "transpose",  "fill",
    "memcpy",      "index",     "pooling", "optimizer", "embedding", "other"};

int64_t SaturatingSum(std::initializer_list<int64_t> terms) {
  int64_t sum = 0;
  for (int64_t t : terms) sum += std::min(std::max<int64_t>(t, 0), kLargest - sum);
  return sum;
}

double Product(std::initializer_list<int64_t> factors) {
  double product = 1;
  for (int64_t f : factors) product *= static_cast<double>(std::max<int64_t>(f, 0));
  return product;
}

int64_t SizeOf(DType dtype) { return std::max<int64_t>(ElementSize(dtype), 1); }

// Expands one operator; each overload of operator() is one shape.
class Expander {
 public:
  Expander(DType dtype, Direction pass) : dtype_(dtype), size_(SizeOf(dtype)), pass_(pass) {}

  KernelList operator()(const LinearOp& op) const {
    if (pass_ == Direction::kForward) return {Gemm(KernelKind::kGemm, 1, op.m, op.n, op.k, op.bias)};
    KernelList list;
    if (op.needs_input_gradient) {
      list.push_back(Gemm(KernelKind::kGemm, 1, op.m, op.k, op.n, false));
    }
    if (op.needs_weight_gradient) {
      list.push_back(Gemm(KernelKind::kGemm, 1, op.n, op.k, op.m, false));
      if (op.bias) list.push_back(ColumnSums(op.n, op.m));
    }
    return list;
  }

  KernelList operator()(const BatchedMatmulOp& op) const {
    if (pass_ == Direction::kForward) {
      return {Gemm(KernelKind::kBatchedGemm, op.b, op.m, op.n, op.k, false)};
    }
    return {Gemm(KernelKind::kBatchedGemm, op.b, op.m, op.k, op.n, false),
            Gemm(KernelKind::kBatchedGemm, op.b, op.k, op.n, op.m, false)};
  }

  KernelList operator()(const Conv2dOp& op) const {
    if (pass_ == Direction::kForward) return {Convolution(op, ConvPass::kForward)};
    KernelList list;
    if (op.needs_input_gradient) list.push_back(Convolution(op, ConvPass::kInputGradient));
    if (!op.needs_weight_gradient) return list;
    list.push_back(Convolution(op, ConvPass::kWeightGradient));
    if (op.bias) list.push_back(ColumnSums(op.k, SaturatingProduct({op.n, op.oh, op.ow})));
    return list;
  }

  KernelList operator()(const AttentionOp& op) const {
    return op.flash ? FlashAttention(op) : PlainAttention(op);
  }

  KernelList operator()(const LayerNormOp& op) const {
    const int64_t elements = SaturatingProduct({op.rows, op.cols});
    const int64_t statistics = SaturatingProduct({2, op.rows, kStatistic});
    if (pass_ == Direction::kForward) {
      // Mean, variance, normalise, scale and shift: 8 FLOP an element.
      return {Rows(KernelKind::kLayerNorm, op.rows, op.cols, 8.0,
                   SaturatingSum({Bytes_(elements), Bytes_(2 * op.cols)}),
                   SaturatingSum({Bytes_(elements), statistics}))};
    }
    // Two kernels: the input's gradient by rows, then gamma's and beta's by columns.
    const int64_t both = SaturatingSum({Bytes_(elements), Bytes_(elements), statistics});
    KernelWork input = Rows(KernelKind::kLayerNorm, op.rows, op.cols, 11.0,
                            SaturatingSum({both, Bytes_(op.cols)}), Bytes_(elements));
    KernelWork weights = Rows(KernelKind::kReduction, op.cols, op.rows, 4.0, both,
                              Bytes_(SaturatingProduct({2, op.cols})));
    weights.across_rows = true;
    return {input, weights};
  }

  KernelList operator()(const SoftmaxOp& op) const {
    const int64_t bytes = Bytes_(SaturatingProduct({op.rows, op.cols}));
    // Forward: max, subtract, exp, sum, divide. Backward: y (dy - sum(y dy)).
    const bool forward = pass_ == Direction::kForward;
    return {Rows(KernelKind::kSoftmax, op.rows, op.cols, forward ? 5.0 : 4.0,
                 forward ? bytes : SaturatingSum({bytes, bytes}), bytes)};
  }

  KernelList operator()(const BatchNormOp& op) const {
    const int64_t per_channel = SaturatingProduct({op.n, op.h, op.w});
    const int64_t bytes = Bytes_(SaturatingProduct({per_channel, op.c}));
    const int64_t statistics = SaturatingProduct({4, op.c, kStatistic});
    // Statistics need the whole channel before it is normalised, hence two passes over the inputs.
    const bool forward = pass_ == Direction::kForward;
    const int64_t pass = forward ? bytes : SaturatingSum({bytes, bytes});
    return {Rows(KernelKind::kBatchNorm, op.c, per_channel, forward ? 8.0 : 11.0,
                 SaturatingSum({pass, pass, statistics}), SaturatingSum({bytes, statistics}))};
  }

  KernelList operator()(const DropoutOp& op) const {
    const int64_t bytes = Bytes_(op.elements);
    const int64_t mask = std::max<int64_t>(op.elements, 0);  // one byte each
    const bool forward = pass_ == Direction::kForward;
    return {Flat(KernelKind::kDropout, Product({op.elements}) * 2,
                 forward ? bytes : SaturatingSum({bytes, mask}),
                 forward ? SaturatingSum({bytes, mask}) : bytes)};
  }

  KernelList operator()(const ElementwiseOp& op) const {
    const int64_t out = op.output_dtype == DType::kUnknown ? size_ : SizeOf(op.output_dtype);
    return {Flat(KernelKind::kElementwise, Product({op.elements}) * op.flop_per_element,
                 Bytes_(op.read_elements), SaturatingProduct({op.elements, op.outputs, out}))};
  }

  KernelList operator()(const ReductionOp& op) const {
    KernelWork work = Reduction(op.rows, op.cols);
    work.across_rows = op.across_rows;
    return {work};
  }

  KernelList operator()(const ConcatOp& op) const {
    KernelWork work = Flat(KernelKind::kConcat, 0, Bytes_(op.elements), Bytes_(op.elements));
    work.parts = std::max<int64_t>(op.parts, 1);
    return {work};
  }

  KernelList operator()(const CopyOp& op) const {
    const int64_t out = op.output_dtype == DType::kUnknown ? size_ : SizeOf(op.output_dtype);
    return {Flat(op.strided ? KernelKind::kTranspose : KernelKind::kCopy, 0,
                 Bytes_(op.elements), SaturatingProduct({op.elements, out}))};
  }

  KernelList operator()(const FillOp& op) const {
    return {Flat(KernelKind::kFill, 0, 0, Bytes_(op.elements))};
  }

  KernelList operator()(const MemcpyOp& op) const {
    KernelWork work = Flat(KernelKind::kMemcpy, 0, op.bytes, op.bytes);
    work.direction = op.direction;
    work.pinned = op.pinned;
    return {work};
  }

  KernelList operator()(const IndexOp& op) const {
    const int64_t indices = SaturatingProduct({op.index_count, kIndexBytes});
    const int64_t bytes = Bytes_(op.elements);
    if (pass_ == Direction::kForward) {
      return {Flat(KernelKind::kIndex, 0, SaturatingSum({bytes, indices}), bytes)};
    }
    // Clear the gradient, then read, add and write each gathered value.
    return {Flat(KernelKind::kFill, 0, 0, Bytes_(op.source_elements)),
            Flat(KernelKind::kIndex, Product({op.elements}), SaturatingSum({bytes, bytes, indices}),
                 bytes)};
  }

  KernelList operator()(const PoolOp& op) const {
    const int64_t in = Bytes_(op.input_elements), out = Bytes_(op.output_elements);
    const int64_t saved = op.saves_indices ? SaturatingProduct({op.output_elements, kIndexBytes}) : 0;
    const double flop = Product({op.output_elements, op.window});
    if (pass_ == Direction::kForward) {
      return {Flat(KernelKind::kPooling, flop, in, SaturatingSum({out, saved}))};
    }
    return {Flat(KernelKind::kPooling, flop, SaturatingSum({out, saved}), in)};
  }

  KernelList operator()(const OpaqueOp& op) const {
    return {Flat(KernelKind::kOther, 0, op.read_bytes, op.written_bytes)};
  }

  KernelList operator()(const OptimizerOp& op) const;
  KernelList operator()(const EmbeddingOp& op) const;

 private:
  enum class ConvPass { kForward, kInputGradient, kWeightGradient };

  int64_t Bytes_(int64_t elements) const { return SaturatingProduct({elements, size_}); }

  KernelWork Flat(KernelKind kind, double flop, int64_t read, int64_t written) const {
    KernelWork work;
    work.kind = kind;
    work.pass = pass_;
    work.dtype = dtype_;
    work.flop = Flop(flop);
    work.read = Bytes(read);
    work.written = Bytes(written);
    return work;
  }

  KernelWork Rows(KernelKind kind, int64_t rows, int64_t cols, double flop_per_element,
                  int64_t read, int64_t written) const {
    KernelWork work = Flat(kind, Product({rows, cols}) * flop_per_element, read, written);
    work.rows = std::max<int64_t>(rows, 0);
    work.cols = std::max<int64_t>(cols, 0);
    return work;
  }

  // `rows` sums of `cols` elements.
  KernelWork Reduction(int64_t rows, int64_t cols) const {
    return Rows(KernelKind::kReduction, rows, cols, 1.0, Bytes_(SaturatingProduct({rows, cols})),
                Bytes_(rows));
  }

  // Sums down the columns of a row-major matrix: `columns` sums of `rows` elements.
  KernelWork ColumnSums(int64_t columns, int64_t rows) const {
    KernelWork work = Reduction(columns, rows);
    work.across_rows = true;
    return work;
  }

  KernelWork Gemm(KernelKind kind, int64_t b, int64_t m, int64_t n, int64_t k, bool bias) const {
    KernelWork work = Flat(kind, 2 * Product({b, m, n, k}) + (bias ? Product({m, n}) : 0),
                           Bytes_(SaturatingSum({SaturatingProduct({b, m, k}),
                                                 SaturatingProduct({b, k, n}), bias ? n : 0})),
                           Bytes_(SaturatingProduct({b, m, n})));
    work.batch = b;
    work.m = m;
    work.n = n;
    work.k = k;
    return work;
  }

  KernelWork Convolution(const Conv2dOp& op, ConvPass pass) const;
  KernelList FlashAttention(const AttentionOp& op) const;
  KernelList PlainAttention(const AttentionOp& op) const;

  DType dtype_;
  int64_t size_;
  Direction pass_;
};

KernelWork Expander::Convolution(const Conv2dOp& op, ConvPass pass) const {
  const int64_t groups = std::max<int64_t>(op.groups, 1);
  const int64_t in = SaturatingProduct({op.n, op.c, op.h, op.w});
  const int64_t filters = SaturatingProduct({op.k, op.c / groups, op.r, op.s});
  const int64_t out = SaturatingProduct({op.n, op.k, op.oh, op.ow});
  const double flop = 2 * Product({op.n, op.k, op.oh, op.ow, op.c / groups, op.r, op.s});
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
  work.images = pass == ConvPass::kWeightGradient ? 0 : op.n;
  return work;
}

KernelList Expander::FlashAttention(const AttentionOp& op) const {
  const int64_t q = SaturatingProduct({op.b, op.heads, op.sq, op.d});
  const int64_t kv = SaturatingProduct({op.b, op.kv_heads, op.skv, op.d});
  const int64_t lse = SaturatingProduct({op.b, op.heads, op.sq, kStatistic});
  // Causal masks leave the lower triangle, counted as half of the scores.
  const double scores = Product({op.b, op.heads, op.sq, op.skv}) * (op.causal ? 0.5 : 1.0);
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

KernelList Expander::PlainAttention(const AttentionOp& op) const {
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

// Elementary steps of the unfused Adam: m.mul_, m.add_(g), v.mul_, v.addcmul_(g, g), sqrt, div,
// add_(eps), p.addcdiv_(m, d); elements moved by each, in units of the parameter count.
KernelList Expander::operator()(const OptimizerOp& op) const {
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
      KernelWork work = Flat(KernelKind::kOptimizer, Product({op.params}) * step.flop,
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
    case OptimizerKind::kSgdMomentum: return expand(kMomentum, Step{3, 2, 4});
    case OptimizerKind::kAdam: return expand(kAdam, Step{4, 3, 13});
    case OptimizerKind::kAdagrad: return expand(kAdagrad, Step{3, 2, 8});
    default: return expand(kSgd, Step{2, 1, 2});
  }
}

KernelList Expander::operator()(const EmbeddingOp& op) const {
  const int64_t gathered = Bytes_(SaturatingProduct({op.lookups, op.dim}));
  const int64_t pooled = Bytes_(SaturatingProduct({op.bags, op.dim}));
  const int64_t indices = SaturatingSum({SaturatingProduct({op.lookups, kIndexBytes}),
                                         SaturatingProduct({op.bags, kIndexBytes})});
  const double flop = Product({op.lookups, op.dim});
  KernelWork work;
  if (pass_ == Direction::kForward) {
    work = Flat(KernelKind::kEmbedding, flop, SaturatingSum({gathered, indices}), pooled);
  } else {
    // Each lookup reads its bag's gradient; each distinct row is read, updated and written once,
    // with its optimizer state.
    const int64_t unique = op.unique_rows > 0 ? op.unique_rows : op.lookups;
    const int64_t rows = Bytes_(SaturatingProduct({unique, op.dim}));
    const bool state = op.fused_update && op.optimizer != OptimizerKind::kSgd;
    const int64_t per_state =
        op.rowwise ? SaturatingProduct({unique, kStatistic}) : rows;
    const int64_t states = !state ? 0
                           : op.optimizer == OptimizerKind::kAdam
                               ? SaturatingSum({per_state, per_state})
                               : per_state;
    work = Flat(KernelKind::kEmbedding, flop + 4 * Product({unique, op.dim}),
                SaturatingSum({gathered, indices, op.fused_update ? rows : 0, states}),
                SaturatingSum({rows, states}));
  }
  work.rows = op.bags;
  work.cols = op.dim;
  return {work};
}

}  // namespace

int64_t SaturatingProduct(std::initializer_list<int64_t> factors) {
  int64_t product = 1;
  for (int64_t f : factors) {
    if (f <= 0) return 0;
    product = product > kLargest / f ? kLargest : product * f;
  }
  return product;
}

std::string_view Name(KernelKind kind) { return EnumName(kKernelKindNames, kind); }

KernelKind ParseKernelKind(std::string_view name) {
  for (size_t i = 0; i < kKernelKindNames.size(); ++i) {
    if (kKernelKindNames[i] == name) return static_cast<KernelKind>(i);
  }
  return KernelKind::kOther;
}

int64_t ConvOutputSize(int64_t size, int64_t filter, int64_t stride, int64_t pad,
                       int64_t dilation) {
  const int64_t room = size + 2 * pad - dilation * (filter - 1) - 1;
  return room < 0 ? 0 : room / stride + 1;
}

KernelList Kernels(const OperatorCall& op) {
  return std::visit(Expander(op.dtype, op.pass), op.shape);
}

OperatorWork TotalWork(const OperatorCall& op) {
  OperatorWork total;
  for (const KernelWork& work : Kernels(op)) {
    total.flop += work.flop;
    total.bytes = Bytes(SaturatingSum({total.bytes.count(), work.read.count(),
                                       work.written.count()}));
    total.launches += work.launches;
  }
  return total;
}

}  // namespace foretrace
