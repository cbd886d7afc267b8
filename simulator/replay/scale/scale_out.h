#pragma once
// predict --ranks: the same job on more ranks, data parallel.

#include <re2/re2.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/engine/edit.h"
#include "simulator/engine/grow_groups.h"

namespace foretrace {

// Every rank of the larger job does what one of those at hand does (ranks that do the same are
// simulated once), and groups of data parallelism have as many times more members as the job has
// ranks; tensor, pipeline and other groups stay. What their collectives take changes as GrowGroups
// says; where gradients are scattered over such a group, so is the optimizer, whose work on the
// device shrinks with the share of each.
class ScaleOut {
 public:
  // `groups`: an expression of the names or descriptions of what grows; empty: groups of all ranks,
  // and those named for data parallelism. Errors: no RE2.
  static absl::StatusOr<ScaleOut> Make(int32_t ranks, const std::string& groups);

  int32_t ranks() const { return ranks_; }
  void set_last(LastArrival last) { last_ = last; }
  void set_arrivals(ArrivalsOf whose) { whose_ = whose; }

  // Errors: fewer ranks than recorded; no group that grows, or not to a whole number; larger groups
  // without a network, or in one in which transfers contend.
  absl::Status Apply(const TraceStore& store, const CompiledJob& job, NetworkModel* network,
                     Program& program) const;

  struct Summary {
    std::vector<GroupGrowth> groups;
    // Work of sharded optimizers, of the rank that has most of it; zero: none.
    SimTime optimizer_before, optimizer_after;
  };
  // Apply, and what it did.
  absl::StatusOr<Summary> Scale(const TraceStore& store, const CompiledJob& job,
                                NetworkModel* network, Program& program) const;

 private:
  absl::StatusOr<std::vector<int32_t>> Sizes(const TraceStore& store, const CompiledJob& job) const;
  bool Grows(const TraceStore& store, const MatchedCommunicator& communicator) const;

  int32_t ranks_ = 0;
  ArrivalsOf whose_ = ArrivalsOf::kGroup;
  LastArrival last_ = LastArrival::kExpected;
  std::shared_ptr<const RE2> groups_;  // null: by what they are
};

// Ranks of the recorded job, those without a trace included.
int32_t RecordedRanks(const TraceStore& store);

}  // namespace foretrace
