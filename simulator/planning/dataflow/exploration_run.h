#pragma once
// Evaluates the points of a space on threads and processes, with a journal.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/console/command.h"
#include "simulator/console/processes.h"
#include "simulator/dataflow/exploration.h"

namespace foretrace {

struct ExplorationRun {
  int jobs = 1;
  std::string journal;   // file; empty: none
  std::string question;  // what results depend on besides the point: the bytes of the space's file
};

// In order of the points, the same bits for any number of threads and processes. Errors: bad input
// of a point; a journal of another space, or damaged before its last line; Cancelled when asked to
// stop, after what was evaluated is in the journal.
absl::StatusOr<std::vector<dataflow::PointResult>> Explore(
    const dataflow::Space& space, const std::vector<dataflow::Point>& points,
    const ExplorationRun& run, const Processes& processes, const CommandContext& context);

}  // namespace foretrace
