#include "simulator/planning/mappings/memory_report.h"

#include <fmt/format.h>

#include "simulator/base/gib.h"
#include "simulator/base/status_macros.h"
#include "simulator/mapping/memory_timeline.h"
#include "simulator/mapping/reserved_memory.h"

namespace foretrace {
namespace {

std::string ParallelMemory(const TrainingJob& job, const ParallelMapping& mapping,
                           const std::vector<StagePeak>& stages, const TextStyle& style) {
  using Align = TextTable::Align;
  std::vector<TextTable::Column> columns = {
      {"stage"},   {"peak GiB"},  {"at ms"},     {"during", Align::kLeft},
      {"weights"}, {"gradients"}, {"optimizer"}, {"activations"},
      {"held"},    {"other"},     {"reserved"}};
  const bool on_host = mapping.uses_host();
  if (on_host) columns.push_back({"host"});
  TextTable table(columns);
  const auto gib = [](Bytes b) { return fmt::format("{:.2f}", Gib(b)); };
  for (size_t s = 0; s < stages.size(); ++s) {
    const StagePeak& stage = stages[s];
    std::vector<std::string> cells = {
        fmt::format("{}", s),
        gib(stage.total),
        fmt::format("{:.3f}", stage.at.us() * 1e-3),
        fmt::format("{} of micro-batch {}", stage.forward ? "forward" : "backward",
                    stage.microbatch),
        gib(stage.weights),
        gib(stage.gradients),
        gib(stage.optimizer),
        gib(stage.activations),
        fmt::format("{}", stage.held),
        gib(stage.other),
        gib(stage.reserved)};
    if (on_host) cells.push_back(gib(stage.host));
    table.AddRow(std::move(cells));
  }
  return fmt::format(
             "Memory at its peak, in GiB of {:.1f} a device (held: passes whose activations "
             "are; other: recomputed layer, logits, gathered weights; reserved: with what "
             "PyTorch's allocator holds in fragments and for other streams{})\n",
             Gib(job.capacity), on_host ? "; host: what it keeps for each device" : "") +
         table.Format(style);
}

absl::StatusOr<std::string> StageGraphMemory(const TrainingJob& job, const StageMapping& mapping,
                                             const TextStyle& style) {
  FORETRACE_ASSIGN_OR_RETURN(const EvaluatedGraph graph, EvaluateStageMapping(job, mapping));
  const GraphPipePlan& plan = graph.result.plan;
  const TimedPipeline pipeline = TimedPipelineOf(graph.problem, plan);
  FORETRACE_ASSIGN_OR_RETURN(const PipelineTiming timing, TimePipeline(pipeline));
  using Align = TextTable::Align;
  TextTable table({{"stage"},
                   {"devices"},
                   {"peak GiB"},
                   {"at ms"},
                   {"during", Align::kLeft},
                   {"weights and state"},
                   {"activations"},
                   {"samples held"}});
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const GraphPipeStage& stage = plan.stages[s];
    RealBytes fixed;
    for (const int32_t op : stage.ops) {
      fixed += graph.problem.PartOf(op, stage.tensor).fixed_bytes;
    }
    // The pass that first holds as many micro-batches as ever.
    const PassList& passes = pipeline.stages[s].passes;
    const int32_t most = PeakInFlight(passes);
    size_t at = 0;
    for (int32_t held = 0; at < passes.size(); ++at) {
      held += passes[at].kind == PassKind::kForward ? 1 : -1;
      if (held == most) break;
    }
    const int64_t samples = int64_t{most} * stage.config.micro_batch;
    const RealBytes activations = (static_cast<double>(samples) * stage.stash_bytes +
                                   stage.config.micro_batch * stage.repeated_bytes) /
                                  stage.replicas();
    table.AddRow({fmt::format("{}", s), fmt::format("{}", stage.devices),
                  fmt::format("{:.2f}", Gib(fixed + activations)),
                  fmt::format("{:.3f}", timing.pass_start[s][at].us() * 1e-3),
                  fmt::format("forward of micro-batch {}", passes[at].microbatch),
                  fmt::format("{:.2f}", Gib(fixed)), fmt::format("{:.2f}", Gib(activations)),
                  fmt::format("{}", samples)});
  }
  return fmt::format("Memory at its peak, in GiB of {:.1f} a device\n", Gib(job.capacity)) +
         table.Format(style);
}

}  // namespace

absl::StatusOr<std::vector<StagePeak>> StagePeaks(const TrainingJob& job,
                                                  const ParallelMapping& mapping) {
  const TransformerConfig model = ModelUnder(job, mapping);
  FORETRACE_ASSIGN_OR_RETURN(const PassTimes passes, TimePasses(model, mapping, job.cluster));
  FORETRACE_ASSIGN_OR_RETURN(const auto stages, MemoryOverTime(model, mapping, passes));
  std::vector<StagePeak> peaks;
  for (const StageMemory& stage : stages) {
    const auto s = static_cast<int32_t>(peaks.size());
    const MemoryLedger& use = stage.peak;
    StagePeak peak{stage.peak_time,
                   stage.peak_pass.kind == PassKind::kForward,
                   stage.peak_pass.microbatch,
                   stage.passes_held,
                   use.total(),
                   use.weights,
                   use.gradients,
                   use.optimizer,
                   use.activations,
                   use.recomputed + use.logits + use.gathered,
                   use.total(),
                   Bytes()};
    FORETRACE_ASSIGN_OR_RETURN(const AllocatorMemory followed,
                               FollowAllocations(model, mapping, s));
    peak.reserved = followed.Reserved(peak.reserved);
    if (mapping.uses_host()) peak.host = HostMemoryOf(model, mapping, s).total();
    peaks.push_back(peak);
  }
  return peaks;
}

absl::StatusOr<std::string> MemoryReport(const TrainingJob& job, const SearchRow& row,
                                         const TextStyle& style) {
  if (const auto* stages = std::get_if<StageMapping>(&row.mapping)) {
    return StageGraphMemory(job, *stages, style);
  }
  return ParallelMemory(job, std::get<ParallelMapping>(row.mapping), row.stages, style);
}

}  // namespace foretrace
