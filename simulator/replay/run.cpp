#include "simulator/replay/run.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "simulator/base/counted.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/base/utf8.h"
#include "simulator/engine/cpu_scale.h"
#include "simulator/engine/deadlock.h"
#include "simulator/engine/fences.h"
#include "simulator/replay/communication_notes.h"
#include "simulator/replay/replay_check.h"

namespace foretrace {
namespace {

SimTime RecordedTime(const RankTrace& rank, NodeIndex node) {
  return rank.has_duration(node) ? rank.duration(node) : SimTime();
}

// "aten::foo x12, bar x3 and 4 more names", what was recorded longest first.
std::string CountNames(const TraceStore& store, const std::vector<NodeRef>& nodes) {
  struct Named {
    std::string name;
    int64_t count = 0;
    SimTime recorded;
  };
  std::map<std::string, Named> by_name;
  for (const NodeRef& ref : nodes) {
    const RankTrace& rank = store.ranks()[ref.rank];
    std::string name(store.name(rank, ref.node).substr(0, 60));
    Named& named = by_name[name];
    named.name = std::move(name);
    ++named.count;
    named.recorded += RecordedTime(rank, ref.node);
  }
  std::vector<Named> names;
  for (auto& [key, named] : by_name) names.push_back(std::move(named));
  std::ranges::stable_sort(names, std::greater(), &Named::recorded);
  constexpr size_t kListed = 3;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kListed); ++i) {
    text += fmt::format("{}{} x{}", i > 0 ? ", " : "", names[i].name, names[i].count);
  }
  if (names.size() > kListed) text += fmt::format(" and {} more names", names.size() - kListed);
  return text;
}

bool HasShapes(const TraceStore& store) {
  for (const RankTrace& rank : store.ranks()) {
    for (uint32_t i = 0; i < rank.size(); ++i) {
      for (const Tensor& tensor : rank.tensors(NodeIndex(i))) {
        if (!rank.dims(tensor).empty()) return true;
      }
    }
  }
  return false;
}

// What work without a model amounts to, and what to do about it.
std::string MissingNote(const TraceStore& store, const std::vector<NodeRef>& missing) {
  SimTime recorded, total;
  for (const NodeRef& ref : missing) {
    recorded += RecordedTime(store.ranks()[ref.rank], ref.node);
  }
  for (const RankTrace& rank : store.ranks()) {
    for (uint32_t i = 0; i < rank.size(); ++i) {
      const NodeIndex node(i);
      if (rank.lane_at(rank.lane(node)).kind != Lane::Kind::kStream) continue;
      total += RecordedTime(rank, node);
    }
  }
  std::string share, remedy;
  if (recorded > SimTime()) {
    share =
        fmt::format(", {:.1f} % of the recorded device time,", 100 * recorded.us() / total.us());
    remedy = HasShapes(store)
                 ? "; `--durations model-for=SELECTOR` replays what no selector names"
                 : "; the traces hold no tensor shapes: profile with record_shapes=True or add the "
                   "execution trace of the run";
  }
  return fmt::format("{} nodes{} have no duration from any model and count as zero: {}{}",
                     missing.size(), share, CountNames(store, missing), remedy);
}

// Nothing but marks is of the recording.
bool HoldsWork(const CompiledJob& job, const TraceStore& store) {
  for (size_t r = 0; r < store.ranks().size(); ++r) {
    const RankTrace& rank = store.ranks()[r];
    const auto runs = [&rank](const Item& item) {
      return rank.kind(item.node) != NodeKind::kAnnotation;
    };
    if (std::ranges::any_of(job.program.ranks[r].items, runs)) return true;
  }
  return false;
}

}  // namespace

absl::Status NothingRuns(const TraceStore& store) {
  const RankInfo& info = store.ranks().front().info();
  std::string why =
      "an execution trace alone holds operators: add the Kineto trace of the same run";
  if (info.producer.find("kineto") != std::string_view::npos) {
    why =
        "the profile holds the CPU alone: profile with the activity of the device, as "
        "ProfilerActivity.CUDA";
  }
  const auto& repairs = store.diagnostics().entries();
  if (const auto unknown = repairs.find(Repair::kUnknownCategory); unknown != repairs.end()) {
    why = fmt::format(
        "what the device did may be among {} events of categories that are not read, "
        "the first: {}",
        unknown->second.count, unknown->second.first);
  }
  return Infeasible("{}: no work on a device, so nothing to predict; {}", info.source, why);
}

