#include "simulator/report/top_ops.h"

#include <algorithm>

#include "simulator/base/check.h"

namespace foretrace {
namespace {

std::vector<TopEntry> Largest(const std::vector<TopEntry>& by_name, const StringPool& strings,
                              SimTime total, size_t limit) {
  std::vector<TopEntry> entries;
  for (const TopEntry& entry : by_name) {
    if (entry.count > 0) entries.push_back(entry);
  }
  const size_t kept = std::min(limit, entries.size());
  std::partial_sort(entries.begin(), entries.begin() + static_cast<ptrdiff_t>(kept), entries.end(),
                    [&strings](const TopEntry& a, const TopEntry& b) {
                      if (a.time != b.time) return a.time > b.time;
                      return strings.Get(a.name) < strings.Get(b.name);
                    });
  entries.resize(kept);
  for (TopEntry& entry : entries) entry.share = Share(entry.time, total);
  return entries;
}

}  // namespace

TopOps ComputeTopOps(const EventTable& table, const Classifier& classifier,
                     std::span<const IterationWindow> windows, size_t limit) {
  FORETRACE_CHECK(windows.size() == table.rank_count());
  const StringPool& strings = table.store().strings();
  std::vector<TopEntry> kernels(strings.size()), ops(strings.size());
  TopOps result;
  const auto add = [](TopEntry& entry, StringId name, SimTime time) {
    entry.name = name;
    ++entry.count;
    entry.time += time;
  };
  for (RankIndex r = 0; r < table.rank_count(); ++r) {
    const RankTrace& rank = table.store().ranks()[r];
    const IterationWindow& window = windows[r];
    for (const ExecutedNode& event : table.events(r)) {
      if (!IsDeviceKind(rank.kind(event.node))) continue;
      if (event.end <= window.predicted_start || event.start >= window.predicted_end) continue;
      const SimTime time = Overlap(window, event.active_start, event.end);
      const StringId name = rank.name(event.node);
      const NodeIndex op = classifier.FrameworkOp(r, event.node);
      const StringId op_name = op.valid() ? rank.name(op) : StringId(0);
      add(kernels[name.value], name, time);
      add(ops[op_name.value], op_name, time);
      result.device_time += time;
    }
  }
  result.kernels = Largest(kernels, strings, result.device_time, limit);
  result.ops = Largest(ops, strings, result.device_time, limit);
  return result;
}

}  // namespace foretrace
