#pragma once
// One device's share of a transformer under a mapping: its graph with local sizes.

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "simulator/graph/differentiate.h"
#include "simulator/mapping/parallel_mapping.h"
#include "simulator/workload/transformer_graph.h"

namespace foretrace {

// What a model's windows leave of attention: TransformerConfig::window and window_pieces, and the
// share of layers that have one.
struct LayerWindow {
  int64_t tokens = 0;
  bool pieces = false;
  double share = 0;
};

// The graph of one model for many mappings of it, and what divides it.
struct ModelGraph : TransformerGraph {
  explicit ModelGraph(TransformerGraph made) : TransformerGraph(std::move(made)) {}

  // Of a mapping of `config`, whose graph this is: the graph with its exchanges, which is the same
  // for all mappings that divide the same axes. `gathers_keys`: attention over a ring gathers keys
  // and values at once (KernelForms::wide_merges). Thread-safe.
  const ShardedGraph& Sharded(const TransformerConfig& config, const ParallelMapping& mapping,
                              bool gathers_keys = false) const;

 private:
  mutable std::mutex mutex_;
  mutable std::map<uint32_t, std::unique_ptr<const ShardedGraph>> sharded_;
};
using SharedGraph = std::shared_ptr<const ModelGraph>;
SharedGraph GraphOf(const TransformerConfig& config);

// The first size of a weight and the product of the others.
using WeightShape = std::pair<int64_t, int64_t>;

// TransformerConfig::loss as the mapping divides the vocabulary.
LossForm LossOf(const TransformerConfig& config, const ParallelMapping& mapping);

class MappedLayer {
 public:
  // `graph`: of the config, where it was built before; null: built here.
  MappedLayer(const TransformerConfig& config, const ParallelMapping& mapping,
              const SharedGraph& graph = nullptr);

  const OperatorGraph& graph() const { return model_->graph; }
  const Binding& sizes() const { return sizes_; }
  const ModelGraph& model() const { return *model_; }
  const TransformerAxes& axes() const { return model_->axes; }
  // Elements of weights on one device: of one layer, without and with the experts' axis; of the
  // embedding; of the output layer.
  double dense() const { return dense_; }
  double expert() const { return expert_; }
  double embedding() const { return embedding_; }
  double head() const { return head_; }
  // Elements of weights outside of layers: of the first stage, with the output layer's where the
  // same devices have the last one and it does not share the embedding's; of the last stage where
  // others have it.
  std::pair<double, double> RootWeights() const;
  // Of one layer's elements, those that are trained, of experts apart; with frozen weights those of
  // adapters (ParallelMapping::lora).
  double trained() const { return trained_; }
  double trained_expert() const { return trained_expert_; }
  int64_t gradient_bytes() const { return gradient_bytes_; }
  // StashOfBlock of what is trained, which every stage of a mapping asks for; worked out once, the
  // first time not by several threads. Where devices exchange heads for sequences attention keeps
  // what it gave of its heads beside what the GEMM after it keeps of its tokens (Transformer Engine
  // 2.8 on, context_parallel.py, AttnFuncWithCPAndQKVOA2A: out_part).
  const Stash& stash() const;
  DType dtype() const { return dtype_; }
  LossForm loss() const { return loss_; }
  bool clamped() const { return clamped_; }  // TransformerConfig's
  // Sizes of the weights that GEMMs of one layer train, each size once, without the experts' axis;
  // and of those after the last layer.
  const std::vector<WeightShape>& trained_shapes() const { return trained_shapes_; }
  const std::vector<WeightShape>& head_shapes() const { return head_shapes_; }
  const LayerWindow& window() const { return window_; }

 private:
  void AddShape(const GraphOp& op, std::vector<WeightShape>& shapes) const;

  SharedGraph model_;
  ParallelMapping mapping_;
  Binding sizes_;
  double dense_ = 0, expert_ = 0, embedding_ = 0, head_ = 0, trained_ = 0, trained_expert_ = 0;
  int64_t gradient_bytes_ = 0;
  LayerWindow window_;
  bool one_root_ = true, tied_ = false, clamped_ = false;
  DType dtype_ = DType::kUnknown;
  LossForm loss_ = LossForm::kInPlace;
  std::vector<WeightShape> trained_shapes_, head_shapes_;
  mutable std::optional<Stash> stash_;
};

// Whether an operator's own weights are trained; and whether a GEMM has an adapter.
bool IsTrained(const GraphOp& op, const ParallelMapping& mapping);
bool IsAdapted(const GraphOp& op, const ParallelMapping& mapping);

// Bytes in which gradients are kept and reduced. Unless the mapping says, as Megatron-LM has it: 4
// where the model is in bfloat16 (arguments.py: accumulate_allreduce_grads_in_fp32), else as the
// model.
int64_t GradientBytes(const TransformerConfig& config, const ParallelMapping& mapping);

}  // namespace foretrace
