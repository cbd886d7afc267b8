#include "simulator/graph/shard.h"

#include <algorithm>
#include <map>
#include <utility>

#include "simulator/cost/operator/kernel_work.h"
#include "simulator/graph/state_scan.h"

namespace foretrace {
namespace {

using Tensors = absl::InlinedVector<TensorId, 4>;

bool Has(const GraphTensor& t, AxisId axis) {
  return std::find(t.axes.begin(), t.axes.end(), axis) != t.axes.end();
}

class Sharder {
 public:
  Sharder(const OperatorGraph& graph, const Division& division) : g_(graph), d_(division) {
    for (const Axis& axis : g_.axes()) out_.graph.AddAxis(axis.name, axis.size);
    for (GraphTensor tensor : g_.tensors()) {
      tensor.producer = kNoOp;
      tensor.consumers.clear();
      out_.graph.AddTensor(std::move(tensor));
    }
  }

  ShardedGraph Run() {
    for (of_ = 0; static_cast<size_t>(of_) < g_.ops().size(); ++of_) Add(g_.op(of_));
    return std::move(out_);
  }

 private:
  static constexpr ShardGroup kGroups[] = {ShardGroup::kExpert, ShardGroup::kTensor,
                                           ShardGroup::kContext};

  bool IsDivided(TensorId t, ShardGroup group) const {
    const GraphTensor& tensor = g_.tensor(t);
    return std::any_of(tensor.axes.begin(), tensor.axes.end(),
                       [&](AxisId a) { return d_.Divides(a, group); });
  }
  bool Divides(TensorId t, ShardGroup group, bool tokens) const {
    const GraphTensor& tensor = g_.tensor(t);
    return std::any_of(tensor.axes.begin(), tensor.axes.end(),
                       [&](AxisId a) { return d_.Divides(a, group) && d_.HasTokens(a) == tokens; });
  }

  // Along which of an operator's axes its weights are divided.
  struct Divided {
    bool rows = false;     // contracted
    bool columns = false;  // the results'
    bool groups = false;   // neither's
  };
  Divided WeightsOf(const GraphOp& op, ShardGroup group) const {
    Divided found;
    for (const TensorId id : op.inputs) {
      const GraphTensor& weight = g_.tensor(id);
      if (weight.role != TensorRole::kWeight) continue;
      for (const AxisId axis : weight.axes) {
        if (!d_.Divides(axis, group)) continue;
        const bool out = std::any_of(op.outputs.begin(), op.outputs.end(),
                                     [&](TensorId t) { return Has(g_.tensor(t), axis); });
        const bool in = op.inputs[0] != id && Has(g_.tensor(op.inputs[0]), axis);
        // A table's rows are chosen by indices.
        const bool chosen = op.kind == GraphOpKind::kGather && op.inputs[0] == id;
        found.rows |= (in || chosen) && !out;
        found.columns |= out && !in;
        found.groups |= !in && !out && !chosen;
      }
    }
    return found;
  }

  void Add(const GraphOp& op) {
    GraphOp own = op;
    std::vector<GroupExchange> after;
    for (const ShardGroup group : kGroups) {
      const Divided weights = WeightsOf(op, group);
      if (op.kind == GraphOpKind::kMatmul) {
        if (weights.groups) Visit(op, own, group, after);
        if (weights.columns) Enter(0, own, group, op);
      }
      if (weights.rows) {
        const bool scatters = Divides(op.outputs[0], group, true);
        after.push_back({group, scatters ? CollectiveOp::kReduceScatter : CollectiveOp::kAllReduce,
                         scatters ? CollectiveOp::kAllGather : CollectiveOp::kUnknown});
      }
      if (op.kind == GraphOpKind::kElementwise) EnterLacking(op, own, group);
      if (op.kind == GraphOpKind::kLogSoftmax || op.kind == GraphOpKind::kSoftmax) {
        ReduceRows(op, own, group);
      }
      MeetKeys(op, own, group, after);
    }
    // Innermost first: parts of a sum are added up where they are, then go home.
    std::reverse(after.begin(), after.end());
    Push(std::move(own), after);
    if (d_.summed >= 0 && op.outputs[0] == d_.summed) SumTokens();
  }

