#pragma once
// The chain of work and waits, across lanes and ranks, that decides when an iteration ends.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "simulator/report/classify.h"
#include "simulator/report/event_table.h"

namespace foretrace {

// What a stretch of the path is spent on.
enum class PathActivity : uint8_t {
  kCpu,                // CPU ops, their overheads and runtime calls
  kCompute,            // kernels, copies and fills
  kTransfer,           // communication after the arrival of its last member
  kLaunchLatency,      // from the launch call to the start on the device
  kStreamGap,          // between two nodes of one stream
  kDependencyLatency,  // from the end of work on another lane to the start of what waits for it
  kArrivalLatency,     // from the progress of the last member to the start of the transfer
  kBlockReturn,        // from the end of device work to the return of the call that waits for it
  kDeviceRoom,         // from room on the device to the start of the kernel
  kLaunchQueue,        // from a slot in the launch queue to the return of the launch
  kStartSkew,          // before the iteration of another rank that the path runs through had begun
  kUnexplained,        // the events name nothing that the rest of the time was spent on
  kCount,
};
std::string_view Name(PathActivity activity);

// A stretch of the path on one node.
struct PathSegment {
  SimTime start;
  SimTime end;
  RankIndex rank = 0;
  LaneIndex lane;
  NodeIndex node;  // a gap belongs to the node that it delays; invalid only when unexplained
  PathActivity activity = PathActivity::kUnexplained;
  EstimateSource source = EstimateSource::kRecorded;
  bool extrapolated = false;
};

// What a run of segments is: one lane at one kind of work. Short gaps belong to what they precede.
enum class PathRunKind : uint8_t {
  kCpu,
  kCompute,
  kCommunication,
  kStartSkew,
  kUnexplained,
  kCount,
};
std::string_view Name(PathRunKind kind);

// Neighbouring segments of one lane and kind, merged.
struct PathRun {
  RankIndex rank = 0;
  LaneIndex lane;
  PathRunKind kind = PathRunKind::kUnexplained;
  SimTime start;
  SimTime end;
  SimTime latency;  // part of it that is neither CPU, computation nor transfer
  int64_t nodes = 0;
  // What most of its time is spent on: a group of device work (else kCount), and the name of the
  // framework op (CPU) or device node.
  WorkGroup group = WorkGroup::kCount;
  StringId name;

  SimTime time() const { return end - start; }
};

struct CriticalPath {
  RankIndex end_rank = 0;             // whose iteration is explained
  SimTime total;                      // equals that rank's iteration time exactly
  std::vector<PathSegment> segments;  // in order of time, without gaps or overlaps
  std::vector<PathRun> runs;          // the same, condensed
  std::array<SimTime, static_cast<size_t>(PathActivity::kCount)> by_activity{};
  std::array<SimTime, static_cast<size_t>(WorkGroup::kCount)> by_group{};  // kCompute, kTransfer
  std::array<SimTime, static_cast<size_t>(EstimateSource::kCount)> by_source{};
  SimTime extrapolated;          // part of it from models asked beyond their range
  std::vector<SimTime> by_rank;  // whose work the time was spent on
};

// Walks from the end of the longest iteration (over ranks, the lowest rank of equals) back to its
// start, along what bound each node. It does not follow another rank to before that rank's own
// iteration: the rest is then kStartSkew. Always ends: a chain that the events leave open or that
// closes on itself leaves the rest of the window as kUnexplained. A gap has the source of the node
// that it delays.
CriticalPath ComputeCriticalPath(const EventTable& table, const Classifier& classifier,
                                 std::span<const IterationWindow> windows);

// Largest first, at most `limit`, of the path's runs.
std::vector<PathRun> LongestRuns(const CriticalPath& path, size_t limit);

}  // namespace foretrace
