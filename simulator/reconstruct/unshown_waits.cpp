#include "simulator/reconstruct/unshown_waits.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "simulator/reconstruct/call_paths.h"
#include "simulator/reconstruct/clock_noise.h"
#include "simulator/reconstruct/wait_sites.h"

namespace foretrace {
namespace {

constexpr SimTime kTight = SimTime::FromNs(10'000);
// A blocking call returns some microseconds after the end of what it waited for.
constexpr SimTime kTightReturn = SimTime::FromNs(30'000);

bool IsRead(SyncRule rule) {
  return rule == SyncRule::kCollectiveWait || rule == SyncRule::kStreamHandOff ||
         rule == SyncRule::kEarlierEvent || rule == SyncRule::kBlockingLastStream;
}

class Finder {
 public:
  Finder(const RankTrace& rank, const DeviceIndex& index, const IssueOrder& order,
         const std::vector<UnnamedWait>& waits, std::vector<ChosenEdge> chosen,
         const StreamQueues& queues, const WaitTargets& targets)
      : rank_(rank),
        index_(index),
        order_(order),
        waits_(waits),
        chosen_(std::move(chosen)),
        queues_(queues),
        targets_(targets) {
    std::stable_sort(chosen_.begin(), chosen_.end(),
                     [](const ChosenEdge& a, const ChosenEdge& b) { return a.wait < b.wait; });
    FindRepeated();
  }

  UnshownWaits Run(const std::vector<WaitSite>& sites, const std::vector<SyncEdge>& device_edges,
                   const std::vector<SyncEdge>& block_edges) {
    for (const WaitSite& site : sites) {
      const std::set<Streams> shown = ShownBy(site);
      WaitSite rest = site;
      std::erase_if(rest.waits, [&](uint32_t w) {
        return !shown.empty() && MayMean(w, shown) && !repeated_.contains(waits_[w].call);
      });
      for (const uint32_t w : site.waits) {
        if (std::ranges::binary_search(rest.waits, w)) continue;
        for (const ChosenEdge& c : ChosenBy(w)) shown_.push_back(c.edge);
        shown_calls_.push_back(waits_[w].call);
      }
      if (!rest.waits.empty()) Add(rest);
    }
    // Work may wait for the same by several calls, and by what the recording states.
    SortEdges(shown_);
    SortEdges(result_.chosen);
    std::erase_if(result_.chosen, [&](const SyncEdge& e) {
      const bool blocks = rank_.kind(e.consumer) == NodeKind::kRuntimeCall;
      const SyncEdge* const kept = Find(blocks ? block_edges : device_edges, e);
      return kept == nullptr || !IsRead(kept->rule) || Find(shown_, e) != nullptr;
    });
    SortEdges(result_.latest);
    std::ranges::sort(result_.calls);
    std::ranges::sort(shown_calls_);
    AddOthers(FindOtherReadings(rank_, index_, order_, waits_, shown_calls_, chosen_));
    return std::move(result_);
  }

 private:
  // Of waits in a row that are taken for the same, one is enough to hold up what it did: what the
  // others are for, nothing shows.
  void FindRepeated() {
    std::map<std::pair<NodeIndex, NodeIndex>, NodeIndex> last;  // of edges: the wait
    for (const ChosenEdge& c : chosen_) {
      const auto [wait, first] = last.try_emplace({c.edge.consumer, c.edge.producer}, c.wait);
      if (!first && wait->second != c.wait) repeated_.insert(std::exchange(wait->second, c.wait));
    }
  }

  static const SyncEdge* Find(const std::vector<SyncEdge>& edges, const SyncEdge& edge) {
    for (const SyncEdge& e : EdgesOf(edges, edge.consumer)) {
      if (e.producer == edge.producer) return &e;
    }
    return nullptr;
  }

  std::span<const ChosenEdge> ChosenBy(uint32_t wait) const {
    const NodeIndex call = waits_[wait].call;  // no equal_range: Clang 14 cannot compile its result
    return {std::ranges::lower_bound(chosen_, call, {}, &ChosenEdge::wait),
            std::ranges::upper_bound(chosen_, call, {}, &ChosenEdge::wait)};
  }

  // Whether the consumer went on when the producer had ended, and not for another reason.
  bool Decided(const SyncEdge& e) const {
    if (rank_.kind(e.consumer) == NodeKind::kRuntimeCall) {
      // A synchronise after a copy that blocked already: nothing is left to wait for.
      const NodeIndex copy = rank_.launcher(e.producer);
      if (copy.valid() && index_.HoldsUntilCopied(copy)) return true;
      return rank_.end(e.producer) > rank_.start(e.consumer) + kTight &&
             rank_.end(e.consumer) - rank_.end(e.producer) <= kTightReturn;
    }
    static const std::vector<SyncEdge> kNone;
    const SimTime otherwise = queues_.Explained(e.consumer, kNone);
    return rank_.end(e.producer) > otherwise + kTight &&
           rank_.start(e.consumer) - rank_.end(e.producer) <= kTight;
  }

  // What waits, and for what.
  using Streams = std::pair<LaneIndex, LaneIndex>;
  Streams StreamsOf(const SyncEdge& e) const {
    return {rank_.lane(e.consumer), rank_.lane(e.producer)};
  }

  // Those between which some of the site's waits held something up.
  std::set<Streams> ShownBy(const WaitSite& site) const {
    std::set<Streams> shown;
    for (const uint32_t w : site.waits) {
      for (const ChosenEdge& c : ChosenBy(w)) {
        if (Decided(c.edge)) shown.insert(StreamsOf(c.edge));
      }
    }
    return shown;
  }

  // Whether it was taken to be between such streams, or for nothing.
  bool MayMean(uint32_t wait, const std::set<Streams>& shown) const {
    const auto chosen = ChosenBy(wait);
    return chosen.empty() || std::ranges::any_of(chosen, [&](const ChosenEdge& c) {
             return shown.contains(StreamsOf(c.edge));
           });
  }

  void AddOthers(const std::vector<OtherReading>& readings) {
    for (const OtherReading& reading : readings) {
      if (result_.others.size() <= reading.number) result_.others.resize(reading.number + 1);
      OtherEdges& others = result_.others[reading.number];
      others.taken.push_back(reading.edge);
      const auto chosen = std::ranges::lower_bound(chosen_, reading.wait, {}, &ChosenEdge::wait);
      if (chosen != chosen_.end() && chosen->wait == reading.wait) {
        others.instead_of.push_back(chosen->edge);
      }
      result_.ambiguous.push_back(reading.wait);
    }
    for (OtherEdges& others : result_.others) {
      SortEdges(others.taken);
      SortEdges(others.instead_of);
    }
    std::ranges::sort(result_.ambiguous);
    result_.ambiguous.erase(std::unique(result_.ambiguous.begin(), result_.ambiguous.end()),
                            result_.ambiguous.end());
  }

  // A consumer, and when it was made to wait.
  using Held = std::vector<std::pair<NodeIndex, SimTime>>;

  // A wait holds up what the rules say or, of several waits in a row, what the others do: the next
  // work launched.
  void Add(const WaitSite& site) {
    Held ruled, next;
    for (const uint32_t w : site.waits) {
      const NodeIndex call = waits_[w].call;
      result_.calls.push_back(call);
      const auto chosen = ChosenBy(w);
      for (const ChosenEdge& c : chosen) result_.chosen.push_back(c.edge);
      const NodeIndex consumer = chosen.empty() ? NodeIndex() : chosen.front().edge.consumer;
      if (consumer.valid()) ruled.emplace_back(consumer, rank_.start(call));
      const std::vector<Target> targets = targets_.Of(w);
      if (targets.empty() || targets.front().consumer == consumer) continue;
      next.emplace_back(targets.front().consumer, rank_.start(call));
    }
    for (uint32_t lane = 0; lane < rank_.lanes().size(); ++lane) {
      if (queues_.of(LaneIndex(lane)).empty()) continue;
      AddLatest(site, ruled, LaneIndex(lane));
      AddLatest(site, next, LaneIndex(lane));
    }
  }

  void AddLatest(const WaitSite& site, const Held& held, LaneIndex stream) {
    const auto& queue = queues_.of(stream);
    size_t back = 0;  // how many of the stream's last works no wait can have meant
    for (const auto& [consumer, at] : held) {
      const SimTime begun = site.blocks ? rank_.end(consumer) + kClockNoise
                                        : rank_.start(consumer) + kClockResolution;
      const size_t issued = queues_.IssuedBefore(stream, at);
      back = std::max(back, issued - std::min(issued, queues_.EndedBy(stream, begun)));
    }
    for (const auto& [consumer, at] : held) {
      if (!site.blocks && rank_.lane(consumer) == stream) continue;
      const size_t issued = queues_.IssuedBefore(stream, at);
      if (issued <= back) continue;
      result_.latest.push_back(
          {consumer, queue[issued - back - 1].node,
           site.blocks ? SyncRule::kBlockingLastStream : SyncRule::kStreamHandOff});
    }
  }

  const RankTrace& rank_;
  const DeviceIndex& index_;
  const IssueOrder& order_;
  const std::vector<UnnamedWait>& waits_;
  std::vector<ChosenEdge> chosen_;  // by wait
  const StreamQueues& queues_;
  const WaitTargets& targets_;
  std::set<NodeIndex> repeated_;
  std::vector<SyncEdge> shown_;
  std::vector<NodeIndex> shown_calls_;
  UnshownWaits result_;
};

}  // namespace

UnshownWaits FindUnshownWaits(const RankTrace& rank, const DeviceIndex& index,
                              const IssueOrder& order, const std::vector<UnnamedWait>& waits,
                              const std::vector<ChosenEdge>& chosen,
                              const std::vector<SyncEdge>& device_edges,
                              const std::vector<SyncEdge>& block_edges) {
  if (waits.empty()) return {};
  CallPaths paths(rank, index.strings());
  const std::vector<WaitSite> sites = SitesOf(waits, paths);
  const StreamQueues queues(rank);
  const WaitTargets targets(rank, index, order, queues, waits, device_edges, block_edges);
  return Finder(rank, index, order, waits, chosen, queues, targets)
      .Run(sites, device_edges, block_edges);
}

}  // namespace foretrace