CompileOptions AsRecorded(const SimulationSetup& setup) {
  CompileOptions recorded;
  recorded.allow_missing_ranks = setup.compile().allow_missing_ranks;
  recorded.absent = setup.compile().absent;
  recorded.latencies = setup.compile().latencies;
  recorded.sync_costs = setup.compile().sync_costs;
  recorded.accelerators = setup.compile().accelerators;
  return recorded;
}

absl::StatusOr<CompiledJob> CompileJob(const TraceStore& store, const SimulationSetup& setup,
                                       const CompileOptions& options, const CompiledJob* same) {
  FORETRACE_ASSIGN_OR_RETURN(CompiledJob job, same == nullptr
                                                  ? Compile(store, options)
                                                  : CompileAgain(store, *same, options));
  for (const Ingredient ingredient : setup.left_out()) LeaveOut(ingredient, job);
  return job;
}

absl::StatusOr<CompiledJob> JobBeforeEdits(const TraceStore& store, const SimulationSetup& setup,
                                           const Prediction& prediction,
                                           const Prediction* unedited) {
  if (setup.what_if().empty() && setup.cpu_scale() == 1) return prediction.job;
  if (unedited != nullptr && !setup.retargets()) return unedited->job;
  return CompileJob(store, setup, setup.compile(), &prediction.job);
}

absl::StatusOr<Prediction> SimulateJob(const TraceStore& store, const SimulationSetup& setup,
                                       CompiledJob job, NetworkModel* network) {
  RemoveFences(job.program);
  ScaleCpu(job.program, setup.cpu_scale());
  FORETRACE_RETURN_IF_ERROR(setup.what_if().Apply(store, job, setup.sizes(), job.program));
  return ReplayWithFences(store, std::move(job), network);
}

