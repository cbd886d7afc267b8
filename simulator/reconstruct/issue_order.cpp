#include "simulator/reconstruct/issue_order.h"

#include <algorithm>
#include <numeric>

#include "simulator/base/intervals.h"

namespace foretrace {
namespace {

// Clocks are as coarse as a microsecond.
constexpr SimTime kInside = SimTime::FromNs(5'000);
// Time in launches that two threads share by hand-offs that the clock cannot resolve, of all time
// in launches. Threads that run at once share far more.
constexpr double kHandOffShare = 0.05;

bool IsIssueCall(RuntimeCall call) {
  return IsLaunch(call) || IsSynchronize(call) || call == RuntimeCall::kMalloc ||
         call == RuntimeCall::kFree;
}

// What one thread, or several that take turns, did.
struct Activity {
  // Surely running rather than waiting: launch calls that do not hold until a copy is done.
  std::vector<Interval> busy;
  std::vector<Interval> blocked;  // in synchronising calls and blocking copies
  int64_t device_work = 0;        // calls that issue any
};

std::vector<Activity> ActivityByThread(const RankTrace& rank, const DeviceIndex& index) {
  std::vector<Activity> activity(rank.lanes().size());
  for (uint32_t i = 0; i < rank.size(); ++i) {
    const NodeIndex n(i);
    if (rank.kind(n) != NodeKind::kRuntimeCall || !rank.has_duration(n)) continue;
    const RuntimeCall call = rank.runtime_call(n);
    Activity& thread = activity[rank.lane(n).value];
    const Interval span{rank.start(n), rank.end(n)};
    if (IsLaunch(call)) ++thread.device_work;
    if (IsSynchronize(call) || index.HoldsUntilCopied(n)) {
      thread.blocked.push_back(span);
    } else if (IsLaunch(call) && call != RuntimeCall::kMemcpySync) {
      thread.busy.push_back(span);
    }
  }
  return activity;
}

void Merge(std::vector<Interval>& into, const std::vector<Interval>& from) {
  into.insert(into.end(), from.begin(), from.end());
  std::stable_sort(into.begin(), into.end(),
                   [](const Interval& a, const Interval& b) { return a.start < b.start; });
}

// Whether a launch of `busy` lies inside one of `blocked`: threads that take turns cannot do that.
bool AnyInside(const std::vector<Interval>& busy, const std::vector<Interval>& blocked) {
  size_t j = 0;
  for (const Interval& b : blocked) {
    while (j < busy.size() && busy[j].start < b.start + kInside) ++j;
    if (j < busy.size() && busy[j].end + kInside < b.end) return true;
  }
  return false;
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

IssueOrder FindIssueOrder(const RankTrace& rank, const DeviceIndex& index) {
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

  IssueOrder order;
  if (threads.size() == 1) {
    // Rows of a recorded trace are in order of start.
    order.timelines.push_back({std::move(calls[threads[0]]), {LaneIndex(threads[0])}});
    return order;
  }
  const std::vector<Activity> activity = ActivityByThread(rank, index);
  // Threads that issue device work first: the others join them or are left out.
  std::stable_sort(threads.begin(), threads.end(), [&](uint32_t a, uint32_t b) {
    const bool works_a = activity[a].device_work > 0;
    const bool works_b = activity[b].device_work > 0;
    return works_a != works_b ? works_a : calls[a].size() > calls[b].size();
  });
  std::vector<Activity> merged;
  for (const uint32_t thread : threads) {
    const Activity& own = activity[thread];
    const auto takes_turns = [&own](const Activity& others) {
      const double share = Length(own.busy).us() <= 0
                               ? 0.0
                               : Overlap(others.busy, own.busy).us() / Length(own.busy).us();
      return share < kHandOffShare && !AnyInside(others.busy, own.blocked) &&
             !AnyInside(own.busy, others.blocked);
    };
    const auto target = static_cast<size_t>(
        std::find_if(merged.begin(), merged.end(), takes_turns) - merged.begin());
    const bool works = own.device_work > 0;
    if (!works && !merged.empty() && (own.blocked.empty() || target == merged.size())) continue;
    if (target == merged.size()) {
      order.timelines.emplace_back();
      merged.emplace_back();
    }
    CpuTimeline& timeline = order.timelines[target];
    timeline.threads.push_back(LaneIndex(thread));
    timeline.calls.insert(timeline.calls.end(), calls[thread].begin(), calls[thread].end());
    Merge(merged[target].busy, own.busy);
    Merge(merged[target].blocked, own.blocked);
  }
  for (CpuTimeline& timeline : order.timelines) {
    // Rows of a recorded trace are in order of start.
    std::sort(timeline.calls.begin(), timeline.calls.end());
  }
  return order;
}

}  // namespace foretrace
