#include "simulator/architect/layer_work.h"

#include <algorithm>

#include "simulator/architect/layer_passes.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/graph/differentiate.h"
#include "simulator/workload/layer_pattern.h"
#include "simulator/workload/transformer_graph.h"

namespace foretrace {
namespace {

absl::Status CheckWidth(const TransformerConfig& c, int32_t width, int32_t micro_batch) {
  FORETRACE_RETURN_IF_ERROR(CheckChainOfWholeLayers(c));
  if (width < 1 || micro_batch < 1) {
    return InvalidInput("{}: width {} and micro-batch {} must be positive", c.name, width,
                        micro_batch);
  }
  for (const auto& [what, size] : {std::pair<const char*, int64_t>{"attention heads", c.heads},
                                   {"feed-forward width", c.ffn}}) {
    if (size % width != 0) {
      return InvalidInput("{}: tensor-parallel width {} does not divide {} {}; choose a divisor",
                          c.name, width, what, size);
    }
  }
  return absl::OkStatus();
}

// Operators of one layer: before the repeated block, in it, or after.
enum class Part { kEmbedding, kBlock, kHead };

LayerSlice SliceOf(const TransformerGraph& model, const Binding& sizes, const ShardedGraph& sharded,
                   Part part) {
  const OperatorGraph& graph = model.graph;
  OpId first = 0;
  while (!graph.op(first).in_block) ++first;
  std::vector<OpId> ops;
  for (OpId id = 0; static_cast<size_t>(id) < graph.ops().size(); ++id) {
    const Part of = graph.op(id).in_block ? Part::kBlock
                    : id < first          ? Part::kEmbedding
                                          : Part::kHead;
    if (of == part) ops.push_back(id);
  }
  LayerSlice slice;
  const LayerPasses passes(graph, sizes, sharded, ops);
  slice.forward = Fused(passes.Forward());
  slice.backward = Fused(passes.Backward());
  slice.parameters = passes.Parameters();
  slice.activations = passes.Activations();
  slice.input = passes.Input();
  return slice;
}

}  // namespace

absl::StatusOr<SlicedModel> SliceModel(const TransformerConfig& config, int32_t width,
                                       int32_t micro_batch) {
  if (const absl::Status s = CheckWidth(config, width, micro_batch); !s.ok()) return s;
  TransformerConfig c = config;
  c.fused_attention = false;
  // Padded, as Megatron-LM does, so that the width divides it.
  c.vocabulary = (c.vocabulary + width - 1) / width * width;
  TransformerGraph model = MakeTransformerGraph(c);
  TransformerShares shares;
  shares.tensor = width;
  shares.micro_batch = micro_batch;
  const Binding sizes = BindTransformer(model, c, shares);
  model.graph = OneWeightEach(model.graph);
  const ShardedGraph sharded = ShardGraph(model.graph, DivisionOf(model, c, shares));
  SlicedModel sliced;
  sliced.width = width;
  sliced.micro_batch = micro_batch;
  for (const Part part : {Part::kEmbedding, Part::kBlock, Part::kHead}) {
    sliced.kinds.push_back(SliceOf(model, sizes, sharded, part));
  }
  sliced.chain.assign(static_cast<size_t>(c.layers) + 2, 1);
  sliced.chain.front() = 0;
  sliced.chain.back() = 2;
  TransformerShares whole = shares;
  whole.tensor = 1;
  sliced.gemm_flop = GemmFlop(model.graph, BindTransformer(model, c, whole), c.layers);
  return sliced;
}

LayerWork Recomputed(const LayerSlice& slice) {
  LayerWork work = slice.forward;
  const auto offset = static_cast<int32_t>(work.ops.size());
  work.ops.insert(work.ops.end(), slice.backward.ops.begin(), slice.backward.ops.end());
  for (const auto& [from, to] : slice.backward.edges) {
    work.edges.emplace_back(from + offset, to + offset);
  }
  std::vector<bool> leaves(slice.forward.ops.size(), true);
  for (const auto& [from, to] : slice.forward.edges) leaves[static_cast<size_t>(from)] = false;
  std::vector<bool> roots(slice.backward.ops.size(), true);
  for (const auto& [from, to] : slice.backward.edges) roots[static_cast<size_t>(to)] = false;
  for (int32_t i = 0; i < offset; ++i) {
    for (size_t j = 0; j < roots.size(); ++j) {
      if (leaves[static_cast<size_t>(i)] && roots[j]) {
        work.edges.emplace_back(i, offset + static_cast<int32_t>(j));
      }
    }
  }
  return work;
}

}  // namespace foretrace
