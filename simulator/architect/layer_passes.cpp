#include "simulator/architect/layer_passes.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <variant>

#include "simulator/base/check.h"
#include "simulator/cost/operator/kernel_work.h"

namespace foretrace {
namespace {

bool IsGemm(GraphOpKind kind) {
  return kind == GraphOpKind::kMatmul || kind == GraphOpKind::kScores ||
         kind == GraphOpKind::kContext;
}

bool Shares(const GraphTensor& a, const GraphTensor& b) {
  return std::any_of(a.axes.begin(), a.axes.end(), [&](AxisId axis) {
    return std::find(b.axes.begin(), b.axes.end(), axis) != b.axes.end();
  });
}

VectorCost operator+(VectorCost a, const VectorCost& b) {
  return {a.per_element + b.per_element, a.once + b.once};
}

// By kind of operator; element-wise ones by their shape: rotations have two results, gates twice as
// many inputs as results (a sigmoid and two products), else it is an activation function.
VectorCost CostOf(const OperatorGraph& g, const Binding& sizes, const GraphOp& op, Direction pass) {
  const auto cost = [pass](VectorKind kind) { return foretrace::CostOf(kind, pass); };
  switch (op.kind) {
    case GraphOpKind::kNorm:
      return cost(VectorKind::kLayerNorm);
    case GraphOpKind::kSoftmax:
    case GraphOpKind::kLogSoftmax:
      return cost(VectorKind::kSoftmax);
    case GraphOpKind::kDropout:
      return cost(VectorKind::kDropout);
    case GraphOpKind::kAdd: {
      const bool drops = op.outputs.size() > 1;
      if (pass == Direction::kBackward) return cost(VectorKind::kDropout);
      return drops ? cost(VectorKind::kAdd) + cost(VectorKind::kDropout) : cost(VectorKind::kAdd);
    }
    case GraphOpKind::kElementwise: {
      const VectorCost product = cost(VectorKind::kMul);
      if (op.outputs.size() > 1) return product + product + cost(VectorKind::kAdd);
      const int64_t in = Elements(g, sizes, op.inputs[0]);
      if (in == 2 * Elements(g, sizes, op.outputs[0])) {
        return cost(VectorKind::kSigmoid) + product + product;
      }
      return cost(VectorKind::kRelu);
    }
    default:
      return cost(VectorKind::kAdd);
  }
}

// Operators in a topological order, edges by where they begin. What passes make has no cycles.
LayerWork Sorted(LayerWork work) {
  const size_t n = work.ops.size();
  std::vector<int32_t> waiting(n), at(n);
  for (const auto& [from, to] : work.edges) ++waiting[static_cast<size_t>(to)];
  std::vector<size_t> order;
  for (size_t i = 0; i < n; ++i) {
    if (waiting[i] == 0) order.push_back(i);
  }
  for (size_t next = 0; next < order.size(); ++next) {
    for (const auto& [from, to] : work.edges) {
      if (static_cast<size_t>(from) != order[next]) continue;
      if (--waiting[static_cast<size_t>(to)] == 0) order.push_back(static_cast<size_t>(to));
    }
  }
  FORETRACE_CHECK(order.size() == n);
  LayerWork sorted;
  for (size_t k = 0; k < n; ++k) {
    at[order[k]] = static_cast<int32_t>(k);
    sorted.ops.push_back(std::move(work.ops[order[k]]));
  }
  for (const auto& [from, to] : work.edges) {
    sorted.edges.emplace_back(at[static_cast<size_t>(from)], at[static_cast<size_t>(to)]);
  }
  std::sort(sorted.edges.begin(), sorted.edges.end());
  sorted.edges.erase(std::unique(sorted.edges.begin(), sorted.edges.end()), sorted.edges.end());
  CoreGraph classes;
  classes.edges = sorted.edges;
  for (const LayerOp& op : sorted.ops) classes.ops.push_back({op.name, op.core, {}, {}});
  std::iota(at.begin(), at.end(), 0);
  sorted.concurrency = Concurrency(classes, at);
  return sorted;
}

}  // namespace

OperatorGraph OneWeightEach(const OperatorGraph& graph) {
  OperatorGraph out;
  for (const Axis& axis : graph.axes()) out.AddAxis(axis.name, axis.size);
  for (GraphTensor tensor : graph.tensors()) {
    tensor.producer = kNoOp;
    tensor.consumers.clear();
    out.AddTensor(std::move(tensor));
  }
  for (const GraphOp& op : graph.ops()) {
    if (op.kind != GraphOpKind::kMatmul || op.outputs.size() < 2) {
      out.AddOp(op);
      continue;
    }
    const GraphTensor& in = graph.tensor(op.inputs[0]);
    std::vector<TensorId> weights, biases;
    for (size_t i = 1; i < op.inputs.size(); ++i) {
      (Shares(graph.tensor(op.inputs[i]), in) ? weights : biases).push_back(op.inputs[i]);
    }
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      GraphOp one = op;
      one.name = graph.tensor(weights[i]).name;
      one.inputs = {op.inputs[0], weights[i]};
      if (i < biases.size()) one.inputs.push_back(biases[i]);
      one.outputs = {op.outputs[i]};
      out.AddOp(std::move(one));
    }
  }
  return out;
}

