#pragma once
// A transformer whose weights are easily counted, and devices whose times are.

#include "simulator/mapping/iteration_model.h"
#include "simulator/workload/transformer.h"
#include "tests/support/round_links.h"

namespace foretrace {

// hidden 1024, 16 heads, sequence 1024: a layer has 12 h^2 + 13 h weights, the embedding 2,048 h
// and 1,024 h of positions, the output layer with the final norm 2,050 h where it has a table of
// its own (`tied` false).
inline TransformerConfig SmallModel(bool tied = false) {
  TransformerConfig c;
  c.hidden = 1024;
  c.layers = 4;
  c.heads = 16;
  c.vocabulary = 2048;
  c.sequence = 1024;
  if (!tied) c.tied = false;
  return c;
}

// The same with experts: 1,024 tokens, two of eight experts each, 2,048 rows, 256 of an expert;
// gated.
inline TransformerConfig SmallMixture() {
  TransformerConfig c = SmallModel();
  c.family = TransformerFamily::kLlama;
  c.dtype = DType::kBFloat16;
  c.fused_attention = true;
  c.ffn = 4096;
  c.experts = 8;
  c.top_k = 2;
  return c;
}

// Bytes over the memory's rate alone take time.
inline ClusterParameters MemoryAlone(double gbps = 1) {
  ClusterParameters p;
  p.overlap_slowdown = p.device_spread = 0;
  p.peak = FlopRate::Teraflops(1e9);
  p.peak_memory = Bandwidth::GBps(gbps);
  p.memory_efficiency = 1;
  p.exchanges = Exchanges({.node_gbps = 1e6, .gather_gbps = 1e6, .inside_us = 0});
  p.issue = SimTime();
  p.multiprocessors = 0;
  return p;
}

}  // namespace foretrace
