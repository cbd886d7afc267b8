#include "simulator/report/duration_sources.h"

#include <algorithm>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "simulator/base/check.h"

namespace foretrace {
namespace {

// What the trace recorded for the node, where that is work and not waiting.
SimTime RecordedWork(const RankTrace& rank, NodeIndex node) {
  const bool known = rank.has_duration(node) && !IsCommunicationKind(rank.kind(node));
  return known ? rank.duration(node) : SimTime();
}

// Visits the device work that starts within the windows.
template <typename Visit>
void ForEachDeviceEvent(const EventTable& table, std::span<const IterationWindow> windows,
                        Visit visit) {
  for (RankIndex r = 0; r < table.rank_count(); ++r) {
    const RankTrace& rank = table.store().ranks()[r];
    for (const ExecutedNode& event : table.events(r)) {
      if (!IsDeviceKind(rank.kind(event.node))) continue;
      if (event.start < windows[r].predicted_start || event.start >= windows[r].predicted_end) {
        continue;
      }
      visit(r, rank, event);
    }
  }
}

bool IsWeak(const DurationEntry& entry) {
  return entry.extrapolated || entry.source == EstimateSource::kMissing ||
         entry.source == EstimateSource::kAnalytic;
}

// By falling share; a strict total order, since no two entries are of one name and source.
class ByShare {
 public:
  explicit ByShare(const StringPool& strings) : strings_(strings) {}
  bool operator()(const DurationEntry& a, const DurationEntry& b) const {
    if (a.share != b.share) return a.share > b.share;
    if (a.name != b.name) return strings_.Get(a.name) < strings_.Get(b.name);
    return std::tuple(a.source, a.extrapolated) < std::tuple(b.source, b.extrapolated);
  }

 private:
  const StringPool& strings_;
};

// Keeps the `limit` largest, weak ones before all others, and puts them in order.
void KeepLargest(const ByShare& by_share, size_t limit, std::vector<DurationEntry>& entries) {
  if (entries.size() > limit) {
    const auto kept = entries.begin() + static_cast<ptrdiff_t>(limit);
    std::partial_sort(entries.begin(), kept, entries.end(),
                      [&by_share](const DurationEntry& a, const DurationEntry& b) {
                        if (IsWeak(a) != IsWeak(b)) return IsWeak(a);
                        return by_share(a, b);
                      });
    entries.erase(kept, entries.end());
  }
  std::sort(entries.begin(), entries.end(), by_share);
}

}  // namespace

DurationSources ComputeDurationSources(const EventTable& table, const Classifier& classifier,
                                       std::span<const IterationWindow> windows, size_t limit) {
  FORETRACE_CHECK(windows.size() == table.rank_count());
  DurationSources sources;
  SimTime recorded_total;
  bool all_recorded = true;
  ForEachDeviceEvent(table, windows, [&](RankIndex, const RankTrace& rank, const auto& event) {
    const SimTime time = event.end - event.active_start;
    const SimTime recorded = RecordedWork(rank, event.node);
    recorded_total += recorded;
    sources.device_time += time;
    sources.by_source[static_cast<size_t>(event.source)] += time;
    if (event.extrapolated) sources.extrapolated += time;
    all_recorded &= event.source == EstimateSource::kRecorded;
    if (event.source == EstimateSource::kMissing) {
      ++sources.missing;
      sources.missing_recorded += recorded;
    }
  });
  if (all_recorded) return sources;
  absl::flat_hash_map<std::tuple<StringId, EstimateSource, bool>, DurationEntry> by_op;
  ForEachDeviceEvent(table, windows, [&](RankIndex r, const RankTrace& rank, const auto& event) {
    const NodeIndex op = classifier.FrameworkOp(r, event.node);
    const StringId name = rank.name(op.valid() ? op : event.node);
    DurationEntry& entry = by_op[{name, event.source, event.extrapolated}];
    entry.name = name;
    entry.source = event.source;
    entry.extrapolated = event.extrapolated;
    ++entry.count;
    entry.predicted += event.end - event.active_start;
    entry.recorded += RecordedWork(rank, event.node);
  });
  for (auto& [key, entry] : by_op) {
    entry.share = entry.source == EstimateSource::kMissing
                      ? Share(entry.recorded, recorded_total)
                      : Share(entry.predicted, sources.device_time);
    sources.entries.push_back(entry);
  }
  sources.ops = static_cast<int64_t>(sources.entries.size());
  KeepLargest(ByShare(table.store().strings()), limit, sources.entries);
  return sources;
}

}  // namespace foretrace
