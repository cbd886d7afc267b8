#include "simulator/planning/mappings/search_run.h"

#include <algorithm>
#include <memory>
#include <span>
#include <thread>
#include <utility>

#include "simulator/base/enum_names.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/mapping/cluster_file.h"
#include "simulator/mapping/kept_inputs.h"
#include "simulator/mapping/trained_flop.h"
#include "simulator/planning/mappings/mapped_job.h"
#include "simulator/planning/mappings/search_journal.h"
#include "simulator/search/pareto_front.h"
#include "simulator/search/phaze_mapping.h"

namespace foretrace {

bool HasParallelMappings(const TrainingJob& job) {
  return job.model.transformer && job.model.workload.blocks > 0 &&
         job.model.transformer->family != TransformerFamily::kT5;
}

bool Wanted(const SearchQuestion& o, const TrainingJob& job, std::string_view name, bool parallel) {
  if (o.searchers.empty()) {
    // Every kind of model has its own.
    return HasParallelMappings(job) ? parallel : !parallel;
  }
  return std::any_of(o.searchers.begin(), o.searchers.end(),
                     [&](const std::string& s) { return s == name || s == "all"; });
}

namespace {

// Where local search begins: at the best of `ranked`, and at the best with layers as they divide,
// which lies elsewhere than one whose layers were moved to fit. `ranked` is not empty.
std::vector<ParallelMapping> StartsOf(const TransformerConfig& model,
                                      std::span<const RankedMapping> ranked) {
  std::vector<ParallelMapping> starts = {ranked.front().mapping};
  for (const RankedMapping& r : ranked) {
    ParallelMapping divided = r.mapping;
    DivideLayers(model, divided);
    if (divided != r.mapping) continue;
    if (divided != starts.front()) starts.push_back(divided);
    break;
  }
  return starts;
}

// The fastest of the first pipelines of `ranked` with their layers shifted; nullopt where none is
// faster than all that is ranked. Each costs two evaluations a stage for every layer moved, so that
// only the first few are tried that are nearly as fast. Of 33 searches (Llama 3 8B and 70B, Gemma 2
// 27B, Qwen2.5 72B; 8, 16 and 64 A100, 32 H100; 4 samples a device, 16 and 128 with --max-chunks 1)
// 2 end at most 1.05 % slower than with all pipelines tried, as with one pipeline; 7 without any.
std::optional<RankedMapping> BestShifted(const Evaluator& evaluator, const TransformerConfig& model,
                                         std::span<const RankedMapping> ranked,
                                         const std::stop_token& stop) {
  constexpr int kPipelines = 4;
  constexpr double kWithin = 1.25;
  const SimTime fastest = ranked.front().evaluation.iteration;
  std::optional<RankedMapping> best;
  int pipelines = 0;
  for (const RankedMapping& r : ranked) {
    if (r.evaluation.iteration.seconds() > kWithin * fastest.seconds()) break;
    if (r.mapping.pipeline == 1 || r.mapping.chunks > 1) continue;
    if (++pipelines > kPipelines) break;
    const auto shifted = ShiftLayersToBalance(evaluator, model, r, stop);
    if (!shifted || shifted->evaluation.iteration >= fastest) continue;
    if (!best || shifted->evaluation.iteration < best->evaluation.iteration) best = shifted;
  }
  return best;
}

absl::Status AddLocal(const SearchQuestion& o, const TrainingJob& job,
                      const IterationEvaluator& evaluator, const MappingSpace& space,
                      const SearchRun& run, std::span<const RankedMapping> ranked,
                      SearchReport& report) {
  if (ranked.empty()) return absl::OkStatus();
  const int32_t steps = o.steps.value_or(4000);
  const auto seed = static_cast<uint64_t>(o.seed.value_or(1));
  // Several processes all walk to the end: they must find the same.
  const std::stop_token stop = run.processes.size() == 1 ? run.context.stop : std::stop_token();
  const TransformerConfig& model = *job.model.transformer;
  RankedMapping best = ranked.front();
  std::vector<ParallelMapping> starts = StartsOf(model, ranked);
  if (const auto shifted = BestShifted(evaluator, model, ranked, stop)) {
    best = *shifted;
    starts.insert(starts.begin(), shifted->mapping);
  }
  for (const ParallelMapping& start : starts) {
    FORETRACE_ASSIGN_OR_RETURN(const RankedMapping found,
                               SearchLocally(evaluator, model, space, start, steps, seed, stop));
    report.interrupted |= stop.stop_requested();
    report.local_steps += steps;
    if (found.evaluation.iteration < best.evaluation.iteration) best = found;
  }
  // Anything that is no better is in the ranking already.
  if (best.evaluation.iteration < ranked.front().evaluation.iteration) {
    report.rows.insert(report.rows.begin(), RowOf(job, "local", best.mapping, best.evaluation));
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

template <typename Enum>
std::vector<Enum> Named(std::span<const std::string> names) {
  std::vector<Enum> all;
  for (const std::string& name : names) {
    if (const auto found = ParseEnum<Enum>(name)) all.push_back(*found);
  }
  return all;
}

MappingSpace SpaceOf(const SearchQuestion& o, int32_t global_batch, const TrainingJob& job) {
  MappingSpace space = o.space;
  space.devices = job.devices;
  space.global_batch = global_batch;
  space.devices_per_node = job.cluster.devices_per_node;
  space.inputs_on_host = job.cluster.host_link > Bandwidth();
  if (job.software) space.software = &job.software->release;
  space.schedules = Named<ScheduleKind>(o.schedules);
  space.dispatches = Named<ExpertDispatch>(o.dispatches);
  space.formats = Named<GemmFormat>(o.formats);
  return space;
}

// Of a transformer of equal layers phaze's plan is a mapping like the exhaustive search's.
absl::Status AddPhaze(const SearchQuestion& o, int32_t global_batch, const TrainingJob& job,
                      SearchReport& report) {
  const auto found = SearchPhazeMapping(*job.model.transformer, job.cluster, job.capacity,
                                        SpaceOf(o, global_batch, job));
  if (!found.ok()) {
    if (!absl::IsFailedPrecondition(found.status())) return found.status();
    const std::string message(found.status().message());
    report.failures.push_back(message.starts_with("phaze: ") ? message : "phaze: " + message);
    return absl::OkStatus();
  }
  ++report.evaluated;
  SearchRow row = RowOf(job, "phaze", found->ranked.mapping, found->ranked.evaluation);
  row.estimate = SimTime::FromSeconds(found->estimate.seconds());
  report.rows.push_back(std::move(row));
  return absl::OkStatus();
}

// What was found after the front belongs to it where nothing faster needs as little memory.
void JoinFront(SearchReport& report) {
  std::vector<SearchRow> all = std::move(report.pareto);
  for (const SearchRow& row : report.rows) {
    if (row.searcher == "local") all.push_back(row);
  }
  std::ranges::stable_sort(all, {}, [](const SearchRow& row) { return row.evaluation.iteration; });
  report.pareto.clear();
  for (const size_t at : TimeMemoryFront(all)) report.pareto.push_back(std::move(all[at]));
}

// What the fastest mapping's kernels are timed by.
absl::Status NoteKernels(const TrainingJob& job, SearchReport& report) {
  const auto& fastest = std::get<ParallelMapping>(report.rows.front().mapping);
  FORETRACE_ASSIGN_OR_RETURN(const auto times,
                             TimePasses(*job.model.transformer, fastest, job.cluster));
  report.kernel_sources = times.sources;
  report.notes.push_back(SourcesNote(ToString(fastest), times.sources));
  return absl::OkStatus();
}

// Half of a degree's devices divide sequences instead, and nothing is computed again.
std::optional<RankedMapping> WithContext(const Evaluator& evaluator, const TransformerConfig& model,
                                         const MappingSpace& space, ParallelMapping m,
                                         int32_t ParallelMapping::*degree) {
  if (m.*degree % 2 != 0) return std::nullopt;
  m = WithoutRecomputation(m);
  m.*degree /= 2;
  m.context *= 2;
  m.ring = true;
  m.sequence_parallel &= m.tensor > 1;
  DivideLayers(model, m);
  Conform(model, space, m);
  if (!CheckMapping(model, m, space.devices).ok() || !evaluator.Fits(m)) return std::nullopt;
  const auto evaluation = evaluator.Evaluate(m);
  return evaluation.ok() ? std::optional(RankedMapping{m, *evaluation}) : std::nullopt;
}

// Of a search without context parallelism: that some would be faster than the fastest, where a look
// beside the first of what was found says so.
void NoteContext(const Evaluator& evaluator, const TransformerConfig& model,
                 const MappingSpace& space, std::span<const RankedMapping> found,
                 SearchReport& report) {
  constexpr size_t kLook = 10;
  const SimTime fastest = report.rows.front().evaluation.iteration;
  std::optional<RankedMapping> best;
  for (const auto& [mapping, evaluation] : found.first(std::min(found.size(), kLook))) {
    for (int32_t ParallelMapping::*degree :
         {&ParallelMapping::data, &ParallelMapping::tensor, &ParallelMapping::pipeline}) {
      const auto other = WithContext(evaluator, model, space, mapping, degree);
      if (!other) continue;
      if (!best || other->evaluation.iteration < best->evaluation.iteration) best = other;
    }
  }
  if (!best || best->evaluation.iteration >= fastest) return;
  report.notes.push_back(
      fmt::format("context parallelism, which --max-context N tries too, would be faster: {} by "
                  "{:.1f} %",
                  ToString(best->mapping),
                  100 * (fastest.seconds() / best->evaluation.iteration.seconds() - 1)));
}

// Of all that evaluations depend on.
absl::StatusOr<SearchJournal> OpenJournal(const std::string& path, const TrainingJob& job,
                                          const Processes& processes) {
  const std::string question =
      fmt::format("{} {} {} {} {} {}", job.model.transformer->name, Describe(job.cluster),
                  job.capacity.count(), ModelFlopOf(*job.model.transformer).count(),
                  job.model.workload.ParameterCount(), job.software ? job.software->Text() : "");
  FORETRACE_ASSIGN_OR_RETURN(const std::string inputs, InputBytes(job));
  return SearchJournal::Open(path, question + inputs, processes);
}

void AddExhaustive(const TrainingJob& job, const SearchResult& result, size_t keep,
                   SearchReport& report) {
  report.candidates += result.candidates;
  report.evaluated += result.evaluated;
  report.infeasible += result.infeasible;
  report.pruned += result.pruned;
  report.interrupted = result.interrupted;
  const auto row = [&](const RankedMapping& r) {
    return RowOf(job, "exhaustive", r.mapping, r.evaluation);
  };
  for (size_t i = 0; i < result.ranked.size() && i < keep; ++i) {
    report.rows.push_back(row(result.ranked[i]));
  }
  for (const size_t i : result.pareto) report.pareto.push_back(row(result.ranked[i]));
}

}  // namespace

absl::Status SearchParallel(const SearchQuestion& o, int32_t global_batch, const TrainingJob& job,
                            const SearchRun& run, SearchReport& report) {
  const TransformerConfig& model = *job.model.transformer;
  const MappingSpace space = SpaceOf(o, global_batch, job);
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
    FORETRACE_ASSIGN_OR_RETURN(SearchJournal opened, OpenJournal(o.journal, job, run.processes));
    journal.emplace(std::move(opened));
    if (journal->size() > 0) {
      report.notes.push_back(
          fmt::format("{}: {} evaluations known from before", o.journal, journal->size()));
    }
    evaluate = journal->Wrap(std::move(evaluate));
  }
  SearchControl control;
  control.keep = std::max<size_t>(o.top, 1);
  control.bounding = [&](int64_t done, int64_t total) { run.Progress("bounds", done, total); };
  control.progress = [&](int64_t done, int64_t total) { run.Progress("mappings", done, total); };
  control.interrupted = [&] { return run.processes.Any(run.context.stop.stop_requested()); };
  control.instead = [&](const ParallelMapping& mapping) {
    std::vector<ParallelMapping> others;
    if (auto other = MakeFit(evaluator, model, space, mapping)) others.push_back(*std::move(other));
    if (auto other = MoveLayersToFit(evaluator, model, mapping)) {
      others.push_back(*std::move(other));
    }
    return others;
  };
  FORETRACE_ASSIGN_OR_RETURN(const SearchResult result,
                             SearchExhaustively(evaluator, evaluate, candidates, control));
  AddExhaustive(job, result, control.keep, report);
  if (!result.interrupted && Wanted(o, job, "local", true)) {
    FORETRACE_RETURN_IF_ERROR(AddLocal(o, job, evaluator, space, run, result.ranked, report));
    JoinFront(report);
  }
  if (!report.rows.empty()) {
    FORETRACE_RETURN_IF_ERROR(NoteKernels(job, report));
    if (space.max_context == 1) NoteContext(evaluator, model, space, result.ranked, report);
  }
  return absl::OkStatus();
}

absl::Status SearchGraphs(const SearchQuestion& o, int32_t global_batch, const TrainingJob& job,
                          const SearchRun& run, SearchReport& report) {
  const auto problem = GraphProblemOf(job, global_batch, o.space.max_tensor);
  int64_t done = 0;
  for (const GraphSearcher& searcher : GraphSearchers()) {
    if (!Wanted(o, job, searcher.name, false)) continue;
    if (run.context.stop.stop_requested()) {
      report.interrupted = true;
      break;
    }
    if (searcher.name == "phaze" && HasParallelMappings(job)) {
      FORETRACE_RETURN_IF_ERROR(AddPhaze(o, global_batch, job, report));
      continue;
    }
    if (!problem.ok()) return problem.status();
    if (done == 0 && problem->sources.total() > 0) {
      report.notes.push_back(SourcesNote("stage graphs, of all sizes searched", problem->sources));
    }
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

}  // namespace foretrace
