#pragma once
// Passes that make operators of cores from a model's graph.

#include <vector>

#include "simulator/architect/layer_work.h"
#include "simulator/graph/shard.h"

namespace foretrace {

// GEMMs of several weights as one GEMM each.
OperatorGraph OneWeightEach(const OperatorGraph& graph);

// A tensor operator and the point-wise vector operator that alone reads it become one.
LayerWork Fused(LayerWork work);

// One layer: the operators `ops` of a bound graph, in its order, which the devices of a layer
// divide as `sharded` says.
class LayerPasses {
 public:
  LayerPasses(const OperatorGraph& graph, const Binding& sizes, const ShardedGraph& sharded,
              std::vector<OpId> ops)
      : g_(graph), sizes_(sizes), sharded_(sharded), ops_(std::move(ops)) {}

  LayerWork Forward() const;
  LayerWork Backward() const;
  Bytes Parameters() const;
  Bytes Activations() const;
  Bytes Input() const;

 private:
  class Differentiator;

  bool Inside(OpId op) const;
  // Tensor parallelism sums this operator's result (true) or its input's gradient (false).
  bool SumsResult(OpId op) const;
  bool SumsGradient(OpId op) const;
  LayerOp VectorOp(OpId id, Direction pass) const;
  LayerOp SumOf(std::string_view name, TensorId tensor, int64_t terms) const;
  LayerOp AllReduce(std::string_view name, TensorId tensor) const;
  Gemm GemmOf(OpId id) const;

  const OperatorGraph& g_;
  const Binding& sizes_;
  const ShardedGraph& sharded_;
  std::vector<OpId> ops_;
};

}  // namespace foretrace
