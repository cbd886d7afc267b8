#include "simulator/cost/collective/measured_sizes.h"

#include <algorithm>

namespace foretrace {

bool MeasuredSizes::Near(Bytes size) const {
  const RealBytes bytes = std::max(RealBytes(size), RealBytes(1));
  return largest > RealBytes() && bytes * kFarthest >= smallest && bytes <= largest * kFarthest;
}

MeasuredSizes SizesOf(const CollectiveCalibration& calibration, CollectiveOp op, int32_t ranks,
                      int32_t nodes) {
  MeasuredSizes sizes;
  for (const bool exact : {true, false}) {
    sizes.exact = exact;
    for (const CollectiveModel& model : calibration.models()) {
      if (model.op != op || (model.nodes > 1) != (nodes > 1)) continue;
      if (exact && (model.ranks != ranks || model.nodes != nodes)) continue;
      const RealBytes least(model.min_bytes);
      sizes.smallest = sizes.largest == RealBytes() ? least : std::min(sizes.smallest, least);
      sizes.largest = std::max(sizes.largest, RealBytes(model.max_bytes));
    }
    if (sizes.largest > RealBytes()) return sizes;
  }
  return sizes;
}

}  // namespace foretrace
