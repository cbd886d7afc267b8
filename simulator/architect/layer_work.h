#pragma once
// Layers of a model as operators of tensor and vector cores, at one tensor-parallel width and
// micro-batch, before an accelerator is known.

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/architect/core_graph.h"
#include "simulator/architect/tensor_cycles.h"
#include "simulator/architect/vector_cycles.h"
#include "simulator/base/units.h"
#include "simulator/workload/transformer.h"

namespace foretrace {

// Work of a tensor operator (gemm), of a vector operator (elements, cost), of a fused one (both),
// or of an all-reduce among the devices of a layer (collective, and the sum on vector cores).
struct LayerOp {
  std::string name;
  CoreClass core = CoreClass::kCount;
  Gemm gemm;
  int64_t elements = 0;
  VectorCost cost;
  Bytes hbm;         // least traffic of the vector part
  Bytes collective;  // size of what is summed over devices
  bool pointwise = false;
};

// Of a slice: operators in a topological order, edges by where they begin.
struct LayerWork {
  std::vector<LayerOp> ops;
  std::vector<std::pair<int32_t, int32_t>> edges;
  CoreCounts concurrency;  // operators that can run at once on tensor and on vector cores
};

// One layer on one device of `width`.
struct LayerSlice {
  LayerWork forward, backward;
  Bytes parameters;
  Bytes activations;  // kept for the backward pass
  Bytes input;        // what enters from the layer before
};

// A model at one width and micro-batch: a chain of layers, of which there are few kinds.
struct SlicedModel {
  int32_t width = 1;
  int32_t micro_batch = 1;
  std::vector<LayerSlice> kinds;
  std::vector<int32_t> chain;  // the kind of each layer
  Flop gemm_flop;              // of GEMMs of one micro-batch, forward, whole model
};

// Differentiates, divides over `width` devices as Megatron-LM does (heads, feed-forward widths,
// vocabulary; all-reduces inserted), classes operators (table 3) and fuses a tensor operator with
// the point-wise vector operator that alone reads its result. GEMMs of several weights become
// one each. Attention is not fused: scores go through softmax on vector cores. Errors: a family
// with two stacks, a width that does not divide heads or feed-forward width.
absl::StatusOr<SlicedModel> SliceModel(const TransformerConfig& config, int32_t width,
                                       int32_t micro_batch);

// The pass that recomputes: forward, then backward, whose operators wait for what they read.
LayerWork Recomputed(const LayerSlice& slice);

}  // namespace foretrace
