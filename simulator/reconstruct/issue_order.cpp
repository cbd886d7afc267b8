#include "simulator/reconstruct/issue_order.h"

#include <algorithm>
#include <numeric>

namespace foretrace {
namespace {

constexpr int64_t kStagedCopyBytes = 64 * 1024;

bool IsIssueCall(RuntimeCall call) {
  return IsLaunch(call) || IsSynchronize(call) || call == RuntimeCall::kMalloc ||
         call == RuntimeCall::kFree;
}

struct Interval {
  SimTime start;
  SimTime end;
};

// Time during which a thread surely runs rather than waits: the launch calls in which it is not
// held until a copy is done.
std::vector<std::vector<Interval>> BusyIntervals(const RankTrace& rank) {
  std::vector<bool> held(rank.size(), false);
  for (uint32_t i = 0; i < rank.size(); ++i) {
    const NodeIndex copy(i);
    if (rank.kind(copy) != NodeKind::kMemcpy) continue;
    const NodeIndex call = rank.launcher(copy);
    if (call.valid() && BlocksUntilCopied(rank, call, copy)) held[call.value] = true;
  }
  std::vector<std::vector<Interval>> busy(rank.lanes().size());
  for (uint32_t i = 0; i < rank.size(); ++i) {
    const NodeIndex n(i);
    if (rank.kind(n) != NodeKind::kRuntimeCall || !rank.has_duration(n)) continue;
    if (!IsLaunch(rank.runtime_call(n)) || held[i]) continue;
    if (rank.runtime_call(n) == RuntimeCall::kMemcpySync) continue;
    busy[rank.lane(n).value].push_back({rank.start(n), rank.end(n)});
  }
  return busy;
}

// Sum over both of the time in which they overlap; intervals of each are in order of start.
SimTime Overlap(const std::vector<Interval>& a, const std::vector<Interval>& b) {
  SimTime total;
  size_t j = 0;
  for (const Interval& x : a) {
    while (j < b.size() && b[j].end <= x.start) ++j;
    for (size_t k = j; k < b.size() && b[k].start < x.end; ++k) {
      total += std::min(x.end, b[k].end) - std::max(x.start, b[k].start);
    }
  }
  return total;
}

SimTime Total(const std::vector<Interval>& intervals) {
  SimTime total;
  for (const Interval& i : intervals) total += i.end - i.start;
  return total;
}

}  // namespace

bool IsLaunch(RuntimeCall call) {
  switch (call) {
    case RuntimeCall::kLaunchKernel:
    case RuntimeCall::kMemcpyAsync:
    case RuntimeCall::kMemcpySync:
    case RuntimeCall::kMemset:
    case RuntimeCall::kGraphLaunch:
      return true;
    default:
      return false;
  }
}

bool IsSynchronize(RuntimeCall call) {
  return call == RuntimeCall::kStreamSynchronize || call == RuntimeCall::kDeviceSynchronize ||
         call == RuntimeCall::kEventSynchronize;
}

bool BlocksUntilCopied(const RankTrace& rank, NodeIndex call, NodeIndex copy) {
  if (rank.runtime_call(call) == RuntimeCall::kMemcpySync) return true;
  if (rank.runtime_call(call) != RuntimeCall::kMemcpyAsync || !copy.valid()) return false;
  if (rank.kind(copy) != NodeKind::kMemcpy) return false;
  switch (rank.memcpy_kind(copy)) {
    case MemcpyKind::kDeviceToHostPageable:
      return true;
    case MemcpyKind::kHostToDevicePageable: {
      const WorkAttr* work = rank.work(copy);
      return work != nullptr && work->bytes.count() > kStagedCopyBytes;
    }
    default:
      return false;
  }
}

IssueOrder FindIssueOrder(const RankTrace& rank) {
  const size_t lanes = rank.lanes().size();
  std::vector<std::vector<NodeIndex>> calls(lanes);
  for (uint32_t i = 0; i < rank.size(); ++i) {
    const NodeIndex n(i);
    if (rank.kind(n) == NodeKind::kRuntimeCall && IsIssueCall(rank.runtime_call(n))) {
      calls[rank.lane(n).value].push_back(n);
    }
  }
  std::vector<uint32_t> threads;
  for (uint32_t lane = 0; lane < lanes; ++lane) {
    if (!calls[lane].empty()) threads.push_back(lane);
  }
  std::stable_sort(threads.begin(), threads.end(),
                   [&](uint32_t a, uint32_t b) { return calls[a].size() > calls[b].size(); });

  IssueOrder order;
  if (threads.size() == 1) {
    // Rows of a recorded trace are in order of start.
    order.timelines.push_back({std::move(calls[threads[0]]), {LaneIndex(threads[0])}});
    return order;
  }
  const auto busy = BusyIntervals(rank);
  std::vector<std::vector<Interval>> merged_busy;
  for (uint32_t thread : threads) {
    size_t target = order.timelines.size();
    for (size_t t = 0; t < order.timelines.size(); ++t) {
      // Clock granularity makes hand-offs overlap by a little; real concurrency overlaps by much.
      const double share =
          Total(busy[thread]).us() <= 0
              ? 0.0
              : Overlap(merged_busy[t], busy[thread]).us() / Total(busy[thread]).us();
      if (share < 0.05) {
        target = t;
        break;
      }
    }
    if (target == order.timelines.size()) {
      order.timelines.emplace_back();
      merged_busy.emplace_back();
    }
    CpuTimeline& timeline = order.timelines[target];
    timeline.threads.push_back(LaneIndex(thread));
    timeline.calls.insert(timeline.calls.end(), calls[thread].begin(), calls[thread].end());
    merged_busy[target].insert(merged_busy[target].end(), busy[thread].begin(), busy[thread].end());
    std::stable_sort(merged_busy[target].begin(), merged_busy[target].end(),
                     [](const Interval& a, const Interval& b) { return a.start < b.start; });
  }
  for (CpuTimeline& timeline : order.timelines) {
    // Rows of a recorded trace are in order of start.
    std::sort(timeline.calls.begin(), timeline.calls.end());
  }
  return order;
}

}  // namespace foretrace
