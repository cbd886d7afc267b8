#include "simulator/engine/grow_groups.h"

#include <algorithm>
#include <set>

#include "simulator/base/check.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/engine/arrival_spread.h"
#include "simulator/engine/compile_rank.h"

namespace foretrace {
namespace {

class Grower {
 public:
  Grower(const TraceStore& store, const CompiledJob& job, const std::vector<int32_t>& sizes,
         const Schedule& arrivals, LastArrival last, NetworkModel& network, Program& program)
      : store_(store),
        job_(job),
        sizes_(sizes),
        arrivals_(arrivals),
        last_(last),
        resizer_(store, job, network),
        program_(program) {}

  absl::StatusOr<std::vector<GroupGrowth>> Run() {
    Collect();
    SpreadArrivals();
    for (const Collective& collective : collectives_) FORETRACE_RETURN_IF_ERROR(Grow(collective));
    std::vector<GroupGrowth> growths;
    for (auto& [communicator, growth] : growths_) growths.push_back(growth);
    return growths;
  }

 private:
  // Where in a step it is: rendezvous at one site are of one kind.
  using Site = std::pair<uint32_t, int64_t>;  // communicator, ordinal
  using Kind = std::tuple<uint32_t, CollectiveOp, int64_t>;

  struct Collective {
    uint32_t rendezvous = 0;
    int64_t step = 0;
    NodeIndex node;  // of its first member
    Site site;
    Kind kind;
  };

  bool Grows(uint32_t index) const {
    const MatchedRendezvous& matched = job_.communicators.rendezvous[index];
    return sizes_[matched.communicator] > 0 && !matched.point_to_point &&
           !program_.rendezvous[index].members.empty();
  }

  void Collect() {
    for (uint32_t index = 0; index < program_.rendezvous.size(); ++index) {
      if (!Grows(index)) continue;
      const auto& first = program_.rendezvous[index].members.front();
      const RankTrace& rank = store_.ranks()[first.rank];
      const NodeIndex node = program_.ranks[first.rank].items[first.item].node;
      const uint32_t communicator = job_.communicators.rendezvous[index].communicator;
      const CommAttr* attr = rank.comm(node);
      const int64_t bytes = attr == nullptr ? 0 : std::max(attr->bytes_in, attr->bytes_out).count();
      collectives_.push_back({index,
                              rank.iteration_at(rank.start(node)),
                              node,
                              {communicator, 0},
                              {communicator, rank.collective_op(node), bytes}});
    }
    std::ranges::sort(collectives_, [](const Collective& a, const Collective& b) {
      return std::tuple(a.site.first, a.step, a.node, a.rendezvous) <
             std::tuple(b.site.first, b.step, b.node, b.rendezvous);
    });
    for (size_t m = 1; m < collectives_.size(); ++m) {
      const Collective& before = collectives_[m - 1];
      const bool follows =
          before.site.first == collectives_[m].site.first && before.step == collectives_[m].step;
      if (follows) collectives_[m].site.second = before.site.second + 1;
    }
  }

  // Steps that show how far apart ranks come: in the first of a recording they begin apart.
  bool Shows(int64_t step) const {
    return step >= 0 && std::ranges::none_of(job_.reports, [&](const RankCompileReport& report) {
             return report.partial_steps.contains(step);
           });
  }

  SimTime DurationOf(const RendezvousProgram::Member& member) const {
    return program_.ranks[member.rank].items[member.item].duration;
  }

  void SpreadArrivals() {
    std::set<Site> shown;
    for (const Collective& collective : collectives_) {
      if (Shows(collective.step)) shown.insert(collective.site);
      for (const auto& member : program_.rendezvous[collective.rendezvous].members) {
        const auto [at, added] = shortest_.try_emplace(collective.kind, DurationOf(member));
        if (!added) at->second = std::min(at->second, DurationOf(member));
      }
    }
    for (const Collective& collective : collectives_) {
      if (shown.contains(collective.site) && !Shows(collective.step)) continue;
      const auto& members = program_.rendezvous[collective.rendezvous].members;
      std::vector<SimTime> arrivals;
      for (const auto& m : members) arrivals.push_back(arrivals_.ranks[m.rank].start[m.item]);
      ArrivalSpread& spread = spreads_[collective.site];
      if (arrivals.size() > 1) {
        spread.Add(arrivals);
      } else if (Absent(collective.rendezvous)) {
        spread.AddWait(DurationOf(members.front()) - shortest_.at(collective.kind),
                       GroupOf(collective.site.first));
      }
    }
  }

  bool Absent(uint32_t index) const {
    return job_.communicators.rendezvous[index].missing_members > 0 &&
           program_.rendezvous[index].fixed;
  }

  int32_t GroupOf(uint32_t communicator) const {
    return static_cast<int32_t>(job_.communicators.communicators[communicator].ranks.size());
  }

