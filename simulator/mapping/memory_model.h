#pragma once
// Device memory of a transformer's stages.

#include <cstdint>

#include "absl/status/status.h"
#include "simulator/base/memory_ledger.h"
#include "simulator/base/units.h"
#include "simulator/mapping/parallel_mapping.h"

namespace foretrace {

class ModelLayers;

// Mixed precision: weights of the model's type, gradients of GradientBytes; optimizer states of
// StateBytes a parameter, 12 where nothing is said (32-bit weight and two moments).
// Activations are what the graph's backward pass reads; in flight as the schedule has it.
MemoryLedger StageMemoryOf(const TransformerConfig& model, const ParallelMapping& mapping,
                           int32_t stage);
// The same where many mappings of a model are asked for.
MemoryLedger StageMemoryOf(const ModelLayers& model, const ParallelMapping& mapping, int32_t stage);

// What the host keeps for each of the stage's devices (ParallelMapping::offload, inputs_on_host):
// states and kept inputs alone, without the buffers that they pass through.
MemoryLedger HostMemoryOf(const TransformerConfig& model, const ParallelMapping& mapping,
                          int32_t stage);

// In order; the others have no more than one of them.
std::vector<int32_t> StagesThatMayBeFullest(const TransformerConfig& model,
                                            const ParallelMapping& mapping);

// Of the fullest stage.
MemoryLedger MemoryOf(const TransformerConfig& model, const ParallelMapping& mapping);
// The same where many mappings of a model are asked for.
MemoryLedger MemoryOf(const ModelLayers& model, const ParallelMapping& mapping);

// Of one micro-batch's logits on one device, in bytes, by the model's LossForm. Cross entropy runs
// in 32 bits and keeps its result (Korthikanti et al., section 4.3); while it runs, and when its
// gradient is cast back, they are there in the model's type too; step by step, backward, two
// gradients in 32 bits.
struct LogitMemory {
  double kept = 0, passing = 0;
};
LogitMemory LogitMemoryOf(const TransformerConfig& model, const ParallelMapping& mapping);
// How many they are.
double LogitsOf(const TransformerConfig& model, const ParallelMapping& mapping);

// TransformerConfig::gradient_placeholders, part of the ledger's gradients: one for each size of
// the weights that GEMMs of the stage train, the output layer's first (Megatron Core,
// tensor_parallel/layers.py).
std::vector<Bytes> PlaceholdersOf(const ModelLayers& model, const ParallelMapping& mapping,
                                  int32_t stage);

// When a stage's memory may be fullest: when a backward pass begins with the loss; when it is at
// the first of its layers, which may run again; and, where weights are gathered, when gradients of
// the weights outside of layers are reduced, which end a pass.
enum class StageMoment { kLoss, kLayers, kRoot };
// Without the gradient of the embedding (EmbeddingGradientOf), which is made when the pass has
// nothing else left and may be more.
MemoryLedger StageMemoryAt(StageMoment moment, const ModelLayers& model,
                           const ParallelMapping& mapping, int32_t stage);

// Whether divided weights are TransformerConfig::sharded_masters.
bool HasShardedMasters(const TransformerConfig& model, const ParallelMapping& mapping);

// The gradient of the embedding's table as PyTorch makes it backward, whole and in the model's
// type, before it is added to what accumulates (torch.nn.functional.embedding); none where the
// stage has no table that is trained. Under ZeRO 3 it is counted as gathered.
Bytes EmbeddingGradientOf(const ModelLayers& model, const ParallelMapping& mapping, int32_t stage);

// What may go to the host, as far as the platform states what that takes.
struct HostUse {
  bool inputs = false;  // that are kept: the devices' way there
  bool states = false;  // of the optimizer, which runs there: its memory's rate too
};

// Infeasible, with the excess, its make-up and the knobs that would help, unless it fits.
absl::Status CheckMemory(const TransformerConfig& model, const ParallelMapping& mapping,
                         Bytes capacity, HostUse host);

}  // namespace foretrace
