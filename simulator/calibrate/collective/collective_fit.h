#pragma once
// From the measured sizes of one collective on one set of ranks to its curve.

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/calibrate/collective/sweep_smoothing.h"
#include "simulator/cost/collective/collective_curve.h"

namespace foretrace {

// Least measured sizes for a fit. Below, the caller interpolates or goes without.
inline constexpr size_t kMinCurvePoints = 3;
// The paper's form overfits short sweeps.
inline constexpr size_t kMinThreeRegionPoints = 20;

// Fits the closed form to log time with a soft-L1 loss, from fixed starts and bounds; the form
// kCurve then gets knots at the smoothed points. Parameters are rounded to what the calibration
// file holds, so that a loaded curve is the fitted one. Errors: too few sizes for the form.
absl::StatusOr<CollectiveCurve> FitCollectiveCurve(std::span<const SizeTime> points,
                                                   double bus_factor, CurveForm form,
                                                   uint64_t seed);

// What stays of the shape that the prior was measured to have on top of its closed form. Where
// protocols switch is a property of a kind of machine (GPUs, links, ranks): another machine of that
// kind shares it, other kinds do not.
enum class PriorDetail : uint8_t { kKept, kDropped };

// The curve of another machine: start-up and bandwidth of `prior` scaled to the measured points,
// and what is left of them interpolated linearly in log size, constant beyond them. At least three
// sizes.
absl::StatusOr<CollectiveCurve> AdaptCollectiveCurve(const CollectiveCurve& prior,
                                                     std::span<const SizeTime> points,
                                                     PriorDetail detail);

}  // namespace foretrace
