// What a mapping that does not fit in memory is told.

#include <string>

#include <fmt/format.h>

#include "simulator/base/error.h"
#include "simulator/mapping/memory_model.h"
#include "simulator/mapping/model_layers.h"

namespace foretrace {
namespace {

// Knobs of which one turn makes the mapping fit.
std::string WhatWouldFit(const ModelLayers& layers, const ParallelMapping& m, Bytes capacity,
                         HostUse host) {
  const TransformerConfig& model = layers.model();
  std::string help;
  const auto suggest = [&](const char* what, bool applies, auto change) {
    if (!applies) return;
    ParallelMapping other = m;
    change(other);
    if (MemoryOf(layers, other).total() > capacity) return;
    help += fmt::format("{}{}", help.empty() ? "" : "; or ", what);
  };
  suggest("selective recomputation would fit",
          m.recompute == Recompute::kNone && !model.fused_attention,
          [](ParallelMapping& o) { o.recompute = Recompute::kSelective; });
  suggest("full recomputation would fit", m.recompute != Recompute::kFull || m.recomputes_some(),
          [](ParallelMapping& o) {
            o.recompute = Recompute::kFull;
            o.recomputed_layers = -1;
            o.recomputed_every = 0;
          });
  suggest("kept activations divided over devices (partition-activations) would fit",
          m.recompute == Recompute::kFull && m.tensor > 1 && !m.sequence_parallel,
          [](ParallelMapping& o) { o.divided_inputs = true; });
  suggest("kept activations on the host (offload-activations) would fit",
          m.recompute == Recompute::kFull && host.inputs,
          [](ParallelMapping& o) { o.inputs_on_host = true; });
  suggest("the optimizer's states on the host (offload) would fit",
          host.states && !m.offload && m.moment_bytes == 0,
          [](ParallelMapping& o) { o.offload = true; });
  suggest("micro-batches of 1 would fit", m.micro_batch > 1,
          [](ParallelMapping& o) { o.micro_batch = 1; });
  suggest("sequence parallelism would fit", !m.sequence_parallel && m.tensor > 1,
          [](ParallelMapping& o) { o.sequence_parallel = true; });
  suggest("1F1B would fit", m.schedule != ScheduleKind::k1F1B, [](ParallelMapping& o) {
    if (o.returns()) o.chunks = 1;
    o.schedule = ScheduleKind::k1F1B;
    o.k = 1;
  });
  suggest("a distributed optimizer (zero1) would fit", m.zero < 1 && m.replicas() > 1,
          [](ParallelMapping& o) { o.zero = 1; });
  suggest("zero3 would fit", m.zero < 3 && m.replicas() > 1,
          [](ParallelMapping& o) { o.zero = 3; });
  if (!help.empty()) return help;
  return m.devices() == 1 ? "more devices are needed"
                          : "more tensor or pipeline parallelism, or more devices, are needed";
}

}  // namespace

absl::Status CheckMemory(const TransformerConfig& model, const ParallelMapping& m, Bytes capacity,
                         HostUse host) {
  const ModelLayers layers(model);
  const MemoryLedger use = MemoryOf(layers, m);
  if (use.total() <= capacity) return absl::OkStatus();
  constexpr double kGiB = 1 << 30;
  const auto gib = [&](Bytes b) { return static_cast<double>(b.count()) / kGiB; };
  return Infeasible(
      "mapping {} needs {:.1f} GiB a device, {:.1f} more than the {:.1f} there are (weights "
      "{:.1f}, "
      "gradients {:.1f}, optimizer {:.1f}, activations {:.1f}, other {:.1f}); {}",
      ToString(m), gib(use.total()), gib(use.total() - capacity), gib(capacity), gib(use.weights),
      gib(use.gradients), gib(use.optimizer), gib(use.activations),
      gib(use.recomputed + use.logits + use.gathered), WhatWouldFit(layers, m, capacity, host));
}

}  // namespace foretrace
