#include "simulator/graph/loop_graph.h"

#include <algorithm>
#include <queue>

#include "simulator/base/check.h"
#include "simulator/base/enum_names.h"
#include "simulator/cost/operator/kernel_work.h"

namespace foretrace {
namespace {

using Axes = absl::InlinedVector<AxisId, 4>;

Axes AxesOf(const LoopNest& nest, std::initializer_list<Loop> loops) {
  Axes axes;
  for (const Loop loop : loops) {
    const auto& of = nest.axes[static_cast<size_t>(loop)];
    axes.insert(axes.end(), of.begin(), of.end());
  }
  return axes;
}

double Real(const LoopSizes& size, Loop loop) {
  return static_cast<double>(size[static_cast<size_t>(loop)]);
}

}  // namespace

std::string_view Name(Loop loop) {
  static constexpr std::array<std::string_view, kLoops> kNames = {"outer", "m", "k", "n"};
  return EnumName(kNames, loop);
}

double ResultElements(const LoopSizes& size) {
  return Real(size, Loop::kOuter) * Real(size, Loop::kM) * Real(size, Loop::kN);
}

double WeightElements(const LoopSizes& size) {
  return Real(size, Loop::kOuter) * Real(size, Loop::kM) * Real(size, Loop::kK);
}

Flop NestFlop(bool gemm, const LoopSizes& size) {
  return Flop((gemm ? 2 * Real(size, Loop::kK) : 1) * ResultElements(size));
}

NestKind KindOf(GraphOpKind kind) {
  switch (kind) {
    case GraphOpKind::kMatmul:
      return NestKind::kWeighted;
    case GraphOpKind::kScores:
    case GraphOpKind::kContext:
    case GraphOpKind::kAttention:
    case GraphOpKind::kBatchedMatmul:
      return NestKind::kGemm;
    default:
      return NestKind::kElementwise;
  }
}

AxisId LoopGraph::AddAxis(std::string_view name, int64_t size) {
  names_.push_back(std::make_shared<const std::string>(name));
  return graph_.AddAxis(*names_.back(), size);
}

OpId LoopGraph::Add(std::string name, GraphOpKind kind, LoopNest nest, std::span<const OpId> inputs,
                    TensorRole role, std::span<const Beside> beside) {
  GraphOp op;
  const auto id = static_cast<OpId>(nests_.size());
  op.kind = kind;
  for (const OpId from : inputs) {
    FORETRACE_CHECK(from >= 0 && static_cast<size_t>(from) < nests_.size());
    op.inputs.push_back(graph_.op(from).outputs[0]);
  }
  const auto tensor = [&](std::string_view what, TensorRole of, std::initializer_list<Loop> loops) {
    return graph_.AddTensor(
        {name + std::string(what), of, DType::kFloat16, AxesOf(nest, loops), kNoOp, {}});
  };
  const NestKind of = KindOf(kind);
  if (inputs.empty()) {
    const Loop rows = of == NestKind::kElementwise ? Loop::kM : Loop::kK;
    op.inputs.push_back(tensor(" input", TensorRole::kActivation, {Loop::kOuter, rows, Loop::kN}));
  }
  for (const Beside& b : beside) {
    op.inputs.push_back(graph_.AddTensor({b.name, b.role, DType::kFloat16, b.axes, kNoOp, {}}));
    if (b.transfer) moved_.push_back({id, op.inputs.back(), *b.transfer});
  }
  if (of == NestKind::kWeighted)
    op.inputs.insert(op.inputs.begin() + 1,
                     tensor(" weight", TensorRole::kWeight, {Loop::kOuter, Loop::kM, Loop::kK}));
  op.outputs.push_back(tensor("", role, {Loop::kOuter, Loop::kM, Loop::kN}));
  op.name = std::move(name);
  nests_.push_back(std::move(nest));
  return graph_.AddOp(std::move(op));
}

void LoopGraph::MoveResult(OpId op, Transfer transfer) {
  moved_.push_back({op, graph_.op(op).outputs[0], transfer});
}

int64_t LoopGraph::Elements(std::span<const AxisId> axes) const {
  int64_t elements = 1;
  for (const AxisId a : axes)
    elements = SaturatingProduct({elements, graph_.axes()[static_cast<size_t>(a)].size});
  return elements;
}

LoopSizes LoopGraph::SizesOf(OpId op) const {
  LoopSizes size;
  for (size_t l = 0; l < kLoops; ++l) size[l] = Elements(nest(op).axes[l]);
  return size;
}

std::string_view LoopGraph::LabelOf(OpId op, Loop loop) const {
  const auto l = static_cast<size_t>(loop);
  const LoopNest& of = nest(op);
  if (of.whole[l] || of.axes[l].empty()) return "";
  return graph_.axes()[static_cast<size_t>(of.axes[l].front())].name;
}

std::vector<OpId> LoopGraph::Producers(OpId op) const {
  std::vector<OpId> out;
  for (const TensorId t : graph_.op(op).inputs) {
    if (graph_.tensor(t).producer != kNoOp) out.push_back(graph_.tensor(t).producer);
  }
  return out;
}

std::vector<LoopGraph::Beside> LoopGraph::BesideOf(OpId op) const {
  std::vector<Beside> out;
  for (const TensorId id : graph_.op(op).inputs) {
    const GraphTensor& t = graph_.tensor(id);
    const auto moved = std::find_if(moved_.begin(), moved_.end(),
                                    [&](const Moved& m) { return m.op == op && m.tensor == id; });
    if (t.role != TensorRole::kKvCache && moved == moved_.end()) continue;
    out.push_back({t.name, t.role, t.axes, {}});
    if (moved != moved_.end()) out.back().transfer = moved->transfer;
  }
  return out;
}

LoopGraph ForwardPass(const LoopGraph& graph) {
  LoopGraph out;
  for (const Axis& axis : graph.graph().axes()) out.AddAxis(axis.name, axis.size);
  for (OpId op = 0; static_cast<size_t>(op) < graph.size(); ++op) {
    if (graph.nest(op).pass != Direction::kForward) break;
    const GraphOp& of = graph.graph().op(op);
    out.Add(of.name, of.kind, graph.nest(op), graph.Producers(op),
            graph.graph().tensor(of.outputs[0]).role, graph.BesideOf(op));
  }
  const auto there = [&](OpId op) { return static_cast<size_t>(op) < out.size(); };
  for (const LoopGraph::Reading& r : graph.readings()) {
    if (there(r.op)) out.Read(r);
  }
  for (const LoopGraph::Carried& c : graph.carried()) {
    if (there(c.from) && there(c.to)) out.Carry(c);
  }
  for (const LoopGraph::Moved& m : graph.moved()) {
    if (there(m.op) && m.tensor == graph.graph().op(m.op).outputs[0])
      out.MoveResult(m.op, m.transfer);
  }
  return out;
}

OperatorCall CallOf(const LoopGraph& graph, OpId op, const LoopSizes& size, int64_t samples) {
  const auto [outer, m, k, n] = size;
  const GraphOp& of = graph.graph().op(op);
  const Direction pass = graph.nest(op).pass;
  constexpr DType kType = DType::kFloat16;
  const NestKind kind = KindOf(of.kind);
  if (kind == NestKind::kWeighted)
    return {LinearOp{n * samples, outer * m, k}, kType, Direction::kForward};
  // Samples add up in a gradient of weights.
  if (graph.graph().tensor(of.outputs[0]).role == TensorRole::kGradient) {
    if (outer > 1) return {BatchedMatmulOp{outer, m, n, k * samples}, kType, Direction::kForward};
    return {LinearOp{m, n, k * samples}, kType, Direction::kForward};
  }
  if (of.kind == GraphOpKind::kAttention)
    return {AttentionOp{samples, outer, outer, n, k, m, true}, kType, pass};
  if (kind == NestKind::kGemm)
    return {BatchedMatmulOp{outer * samples, m, n, k}, kType, Direction::kForward};
  const int64_t elements = outer * m * n * samples;
  switch (of.kind) {
    case GraphOpKind::kNorm:
      return {LayerNormOp{outer * n * samples, m}, kType, pass};
    case GraphOpKind::kSoftmax:
      return {SoftmaxOp{outer * m * samples, n, false, true}, kType, pass};  // of fused attention
    case GraphOpKind::kDropout:
      return {DropoutOp{elements}, kType, pass};
    default:
      return {ElementwiseOp{elements, elements, 1, graph.nest(op).times}, kType,
              Direction::kForward};
  }
}

std::vector<int> TopologicalOrder(size_t nodes, std::span<const std::pair<int, int>> edges) {
  std::vector<int> waiting(nodes, 0), order;
  for (const auto& [from, to] : edges) ++waiting[static_cast<size_t>(to)];
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (size_t i = 0; i < nodes; ++i) {
    if (waiting[i] == 0) ready.push(static_cast<int>(i));
  }
  while (!ready.empty()) {
    const int from = ready.top();
    ready.pop();
    order.push_back(from);
    for (const auto& [a, to] : edges) {
      if (a == from && --waiting[static_cast<size_t>(to)] == 0) ready.push(to);
    }
  }
  return order;
}

}  // namespace foretrace
