#include "simulator/engine/compile_rendezvous.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "simulator/base/status_macros.h"
#include "simulator/engine/transfer_spec.h"
#include "simulator/reconstruct/awaited_arrivals.h"

namespace foretrace {
namespace {

class RendezvousCompiler {
 public:
  RendezvousCompiler(const TraceStore& store, const CompileOptions& options,
                     std::span<const SimTime> clock_offset, std::span<const Bandwidth> links,
                     const std::vector<std::vector<uint32_t>>& item_of, CompiledJob& job)
      : store_(store),
        options_(options),
        links_(links),
        item_of_(item_of),
        job_(job),
        finder_(store, job.communicators, clock_offset) {
    const bool fences = std::ranges::any_of(links, [](Bandwidth b) { return b > Bandwidth(); });
    if (options.absent == AbsentRanks::kNeverLast || options.model_communication || fences) {
      FindShortest();
    }
  }

  absl::Status Add(const MatchedRendezvous& rendezvous) {
    RendezvousProgram program;
    for (const auto& m : rendezvous.members) {
      program.members.push_back({m.rank, item_of_[m.rank][m.node.value]});
    }
    program.fixed = !IsModelled(rendezvous);
    const bool waits_for_absent = rendezvous.missing_members > 0 && HasDurations(rendezvous);
    if (waits_for_absent) ++job_.absent_rendezvous;
    if (!program.fixed) {
      const MatchedCommunicator& communicator =
          job_.communicators.communicators[rendezvous.communicator];
      auto transfer = TransferOf(store_, communicator, rendezvous);
      if (transfer.ok()) {
        program.transfer = *std::move(transfer);
        if (!IsTimed(rendezvous)) program.communicator = rendezvous.communicator;
        if (waits_for_absent) program.change.added = WaitingForAbsent(rendezvous);
      } else if (rendezvous.missing_members > 0 && HasDurations(rendezvous)) {
        program.fixed = true;
      } else {
        return transfer.status();
      }
    }
    SetItems(rendezvous, program);
    program.sends = Sends(rendezvous);
    if (rendezvous.missing_members > 0 && program.fixed) program.moving = Moving(rendezvous);
    job_.program.rendezvous.push_back(std::move(program));
    return absl::OkStatus();
  }

 private:
  const RankTrace& Rank(const MatchedRendezvous::Member& m) const { return store_.ranks()[m.rank]; }
  bool IsTimed(const MatchedRendezvous& rendezvous) const {
    return Rank(rendezvous.members.front()).info().has_times;
  }

  bool Sends(const MatchedRendezvous& rendezvous) const {
    const MatchedRendezvous::Member& one = rendezvous.members.front();
    if (Rank(one).kind(one.node) != NodeKind::kCollective) return true;
    switch (Rank(one).collective_op(one.node)) {
      case CollectiveOp::kAllToAll:
      case CollectiveOp::kSendRecv:
      case CollectiveOp::kGather:
      case CollectiveOp::kScatter:
        return true;
      default:
        return false;
    }
  }

  // Of a duration in which members may have waited for absent ones: the shortest of several of its
  // kind, which waited least, at least what its bytes take over the links.
  SimTime Moving(const MatchedRendezvous& rendezvous) const {
    constexpr int kSeveral = 3;
    const SimTime least = LeastMoving(rendezvous);
    const auto kind = least > SimTime() ? shortest_.find(KindOf(rendezvous)) : shortest_.end();
    const bool known = kind != shortest_.end() && kind->second.count >= kSeveral;
    return known ? std::max(least, kind->second.time) : least;
  }

