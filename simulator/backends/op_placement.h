#pragma once
// Op-level placement (Collage, section 2.4.2): which kernels cover a graph, each operator once, at
// the least sum of their times and of one launch each (equation 2.3).

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/backends/operator_dag.h"
#include "simulator/base/time.h"

namespace foretrace {

// Switching from kernel to kernel, as published.
inline constexpr SimTime kPublishedLaunch = SimTime::FromPs(10'000'000);

struct KernelChoice {
  std::vector<int32_t> ops;  // ascending; connected, read from outside at the last one alone
  int32_t backend = 0;
  SimTime time;
};

struct OpPlacement {
  std::vector<int32_t> choices;  // of those given, in an order in which they can run
  SimTime cost;
  double placements = 0;  // how many there are to choose from
};

// Exact: dynamic programming over prefixes of a depth-first topological order. A state is the set
// of operators beyond the prefix that kernels cover already, so it stays as small as the overlap of
// kernels is local (the paper's frontier). Of equal costs the choices given first are kept.
// Errors: operators that no choice covers, by name; more states than kMaxPlacementStates.
inline constexpr size_t kMaxPlacementStates = 4'000'000;
absl::StatusOr<OpPlacement> PlaceOps(const OperatorDag& dag, std::span<const KernelChoice> choices,
                                     SimTime launch);

// Operators that no choice has.
std::vector<int32_t> Uncovered(const OperatorDag& dag, std::span<const KernelChoice> choices);

}  // namespace foretrace
