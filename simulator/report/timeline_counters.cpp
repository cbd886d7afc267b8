#include "simulator/report/timeline_counters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

namespace foretrace {
namespace {

// Of changes at one instant the last sum.
template <typename Value, typename Write>
void WriteSums(std::vector<std::pair<SimTime, Value>>& changes, const Write& write) {
  std::sort(changes.begin(), changes.end());
  Value sum = 0;
  for (size_t i = 0; i < changes.size(); ++i) {
    sum += changes[i].second;
    if (i + 1 < changes.size() && changes[i + 1].first == changes[i].first) continue;
    write(changes[i].first, sum);
  }
}

}  // namespace

void WriteLaunchQueueCounter(const EventTable& table, RankIndex rank, SimTime origin,
                             int32_t process, TimelineWriter& writer) {
  constexpr SimTime kResolution = SimTime::FromNs(10'000);
  const RankTrace& trace = table.store().ranks()[rank];
  std::vector<std::pair<SimTime, int32_t>> changes;
  for (const ExecutedNode& e : table.events(rank)) {
    if (!IsDeviceKind(trace.kind(e.node))) continue;
    const ExecutedNode* call = table.Find({rank, trace.launcher(e.node)});
    if (call == nullptr || call->end >= e.start) continue;
    changes.emplace_back(call->end, 1);
    changes.emplace_back(e.start, -1);
  }
  std::sort(changes.begin(), changes.end());
  int64_t depth = 0;
  for (size_t i = 0; i < changes.size(); ++i) {
    depth += changes[i].second;
    const bool last = i + 1 == changes.size();
    const auto tick = [&](size_t k) { return changes[k].first.ps() / kResolution.ps(); };
    if (!last && tick(i + 1) == tick(i)) continue;
    writer.Counter(process, "launch queue", changes[i].first - origin, depth);
  }
}

void WriteCommunicationCounter(const EventTable& table, RankIndex rank, SimTime origin,
                               int32_t process, TimelineWriter& writer) {
  const RankTrace& trace = table.store().ranks()[rank];
  std::vector<std::pair<SimTime, int64_t>> changes;
  for (const ExecutedNode& e : table.events(rank)) {
    if (!IsCommunicationKind(trace.kind(e.node))) continue;
    const CommAttr* attr = trace.comm(e.node);
    const SimTime time = e.end - e.active_start;
    if (attr == nullptr || time <= SimTime()) continue;
    const Bytes bytes = std::max(attr->bytes_in, attr->bytes_out);
    const auto rate = static_cast<int64_t>(static_cast<double>(bytes.count()) / time.us());
    if (rate == 0) continue;
    changes.emplace_back(e.active_start, rate);
    changes.emplace_back(e.end, -rate);
  }
  WriteSums(changes, [&](SimTime at, int64_t sum) {
    writer.Counter(process, "communication MB/s", at - origin, sum);
  });
}

void WriteMemoryCounters(std::span<const AllocatedMemory> samples, SimTime origin, int32_t process,
                         TimelineWriter& writer) {
  const auto megabytes = [](Bytes bytes) { return bytes.count() / 1'000'000; };
  for (size_t i = 0; i < samples.size(); ++i) {
    const SimTime at = std::max(samples[i].at, origin);
    if (i + 1 < samples.size() && std::max(samples[i + 1].at, origin) == at) continue;
    writer.Counter(process, "allocated MB", at - origin, megabytes(samples[i].allocated));
    if (samples[i].reserved == Bytes()) continue;
    writer.Counter(process, "reserved MB", at - origin, megabytes(samples[i].reserved));
  }
}

void WriteLinkCounters(std::span<const LinkLoad> links, SimTime origin, int32_t process,
                       TimelineWriter& writer) {
  if (links.empty()) return;
  writer.Process(process, "links", "share of their bandwidth, as each transfer's mean", process);
  for (const LinkLoad& link : links) {
    std::vector<std::pair<SimTime, int64_t>> changes;  // in 1e-6 of the bandwidth: sums are exact
    for (const LinkUse& use : link.uses) {
      const int64_t share = std::llround(use.share * 1e6);
      changes.emplace_back(use.start, share);
      changes.emplace_back(use.end, -share);
    }
    const std::string name = fmt::format("{} %", link.name);
    WriteSums(changes, [&](SimTime at, int64_t sum) {
      writer.Counter(process, name, at - origin, (sum + 5000) / 10000);
    });
  }
}

}  // namespace foretrace
