#pragma once
// The model, the cluster and the mappings that times and memory of passes are derived by hand for.

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "simulator/mapping/iteration_model.h"
#include "tests/support/round_links.h"
#include "tests/unit/mapping/small_model.h"

namespace foretrace {

// hidden 1024, 16 heads, sequence 1024: a layer has 12 h^2 weights, 4 h^2 of them attention.
inline TransformerConfig Model(int64_t experts = 0) {
  TransformerConfig c = SmallModel(true);
  c.experts = experts;
  c.top_k = experts > 0 ? 2 : 0;
  return c;
}

// 100 GB/s in the node, 10 GB/s a NIC, 2 and 10 us a ring step.
inline ClusterParameters Cluster() {
  ClusterParameters p;
  p.exchanges = Exchanges();
  p.overlap_slowdown = p.device_spread = 0;
  return p;
}

// 100 TFLOP/s; memory and launches take no time.
inline ClusterParameters GemmsAlone() {
  ClusterParameters p = Cluster();
  p.peak = FlopRate::Teraflops(100);
  p.matrix_efficiency = 1;
  p.peak_memory = Bandwidth::GBps(1e9);
  p.issue = SimTime();
  return p;
}

inline ParallelMapping Mapping(int32_t tensor, int32_t data) {
  ParallelMapping m;
  m.tensor = tensor;
  m.data = data;
  m.global_batch = data;
  return m;
}

inline PassTimes Times(const TransformerConfig& c, const ParallelMapping& m,
                       const ClusterParameters& p = Cluster()) {
  const auto times = TimePasses(c, m, p);
  EXPECT_TRUE(times.ok()) << times.status();
  return times.value_or(PassTimes());
}

// How often a layer's pass waits for a collective of a group, and for how long in all.
inline int64_t CountOf(const PassTimes& times, bool forward, ShardGroup group, CollectiveOp op) {
  int64_t count = 0;
  for (const PassExchange& e : times.layer_exchanges.of(forward)) {
    if (!e.beside && e.group == group && e.op == op) count += e.count;
  }
  return count;
}
// Over the tensor-parallel group, a gathering or a scattering counting as half a reduction.
inline double Reductions(const PassTimes& times, bool forward) {
  const auto count = [&](CollectiveOp op) {
    return static_cast<double>(CountOf(times, forward, ShardGroup::kTensor, op));
  };
  return count(CollectiveOp::kAllReduce) +
         (count(CollectiveOp::kAllGather) + count(CollectiveOp::kReduceScatter)) / 2;
}
// Of a dense layer, which has two forward.
inline SimTime Reduction(const ParallelMapping& m, const TransformerConfig& c,
                         const ClusterParameters& p) {
  ParallelMapping plain = m;
  plain.async_tensor = plain.chunked_tensor = false;
  return SimTime::FromPs(Times(c, plain, p).layer_exchanges.Sum(true).ps() / 2);
}

// Of a layer's backward pass, exchanges one after another that kernels run beside.
struct HiddenChain {
  SimTime time, cover;
  SimTime Exposed() const { return std::max(time, cover) - cover; }
};
inline std::vector<HiddenChain> HiddenOf(const PassTimes& times) {
  std::vector<HiddenChain> chains;
  for (const PassExchange& e : times.layer_exchanges.backward) {
    if (!e.beside) continue;
    if (!e.goes_on) chains.push_back({SimTime(), e.cover});
    chains.back().time += e.time;
  }
  return chains;
}

inline constexpr double kH2 = 1024.0 * 1024.0;

}  // namespace foretrace
