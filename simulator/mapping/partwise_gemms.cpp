#include "simulator/mapping/partwise_gemms.h"

#include <algorithm>
#include <variant>

namespace foretrace {
namespace {

// Transformer Engine's scattering by userbuffers: parts of a GEMM, and multiprocessors that the
// exchange takes meanwhile (NVIDIA/dgxc-benchmarking, gpt3_175b_hydra.yaml, ub_tp_comm_overlap_cfg:
// num_splits 4, num_sm 24 and 20 of proj_fprop and fc2_fprop, set_sm_margin).
constexpr int32_t kScatterParts = 4;
constexpr int32_t kScatterMultiprocessors = 22;

bool OnStream(const MappedLayer& layer, TensorId t) {
  const auto& axes = layer.graph().tensor(t).axes;
  return std::find(axes.begin(), axes.end(), layer.axes().stream) != axes.end();
}

}  // namespace

RegionEdge EdgeOf(const MappedLayer& layer, const GraphOp& op) {
  if (op.kind != GraphOpKind::kMatmul || !op.in_block) return RegionEdge::kNone;
  const bool in = OnStream(layer, op.inputs[0]), out = OnStream(layer, op.outputs[0]);
  if (in == out) return RegionEdge::kNone;
  return in ? RegionEdge::kEnters : RegionEdge::kLeaves;
}

bool GathersCast(RegionEdge edge, const ParallelMapping& m, const ClusterParameters& p) {
  if (edge == RegionEdge::kNone || !m.sequence_parallel || !m.narrow()) return false;
  return p.casts_before_gathers && (m.fp8 || !p.dynamic_scaling);
}

double GatheredShare(RegionEdge edge, DType dtype, const ParallelMapping& m,
                     const ClusterParameters& p) {
  if (!GathersCast(edge, m, p)) return 1;
  const int orders = !m.fp8 && edge == RegionEdge::kLeaves ? 2 : 1;
  const double element = m.nvfp4 ? 0.5 + 1.0 / 16 : m.mxfp8 ? 1 + 1.0 / 32 : 1;
  return orders * element / static_cast<double>(ElementSize(dtype));
}

bool RunsBesideForward(RegionEdge edge, const ParallelMapping& m) {
  return (m.async_tensor || m.chunked_tensor) && edge != RegionEdge::kNone;
}

bool RunsBesideBackward(RegionEdge edge, const ParallelMapping& m) {
  return m.chunked_tensor && edge == RegionEdge::kLeaves;
}

GemmSplit SplitOf(RegionEdge edge, const ParallelMapping& mapping, int32_t multiprocessors) {
  // One part for each rank, of which the own is exchanged with none.
  GemmSplit split{mapping.tensor, 1};
  if (mapping.chunked_tensor && edge == RegionEdge::kLeaves) {
    split.parts = kScatterParts;
    if (multiprocessors > 2 * kScatterMultiprocessors) {
      split.share =
          static_cast<double>(multiprocessors - kScatterMultiprocessors) / multiprocessors;
    }
  }
  return split;
}

double PartwiseGemms::Forward(OpId id, RegionEdge edge, double whole) const {
  const GraphOp& op = l_.graph().op(id);
  const GemmSplit split = SplitOf(edge, m_, p_.multiprocessors);
  const TensorId passed = edge == RegionEdge::kEnters ? op.inputs[0] : op.outputs[0];
  return Beside(id, split, false, passed, whole);
}

double PartwiseGemms::Backward(OpId id, double whole) const {
  return Beside(id, {m_.tensor, 1}, true, l_.graph().op(id).outputs[0], whole);
}

double PartwiseGemms::Beside(OpId id, const GemmSplit& split, bool backward, TensorId passed,
                             double whole) const {
  const OperatorGraph& g = l_.graph();
  double gemms = 0, parts = 0;
  const auto add = [&](const KernelList& list, double share, double times) {
    double sum = 0;
    for (const KernelWork& work : list) {
      const GemmForm form{!m_.nvfp4 && m_.narrow() && work.m > 0, m_.nvfp4 && work.m > 0, backward,
                          share};
      sum += kernels_.Time(work, sources_, form).seconds();
    }
    return sum * times;
  };
  for (OperatorCall call : CallsOf(g, l_.sizes(), id, Direction::kForward)) {
    auto* linear = std::get_if<LinearOp>(&call.shape);
    if (linear == nullptr || linear->m < split.parts) return whole;
    if (backward) std::swap(linear->n, linear->k);
    linear->bias = false;
    gemms += add(Kernels(call), 1, 1);
    linear->m /= split.parts;
    parts += add(Kernels(call), split.share, split.parts);
  }
  double bytes = static_cast<double>(SizeOf(g, l_.sizes(), passed).count()) * m_.tensor;
  const RegionEdge edge = EdgeOf(l_, g.op(id));
  if (backward || edge == RegionEdge::kEnters) {
    bytes *= GatheredShare(edge, g.tensor(passed).dtype, m_, p_);
  }
  // Every part is waited for across streams.
  const double exchange = groups_.TensorReduction(bytes).seconds() / 2 +
                          (split.parts - 1) * groups_.Handovers().seconds();
  return whole - gemms + std::max(parts, exchange + parts / split.parts);
}

}  // namespace foretrace
