#pragma once

#include "simulator/base/units.h"

namespace foretrace {

// What holds the memory of one device at its peak: of a model's stage as computed, or of a rank as
// recorded.
struct MemoryLedger {
  Bytes weights;
  Bytes gradients;
  Bytes optimizer;
  Bytes activations;  // of all micro-batches in flight
  Bytes recomputed;   // of the layer being recomputed
  Bytes logits;       // models: on the last stage only: the loss's, and its copies while computed
  // Weights of the layers at work, gathered from the replicas, and their gradients before they are
  // reduced (ZeRO stage 3); below it the embedding's gradient before it is added to others.
  Bytes gathered;
  Bytes other;  // recordings: what they do not tell apart
  Bytes total() const {
    return weights + gradients + optimizer + activations + recomputed + logits + gathered + other;
  }
};

}  // namespace foretrace
