#include "simulator/mapping/kept_activations.h"

#include <algorithm>

#include "simulator/base/dtype.h"
#include "simulator/mapping/recomputed_modules.h"

namespace foretrace {
namespace {

std::vector<bool> KeptWithout(const OperatorGraph& graph, const ParallelMapping& m) {
  return KeptOfBlock(graph, [&m](const GraphOp& op) { return NeedsInput(op, m); });
}

bool IsFused(const OperatorGraph& g, OpId op) {
  return op != kNoOp && g.op(op).kind == GraphOpKind::kAttention;
}

// Sum over activations by `share` of their bytes.
template <typename Share>
double Sum(const MappedLayer& layer, const std::vector<bool>& of, const Share& share) {
  const OperatorGraph& g = layer.graph();
  double bytes = 0;
  for (TensorId t = 0; static_cast<size_t>(t) < of.size(); ++t) {
    if (!of[static_cast<size_t>(t)] || g.tensor(t).role != TensorRole::kActivation) continue;
    bytes += share(t) * static_cast<double>(SizeOf(g, layer.sizes(), t).count());
  }
  return bytes;
}

}  // namespace

double KeptShare(const OperatorGraph& graph, TensorId tensor, const ParallelMapping& m) {
  if (!m.keeps_eight) return 1;
  const GraphTensor& t = graph.tensor(tensor);
  int32_t bits = 0;
  const auto asks = [&](OpId id) {
    const GraphOp& op = graph.op(id);
    const auto kept = KeptBy(op);
    if (!op.in_block || std::find(kept.begin(), kept.end(), tensor) == kept.end()) return;
    const bool gemm = op.kind == GraphOpKind::kMatmul;
    const bool gated = op.kind == GraphOpKind::kElementwise && op.function == "silu";
    const bool own = op.kind == GraphOpKind::kAttention && op.outputs[0] == tensor;
    bits = std::max(bits, gemm || gated ? 8 : own ? 12 : 32);
  };
  for (const OpId id : t.consumers) asks(id);
  if (t.producer != kNoOp) asks(t.producer);
  if (bits == 0 || bits > 12) return 1;
  // With a scale of 32 bits for each 128 values, or of 8 for each 32.
  return (bits + 0.25) / static_cast<double>(8 * ElementSize(t.dtype));
}

double KeptBytes(const MappedLayer& layer, const ParallelMapping& m, Recompute recompute) {
  const OperatorGraph& g = layer.graph();
  const bool parts = RecomputesParts(recompute);
  ParallelMapping own = m;
  own.recompute = recompute;
  const std::vector<bool> kept = parts ? PartsAgain(g, own).kept : KeptWithout(g, m);
  return Sum(layer, kept, [&](TensorId t) {
    const OpId producer = g.tensor(t).producer;
    const bool core = producer != kNoOp && g.op(producer).attention_core;
    const double twice = m.ulysses && IsFused(g, producer) ? 2 : 1;  // MappedLayer::stash
    return recompute == Recompute::kSelective && core ? 0 : twice * KeptShare(g, t, m);
  });
}

double MadeAgainBytes(const MappedLayer& layer, const ParallelMapping& m) {
  const OperatorGraph& g = layer.graph();
  std::vector<bool> dropped = KeptWithout(g, m);
  const std::vector<bool> kept = PartsAgain(g, m).kept;
  for (size_t t = 0; t < kept.size(); ++t) {
    if (kept[t]) dropped[t] = false;
  }
  const auto whole = [](TensorId) { return 1.0; };
  if (m.recompute != Recompute::kModules) return Sum(layer, dropped, whole);
  const auto& ops = g.ops();
  const auto residual = std::ranges::find_if(
      ops, [](const GraphOp& op) { return op.in_block && op.kind == GraphOpKind::kAdd; });
  const auto end = static_cast<OpId>(residual - ops.begin());
  const auto of_half = [&](bool attention) {
    return Sum(layer, dropped,
               [&](TensorId t) { return (g.tensor(t).producer < end) == attention ? 1.0 : 0.0; });
  };
  return std::max(of_half(true), of_half(false));
}

double KeptSingly(const MappedLayer& layer, bool eager, bool repeats) {
  const OperatorGraph& g = layer.graph();
  const auto bytes = [&](TensorId t) {
    return static_cast<double>(SizeOf(g, layer.sizes(), t).count());
  };
  double more = 0;
  for (const GraphOp& op : g.ops()) {
    if (!op.in_block || op.inputs.empty()) continue;
    if (eager && op.kind == GraphOpKind::kElementwise && op.kept == 1) {
      if (bytes(op.inputs[0]) > bytes(op.outputs[0])) more += bytes(op.outputs[0]);
    }
    if (repeats && op.name == "rotary" && op.inputs.size() > 1) {
      more += 2 * std::max(bytes(op.inputs[0]) - bytes(op.inputs[1]), 0.0);
    }
  }
  return more;
}

}  // namespace foretrace