  // Tokens go to where their weights are, and back.
  void Visit(const GraphOp& op, GraphOp& own, ShardGroup group, std::vector<GroupExchange>& after) {
    const GroupExchange there{group, CollectiveOp::kAllToAll, CollectiveOp::kAllToAll};
    if (!IsDivided(op.inputs[0], group)) own.inputs[0] = Before(own.inputs[0], there);
    if (!IsDivided(op.outputs[0], group)) after.push_back(there);
  }

  // All tokens of an input, which the results' columns are divided for.
  void Enter(size_t input, GraphOp& own, ShardGroup group, const GraphOp& op) {
    GroupExchange exchange{group, CollectiveOp::kUnknown, CollectiveOp::kAllReduce};
    if (Divides(op.inputs[input], group, true)) {
      exchange.forward = CollectiveOp::kAllGather;
      exchange.backward = CollectiveOp::kReduceScatter;
    }
    own.inputs[input] = Before(own.inputs[input], exchange);
  }

  // An input without what the results are divided along.
  void EnterLacking(const GraphOp& op, GraphOp& own, ShardGroup group) {
    if (!Divides(op.outputs[0], group, false)) return;
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const bool activation = g_.tensor(op.inputs[i]).role == TensorRole::kActivation;
      if (activation && !Divides(op.inputs[i], group, false)) Enter(i, own, group, op);
    }
  }

  // The largest of each row and the sum of exponentials; of a loss also the target's own.
  void ReduceRows(const GraphOp& op, GraphOp& own, ShardGroup group) {
    const GraphTensor& in = g_.tensor(op.inputs[0]);
    if (in.axes.empty() || !d_.Divides(in.axes.back(), group)) return;
    GraphTensor rows{"row statistics", TensorRole::kActivation, DType::kFloat32, {}, kNoOp, {}};
    rows.axes.assign(in.axes.begin(), in.axes.end() - 1);
    GroupExchange exchange{group, CollectiveOp::kAllReduce, CollectiveOp::kUnknown};
    exchange.count = op.kind == GraphOpKind::kLogSoftmax ? 3 : 2;
    const TensorId made = out_.graph.AddTensor(std::move(rows));
    Insert(exchange, {own.inputs[0]}, {made}, false);
    own.inputs.push_back(made);
  }

  // What a device's own tokens sum up to is added up over all of them.
  void SumTokens() {
    const bool divided = std::any_of(d_.parts.begin(), d_.parts.end(), [](const auto& part) {
      return part.group == ShardGroup::kTensor || part.group == ShardGroup::kContext;
    });
    if (!divided) return;
    GraphTensor sums{"sums over tokens", TensorRole::kActivation, DType::kFloat32, {}, kNoOp, {}};
    for (const AxisId axis : g_.tensor(d_.summed).axes) {
      if (!d_.HasTokens(axis)) sums.axes.push_back(axis);
    }
    const TensorId made = out_.graph.AddTensor(std::move(sums));
    Insert({ShardGroup::kTokens, CollectiveOp::kAllReduce}, {d_.summed}, {made}, true);
  }