LayerWork Fused(LayerWork work) {
  const size_t n = work.ops.size();
  std::vector<std::vector<int32_t>> readers(n);
  for (const auto& [from, to] : work.edges) readers[static_cast<size_t>(from)].push_back(to);
  std::vector<int32_t> into(n, -1);  // the operator that this one becomes part of
  for (size_t i = 0; i < n; ++i) {
    LayerOp& op = work.ops[i];
    if (op.core != CoreClass::kTensor || readers[i].size() != 1) continue;
    const auto j = static_cast<size_t>(readers[i].front());
    const LayerOp& next = work.ops[j];
    if (!next.pointwise || into[j] >= 0) continue;
    op.core = CoreClass::kFused;
    op.name += " + " + next.name;
    op.elements = next.elements;
    op.cost = CostOf(VectorKind::kFused, Direction::kForward);
    into[j] = static_cast<int32_t>(i);
  }
  LayerWork fused;
  std::vector<int32_t> at(n);
  for (size_t i = 0; i < n; ++i) {
    if (into[i] >= 0) continue;
    at[i] = static_cast<int32_t>(fused.ops.size());
    fused.ops.push_back(std::move(work.ops[i]));
  }
  for (size_t i = 0; i < n; ++i) {
    if (into[i] >= 0) at[i] = at[static_cast<size_t>(into[i])];
  }
  for (const auto& [from, to] : work.edges) {
    const int32_t a = at[static_cast<size_t>(from)], b = at[static_cast<size_t>(to)];
    if (a != b) fused.edges.emplace_back(a, b);
  }
  return Sorted(std::move(fused));
}

bool LayerPasses::Inside(OpId op) const {
  return std::find(ops_.begin(), ops_.end(), op) != ops_.end();
}

bool LayerPasses::SumsResult(OpId op) const {
  return std::any_of(sharded_.exchanges.begin(), sharded_.exchanges.end(),
                     [op](const PlacedExchange& e) { return e.of == op && e.after; });
}

bool LayerPasses::SumsGradient(OpId op) const {
  return std::any_of(
      sharded_.exchanges.begin(), sharded_.exchanges.end(), [&](const PlacedExchange& e) {
        const GroupExchange& exchange = sharded_.graph.op(e.op).exchange;
        return e.of == op && !e.after && exchange.backward == CollectiveOp::kAllReduce;
      });
}

Gemm LayerPasses::GemmOf(OpId id) const {
  const CallList calls = CallsOf(g_, sizes_, id, Direction::kForward);
  if (const auto* linear = std::get_if<LinearOp>(&calls[0].shape)) {
    return {1, linear->m, linear->n, linear->k};
  }
  const auto& batched = std::get<BatchedMatmulOp>(calls[0].shape);
  return {batched.b, batched.m, batched.n, batched.k};
}

