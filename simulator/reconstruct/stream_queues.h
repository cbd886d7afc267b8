#pragma once
// Device work by stream, in order of issue: what a stream held at some moment of the CPU.

#include <cstdint>
#include <vector>

#include "simulator/reconstruct/sync_edges.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

class StreamQueues {
 public:
  explicit StreamQueues(const RankTrace& rank);

  struct Entry {
    NodeIndex node;
    SimTime issued;  // begin of the launch, of this or of any before; Min() when launched earlier
    SimTime end;     // of this or of any before
  };
  const std::vector<Entry>& of(LaneIndex stream) const { return queues_[stream.value]; }
  // How many had been issued before the moment; the last of them is the stream's tail then.
  size_t IssuedBefore(LaneIndex stream, SimTime at) const;
  // How many have ended by the moment.
  size_t EndedBy(LaneIndex stream, SimTime at) const;
  NodeIndex TailAt(LaneIndex stream, SimTime at) const;

  // The moment at which device work could have begun as far as its launch, the work before it on
  // its stream and `edges` (by consumer) tell; without latencies.
  SimTime Explained(NodeIndex device, const std::vector<SyncEdge>& edges) const;
  // Whether work of another stream that needs more than one wave of blocks was running when this
  // started on the multiprocessors: it may have waited for room.
  bool DeviceIsFull(NodeIndex device) const;

 private:
  const RankTrace& rank_;
  std::vector<std::vector<Entry>> queues_;  // by lane
  std::vector<uint32_t> position_;          // by node, in its queue
};

}  // namespace foretrace
