#pragma once
// What a searcher sees of the simulator.

#include <cstdint>

#include "absl/status/statusor.h"
#include "simulator/base/time.h"
#include "simulator/base/units.h"
#include "simulator/mapping/parallel_mapping.h"

namespace foretrace {

struct Evaluation {
  SimTime iteration;
  Bytes memory;  // of the fullest device
  double bubble = 0;
  double model_flop_utilisation = 0;
};

// Implementations are thread-safe and deterministic. Composed where concrete parts are named.
class Evaluator {
 public:
  virtual ~Evaluator() = default;
  // A time that no evaluation of this mapping can be below; cheap. Zero where none is known.
  virtual SimTime LowerBound(const ParallelMapping&) const { return SimTime(); }
  // Infeasible where the mapping does not fit, saying why.
  virtual absl::StatusOr<Evaluation> Evaluate(const ParallelMapping& mapping) const = 0;
};

}  // namespace foretrace
