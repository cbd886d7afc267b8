#pragma once
// The predicted run on a time axis, beside the recorded one.

#include <functional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "simulator/exporters/timeline/timeline_writer.h"
#include "simulator/report/critical_path.h"
#include "simulator/report/event_table.h"
#include "simulator/report/link_load.h"
#include "simulator/report/timeline_counters.h"

namespace foretrace {

struct TimelineOptions {
  // Predicted instant at which a rank's CPU reaches what it did at a recorded instant; monotone per
  // rank. Null: CPU ops are drawn around the runtime calls in them, ops without calls are left out.
  std::function<SimTime(RankIndex, SimTime recorded)> predicted_cpu_time;
  // Iterations per rank, to lay the first predicted over the first recorded one; empty: the
  // earliest instants are laid over each other.
  std::span<const std::vector<IterationWindow>> windows;
  // Draw the recorded run beside the predicted one, where traces have times.
  bool recorded = true;
  // Numbers of ranks, and of steps: what overlaps the rank's own. Empty: all.
  std::set<int32_t> ranks;
  std::set<int64_t> steps;
  std::vector<std::string> notes;
  const CriticalPath* path = nullptr;                    // drawn above the ranks; null: not
  std::span<const LinkLoad> links;                       // empty: not drawn
  std::span<const std::vector<AllocatedMemory>> memory;  // by rank; empty: not drawn
};

// Each rank is a process, "rank 3" with "rank 3 (recorded)" below it, its CPU threads and streams
// are tracks. Work that overlaps on one stream goes on further tracks of that stream. Slices carry
// category (cpu_op, annotation, runtime, kernel, memcpy, communication, wait), and on the device
// their group of work and the source of their duration. Waits are slices of their own, named by
// cause: in the gap before a node, within a blocked call, and within communication until its last
// member arrives. Arrows go from launches to device work, and from the last member of a
// communication to the others. The critical path is a process of its own; the depth of the launch
// queue, what communication moves, and memory are counters of each rank, links are a process of
// counters. Ranks whose trace was generated are
// marked "synthetic trace". Errors of the file appear at writer.Close().
void WriteTimeline(const EventTable& table, const TimelineOptions& options, TimelineWriter& writer);

}  // namespace foretrace
