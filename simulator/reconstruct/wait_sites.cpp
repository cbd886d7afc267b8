#include "simulator/reconstruct/wait_sites.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "simulator/reconstruct/latencies.h"

namespace foretrace {
namespace {

// What a wait can hold up is looked for among this many launches after it.
constexpr int kLaunchesAfter = 8;
// No launch takes that long to reach an idle device, nor a synchronise to return. Preparing a
// staged copy takes longer.
constexpr SimTime kLate = SimTime::FromNs(30'000);
constexpr SimTime kLateStaged = SimTime::FromNs(500'000);
constexpr SimTime kLateReturn = SimTime::FromNs(50'000);
// No gap between the work of a stream is as long in most places.
constexpr SimTime kLongGap = SimTime::FromNs(10'000);

}  // namespace

std::vector<WaitSite> SitesOf(const std::vector<UnnamedWait>& waits, CallPaths& paths) {
  std::vector<NodeIndex> calls;
  for (const UnnamedWait& w : waits) calls.push_back(w.call);
  const std::vector<uint64_t> places = paths.PlacesOf(calls);
  std::vector<WaitSite> sites;
  absl::flat_hash_map<uint64_t, size_t> known;
  for (uint32_t w = 0; w < waits.size(); ++w) {
    const uint64_t kind = uint64_t{waits[w].timeline} * 2 + (waits[w].blocks ? 1 : 0);
    const auto [it, inserted] = known.emplace(MixHash(places[w], kind), sites.size());
    if (inserted) sites.push_back({{}, waits[w].blocks, waits[w].timeline});
    sites[it->second].waits.push_back(w);
  }
  return sites;
}

WaitTargets::WaitTargets(const RankTrace& rank, const DeviceIndex& index, const IssueOrder& order,
                         const StreamQueues& queues, const std::vector<UnnamedWait>& waits,
                         const std::vector<SyncEdge>& device_edges,
                         const std::vector<SyncEdge>& block_edges)
    : rank_(rank),
      queues_(queues),
      waits_(waits),
      device_edges_(device_edges),
      block_edges_(block_edges) {
  issues_.resize(order.timelines.size());
  for (size_t t = 0; t < order.timelines.size(); ++t) {
    for (const NodeIndex call : order.timelines[t].calls) {
      for (const NodeIndex device : index.issued_by(call)) {
        if (rank.has_duration(device)) issues_[t].push_back({call, device});
      }
    }
  }
}

uint64_t WaitTargets::RowOf(uint32_t wait, CallPaths& paths) const {
  const uint32_t timeline = waits_[wait].timeline;
  const std::vector<Issue>& issues = issues_[timeline];
  const auto issues_before = [&issues](NodeIndex n) {
    return std::lower_bound(issues.begin(), issues.end(), n,
                            [](const Issue& i, NodeIndex node) { return i.call < node; }) -
           issues.begin();
  };
  const NodeIndex op = rank_.parent(waits_[wait].call);
  const auto before = issues_before(waits_[wait].call);
  const auto in_row = [&](uint32_t other) {
    return waits_[other].timeline == timeline && rank_.parent(waits_[other].call) == op &&
           issues_before(waits_[other].call) == before;
  };
  uint32_t first = wait;
  while (first > 0 && in_row(first - 1)) --first;
  uint32_t last = wait;
  while (last + 1 < waits_.size() && in_row(last + 1)) ++last;
  uint64_t row = MixHash(wait - first, last - first);
  if (paths.Of(op) != 0) {
    const bool launch_follows =
        before < std::ssize(issues) &&
        rank_.start(issues[static_cast<size_t>(before)].call) < rank_.end(op);
    row = MixHash(MixHash(row, static_cast<uint64_t>(before - issues_before(op))),
                  launch_follows ? 1 : 0);
  }
  return row;
}

std::vector<WaitSite> WaitTargets::ByRow(const WaitSite& site, CallPaths& paths) const {
  std::vector<WaitSite> sites;
  absl::flat_hash_map<uint64_t, size_t> known;
  for (const uint32_t w : site.waits) {
    const auto [it, inserted] = known.emplace(RowOf(w, paths), sites.size());
    if (inserted) sites.push_back({{}, site.blocks, site.timeline});
    sites[it->second].waits.push_back(w);
  }
  return sites;
}

Target WaitTargets::MakeTarget(uint32_t wait, NodeIndex consumer) const {
  static const std::vector<SyncEdge> kNone;
  const LaunchClass how = LaunchClassOf(rank_, consumer);
  const bool staged = how == LaunchClass::kCopyFromPageable || how == LaunchClass::kCopyToPageable;
  const SimTime late = staged ? kLateStaged : kLate;
  Target target;
  target.wait = wait;
  target.consumer = consumer;
  target.waited_at = rank_.start(waits_[wait].call);
  target.begun = rank_.start(consumer);
  target.explained = queues_.Explained(consumer, device_edges_);
  target.late = target.begun - queues_.Explained(consumer, kNone) > late;
  const NodeIndex call = rank_.launcher(consumer);
  const bool long_launched = !call.valid() || target.begun - rank_.start(call) > late;
  target.held = target.begun - target.explained > late;
  target.delayed = long_launched && target.begun - target.explained > kLongGap;
  return target;
}

Target WaitTargets::MakeBlocked(uint32_t wait) const {
  const NodeIndex call = waits_[wait].call;
  Target target;
  target.wait = wait;
  target.consumer = call;
  target.waited_at = rank_.start(call);
  target.begun = rank_.has_duration(call) ? rank_.end(call) : rank_.start(call);
  target.explained = target.waited_at;
  bool contradicted = false;
  for (const SyncEdge& e : EdgesOf(block_edges_, call)) {
    target.explained = std::max(target.explained, rank_.end(e.producer));
    contradicted = contradicted || rank_.end(e.producer) - target.begun > kLateReturn;
  }
  target.late = target.begun - target.waited_at > kLateReturn;
  target.held = target.late && (contradicted || target.begun - target.explained > kLateReturn);
  return target;
}

std::vector<Target> WaitTargets::Of(uint32_t wait) const {
  const UnnamedWait& w = waits_[wait];
  if (w.blocks) return {MakeBlocked(wait)};
  if (const SyncAttr* attr = rank_.sync(w.call); attr != nullptr && attr->stream.valid()) {
    const auto& queue = queues_.of(attr->stream);
    const size_t next = queues_.IssuedBefore(attr->stream, rank_.start(w.call));
    if (next == queue.size()) return {};
    return {MakeTarget(wait, queue[next].node)};
  }
  const std::vector<Issue>& issues = issues_[w.timeline];
  auto issue = std::upper_bound(issues.begin(), issues.end(), w.call,
                                [](NodeIndex n, const Issue& i) { return n < i.call; });
  std::vector<Target> targets;
  for (int seen = 0; issue != issues.end() && seen < kLaunchesAfter; ++issue, ++seen) {
    const bool known = std::any_of(targets.begin(), targets.end(), [&](const Target& t) {
      return rank_.lane(t.consumer) == rank_.lane(issue->device);
    });
    if (!known) targets.push_back(MakeTarget(wait, issue->device));
  }
  return targets;
}

}  // namespace foretrace
