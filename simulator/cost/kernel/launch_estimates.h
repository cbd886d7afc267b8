#pragma once
// Kernels of a rank that no call with shapes says anything of, by their launches.

#include <cstdint>
#include <optional>
#include <span>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "simulator/cost/kernel/launched_kernels.h"

namespace foretrace {

// Steps repeat: each distinct launch is estimated once. Keeps references to what it is given.
class LaunchEstimates {
 public:
  LaunchEstimates(const KernelModels& models, const TraceStore& store, const RankTrace& rank,
                  std::span<const NodeIndex> kernels);
  // nullopt: the launch's size is not known (EstimateLaunch).
  std::optional<LaunchEstimate> Of(NodeIndex kernel);

 private:
  const KernelModels& models_;
  const TraceStore& store_;
  const RankTrace& rank_;
  MovedElements moved_;
  double typical_results_;
  absl::flat_hash_map<uint32_t, KernelKind> kinds_;  // by name
  absl::flat_hash_map<std::tuple<uint32_t, uint32_t, int64_t>, std::optional<LaunchEstimate>>
      estimates_;  // by name, waves and elements beside it
};

}  // namespace foretrace
