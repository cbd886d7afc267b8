#pragma once
// A mapping of a transformer onto devices by tensor, sequence, pipeline and data parallelism, with
// the same stage shape everywhere, as Megatron-LM lays models out.

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "simulator/base/units.h"
#include "simulator/mapping/schedule.h"
#include "simulator/workload/transformer.h"

namespace foretrace {

enum class Recompute : uint8_t { kNone, kSelective, kFull, kCount };
std::string_view Name(Recompute recompute);

struct ParallelMapping {
  int32_t tensor = 1;
  int32_t pipeline = 1;
  int32_t data = 1;
  int32_t micro_batch = 1;    // samples of one replica
  int32_t global_batch = 1;   // samples of all replicas
  int32_t chunks = 1;         // model chunks a stage; more than one: interleaved
  ScheduleKind schedule = ScheduleKind::k1F1B;  // kGPipe or k1F1B; with chunks > 1 interleaved
  Recompute recompute = Recompute::kNone;
  bool sequence_parallel = false;       // needs tensor > 1
  bool distributed_optimizer = false;   // optimizer state divided over data (ZeRO stage 1)

  int64_t devices() const { return int64_t{tensor} * pipeline * data; }
  int32_t microbatches() const { return global_batch / (data * micro_batch); }
  auto operator<=>(const ParallelMapping&) const = default;
};
// "tp8 pp4 dp16 mb2 v2 full sp", as in tables.
std::string ToString(const ParallelMapping& mapping);

// Whether the degrees divide what they divide. The message (infeasible) names the condition, among
// them GraphPipe's C1 (layers are partitioned) and C3 (devices are), and what would satisfy it.
absl::Status CheckMapping(const TransformerConfig& model, const ParallelMapping& mapping,
                          int64_t devices);

// Device memory of the first, fullest, stage. Korthikanti et al. (2022), sections 4 and 5: with
// p stages, 1F1B holds p micro-batches there, interleaving p (1 + (p-1)/(p v)).
struct MemoryUse {
  Bytes weights;
  Bytes gradients;
  Bytes optimizer;
  Bytes activations;  // of all micro-batches in flight
  Bytes recomputed;   // of the layer being recomputed
  Bytes logits;       // on a single stage only, which is last as well
  Bytes total() const {
    return weights + gradients + optimizer + activations + recomputed + logits;
  }
};
// Mixed precision: 2-byte weights and gradients, 12 bytes of optimizer state a parameter (32-bit
// weight and two moments).
MemoryUse MemoryOf(const TransformerConfig& model, const ParallelMapping& mapping);

// Infeasible, with the excess and the knobs that would help, unless it fits into `capacity`.
absl::Status CheckMemory(const TransformerConfig& model, const ParallelMapping& mapping,
                         Bytes capacity);

}  // namespace foretrace
