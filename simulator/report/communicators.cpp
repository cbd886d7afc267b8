#include "simulator/report/communicators.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "simulator/base/check.h"

namespace foretrace {
namespace {

struct RankTotals {
  int64_t count = 0;
  Bytes bytes;
  SimTime transfer;
  SimTime wait;
};

struct Accumulator {
  CommunicatorSummary summary;
  std::vector<std::pair<RankIndex, RankTotals>> ranks;  // ascending
  // By the node that came last; one entry is one operation.
  absl::flat_hash_map<uint64_t, SimTime> caused;
};

uint64_t Pack(NodeRef ref) { return (uint64_t{ref.rank} << 32) | ref.node.value; }

void Add(RankIndex r, const ExecutedNode& event, const CommAttr* comm, Accumulator& a) {
  if (a.ranks.empty() || a.ranks.back().first != r) a.ranks.emplace_back(r, RankTotals());
  RankTotals& totals = a.ranks.back().second;
  ++totals.count;
  if (comm != nullptr) totals.bytes += std::max(comm->bytes_in, comm->bytes_out);
  totals.transfer += event.end - event.active_start;
  const SimTime wait = event.active_start - event.start;
  if (wait <= SimTime()) return;
  totals.wait += wait;
  a.summary.worst_wait = std::max(a.summary.worst_wait, wait);
  if (event.end_cause == WaitCause::kCommunicatorBusy) return;
  if (event.end_binding.node.valid()) a.caused[Pack(event.end_binding)] += wait;
}

CommunicatorSummary Finish(Accumulator& a) {
  CommunicatorSummary& s = a.summary;
  for (const auto& [rank, totals] : a.ranks) {
    s.count = std::max(s.count, totals.count);
    s.bytes = std::max(s.bytes, totals.bytes);
    s.transfer = std::max(s.transfer, totals.transfer);
    s.wait += totals.wait;
    if (totals.wait > s.worst_rank_wait) {
      s.worst_rank_wait = totals.wait;
      s.worst_rank = rank;
    }
  }
  s.members = static_cast<int32_t>(a.ranks.size());
  std::map<RankIndex, Latecomer> latecomers;
  for (const auto& [packed, wait] : a.caused) {
    const auto rank = static_cast<RankIndex>(packed >> 32);
    Latecomer& l = latecomers[rank];
    l.rank = rank;
    ++l.times_last;
    l.caused_wait += wait;
  }
  for (const auto& [rank, latecomer] : latecomers) s.latecomers.push_back(latecomer);
  std::stable_sort(s.latecomers.begin(), s.latecomers.end(),
                   [](const auto& x, const auto& y) { return x.caused_wait > y.caused_wait; });
  return std::move(s);
}

}  // namespace

std::vector<CommunicatorSummary> ComputeCommunicators(const EventTable& table,
                                                      const Classifier& classifier,
                                                      std::span<const IterationWindow> windows,
                                                      const CommunicatorNames& names) {
  FORETRACE_CHECK(windows.size() == table.rank_count());
  std::map<std::tuple<uint32_t, std::string_view, WorkGroup>, Accumulator> accumulators;
  // The same by where the name is, which spares most comparisons of names.
  absl::flat_hash_map<std::tuple<uint32_t, const char*, size_t, WorkGroup>, Accumulator*> known;
  for (RankIndex r = 0; r < table.rank_count(); ++r) {
    const RankTrace& rank = table.store().ranks()[r];
    const IterationWindow& window = windows[r];
    for (const ExecutedNode& event : table.events(r)) {
      if (!IsCommunicationKind(rank.kind(event.node))) continue;
      if (event.start < window.predicted_start || event.start >= window.predicted_end) continue;
      const CommAttr* comm = rank.comm(event.node);
      // The empty string has id 0.
      const uint32_t group = comm != nullptr && comm->group.valid() ? comm->group.value : 0;
      const WorkGroup operation = classifier.Group(r, event.node);
      std::string_view name = table.store().strings().Get(StringId(group));
      if (name.empty() && names != nullptr && event.rendezvous != NodeEvent::kNoRendezvous) {
        name = names(event.rendezvous);
      }
      Accumulator*& a = known[{group, name.data(), name.size(), operation}];
      if (a == nullptr) {
        a = &accumulators[{group, name, operation}];
        a->summary.group = StringId(group);
        a->summary.name = std::string(name);
        a->summary.operation = operation;
      }
      Add(r, event, comm, *a);
    }
  }
  std::vector<CommunicatorSummary> result;
  for (auto& [key, accumulator] : accumulators) result.push_back(Finish(accumulator));
  const StringPool& strings = table.store().strings();
  std::stable_sort(result.begin(), result.end(), [&strings](const auto& x, const auto& y) {
    const SimTime of_x = x.transfer + x.worst_rank_wait;
    const SimTime of_y = y.transfer + y.worst_rank_wait;
    if (of_x != of_y) return of_x > of_y;
    // Of equal ones group "2" before "10".
    const std::string_view name_x = strings.Get(x.group);
    const std::string_view name_y = strings.Get(y.group);
    return std::pair(name_x.size(), name_x) < std::pair(name_y.size(), name_y);
  });
  return result;
}

}  // namespace foretrace
