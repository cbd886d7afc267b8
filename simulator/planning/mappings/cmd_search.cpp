
#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>

#include "simulator/base/atomic_file.h"
#include "simulator/base/enum_names.h"
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
#include "simulator/planning/mappings/search_run.h"

namespace foretrace {
namespace {

struct SearchCommandOptions : SearchQuestion {
  TrainingJobOptions job;
  std::vector<std::string> compare;
  std::string svg, timeline, mapping_out;
  std::string network;  // a tier; empty: closed forms alone
  double cpu_scale = 1;
  bool picture = false;
  bool memory = false, energy = false;
  bool json = false;
  // Of these options, the first that was given.
  std::function<std::string(std::initializer_list<const char*>)> first_given;
};

absl::Status RequireBatch(const SearchCommandOptions& o) {
  if (o.job.global_batch > 0) return absl::OkStatus();
  return InvalidInput("--global-batch is missing: how many samples is one iteration?");
}

// Nor are those of what the stack decides.
absl::Status CheckBesideStack(const SearchCommandOptions& o, const TrainingJob& job) {
  if (!job.software) return absl::OkStatus();
  const std::string decided = o.first_given({"--overlap", "--dispatch", "--ep-overlap"});
  if (!decided.empty()) {
    return InvalidInput(
        "{} would change nothing: {} says by itself what it does; words of "
        "--compare stand over it",
        decided, job.software->stack);
  }
  const StackRelease& release = job.software->release;
  const int32_t least = release.pipelines_keep_weights ? std::min(release.zero, 1) : release.zero;
  if (!o.first_given({"--max-zero"}).empty() && o.space.max_zero < least) {
    return InvalidInput("--max-zero {} would change nothing: {} divides as zero{} does",
                        o.space.max_zero, job.software->stack, least);
  }
  return absl::OkStatus();
}

// The device has units for what GEMMs shall take.
absl::Status CheckFormats(const SearchCommandOptions& o, const TrainingJob& job) {
  for (const std::string& format : o.formats) {
    if (format == Name(GemmFormat::kModel)) continue;
    const bool by_block = format != Name(GemmFormat::kFp8);
    if (by_block ? job.cluster.four_bit_share == 0 : !job.eight_bit_gemms) {
      return Infeasible(
          "--precision {}: the device of {} has no units for it, as its file states no {} rate{}",
          format, o.job.platform, by_block ? "fp4" : "fp8",
          by_block && job.eight_bit_gemms ? "; fp8 would do" : "");
    }
    if (by_block && ElementSize(job.model.workload.dtype) > 2) {
      return Infeasible("--precision {}: operands are cast from 16 bits, and the model has {}",
                        format, 8 * ElementSize(job.model.workload.dtype));
    }
  }
  return absl::OkStatus();
}

// Options of searchers that do not run are not given.
absl::Status CheckOptions(const SearchCommandOptions& o, const TrainingJob& job) {
  if (!o.timeline.empty()) FORETRACE_RETURN_IF_ERROR(CheckTimelineName(o.timeline));
  if (!o.compare.empty()) {
    const std::string given =
        o.first_given({"--searcher", "--max-tensor", "--max-micro-batch", "--max-chunks",
                       "--max-context", "--max-zero", "--overlap", "--schedules", "--precision",
                       "--dispatch", "--ep-overlap", "--steps", "--seed", "--top", "--journal"});
    if (given.empty()) return absl::OkStatus();
    return InvalidInput("{} would change nothing: --compare searches for no mapping", given);
  }
  const auto check = [&](std::initializer_list<const char*> names, std::string_view searchers,
                         bool runs) -> absl::Status {
    const std::string given = o.first_given(names);
    if (runs || given.empty()) return absl::OkStatus();
    return InvalidInput("{} would change nothing: {} not run", given, searchers);
  };
  const bool parallel = HasParallelMappings(job);
  const bool local = parallel && Wanted(o, job, "local", true);
  const bool any = local || (parallel && Wanted(o, job, "exhaustive", true));
  const bool divides = Wanted(o, job, "piper", false) || Wanted(o, job, "phaze", false);
  FORETRACE_RETURN_IF_ERROR(
      check({"--max-tensor"}, "it is of the searchers exhaustive, local, piper and phaze, which do",
            any || divides));
  FORETRACE_RETURN_IF_ERROR(
      check({"--max-micro-batch", "--max-chunks", "--max-context", "--max-zero", "--overlap",
             "--schedules", "--precision", "--dispatch", "--ep-overlap", "--journal"},
            "it is of the searchers exhaustive and local, which do", any));
  const bool experts = job.model.transformer && job.model.transformer->experts > 0;
  const std::string of_experts = o.first_given({"--dispatch", "--ep-overlap"});
  if (!experts && !of_experts.empty()) {
    return InvalidInput("{} would change nothing: the model has no experts", of_experts);
  }
  FORETRACE_RETURN_IF_ERROR(
      check({"--steps", "--seed"}, "it is of the searcher local, which does", local));
  FORETRACE_RETURN_IF_ERROR(CheckFormats(o, job));
  return CheckBesideStack(o, job);
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
  FORETRACE_RETURN_IF_ERROR(CheckOptions(o, job));
  SearchReport report;
  report.workload = job.model.workload.name;
  report.devices = job.devices;
  report.global_batch = o.job.global_batch;
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

void RegisterSpace(CLI::App& command, SearchCommandOptions& o) {
  command.add_option("--max-tensor", o.space.max_tensor, "largest tensor parallelism")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  command.add_option("--max-micro-batch", o.space.max_micro_batch, "largest micro-batch")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  command
      .add_option("--max-chunks", o.space.max_chunks, "most model chunks a stage (interleaving)")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  command.add_option("--max-context", o.space.max_context, "largest context parallelism")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  command
      .add_option("--max-zero", o.space.max_zero,
                  "ZeRO stages up to this one; of 3 also within each node (hsdpN)")
      ->check(CLI::Range(0, 3))
      ->capture_default_str();
  command.add_flag("--overlap", o.space.overlap_gradients,
                   "also with gradients reduced during the backward pass");
  command
      .add_option("--schedules", o.schedules,
                  "1f1b (also interleaved), gpipe, kfkb, zb-h1, zb-v, dualpipe, dualpipev, with "
                  "commas between")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember({"1f1b", "gpipe", "kfkb", "zb-h1", "zb-v", "dualpipe", "dualpipev"}))
      ->capture_default_str();
  command
      .add_option("--precision", o.formats,
                  "what GEMMs of layers take: model (as the workload says), fp8, mxfp8 (scales by "
                  "blocks), nvfp4; all of a list are ranked together")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember(EnumNames<GemmFormat>()))
      ->capture_default_str();
  command
      .add_option("--dispatch", o.dispatches,
                  "how tokens go to experts on other devices: alltoall, deepep, allgather")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember(EnumNames<ExpertDispatch>()))
      ->capture_default_str();
  command.add_flag("--ep-overlap", o.space.overlap_experts,
                   "also with that beside another micro-batch's kernels");
}

