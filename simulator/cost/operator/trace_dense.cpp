// GEMMs, convolutions and attention from the shapes of framework calls.

#include <algorithm>

#include "simulator/cost/operator/trace_call.h"

namespace foretrace::trace_call {
namespace {

// The last dimensions of an image or a filter as rows and columns: of one, a single row; of three,
// the first two in one, which keeps FLOP, bytes and the implicit GEMM.
struct Plane {
  int64_t rows = 1, columns = 1;
};
Plane PlaneOf(const TensorShape& t) {
  const auto dims = t.dims.subspan(2);
  Plane plane{1, dims.back()};
  for (const int64_t d : dims.first(dims.size() - 1)) {
    plane.rows = SaturatingProduct({plane.rows, d});
  }
  return plane;
}

// Whether a convolution of `x` with a result like `dy` is a transposed one: its filters [c, k /
// groups, r, s] have the input's channels first. Where those are as many as the result's, it is
// taken for one if the result is larger.
bool IsTransposed(const TensorShape& x, const TensorShape& w, const TensorShape& dy) {
  if (x.dims.size() < 3 || dy.dims.size() != x.dims.size() || w.dims.size() != x.dims.size()) {
    return false;
  }
  const auto area = [](const TensorShape& t) {
    return SaturatingProduct({PlaneOf(t).rows, PlaneOf(t).columns});
  };
  if (x.dims[1] != w.dims[0]) return false;
  constexpr int64_t kLarger = 2;  // than padding makes it
  return dy.dims[1] != w.dims[0] || area(dy) >= SaturatingProduct({kLarger, area(x)});
}

// Over one to three dimensions.
Result Convolution(const TensorShape& x, const TensorShape& w, const TensorShape* y, bool bias,
                   const Call& call, Direction pass) {
  const size_t rank = x.dims.size();
  if (rank < 3 || rank > 5 || w.dims.size() != rank || w.dims[1] <= 0) return std::nullopt;
  const Plane image = PlaneOf(x), filter = PlaneOf(w);
  Conv2dOp op{x.dims[0], x.dims[1],   image.rows,    image.columns,
              w.dims[0], filter.rows, filter.columns};
  op.groups = std::max<int64_t>(1, op.c / w.dims[1]);
  op.bias = bias;
  TracedOperator traced = Traced(op, call, pass);
  auto& shape = std::get<Conv2dOp>(traced.op.shape);
  if (y != nullptr && y->dims.size() == rank) {
    const Plane result = PlaneOf(*y);
    shape.oh = result.rows;
    shape.ow = result.columns;
  } else {
    // Stride 1 with "same" padding, the commonest case.
    shape.oh = op.h;
    shape.ow = op.w;
    traced.assumed = true;
  }
  return traced;
}

// Sequences one after the other, [tokens, heads, d], where each ends behind them; all are taken to
// be of one length.
Result PackedAttention(const Call& call, size_t first, Direction pass) {
  const auto &q = call.in[first].dims, &k = call.in[first + 1].dims;
  const auto ends =
      std::find_if(call.in.begin() + static_cast<std::ptrdiff_t>(first) + 3, call.in.end(),
                   [](const TensorShape& t) {
                     return t.dims.size() == 1 && t.dtype == DType::kInt32 && t.dims[0] > 1;
                   });
  const int64_t sequences = ends == call.in.end() ? 1 : ends->dims[0] - 1;
  TracedOperator traced = Traced(
      AttentionOp{sequences, q[1], k[1], q[0] / sequences, k[0] / sequences, q[2]}, call, pass);
  traced.assumed = true;
  return traced;
}

// Whether `c` has the sizes of a x b, of matrices or batches of them.
bool IsProduct(const TensorShape& a, const TensorShape& b, const TensorShape& c) {
  const size_t last = a.dims.size() - 1;
  return a.dims[last] == b.dims[last - 1] && c.dims[last - 1] == a.dims[last - 1] &&
         c.dims[last] == b.dims[last];
}

// The factors of a product among a call's tensors of `rank` dimensions: the last two, as the addend
// of addmm comes before them, unless a tensor to write to comes behind. Calls with "out=" have the
// operator's name, and that tensor as their last argument (PyTorch's native_functions.yaml); the
// code that its compiler generates makes all its GEMMs so (extern_kernels.mm). Both can be had of
// one call only where all its matrices are square.
std::optional<std::pair<TensorShape, TensorShape>> FactorsOf(const Call& call, size_t rank) {
  Tensors of_rank;
  for (const TensorShape& t : call.in) {
    if (t.dims.size() == rank) of_rank.push_back(t);
  }
  size_t n = of_rank.size();
  if (n >= 3 && IsProduct(of_rank[n - 3], of_rank[n - 2], of_rank[n - 1])) --n;
  if (n < 2 || of_rank[n - 2].dims[rank - 1] != of_rank[n - 1].dims[rank - 2]) return std::nullopt;
  return std::pair(of_rank[n - 2], of_rank[n - 1]);
}

}  // namespace

// [m,k] x [k,n].
Result Matmul(const Call& call, bool bias) {
  const auto factors = FactorsOf(call, 2);
  if (!factors) return std::nullopt;
  const auto& [a, b] = *factors;
  return Traced(LinearOp{a.dims[0], b.dims[1], a.dims[1], bias}, call);
}

// aten::linear: input [..., k], weight [n, k].
Result Linear(const Call& call) {
  if (!call.in_ok(2) || call.in[1].dims.size() != 2) return std::nullopt;
  const TensorShape &x = call.in[0], &w = call.in[1];
  if (x.dims.back() != w.dims[1]) return std::nullopt;
  return Traced(LinearOp{LeadingElements(x, 1), w.dims[0], w.dims[1], call.in_ok(3)}, call);
}

Result BatchedMatmul(const Call& call) {
  const auto factors = FactorsOf(call, 3);
  if (!factors) return std::nullopt;
  const auto& [a, b] = *factors;
  return Traced(BatchedMatmulOp{a.dims[0], a.dims[1], b.dims[2], a.dims[2]}, call);
}

Result MatrixVector(const Call& call) {
  const auto matrix =
      std::ranges::find_if(call.in, [](const TensorShape& t) { return t.dims.size() == 2; });
  if (matrix == call.in.end()) return std::nullopt;
  return Traced(LinearOp{matrix->dims[0], 1, matrix->dims[1], false}, call);
}

Result ScaledMatmul(const Call& call) {
  if (!call.in_ok(2) || call.in[0].dims.size() != 2 || call.in[1].dims.size() != 2) {
    return std::nullopt;
  }
  const auto &a = call.in[0].dims, &b = call.in[1].dims;
  if (a[1] != b[0]) return std::nullopt;
  LinearOp op{a[0], b[1], a[1], false};
  op.block_scaled = call.in_ok(3) && call.in[2].dims.size() == 2 && call.in[2].dims[1] > 1;
  return Traced(op, call);
}

Result GroupedMatmul(const Call& call) {
  if (!call.in_ok(2) || call.in[0].dims.size() != 2 || call.in[1].dims.size() != 3) {
    return std::nullopt;
  }
  const auto &a = call.in[0].dims, &b = call.in[1].dims;
  if (a[1] != b[1] || b[0] <= 0) return std::nullopt;
  const int64_t rows = (a[0] - 1) / b[0] + 1;
  TracedOperator traced = Traced(BatchedMatmulOp{b[0], rows, b[2], a[1]}, call);
  traced.assumed = true;
  return traced;
}

// Without the result's size, twice the input's in each dimension: the commonest stride.
Result TransposedConvolution(const Call& call) {
  if (!call.in_ok(2)) return std::nullopt;
  const TensorShape &x = call.in[0], &w = call.in[1];
  const size_t rank = x.dims.size();
  if (rank < 3 || rank > 5 || w.dims.size() != rank || w.dims[0] <= 0) return std::nullopt;
  constexpr int64_t kStride = 2;
  const Plane image = PlaneOf(x), filter = PlaneOf(w);
  const bool known = !call.out.empty() && call.out[0].dims.size() == rank;
  Conv2dOp op{x.dims[0],
              known ? call.out[0].dims[1] : w.dims[1],
              known ? PlaneOf(call.out[0]).rows
                    : SaturatingProduct({image.rows, image.rows > 1 ? kStride : 1}),
              known ? PlaneOf(call.out[0]).columns : SaturatingProduct({image.columns, kStride}),
              x.dims[1],
              filter.rows,
              filter.columns,
              image.rows,
              image.columns};
  op.groups = std::max<int64_t>(1, op.c / std::max<int64_t>(w.dims[1], 1));
  op.needs_weight_gradient = false;
  TracedOperator traced = Traced(op, call, Direction::kBackward);
  traced.assumed = !known;
  return traced;
}

Result ConvolutionForward(const Call& call) {
  if (!call.in_ok(2)) return std::nullopt;
  const TensorShape* y = call.out.empty() ? nullptr : &call.out[0];
  const bool bias =
      call.in_ok(3) && call.in[2].dims.size() == 1 && call.in[2].dims[0] == call.in[1].dims[0];
  return Convolution(call.in[0], call.in[1], y, bias, call, Direction::kForward);
}

Result ConvolutionBackward(const Call& call, bool input_first) {
  if (!call.in_ok(3)) return std::nullopt;
  const TensorShape &x = call.in[input_first ? 0 : 1], &dy = call.in[input_first ? 1 : 0];
  // Of a transposed one what was spread is gathered again: the same products, of an image as large
  // as the gradient.
  const bool spread = IsTransposed(x, call.in[2], dy);
  Result traced = Convolution(spread ? dy : x, call.in[2], spread ? &x : &dy, false, call,
                              Direction::kBackward);
  // An output mask that leaves out the input's gradient shows as a missing first result.
  if (traced && !call.out.empty() && call.out[0].dims.size() == x.dims.size()) {
    const bool first_is_input = std::ranges::equal(call.out[0].dims, x.dims);
    std::get<Conv2dOp>(traced->op.shape).needs_input_gradient = first_is_input;
  }
  return traced;
}

Result Attention(const Call& call, size_t first, Direction pass, bool heads_second) {
  if (!call.in_ok(first + 3)) return std::nullopt;
  const TensorShape &q = call.in[first], &k = call.in[first + 1];
  if (!heads_second && q.dims.size() == 3 && k.dims.size() == 3) {
    return PackedAttention(call, first, pass);
  }
  if (q.dims.size() != 4 || k.dims.size() != 4) return std::nullopt;
  const size_t heads = heads_second ? 1 : 2, sequence = heads_second ? 2 : 1;
  AttentionOp op{q.dims[0],        q.dims[heads],    k.dims[heads],
                 q.dims[sequence], k.dims[sequence], q.dims[3]};
  // Whether the mask is causal is a scalar argument: SetMask.
  TracedOperator traced = Traced(op, call, pass);
  traced.assumed = true;
  return traced;
}

}  // namespace foretrace::trace_call

namespace foretrace {

void SetMask(AttentionMask mask, TracedOperator& traced) {
  auto* attention = std::get_if<AttentionOp>(&traced.op.shape);
  const bool known = mask == AttentionMask::kNone || mask == AttentionMask::kCausal;
  if (attention == nullptr || !known) return;
  attention->causal = mask == AttentionMask::kCausal;
  traced.assumed = false;
}

}  // namespace foretrace
