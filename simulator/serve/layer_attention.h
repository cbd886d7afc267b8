#pragma once
// Attention of a step: each prompt's chunk over its keys, and decodes, which read keys and values
// of all their tokens once.

#include <memory>
#include <optional>
#include <vector>

#include "simulator/serve/device_costs.h"
#include "simulator/serve/engine_config.h"
#include "simulator/serve/layer_kinds.h"
#include "simulator/serve/sparse_attention.h"
#include "simulator/serve/step_model.h"

namespace foretrace::serve {

// As it was measured as one operator, where it was; of prompts with cached tokens its share of the
// GEMMs of a prompt that had to make them too. Else from what it computes and reads.
//
// Of plain heads. Of layers with a window what lies in it, whole tiles of a fused kernel on its
// edges.
//
// Of latents (DeepSeek-V2, 2024, section 2.1; vLLM, vllm/v1/attention/backends/mla/common.py):
// prompts make keys and values of all heads from latents, of their own tokens and, in every step
// again, of cached ones. Decodes take the GEMM with a head's part of that matrix into its query
// and its result instead, and attend to the latents themselves, which serve all heads. So do
// prompts of sparse attention.
class LayerAttention {
 public:
  LayerAttention(const TransformerConfig& model, const ServingPlan& plan,
                 const EngineConfig& engine, std::shared_ptr<const DeviceCosts> costs);

  // All layers of a device; positions are shared over the plan's cache-parallel devices.
  void Add(const StepBatch& batch, StepTime& time) const;

 private:
  void AddPrompts(const StepBatch& batch, const AttentionKind& kind, StepTime& time) const;
  // Of a chunk; nullopt: not measured.
  std::optional<Estimate> MeasuredPrompt(const PrefillChunk& chunk,
                                         const AttentionWindow& window) const;
  AttentionShape ShapeOf(const AttentionWindow& window, double tokens) const;
  void AddDecodes(const StepBatch& batch, const AttentionKind& kind, StepTime& time) const;
  void AddLatentGemms(const StepBatch& batch, StepTime& time) const;
  KernelWork LatentGemm(int64_t tokens_each, int64_t cached) const;
  Estimate LatentDecodes(int64_t sequences, int64_t tokens_each, int64_t cached) const;
  void AddKernel(const Estimate& e, StepPart part, double times, StepTime& time) const;
  void AddCall(const OperatorCall::Shape& shape, StepPart part, double times, StepTime& time,
               WeightFormat weights = WeightFormat::kModel) const;

  const TransformerConfig model_;
  const ServingPlan plan_;
  const std::shared_ptr<const DeviceCosts> costs_;
  const std::vector<AttentionKind> kinds_;
  const SparseAttention sparse_;
  const int64_t width_, kv_width_, heads_, kv_heads_, split_;
  const SimTime launch_gap_;
};

}  // namespace foretrace::serve
