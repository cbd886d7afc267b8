#pragma once
// One rank of the predicted run in the form that PyTorch's profiler writes, for the tools that read
// its files (HTA, TensorBoard, foretrace itself).

#include <functional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "simulator/exporters/timeline/trace_event_writer.h"
#include "simulator/report/event_table.h"

namespace foretrace {

struct KinetoTimelineOptions {
  // As in TimelineOptions; null: CPU nodes that were not executed are left out.
  std::function<SimTime(RankIndex, SimTime recorded)> predicted_cpu_time;
  std::span<const std::vector<IterationWindow>> windows;
  std::set<int64_t> steps;  // numbers of iterations to write; empty: everything
};

// What follows the events of such a file: schema, and that it is a prediction, which importers pass
// on.
std::string KinetoTail(const TraceStore& store, const RankTrace& rank);

// Kineto's categories (kernel, gpu_memcpy, gpu_memset, cuda_runtime, cuda_sync, cpu_op,
// user_annotation) and args (correlation, External id, device, stream, bytes, shapes, process
// group, sequence number); steps are ProfilerStep#N as predicted. What a node waited for, how long,
// and where its duration comes from are args of their own ("waited for", "waited us", "source").
// All ranks have one time zero. The name of a collective that NCCL's kernels do not have is put
// behind one of theirs, by which tools know them.
void WriteKinetoTimeline(const EventTable& table, RankIndex rank,
                         const KinetoTimelineOptions& options, TraceEventWriter& writer);

}  // namespace foretrace
