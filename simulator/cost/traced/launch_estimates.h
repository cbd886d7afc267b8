#pragma once
// Kernels of a rank that no call with shapes says anything of, by their launches.

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "simulator/cost/kernel/launched_kernels.h"
#include "simulator/cost/traced/moved_elements.h"

namespace foretrace {

// Steps repeat: each distinct launch is estimated once. Keeps references to what it is given.
class LaunchEstimates {
 public:
  // `moved`: of the rank, where that is known already.
  LaunchEstimates(const KernelModels& models, const TraceStore& store, const RankTrace& rank,
                  std::optional<MovedElements> moved);
  // nullopt: the launch's size is not known (EstimateLaunch).
  std::optional<LaunchEstimate> Of(NodeIndex kernel);

 private:
  struct Key {
    uint32_t name = 0, waves = 0;
    LaunchAttr launch;
    int64_t near = 0;  // elements beside it

    bool operator==(const Key&) const = default;
    template <typename H>
    friend H AbslHashValue(H h, const Key& k) {
      return H::combine(std::move(h), k.name, k.waves, AttributeHash(k.launch), k.near);
    }
  };

  const KernelModels& models_;
  const TraceStore& store_;
  const RankTrace& rank_;
  int64_t thread_elements_;
  MovedElements moved_;
  double typical_results_;
  absl::flat_hash_map<uint32_t, KernelKind> kinds_;  // by name
  absl::flat_hash_map<Key, std::optional<LaunchEstimate>> estimates_;
};

}  // namespace foretrace
