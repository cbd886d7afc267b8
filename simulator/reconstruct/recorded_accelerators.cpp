#include "simulator/reconstruct/recorded_accelerators.h"

#include <string>
#include <vector>

namespace foretrace {

absl::StatusOr<AcceleratorCatalog> LoadRecordedAccelerators(const TraceStore& store) {
  std::vector<std::string> names;
  for (const RankTrace& rank : store.ranks()) names.push_back(rank.info().device_name);
  return AcceleratorCatalog::LoadNamed(names);
}

}  // namespace foretrace
