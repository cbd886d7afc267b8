#pragma once
// Limits of devices by the names that recordings give them.

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "simulator/hardware/catalog.h"

namespace foretrace {

// As AcceleratorCatalog::OccupancyOf of all files, each of which is read when its name is asked for
// first: a recording names one of dozens. From any thread.
class OccupancyTable {
 public:
  // Errors: of AcceleratorCatalog::LoadNamed.
  absl::StatusOr<OccupancyLimits> Of(std::string_view name) const;

 private:
  mutable std::mutex mutex_;
  mutable std::map<std::string, OccupancyLimits, std::less<>> read_;
};

}  // namespace foretrace