namespace {

// Of a recording that is replayed as it is: nothing but the recording can be at fault.
absl::StatusOr<Prediction> OfRecording(absl::StatusOr<Prediction> replayed) {
  if (!IsDeadlock(replayed.status())) return replayed;
  return InvalidInput(
      "{}; times or dependencies in the traces contradict each other (a clock that went back, "
      "collectives in another order on some rank): record them again",
      std::string(replayed.status().message()));
}

// Recorded kernels contain what they waited beside collectives; edits may change that.
absl::Status KeepRecordedFences(const TraceStore& store, const std::optional<Prediction>* unedited,
                                NetworkModel* network, CompiledJob& job) {
  if (!HasFences(job.program)) return absl::OkStatus();
  if (unedited != nullptr && unedited->has_value()) {
    job.recorded_fences = FencesOf(store, **unedited);
    return absl::OkStatus();
  }
  FORETRACE_ASSIGN_OR_RETURN(const Prediction replayed, ReplayWithFences(store, job, network));
  job.recorded_fences = FencesOf(store, replayed);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Prediction> Simulate(const TraceStore& store, const SimulationSetup& setup,
                                    const CompileOptions& options, NetworkModel* network,
                                    std::optional<Prediction>* unedited) {
  CompileOptions kept = options;
  // Else one program answers all.
  kept.keep_reconstruction |= !ReplaysRecording(setup) || setup.compile().allow_missing_ranks;
  FORETRACE_ASSIGN_OR_RETURN(CompiledJob job, CompileJob(store, setup, kept));
  if (!job.symbolic && !HoldsWork(job, store)) return NothingRuns(store);
  if (options.absent != AbsentRanks::kAsRecorded && job.absent_rendezvous == 0 && !job.symbolic &&
      options.semantics == Semantics::kFull && !setup.what_if().scale_out()) {
    return InvalidInput(
        "--absent would change nothing: no communication has members without a trace");
  }
  const bool runs_again = network == nullptr || !network->contends();
  const bool of_recording = ReplaysRecording(setup) && !job.symbolic;
  const bool changes = !setup.what_if().empty() || setup.retargets();
  // A symbolic job has no recording that it could be replayed as.
  if (unedited != nullptr && setup.retargets() && !job.symbolic) {
    FORETRACE_ASSIGN_OR_RETURN(CompiledJob recorded, CompileAgain(store, job, AsRecorded(setup)));
    FORETRACE_ASSIGN_OR_RETURN(*unedited, OfRecording(Replay(store, std::move(recorded), nullptr)));
  } else if (unedited != nullptr && changes && runs_again) {
    absl::StatusOr<Prediction> replayed = ReplayWithFences(store, job, network);
    FORETRACE_ASSIGN_OR_RETURN(
        *unedited, of_recording ? OfRecording(std::move(replayed)) : std::move(replayed));
  }
  if (!setup.what_if().empty() && runs_again) {
    FORETRACE_RETURN_IF_ERROR(KeepRecordedFences(store, unedited, network, job));
  }
  absl::StatusOr<Prediction> simulated = SimulateJob(store, setup, std::move(job), network);
  if (!of_recording || changes) return simulated;
  return OfRecording(std::move(simulated));
}

std::vector<std::vector<IterationWindow>> Windows(const Prediction& prediction) {
  std::vector<std::vector<IterationWindow>> windows;
  for (const PredictedRank& rank : prediction.ranks) {
    windows.emplace_back();
    for (const PredictedIteration& it : rank.iterations) {
      windows.back().push_back(
          {it.number, it.predicted_start, it.predicted_end, it.recorded_start, it.recorded_end});
    }
  }
  return windows;
}

std::vector<std::string> UnknownDevices(const TraceStore& store,
                                        const AcceleratorCatalog& accelerators) {
  std::set<std::string> unknown;
  for (const RankTrace& rank : store.ranks()) {
    const std::string& name = rank.info().device_name;
    if (!name.empty() && accelerators.Find(name) == nullptr) unknown.insert(name);
  }
  std::vector<std::string> notes;
  for (const std::string& name : unknown) {
    notes.push_back(fmt::format(
        "no file of topologies/accelerators/ describes the device \"{}\": the depth of its launch "
        "queue, the limit of staged copies and latencies without samples are those of {}.yaml",
        Excerpt(name, 60), kUnnamedAccelerator));
  }
  return notes;
}

std::vector<std::string> RunNotes(const TraceStore& store, const Prediction& prediction,
                                  const SimulationSetup& setup) {
  std::vector<std::string> notes = setup.notes();
  const CompiledJob& job = prediction.job;
  for (const RankTrace& rank : store.ranks()) {
    if (!rank.info().synthetic) continue;
    notes.push_back("synthetic traces: made by a generator, not measured");
    break;
  }
  const auto& repairs = store.diagnostics().entries();
  if (const auto lacking = repairs.find(Repair::kMissingDuration); lacking != repairs.end()) {
    const int64_t count = lacking->second.count;
    notes.push_back(fmt::format("{} no duration and {} as 0, the first: {}",
                                Counted(count, "event has", "events have"),
                                count == 1 ? "counts" : "count", lacking->second.first));
  }
  std::vector<std::string> others;
  for (const auto& [repair, entry] : repairs) {
    // These two have notes of their own.
    if (repair == Repair::kMissingDuration || repair == Repair::kMissingLaunch) continue;
    others.push_back(fmt::format("{} {}", entry.count, KindOf(repair).name));
  }
  if (!others.empty()) {
    notes.push_back(fmt::format(
        "the traces hold what was repaired or left out: {}; `foretrace inspect` names the first of "
        "each, --strict refuses them",
        fmt::join(others, ", ")));
  }
  for (std::string& note : UnknownDevices(store, setup.accelerators())) {
    notes.push_back(std::move(note));
  }
  for (std::string& note : CommunicationNotes(store, job)) notes.push_back(std::move(note));
  int64_t unlaunched = 0;
  for (const RankCompileReport& report : job.reports) unlaunched += report.unlaunched_device_nodes;
  for (std::string& note : WaitNotes(store, prediction)) notes.push_back(std::move(note));
  if (unlaunched > 0 && !job.symbolic) {
    notes.push_back(
        fmt::format("{} no launch in the traces (in flight when recording began); {}",
                    Counted(unlaunched, "piece of device work has", "pieces of device work have"),
                    unlaunched == 1 ? "it keeps its recorded start gap"
                                    : "they keep their recorded start gaps"));
  }
  if (!job.missing.empty()) {
    notes.push_back(MissingNote(store, job.missing));
  }
  return notes;
}

absl::Status CheckMissing(const TraceStore& store, const Prediction& prediction, bool strict) {
  const std::vector<NodeRef>& missing = prediction.job.missing;
  if (!strict || missing.empty()) return absl::OkStatus();
  return InvalidInput("--strict: {} nodes have no duration from any model ({}), first {}",
                      missing.size(), CountNames(store, missing),
                      Describe(store, store.ranks()[missing.front().rank], missing.front().node));
}

}  // namespace foretrace