LayerOp LayerPasses::VectorOp(OpId id, Direction pass) const {
  const GraphOp& op = g_.op(id);
  LayerOp made;
  made.name = std::string(op.name);
  made.core = CoreClass::kVector;
  for (const TensorId t : op.outputs) {
    const bool mask = g_.tensor(t).dtype == DType::kUInt8;
    if (!mask) made.elements += Elements(g_, sizes_, t);
  }
  made.cost = CostOf(g_, sizes_, op, pass);
  for (const OperatorCall& call : CallsOf(g_, sizes_, id, pass)) made.hbm += TotalWork(call).bytes;
  made.pointwise = op.kind == GraphOpKind::kElementwise || op.kind == GraphOpKind::kDropout ||
                   op.kind == GraphOpKind::kAdd;
  return made;
}

LayerOp LayerPasses::SumOf(std::string_view name, TensorId tensor, int64_t terms) const {
  LayerOp sum;
  sum.name = std::string(name);
  sum.core = CoreClass::kVector;
  sum.elements = Elements(g_, sizes_, tensor) * (terms - 1);
  sum.cost = CostOf(VectorKind::kAdd, Direction::kForward);
  sum.hbm = SizeOf(g_, sizes_, tensor) * (3 * (terms - 1));
  sum.pointwise = true;
  return sum;
}

LayerOp LayerPasses::AllReduce(std::string_view name, TensorId tensor) const {
  LayerOp op = SumOf(std::string(name) + " all-reduce", tensor, 2);
  op.collective = SizeOf(g_, sizes_, tensor);
  op.pointwise = false;
  return op;
}

LayerWork LayerPasses::Forward() const {
  LayerWork work;
  std::map<TensorId, int32_t> maker;
  for (const OpId id : ops_) {
    const GraphOp& op = g_.op(id);
    const auto at = static_cast<int32_t>(work.ops.size());
    if (IsGemm(op.kind)) {
      work.ops.push_back(
          {std::string(op.name), CoreClass::kTensor, GemmOf(id), 0, {}, {}, {}, false});
    } else {
      work.ops.push_back(VectorOp(id, Direction::kForward));
    }
    for (const TensorId t : op.inputs) {
      if (const auto it = maker.find(t); it != maker.end()) work.edges.emplace_back(it->second, at);
    }
    int32_t last = at;
    if (SumsResult(id)) {
      last = at + 1;
      work.ops.push_back(AllReduce(op.name, op.outputs[0]));
      work.edges.emplace_back(at, last);
    }
    for (const TensorId t : op.outputs) maker[t] = last;
  }
  return work;
}

// Backward pass, from the last operator on. Gradients of what leaves the layer are there.
class LayerPasses::Differentiator {
 public:
  explicit Differentiator(const LayerPasses& layer) : l_(layer) {}

  LayerWork Run() {
    for (size_t i = l_.ops_.size(); i-- > 0;) Reverse(l_.ops_[i]);
    // What enters the layer and is read more than once.
    std::vector<TensorId> open;
    for (const auto& [tensor, sources] : sources_) {
      const GraphTensor& t = l_.g_.tensor(tensor);
      if (!l_.Inside(t.producer) && t.role == TensorRole::kActivation) open.push_back(tensor);
    }
    for (const TensorId t : open) GradientOf(t);
    return std::move(work_);
  }

 private:
  static constexpr int32_t kThere = -1;  // from the layer behind

  int32_t Push(LayerOp op, int32_t after) {
    work_.ops.push_back(std::move(op));
    const auto at = static_cast<int32_t>(work_.ops.size()) - 1;
    if (after != kThere) work_.edges.emplace_back(after, at);
    return at;
  }

  // The operator after which a tensor's gradient is complete: its parts are added up, and then over
  // the devices that have parts of the GEMMs which read it.
  int32_t GradientOf(TensorId tensor) {
    const auto it = sources_.find(tensor);
    if (it == sources_.end()) return kThere;
    int32_t last = it->second.front();
    if (it->second.size() > 1) {
      last =
          Push(l_.SumOf("gradient sum", tensor, static_cast<int64_t>(it->second.size())), kThere);
      for (const int32_t source : it->second) {
        if (source != kThere) work_.edges.emplace_back(source, last);
      }
    }
    const bool reduce = std::find(reduced_.begin(), reduced_.end(), tensor) != reduced_.end();
    return reduce ? Push(l_.AllReduce("gradient", tensor), last) : last;
  }

