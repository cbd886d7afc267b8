#pragma once
// Whether a table's device is the one that its platform is named after.

#include <string>

#include "absl/status/status.h"
#include "simulator/calibrate/csv_table.h"
#include "simulator/hardware/catalog.h"

namespace foretrace {

// Models of kernels and lookups are of the device that the platform is named after. Errors name
// file, device and platform; tables that state no device, or one that no file describes, have none.
absl::Status CheckDevice(const BenchmarkTable& table, const std::string& platform,
                         const AcceleratorCatalog& devices);

}  // namespace foretrace
