#include "simulator/cost/retarget/retarget_cost_model.h"

#include <algorithm>
#include <functional>

namespace foretrace {
namespace {

std::optional<Estimate> Scaled(const TraceStore& store, const RankTrace& rank, NodeIndex node,
                               const std::vector<DevicePair>& pairs) {
  for (const DevicePair& pair : pairs) {
    const auto from = pair.from->Predict(store, rank, node);
    const auto to = pair.to->Predict(store, rank, node);
    if (!from || !to || from->source != to->source || from->time <= SimTime()) continue;
    const double ratio = to->time.seconds() / from->time.seconds();
    return Estimate{rank.duration(node).ScaledBy(ratio), to->source,
                    from->extrapolated || to->extrapolated};
  }
  return std::nullopt;
}

}  // namespace

RetargetCostModel::RetargetCostModel(const TraceStore& store,
                                     const std::vector<DevicePair>& pairs) {
  std::map<std::string, SimTime> uncovered;
  for (const RankTrace& rank : store.ranks()) {
    std::vector<Estimate>& scaled = scaled_[rank.info().rank];
    scaled.resize(rank.size());
    for (uint32_t i = 0; i < rank.size(); ++i) {
      const NodeIndex node(i);
      const NodeKind kind = rank.kind(node);
      if (!IsDeviceKind(kind) || IsCommunicationKind(kind) || !rank.has_duration(node)) continue;
      total_ += rank.duration(node);
      if (const auto estimate = Scaled(store, rank, node, pairs)) {
        scaled[i] = *estimate;
      } else {
        uncovered_ += rank.duration(node);
        uncovered[std::string(store.name(rank, node))] += rank.duration(node);
      }
    }
  }
  for (auto& [name, time] : uncovered) names_.push_back({name, time});
  std::ranges::stable_sort(names_, std::greater(), &Uncovered::time);
}

std::optional<Estimate> RetargetCostModel::Predict(const TraceStore&, const RankTrace& rank,
                                                   NodeIndex node) const {
  const auto it = scaled_.find(rank.info().rank);
  if (it == scaled_.end() || it->second[node.value].source == EstimateSource::kMissing) {
    return std::nullopt;
  }
  return it->second[node.value];
}

}  // namespace foretrace
