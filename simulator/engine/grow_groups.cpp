#include "simulator/engine/grow_groups.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "simulator/base/check.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/engine/arrival_spread.h"
#include "simulator/engine/transfer_spec.h"

namespace foretrace {
namespace {

// What a rank does between collectives.
class OwnWork {
 public:
  using Span = std::pair<SimTime, SimTime>;

  OwnWork() = default;
  OwnWork(const RankProgram& rank, const std::vector<SimTime>& start, std::vector<Span> collectives)
      : collectives_(std::move(collectives)) {
    if (!start.empty()) begin_ = *std::ranges::min_element(start);
    for (uint32_t i = 0; i < rank.items.size(); ++i) {
      if (rank.items[i].kind == ItemKind::kDevice) {
        work_.emplace_back(start[i], rank.items[i].duration);
      }
    }
    std::ranges::sort(work_);
    std::ranges::sort(collectives_);
    SimTime sum;
    for (auto& [at, time] : work_) time = sum += time;
  }

  // The device's work, or the time without the collective before: what is more, so that neither
  // work beside a transfer nor the CPU's is left out.
  SimTime SinceCollectiveBefore(SimTime until) const {
    const auto next = std::ranges::lower_bound(collectives_, Span(until, SimTime::Min()));
    if (next == collectives_.begin()) return until - begin_;
    const auto [from, end] = *std::prev(next);
    const SimTime device = std::min(Before(until) - Before(from), until - from);
    return std::max(device, until - std::min(end, until));
  }

 private:
  SimTime Before(SimTime until) const {
    const auto next = std::ranges::lower_bound(work_, std::pair(until, SimTime()));
    return next == work_.begin() ? SimTime() : std::prev(next)->second;
  }

  std::vector<std::pair<SimTime, SimTime>> work_;  // start, and what began up to then in all
  std::vector<Span> collectives_;
  SimTime begin_;
};

class Grower {
 public:
  Grower(const TraceStore& store, const CompiledJob& job, const std::vector<int32_t>& sizes,
         const Schedule& arrivals, ArrivalsOf whose, LastArrival last, NetworkModel* network,
         Program& program)
      : store_(store),
        job_(job),
        sizes_(sizes),
        arrivals_(arrivals),
        whose_(whose),
        last_(last),
        resizer_(store, job, network, true),
        program_(program) {}

  absl::StatusOr<std::vector<GroupGrowth>> Run() {
    Collect();
    SpreadArrivals();
    FindShown();
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
      } else if (Absent(collective.rendezvous) && whose_ == ArrivalsOf::kGroup) {
        spread.AddWait(DurationOf(members.front()) - shortest_.at(collective.kind),
                       GroupOf(collective.site.first));
      }
    }
  }

  void FindShown() {
    for (const auto& [site, spread] : spreads_) {
      if (spread.shown()) shown_.insert(site.first);
    }
  }

  bool Absent(uint32_t index) const {
    return job_.communicators.rendezvous[index].missing_members > 0 &&
           program_.rendezvous[index].fixed;
  }

  int32_t GroupOf(uint32_t communicator) const {
    return GroupSize(job_.communicators.communicators[communicator]);
  }

  // When the last of those that came did, from the mean of those at hand.
  SimTime LastFromMean(const Collective& collective) const {
    const auto& members = program_.rendezvous[collective.rendezvous].members;
    SimTime last = SimTime::Min(), waited;
    double mean = 0;
    const SimTime first = arrivals_.ranks[members.front().rank].start[members.front().item];
    for (const auto& m : members) {
      const SimTime arrival = arrivals_.ranks[m.rank].start[m.item];
      last = std::max(last, arrival);
      mean += (arrival - first).us() / static_cast<double>(members.size());
      waited = std::max(waited, DurationOf(m) - shortest_.at(collective.kind));
    }
    if (whose_ == ArrivalsOf::kGroup && Absent(collective.rendezvous)) last += waited;
    return last - first - SimTime::FromUs(mean);
  }