  void Pass(TensorId to, int32_t source) {
    if (l_.g_.tensor(to).role == TensorRole::kActivation) sources_[to].push_back(source);
  }

  void AddGemm(const GraphOp& op, OpId id, int32_t gradient) {
    const Gemm g = l_.GemmOf(id);
    const auto make = [&](const char* of, const Gemm& gemm) {
      return Push({std::string(op.name) + of, CoreClass::kTensor, gemm, 0, {}, {}, {}, false},
                  gradient);
    };
    const int32_t input = make(" input gradient", {g.batch, g.m, g.k, g.n});
    const bool weight = op.kind == GraphOpKind::kMatmul;
    const int32_t other =
        make(weight ? " weight gradient" : " second gradient", {g.batch, g.k, g.n, g.m});
    if (l_.SumsGradient(id)) reduced_.push_back(op.inputs[0]);
    Pass(op.inputs[0], input);
    if (!weight) Pass(op.inputs[1], other);
  }

  void Reverse(OpId id) {
    const GraphOp& op = l_.g_.op(id);
    // Several results (a rotation's) have their gradients before the operator goes on.
    std::vector<int32_t> gradients;
    for (const TensorId t : op.outputs) {
      if (l_.g_.tensor(t).dtype != DType::kUInt8) gradients.push_back(GradientOf(t));
    }
    if (IsGemm(op.kind)) return AddGemm(op, id, gradients[0]);
    const bool masked = op.outputs.size() > 1;
    if (op.kind == GraphOpKind::kAdd) {
      const int32_t branch =
          masked ? Push(l_.VectorOp(id, Direction::kBackward), gradients[0]) : gradients[0];
      Pass(op.inputs[0], branch);
      for (size_t i = 1; i < op.inputs.size(); ++i) Pass(op.inputs[i], gradients[0]);
      return;
    }
    const int32_t at = Push(l_.VectorOp(id, Direction::kBackward), gradients[0]);
    for (size_t i = 1; i < gradients.size(); ++i) {
      if (gradients[i] != kThere) work_.edges.emplace_back(gradients[i], at);
    }
    for (const TensorId t : op.inputs) Pass(t, at);
  }

  const LayerPasses& l_;
  LayerWork work_;
  std::map<TensorId, std::vector<int32_t>> sources_;
  std::vector<TensorId> reduced_;
};

LayerWork LayerPasses::Backward() const { return Differentiator(*this).Run(); }

Bytes LayerPasses::Parameters() const {
  Bytes bytes;
  for (TensorId t = 0; static_cast<size_t>(t) < g_.tensors().size(); ++t) {
    const GraphTensor& tensor = g_.tensor(t);
    const bool weight = tensor.role == TensorRole::kWeight && !tensor.consumers.empty();
    if (weight && Inside(tensor.consumers.front())) bytes += SizeOf(g_, sizes_, t);
  }
  return bytes;
}

Bytes LayerPasses::Activations() const {
  std::vector<TensorId> kept;
  for (const OpId id : ops_) {
    for (const TensorId t : KeptBy(g_.op(id))) kept.push_back(t);
  }
  std::sort(kept.begin(), kept.end());
  kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
  Bytes bytes;
  for (const TensorId t : kept) {
    if (g_.tensor(t).role == TensorRole::kActivation) bytes += SizeOf(g_, sizes_, t);
  }
  return bytes;
}

Bytes LayerPasses::Input() const {
  Bytes bytes;
  std::vector<TensorId> seen;
  for (const OpId id : ops_) {
    for (const TensorId t : g_.op(id).inputs) {
      const GraphTensor& tensor = g_.tensor(t);
      if (tensor.role != TensorRole::kActivation || Inside(tensor.producer)) continue;
      if (std::find(seen.begin(), seen.end(), t) != seen.end()) continue;
      seen.push_back(t);
      bytes += SizeOf(g_, sizes_, t);
    }
  }
  return bytes;
}

}  // namespace foretrace