  // What its bytes take at the rate of the device's links.
  SimTime LeastMoving(const MatchedRendezvous& rendezvous) const {
    const MatchedRendezvous::Member& one = rendezvous.members.front();
    const CommAttr* attr = Rank(one).comm(one.node);
    const Bandwidth links = links_[one.rank];
    if (attr == nullptr || links == Bandwidth()) return SimTime();
    // Around a ring all-reduces pass all but a share of their data twice.
    const bool twice = Rank(one).kind(one.node) == NodeKind::kCollective &&
                       Rank(one).collective_op(one.node) == CollectiveOp::kAllReduce;
    return (std::max(attr->bytes_in, attr->bytes_out) / links).ScaledBy(twice ? 2 : 1);
  }

  bool HasDurations(const MatchedRendezvous& rendezvous) const {
    return std::ranges::all_of(rendezvous.members, [&](const MatchedRendezvous::Member& m) {
      return Rank(m).has_duration(m.node);
    });
  }

  bool IsModelled(const MatchedRendezvous& rendezvous) const {
    // A trace may give durations without times (converted ones do); they stand as they are.
    if (!HasDurations(rendezvous)) return true;
    if (!options_.model_communication) return false;
    // The model must know where absent members are.
    const MatchedCommunicator& communicator =
        job_.communicators.communicators[rendezvous.communicator];
    if (rendezvous.missing_members > 0 && !communicator.declared) return false;
    // Kernels of one rank cannot begin together, as the ends of one transfer do.
    for (size_t m = 1; m < rendezvous.members.size(); ++m) {
      if (rendezvous.members[m].rank == rendezvous.members[m - 1].rank) return false;
    }
    const MatchedRendezvous::Member& one = rendezvous.members.front();
    return options_.model_communication_of == nullptr ||
           options_.model_communication_of(Rank(one), one.node, communicator.name);
  }

  void SetItems(const MatchedRendezvous& rendezvous, RendezvousProgram& program) {
    const auto id = static_cast<uint32_t>(job_.program.rendezvous.size());
    std::vector<SimTime> durations;
    if (program.fixed) durations = Durations(rendezvous, program);
    for (size_t m = 0; m < rendezvous.members.size(); ++m) {
      Item& item = ItemOf(program.members[m]);
      item.kind = ItemKind::kComm;
      item.rendezvous = id;
      if (!program.fixed) continue;
      item.duration = durations[m];
      item.source = EstimateSource::kRecorded;
    }
  }

  // Also says who awaits whom.
  std::vector<SimTime> Durations(const MatchedRendezvous& rendezvous, RendezvousProgram& program) {
    if (rendezvous.missing_members > 0) {
      if (options_.absent == AbsentRanks::kAsRecorded || !IsTimed(rendezvous)) {
        program.awaiting = Awaiting::kNone;
        return RecordedDurations(rendezvous);
      }
    }
    const AwaitedArrivals awaited = finder_.Find(rendezvous);
    job_.impossible_transfers += awaited.impossible;
    if (!awaited.all) {
      program.awaiting = awaited.list.empty() ? Awaiting::kNone : Awaiting::kListed;
      for (const auto& [member, source] : awaited.list) program.awaits.push_back({member, source});
    }
    if (!awaited.assumed.empty()) {
      AssumedAwaits assumed{static_cast<uint32_t>(job_.program.rendezvous.size()), {}, {}};
      for (const auto& [member, source] : awaited.assumed)
        assumed.awaits.push_back({member, source});
      if (IsTimed(rendezvous)) {
        assumed.parts = finder_.OwnParts(rendezvous, finder_.WithoutAssumed(rendezvous, awaited));
      }
      job_.assumed.push_back(std::move(assumed));
    }
    if (!IsTimed(rendezvous)) return RecordedDurations(rendezvous);
    std::vector<SimTime> parts = finder_.OwnParts(rendezvous, awaited);
    if (rendezvous.missing_members > 0 && options_.absent == AbsentRanks::kNeverLast) {
      for (SimTime& part : parts) part = std::min(part, shortest_[KindOf(rendezvous)].time);
    }
    return parts;
  }

