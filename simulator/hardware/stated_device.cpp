#include "simulator/hardware/stated_device.h"

#include <algorithm>
#include <cmath>

#include "simulator/base/enum_names.h"
#include "simulator/base/status_macros.h"
#include "simulator/hardware/catalog.h"

namespace foretrace {
namespace {

// `name`: the stated one in lower case.
bool IsAsStated(const Accelerator& accelerator, std::string_view name, const StatedDevice& stated) {
  if (accelerator.vendor.empty() || !name.starts_with(LowerCase(accelerator.vendor))) return false;
  const bool as_many = std::ranges::any_of(accelerator.units, [&](const ComputeUnit& unit) {
    return unit.kind == UnitKind::kSimt && unit.count == stated.multiprocessors;
  });
  const MemoryLevel* memory = accelerator.level(MemoryKind::kDevice);
  if (!as_many || accelerator.occupancy.warp != stated.warp || memory == nullptr) return false;
  constexpr double kAlike = 0.1;
  const double ratio = static_cast<double>(stated.memory_bytes) /
                       static_cast<double>(std::max<int64_t>(memory->capacity.count(), 1));
  return std::abs(ratio - 1) <= kAlike;
}

}  // namespace

const Accelerator* FindStated(std::span<const Accelerator> all, const StatedDevice& stated) {
  if (stated.multiprocessors <= 0 || stated.warp <= 0) return nullptr;
  const std::string name = LowerCase(stated.name);
  const Accelerator *alike = nullptr, *named = nullptr;
  int64_t alike_count = 0, named_count = 0;
  for (const Accelerator& accelerator : all) {
    if (!IsAsStated(accelerator, name, stated)) continue;
    alike = &accelerator;
    ++alike_count;
    if (name.find(accelerator.name.substr(0, accelerator.name.find('-'))) == name.npos) continue;
    named = &accelerator;
    ++named_count;
  }
  if (alike_count == 1) return alike;
  return named_count == 1 ? named : nullptr;
}

absl::StatusOr<std::string> NameOf(const StatedDevice& stated) {
  FORETRACE_ASSIGN_OR_RETURN(const AcceleratorCatalog catalog, AcceleratorCatalog::Load());
  if (catalog.Find(stated.name) != nullptr) return stated.name;
  const Accelerator* const found = FindStated(catalog.all(), stated);
  return found == nullptr ? stated.name : found->name;
}

}  // namespace foretrace
