#pragma once
// Whether a table of single operators can be of a device.

#include <string>

#include "absl/status/status.h"
#include "simulator/hardware/catalog.h"

namespace foretrace {

// Tables do not always say where they were measured. What does: a column `device`, a word of the
// file's name ("gemm-h100.csv"), and GEMMs faster than the device's peak, which no kernel of it
// reaches. Errors name file and line, and what the platform has instead. A table that says nothing
// passes.
absl::Status CheckTableDevice(const std::string& file, const std::string& text,
                              const AcceleratorCatalog& catalog, const Accelerator& device);

}  // namespace foretrace