  SimTime LaterAt(const Collective& collective, int32_t from, int32_t to) const {
    const auto spread = spreads_.find(collective.site);
    if (spread == spreads_.end()) return SimTime();
    const ArrivalSpread::Later later = spread->second.Between(from, to);
    return last_ == LastArrival::kSeen       ? later.seen
           : last_ == LastArrival::kExpected ? later.expected
                                             : later.late;
  }

  absl::Status Grow(const Collective& collective) {
    const uint32_t communicator = collective.site.first;
    const int32_t from = GroupOf(communicator), to = sizes_[communicator];
    if (from == to) return absl::OkStatus();
    FORETRACE_ASSIGN_OR_RETURN(const double ratio, resizer_.Ratio(collective.rendezvous, to));
    const SimTime later = LaterAt(collective, from, to);
    GroupGrowth& growth = growths_[communicator];
    growth.communicator = communicator, growth.from = from, growth.to = to;
    ++growth.rendezvous;
    growth.later += later;
    RendezvousProgram& rendezvous = program_.rendezvous[collective.rendezvous];
    if (!rendezvous.fixed) {
      rendezvous.change = rendezvous.change.Then({ratio, later});
      return absl::OkStatus();
    }
    SimTime before, after;
    for (const auto& member : rendezvous.members) {
      Item& item = program_.ranks[member.rank].items[member.item];
      // What ranks without a trace were waited for stays as it was.
      const SimTime transfer = Absent(collective.rendezvous)
                                   ? std::min(item.duration, shortest_.at(collective.kind))
                                   : item.duration;
      const SimTime resized = DurationChange{ratio, SimTime()}.Of(transfer);
      before = std::max(before, transfer), after = std::max(after, resized);
      item.duration = item.duration - transfer + DurationChange{1, later}.Of(resized);
    }
    growth.transfers_before += before, growth.transfers_after += after;
    return absl::OkStatus();
  }

  const TraceStore& store_;
  const CompiledJob& job_;
  const std::vector<int32_t>& sizes_;
  const Schedule& arrivals_;
  const LastArrival last_;
  GroupResizer resizer_;
  Program& program_;
  std::vector<Collective> collectives_;  // by communicator, in order
  std::map<Site, ArrivalSpread> spreads_;
  std::map<Kind, SimTime> shortest_;
  std::map<uint32_t, GroupGrowth> growths_;
};

}  // namespace

std::vector<int32_t> ResizedGroup(const std::vector<int32_t>& members, int32_t size) {
  std::vector<int32_t> resized;
  resized.reserve(static_cast<size_t>(size));
  const int32_t stride = members.size() > 1 ? std::max(members[1] - members[0], 1) : 1;
  for (int32_t k = 0; k < size; ++k) {
    const auto m = static_cast<size_t>(k);
    resized.push_back(m < members.size() ? members[m] : resized.back() + stride);
  }
  return resized;
}

absl::StatusOr<double> GroupResizer::Ratio(uint32_t index, int32_t size) {
  const MatchedRendezvous& matched = job_.communicators.rendezvous[index];
  const MatchedCommunicator& communicator = job_.communicators.communicators[matched.communicator];
  FORETRACE_ASSIGN_OR_RETURN(TransferSpec from, TransferOf(store_, communicator, matched));
  const Kind kind(matched.communicator, from.op, from.bytes.count(), size);
  if (const auto found = known_.find(kind); found != known_.end()) return found->second;
  from.split_bytes.clear();  // by how much the largest exceeds the others stays
  TransferSpec to = from;
  to.members = ResizedGroup(from.members, size);
  if (from.op == CollectiveOp::kGather || from.op == CollectiveOp::kScatter) {
    to.bytes = Bytes(from.bytes.count() / static_cast<int64_t>(from.members.size()) * size);
  }
  FORETRACE_ASSIGN_OR_RETURN(const Estimate before, network_.IsolatedDuration(from));
  FORETRACE_ASSIGN_OR_RETURN(const Estimate after, network_.IsolatedDuration(to));
  if (before.time == SimTime()) {
    return InvalidInput("communicator {} has one member, which says nothing of larger groups",
                        communicator.name);
  }
  return known_[kind] = after.time.seconds() / before.time.seconds();
}

absl::StatusOr<std::vector<GroupGrowth>> GrowGroups(const TraceStore& store, const CompiledJob& job,
                                                    const std::vector<int32_t>& sizes,
                                                    const Schedule& arrivals, LastArrival last,
                                                    NetworkModel& network, Program& program) {
  FORETRACE_CHECK(sizes.size() == job.communicators.communicators.size());
  return Grower(store, job, sizes, arrivals, last, network, program).Run();
}

}  // namespace foretrace
