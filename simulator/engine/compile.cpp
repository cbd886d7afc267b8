#include "simulator/engine/compile.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <set>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/engine/compile_rank.h"

namespace foretrace {
namespace {

absl::Status CheckMissingRanks(const TraceStore& store, const CommunicatorMap& map,
                               const CompileOptions& options) {
  if (options.allow_missing_ranks) return absl::OkStatus();
  for (const Meeting& meeting : map.meetings) {
    if (meeting.missing_members == 0) continue;
    const RankTrace& rank = store.ranks()[meeting.members.front().rank];
    std::set<int32_t> present;
    for (const RankTrace& r : store.ranks()) present.insert(r.info().rank);
    std::vector<int32_t> absent;
    const MatchedCommunicator& communicator = map.communicators[meeting.communicator];
    for (int32_t r = 0; r < store.world_size() && absent.size() < 8; ++r) {
      if (!present.contains(r)) absent.push_back(r);
    }
    return InvalidInput(
        "{}: {} of communicator \"{}\" has members without a trace (missing ranks: {}{}); add "
        "their "
        "traces, or simulate what is there with --allow-missing-ranks",
        rank.info().source, DescribeNode(store, rank, meeting.members.front().node),
        communicator.name, fmt::join(absent, ","),
        absent.size() == 8 ? ",..." : (absent.empty() ? "unknown" : ""));
  }
  return absl::OkStatus();
}

// A meeting's members keep what they needed after the last arrival: the recorded duration less the
// waiting in it. Members that left before the last arrival did not wait.
void SetIntrinsicDurations(const TraceStore& store, const std::vector<SimTime>& clock_offset,
                           std::vector<Meeting>& meetings) {
  for (Meeting& meeting : meetings) {
    if (meeting.members.size() < 2 || !meeting.point_to_point) continue;
    SimTime last_arrival = SimTime::Min();
    for (const auto& m : meeting.members) {
      last_arrival =
          std::max(last_arrival, store.ranks()[m.rank].start(m.node) + clock_offset[m.rank]);
    }
    // A small send is buffered and leaves before its receiver comes.
    for (auto& m : meeting.members) {
      m.eager = m.eager || store.ranks()[m.rank].end(m.node) + clock_offset[m.rank] < last_arrival;
    }
    if (std::all_of(meeting.members.begin(), meeting.members.end(),
                    [](const auto& m) { return m.eager; })) {
      for (auto& m : meeting.members) m.eager = false;
    }
  }
}

// One transfer serves all members: the slowest change counts, by factor and then by what is added.
bool Slower(const DurationChange& a, const DurationChange& b) {
  return std::pair(a.factor, a.added) > std::pair(b.factor, b.added);
}

absl::Status AddMeetings(const TraceStore& store, const CompileOptions& options,
                         const std::vector<SimTime>& clock_offset,
                         const std::vector<std::vector<uint32_t>>& item_of, CompiledJob& job) {
  for (const Meeting& meeting : job.communicators.meetings) {
    const auto id = static_cast<uint32_t>(job.program.meetings.size());
    const MatchedCommunicator& communicator = job.communicators.communicators[meeting.communicator];
    MeetingProgram program;
    const bool timed = store.ranks()[meeting.members.front().rank].info().has_times;
    const bool incomplete = meeting.missing_members > 0;
    // A trace may give durations without times (converted ones do); they stand as they are.
    const bool durations =
        std::all_of(meeting.members.begin(), meeting.members.end(),
                    [&](const auto& m) { return store.ranks()[m.rank].has_duration(m.node); });
    const auto& one = meeting.members.front();
    const bool modelled =
        options.model_communication && !incomplete &&
        (options.model_communication_of == nullptr ||
         options.model_communication_of(store.ranks()[one.rank], one.node, communicator.name));
    program.fixed = durations && !modelled;
    if (!program.fixed) {
      FORETRACE_ASSIGN_OR_RETURN(program.transfer, TransferOf(store, communicator, meeting));
      if (!timed) program.communicator = meeting.communicator;
    }
    SimTime last_arrival = SimTime::Min();
    for (const auto& m : meeting.members) {
      if (timed) {
        last_arrival =
            std::max(last_arrival, store.ranks()[m.rank].start(m.node) + clock_offset[m.rank]);
      }
    }
    if (incomplete && program.fixed) ++job.recorded_collectives;
    std::optional<DurationChange> change;
    for (const auto& m : meeting.members) {
      const RankTrace& rank = store.ranks()[m.rank];
      const uint32_t index = item_of[m.rank][m.node.value];
      Item& item = job.program.ranks[m.rank].items[index];
      item.kind = ItemKind::kComm;
      item.meeting = id;
      if (program.fixed) {
        const SimTime after_arrival =
            timed ? rank.end(m.node) + clock_offset[m.rank] - last_arrival : rank.duration(m.node);
        item.eager = m.eager || incomplete || !options.rank_sync;
        const bool own = m.eager || incomplete;
        item.duration = own ? rank.duration(m.node) : std::max(after_arrival, SimTime());
        item.source = EstimateSource::kRecorded;
      }
      if (options.edit != nullptr) {
        const DurationChange own = options.edit->Change(store, rank, m.node, communicator.name);
        if (program.fixed) item.duration = own.Of(item.duration);
        if (!change.has_value() || Slower(own, *change)) change = own;
      }
      program.members.push_back({m.rank, index});
    }
    program.change = change.value_or(DurationChange{});
    job.program.meetings.push_back(std::move(program));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CompiledJob> Compile(const TraceStore& store, const CompileOptions& options) {
  CompiledJob job;
  job.symbolic = !store.ranks().front().info().has_times;
  for (const RankTrace& rank : store.ranks()) {
    if (rank.info().has_times == job.symbolic) {
      return InvalidInput("{} has {} times but {} has {}; simulate them apart", rank.info().source,
                          rank.info().has_times ? "recorded" : "no",
                          store.ranks().front().info().source, job.symbolic ? "none" : "some");
    }
  }
  FORETRACE_ASSIGN_OR_RETURN(job.communicators, MatchCommunicators(store));
  FORETRACE_RETURN_IF_ERROR(CheckMissingRanks(store, job.communicators, options));
  const std::vector<SimTime> clock_offset = EstimateClockOffsets(store, job.communicators);
  SetIntrinsicDurations(store, clock_offset, job.communicators.meetings);

  job.origin = SimTime::Max();
  for (size_t r = 0; r < store.ranks().size(); ++r) {
    job.origin = std::min(job.origin, RecordedBegin(store.ranks()[r]) + clock_offset[r]);
  }
  std::vector<std::vector<uint32_t>> item_of(store.ranks().size());
  job.cpu_anchors.resize(store.ranks().size());
  std::vector<std::unique_ptr<RankAnalysis>> analyses;
  LatencyMeter meter;
  for (uint32_t r = 0; r < store.ranks().size(); ++r) {
    analyses.push_back(std::make_unique<RankAnalysis>(store, r));
    if (!job.symbolic) meter.Add(store.ranks()[r], analyses[r]->sync);
  }
  const Latencies latencies = options.latencies.value_or(meter.Measure());
  for (uint32_t r = 0; r < store.ranks().size(); ++r) {
    RankCompiler compiler(store, r, options, *analyses[r], latencies);
    FORETRACE_ASSIGN_OR_RETURN(CompiledRank rank, compiler.Run());
    analyses[r].reset();
    const RankTrace& trace = store.ranks()[r];
    rank.report.clock_offset = clock_offset[r];
    if (!job.symbolic) {
      rank.report.start_skew = RecordedBegin(trace) + clock_offset[r] - job.origin;
      if (!options.aligned_start && options.semantics == Semantics::kFull)
        rank.program.start = rank.report.start_skew;
    }
    if (options.edit != nullptr) rank.program.start += options.edit->StartDelay(trace.info().rank);
    for (const NodeIndex n : rank.missing) job.missing.push_back({r, n});
    job.program.ranks.push_back(std::move(rank.program));
    job.reports.push_back(std::move(rank.report));
    job.cpu_anchors[r] = std::move(rank.anchors);
    item_of[r] = std::move(rank.item_of);
  }
  FORETRACE_RETURN_IF_ERROR(AddMeetings(store, options, clock_offset, item_of, job));
  return job;
}

}  // namespace foretrace
