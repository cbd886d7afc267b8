#include "simulator/engine/compile.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <set>
#include <utility>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/engine/compile_rank.h"
#include "simulator/engine/compile_rendezvous.h"
#include "simulator/reconstruct/reconstruction.h"

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
    const std::string what = DescribeNode(store, rank, rendezvous.members.front().node);
    if (absent.empty() && !communicator.declared && store.ranks().size() > 1) {
      return InvalidInput(
          "{}: {} of communicator \"{}\" meets nothing on the other ranks, and nothing names its "
          "group or partner: declare them with --process-groups FILE, or keep what it took with "
          "--allow-missing-ranks",
          rank.info().source, what, communicator.name);
    }
    return InvalidInput(
        "{}: {} of communicator \"{}\" has members without a trace (missing ranks: {}{}); add "
        "their traces, or simulate what is there with --allow-missing-ranks",
        rank.info().source, what, communicator.name, fmt::join(absent, ","),
        absent.size() == 8 ? ",..." : (absent.empty() ? "unknown" : ""));
  }
  return absl::OkStatus();
}

CompiledRank CompileRank(const RankInput& input, const Reconstruction& recording, uint32_t rank) {
  if (!input.rank.info().has_times) return CompileSymbolic(input);
  return input.options.semantics == Semantics::kAlgorithm1
             ? CompileAlgorithm1(input, *recording.ranks[rank])
             : CompileRecorded(input, *recording.ranks[rank]);
}

// Of each rank, once it is compiled, `done` is told.
absl::StatusOr<CompiledJob> CompileFrom(const TraceStore& store, const CompileOptions& options,
                                        const Reconstruction& recording,
                                        CommunicatorMap communicators,
                                        const std::function<void(uint32_t rank)>& done) {
  CompiledJob job;
  job.semantics = options.semantics;
  job.symbolic = !store.ranks().front().info().has_times;
  job.communicators = std::move(communicators);
  const std::vector<SimTime>& clock_offset = recording.clock_offset;
  job.origin = SimTime::Max();
  for (size_t r = 0; r < store.ranks().size(); ++r) {
    job.origin = std::min(job.origin, RecordedBegin(store.ranks()[r]) + clock_offset[r]);
  }
  std::vector<std::vector<uint32_t>> item_of(store.ranks().size());
  std::vector<Bandwidth> links;  // by rank
  job.cpu_anchors.resize(store.ranks().size());
  const Latencies latencies = options.latencies.value_or(recording.latencies);
  for (uint32_t r = 0; r < store.ranks().size(); ++r) {
    CompiledRank rank = CompileRank({store, store.ranks()[r], options, latencies}, recording, r);
    const DeviceLinks& device = options.links ? *options.links : recording.links[r];
    rank.program.fences = device.fences;
    links.push_back(device.total());
    done(r);
    const RankTrace& trace = store.ranks()[r];
    rank.report.clock_offset = clock_offset[r];
    rank.report.clock_bounded = recording.clock_bounded[r];
    rank.report.clock_unknown = recording.clock_unknown[r];
    rank.report.clock_noise = recording.clock_noise[r];
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
  FORETRACE_RETURN_IF_ERROR(AddRendezvous(store, options, clock_offset, links, item_of, job));
  return job;
}

}  // namespace

absl::Status CheckAllHaveTimes(const TraceStore& store) {
  const RankTrace* timed = nullptr;
  const RankTrace* symbolic = nullptr;
  for (const RankTrace& rank : store.ranks()) {
    const RankTrace*& first = rank.info().has_times ? timed : symbolic;
    if (first == nullptr) first = &rank;
  }
  if (timed == nullptr || symbolic == nullptr) return absl::OkStatus();
  return InvalidInput(
      "{} has no times, and {} has; add the profile of rank {}, or simulate the ranks with times "
      "and those without apart",
      symbolic->info().source, timed->info().source, symbolic->info().rank);
}

absl::StatusOr<CompiledJob> Compile(const TraceStore& store, const CompileOptions& options) {
  FORETRACE_RETURN_IF_ERROR(CheckAllHaveTimes(store));
  FORETRACE_ASSIGN_OR_RETURN(CommunicatorMap matched, MatchCommunicators(store));
  FORETRACE_RETURN_IF_ERROR(CheckMissingRanks(store, matched, options));
  FORETRACE_ASSIGN_OR_RETURN(Reconstruction recording,
                             Reconstruct(store, std::move(matched), options.accelerators));
  // Of symbolic traces little is inferred, which is not worth the memory.
  const bool timed = store.ranks().front().info().has_times;
  if (!options.keep_reconstruction || !timed) {
    CommunicatorMap communicators = std::move(recording.communicators);
    return CompileFrom(store, options, recording, std::move(communicators), [&](uint32_t rank) {
      if (timed) recording.ranks[rank].reset();
    });
  }
  const auto kept = std::make_shared<const Reconstruction>(std::move(recording));
  FORETRACE_ASSIGN_OR_RETURN(
      CompiledJob job, CompileFrom(store, options, *kept, kept->communicators, [](uint32_t) {}));
  job.reconstruction = kept;
  return job;
}

absl::StatusOr<CompiledJob> CompileAgain(const TraceStore& store, const CompiledJob& job,
                                         const CompileOptions& options) {
  if (job.reconstruction == nullptr) return Compile(store, options);
  const Reconstruction& kept = *job.reconstruction;
  FORETRACE_RETURN_IF_ERROR(CheckMissingRanks(store, kept.communicators, options));
  return CompileFrom(store, options, kept, kept.communicators, [](uint32_t) {});
}

}  // namespace foretrace
