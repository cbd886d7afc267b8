#pragma once
// Waits on events that were recorded earlier in the program, where the recording does not name
// them.
//
// A prefetching pipeline records an event before its forward pass and makes a side stream wait for
// it much later; another waits for what a stream held one iteration ago. Such a wait means "what
// stream P held at point B of the program". All waits from one place of the program mean the same P
// and B, so that they are judged together: (P, B) must contradict none of them, explain most of
// those that held something up, and of all such the latest is taken. Recorded times only choose P
// and B.

#include <cstdint>
#include <vector>

#include "simulator/reconstruct/device_index.h"
#include "simulator/reconstruct/issue_order.h"
#include "simulator/reconstruct/sync_edges.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

// A call whose event or stream the recording does not name: a stream wait that is not a
// collective's own, or a blocking call.
struct UnnamedWait {
  NodeIndex call;
  uint32_t timeline = 0;
  bool blocks = false;    // a blocking call rather than a stream wait
  bool resolved = false;  // the rules that look at one call found something
  bool decided = false;   // EarlierEvents says what it waits for
};

// A wait that held something up for longer than anything known explains.
struct HeldWait {
  NodeIndex call;
  NodeIndex held;  // the device work that came late; the call itself where it blocks
  SimTime time;    // by how much
};

// What a rule took an unnamed wait to mean.
struct ChosenEdge {
  NodeIndex wait;
  SyncEdge edge;
};

struct EarlierEvents {
  std::vector<SyncEdge> edges;     // consumer: device work, or the blocking call
  std::vector<ChosenEdge> chosen;  // the same, of waits within the recording
  std::vector<NodeIndex> decided;  // the waits that they stand for; ascending
  bool Decides(NodeIndex call) const;
  void Add(const EarlierEvents& found);
};

enum class Deciding : uint8_t {
  kHeld,  // waits that held something up
  kAll,   // and those that held nothing up and that no other rule explains
};

// Of the waits that are not decided. `waits`: all, in order of time; `device_edges` and
// `block_edges`: sorted, as known by now.
EarlierEvents FindEarlierEvents(const RankTrace& rank, const DeviceIndex& index,
                                const IssueOrder& order, const std::vector<UnnamedWait>& waits,
                                const std::vector<SyncEdge>& device_edges,
                                const std::vector<SyncEdge>& block_edges, Deciding deciding);

// Other events that waits from one place of the program can mean, besides what they were taken to:
// they contradict none of these waits either, and explain most of what these held up.
struct OtherReading {
  uint32_t number = 0;  // of the readings of its place
  NodeIndex wait;
  SyncEdge edge;
};
inline constexpr uint32_t kMostOtherReadings = 3;

// `calls`: the waits that are asked for, ascending; `chosen`: what they were taken to mean, by
// wait.
std::vector<OtherReading> FindOtherReadings(const RankTrace& rank, const DeviceIndex& index,
                                            const IssueOrder& order,
                                            const std::vector<UnnamedWait>& waits,
                                            const std::vector<NodeIndex>& calls,
                                            const std::vector<ChosenEdge>& chosen);

// What stays unexplained with all edges in place; each piece of held work once.
std::vector<HeldWait> FindHeldWaits(const RankTrace& rank, const DeviceIndex& index,
                                    const IssueOrder& order, const std::vector<UnnamedWait>& waits,
                                    const std::vector<SyncEdge>& device_edges,
                                    const std::vector<SyncEdge>& block_edges);

// Work that is the first of its stream in the recording and began long after its launch, while no
// recorded work of any stream was running that it could have waited for.
std::vector<HeldWait> FindAfterUnrecorded(const RankTrace& rank,
                                          const std::vector<SyncEdge>& device_edges);

}  // namespace foretrace
