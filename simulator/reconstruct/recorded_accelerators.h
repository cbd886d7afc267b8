#pragma once
// The accelerators that recordings name.

#include "absl/status/statusor.h"
#include "simulator/hardware/catalog.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

// Of all ranks. Errors: of AcceleratorCatalog::LoadNamed.
absl::StatusOr<AcceleratorCatalog> LoadRecordedAccelerators(const TraceStore& store);

}  // namespace foretrace
