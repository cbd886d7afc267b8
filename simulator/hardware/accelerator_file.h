#pragma once
// Files of topologies/accelerators/ (its README.md has the keys).

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/hardware/accelerator.h"

namespace foretrace {

// Errors name file, line and key: unknown keys; no unit or level that the rest needs; a fact given
// in two units; figures that contradict each other.
absl::StatusOr<Accelerator> LoadAccelerator(const std::string& file);
absl::StatusOr<Accelerator> ParseAccelerator(const std::string& text, const std::string& file);

// What a file calls its accelerator: its name and aliases, as they are written.
struct AcceleratorNames {
  std::string file;
  std::string name;
  std::vector<std::string> aliases;
};
// Without reading the rest of a file whose keys begin their lines. Errors: as LoadAccelerator, but
// of what lies between name and aliases only where these are not found.
absl::StatusOr<AcceleratorNames> LoadAcceleratorNames(const std::string& file);

}  // namespace foretrace
