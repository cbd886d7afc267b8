#pragma once
// Random graphs of kernels and systems for them.

#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "simulator/dataflow/mapping.h"

namespace foretrace::dataflow {

// Of two to `most` kernels; where it trains, those of the second half are of the backward pass.
inline Workload RandomWorkload(std::mt19937& random, int most = 10, bool trains = false) {
  const auto pick = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  constexpr std::array<const char*, 4> kLabels = {"a", "b", "c", ""};
  constexpr std::array<GraphOpKind, 3> kKinds = {GraphOpKind::kMatmul, GraphOpKind::kBatchedMatmul,
                                                 GraphOpKind::kElementwise};
  LoopGraph graph;
  const int n = pick(2, most);
  for (int i = 0; i < n; ++i) {
    const GraphOpKind kind = kKinds[static_cast<size_t>(pick(0, 2))];
    const LoopSizes size = {1, 32 * pick(1, 8),
                            kind == GraphOpKind::kElementwise ? 1 : 32 * pick(1, 8), 64};
    LoopNest nest;
    for (size_t l = 1; l < kLoops; ++l)
      nest.axes[l] = {graph.AddAxis(kLabels[static_cast<size_t>(pick(0, 3))], size[l])};
    if (kind == GraphOpKind::kElementwise) nest.axes[2].clear();
    const bool backward = trains && i > n / 2;
    nest.pass = backward ? Direction::kBackward : Direction::kForward;
    std::vector<OpId> inputs;
    for (int from = std::max(0, i - 4); from < i; ++from) {
      if (pick(0, 2) == 0) inputs.push_back(from);
    }
    graph.Add("k" + std::to_string(i), kind, std::move(nest), inputs,
              backward && kind == GraphOpKind::kBatchedMatmul ? TensorRole::kGradient
                                                              : TensorRole::kActivation);
  }
  Workload w = MakeWorkload("random", std::move(graph));
  w.tiled_size = 64;
  return w;
}

inline System RandomSystem(std::mt19937& random) {
  const auto pick = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  System s;
  s.name = "random";
  s.chip = {"chip", pick(12, 200), 8, 4, 1, Bytes(4000 * pick(8, 100)), Execution::kDataflow, 0, 0,
            0};
  s.memory = {"dram", Bandwidth::GBps(pick(5, 80)), Bytes(1'000'000'000), 0, 0};
  s.dimensions = {{{static_cast<NetworkKind>(pick(0, 2)), pick(0, 1) == 0 ? 4 : 8,
                    Bandwidth::GBps(pick(2, 30)), false},
                   {},
                   Role::kTensor}};
  return s;
}

}  // namespace foretrace::dataflow
