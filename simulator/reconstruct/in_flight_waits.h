#pragma once
// Waits for work that was in flight when recording began. The event was recorded before the first
// call at hand, so no point of the program tells which work it was; the recording holds the end of
// that work all the same.

#include <vector>

#include "simulator/reconstruct/device_index.h"
#include "simulator/reconstruct/earlier_events.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

// Each of `held` that went on right after the end of such work waits for the last that had ended:
// added to `earlier`, in which blocking calls are then decided. False where there is none. Recorded
// times only choose the work.
bool AddInFlightWaits(const RankTrace& rank, const DeviceIndex& index,
                      const std::vector<HeldWait>& held, EarlierEvents& earlier);

}  // namespace foretrace
