#pragma once
// The CPU side of a rank, as the replay sees it: calls that issue or await device work, and between
// them the overheads T1..T5 of the multi-GPU paper (Algorithm 1; defined in its predecessor).
//
//   T1  between two outermost ops           T4  in a launch call
//   T2  in an op, before its first launch   T5  between launches of an op; all of an op without
//   T3  in an op, after its last launch         launches
//
// The recorded duration of a blocking call is never read: where the overhead after it begins is
// derived from when its device work ended. Otherwise a replay would repeat recorded waits. (It is
// read for the count of unexplained blocks, which is for reports alone.)

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "simulator/base/string_pool.h"
#include "simulator/reconstruct/issue_order.h"
#include "simulator/reconstruct/sync_rules.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

enum class OverheadKind : uint8_t { kT1, kT2, kT3, kT4, kT5, kCount };
std::string_view Name(OverheadKind kind);

struct OverheadSegment {
  OverheadKind kind = OverheadKind::kT1;
  StringId op;  // for T1 the op that follows
  SimTime time;
};

// A point of a CPU timeline: a call, or the begin or end of a step mark.
struct CpuPoint {
  NodeIndex node;  // the call, or the step mark's annotation
  bool is_mark = false;
  bool blocking = false;    // holds the thread until device work ends
  bool queue_full = false;  // a launch that waited for room in its stream's launch queue
  SimTime recorded_start;
  // Overhead between the resumption of the previous point and this one; the segments add up to it.
  SimTime lead;
  uint32_t segments_begin = 0;
  uint32_t segments_end = 0;
  // Non-blocking calls: the recorded duration (T4). Blocking calls: zero.
  SimTime duration;
};

struct CpuTimelinePoints {
  std::vector<CpuPoint> points;
  std::vector<OverheadSegment> segments;
  // Blocking calls whose recorded length no known device work explains. Where an op around the call
  // tells when it returned, the unexplained part is dropped; else it counts as overhead.
  int64_t unexplained_blocks = 0;
  SimTime unexplained_time;  // of all of them
  int64_t queue_full_launches = 0;

  std::span<const OverheadSegment> segments_of(const CpuPoint& p) const {
    return {segments.data() + p.segments_begin, segments.data() + p.segments_end};
  }
};

// Fixed costs of synchronising, used on the recorded and the predicted side alike, so that they
// cancel unless a prediction turns a wait into no wait or back. Sources: docs/semantics.md.
struct SyncCosts {
  SimTime call = SimTime::FromNs(3'000);    // a synchronise that finds nothing to wait for
  SimTime resume = SimTime::FromNs(6'000);  // from the end of the device work to the return
};

CpuTimelinePoints BuildCpuTimeline(const RankTrace& rank, const CpuTimeline& timeline,
                                   const DeviceIndex& index, const RankSync& sync,
                                   const SyncCosts& costs, bool with_marks);

}  // namespace foretrace