  SimTime LaterAt(const Collective& collective, int32_t more, GroupGrowth& growth) {
    const auto spread = spreads_.find(collective.site);
    const bool shown = shown_.contains(collective.site.first);
    growth.supposed |= !shown;
    if (last_ == LastArrival::kAtHand) return SimTime();
    if (!shown) {  // nowhere in the group: what follows at once shows none of its own
      return last_ == LastArrival::kExpected ? SimTime() : OfSlowestRank(collective);
    }
    if (spread == spreads_.end()) return SimTime();
    const ArrivalSpread::Later later = spread->second.After(LastFromMean(collective), more);
    return last_ == LastArrival::kExpected ? later.expected : later.late;
  }

  // What the slowest rank needs more for what it does between the collective before and this one.
  SimTime OfSlowestRank(const Collective& collective) {
    SimTime work;
    for (const auto& m : program_.rendezvous[collective.rendezvous].members) {
      const SimTime start = arrivals_.ranks[m.rank].start[m.item];
      work = std::max(work, WorkOf(m.rank).SinceCollectiveBefore(start));
    }
    return work.ScaledBy(kSlowestRank);
  }

  const OwnWork& WorkOf(uint32_t rank) {
    const auto [at, added] = work_.try_emplace(rank);
    if (!added) return at->second;
    const RankSchedule& schedule = arrivals_.ranks[rank];
    std::vector<OwnWork::Span> collectives;
    for (const Collective& c : collectives_) {
      for (const auto& m : program_.rendezvous[c.rendezvous].members) {
        if (m.rank == rank) collectives.emplace_back(schedule.start[m.item], schedule.end[m.item]);
      }
    }
    at->second = OwnWork(program_.ranks[rank], schedule.start, std::move(collectives));
    return at->second;
  }

  absl::Status Grow(const Collective& collective) {
    const uint32_t communicator = collective.site.first;
    const int32_t from = GroupOf(communicator), to = sizes_[communicator];
    const size_t present = program_.rendezvous[collective.rendezvous].members.size();
    const int32_t arrived = whose_ == ArrivalsOf::kGroup ? from : static_cast<int32_t>(present);
    if (arrived == to) return absl::OkStatus();
    FORETRACE_ASSIGN_OR_RETURN(const TimeRatio ratio, resizer_.Ratio(collective.rendezvous, to));
    GroupGrowth& growth = growths_[communicator];
    const SimTime later = LaterAt(collective, to - arrived, growth);
    growth.communicator = communicator, growth.from = from, growth.to = to;
    ++growth.rendezvous;
    growth.later += later;
    RendezvousProgram& rendezvous = program_.rendezvous[collective.rendezvous];
    if (!rendezvous.fixed) {
      rendezvous.change = rendezvous.change.Then({ratio.value, later});
      return absl::OkStatus();
    }
    SimTime before, after;
    for (const auto& member : rendezvous.members) {
      Item& item = program_.ranks[member.rank].items[member.item];
      // What ranks without a trace were waited for stays as it was.
      const SimTime transfer = Absent(collective.rendezvous)
                                   ? std::min(item.duration, shortest_.at(collective.kind))
                                   : item.duration;
      const SimTime resized = DurationChange{ratio.value, SimTime()}.Of(transfer);
      before = std::max(before, transfer), after = std::max(after, resized);
      item.duration = item.duration - transfer + DurationChange{1, later}.Of(resized);
      ratio.Mark(item);
    }
    growth.transfers_before += before, growth.transfers_after += after;
    return absl::OkStatus();
  }

