#include <algorithm>
#include <utility>

#include "simulator/cost/operator/kernel_work.h"
#include "simulator/graph/operator_graph.h"
#include "simulator/graph/state_scan.h"

namespace foretrace {
namespace {

class CallMaker {
 public:
  CallMaker(const OperatorGraph& graph, const Binding& sizes, const GraphOp& op, Direction pass,
            const TableGradient& table)
      : g_(graph), s_(sizes), op_(op), pass_(pass), table_(table) {}

  CallList Make() const {
    const GraphTensor& in = g_.tensor(op_.inputs[0]);
    switch (op_.kind) {
      case GraphOpKind::kMatmul:
        return {Call(Gemm())};
      case GraphOpKind::kScores:
      case GraphOpKind::kContext:
        return {Call(AttentionGemm())};
      case GraphOpKind::kAttention:
        return {Call(Fused())};
      case GraphOpKind::kNorm: {
        const int64_t cols = s_.of(in.axes.back());
        return {Call(LayerNormOp{Size(op_.inputs[0]) / std::max<int64_t>(cols, 1), cols})};
      }
      case GraphOpKind::kSoftmax:
        return {Call(SoftmaxRows(in))};
      case GraphOpKind::kDropout:
        return {Call(DropoutOp{Size(op_.inputs[0])})};
      case GraphOpKind::kElementwise:
        return {Call(Pointwise())};
      case GraphOpKind::kAdd:
        return Add();
      case GraphOpKind::kGather:
        return Rows();
      case GraphOpKind::kLogSoftmax:
        return LogSoftmax(in);
      case GraphOpKind::kBatchedMatmul:
        return {Call(GemmOfTwo())};
      case GraphOpKind::kConvolution:
        return {Call(Convolution())};
      case GraphOpKind::kPool:
        return {Call(PoolOp{Size(op_.inputs[0]), Size(op_.outputs[0]), op_.window, false})};
      case GraphOpKind::kReduction: {
        const int64_t results = Size(op_.outputs[0]);
        return {Call(ReductionOp{results, Size(op_.inputs[0]) / std::max<int64_t>(results, 1)})};
      }
      case GraphOpKind::kConcat:
        return {Call(ConcatOp{Size(op_.outputs[0]), static_cast<int64_t>(op_.inputs.size())})};
      case GraphOpKind::kCopy:
        return {Call(CopyOp{Size(op_.outputs[0]), op_.strided})};
      case GraphOpKind::kStateScan:
        return ScanCalls(ScanOf(g_, s_, op_), pass_);
      case GraphOpKind::kOpaque:
      case GraphOpKind::kExchange:
      case GraphOpKind::kCount:
        break;
    }
    return {};
  }

 private:
  int64_t Size(TensorId t) const { return Elements(g_, s_, t); }
  OperatorCall Call(OperatorCall::Shape shape) const {
    return {std::move(shape), g_.tensor(op_.inputs[0]).dtype, pass_};
  }
  static bool Has(const GraphTensor& t, AxisId axis) {
    return std::find(t.axes.begin(), t.axes.end(), axis) != t.axes.end();
  }

  OperatorCall::Shape Gemm() const {
    const GraphTensor& in = g_.tensor(op_.inputs[0]);
    int64_t depth = 1, columns = 0, groups = 1, rows = 0;
    bool bias = false;
    for (size_t i = 1, out = 0; i < op_.inputs.size(); ++i) {
      const GraphTensor& weight = g_.tensor(op_.inputs[i]);
      const bool contracts =
          std::any_of(weight.axes.begin(), weight.axes.end(), [&](AxisId a) { return Has(in, a); });
      if (!contracts) {
        bias = true;
        continue;
      }
      const GraphTensor& to = g_.tensor(op_.outputs[out]);
      int64_t k = 1, n = 1, each = 1;
      for (const AxisId axis : weight.axes) {
        int64_t& role = Has(in, axis) ? k : Has(to, axis) ? n : each;
        role = SaturatingProduct({role, s_.of(axis)});
      }
      rows = std::max(rows, Size(op_.outputs[out]) / std::max<int64_t>(n, 1));
      depth = k;
      groups = each;
      columns += n;
      ++out;
    }
    rows = std::max(rows, Size(op_.inputs[0]) / std::max<int64_t>(depth, 1));
    if (groups <= 1) return LinearOp{rows, columns, depth, bias};
    return BatchedMatmulOp{groups, std::max<int64_t>(rows / groups, 1), columns, depth};
  }

