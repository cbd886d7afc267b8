#pragma once
// What a searcher sees of the simulator.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/base/time.h"
#include "simulator/base/units.h"
#include "simulator/mapping/parallel_mapping.h"

namespace foretrace {

struct Evaluation {
  SimTime iteration;
  Bytes memory;  // of the fullest device
  double bubble = 0;
  double exposed_communication = 0;
  double model_flop_utilisation = 0;
};

// Implementations are thread-safe and deterministic. Composed where concrete parts are named.
class Evaluator {
 public:
  virtual ~Evaluator() = default;
  // A time that no evaluation of this mapping can be below; cheap. Zero where none is known.
  virtual SimTime LowerBound(const ParallelMapping&) const { return SimTime(); }
  // Of the fullest device; cheap.
  virtual Bytes Memory(const ParallelMapping&) const { return Bytes(); }
  // False where Evaluate would only say that the mapping needs more memory than there is, and why;
  // cheap.
  virtual bool Fits(const ParallelMapping&) const { return true; }
  // The same of one stage.
  virtual bool StageFits(const ParallelMapping&, int32_t) const { return true; }
  // Infeasible where the mapping does not fit, saying why.
  virtual absl::StatusOr<Evaluation> Evaluate(const ParallelMapping& mapping) const = 0;
};

// Evaluates mappings, in any order or place, and answers in theirs; nullopt: infeasible. Errors
// other than that end the search.
using EvaluateBatch = std::function<absl::StatusOr<std::vector<std::optional<Evaluation>>>(
    std::span<const ParallelMapping>)>;

// On `jobs` threads.
EvaluateBatch OnThreads(const Evaluator& evaluator, int jobs);

}  // namespace foretrace
