#pragma once
// What an operation costs, and where the number comes from.

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "simulator/base/estimate.h"
#include "simulator/reconstruct/cpu_timeline.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

// A stateless model of durations of trace nodes. Implementations are thread-safe and deterministic.
class CostModel {
 public:
  virtual ~CostModel() = default;
  virtual std::string_view name() const = 0;
  // nullopt: this model does not cover the node; the next in the chain is asked.
  virtual std::optional<Estimate> Predict(const TraceStore& store, const RankTrace& rank,
                                          NodeIndex node) const = 0;
};

// Asks each model in turn; the first answer wins. Its order is the order on the command line.
class CostModelChain : public CostModel {
 public:
  void Append(std::unique_ptr<CostModel> model) { models_.push_back(std::move(model)); }
  std::string_view name() const override { return "chain"; }
  std::optional<Estimate> Predict(const TraceStore& store, const RankTrace& rank,
                                  NodeIndex node) const override {
    for (const auto& model : models_) {
      if (auto estimate = model->Predict(store, rank, node)) return estimate;
    }
    return std::nullopt;
  }

 private:
  std::vector<std::unique_ptr<CostModel>> models_;
};

// Replaces recorded CPU overheads by statistics.
class OverheadModel {
 public:
  virtual ~OverheadModel() = default;
  // Mean of one overhead of an op (by name), or of a launch call (kT4).
  virtual SimTime Mean(OverheadKind kind, std::string_view op) const = 0;
};

}  // namespace foretrace
