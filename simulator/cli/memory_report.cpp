#include "simulator/cli/memory_report.h"

#include <fmt/format.h>

#include "simulator/base/status_macros.h"
#include "simulator/mapping/memory_timeline.h"

namespace foretrace {

absl::StatusOr<std::string> MemoryReport(const TrainingJob& job, const ParallelMapping& mapping,
                                         const TextStyle& style) {
  const TransformerConfig& model = *job.model.transformer;
  FORETRACE_ASSIGN_OR_RETURN(const PassTimes passes, TimePasses(model, mapping, job.cluster));
  FORETRACE_ASSIGN_OR_RETURN(const auto stages, MemoryOverTime(model, mapping, passes));
  using Align = TextTable::Align;
  TextTable table({{"stage"}, {"peak GiB"}, {"at ms"}, {"during", Align::kLeft}, {"weights"},
                   {"gradients"}, {"optimizer"}, {"activations"}, {"held"}, {"other"}});
  const auto gib = [](Bytes b) {
    return fmt::format("{:.2f}", static_cast<double>(b.count()) / (1 << 30));
  };
  for (size_t s = 0; s < stages.size(); ++s) {
    const StageMemory& stage = stages[s];
    const MemoryUse& use = stage.peak;
    table.AddRow({fmt::format("{}", s), gib(use.total()),
                  fmt::format("{:.3f}", stage.peak_time.us() * 1e-3),
                  fmt::format("{} of micro-batch {}",
                              stage.peak_pass.kind == PassKind::kForward ? "forward" : "backward",
                              stage.peak_pass.microbatch),
                  gib(use.weights), gib(use.gradients), gib(use.optimizer), gib(use.activations),
                  fmt::format("{}", stage.passes_held),
                  gib(use.recomputed + use.logits + use.gathered)});
  }
  return fmt::format("Memory at its peak, in GiB of {:.1f} a device (held: passes whose activations "
                     "are; other: recomputed layer, logits, gathered weights)\n",
                     static_cast<double>(job.capacity.count()) / (1 << 30)) +
         table.Format(style);
}

}  // namespace foretrace
