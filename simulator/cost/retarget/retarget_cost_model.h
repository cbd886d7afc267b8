#pragma once
// Durations of a recording on another device: as recorded, times the ratio of what models say of
// the two devices. What a model misses of a kernel on the one, it mostly misses on the other, so
// that the ratio is better than either time.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "simulator/cost/cost_model.h"

namespace foretrace {

// Models of one form for both devices.
struct DevicePair {
  const CostModel* from = nullptr;  // of the device that was recorded on
  const CostModel* to = nullptr;
};

// For one trace store, which must outlive the model.
class RetargetCostModel : public CostModel {
 public:
  // Pairs are asked in order; the first whose models both answer, with estimates of one source,
  // gives the ratio. Device work that none covers is left to the next model of the chain.
  RetargetCostModel(const TraceStore& store, const std::vector<DevicePair>& pairs);

  std::string_view name() const override { return "retarget"; }
  std::optional<Estimate> Predict(const TraceStore& store, const RankTrace& rank,
                                  NodeIndex node) const override;

  // Recorded time of device work other than communication: all, and that no pair covers, the
  // longest name first.
  struct Uncovered {
    std::string name;
    SimTime time;
  };
  SimTime total() const { return total_; }
  SimTime uncovered() const { return uncovered_; }
  const std::vector<Uncovered>& uncovered_names() const { return names_; }

 private:
  std::map<int32_t, std::vector<Estimate>> scaled_;  // by rank number, by node
  SimTime total_, uncovered_;
  std::vector<Uncovered> names_;
};

}  // namespace foretrace
