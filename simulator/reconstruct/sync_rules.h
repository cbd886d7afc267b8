#pragma once
// Synchronisation inside a rank: which device work must end before other device work starts, and
// which device work a blocking call waits for.
//
// Recordings of newer profilers name events and streams, and those are followed exactly. Where they
// don't, dependencies come from tensor ids (execution traces), and else from rules about how the
// framework issues work. Every rule is checked on the recording: a start before the inferred
// producer's end is a violation (and the edge is dropped), a start right after it is tight.
// Recorded times only choose between structures; no recorded wait becomes a duration.

#include <cstdint>
#include <vector>

#include "simulator/base/string_pool.h"
#include "simulator/reconstruct/device_index.h"
#include "simulator/reconstruct/earlier_events.h"
#include "simulator/reconstruct/issue_order.h"
#include "simulator/reconstruct/sync_edges.h"
#include "simulator/reconstruct/unshown_waits.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

struct RuleCount {
  int64_t applied = 0;
  int64_t violations = 0;
  int64_t tight = 0;
};

struct RankSync {
  std::vector<SyncEdge> device_edges;  // by consumer, then producer
  std::vector<SyncEdge> block_edges;   // by call, then producer
  RuleCount rules[static_cast<int>(SyncRule::kCount)];
  // Stream waits that no rule could explain.
  int64_t unresolved_waits = 0;
  // Waits that held something up for longer than all edges explain.
  std::vector<HeldWait> held;
  // What came late at the beginning without anything recorded to wait for: it waited for work from
  // before the recording.
  std::vector<HeldWait> after_unrecorded;
  SimTime before_is_done;  // WorkOfBeforeIsDone
  UnshownWaits unshown;

  // Of after_unrecorded, device work whose call came too late for that.
  bool IsTooLate(const RankTrace& rank, const HeldWait& wait) const {
    return wait.held != wait.call && rank.start(wait.call) > before_is_done;
  }
  // All but the edges.
  RankSync Summary() const;
};

RankSync InferSync(const RankTrace& rank, const DeviceIndex& index, const IssueOrder& order);

}  // namespace foretrace
