#include "simulator/engine/transfer_spec.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "simulator/base/error.h"
#include "simulator/engine/compile_rank.h"

namespace foretrace {
namespace {

// What several ranks send to each other at once: from each to the next, or what each sends to whom.
void SetExchange(const TraceStore& store, const MatchedRendezvous& rendezvous, TransferSpec& spec) {
  const size_t n = spec.members.size();
  if (!spec.point_to_point || n < 3) return;
  const auto place = [&](uint32_t member) {
    const int32_t rank = store.ranks()[rendezvous.members[member].rank].info().rank;
    return static_cast<size_t>(std::ranges::find(spec.members, rank) - spec.members.begin());
  };
  spec.point_to_point = false;
  std::vector<int64_t> sent(n * n, 0);
  bool around = rendezvous.transfers.size() == n;
  for (const MatchedRendezvous::Transfer& t : rendezvous.transfers) {
    const size_t from = place(t.from), to = place(t.to);
    around = around && to == (from + 1) % n;
    sent[from * n + to] += t.bytes > 0 ? t.bytes / rendezvous.pieces : spec.bytes.count();
  }
  spec.op = around ? CollectiveOp::kSendRecv : CollectiveOp::kAllToAll;
  if (!around) spec.split_bytes = std::move(sent);
}

}  // namespace

absl::StatusOr<TransferSpec> TransferOf(const TraceStore& store,
                                        const MatchedCommunicator& communicator,
                                        const MatchedRendezvous& rendezvous) {
  const auto& first = rendezvous.members.front();
  const RankTrace& rank = store.ranks()[first.rank];
  TransferSpec spec;
  spec.point_to_point = rendezvous.point_to_point;
  spec.members = communicator.ranks;
  spec.op = rank.kind(first.node) == NodeKind::kCollective ? rank.collective_op(first.node)
                                                           : CollectiveOp::kSendRecv;
  if (spec.op == CollectiveOp::kUnknown) {
    return InvalidInput(
        "{}: {}: the collective's operation is not recorded, so its time cannot be "
        "modelled; replay recorded durations (--durations recorded)",
        rank.info().source, DescribeNode(store, rank, first.node));
  }
  Bytes bytes;
  for (const auto& m : rendezvous.members) {
    const CommAttr* attr = store.ranks()[m.rank].comm(m.node);
    if (attr == nullptr) continue;
    bytes = std::max({bytes, attr->bytes_in, attr->bytes_out});
    spec.dtype = attr->dtype;
  }
  if (bytes.count() == 0 && spec.op != CollectiveOp::kBarrier) {
    return InvalidInput(
        "{}: {}: the message size is not recorded, so its time cannot be modelled; "
        "replay recorded durations (--durations recorded)",
        rank.info().source, DescribeNode(store, rank, first.node));
  }
  spec.bytes = Bytes(bytes.count() / rendezvous.pieces);
  SetExchange(store, rendezvous, spec);
  if (spec.op == CollectiveOp::kAllToAll && !rendezvous.point_to_point &&
      rendezvous.members.size() == spec.members.size()) {
    const size_t n = spec.members.size();
    std::vector<int64_t> splits(n * n, 0);
    bool complete = true;
    for (size_t i = 0; i < n && complete; ++i) {
      const RankTrace& member = store.ranks()[rendezvous.members[i].rank];
      const CommAttr* attr = member.comm(rendezvous.members[i].node);
      // Rows in the order of the group, as what they hold is.
      const auto row = std::ranges::find(spec.members, member.info().rank);
      complete = attr != nullptr && attr->in_splits == n && row != spec.members.end();
      if (!complete) break;
      const auto sent = member.in_splits(*attr);
      std::ranges::copy(sent,
                        splits.begin() + (row - spec.members.begin()) * static_cast<int64_t>(n));
    }
    if (complete) spec.split_bytes = std::move(splits);
  }
  return spec;
}

}  // namespace foretrace
