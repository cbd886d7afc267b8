#include "simulator/engine/gradient_buckets.h"

#include <tuple>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/engine/transfer_spec.h"

namespace foretrace {

// Collectives among `items`, by rendezvous: how many of their members are chosen.
std::map<uint32_t, size_t> ChosenCollectives(const ItemSet& items, const Program& program) {
  std::map<uint32_t, size_t> chosen;
  for (uint32_t r = 0; r < items.ranks.size(); ++r) {
    for (const uint32_t i : items.ranks[r]) {
      const Item& item = program.ranks[r].items[i];
      if (item.kind == ItemKind::kComm) ++chosen[item.rendezvous];
    }
  }
  return chosen;
}

absl::StatusOr<TransferSpec> Transfer(const TraceStore& store, const CompiledJob& job,
                                      uint32_t rendezvous) {
  const MatchedRendezvous& matched = job.communicators.rendezvous[rendezvous];
  return TransferOf(store, job.communicators.communicators[matched.communicator], matched);
}

absl::Status ChosenInPart(std::string_view communicator) {
  return InvalidInput("all ranks of communicator {} change together: leave out rank=",
                      communicator);
}

void ScaleMembers(Program& program, const RendezvousProgram& rendezvous, const TimeRatio& ratio) {
  for (const auto& m : rendezvous.members) {
    Item& item = program.ranks[m.rank].items[m.item];
    item.duration = DurationChange{ratio.value, SimTime()}.Of(item.duration);
    ratio.Mark(item);
  }
}

absl::StatusOr<std::vector<Bucket>> GradientBuckets::Collect(const ItemSet& items,
                                                             const Program& program) {
  std::vector<Bucket> buckets;
  for (const auto& [index, chosen] : ChosenCollectives(items, program)) {
    const RendezvousProgram& rendezvous = program.rendezvous[index];
    const uint32_t communicator = job_.communicators.rendezvous[index].communicator;
    const auto& first = rendezvous.members.front();
    const RankTrace& rank = store_.ranks()[first.rank];
    const NodeIndex node = program.ranks[first.rank].items[first.item].node;
    Bucket bucket{communicator, rank.iteration_at(rank.start(node)), node, first.item, index, {}};
    FORETRACE_ASSIGN_OR_RETURN(bucket.spec, Transfer(store_, job_, index));
    if (bucket.spec.op != CollectiveOp::kAllReduce &&
        bucket.spec.op != CollectiveOp::kReduceScatter) {
      continue;
    }
    if (chosen < rendezvous.members.size()) return ChosenInPart(NameOf(bucket));
    RecordedTimes& times = times_[{communicator, bucket.spec.op}];
    for (const auto& m : rendezvous.members) {
      times.Add(bucket.spec.bytes, program.ranks[m.rank].items[m.item].duration);
    }
    buckets.push_back(std::move(bucket));
  }
  // Pieces of one recorded bucket have one node.
  std::sort(buckets.begin(), buckets.end(), [](const Bucket& a, const Bucket& b) {
    return std::tuple(a.communicator, a.node, a.item) < std::tuple(b.communicator, b.node, b.item);
  });
  return buckets;
}

absl::StatusOr<TimeRatio> GradientBuckets::Ratio(const Bucket& bucket, Bytes held) const {
  if (network_ == nullptr) {
    const RecordedTimes& times = times_.at({bucket.communicator, bucket.spec.op});
    if (!times.one_size()) return TimeRatio{times.Ratio(bucket.spec.bytes, held)};
    return InvalidInput(
        "all collectives of communicator {} have {} bytes, which does not say how long larger or "
        "smaller ones take; name a --platform whose network does",
        NameOf(bucket), bucket.spec.bytes.count());
  }
  TransferSpec other = bucket.spec;
  other.bytes = held;
  FORETRACE_ASSIGN_OR_RETURN(const Estimate from, network_->IsolatedDuration(bucket.spec));
  FORETRACE_ASSIGN_OR_RETURN(const Estimate to, network_->IsolatedDuration(other));
  return TimeRatio::Of(from, to);
}

}  // namespace foretrace
