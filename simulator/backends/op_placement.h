#pragma once
// Op-level placement (Collage, section 2.4.2): which kernels cover a graph, each operator once, at
// the least sum of their times and of one launch each (equation 2.3).

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/backends/operator_view.h"
#include "simulator/base/estimate.h"
#include "simulator/base/time.h"

namespace foretrace {

// Switching from kernel to kernel, as published.
inline constexpr SimTime kPublishedLaunch = SimTime::FromPs(10'000'000);

struct KernelChoice {
  std::vector<int32_t> ops;  // ascending; connected, read from outside at the last one alone
  int32_t backend = 0;
  SimTime time;  // of all its kernels, without launches
  EstimateSource source = EstimateSource::kRecorded;
  bool extrapolated = false;
  int32_t launches = 1;
  std::optional<SimTime> launch;  // of each, where the backend has its own

  SimTime Alone(SimTime others_launch) const;  // with its launches
};

// A graph-level backend runs neighbouring kernels of its own in one call (an engine of TensorRT, a
// partition of oneDNN): they share one launch, and what each of its measured times holds for a
// call.
struct EngineCall {
  int32_t backend = 0;
  SimTime fixed;
  std::optional<SimTime> launch;  // where the backend has its own

  SimTime Opening(SimTime others_launch) const {  // what a call adds to its kernels
    return fixed + launch.value_or(others_launch);
  }
  // Within a call. Modelled times are those of kernels alone.
  SimTime Within(const KernelChoice& kernel) const;
};

struct OpPlacement {
  std::vector<int32_t> choices;  // of those given, in an order in which they can run
  std::vector<int32_t> calls;    // by choice: the engine call that it is part of; -1: none
  SimTime cost;
  double placements = 0;  // how many there are to choose from
};

// Exact: dynamic programming over prefixes of a depth-first topological order. A state is the set
// of operators beyond the prefix that kernels cover already, so it stays as small as the overlap of
// kernels is local (the paper's frontier). Of equal costs the choices given first are kept.
// Errors: operators that no choice covers, by name; more states than kMaxPlacementStates.
inline constexpr size_t kMaxPlacementStates = 4'000'000;
absl::StatusOr<OpPlacement> PlaceOps(const OperatorView& dag, std::span<const KernelChoice> choices,
                                     SimTime launch);

// The `count` cheapest placements, or all there are, cheapest first; of equal costs in no order
// that means anything, but always the same.
absl::StatusOr<std::vector<OpPlacement>> RankPlacements(const OperatorView& dag,
                                                        std::span<const KernelChoice> choices,
                                                        SimTime launch, size_t count);

// The operators `ops` in one call of the engine; its kernels for other operators are passed over.
absl::StatusOr<OpPlacement> PlaceCall(const OperatorView& dag,
                                      std::span<const KernelChoice> choices, SimTime launch,
                                      const EngineCall& engine, const std::vector<int32_t>& ops);

// Operators that no choice has.
std::vector<int32_t> Uncovered(const OperatorView& dag, std::span<const KernelChoice> choices);
// An error that names them and their share.
absl::Status CheckCovered(const OperatorView& dag, std::span<const KernelChoice> choices);

}  // namespace foretrace
