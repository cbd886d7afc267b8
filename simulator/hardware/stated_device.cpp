#include "simulator/hardware/stated_device.h"

#include <algorithm>
#include <cmath>

#include "simulator/base/enum_names.h"
#include "simulator/base/status_macros.h"
#include "simulator/hardware/catalog.h"

namespace foretrace {

const Accelerator* FindStated(std::span<const Accelerator> all, const StatedDevice& stated) {
  if (stated.multiprocessors <= 0 || stated.warp <= 0) return nullptr;
  const std::string name = LowerCase(stated.name);
  const Accelerator* found = nullptr;
  for (const Accelerator& accelerator : all) {
    if (accelerator.vendor.empty() || !name.starts_with(LowerCase(accelerator.vendor))) continue;
    const bool as_many = std::ranges::any_of(accelerator.units, [&](const ComputeUnit& unit) {
      return unit.kind == UnitKind::kSimt && unit.count == stated.multiprocessors;
    });
    const MemoryLevel* memory = accelerator.level(MemoryKind::kDevice);
    if (!as_many || accelerator.occupancy.warp != stated.warp || memory == nullptr) continue;
    const double ratio = static_cast<double>(stated.memory_bytes) /
                         static_cast<double>(std::max<int64_t>(memory->capacity.count(), 1));
    constexpr double kAlike = 0.1;
    if (std::abs(ratio - 1) > kAlike) continue;
    if (found != nullptr) return nullptr;
    found = &accelerator;
  }
  return found;
}

absl::StatusOr<std::string> NameOf(const StatedDevice& stated) {
  const std::string names[] = {stated.name};
  FORETRACE_ASSIGN_OR_RETURN(const AcceleratorCatalog named, AcceleratorCatalog::LoadNamed(names));
  if (named.Find(stated.name) != nullptr) return stated.name;
  FORETRACE_ASSIGN_OR_RETURN(const AcceleratorCatalog catalog, AcceleratorCatalog::Load());
  const Accelerator* const found = FindStated(catalog.all(), stated);
  return found == nullptr ? stated.name : found->name;
}

}  // namespace foretrace
