#include "simulator/report/device_time.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "simulator/base/check.h"

namespace foretrace {
namespace {

constexpr SimTime kKernelGap = SimTime::FromNs(30'000);

uint8_t KindOf(NodeKind kind) {
  if (IsCommunicationKind(kind)) return kCommunicating;
  return kind == NodeKind::kMemcpy || kind == NodeKind::kMemset ? kMoving : kComputing;
}

struct Work {
  SimTime start, end;
  SimTime launched;  // Min: not known
  uint8_t kind = 0;
  uint32_t lane = 0;
};

std::vector<Work> WorkOf(const EventTable& table, RankIndex r, const IterationWindow& window) {
  const RankTrace& rank = table.store().ranks()[r];
  std::vector<Work> all;
  for (const ExecutedNode& e : table.events(r)) {
    if (!IsDeviceKind(rank.kind(e.node))) continue;
    if (e.end <= window.predicted_start || e.start >= window.predicted_end) continue;
    const ExecutedNode* call = table.Find({r, rank.launcher(e.node)});
    all.push_back({std::max(e.start, window.predicted_start), std::min(e.end, window.predicted_end),
                   call == nullptr ? SimTime::Min() : call->start, KindOf(rank.kind(e.node)),
                   e.lane});
  }
  std::ranges::stable_sort(all, {}, &Work::start);
  return all;
}

void AddKinds(const std::vector<Work>& all, DeviceTime& out) {
  std::vector<std::pair<SimTime, int>> changes;  // by kind, above 0: begins
  for (const Work& work : all) {
    changes.emplace_back(work.start, work.kind);
    changes.emplace_back(work.end, -work.kind);
  }
  std::ranges::sort(changes);
  std::array<int, 8> running{};
  for (size_t i = 0; i < changes.size(); ++i) {
    size_t set = 0;
    for (const size_t kind : {kComputing, kCommunicating, kMoving}) {
      if (running[kind] > 0) set |= kind;
    }
    if (i > 0) out.by_kinds[set] += changes[i].first - changes[i - 1].first;
    running[static_cast<size_t>(std::abs(changes[i].second))] += changes[i].second > 0 ? 1 : -1;
  }
  if (!changes.empty()) out.span = changes.back().first - changes.front().first;
}

void AddGaps(const std::vector<Work>& all, DeviceTime& out) {
  std::vector<std::pair<uint32_t, SimTime>> ends;  // of lanes, in order of their first work
  for (const Work& work : all) {
    const auto lane = std::ranges::find(ends, work.lane, &std::pair<uint32_t, SimTime>::first);
    if (lane == ends.end()) {
      ends.emplace_back(work.lane, work.end);
      out.gaps.push_back({LaneIndex(work.lane), SimTime(), SimTime(), SimTime()});
      continue;
    }
    DeviceTime::Gaps& gaps = out.gaps[static_cast<size_t>(lane - ends.begin())];
    const SimTime gap = std::max(work.start - lane->second, SimTime());
    SimTime& kind = work.launched > lane->second ? gaps.host
                    : gap < kKernelGap           ? gaps.kernel
                                                 : gaps.other;
    kind += gap;
    lane->second = std::max(lane->second, work.end);
  }
}

}  // namespace

std::vector<DeviceTime> ComputeDeviceTime(const EventTable& table,
                                          std::span<const IterationWindow> windows) {
  FORETRACE_CHECK(windows.size() == table.rank_count());
  std::vector<DeviceTime> result;
  for (RankIndex r = 0; r < table.rank_count(); ++r) {
    const std::vector<Work> all = WorkOf(table, r, windows[r]);
    DeviceTime& time = result.emplace_back();
    time.rank = r;
    AddKinds(all, time);
    AddGaps(all, time);
  }
  return result;
}

}  // namespace foretrace
