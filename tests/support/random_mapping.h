#pragma once
// A small model; mappings with all kinds of words, of one whose layers they change too.

#include <algorithm>
#include <random>

#include "simulator/mapping/recomputed_modules.h"

namespace foretrace {

inline TransformerConfig TinyTransformer(int64_t layers = 8) {
  TransformerConfig model;
  model.hidden = 512;
  model.layers = layers;
  model.heads = 8;
  model.vocabulary = 1000;
  model.sequence = 128;
  return model;
}

// For the model, of at least 8 layers and 8 heads, experts and dense layers among them are drawn as
// well. What comes need not be a valid mapping.
inline ParallelMapping DrawMapping(std::mt19937& rng, TransformerConfig& model) {
  ParallelMapping m;
  m.tensor = 1 << rng() % 3;
  m.pipeline = 1 << rng() % 3;
  m.data = 1 << rng() % 2;
  m.chunks = 1 + static_cast<int32_t>(rng() % 2);
  m.micro_batch = 1 + static_cast<int32_t>(rng() % 2);
  m.global_batch = m.data * m.micro_batch * 4 * (1 + static_cast<int32_t>(rng() % 6));
  m.recompute = static_cast<Recompute>(rng() % static_cast<int>(Recompute::kCount));
  m.sequence_parallel = rng() % 2 == 0;
  const ScheduleKind schedules[] = {ScheduleKind::k1F1B, ScheduleKind::kGPipe, ScheduleKind::kKFKB,
                                    ScheduleKind::kZeroBubbleH1, ScheduleKind::kDualPipe};
  m.schedule = schedules[rng() % 5];
  if (m.schedule == ScheduleKind::kKFKB) m.k = 1 << rng() % 3;
  m.context = 1 << rng() % 3;
  if (m.context > 1) (rng() % 2 == 0 ? m.ring : m.ulysses) = rng() % 2 == 0;
  model.fused_attention = rng() % 2 == 0;
  m.zero = static_cast<int32_t>(rng() % 4);
  m.overlap_gradients = rng() % 2 == 0;
  model.experts = rng() % 2 == 0 ? 8 : 0;
  model.top_k = model.experts > 0 ? 2 : 0;
  model.expert_groups = model.chosen_groups = 0;
  if (model.experts > 0) m.expert = 1 << rng() % 2;
  const bool mixed = model.experts > 0 && rng() % 2 == 0;
  model.dense_first = mixed ? 1 + static_cast<int64_t>(rng() % 5) : 0;
  model.dense_ffn = mixed ? 4096 : 0;
  if (m.pipeline > 1 && m.chunks == 1 && rng() % 3 == 0 && model.layers >= 2 * m.pipeline) {
    const auto each = static_cast<int32_t>(model.layers / m.pipeline);
    m.layers.assign(static_cast<size_t>(m.pipeline), each);
    m.layers.front() += static_cast<int32_t>(model.layers % m.pipeline) + 1;
    --m.layers.back();
  }
  if (model.experts > 0 && m.sequence_parallel) m.expert_tensor = rng() % 2;
  m.async_tensor = m.sequence_parallel && rng() % 2 == 0;
  m.chunked_tensor = m.sequence_parallel && !m.async_tensor && rng() % 2 == 0;
  if (m.zero > 0 && m.replicas() == 4 && rng() % 2 == 0) m.hybrid = 2;
  if (model.experts > 0) model.shared_ffn = rng() % 2 == 0 ? 512 : 0;
  if (m.recompute == Recompute::kModules) {
    m.modules.bits = static_cast<uint8_t>(rng());
    m.modules.bits &= (1 << static_cast<int>(RecomputeModule::kCount)) - 1;
    m.modules.bits &= static_cast<uint8_t>(~IdleModules(model, m.modules).bits);
    if (m.modules.empty()) m.recompute = Recompute::kNone;
  }
  if (m.recompute == Recompute::kFull) {
    switch (rng() % 4) {
      case 0:
        m.recomputed_together = 2 + static_cast<int32_t>(rng() % 2);
        break;
      case 1:
        m.recomputed_layers = static_cast<int32_t>(rng() % 4);
        break;
      case 2:
        m.recomputed_every = 2 + static_cast<int32_t>(rng() % 2);
        break;
      default:
        break;
    }
    m.divided_inputs = m.tensor > 1 && !m.sequence_parallel && rng() % 2 == 0;
    m.inputs_on_host = rng() % 2 == 0;
  }
  m.fp8 = rng() % 4 == 0;
  if (rng() % 4 == 0) m.last_layers = 1 + static_cast<int32_t>(rng() % 8);
  m.train_ffn = rng() % 8 == 0;
  m.balance_loss = model.experts > 0 && rng() % 2 == 0;
  if (m.expert > 1 && rng() % 2 == 0) m.expert_imbalance = 30;
  if (m.expert > 1) {
    m.dispatch = static_cast<ExpertDispatch>(rng() % static_cast<int>(ExpertDispatch::kCount));
    m.dispatch_fp8 = rng() % 2 == 0;
    m.overlap_experts = rng() % 2 == 0;
    if (rng() % 2 == 0) {
      model.expert_groups = 4;
      model.chosen_groups = 2;
    }
  }
  m.offload = rng() % 4 == 0;
  m.offload_weights = m.offload && m.zero == 3 && m.replicas() > 1;
  return m;
}

}  // namespace foretrace