  // Keys and values of the whole sequence for a part of its queries.
  void MeetKeys(const GraphOp& op, GraphOp& own, ShardGroup group,
                std::vector<GroupExchange>& after) {
    if (group != ShardGroup::kContext) return;
    if (op.kind == GraphOpKind::kStateScan) return ScanWhole(op, own, after);
    const bool fused = op.kind == GraphOpKind::kAttention;
    const bool heads = d_.sequence == SequenceForm::kHeads;
    if (op.kind == GraphOpKind::kContext) {
      if (const auto value = met_.find(own.inputs[1]); value != met_.end()) {
        own.inputs[1] = value->second;
        if (heads) after.push_back({group, CollectiveOp::kAllToAll, CollectiveOp::kAllToAll});
        met_.erase(value);
      }
      return;
    }
    if (!fused && op.kind != GraphOpKind::kScores) return;
    const AxisId keys = fused ? op.keys : g_.tensor(op.outputs[0]).axes.back();
    if (keys < 0 || d_.Divides(keys, group) || !Divides(op.inputs[1], group, true)) return;
    const TensorId value = fused ? op.inputs[2] : ValueAfter(of_);
    Tensors moved = {own.inputs[1], fused ? own.inputs[2] : value};
    if (heads) moved.insert(moved.begin(), own.inputs[0]);
    GroupExchange exchange{group, CollectiveOp::kAllGather, CollectiveOp::kReduceScatter};
    if (heads) exchange.forward = exchange.backward = CollectiveOp::kAllToAll;
    const bool passes_on = d_.sequence == SequenceForm::kRing;
    if (passes_on) exchange.forward = CollectiveOp::kSendRecv;
    if (passes_on || d_.sequence == SequenceForm::kGradientRing) {
      exchange.backward = CollectiveOp::kSendRecv;
    }
    Tensors made;
    for (const TensorId t : moved) made.push_back(Moved(t, exchange));
    Insert(exchange, moved, made, false);
    const size_t at = heads ? 1 : 0;
    if (heads) own.inputs[0] = made[0];
    own.inputs[1] = made[at];
    if (fused) {
      own.inputs[2] = made[at + 1];
      if (heads) after.push_back({group, CollectiveOp::kAllToAll, CollectiveOp::kAllToAll});
    } else {
      met_[value] = made[at + 1];
    }
  }

  // States go from token to token: whole sequences of a part of the groups (Megatron Core,
  // ssm/mamba_context_parallel.py).
  void ScanWhole(const GraphOp& op, GraphOp& own, std::vector<GroupExchange>& after) {
    if (!Divides(op.inputs[0], ShardGroup::kContext, true)) return;
    const GroupExchange exchange{ShardGroup::kContext, CollectiveOp::kAllToAll,
                                 CollectiveOp::kAllToAll};
    const Tensors moved(own.inputs.begin(), own.inputs.begin() + kScanTensors);
    Tensors made;
    for (const TensorId t : moved) made.push_back(Moved(t, exchange));
    Insert(exchange, moved, made, false);
    std::copy(made.begin(), made.end(), own.inputs.begin());
    after.push_back(exchange);
  }

  // Of attention whose scores are an operator of their own.
  TensorId ValueAfter(OpId scores) const {
    OpId id = scores;
    while (g_.op(id).kind != GraphOpKind::kContext) ++id;
    return g_.op(id).inputs[1];
  }

  AxisId Scaled(AxisId axis, ShardGroup group, bool divided) {
    for (const ShardedGraph::ScaledAxis& s : out_.scaled) {
      if (s.of == axis && s.group == group && s.divided == divided) return s.axis;
    }
    const AxisId made = out_.graph.AddAxis(out_.graph.axes()[static_cast<size_t>(axis)].name);
    out_.scaled.push_back({made, axis, group, divided});
    return made;
  }

  // The tensor that an exchange makes of `from`: gathered along its divided tokens; heads for
  // sequences; else alike.
  TensorId Moved(TensorId from, const GroupExchange& exchange) {
    GraphTensor made = out_.graph.tensor(from);
    made.producer = kNoOp;
    made.consumers.clear();
    const bool heads =
        exchange.group == ShardGroup::kContext && exchange.forward == CollectiveOp::kAllToAll;
    if (!heads && exchange.forward != CollectiveOp::kAllGather) {
      return out_.graph.AddTensor(std::move(made));
    }
    for (size_t i = 0; i < made.axes.size(); ++i) {
      const AxisId axis = made.axes[i];
      if (d_.HasTokens(axis) && d_.Divides(axis, exchange.group)) {
        made.axes[i] = Scaled(axis, exchange.group, false);
      } else if (heads && i == 1) {  // [batch, heads, ..]
        made.axes[i] = Scaled(axis, exchange.group, true);
      }
    }
    return out_.graph.AddTensor(std::move(made));
  }

