
#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <optional>
#include <thread>

#include "simulator/base/atomic_file.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/console/command.h"
#include "simulator/console/options.h"
#include "simulator/console/output.h"
#include "simulator/console/processes.h"
#include "simulator/console/version.h"
#include "simulator/exporters/timeline/timeline_writer.h"
#include "simulator/mapping/cluster_file.h"
#include "simulator/planning/mapped_job.h"
#include "simulator/planning/memory_report.h"
#include "simulator/planning/search_journal.h"
#include "simulator/search/mapping_search.h"
#include "simulator/search/phaze_mapping.h"

namespace foretrace {
namespace {

struct SearchCommandOptions {
  TrainingJobOptions job;
  std::vector<std::string> searchers;
  std::vector<std::string> schedules = {"1f1b"};
  MappingSpace space;
  std::vector<std::string> compare;
  size_t top = 10;
  int jobs = 0;
  std::optional<int32_t> steps;  // of the local search; 4000
  std::optional<int64_t> seed;   // of the local search; 1
  std::string journal, svg, timeline, mapping_out;
  bool picture = false;
  bool memory = false;
  bool json = false;
  // Of these options, the first that was given.
  std::function<std::string(std::initializer_list<const char*>)> first_given;
};

// Where a search runs: its processes, of which one tells how far it is, and what may stop it.
struct SearchRun {
  const Processes& processes;
  const CommandContext& context;

