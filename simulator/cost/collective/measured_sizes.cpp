#include "simulator/cost/collective/measured_sizes.h"

#include <algorithm>

namespace foretrace {

bool MeasuredSizes::Near(Bytes size) const {
  const double bytes = std::max(static_cast<double>(size.count()), 1.0);
  return largest > 0 && bytes * kFarthest >= smallest && bytes <= largest * kFarthest;
}

MeasuredSizes SizesOf(const CollectiveCalibration& calibration, CollectiveOp op, int32_t ranks,
                      int32_t nodes) {
  MeasuredSizes sizes;
  for (const bool exact : {true, false}) {
    sizes.exact = exact;
    for (const CollectiveModel& model : calibration.models()) {
      if (model.op != op || (model.nodes > 1) != (nodes > 1)) continue;
      if (exact && (model.ranks != ranks || model.nodes != nodes)) continue;
      const auto least = static_cast<double>(model.min_bytes);
      sizes.smallest = sizes.largest == 0 ? least : std::min(sizes.smallest, least);
      sizes.largest = std::max(sizes.largest, static_cast<double>(model.max_bytes));
    }
    if (sizes.largest > 0) return sizes;
  }
  return sizes;
}

}  // namespace foretrace
