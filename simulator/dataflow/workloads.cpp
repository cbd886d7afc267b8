#include "simulator/dataflow/workloads.h"

#include <fmt/format.h>

#include "simulator/dataflow/quantities.h"

namespace foretrace::dataflow {

Workload MakeDlrm(const DlrmSizes& sizes) {
  LoopGraph g;
  const AxisId width = g.AddAxis("width", sizes.width), inner = g.AddAxis("inner", sizes.width),
               rows = g.AddAxis("rows", sizes.rows);
  const absl::InlinedVector<AxisId, 4> pooled = {g.AddAxis("tables", sizes.tables),
                                                 g.AddAxis("pooled", sizes.pooled),
                                                 g.AddAxis("embedding", sizes.embedding), rows};
  const auto layers = static_cast<OpId>(sizes.bottom_layers + sizes.top_layers);
  const auto add = [&](Direction pass, OpId layer, OpId from) {
    LoopNest nest;
    nest.axes = {{{}, {width}, {inner}, {rows}}};
    nest.streamed = Loop::kCount;
    nest.pass = pass;
    std::vector<OpId> inputs;
    if (from != kNoOp) inputs.push_back(from);
    std::vector<LoopGraph::Beside> beside;
    if (layer + 1 == sizes.bottom_layers)
      beside.push_back({"pooled rows", TensorRole::kActivation, pooled, Transfer::kAllToAll});
    return g.Add(fmt::format("MLP_{}{}", layer + 1, pass == Direction::kForward ? "" : "_bwd"),
                 GraphOpKind::kMatmul, std::move(nest), inputs, TensorRole::kActivation, beside);
  };
  std::vector<OpId> forward, backward(static_cast<size_t>(layers));
  for (OpId i = 0; i < layers; ++i)
    forward.push_back(add(Direction::kForward, i, i > 0 ? forward.back() : kNoOp));
  OpId after = kNoOp;
  for (OpId i = layers - 1; i >= 0; --i)
    after = backward[static_cast<size_t>(i)] = add(Direction::kBackward, i, after);
  for (OpId i = 0; i < layers; ++i) {
    LoopNest nest;
    nest.axes = {{{}, {width}, {rows}, {inner}}};
    nest.streamed = Loop::kCount;
    nest.pass = Direction::kBackward;
    // Of the activation of the layer before and the gradient of the layer after.
    std::vector<OpId> inputs;
    if (i > 0) inputs.push_back(forward[static_cast<size_t>(i) - 1]);
    if (i + 1 < layers) inputs.push_back(backward[static_cast<size_t>(i) + 1]);
    g.Add(fmt::format("MLP_{}_bwd_weight_update", i + 1), GraphOpKind::kBatchedMatmul,
          std::move(nest), inputs, TensorRole::kGradient);
  }
  Workload w = MakeWorkload("dlrm", std::move(g));
  w.per_chip = true;
  w.batch = sizes.micro_batches;
  return w;
}

Workload MakeHpl(const HplSizes& sizes) {
  LoopGraph g;
  const AxisId block = g.AddAxis("block", sizes.block);
  for (OpId i = 0; i < static_cast<OpId>(sizes.iterations); ++i) {
    const int64_t side = sizes.n - i * sizes.block;
    LoopNest nest;
    nest.axes = {{{},
                  {g.AddAxis("rows", CeilOf(side, sizes.grid_rows))},
                  {g.AddAxis("columns", CeilOf(side, sizes.grid_columns))},
                  {block}}};
    nest.streamed = Loop::kM;
    std::vector<OpId> before;
    if (i > 0) before.push_back(i - 1);
    g.MoveResult(g.Add(fmt::format("Iteration_{}", i + 1), GraphOpKind::kBatchedMatmul,
                       std::move(nest), before),
                 Transfer::kBroadcast);
  }
  Workload w = MakeWorkload("hpl", std::move(g));
  w.tiled_size = CeilOf(sizes.n, sizes.grid_rows);
  w.per_chip = true;
  return w;
}

Workload MakeFft(const FftSizes& sizes) {
  LoopGraph g;
  LoopNest nest;
  nest.axes = {{{},
                {g.AddAxis("m", sizes.m)},
                {g.AddAxis("radix", sizes.radix)},
                {g.AddAxis("n", CeilOf(sizes.n, sizes.chips))}}};
  nest.streamed = Loop::kM;
  const OpId first = g.Add("Step_1", GraphOpKind::kBatchedMatmul, nest, {});
  const OpId second =
      g.Add("Step_2", GraphOpKind::kBatchedMatmul, std::move(nest), std::span(&first, 1));
  g.MoveResult(second, Transfer::kAllToAll);
  Workload w = MakeWorkload("fft", std::move(g));
  w.tiled_size = sizes.m;
  w.per_chip = true;
  return w;
}

}  // namespace foretrace::dataflow
