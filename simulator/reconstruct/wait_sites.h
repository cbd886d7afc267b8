#pragma once
// Waits by the place of the program that they come from; a detail of earlier_events.h.

#include <cstdint>
#include <optional>
#include <vector>

#include "simulator/reconstruct/call_paths.h"
#include "simulator/reconstruct/earlier_events.h"
#include "simulator/reconstruct/stream_queues.h"

namespace foretrace {

// Something that one wait may have held up.
struct Target {
  uint32_t wait = 0;  // in the list of waits
  NodeIndex consumer;
  SimTime waited_at;  // when the wait was issued
  SimTime begun;      // start of the consumer, or end of the blocking call
  SimTime explained;  // when it could have been, for all that is known
  bool late = false;  // began long after its launch and the work before it
  bool held = false;  // began long after all that is known
  // Began later than a gap after all that is known, if not for long, and long after its launch:
  // telling where most of a site do.
  bool delayed = false;
};

// One place of the program that waits, each time that it was reached.
struct WaitSite {
  std::vector<uint32_t> waits;  // in the list of waits
  bool blocks = false;
  uint32_t timeline = 0;
};

// In the order of their first waits. `waits` are in order of time.
std::vector<WaitSite> SitesOf(const std::vector<UnnamedWait>& waits, CallPaths& paths);

class WaitTargets {
 public:
  WaitTargets(const RankTrace& rank, const DeviceIndex& index, const IssueOrder& order,
              const StreamQueues& queues, const std::vector<UnnamedWait>& waits,
              const std::vector<SyncEdge>& device_edges, const std::vector<SyncEdge>& block_edges);

  // The first work on each stream among the launches right after a stream wait, in order of issue;
  // the call itself where it blocks.
  std::vector<Target> Of(uint32_t wait) const;

  // The site's waits apart by how many waits are made in a row, which of them it is, and between
  // which launches of the innermost op: a program's first iterations make fewer, of what is not
  // there yet, so that numbers alone take one wait for another.
  std::vector<WaitSite> ByRow(const WaitSite& site, CallPaths& paths) const;

 private:
  struct Issue {
    NodeIndex call;
    NodeIndex device;
  };
  uint64_t RowOf(uint32_t wait, CallPaths& paths) const;
  Target MakeTarget(uint32_t wait, NodeIndex consumer) const;
  Target MakeBlocked(uint32_t wait) const;

  const RankTrace& rank_;
  const StreamQueues& queues_;
  const std::vector<UnnamedWait>& waits_;
  const std::vector<SyncEdge>& device_edges_;
  const std::vector<SyncEdge>& block_edges_;
  std::vector<std::vector<Issue>> issues_;  // by timeline, in order
};

}  // namespace foretrace
