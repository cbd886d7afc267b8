#include "simulator/replay/timeline_request.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <set>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/base/utf8.h"
#include "simulator/console/command.h"
#include "simulator/console/options.h"
#include "simulator/exporters/timeline/trace_event_writer.h"
#include "simulator/replay/link_loads.h"
#include "simulator/replay/rank_list.h"
#include "simulator/report/kineto_timeline.h"
#include "simulator/report/timeline.h"
#include "simulator/report/timeline_size.h"

namespace foretrace {
namespace {

std::function<SimTime(RankIndex, SimTime)> CpuTimes(const Prediction& prediction) {
  return [&prediction](RankIndex rank, SimTime recorded) {
    return prediction.PredictedCpuTime(rank, recorded);
  };
}

// What of the links is not drawn.
void NoteLinks(const LinkLoads& loads, std::vector<std::string>& notes) {
  const auto drawn = static_cast<int64_t>(loads.links.size());
  if (drawn < loads.used) {
    notes.push_back(fmt::format("links: the {} of {} that move most are drawn", drawn, loads.used));
  }
  if (loads.left_out > 0) {
    notes.push_back(
        fmt::format("links: {} transfers are not drawn: without a size, or of too many messages",
                    loads.left_out));
  }
}

// What `list` names and `known` has not is an error.
absl::Status CheckKnown(const char* option, const std::string& list,
                        const std::set<int64_t>& known) {
  if (list.empty()) return absl::OkStatus();
  FORETRACE_ASSIGN_OR_RETURN(const std::set<int32_t> wanted, ParseNumberList(option, list));
  for (const int32_t number : wanted) {
    if (known.contains(number)) continue;
    return InvalidInput("{} {}: the traces have no {}; they have {}", option, Excerpt(list, 60),
                        number, Excerpt(fmt::format("{}", fmt::join(known, ", ")), 100));
  }
  return absl::OkStatus();
}

}  // namespace

void TimelineRequest::Register(CLI::App& command) {
  command
      .add_option("--timeline", path,
                  "write the predicted beside the recorded run, for ui.perfetto.dev (.pftrace, its "
                  "own form, or .json; .gz behind either); DIR/: the predicted one as PyTorch's "
                  "profiler would, a file a rank")
      ->group(kOutputGroup)
      ->type_name("FILE");
  command.add_option("--timeline-ranks", ranks, "with --timeline: these ranks alone")
      ->group(kOutputGroup)
      ->type_name("0,2-5");
  command.add_option("--timeline-steps", steps, "with --timeline: these steps alone")
      ->group(kOutputGroup)
      ->type_name("0,2-5");
}

absl::StatusOr<TimelineRequest::Narrowed> TimelineRequest::Wanted() const {
  Narrowed wanted;
  if (!ranks.empty()) {
    FORETRACE_ASSIGN_OR_RETURN(wanted.ranks, ParseNumberList("--timeline-ranks", ranks));
  }
  if (!steps.empty()) {
    FORETRACE_ASSIGN_OR_RETURN(wanted.steps, ParseNumberList("--timeline-steps", steps));
  }
  return wanted;
}

absl::Status TimelineRequest::Check(const TraceStore& store) const {
  if ((!ranks.empty() || !steps.empty()) && path.empty()) {
    return InvalidInput(
        "--timeline-ranks and --timeline-steps narrow --timeline, which is missing");
  }
  if (!path.empty() && !IsFolder()) FORETRACE_RETURN_IF_ERROR(CheckTimelineName(path));
  FORETRACE_ASSIGN_OR_RETURN(const Narrowed wanted, Wanted());
  std::set<int64_t> known_ranks, known_steps;
  uint64_t nodes = 0, largest = 0;
  for (const RankTrace& rank : store.ranks()) {
    known_ranks.insert(rank.info().rank);
    for (const IterationMark& mark : rank.iterations()) known_steps.insert(mark.number);
    const bool drawn = wanted.ranks.empty() || wanted.ranks.contains(rank.info().rank);
    if (drawn) nodes += rank.size(), largest = std::max<uint64_t>(largest, rank.size());
  }
  FORETRACE_RETURN_IF_ERROR(CheckKnown("--timeline-ranks", ranks, known_ranks));
  FORETRACE_RETURN_IF_ERROR(CheckKnown("--timeline-steps", steps, known_steps));
  if (path.empty() || !wanted.steps.empty()) return absl::OkStatus();
  return IsFolder() ? CheckTimelineSize(largest, path + "rank_N.json.gz")
                    : CheckTimelineSize(nodes, path);
}

absl::Status TimelineRequest::WriteFolder(const TimelineRun& run,
                                          const ProtectedFiles& inputs) const {
  KinetoTimelineOptions timeline;
  timeline.predicted_cpu_time = CpuTimes(run.prediction);
  timeline.windows = run.windows;
  FORETRACE_ASSIGN_OR_RETURN(const Narrowed wanted, Wanted());
  timeline.steps.insert(wanted.steps.begin(), wanted.steps.end());
  FORETRACE_ASSIGN_OR_RETURN(FileSet files, FileSet::Create(path, inputs));
  const TraceStore& store = run.table.store();
  for (RankIndex r = 0; r < run.table.rank_count(); ++r) {
    const RankTrace& rank = store.ranks()[r];
    if (!wanted.ranks.empty() && !wanted.ranks.contains(rank.info().rank)) continue;
    FORETRACE_ASSIGN_OR_RETURN(std::string file,
                               files.Add(fmt::format("rank_{}.json.gz", rank.info().rank)));
    TraceEventWriter writer(file, KinetoTail(store, rank));
    WriteKinetoTimeline(run.table, r, timeline, writer);
    FORETRACE_RETURN_IF_ERROR(writer.Close());
  }
  return files.Commit();
}

absl::Status TimelineRequest::Write(const TimelineRun& run, const ProtectedFiles& inputs) const {
  if (path.empty()) return absl::OkStatus();
  if (IsFolder()) return WriteFolder(run, inputs);
  FORETRACE_ASSIGN_OR_RETURN(const Narrowed wanted, Wanted());
  const auto writer = MakeTimelineWriter(path);
  TimelineOptions timeline;
  timeline.ranks = wanted.ranks;
  timeline.steps.insert(wanted.steps.begin(), wanted.steps.end());
  timeline.predicted_cpu_time = CpuTimes(run.prediction);
  timeline.windows = run.windows;
  timeline.notes = run.report.notes;
  timeline.path = &run.report.critical_path;
  timeline.memory = run.memory;
  LinkLoads loads;
  if (run.topology != nullptr) loads = FindLinkLoads(run.table, run.prediction, *run.topology);
  NoteLinks(loads, timeline.notes);
  timeline.links = loads.links;
  WriteTimeline(run.table, timeline, *writer);
  return writer->Close();
}

}  // namespace foretrace
