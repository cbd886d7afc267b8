#pragma once
// Sparse attention over latents (DeepSeek-AI, 2025, "DeepSeek-V3.2", section 2.1; vLLM,
// vllm/model_executor/models/deepseek_v2.py, Indexer): an index scores all tokens before a token,
// of which it attends to the `index_keys` best.

#include <memory>

#include "simulator/serve/device_costs.h"
#include "simulator/serve/engine_config.h"
#include "simulator/serve/serving_plan.h"
#include "simulator/serve/step_model.h"
#include "simulator/workload/transformer.h"

namespace foretrace::serve {

// Prompts and decodes alike attend to the latents themselves, which serve all heads. Scores are
// kept in 32 bits and read twice by what chooses of them.
class SparseAttention {
 public:
  SparseAttention(const TransformerConfig& model, const ServingPlan& plan,
                  const EngineConfig& engine, std::shared_ptr<const DeviceCosts> costs);

  // All layers of a device, without GEMMs of weights.
  void Add(const StepBatch& batch, StepTime& time) const;

 private:
  // Of `tokens` over `keys` of theirs in the cache, in sum `pairs` of both.
  struct Pairs {
    int64_t tokens = 0, keys = 0, all = 0, chosen = 0;
    bool decode = false;
  };
  void AddLayers(const Pairs& pairs, StepTime& time) const;
  Estimate Scores(const Pairs& pairs, KernelWork& work) const;
  Estimate Attend(const Pairs& pairs, KernelWork& work) const;
  void AddKernel(const Estimate& e, const KernelWork& work, StepTime& time) const;
  KernelWork Stream(int64_t read, int64_t written) const;

  const TransformerConfig model_;
  const std::shared_ptr<const DeviceCosts> costs_;
  const int64_t width_, kv_width_, heads_;
  const SimTime launch_gap_;
};

}  // namespace foretrace::serve
