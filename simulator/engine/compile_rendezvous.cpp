#include "simulator/engine/compile_rendezvous.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "simulator/base/status_macros.h"
#include "simulator/engine/compile_rank.h"
#include "simulator/reconstruct/awaited_arrivals.h"

namespace foretrace {
namespace {

class RendezvousCompiler {
 public:
  RendezvousCompiler(const TraceStore& store, const CompileOptions& options,
                     std::span<const SimTime> clock_offset,
                     const std::vector<std::vector<uint32_t>>& item_of, CompiledJob& job)
      : store_(store),
        options_(options),
        item_of_(item_of),
        job_(job),
        finder_(store, job.communicators, clock_offset) {
    if (options.absent == AbsentRanks::kNeverLast || options.model_communication) FindShortest();
  }

  absl::Status Add(const Meeting& meeting) {
    MeetingProgram program;
    for (const auto& m : meeting.members) {
      program.members.push_back({m.rank, item_of_[m.rank][m.node.value]});
    }
    program.fixed = !IsModelled(meeting);
    const bool waits_for_absent = meeting.missing_members > 0 && HasDurations(meeting);
    if (waits_for_absent) ++job_.absent_rendezvous;
    if (!program.fixed) {
      const MatchedCommunicator& communicator =
          job_.communicators.communicators[meeting.communicator];
      auto transfer = TransferOf(store_, communicator, meeting);
      if (transfer.ok()) {
        program.transfer = *std::move(transfer);
        if (!IsTimed(meeting)) program.communicator = meeting.communicator;
        if (waits_for_absent) program.change.added = WaitingForAbsent(meeting);
      } else if (meeting.missing_members > 0 && HasDurations(meeting)) {
        program.fixed = true;
      } else {
        return transfer.status();
      }
    }
    SetItems(meeting, program);
    job_.program.meetings.push_back(std::move(program));
    return absl::OkStatus();
  }

 private:
  const RankTrace& Rank(const Meeting::Member& m) const { return store_.ranks()[m.rank]; }
  bool IsTimed(const Meeting& meeting) const {
    return Rank(meeting.members.front()).info().has_times;
  }

  bool HasDurations(const Meeting& meeting) const {
    return std::ranges::all_of(
        meeting.members, [&](const Meeting::Member& m) { return Rank(m).has_duration(m.node); });
  }

  bool IsModelled(const Meeting& meeting) const {
    // A trace may give durations without times (converted ones do); they stand as they are.
    if (!HasDurations(meeting)) return true;
    if (!options_.model_communication) return false;
    // The model must know where absent members are.
    const MatchedCommunicator& communicator =
        job_.communicators.communicators[meeting.communicator];
    if (meeting.missing_members > 0 && !communicator.declared) return false;
    // Kernels of one rank cannot begin together, as the ends of one transfer do.
    for (size_t m = 1; m < meeting.members.size(); ++m) {
      if (meeting.members[m].rank == meeting.members[m - 1].rank) return false;
    }
    const Meeting::Member& one = meeting.members.front();
    return options_.model_communication_of == nullptr ||
           options_.model_communication_of(Rank(one), one.node, communicator.name);
  }

  void SetItems(const Meeting& meeting, MeetingProgram& program) {
    const auto id = static_cast<uint32_t>(job_.program.meetings.size());
    std::vector<SimTime> durations;
    if (program.fixed) durations = Durations(meeting, program);
    for (size_t m = 0; m < meeting.members.size(); ++m) {
      Item& item = ItemOf(program.members[m]);
      item.kind = ItemKind::kComm;
      item.meeting = id;
      if (!program.fixed) continue;
      item.duration = durations[m];
      item.source = EstimateSource::kRecorded;
    }
  }

