#pragma once
// The timeline that `predict` was asked for.

#include <set>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/base/atomic_file.h"
#include "simulator/engine/replay.h"
#include "simulator/report/event_table.h"
#include "simulator/report/prediction_report.h"
#include "simulator/report/timeline_counters.h"
#include "simulator/topology/topology.h"

namespace foretrace {

namespace CLI {
class App;
}

// What is drawn.
struct TimelineRun {
  const EventTable& table;
  const Prediction& prediction;
  std::span<const std::vector<IterationWindow>> windows;
  const PredictionReport& report;
  const Topology* topology = nullptr;                    // whose links are drawn; null: none
  std::span<const std::vector<AllocatedMemory>> memory;  // by rank; empty: not drawn
};

struct TimelineRequest {
  std::string path;          // empty: none; "DIR/": one file a rank
  std::string ranks, steps;  // "0,2-5"; empty: all

  void Register(CLI::App& command);
  // Before work begins. Errors: ranks or steps that there are not; more than viewers open.
  absl::Status Check(const TraceStore& store) const;
  absl::Status Write(const TimelineRun& run, const ProtectedFiles& inputs) const;

 private:
  struct Narrowed {
    std::set<int32_t> ranks, steps;  // empty: all
  };
  absl::StatusOr<Narrowed> Wanted() const;
  // A folder is asked for by its slash: one in the place of a file is an error.
  bool IsFolder() const { return path.ends_with('/'); }
  absl::Status WriteFolder(const TimelineRun& run, const ProtectedFiles& inputs) const;
};

}  // namespace foretrace
