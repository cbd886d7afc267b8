#pragma once
// Scans of a step's state-space mixers: of each prompt by chunks, of decodes one token after the
// other.

#include <memory>
#include <optional>

#include "simulator/serve/device_costs.h"
#include "simulator/serve/engine_config.h"
#include "simulator/serve/layer_kinds.h"
#include "simulator/serve/step_model.h"

namespace foretrace::serve {

// The kernels that vLLM runs (graph/state_scan.h), all prompts' in one and all decodes' in one; the
// GEMMs around them and the norm are operators of the graph like others. Padded tokens of captured
// graphs have no states.
class LayerScan {
 public:
  LayerScan(const TransformerConfig& model, const ServingPlan& plan, const EngineConfig& engine,
            std::shared_ptr<const DeviceCosts> costs);

  // All layers of a device.
  void Add(const StepBatch& batch, StepTime& time) const;

 private:
  void AddPrompts(const StepBatch& batch, StepTime& time) const;
  // Of a model without a norm behind: the gate, whose bytes are counted with the results.
  void AddGate(int64_t tokens, StepTime& time) const;
  void AddKernel(const KernelWork& work, StepTime& time) const;

  const std::shared_ptr<const DeviceCosts> costs_;
  const std::optional<StateLayers> layers_;
  const int64_t state_width_;
  const bool normed_;
  const SimTime launch_gap_;
};

}  // namespace foretrace::serve