// What is shown and written.
void RegisterHost(CLI::App& command, SearchCommandOptions& o) {
  command
      .add_option("--cpu-scale", o.cpu_scale,
                  "the CPU takes so many times as long to start a step's work as on the host that "
                  "the stack's software was measured on")
      ->check(CLI::Range(1e-3, 1e3));
}

void RegisterOutput(CLI::App& command, SearchCommandOptions& o) {
  command.add_option("--top", o.top, "mappings to show")->capture_default_str();
  command
      .add_option("--jobs", o.jobs, "threads (default: one per processor); the answer is the same")
      ->check(CLI::Range(0, 1024));
  command
      .add_option("--compare", o.compare,
                  "evaluate these mappings instead, of which two are set side by side: files, or "
                  "words such as 'tp8 pp4 dp2 mb1', also those that no search tries by itself "
                  "(docs/search.md)")
      ->type_name("MAPPING");
  command
      .add_option("--journal", o.journal,
                  "keep evaluations here; after Ctrl-C the same command goes on")
      ->group(kOutputGroup)
      ->type_name("FILE");
  command.add_option("-o,--mapping-out", o.mapping_out, "write the best mapping, for generate")
      ->group(kOutputGroup)
      ->type_name("FILE.yaml");
  command.add_flag("--picture", o.picture, "print the best mapping's pipeline");
  command.add_flag("--memory", o.memory,
                   "print when and by what the memory of its stages is fullest");
  command.add_flag("--energy", o.energy,
                   "also the energy of an iteration, at most: by the devices' rated power");
  command.add_option("--svg", o.svg, "write that picture")
      ->group(kOutputGroup)
      ->type_name("FILE.svg");
  command
      .add_option("--timeline", o.timeline,
                  "write it for ui.perfetto.dev (.json or .pftrace; .gz behind either)")
      ->group(kOutputGroup)
      ->type_name("FILE");
  command.add_flag("--json", o.json, "one JSON document instead of tables");
}

}  // namespace

void AddSearchCommand(CLI::App& app, CommandContext& context) {
  auto o = std::make_shared<SearchCommandOptions>();
  CLI::App* command = app.add_subcommand(
      "search", "parallel mappings of a model, ranked by simulated iteration time");
  o->job.Register(*command);
  o->first_given = [command](std::initializer_list<const char*> names) {
    return command->FirstGiven(names);
  };
  command
      ->add_option("--searcher", o->searchers,
                   "exhaustive, local (transformers; the default), graphpipe, sequential, "
                   "pipedream, piper, phaze (stage graphs; the default for other models), all")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember({"exhaustive", "local", "graphpipe", "sequential", "pipedream", "piper",
                             "phaze", "all"}));
  RegisterSpace(*command, *o);
  command->add_option("--steps", o->steps, "of the local search")->check(CLI::Range(0, 10'000'000));
  command->add_option("--seed", o->seed, "of the local search")
      ->check(CLI::Range(int64_t{0}, std::numeric_limits<int64_t>::max()));
  command
      ->add_option("--network", o->network,
                   "also simulate the mappings to show with communication from a network model "
                   "(predict --network), and order them by that: fitted, fluid, simgrid")
      ->check(CLI::IsMember({"fitted", "fluid", "simgrid"}));
  RegisterHost(*command, *o);
  RegisterOutput(*command, *o);
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
