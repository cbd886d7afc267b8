#pragma once
// Whether a replay has understood the job: figures of a replay that cannot reproduce its own
// recording mean nothing, and neither do what-ifs on it.

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/engine/replay.h"
#include "simulator/replay/simulation_setup.h"

namespace foretrace {

// Whether the setup, but for --what-if, replays what was recorded.
bool ReplaysRecording(const SimulationSetup& setup);

// "cudaStreamWaitEvent in ## sparse_data_dist ## of rank 0"
std::string DescribeCall(const TraceStore& store, const RankTrace& rank, NodeIndex call);

// In plain words what speaks against the replay of the unchanged recording: a step that differs
// from the recorded one by more than 5 %, or waits without an explanation that make up more than 1
// % of the steps. Unset: nothing does, or nothing was recorded. `prediction` is of `setup`, and
// `unedited` (may be null) the same without --what-if. Where neither replays the recording as it
// is, it is replayed once more.
absl::StatusOr<std::optional<std::string>> DoubtOfReplay(const TraceStore& store,
                                                         const SimulationSetup& setup,
                                                         const Prediction& prediction,
                                                         const Prediction* unedited);

// What was waited for and is not in the recording, or in no step of it that a rule explains.
std::vector<std::string> WaitNotes(const TraceStore& store, const Prediction& prediction);

}  // namespace foretrace
