#pragma once
// Which shape keys each operator of the neutral CSV has.

#include "absl/status/status.h"
#include "simulator/calibrate/csv_table.h"

namespace foretrace {

// OK when the row's operator exists for its kind and has the keys it needs and no unknown ones.
// The message does not say where.
absl::Status CheckRowShape(const BenchmarkRow& row);

}  // namespace foretrace
