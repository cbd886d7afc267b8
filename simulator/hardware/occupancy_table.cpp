#include "simulator/hardware/occupancy_table.h"

#include "simulator/base/status_macros.h"

namespace foretrace {

absl::StatusOr<OccupancyLimits> OccupancyTable::Of(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  const auto known = read_.find(name);
  if (known != read_.end()) return known->second;
  const std::string names[] = {std::string(name)};
  FORETRACE_ASSIGN_OR_RETURN(const AcceleratorCatalog catalog,
                             AcceleratorCatalog::LoadNamed(names));
  return read_.emplace(names[0], catalog.OccupancyOf(name)).first->second;
}

}  // namespace foretrace
