#pragma once
// Waits for work from before the recording. The event was recorded before the first call at hand,
// so no point of the program tells which work it was.

#include <vector>

#include "simulator/reconstruct/device_index.h"
#include "simulator/reconstruct/earlier_events.h"
#include "simulator/reconstruct/sync_rules.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

// By then all is done that was issued before the recording: it lags behind its launch, and takes,
// no longer than anything recorded does.
SimTime WorkOfBeforeIsDone(const RankTrace& rank);

// Work that was in flight when recording began, and of which the recording holds the end: each of
// `held` that went on right after that waits for the last that had ended. Added to `earlier`, in
// which blocking calls are then decided. False where there is none. Recorded times only choose the
// work.
bool AddInFlightWaits(const RankTrace& rank, const DeviceIndex& index,
                      const std::vector<HeldWait>& held, EarlierEvents& earlier);

// Work that the recording does not hold at all. What went on when nothing recorded had just ended,
// no later than the first recorded work of every stream began, waited for it; so did what waited
// for an event of before the recording (`before_recording`, by name). Of `sync.held`, of the first
// work of each stream and of blocking calls, such are moved to `sync.after_unrecorded`: an initial
// condition that is kept as recorded, like the start of the recording itself. `sync` knows its
// before_is_done.
void KeepUnrecordedWaits(const RankTrace& rank, const std::vector<UnnamedWait>& before_recording,
                         RankSync& sync);

}  // namespace foretrace