  // q [.., h, s, d] and k [.., g, l, d] to scores [.., h, s, l]; scores and v to [.., h, s, d].
  OperatorCall::Shape AttentionGemm() const {
    const bool scores = op_.kind == GraphOpKind::kScores;
    const GraphTensor& matrix = g_.tensor(scores ? op_.outputs[0] : op_.inputs[0]);
    const int64_t rows = s_.of(matrix.axes[matrix.axes.size() - 2]);
    const int64_t keys = s_.of(matrix.axes.back());
    const int64_t depth = s_.of(scores ? g_.tensor(op_.inputs[0]).axes.back()
                                       : g_.tensor(op_.outputs[0]).axes.back());
    const int64_t all = Size(scores ? op_.outputs[0] : op_.inputs[0]);
    const int64_t batch = all / std::max<int64_t>(SaturatingProduct({rows, keys}), 1);
    return scores ? BatchedMatmulOp{batch, rows, keys, depth}
                  : BatchedMatmulOp{batch, rows, depth, keys};
  }

  OperatorCall::Shape GemmOfTwo() const {
    const GraphTensor& in = g_.tensor(op_.inputs[0]);
    const GraphTensor& out = g_.tensor(op_.outputs[0]);
    const int64_t rows = s_.of(in.axes[in.axes.size() - 2]), depth = s_.of(in.axes.back());
    const int64_t batch =
        Size(op_.inputs[0]) / std::max<int64_t>(SaturatingProduct({rows, depth}), 1);
    return BatchedMatmulOp{batch, rows, s_.of(out.axes.back()), depth};
  }

  // Over three dimensions: as over two with as many images as there are results along the first,
  // and as many channels as filters reach over. Over one: along the second.
  OperatorCall::Shape Convolution() const {
    const GraphTensor& in = g_.tensor(op_.inputs[0]);
    const GraphTensor& weight = g_.tensor(op_.inputs[1]);
    const GraphTensor& out = g_.tensor(op_.outputs[0]);
    const int64_t channels = s_.of(in.axes[1]);
    Conv2dOp conv;
    conv.n = s_.of(in.axes[0]);
    conv.c = channels;
    conv.k = s_.of(out.axes[1]);
    conv.groups = channels / std::max<int64_t>(s_.of(weight.axes[1]), 1);
    conv.h = conv.oh = 1;
    const size_t dimensions = in.axes.size();
    for (size_t d = 2; d + 2 < dimensions; ++d) {
      conv.n *= s_.of(out.axes[d]);
      conv.c *= s_.of(weight.axes[d]);
    }
    if (dimensions > 3) {
      conv.h = s_.of(in.axes[dimensions - 2]);
      conv.r = s_.of(weight.axes[dimensions - 2]);
      conv.oh = s_.of(out.axes[dimensions - 2]);
    }
    conv.w = s_.of(in.axes[dimensions - 1]);
    conv.s = s_.of(weight.axes[dimensions - 1]);
    conv.ow = s_.of(out.axes[dimensions - 1]);
    return conv;
  }

  // q [b, h, s, d], k [b, g, l, d] and v [b, g, l, e]. GEMMs and bytes of depths d and e are
  // those of twice their mean.
  OperatorCall::Shape Fused() const {
    const GraphTensor& q = g_.tensor(op_.inputs[0]);
    const GraphTensor& k = g_.tensor(op_.inputs[1]);
    AttentionOp call{
        s_.of(q.axes[0]), s_.of(q.axes[1]),
        s_.of(k.axes[1]), s_.of(q.axes[2]),
        s_.of(op_.keys),  (s_.of(q.axes[3]) + s_.of(g_.tensor(op_.inputs[2]).axes[3])) / 2};
    call.causal = op_.causal;
    return call;
  }

  SoftmaxOp SoftmaxRows(const GraphTensor& in) const {
    const int64_t cols = s_.of(in.axes.back());
    SoftmaxOp rows{Size(op_.inputs[0]) / std::max<int64_t>(cols, 1), cols};
    rows.logarithm = op_.kind == GraphOpKind::kLogSoftmax;
    rows.one_kernel = op_.attention_core;
    return rows;
  }

  OperatorCall::Shape Pointwise() const {
    const bool forward = pass_ == Direction::kForward;
    // Backward: the results' gradients and what was kept, to the inputs' gradients.
    int64_t read = 0, written = 0;
    for (const TensorId t : op_.inputs) (forward ? read : written) += Size(t);
    for (const TensorId t : op_.outputs) (forward ? written : read) += Size(t);
    if (!forward) {
      for (int8_t i = 0; i < op_.kept; ++i) read += Size(op_.inputs[static_cast<size_t>(i)]);
    }
    return ElementwiseOp{written, read, 1, op_.flop_per_element};
  }

