#pragma once

#include <functional>
#include <utility>

#include "simulator/cost/cost_model.h"

namespace foretrace {

// The recorded duration of device work. Never used for communication or CPU calls, whose recorded
// durations contain waiting.
class RecordedCostModel : public CostModel {
 public:
  // Nodes that are to be modelled, which this model leaves alone; null: none.
  using Except = std::function<bool(const RankTrace& rank, NodeIndex node)>;
  explicit RecordedCostModel(Except except = nullptr) : except_(std::move(except)) {}

  std::string_view name() const override { return "recorded"; }
  std::optional<Estimate> Predict(const TraceStore&, const RankTrace& rank,
                                  NodeIndex node) const override {
    const NodeKind kind = rank.kind(node);
    if (!rank.has_duration(node) || !IsDeviceKind(kind) || IsCommunicationKind(kind)) {
      return std::nullopt;
    }
    if (except_ != nullptr && except_(rank, node)) return std::nullopt;
    return Estimate{rank.duration(node), EstimateSource::kRecorded, false};
  }

 private:
  Except except_;
};

}  // namespace foretrace
