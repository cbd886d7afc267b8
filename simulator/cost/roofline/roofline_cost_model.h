#pragma once

#include "simulator/cost/cost_model.h"
#include "simulator/hardware/accelerator.h"

namespace foretrace {

// The analytic roofline for nodes that declare their work: the longer of operations at the device's
// peak rate and bytes at its memory bandwidth. No efficiency is assumed, so it is a lower bound.
class RooflineCostModel : public CostModel {
 public:
  // The device must state a peak rate and a memory bandwidth.
  explicit RooflineCostModel(const Accelerator& device);
  std::string_view name() const override { return "roofline"; }
  std::optional<Estimate> Predict(const TraceStore& store, const RankTrace& rank,
                                  NodeIndex node) const override;

 private:
  FlopRate peak_;
  Bandwidth memory_;
};

}  // namespace foretrace