  // In units of the operator's own elements: masks are smaller.
  int64_t Units(TensorId t) const {
    const int64_t own = std::max<int64_t>(ElementSize(g_.tensor(op_.inputs[0]).dtype), 1);
    return SizeOf(g_, s_, t).count() / own;
  }

  // The sum's gradient is that of every term; only a mask makes work of it.
  CallList Add() const {
    int64_t read = 0, written = 0;
    if (pass_ == Direction::kForward) {
      for (const TensorId t : op_.inputs) read += Units(t);
      for (const TensorId t : op_.outputs) written += Units(t);
    } else {
      if (op_.outputs.size() < 2) return {};
      written = Units(op_.inputs[0]);
      read = written + Units(op_.outputs[1]);
    }
    return {Call(ElementwiseOp{written, read, 1, op_.flop_per_element})};
  }

  CallList Rows() const {
    const TensorId source = op_.inputs[0];
    IndexOp call;
    call.elements = Size(op_.outputs[0]);
    call.index_count = Size(op_.inputs[1]);
    // Of a permutation every row is written; of a table the gradient is cleared first.
    const bool table = g_.tensor(source).role == TensorRole::kWeight;
    call.source_elements = table ? Size(source) : 0;
    if (!table || pass_ == Direction::kForward || !table_.added) return {Call(call)};
    const int64_t all = Size(source);
    const DType dtype = g_.tensor(source).dtype;
    if (table_.bytes <= ElementSize(dtype)) {
      return {Call(call), {ElementwiseOp{all, 2 * all}, dtype, Direction::kForward}};
    }
    const ElementwiseOp add{all, all + all * ElementSize(dtype) / table_.bytes};
    return {Call(call), {add, DType::kFloat32, Direction::kForward}};
  }

  // The cast to 32 bits, and the rows in 32 bits.
  CallList LogSoftmax(const GraphTensor& in) const {
    const int64_t all = Size(op_.inputs[0]);
    const bool forward = pass_ == Direction::kForward;
    if (op_.kept > 0) {
      if (!forward) return {Call(ElementwiseOp{all, all})};
      // The largest, then the sum of exponentials.
      const SoftmaxOp rows = SoftmaxRows(in);
      const OperatorCall pass = Call(ReductionOp{rows.rows, rows.cols});
      return {pass, pass};
    }
    ElementwiseOp cast{all, all};
    cast.output_dtype = forward ? DType::kFloat32 : in.dtype;
    const OperatorCall convert{cast, forward ? in.dtype : DType::kFloat32, Direction::kForward};
    const OperatorCall rows{SoftmaxRows(in), DType::kFloat32, pass_};
    if (ElementSize(in.dtype) >= 4) return {rows};
    return forward ? CallList{convert, rows} : CallList{rows, convert};
  }

  const OperatorGraph& g_;
  const Binding& s_;
  const GraphOp& op_;
  Direction pass_;
  const TableGradient& table_;
};

}  // namespace

CallList CallsOf(const OperatorGraph& graph, const Binding& sizes, OpId op, Direction pass,
                 const TableGradient& table) {
  return CallMaker(graph, sizes, graph.op(op), pass, table).Make();
}

Flop GemmFlopOf(OperatorCall call) {
  if (auto* attention = std::get_if<AttentionOp>(&call.shape)) attention->causal = false;
  if (auto* linear = std::get_if<LinearOp>(&call.shape)) linear->bias = false;
  Flop total;
  for (const KernelWork& kernel : Kernels(call)) {
    const bool gemm = kernel.kind == KernelKind::kGemm || kernel.kind == KernelKind::kBatchedGemm ||
                      kernel.kind == KernelKind::kConvolution ||
                      kernel.kind == KernelKind::kAttention;
    if (gemm) total += kernel.flop;
  }
  return total;
}

Flop GemmFlopOf(const OperatorGraph& graph, const Binding& sizes, OpId id) {
  Flop total;
  for (const OperatorCall& call : CallsOf(graph, sizes, id, Direction::kForward)) {
    total += GemmFlopOf(call);
  }
  return total;
}

Flop GemmFlop(const OperatorGraph& graph, const Binding& sizes, int64_t blocks) {
  Flop total;
  for (OpId id = 0; static_cast<size_t>(id) < graph.ops().size(); ++id) {
    const double times = graph.op(id).in_block ? static_cast<double>(blocks) : 1;
    total += Flop(GemmFlopOf(graph, sizes, id).count() * times);
  }
  return total;
}

}  // namespace foretrace
