#pragma once
// Engines that share experts: each layer takes tokens of all to the experts and back, so that a
// step of one runs together with a step of every other. One that has nothing to run takes part with
// a token of its own making (vLLM, vllm/v1/engine/core.py, DPEngineCoreProc).

#include <memory>
#include <vector>

#include "simulator/serve/engine.h"

namespace foretrace::serve {

class StepGroup {
 public:
  // They wait for their steps' start. All must outlive it.
  explicit StepGroup(std::vector<ServingEngine*> engines) : engines_(std::move(engines)) {}

  // When the next step starts, as far as is known; Max(): none can yet.
  SimTime wake() const;
  // Starts it: it takes as long as the slowest engine's part.
  void Start();

 private:
  std::vector<ServingEngine*> engines_;
  SimTime free_;  // the devices, of the steps before
};

}  // namespace foretrace::serve
