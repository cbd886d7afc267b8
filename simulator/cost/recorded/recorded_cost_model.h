#pragma once

#include "simulator/cost/cost_model.h"

namespace foretrace {

// The recorded duration of device work. Never used for communication or CPU calls, whose recorded
// durations contain waiting.
class RecordedCostModel : public CostModel {
 public:
  std::string_view name() const override { return "recorded"; }
  std::optional<Estimate> Predict(const TraceStore&, const RankTrace& rank,
                                  NodeIndex node) const override {
    const NodeKind kind = rank.kind(node);
    if (!rank.has_duration(node) || !IsDeviceKind(kind) || IsCommunicationKind(kind)) {
      return std::nullopt;
    }
    return Estimate{rank.duration(node), EstimateSource::kRecorded, false};
  }
};

}  // namespace foretrace