  TensorId Before(TensorId tensor, const GroupExchange& exchange) {
    const TensorId made = Moved(tensor, exchange);
    Insert(exchange, {tensor}, {made}, false);
    return made;
  }

  void Insert(const GroupExchange& exchange, const Tensors& inputs, const Tensors& outputs,
              bool after) {
    GraphOp op;
    op.kind = GraphOpKind::kExchange;
    op.name = "exchange";
    op.in_block = g_.op(of_).in_block;
    op.inputs = inputs;
    op.outputs.assign(outputs.begin(), outputs.end());
    op.exchange = exchange;
    out_.exchanges.push_back({out_.graph.AddOp(std::move(op)), of_, after});
  }

  // The operator, whose first result is what `after` makes it, in order.
  void Push(GraphOp own, const std::vector<GroupExchange>& after) {
    const TensorId result = own.outputs[0];
    // From the last exchange, which makes the result, back to the operator's own.
    std::vector<TensorId> chain = {result};
    for (auto e = after.rbegin(); e != after.rend(); ++e) {
      GroupExchange backwards = *e;
      // What is scattered was whole before.
      if (e->forward == CollectiveOp::kReduceScatter) backwards.forward = CollectiveOp::kAllGather;
      chain.push_back(Moved(chain.back(), backwards));
    }
    own.outputs[0] = chain.back();
    out_.operators.push_back(out_.graph.AddOp(std::move(own)));
    for (size_t i = 0; i < after.size(); ++i) {
      const size_t from = chain.size() - 1 - i;
      Insert(after[i], {chain[from]}, {chain[from - 1]}, true);
    }
  }

  const OperatorGraph& g_;
  const Division& d_;
  ShardedGraph out_;
  OpId of_ = 0;
  std::map<TensorId, TensorId> met_;  // values, until the context is made of them
};

}  // namespace

bool Division::Divides(AxisId axis, ShardGroup group) const {
  return std::any_of(parts.begin(), parts.end(),
                     [&](const Part& p) { return p.axis == axis && p.group == group; });
}

bool Division::HasTokens(AxisId axis) const {
  return std::find(tokens.begin(), tokens.end(), axis) != tokens.end();
}

Binding ShardedGraph::Bind(const Binding& local, const GroupRanks& ranks) const {
  Binding sizes = local;
  sizes.size.resize(graph.axes().size());
  for (const ScaledAxis& s : scaled) {
    const int64_t n = ranks.of(s.group), size = sizes.of(s.of);
    sizes.size[static_cast<size_t>(s.axis)] =
        s.divided ? std::max<int64_t>(size / n, 1) : SaturatingProduct({size, n});
  }
  return sizes;
}

ShardedGraph ShardGraph(const OperatorGraph& graph, const Division& division) {
  return Sharder(graph, division).Run();
}

Bytes ExchangedBytes(const OperatorGraph& graph, const Binding& sizes, OpId id) {
  const GraphOp& op = graph.op(id);
  Bytes bytes;
  const auto add = [&](const auto& tensors) {
    for (const TensorId t : tensors) bytes += SizeOf(graph, sizes, t);
  };
  // Of numbers that an exchange reduces it reads the rows that they are of.
  if (op.exchange.forward == CollectiveOp::kAllReduce ||
      op.exchange.forward == CollectiveOp::kAllGather) {
    add(op.outputs);
  } else {
    add(op.inputs);
  }
  return bytes;
}

absl::InlinedVector<CollectiveOp, 2> BackwardExchanges(const GroupExchange& exchange) {
  if (exchange.backward == CollectiveOp::kUnknown) return {};
  if (exchange.forward == CollectiveOp::kAllGather) {
    return {CollectiveOp::kAllGather, exchange.backward};
  }
  return {exchange.backward};
}

}  // namespace foretrace
