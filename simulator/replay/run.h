#pragma once
// One simulated run and its report; what predict, validate and the searches share.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/engine/replay.h"
#include "simulator/replay/simulation_setup.h"
#include "simulator/report/event_table.h"
#include "simulator/report/prediction_report.h"

namespace foretrace {

// The options that replay the recording unchanged.
CompileOptions AsRecorded(const SimulationSetup& setup);

// Compiles the job and leaves out of it what --without says. `same`: a job of the same recording,
// which is then not read anew.
absl::StatusOr<CompiledJob> CompileJob(const TraceStore& store, const SimulationSetup& setup,
                                       const CompileOptions& options,
                                       const CompiledJob* same = nullptr);

// The job of a prediction before --what-if and --cpu-scale changed it; `unedited` (may be null) as
// Simulate set it.
absl::StatusOr<CompiledJob> JobBeforeEdits(const TraceStore& store, const SimulationSetup& setup,
                                           const Prediction& prediction,
                                           const Prediction* unedited);

// Applies the changes of --what-if to a job of CompileJob, and executes it.
absl::StatusOr<Prediction> SimulateJob(const TraceStore& store, const SimulationSetup& setup,
                                       CompiledJob job, NetworkModel* network);

// Compiles the job, applies the changes of --what-if, and executes it. `options` are those of the
// setup, or a variant of them. Where --what-if changes anything, `unedited` (may be null) is set to
// the replay without it; not on a network in which transfers contend, which runs but once.
absl::StatusOr<Prediction> Simulate(const TraceStore& store, const SimulationSetup& setup,
                                    const CompileOptions& options, NetworkModel* network,
                                    std::optional<Prediction>* unedited = nullptr);

// Iterations of every rank, as the report wants them.
std::vector<std::vector<IterationWindow>> Windows(const Prediction& prediction);

// Devices that the traces name and no file describes, a note each.
std::vector<std::string> UnknownDevices(const TraceStore& store,
                                        const AcceleratorCatalog& accelerators);

// What limits the meaning of a run's figures: synthetic traces, missing ranks, overheads from
// elsewhere, unexplained waits, ops without a model.
std::vector<std::string> RunNotes(const TraceStore& store, const Prediction& prediction,
                                  const SimulationSetup& setup);

// That the traces hold no calls that issue device work and no such work, and what to record.
absl::Status NothingRuns(const TraceStore& store);

// Error when --strict and some op has no duration from any model, naming the first.
absl::Status CheckMissing(const TraceStore& store, const Prediction& prediction, bool strict);

}  // namespace foretrace
