#pragma once
// Fits what interpolates residuals over shapes (cost/kernel/shape_kriging.h).

#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/base/progress.h"
#include "simulator/cost/kernel/measured_shapes.h"
#include "simulator/cost/kernel/shape_kriging.h"

namespace foretrace {

struct FittedKriging {
  ShapeKriging kriging;
  // By shape given: what the others of its number of rows say of it. Where that number has no
  // slice of its own, what the slices beside it say.
  std::vector<double> left_out;
};

// Of GEMMs that were measured over at least ShapeKriging::kMinPoints weight matrices at one
// number of rows; empty where no number of rows was. Batched GEMMs are left out; of repeats the
// last counts. Errors of measurement have the tails of Student's t with 2 degrees of freedom, since
// libraries choose a bad kernel now and then: a shape far off its neighbours counts for little.
// Deterministic, in the order of shapes. Errors: a covariance that cannot be factored.
absl::StatusOr<FittedKriging> FitShapeKriging(const ShapeDevice& device,
                                              std::span<const MeasuredShape> shapes,
                                              const ProgressSink& progress = {});

}  // namespace foretrace
