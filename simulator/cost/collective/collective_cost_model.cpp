#include "simulator/cost/collective/collective_cost_model.h"

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "simulator/base/check.h"
#include "simulator/cost/collective/message_size.h"

namespace foretrace {

CollectiveCostModel::CollectiveCostModel(std::shared_ptr<const CollectiveCalibration> calibration,
                                         const TraceStore& store, int32_t ranks_per_node)
    : calibration_(std::move(calibration)), store_(&store), ranks_per_node_(ranks_per_node) {
  for (const auto& [name, group] : store.process_groups()) {
    const StringId id = store.strings().Find(name);
    if (!id.valid()) continue;
    absl::flat_hash_set<int32_t> nodes;
    for (int32_t rank : group.ranks) nodes.insert(NodeOf(rank));
    if (!group.ranks.empty()) {
      groups_[id] = {static_cast<int32_t>(group.ranks.size()), static_cast<int32_t>(nodes.size())};
    }
  }
  UniteAllToAllSizes(store);
}

void CollectiveCostModel::UniteAllToAllSizes(const TraceStore& store) {
  using Call = std::tuple<StringId, bool, int64_t>;  // group, whether declared, sequence or order
  struct Member {
    int32_t rank;
    NodeIndex node;
    Bytes bytes;
  };
  absl::flat_hash_map<Call, std::vector<Member>> calls;
  for (const RankTrace& rank : store.ranks()) {
    absl::flat_hash_map<StringId, int64_t> issued;
    for (uint32_t i = 0; i < rank.size(); ++i) {
      const NodeIndex node(i);
      if (rank.kind(node) != NodeKind::kCollective ||
          rank.collective_op(node) != CollectiveOp::kAllToAll) {
        continue;
      }
      const CommAttr* comm = rank.comm(node);
      if (comm == nullptr) continue;
      const int64_t order = issued[comm->group]++;
      const bool declared = comm->sequence >= 0;
      calls[{comm->group, declared, declared ? comm->sequence : order}].push_back(
          {rank.info().rank, node, LocalMessageSize(rank, *comm)});
    }
  }
  for (const auto& [call, members] : calls) {
    Bytes largest;
    for (const Member& member : members) largest = std::max(largest, member.bytes);
    for (const Member& member : members) {
      if (member.bytes < largest) united_bytes_[{member.rank, member.node}] = largest;
    }
  }
}

CollectiveCostModel::Placement CollectiveCostModel::PlacementOf(const CommAttr& comm) const {
  if (const auto it = groups_.find(comm.group); it != groups_.end()) return it->second;
  // An undeclared group is taken to be consecutive ranks; one without a size, the whole job.
  const int32_t ranks = comm.group_size > 0 ? comm.group_size : store_->world_size();
  return {ranks, ranks > 0 ? NodeOf(ranks - 1) + 1 : 1};
}

std::optional<Estimate> CollectiveCostModel::Predict(const TraceStore& store,
                                                     const RankTrace& rank,
                                                     NodeIndex node) const {
  FORETRACE_CHECK(&store == store_);
  const NodeKind kind = rank.kind(node);
  if (!IsCommunicationKind(kind)) return std::nullopt;
  const CommAttr* comm = rank.comm(node);
  if (comm == nullptr) return std::nullopt;
  CollectiveOp op = CollectiveOp::kSendRecv;
  Placement placement{2, 1};
  Bytes bytes = LocalMessageSize(rank, *comm);
  if (kind == NodeKind::kCollective) {
    op = rank.collective_op(node);
    placement = PlacementOf(*comm);
    if (op == CollectiveOp::kAllToAll && !united_bytes_.empty()) {
      const auto it = united_bytes_.find(std::pair(rank.info().rank, node));
      if (it != united_bytes_.end()) bytes = it->second;
    }
  } else if (comm->peer >= 0 && NodeOf(comm->peer) != NodeOf(rank.info().rank)) {
    placement.nodes = 2;
  }
  if (bytes.count() <= 0) return std::nullopt;
  const CollectiveEstimator estimator =
      calibration_->Resolve(op, placement.ranks, placement.nodes);
  if (!estimator.covered()) return std::nullopt;
  return estimator.Time(bytes);
}

}  // namespace foretrace
