#include "simulator/cost/roofline/roofline_cost_model.h"

#include <algorithm>

namespace foretrace {

RooflineCostModel::RooflineCostModel(const DeviceSpec& device)
    : peak_(FlopRate::PerSecond(device.peak_flops_fp16 > 0 ? device.peak_flops_fp16
                                                           : device.peak_flops_fp32)),
      memory_(Bandwidth::BytesPerSecond(device.memory_bandwidth)) {}

std::optional<Estimate> RooflineCostModel::Predict(const TraceStore&, const RankTrace& rank,
                                                   NodeIndex node) const {
  const WorkAttr* work = rank.work(node);
  if (work == nullptr) return std::nullopt;
  const SimTime compute = work->flop / peak_;
  const SimTime memory = work->bytes / memory_;
  return Estimate{std::max(compute, memory), EstimateSource::kAnalytic, false};
}

}  // namespace foretrace
