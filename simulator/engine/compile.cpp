#include "simulator/engine/compile.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/engine/compile_rank.h"
#include "simulator/engine/compile_rendezvous.h"
#include "simulator/reconstruct/recorded_accelerators.h"

namespace foretrace {
namespace {

absl::Status CheckMissingRanks(const TraceStore& store, const CommunicatorMap& map,
                               const CompileOptions& options) {
  if (options.allow_missing_ranks) return absl::OkStatus();
  for (const MatchedRendezvous& rendezvous : map.rendezvous) {
    if (rendezvous.missing_members == 0) continue;
    const RankTrace& rank = store.ranks()[rendezvous.members.front().rank];
    std::set<int32_t> present;
    for (const RankTrace& r : store.ranks()) present.insert(r.info().rank);
    std::vector<int32_t> absent;
    const MatchedCommunicator& communicator = map.communicators[rendezvous.communicator];
    for (int32_t r = 0; r < store.world_size() && absent.size() < 8; ++r) {
      if (!present.contains(r)) absent.push_back(r);
    }
    return InvalidInput(
        "{}: {} of communicator \"{}\" has members without a trace (missing ranks: {}{}); add "
        "their "
        "traces, or simulate what is there with --allow-missing-ranks",
        rank.info().source, DescribeNode(store, rank, rendezvous.members.front().node),
        communicator.name, fmt::join(absent, ","),
        absent.size() == 8 ? ",..." : (absent.empty() ? "unknown" : ""));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CompiledJob> Compile(const TraceStore& store, const CompileOptions& options) {
  CompiledJob job;
  job.semantics = options.semantics;
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
  FORETRACE_RETURN_IF_ERROR(CheckClockOffsets(store, job.communicators, clock_offset));

  job.origin = SimTime::Max();
  for (size_t r = 0; r < store.ranks().size(); ++r) {
    job.origin = std::min(job.origin, RecordedBegin(store.ranks()[r]) + clock_offset[r]);
  }
  std::vector<std::vector<uint32_t>> item_of(store.ranks().size());
  job.cpu_anchors.resize(store.ranks().size());
  AcceleratorCatalog shipped;
  if (options.accelerators == nullptr) {
    FORETRACE_ASSIGN_OR_RETURN(shipped, LoadRecordedAccelerators(store));
  }
  const AcceleratorCatalog& accelerators =
      options.accelerators == nullptr ? shipped : *options.accelerators;
  std::vector<std::unique_ptr<RankAnalysis>> analyses;
  LatencyMeter meter;
  for (uint32_t r = 0; r < store.ranks().size(); ++r) {
    analyses.push_back(std::make_unique<RankAnalysis>(
        store, r, accelerators.DriverOf(store.ranks()[r].info().device_name)));
    if (!job.symbolic) meter.Add(store.ranks()[r], analyses[r]->sync);
  }
  const Latencies latencies = options.latencies.value_or(
      meter.Measure(accelerators.DriverOf(store.ranks().front().info().device_name).latencies));
  for (uint32_t r = 0; r < store.ranks().size(); ++r) {
    RankCompiler compiler(store, r, options, *analyses[r], latencies);
    FORETRACE_ASSIGN_OR_RETURN(CompiledRank rank, compiler.Run());
    analyses[r].reset();
    const RankTrace& trace = store.ranks()[r];
    rank.report.clock_offset = clock_offset[r];
    if (!job.symbolic) {
      rank.report.start_skew = RecordedBegin(trace) + clock_offset[r] - job.origin;
      if (options.semantics == Semantics::kFull) rank.program.start = rank.report.start_skew;
    }
    for (const NodeIndex n : rank.missing) job.missing.push_back({r, n});
    job.program.ranks.push_back(std::move(rank.program));
    job.reports.push_back(std::move(rank.report));
    job.cpu_anchors[r] = std::move(rank.anchors);
    job.unshown.push_back(std::move(rank.unshown));
    item_of[r] = std::move(rank.item_of);
  }
  FORETRACE_RETURN_IF_ERROR(AddRendezvous(store, options, clock_offset, item_of, job));
  return job;
}

}  // namespace foretrace
