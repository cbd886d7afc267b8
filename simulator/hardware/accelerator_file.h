#pragma once
// Files of topologies/accelerators/ (its README.md has the keys).

#include <string>

#include "absl/status/statusor.h"
#include "simulator/hardware/accelerator.h"

namespace foretrace {

// Errors name file, line and key: unknown keys; no unit or level that the rest needs; a fact given
// in two units; figures that contradict each other.
absl::StatusOr<Accelerator> LoadAccelerator(const std::string& file);
absl::StatusOr<Accelerator> ParseAccelerator(const std::string& text, const std::string& file);

}  // namespace foretrace
