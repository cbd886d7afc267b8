// Uses of a system that the search may look at.

#include <cmath>

#include "simulator/base/status_macros.h"
#include "simulator/dataflow/optimiser.h"

namespace foretrace::dataflow {
namespace {

std::vector<double> MicroBatches(double samples, const Formulas& formulas,
                                 const SearchLimits& limits) {
  if (limits.micro_batch > 0) return {limits.micro_batch};
  // Published: weights cost nothing, so that more than one sample gains nothing.
  if (formulas.iteration == IterationRule::kDse) return {1};
  std::vector<double> out;
  for (double m = 1; m <= samples && m <= 1024; m *= 2) {
    if (std::fmod(samples, m) == 0) out.push_back(m);
  }
  return out;
}

// By utilisation the finest tiles are never worse: they need the least SRAM, and cost is per
// tensor.
std::vector<int64_t> TileCounts(const Workload& workload, const Formulas& formulas,
                                const SearchLimits& limits) {
  if (limits.tiles > 0) return {limits.tiles};
  if (formulas.compute_utilisation > 0) return {workload.tiled_size};
  std::vector<int64_t> out;
  for (int64_t size = 1; size <= workload.tiled_size; size *= 2) {
    out.push_back((workload.tiled_size + size - 1) / size);
  }
  return out;
}

}  // namespace

// Of attention's core alone where it is asked for: searched, it would be half as many uses again.
std::vector<Recompute> Optimiser::Recomputations() const {
  if (limits_.recompute) return {*limits_.recompute};
  if (!workload_.trains() || formulas_.iteration != IterationRule::kPhysical)
    return {Recompute::kNone};
  return {Recompute::kNone, Recompute::kFull};
}

bool Optimiser::Divides(const Mapping& mapping) const {
  const double replicas = static_cast<double>(mapping.data);
  if (mapping.pipeline > workload_.layers || std::fmod(workload_.batch, replicas) != 0)
    return false;
  const int64_t chunks = mapping.scheme.chunks;
  return chunks == 1 ||
         (mapping.pipeline > 1 && workload_.layers % (mapping.pipeline * chunks) == 0);
}

Optimiser::Roles* Optimiser::RolesOf(const Mapping& mapping) {
  System used = system_;
  for (size_t i = 0; i < mapping.roles.size(); ++i) used.dimensions[i].role = mapping.roles[i];
  TensorGroup group = GroupOf(used, formulas_, Role::kTensor, mapping.micro_batch);
  if (group.linear()) group.samples = 1;
  std::unique_ptr<Roles>& roles = roles_[{mapping.roles, group.samples}];
  if (roles == nullptr) {
    roles = std::make_unique<Roles>(Roles{std::move(used), group, {}, nullptr, {}});
    if (!OneSharding(*roles)) roles->shares = SharesOf(workload_, group);
  }
  return roles.get();
}

// Then its own bound is closer than that of kernels by themselves.
bool Optimiser::OneSharding(const Roles& roles) const {
  return limits_.shardings || limits_.megatron != SearchLimits::Megatron::kNo ||
         roles.group.size() == 1;
}

const ShardingProblem& Optimiser::ProblemOf(Roles& roles) const {
  if (roles.problem == nullptr)
    roles.problem = std::make_unique<ShardingProblem>(workload_, roles.group);
  return *roles.problem;
}

absl::Status Optimiser::AddRoles(const std::vector<Role>& roles) {
  Mapping mapping;
  mapping.roles = roles;
  System used = system_;
  for (size_t i = 0; i < roles.size(); ++i) used.dimensions[i].role = roles[i];
  mapping.tensor = used.degree(Role::kTensor);
  mapping.pipeline = used.degree(Role::kPipeline);
  mapping.data = used.degree(Role::kData);
  mapping.scheme = limits_.scheme;
  if (!Divides(mapping)) return absl::OkStatus();
  const auto replicas = static_cast<double>(mapping.data);
  for (const double micro_batch : MicroBatches(workload_.batch / replicas, formulas_, limits_)) {
    mapping.micro_batch = micro_batch;
    const double group = mapping.scheme.chunks > 1 ? static_cast<double>(mapping.pipeline) : 1;
    if (std::fmod(workload_.batch / replicas / micro_batch, group) != 0) continue;
    for (const int64_t tiles : TileCounts(workload_, formulas_, limits_)) {
      mapping.tiles = tiles;
      for (const Recompute recompute : Recomputations()) {
        mapping.recompute = recompute;
        FORETRACE_RETURN_IF_ERROR(AddUse(mapping));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status Optimiser::AddUse(const Mapping& mapping) {
  Use use;
  use.mapping = mapping;
  use.roles = RolesOf(mapping);
  if (OneSharding(*use.roles)) {
    use.depth = Depth::kPartitions;
    uses_.push_back(std::move(use));
    return absl::OkStatus();
  }
  FORETRACE_ASSIGN_OR_RETURN(
      const MappingCosts least,
      MappingCosts::CreateLeast(workload_, system_, formulas_, mapping, use.roles->shares));
  // What does not fit is looked at where nothing does, to say by how much.
  use.bound = least.CheckResident().ok() ? least.LowerBound(Alone(system_, limits_)).total
                                         : RealNs::Infinite();
  uses_.push_back(std::move(use));
  return absl::OkStatus();
}

}  // namespace foretrace::dataflow
