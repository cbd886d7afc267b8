#pragma once
// Which exchanges follow from how devices divide the axes of a graph.

#include <array>
#include <vector>

#include "simulator/graph/operator_graph.h"

namespace foretrace {

// How queries meet keys and values that other devices have, of those that divide a sequence: these
// are gathered, or passed on from neighbour to neighbour, or gathered while their gradients are
// passed on, or heads are exchanged for sequences.
enum class SequenceForm : uint8_t { kGather, kRing, kGradientRing, kHeads };

struct Division {
  struct Part {
    AxisId axis;
    ShardGroup group;
  };
  std::vector<Part> parts;     // an axis may be divided by several groups
  std::vector<AxisId> tokens;  // axes along which tokens lie; the others are of what a token has
  SequenceForm sequence = SequenceForm::kGather;
  // A tensor of which a loss takes the sums over all tokens; -1: none.
  TensorId summed = -1;

  bool Divides(AxisId axis, ShardGroup group) const;
  bool HasTokens(AxisId axis) const;
};

// Devices of each group.
struct GroupRanks {
  std::array<int64_t, 3> count = {1, 1, 1};  // tensor, context, expert
  int64_t of(ShardGroup group) const {
    return group == ShardGroup::kTokens ? count[0] * count[1] : count[static_cast<size_t>(group)];
  }
};

// An exchange and the operator of the graph before division that it is made for: whose input it
// makes whole, or (`after`) whose result.
struct PlacedExchange {
  OpId op = kNoOp;  // of the divided graph
  OpId of = kNoOp;  // of the graph before
  bool after = false;
};

struct ShardedGraph {
  OperatorGraph graph;
  std::vector<OpId> operators;            // by operator of the graph before: which one it is here
  std::vector<PlacedExchange> exchanges;  // in order
  // Axes added for tensors that are whole where their parts were, or the other way round.
  struct ScaledAxis {
    AxisId axis, of;
    ShardGroup group;
    bool divided;  // else the size times the group's ranks
  };
  std::vector<ScaledAxis> scaled;

  // `local`: sizes of the axes of the graph before, on one device.
  Binding Bind(const Binding& local, const GroupRanks& ranks) const;
};

// The graph on one device, exchanges inserted as operators (GraphOpKind::kExchange); axes, tensors
// and other operators are those of `graph`, in its order. From the axes alone:
// - a GEMM whose weights are divided along what it contracts makes a part of a sum, as does the
//   look-up in a divided table: the sum is all-reduced, or scattered where its tokens are divided;
// - one whose weights are divided along its columns needs all of its tokens: they are gathered
//   where divided; otherwise the gradient of its input is a sum over the group;
// - weights along an axis that neither end has (experts) are at home on some devices: tokens go
//   there and results back, all to all;
// - queries of a part of a sequence need all keys (SequenceForm);
// - scans of states need whole sequences, of a part of the groups: all to all, and back;
// - rows of a softmax over a divided axis are reduced number by number;
// - sums over all tokens (Division::summed) are all-reduced among all that divide a sequence or its
//   layers, those that have the same tokens included (Megatron Core's group for them).
// An operator of element-wise work takes what it lacks as a GEMM by columns does. What is
// gathered is not kept: it is gathered once more where the backward pass reads it.
ShardedGraph ShardGraph(const OperatorGraph& graph, const Division& division);

// Bytes of one of an exchange's forward collectives, as networks count them: of what is gathered or
// reduced all, of others what a device has; backward they are of the same size, but what is passed
// on (kSendRecv), which may be of more bits and have keys and values with it.
Bytes ExchangedBytes(const OperatorGraph& graph, const Binding& sizes, OpId exchange);

// In the backward pass, in order; forward there is one, or none.
absl::InlinedVector<CollectiveOp, 2> BackwardExchanges(const GroupExchange& exchange);

}  // namespace foretrace