  void Progress(std::string_view what, int64_t done, int64_t total) const {
    if (processes.rank() == 0) context.console->Progress(what, done, total);
  }
};

absl::Status RequireBatch(const SearchCommandOptions& o) {
  if (o.job.global_batch > 0) return absl::OkStatus();
  return InvalidInput("--global-batch is missing: how many samples is one iteration?");
}

// Whether words such as tp8 pp4 map the model.
bool HasParallelMappings(const TrainingJob& job) {
  return job.model.transformer && job.model.workload.blocks > 0 &&
         job.model.transformer->family != TransformerFamily::kT5;
}

bool Wanted(const SearchCommandOptions& o, const TrainingJob& job, std::string_view name,
            bool parallel) {
  if (o.searchers.empty()) {
    // Every kind of model has its own.
    return HasParallelMappings(job) ? parallel : !parallel;
  }
  return std::any_of(o.searchers.begin(), o.searchers.end(),
                     [&](const std::string& s) { return s == name || s == "all"; });
}

// Options of searchers that do not run are not given.
absl::Status CheckOptions(const SearchCommandOptions& o, const TrainingJob& job) {
  if (!o.timeline.empty()) FORETRACE_RETURN_IF_ERROR(CheckTimelineName(o.timeline));
  if (!o.compare.empty()) {
    const std::string given = o.first_given(
        {"--searcher", "--max-tensor", "--max-micro-batch", "--max-chunks", "--max-context",
         "--max-zero", "--overlap", "--schedules", "--steps", "--seed", "--top", "--journal"});
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
  FORETRACE_RETURN_IF_ERROR(
      check({"--max-tensor", "--max-micro-batch", "--max-chunks", "--max-context", "--max-zero",
             "--overlap", "--schedules", "--journal"},
            "it is of the searchers exhaustive and local, which do", any));
  return check({"--steps", "--seed"}, "it is of the searcher local, which does", local);
}

absl::Status AddLocal(const SearchCommandOptions& o, const TrainingJob& job,
                      const IterationEvaluator& evaluator, const MappingSpace& space,
                      const SearchRun& run, SearchReport& report) {
  if (report.rows.empty()) return absl::OkStatus();
  const int32_t steps = o.steps.value_or(4000);
  const auto seed = static_cast<uint64_t>(o.seed.value_or(1));
  const auto& start = std::get<ParallelMapping>(report.rows.front().mapping);
  // Several processes all walk to the end: they must find the same.
  const std::stop_token stop = run.processes.size() == 1 ? run.context.stop : std::stop_token();
  FORETRACE_ASSIGN_OR_RETURN(
      const RankedMapping found,
      SearchLocally(evaluator, *job.model.transformer, space, start, steps, seed, stop));
  report.interrupted |= stop.stop_requested();
  report.local_steps += steps;
  // Anything that is no better is in the ranking already.
  if (found.evaluation.iteration < report.rows.front().evaluation.iteration) {
    report.rows.insert(report.rows.begin(), RowOf(job, "local", found.mapping, found.evaluation));
  }
  return absl::OkStatus();
}

// Asks `next` for a few mappings at a time; Cancelled once `stop` was asked for.
EvaluateBatch Interruptible(EvaluateBatch next, int jobs, std::stop_token stop) {
  const size_t few = 4 * static_cast<size_t>(jobs);
  return [next = std::move(next), few,
          stop = std::move(stop)](std::span<const ParallelMapping> mappings)
             -> absl::StatusOr<std::vector<std::optional<Evaluation>>> {
    std::vector<std::optional<Evaluation>> all;
    while (!mappings.empty()) {
      if (stop.stop_requested()) return absl::CancelledError("interrupted");
      const size_t count = std::min(few, mappings.size());
      FORETRACE_ASSIGN_OR_RETURN(const auto part, next(mappings.first(count)));
      all.insert(all.end(), part.begin(), part.end());
      mappings = mappings.subspan(count);
    }
    return all;
  };
}

MappingSpace SpaceOf(const SearchCommandOptions& o, const TrainingJob& job) {
  MappingSpace space = o.space;
  space.devices = job.devices;
  space.global_batch = o.job.global_batch;
  space.devices_per_node = job.cluster.devices_per_node;
  space.schedules.clear();
  for (const std::string& name : o.schedules) {
    for (int i = 0; i < static_cast<int>(ScheduleKind::kCount); ++i) {
      const auto kind = static_cast<ScheduleKind>(i);
      if (Name(kind) == name) space.schedules.push_back(kind);
    }
  }
  return space;
}

absl::Status SearchParallel(const SearchCommandOptions& o, const TrainingJob& job,
                            const SearchRun& run, SearchReport& report) {
  const TransformerConfig& model = *job.model.transformer;
  const MappingSpace space = SpaceOf(o, job);
  const IterationEvaluator evaluator(model, job.cluster, job.capacity);
  const auto candidates = EnumerateMappings(model, space);
  const int jobs =
      o.jobs > 0 ? o.jobs : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  EvaluateBatch evaluate = OnThreads(evaluator, jobs);
  // Several processes stop together, between two batches.
  if (run.processes.size() == 1) {
    evaluate = Interruptible(std::move(evaluate), jobs, run.context.stop);
  }
  evaluate = OnProcesses(run.processes, std::move(evaluate));
  std::optional<SearchJournal> journal;
  if (!o.journal.empty()) {
    const std::string question = fmt::format(
        "{} {} {} {} {} {}", kVersion, model.name, Describe(job.cluster), job.capacity.count(),
        ModelFlopOf(model).count(), job.model.workload.ParameterCount());
    FORETRACE_ASSIGN_OR_RETURN(const std::string inputs, InputBytes(job));
    FORETRACE_ASSIGN_OR_RETURN(SearchJournal opened,
                               SearchJournal::Open(o.journal, question + inputs, run.processes));
    journal.emplace(std::move(opened));
    if (journal->size() > 0) {
      report.notes.push_back(
          fmt::format("{}: {} evaluations known from before", o.journal, journal->size()));
    }
    evaluate = journal->Wrap(std::move(evaluate));
  }
  SearchControl control;
  control.keep = std::max<size_t>(o.top, 1);
  control.progress = [&](int64_t done, int64_t total) { run.Progress("mappings", done, total); };
  control.interrupted = [&] { return run.processes.Any(run.context.stop.stop_requested()); };
  FORETRACE_ASSIGN_OR_RETURN(const SearchResult result,
                             SearchExhaustively(evaluator, evaluate, candidates, control));
  if (!result.ranked.empty()) {
    report.notes.push_back(SourcesNote(model, result.ranked.front().mapping, job.cluster));
  }
  report.candidates += result.candidates;
  report.evaluated += result.evaluated;
  report.infeasible += result.infeasible;
  report.pruned += result.pruned;
  report.interrupted = result.interrupted;
  for (size_t i = 0; i < result.ranked.size() && i < control.keep; ++i) {
    const RankedMapping& r = result.ranked[i];
    report.rows.push_back(RowOf(job, "exhaustive", r.mapping, r.evaluation));
  }
  for (const size_t i : result.pareto) {
    const RankedMapping& r = result.ranked[i];
    report.pareto.push_back(RowOf(job, "exhaustive", r.mapping, r.evaluation));
  }
  if (!result.interrupted && Wanted(o, job, "local", true)) {
    return AddLocal(o, job, evaluator, space, run, report);
  }
  return absl::OkStatus();
}

// Of a transformer of equal layers phaze's plan is a mapping like the exhaustive search's.
absl::Status AddPhaze(const SearchCommandOptions& o, const TrainingJob& job, SearchReport& report) {
  const auto found =
      SearchPhazeMapping(*job.model.transformer, job.cluster, job.capacity, SpaceOf(o, job));
  if (!found.ok()) {
    if (!absl::IsFailedPrecondition(found.status())) return found.status();
    const std::string message(found.status().message());
    report.failures.push_back(message.starts_with("phaze: ") ? message : "phaze: " + message);
    return absl::OkStatus();
  }
  ++report.evaluated;
  SearchRow row = RowOf(job, "phaze", found->ranked.mapping, found->ranked.evaluation);
  row.estimate = SimTime::FromSeconds(found->estimate_s);
  report.rows.push_back(std::move(row));
  return absl::OkStatus();
}

absl::Status SearchGraphs(const SearchCommandOptions& o, const TrainingJob& job,
                          const SearchRun& run, SearchReport& report) {
  const auto problem = GraphProblemOf(job, o.job.global_batch);
  int64_t done = 0;
  for (const GraphSearcher& searcher : GraphSearchers()) {
    if (!Wanted(o, job, searcher.name, false)) continue;
    if (run.context.stop.stop_requested()) {
      report.interrupted = true;
      break;
    }
    if (searcher.name == "phaze" && HasParallelMappings(job)) {
      FORETRACE_RETURN_IF_ERROR(AddPhaze(o, job, report));
      continue;
    }
    if (!problem.ok()) return problem.status();
    run.Progress(searcher.name, done++, static_cast<int64_t>(GraphSearchers().size()));
    const auto found = searcher.run(*problem);
    if (!found.ok()) {
      const std::string message(found.status().message());
      const std::string prefix = fmt::format("{}: ", searcher.name);
      report.failures.push_back(message.starts_with(prefix) ? message : prefix + message);
      continue;
    }
    ++report.evaluated;
    if (!found->note.empty())
      report.notes.push_back(fmt::format("{}: {}", searcher.name, found->note));
    report.rows.push_back(RowOf(job, *problem, std::string(searcher.name), *found));
  }
  std::stable_sort(report.rows.begin(), report.rows.end(), [](const auto& a, const auto& b) {
    return a.evaluation.iteration < b.evaluation.iteration;
  });
  return absl::OkStatus();
}

absl::Status WriteOutputs(const SearchCommandOptions& o, const TrainingJob& job,
                          const MappingFile& mapping, const TextStyle& style, std::string& text) {
  if (!o.mapping_out.empty()) {
    FORETRACE_RETURN_IF_ERROR(WriteFile(o.mapping_out, MappingYaml(mapping)));
  }
  if (o.memory) {
    FORETRACE_ASSIGN_OR_RETURN(const std::string memory, MemoryReport(job, mapping, style));
    text += "\n" + memory;
  }
  if (!o.picture && o.svg.empty() && o.timeline.empty()) return absl::OkStatus();
  FORETRACE_ASSIGN_OR_RETURN(const PipelinePicture picture, PictureOfMapping(job, mapping));
  if (o.picture) text += "\n" + PictureText(picture, style.width - 14);
  if (!o.svg.empty()) FORETRACE_RETURN_IF_ERROR(WriteFile(o.svg, PictureSvg(picture)));
  if (!o.timeline.empty()) FORETRACE_RETURN_IF_ERROR(WritePictureTimeline(o.timeline, picture));
  return absl::OkStatus();
}

absl::Status Compare(const SearchCommandOptions& o, const TrainingJob& job, SearchReport& report) {
  for (const std::string& argument : o.compare) {
    FORETRACE_ASSIGN_OR_RETURN(const MappingFile mapping,
                               ReadMappingArgument(argument, o.job.global_batch));
    FORETRACE_ASSIGN_OR_RETURN(SearchRow row, EvaluateMapping(job, mapping));
    report.rows.push_back(std::move(row));
    ++report.evaluated;
  }
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
    FORETRACE_RETURN_IF_ERROR(SearchParallel(o, job, run, report));
  }
  if (!report.interrupted) FORETRACE_RETURN_IF_ERROR(SearchGraphs(o, job, run, report));
  const auto graphs = std::count_if(
      report.rows.begin(), report.rows.end(),
      [](const SearchRow& row) { return std::holds_alternative<StageMapping>(row.mapping); });
  if (graphs > 0 && graphs < static_cast<int64_t>(report.rows.size())) {
    report.notes.push_back(
        "the two kinds of mapping are timed apart: stage graphs by the peak rates that operators "
        "attain, "
        "the others by measured kernels where there are any");
  }
  if (report.rows.empty() && !report.interrupted) {
    return Infeasible("no searcher found a plan: {}",
                      report.failures.empty() ? "none was asked" : report.failures.front());
  }
  return absl::OkStatus();
}

absl::Status RunSearch(const SearchCommandOptions& o, const CommandContext& context) {
  FORETRACE_ASSIGN_OR_RETURN(const std::unique_ptr<Processes> processes, Processes::Start());
  FORETRACE_ASSIGN_OR_RETURN(const TrainingJob job, LoadTrainingJob(o.job));
  FORETRACE_RETURN_IF_ERROR(CheckOptions(o, job));
  SearchReport report;
  report.workload = job.model.workload.name;
  report.devices = job.devices;
  report.global_batch = o.job.global_batch;
  report.notes = job.notes;
  const auto begin = std::chrono::steady_clock::now();
  if (!o.compare.empty()) {
    FORETRACE_RETURN_IF_ERROR(Compare(o, job, report));
  } else {
    FORETRACE_RETURN_IF_ERROR(Find(o, job, *processes, context, report));
  }
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (processes->rank() != 0) {
    context.answer_files->LeaveToAnother();
    return absl::OkStatus();
  }
  std::string text;
  if (!report.rows.empty()) {
    FORETRACE_RETURN_IF_ERROR(
        WriteOutputs(o, job, report.rows.front().mapping, context.console->style(), text));
  }
  FORETRACE_RETURN_IF_ERROR(context.WriteAnswer("search", [&] { return SearchJson(report); }));
  if (o.json) return context.console->PrintJson("search", SearchJson(report));
  if (report.rows.size() == 2 && !o.compare.empty()) {
    return context.console->Print(
        CompareText(report.rows[0], report.rows[1], context.console->style()) + text);
  }
  return context.console->Print(SearchText(report, o.top, context.console->style()) + text);
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
  command.add_option("--max-zero", o.space.max_zero, "ZeRO stages up to this one")
      ->check(CLI::Range(0, 3))
      ->capture_default_str();
  command.add_flag("--overlap", o.space.overlap_gradients,
                   "also with gradients reduced during the backward pass");
  command.add_option("--schedules", o.schedules, "1f1b (also interleaved), gpipe, kfkb, zb-h1")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember({"1f1b", "gpipe", "kfkb", "zb-h1"}))
      ->capture_default_str();
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
  command->add_option("--top", o->top, "mappings to show")->capture_default_str();
  command
      ->add_option("--jobs", o->jobs,
                   "threads (default: one per processor); the answer is the same")
      ->check(CLI::Range(0, 1024));
  command
      ->add_option("--compare", o->compare,
                   "evaluate these two mappings instead: files, or words such as 'tp8 pp4 dp2 mb1'")
      ->expected(2)
      ->type_name("A B");
  command
      ->add_option("--journal", o->journal,
                   "keep evaluations here; after Ctrl-C the same command goes on")
      ->group(kOutputGroup)
      ->type_name("FILE");
  command->add_option("-o,--mapping-out", o->mapping_out, "write the best mapping, for generate")
      ->group(kOutputGroup)
      ->type_name("FILE.yaml");
  command->add_flag("--picture", o->picture, "print the best mapping's pipeline");
  command->add_flag("--memory", o->memory,
                    "print when and by what the memory of its stages is fullest");
  command->add_option("--svg", o->svg, "write that picture")
      ->group(kOutputGroup)
      ->type_name("FILE.svg");
  command
      ->add_option("--timeline", o->timeline,
                   "write it for ui.perfetto.dev (.json or .pftrace; .gz behind either)")
      ->group(kOutputGroup)
      ->type_name("FILE");
  command->add_flag("--json", o->json, "one JSON document instead of tables");
  command->footer(Examples({
      "foretrace search traces/workloads/gpt3-175b.yaml --platform dgx-a100-80gb --global-batch "
      "1536",
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