  const TraceStore& store_;
  const CompiledJob& job_;
  const std::vector<int32_t>& sizes_;
  const Schedule& arrivals_;
  const ArrivalsOf whose_;
  const LastArrival last_;
  GroupResizer resizer_;
  Program& program_;
  std::vector<Collective> collectives_;  // by communicator, in order
  std::map<Site, ArrivalSpread> spreads_;
  std::set<uint32_t> shown_;  // communicators of which some site does
  std::map<Kind, SimTime> shortest_;
  std::map<uint32_t, GroupGrowth> growths_;
  std::map<uint32_t, OwnWork> work_;  // by rank
};

}  // namespace

int32_t GroupSize(const MatchedCommunicator& communicator) {
  const auto known = static_cast<int32_t>(communicator.ranks.size());
  return communicator.declared ? known : known + static_cast<int32_t>(communicator.missing_members);
}

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

std::vector<int32_t> GrownGroup(const std::vector<int32_t>& members, int32_t size) {
  const auto count = static_cast<int32_t>(members.size());
  const int32_t stride = count > 1 ? members[1] - members[0] : 0;
  for (int32_t k = 1; k < count; ++k) {
    const auto m = static_cast<size_t>(k);
    if (stride <= 0 || members[m] - members[m - 1] != stride) return ResizedGroup(members, size);
  }
  if (stride <= 0 || members[0] % (stride * count) >= stride) return ResizedGroup(members, size);
  const int32_t block = members[0] / (stride * count);
  const int32_t first = block * stride * size + members[0] % stride;
  std::vector<int32_t> grown;
  for (int32_t k = 0; k < size; ++k) grown.push_back(first + k * stride);
  return grown;
}

absl::StatusOr<TimeRatio> GroupResizer::Ratio(uint32_t index, int32_t size) {
  const MatchedCommunicator& communicator =
      job_.communicators.communicators[job_.communicators.rendezvous[index].communicator];
  if (size == GroupSize(communicator)) return TimeRatio{};
  FORETRACE_ASSIGN_OR_RETURN(const Estimate before, Transfer(index, GroupSize(communicator)));
  FORETRACE_ASSIGN_OR_RETURN(const Estimate after, Transfer(index, size));
  if (before.time == SimTime()) {
    return InvalidInput("communicator {} has one member, which says nothing of larger groups",
                        communicator.name);
  }
  return TimeRatio::Of(before, after);
}

absl::StatusOr<Estimate> GroupResizer::Transfer(uint32_t index, int32_t size) {
  FORETRACE_CHECK(network_ != nullptr);
  const MatchedRendezvous& matched = job_.communicators.rendezvous[index];
  const MatchedCommunicator& communicator = job_.communicators.communicators[matched.communicator];
  FORETRACE_ASSIGN_OR_RETURN(TransferSpec spec, TransferOf(store_, communicator, matched));
  const Kind kind(matched.communicator, spec.op, spec.bytes.count(), size);
  if (const auto found = known_.find(kind); found != known_.end()) return found->second;
  const int32_t recorded = GroupSize(communicator);
  spec.members = job_grows_ && static_cast<int32_t>(spec.members.size()) == recorded
                     ? GrownGroup(spec.members, size)
                     : ResizedGroup(spec.members, size);
  spec.split_bytes.clear();  // by how much the largest exceeds the others stays
  const bool rooted = spec.op == CollectiveOp::kGather || spec.op == CollectiveOp::kScatter;
  if (rooted && size != recorded) spec.bytes = Bytes(spec.bytes.count() / recorded * size);
  FORETRACE_ASSIGN_OR_RETURN(known_[kind], network_->IsolatedDuration(spec));
  return known_[kind];
}

absl::StatusOr<std::vector<GroupGrowth>> GrowGroups(const TraceStore& store, const CompiledJob& job,
                                                    const std::vector<int32_t>& sizes,
                                                    const Schedule& arrivals, ArrivalsOf whose,
                                                    LastArrival last, NetworkModel* network,
                                                    Program& program) {
  FORETRACE_CHECK(sizes.size() == job.communicators.communicators.size());
  return Grower(store, job, sizes, arrivals, whose, last, network, program).Run();
}

}  // namespace foretrace
