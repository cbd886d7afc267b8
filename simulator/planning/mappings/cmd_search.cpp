
#include <algorithm>
#include <chrono>
#include <memory>

#include "simulator/base/atomic_file.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/console/command.h"
#include "simulator/console/options.h"
#include "simulator/console/output.h"
#include "simulator/console/processes.h"
#include "simulator/exporters/timeline/timeline_writer.h"
#include "simulator/planning/mappings/mapped_job.h"
#include "simulator/planning/mappings/mapping_simulation.h"
#include "simulator/planning/mappings/memory_report.h"
#include "simulator/planning/mappings/search_options.h"
#include "simulator/planning/mappings/search_run.h"

namespace foretrace {
namespace {

absl::Status RequireBatch(const SearchCommandOptions& o) {
  if (o.job.global_batch > 0) return absl::OkStatus();
  return InvalidInput("--global-batch is missing: how many samples is one iteration?");
}

// Of all mappings of a comparison, else of the best.
absl::Status AppendMemory(const SearchCommandOptions& o, const TrainingJob& job,
                          const SearchReport& report, const TextStyle& style, std::string& text) {
  const size_t count = o.compare.empty() ? 1 : report.rows.size();
  for (size_t i = 0; i < count; ++i) {
    FORETRACE_ASSIGN_OR_RETURN(const std::string memory, MemoryReport(job, report.rows[i], style));
    const char* side = o.compare.size() != 2 ? "" : i == 0 ? "A: " : "B: ";
    text += fmt::format("\n{}{}\n{}", side, report.rows[i].text, memory);
  }
  return absl::OkStatus();
}

// Files and pictures are of the best mapping, of two that are compared of A.
absl::Status WriteOutputs(const SearchCommandOptions& o, const TrainingJob& job,
                          const SearchReport& report, const TextStyle& style, std::string& text) {
  const MappingFile& mapping = report.rows.front().mapping;
  if (!o.mapping_out.empty()) {
    FORETRACE_RETURN_IF_ERROR(WriteFile(o.mapping_out, MappingYaml(mapping)));
  }
  if (o.memory) FORETRACE_RETURN_IF_ERROR(AppendMemory(o, job, report, style, text));
  if (!o.picture && o.svg.empty() && o.timeline.empty()) return absl::OkStatus();
  FORETRACE_ASSIGN_OR_RETURN(const PipelinePicture picture, PictureOfMapping(job, mapping));
  if (o.picture) text += "\n" + PictureText(picture, style.width - 14);
  if (!o.svg.empty()) FORETRACE_RETURN_IF_ERROR(WriteFile(o.svg, PictureSvg(picture)));
  if (!o.timeline.empty()) FORETRACE_RETURN_IF_ERROR(WritePictureTimeline(o.timeline, picture));
  return absl::OkStatus();
}

// What the allocator reserves and whether the CPU bounds them, of all of a comparison, or of those
// shown of the best and the next until one fits with what is reserved. By stage, with --memory,
// those that it reports on.
absl::Status FollowRows(const SearchCommandOptions& o, const TrainingJob& job,
                        SearchReport& report) {
  report.device_memory = job.memory;
  const bool compared = !o.compare.empty();
  const size_t shown = compared ? report.rows.size() : std::min(o.top, report.rows.size());
  for (size_t i = 0; i < shown; ++i) {
    SearchRow& row = report.rows[i];
    FORETRACE_RETURN_IF_ERROR(FollowMemory(job, row));
    FORETRACE_RETURN_IF_ERROR(FollowCpu(job, row));
    const auto* mapping = std::get_if<ParallelMapping>(&row.mapping);
    if (o.memory && mapping != nullptr && (compared || i == 0)) {
      FORETRACE_ASSIGN_OR_RETURN(row.stages, StagePeaks(job, *mapping));
    }
    if (!compared && Overflow(report, row).empty()) break;
  }
  return absl::OkStatus();
}

// Two stay A and B, more are ranked as a search's.
absl::Status Compare(const SearchCommandOptions& o, const TrainingJob& job, SearchReport& report) {
  for (const std::string& argument : o.compare) {
    FORETRACE_ASSIGN_OR_RETURN(
        const MappingFile mapping,
        ReadMappingArgument(argument, o.job.global_batch, job, report.notes));
    FORETRACE_ASSIGN_OR_RETURN(SearchRow row, EvaluateMapping(job, mapping));
    report.rows.push_back(std::move(row));
    ++report.evaluated;
  }
  if (report.rows.size() == 2) return absl::OkStatus();
  std::ranges::stable_sort(report.rows, {},
                           [](const SearchRow& row) { return row.evaluation.iteration; });
  return absl::OkStatus();
}

absl::Status Find(const SearchCommandOptions& o, const TrainingJob& job, const Processes& processes,
                  const CommandContext& context, SearchReport& report) {
  FORETRACE_RETURN_IF_ERROR(RequireBatch(o));
  const SearchRun run{processes, context};
  const bool parallel = Wanted(o, job, "exhaustive", true) || Wanted(o, job, "local", true);
  if (parallel && !HasParallelMappings(job)) {
    if (!std::count(o.searchers.begin(), o.searchers.end(), "all")) {
      return Infeasible(
          "workload '{}' is not a transformer of equal layers; its searchers are "
          "graphpipe, sequential, pipedream, piper and phaze",
          job.model.workload.name);
    }
  } else if (parallel) {
    FORETRACE_RETURN_IF_ERROR(SearchParallel(o, o.job.global_batch, job, run, report));
  }
  if (!report.interrupted)
    FORETRACE_RETURN_IF_ERROR(SearchGraphs(o, o.job.global_batch, job, run, report));
  if (report.rows.empty() && !report.interrupted) {
    return Infeasible("no searcher found a plan: {}",
                      report.failures.empty() ? "none was asked" : report.failures.front());
  }
  return absl::OkStatus();
}

// Of a host that is faster or slower than the one that the stack's software was measured on.
absl::Status ScaleCpu(double times, TrainingJob& job) {
  if (!job.cluster.cpu.any()) {
    return InvalidInput(
        "--cpu-scale {} would change nothing: what the CPU takes to start a step's work is known "
        "of software (--stack) whose file states cpu_us alone",
        times);
  }
  job.cluster.cpu = job.cluster.cpu.ScaledBy(times);
  job.notes.push_back(fmt::format(
      "the CPU takes {} times as long to start work as on the host that {} was measured on", times,
      job.software->stack));
  return absl::OkStatus();
}

absl::Status RunSearch(const SearchCommandOptions& o, const CommandContext& context) {
  FORETRACE_ASSIGN_OR_RETURN(const std::unique_ptr<Processes> processes, context.StartProcesses());
  FORETRACE_ASSIGN_OR_RETURN(TrainingJob job, LoadTrainingJob(o.job));
  if (o.cpu_scale != 1) FORETRACE_RETURN_IF_ERROR(ScaleCpu(o.cpu_scale, job));
  FORETRACE_RETURN_IF_ERROR(o.Check(job));
  SearchReport report;
  report.workload = job.model.workload.name;
  report.devices = job.devices;
  report.global_batch = o.job.global_batch;
  if (job.model.transformer) report.sequence = job.model.transformer->sequence;
  if (job.software) report.software = job.software->Text();
  report.notes = job.notes;
  if (o.energy) {
    if (job.device_watts <= 0) {
      return Infeasible("--energy: the device of {} states no power", o.job.platform);
    }
    report.device_watts = job.device_watts;
  }
  const auto begin = std::chrono::steady_clock::now();
  if (!o.compare.empty()) {
    FORETRACE_RETURN_IF_ERROR(Compare(o, job, report));
  } else {
    FORETRACE_RETURN_IF_ERROR(Find(o, job, *processes, context, report));
  }
  report.took =
      RealSeconds(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  if (processes->rank() != 0) {
    context.answer_files->LeaveToAnother();
    return absl::OkStatus();
  }
  const bool two = o.compare.size() == 2;
  const size_t shown = o.compare.empty() ? o.top : o.compare.size();
  if (!o.network.empty()) {
    FORETRACE_RETURN_IF_ERROR(SimulateRows(job, o.job.platform, o.network, shown, context, report));
    if (!two) OrderBySimulation(report);
  }
  FORETRACE_RETURN_IF_ERROR(FollowRows(o, job, report));
  std::string text;
  if (!report.rows.empty()) {
    FORETRACE_RETURN_IF_ERROR(WriteOutputs(o, job, report, context.console->style(), text));
  }
  FORETRACE_RETURN_IF_ERROR(context.WriteAnswer("search", [&] { return SearchJson(report); }));
  if (o.json) return context.console->PrintJson("search", SearchJson(report));
  if (two) {
    return context.console->Print(CompareText(report, context.console->style()) + text);
  }
  return context.console->Print(SearchText(report, shown, context.console->style()) + text);
}

}  // namespace

void AddSearchCommand(CLI::App& app, CommandContext& context) {
  auto o = std::make_shared<SearchCommandOptions>();
  CLI::App* command = app.add_subcommand(
      "search", "parallel mappings of a model, ranked by simulated iteration time");
  o->Register(*command);
  command->footer(Examples({
      "foretrace search traces/workloads/gpt3-175b.yaml --platform dgx-a100-80gb --global-batch "
      "1536",
      "foretrace search llama3-8b --platform dgx-h100 --gpus 64 --global-batch 512 --stack nemo",
      "foretrace search llama3-70b --platform dgx-h100 --gpus 64 --global-batch 512 --precision "
      "model,fp8",
      "foretrace search llama3-70b --platform dgx-h100 --gpus 64 --global-batch 128 --sequence "
      "32768 "
      "--max-context 8",
      "foretrace search traces/workloads/two-branch.yaml --platform summit --gpus 8 --global-batch "
      "128 --picture",
      "foretrace search gpt.yaml --platform dgx-a100 --global-batch 64 --compare 'tp8 pp2 dp1 mb1' "
      "'tp4 pp4 dp1 mb1'",
      "mpirun -n 4 foretrace search gpt.yaml --platform dgx-a100 --global-batch 64 --journal "
      "run.log",
  }));
  command->callback(
      [o, &context] { context.run = [o, &context] { return RunSearch(*o, context); }; });
}

}  // namespace foretrace
