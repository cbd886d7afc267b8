#pragma once
// The search behind Optimise: uses of a system (roles of its dimensions, micro-batch, tiles,
// recomputation) in order of what none of their mappings goes below, which is looked at more and
// more closely as long as it is below what was found.

#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "simulator/dataflow/mapping_costs.h"
#include "simulator/dataflow/sharding_candidates.h"

namespace foretrace::dataflow {

// Each kernel is a partition.
bool Alone(const System& system, const SearchLimits& limits);

class Optimiser {
 public:
  // All outlive the optimiser.
  Optimiser(const Workload& workload, const System& system, const Formulas& formulas,
            const SearchLimits& limits)
      : workload_(workload), system_(system), formulas_(formulas), limits_(limits) {}

  absl::Status AddRoles(const std::vector<Role>& roles);
  absl::StatusOr<MappedWorkload> Solve();

 private:
  using Found = std::unique_ptr<MappedWorkload>;  // an optional: GCC 12 warns of it where inlined
  // What is known of shardings where dimensions have these roles, and exchanges so many samples.
  struct Roles {
    System system;
    TensorGroup group;
    KernelShares shares;
    std::unique_ptr<ShardingProblem> problem;      // once it is needed
    std::optional<ShardingCandidates> candidates;  // where they are the same for all uses
  };
  enum class Depth : uint8_t { kKernels, kPartitions, kCandidates, kDone };
  struct Use {
    Mapping mapping;
    Roles* roles = nullptr;
    Depth depth = Depth::kKernels;
    RealNs bound;       // no mapping of it takes less
    bool only = false;  // there are no shardings besides the candidates'
    bool open = false;  // there are, and one may be faster
    std::vector<std::pair<RealNs, Mapping>> candidates;  // with their bounds
    std::vector<size_t> forward;  // the best forward pass, whatever the backward one; or empty
  };

  std::vector<Recompute> Recomputations() const;
  bool Divides(const Mapping& mapping) const;
  Roles* RolesOf(const Mapping& mapping);
  bool OneSharding(const Roles& roles) const;
  absl::Status AddUse(const Mapping& mapping);
  absl::Status Deepen(Use& use);
  absl::Status BoundPartitions(Use& use);
  absl::Status AddCandidates(Use& use, int nodes);
  bool PassesApart() const;
  absl::Status DeepenPasses(Use& use);
  void BoundPasses(Use& use) const;
  absl::Status AddBalanced(Use& use);
  ShardingCandidates CandidatesOf(const Use& use, int nodes) const;
  const ShardingProblem& ProblemOf(Roles& roles) const;
  absl::StatusOr<Found> Try(Use& use);
  absl::Status TryMapping(const Mapping& mapping, Found& best);
  absl::Status Improve(const Use& use, Found& best);
  absl::Status ImproveAlone(const Use& use, Found& best);
  absl::Status ImproveTogether(const Use& use, Found& best);
  absl::Status Keep(Mapping mapping, double exact, Found& best) const;
  absl::Status Note(const absl::Status& status);
  absl::Status ProvePartitions();
  absl::StatusOr<MappedWorkload> Take();

  const Workload& workload_;
  const System& system_;
  const Formulas& formulas_;
  const SearchLimits& limits_;
  std::map<std::pair<std::vector<Role>, double>, std::unique_ptr<Roles>> roles_;
  std::vector<Use> uses_;
  Found best_;
  absl::Status nearest_, last_;
  double least_resident_ = std::numeric_limits<double>::infinity();
};

}  // namespace foretrace::dataflow
