#pragma once
// The kernels and the framework ops that take the most device time.

#include <cstdint>
#include <span>
#include <vector>

#include "simulator/report/classify.h"
#include "simulator/report/event_table.h"

namespace foretrace {

struct TopEntry {
  StringId name;
  int64_t count = 0;  // device nodes
  SimTime time;       // communication from the arrival of its last member
  double share = 0;   // of all device time in the windows, over all ranks
};

struct TopOps {
  std::vector<TopEntry> kernels;  // by name of the device node
  std::vector<TopEntry> ops;      // by the innermost framework op; empty name: none known
  SimTime device_time;            // sum over ranks, what the shares are of
};

// At most `limit` entries each, by time, largest first, ties by name. Nodes count with the part
// within their rank's window.
TopOps ComputeTopOps(const EventTable& table, const Classifier& classifier,
                     std::span<const IterationWindow> windows, size_t limit);

}  // namespace foretrace
