#include "simulator/cost/roofline/roofline_cost_model.h"

#include <algorithm>

namespace foretrace {

RooflineCostModel::RooflineCostModel(const Accelerator& device)
    : peak_(device.peak(device.peak(RateKind::kFp16) > FlopRate() ? RateKind::kFp16
                                                                  : RateKind::kFp32)),
      memory_(device.memory_bandwidth()) {}

std::optional<Estimate> RooflineCostModel::Predict(const TraceStore&, const RankTrace& rank,
                                                   NodeIndex node) const {
  const WorkAttr* work = rank.work(node);
  if (work == nullptr) return std::nullopt;
  const SimTime compute = work->flop / peak_;
  const SimTime memory = work->bytes / memory_;
  return Estimate{std::max(compute, memory), EstimateSource::kAnalytic, false};
}

}  // namespace foretrace