  // Also says who awaits whom.
  std::vector<SimTime> Durations(const Meeting& meeting, MeetingProgram& program) {
    if (meeting.missing_members > 0) {
      if (options_.absent == AbsentRanks::kAsRecorded || !IsTimed(meeting)) {
        program.awaiting = Awaiting::kNone;
        return RecordedDurations(meeting);
      }
    }
    const AwaitedArrivals awaited = finder_.Find(meeting);
    job_.impossible_transfers += awaited.impossible;
    if (!options_.rank_sync) {
      program.awaiting = Awaiting::kNone;
    } else if (!awaited.all) {
      program.awaiting = awaited.list.empty() ? Awaiting::kNone : Awaiting::kListed;
      for (const auto& [member, source] : awaited.list) program.awaits.push_back({member, source});
    }
    if (!IsTimed(meeting)) return RecordedDurations(meeting);
    std::vector<SimTime> parts = finder_.OwnParts(meeting, awaited);
    if (meeting.missing_members > 0 && options_.absent == AbsentRanks::kNeverLast) {
      for (SimTime& part : parts) part = std::min(part, shortest_[KindOf(meeting)]);
    }
    return parts;
  }

  // Rendezvous of one kind differ by how long members wait for absent ones: the shortest waited
  // least.
  using Kind = std::tuple<uint32_t, CollectiveOp, int64_t>;  // communicator, operation, bytes
  Kind KindOf(const Meeting& meeting) const {
    const Meeting::Member& one = meeting.members.front();
    const bool collective = Rank(one).kind(one.node) == NodeKind::kCollective;
    const CommAttr* attr = Rank(one).comm(one.node);
    return {meeting.communicator,
            collective ? Rank(one).collective_op(one.node) : CollectiveOp::kSendRecv,
            attr != nullptr ? attr->bytes_in.count() : 0};
  }

  void FindShortest() {
    for (const Meeting& meeting : job_.communicators.meetings) {
      if (meeting.missing_members == 0 || !IsTimed(meeting)) continue;
      const std::vector<SimTime> parts = finder_.OwnParts(meeting, finder_.Find(meeting));
      const SimTime longest = *std::ranges::max_element(parts);
      const auto [it, first] = shortest_.emplace(KindOf(meeting), longest);
      if (!first) it->second = std::min(it->second, longest);
    }
  }

  // Beyond what the network takes: what the recording took beyond the shortest of the kind.
  SimTime WaitingForAbsent(const Meeting& meeting) const {
    if (!IsTimed(meeting) || options_.absent == AbsentRanks::kNeverLast) return SimTime();
    const std::vector<SimTime> parts = finder_.OwnParts(meeting, finder_.Find(meeting));
    return *std::ranges::max_element(parts) - shortest_.at(KindOf(meeting));
  }

  std::vector<SimTime> RecordedDurations(const Meeting& meeting) const {
    std::vector<SimTime> durations;
    for (const auto& m : meeting.members) durations.push_back(Rank(m).duration(m.node));
    return durations;
  }

  Item& ItemOf(const MeetingProgram::Member& member) {
    return job_.program.ranks[member.rank].items[member.item];
  }

  const TraceStore& store_;
  const CompileOptions& options_;
  const std::vector<std::vector<uint32_t>>& item_of_;
  CompiledJob& job_;
  AwaitedArrivalsFinder finder_;
  std::map<Kind, SimTime> shortest_;
};

// Communication that takes part in no rendezvous: its partners lie outside of what was recorded.
void CountUnmatched(const TraceStore& store, CompiledJob& job) {
  for (uint32_t r = 0; r < job.program.ranks.size(); ++r) {
    const RankTrace& rank = store.ranks()[r];
    for (const Item& item : job.program.ranks[r].items) {
      if (item.kind != ItemKind::kDevice || !IsCommunicationKind(rank.kind(item.node))) continue;
      ++job.unmatched_communication;
      if (!rank.info().has_times) continue;
      const NodeIndex call = rank.launcher(item.node);
      job.reports[r].partial_steps.insert(
          rank.iteration_at(rank.start(call.valid() ? call : item.node)));
    }
  }
}

}  // namespace

absl::Status AddRendezvous(const TraceStore& store, const CompileOptions& options,
                           std::span<const SimTime> clock_offset,
                           const std::vector<std::vector<uint32_t>>& item_of, CompiledJob& job) {
  RendezvousCompiler compiler(store, options, clock_offset, item_of, job);
  for (const Meeting& meeting : job.communicators.meetings) {
    FORETRACE_RETURN_IF_ERROR(compiler.Add(meeting));
  }
  CountUnmatched(store, job);
  return absl::OkStatus();
}

}  // namespace foretrace
