#include "simulator/architect/estimate.h"

#include <algorithm>
#include <cmath>

namespace foretrace {

void CoreEstimator::SetDesign(const AcceleratorDesign& d) {
  const bool same = d.tensor_cores == design_.tensor_cores && d.width == design_.width &&
                    d.depth == design_.depth && d.buffer_MB == design_.buffer_MB;
  if (!same) gemms_.clear();
  design_ = d;
}

CoreEstimator::Cycles CoreEstimator::OfGemm(const Gemm& gemm) {
  const auto [it, fresh] = gemms_.try_emplace(gemm);
  if (fresh) {
    it->second = {TensorCycles(gemm, design_, machine_, 1),
                  TensorCycles(gemm, design_, machine_, design_.tensor_cores)};
    it->second.all = std::min(it->second.one, it->second.all);
  }
  return it->second;
}

OpTimes CoreEstimator::Of(const LayerOp& op, int32_t width) {
  Cycles cycles;
  if (op.core != CoreClass::kVector) cycles = OfGemm(op.gemm);
  if (op.core != CoreClass::kTensor) {
    cycles.one = std::max(cycles.one, VectorCycles(op.elements, op.cost, 1, design_.width));
    cycles.all = std::max(cycles.all,
                          VectorCycles(op.elements, op.cost, design_.vector_cores, design_.width));
  }
  const auto time = [&](int64_t count) {
    SimTime t = SimTime::FromSeconds(static_cast<double>(count) / machine_.clock_Hz);
    if (machine_.vectors_from_hbm && op.core == CoreClass::kVector) {
      t = std::max(t, op.hbm / machine_.hbm);
    }
    return t;
  };
  OpTimes times{time(cycles.one), time(cycles.all)};
  if (op.collective.count() > 0) {
    const SimTime sent = (op.collective / machine_.link).ScaledBy(2.0 * (width - 1) / width);
    times.one += sent;
    times.all += sent;
  }
  return times;
}

CoreGraph CoreEstimator::Timed(const LayerWork& work, int32_t width) {
  CoreGraph graph;
  for (const LayerOp& op : work.ops) {
    const OpTimes times = Of(op, width);
    graph.ops.push_back({op.name, op.core, times.one, times.all});
  }
  graph.edges = work.edges;
  return graph;
}

SimTime CoreEstimator::Bound(const LayerWork& work, int32_t width) {
  const size_t n = work.ops.size();
  tails_.assign(n, SimTime());
  SimTime path;
  const int32_t tensor_cores = std::min(design_.tensor_cores, work.concurrency.tensor);
  const int32_t vector_cores = std::min(design_.vector_cores, work.concurrency.vector);
  double tensor = 0, vector = 0;
  size_t edge = work.edges.size();
  for (size_t i = n; i-- > 0;) {
    const LayerOp& op = work.ops[i];
    const OpTimes t = Of(op, width);
    const auto load = [&](int32_t cores) {
      return std::min(static_cast<double>(t.one.ps()), static_cast<double>(t.all.ps()) * cores) /
             cores;
    };
    if (op.core != CoreClass::kVector) tensor += load(tensor_cores);
    if (op.core != CoreClass::kTensor) vector += load(vector_cores);
    for (; edge > 0 && work.edges[edge - 1].first == static_cast<int32_t>(i); --edge) {
      tails_[i] = std::max(tails_[i], tails_[static_cast<size_t>(work.edges[edge - 1].second)]);
    }
    tails_[i] += std::min(t.one, t.all);
    path = std::max(path, tails_[i]);
  }
  // Rounded down: it stays a bound.
  return std::max(path,
                  SimTime::FromPs(static_cast<int64_t>(std::max(tensor, vector) * (1 - 1e-12))));
}

}  // namespace foretrace