  // Rendezvous of one kind differ by how long members wait for absent ones: the shortest waited
  // least, and one of which no member is absent for nobody.
  using Kind = std::tuple<uint32_t, CollectiveOp, int64_t>;  // shape of the group, operation, bytes
  Kind KindOf(const MatchedRendezvous& rendezvous) const {
    const MatchedRendezvous::Member& one = rendezvous.members.front();
    const bool collective = Rank(one).kind(one.node) == NodeKind::kCollective;
    const CommAttr* attr = Rank(one).comm(one.node);
    return {shape_of_[rendezvous.communicator],
            collective ? Rank(one).collective_op(one.node) : CollectiveOp::kSendRecv,
            attr != nullptr ? attr->bytes_in.count() : 0};
  }

  // Groups whose ranks lie at the same distances have one shape: those of one axis of parallelism,
  // whose ranks are as far apart in the machine too. An undeclared group is like no other.
  void FindShapes() {
    std::map<std::vector<int32_t>, uint32_t> shapes;
    uint32_t next = 0;
    for (const MatchedCommunicator& communicator : job_.communicators.communicators) {
      if (!communicator.declared || communicator.ranks.empty()) {
        shape_of_.push_back(next++);
        continue;
      }
      std::vector<int32_t> distances = communicator.ranks;
      for (int32_t& rank : distances) rank -= communicator.ranks.front();
      const auto [it, added] = shapes.emplace(std::move(distances), next);
      next += added ? 1 : 0;
      shape_of_.push_back(it->second);
    }
  }

  void FindShortest() {
    FindShapes();
    for (const MatchedRendezvous& rendezvous : job_.communicators.rendezvous) {
      if (!IsTimed(rendezvous)) continue;
      const std::vector<SimTime> parts = finder_.OwnParts(rendezvous, finder_.Find(rendezvous));
      const SimTime longest = *std::ranges::max_element(parts);
      const auto it = shortest_.emplace(KindOf(rendezvous), Shortest{longest, 0}).first;
      it->second.time = std::min(it->second.time, longest);
      ++it->second.count;
    }
  }

  // Beyond what the network takes: what the recording took beyond the shortest of the kind.
  SimTime WaitingForAbsent(const MatchedRendezvous& rendezvous) const {
    if (!IsTimed(rendezvous) || options_.absent == AbsentRanks::kNeverLast) return SimTime();
    const std::vector<SimTime> parts = finder_.OwnParts(rendezvous, finder_.Find(rendezvous));
    return *std::ranges::max_element(parts) - shortest_.at(KindOf(rendezvous)).time;
  }

  std::vector<SimTime> RecordedDurations(const MatchedRendezvous& rendezvous) const {
    std::vector<SimTime> durations;
    for (const auto& m : rendezvous.members) durations.push_back(Rank(m).duration(m.node));
    return durations;
  }

  Item& ItemOf(const RendezvousProgram::Member& member) {
    return job_.program.ranks[member.rank].items[member.item];
  }

  const TraceStore& store_;
  const CompileOptions& options_;
  std::span<const Bandwidth> links_;
  const std::vector<std::vector<uint32_t>>& item_of_;
  CompiledJob& job_;
  AwaitedArrivalsFinder finder_;
  std::vector<uint32_t> shape_of_;  // by communicator
  struct Shortest {
    SimTime time;
    int count = 0;  // of that kind
  };
  std::map<Kind, Shortest> shortest_;
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
                           std::span<const SimTime> clock_offset, std::span<const Bandwidth> links,
                           const std::vector<std::vector<uint32_t>>& item_of, CompiledJob& job) {
  RendezvousCompiler compiler(store, options, clock_offset, links, item_of, job);
  for (const MatchedRendezvous& rendezvous : job.communicators.rendezvous) {
    FORETRACE_RETURN_IF_ERROR(compiler.Add(rendezvous));
  }
  CountUnmatched(store, job);
  return absl::OkStatus();
}

}  // namespace foretrace
