#include "simulator/report/duration_sources.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "simulator/base/check.h"

namespace foretrace {
namespace {

// What the trace recorded for the node, where that is work and not waiting.
SimTime RecordedWork(const RankTrace& rank, NodeIndex node) {
  const bool known = rank.has_duration(node) && !IsCommunicationKind(rank.kind(node));
  return known ? rank.duration(node) : SimTime();
}

}  // namespace

DurationSources ComputeDurationSources(const EventTable& table, const Classifier& classifier,
                                       std::span<const IterationWindow> windows) {
  FORETRACE_CHECK(windows.size() == table.rank_count());
  DurationSources sources;
  SimTime recorded_total;
  std::map<std::tuple<StringId, EstimateSource, bool>, DurationEntry> entries;
  for (RankIndex r = 0; r < table.rank_count(); ++r) {
    const RankTrace& rank = table.store().ranks()[r];
    for (const ExecutedNode& event : table.events(r)) {
      if (!IsDeviceKind(rank.kind(event.node))) continue;
      if (event.start < windows[r].predicted_start || event.start >= windows[r].predicted_end) {
        continue;
      }
      const NodeIndex op = classifier.FrameworkOp(r, event.node);
      const StringId name = rank.name(op.valid() ? op : event.node);
      DurationEntry& entry = entries[{name, event.source, event.extrapolated}];
      entry.name = name;
      entry.source = event.source;
      entry.extrapolated = event.extrapolated;
      ++entry.count;
      const SimTime time = event.end - event.active_start;
      const SimTime recorded = RecordedWork(rank, event.node);
      entry.predicted += time;
      entry.recorded += recorded;
      recorded_total += recorded;
      sources.device_time += time;
      sources.by_source[static_cast<size_t>(event.source)] += time;
      if (event.extrapolated) sources.extrapolated += time;
      if (event.source == EstimateSource::kMissing) {
        ++sources.missing;
        sources.missing_recorded += recorded;
      }
    }
  }
  const bool all_recorded = std::all_of(entries.begin(), entries.end(), [](const auto& e) {
    return e.second.source == EstimateSource::kRecorded;
  });
  if (all_recorded) return sources;
  for (auto& [key, entry] : entries) {
    entry.share = entry.source == EstimateSource::kMissing
                      ? Share(entry.recorded, recorded_total)
                      : Share(entry.predicted, sources.device_time);
    sources.entries.push_back(entry);
  }
  const StringPool& strings = table.store().strings();
  std::stable_sort(sources.entries.begin(), sources.entries.end(),
                   [&strings](const DurationEntry& a, const DurationEntry& b) {
                     if (a.share != b.share) return a.share > b.share;
                     if (a.name != b.name) return strings.Get(a.name) < strings.Get(b.name);
                     return a.source < b.source;
                   });
  return sources;
}

}  // namespace foretrace
