#pragma once
// How far from the sizes that collectives were measured at their curves still answer.

#include "simulator/base/collective_op.h"
#include "simulator/base/real_quantities.h"
#include "simulator/base/units.h"
#include "simulator/cost/collective/collective_calibration.h"

namespace foretrace {

struct MeasuredSizes {
  RealBytes smallest, largest;  // 0: none
  bool exact = false;           // of exactly the ranks that were asked for
  // How many times beyond them a curve is still asked: farther off, protocols differ, and the
  // analytic models of the topology know more.
  static constexpr double kFarthest = 4;
  bool Near(Bytes size) const;
  // Smaller than all that were measured of exactly so many ranks.
  bool Below(Bytes size) const { return exact && RealBytes(size) < smallest; }
  // Near, or, of exactly so many ranks, below: engines on A100 took as long there as at the
  // shortest that was measured, twice and more what the network's model has (docs/serving.md,
  // "All-reduces").
  bool Covers(Bytes size) const { return Near(size) || Below(size); }
};

// Of the curves for exactly these ranks where there are any, else of all for the operation within
// or across nodes.
MeasuredSizes SizesOf(const CollectiveCalibration& calibration, CollectiveOp op, int32_t ranks,
                      int32_t nodes);

}  // namespace foretrace
