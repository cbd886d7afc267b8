#include "simulator/reconstruct/earlier_events.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "simulator/reconstruct/call_paths.h"
#include "simulator/reconstruct/clock_noise.h"
#include "simulator/reconstruct/wait_sites.h"

namespace foretrace {
namespace {

constexpr SimTime kTight = SimTime::FromNs(10'000);
// A blocking call returns some microseconds after the end of what it waited for.
constexpr SimTime kTightReturn = SimTime::FromNs(30'000);
// Points of the program that are tried for one stream; the latest first.
constexpr size_t kMostPoints = 4096;

// A point of the program before each wait: the key, and how many of it lie between; or the wait.
struct Boundary {
  bool at_wait = false;
  uint64_t key = 0;
  int64_t between = 0;
  uint32_t timeline = 0;  // whose point it is
};

struct Choice {
  LaneIndex stream;
  Boundary boundary;
  SimTime recorded;  // the point before the reference wait, to find the latest
  int64_t tight = 0;
};

class Search {
 public:
  Search(const RankTrace& rank, const DeviceIndex& index, const IssueOrder& order,
         const std::vector<UnnamedWait>& waits, const std::vector<SyncEdge>& device_edges,
         const std::vector<SyncEdge>& block_edges, Deciding deciding)
      : rank_(rank),
        order_(order),
        deciding_(deciding),
        waits_(waits),
        paths_(rank, index.strings()),
        queues_(rank),
        targets_(rank, index, order, queues_, waits, device_edges, block_edges),
        points_(order.timelines.size()) {}

  // Of the sites that `calls` are of.
  std::vector<OtherReading> Others(const std::vector<NodeIndex>& calls,
                                   const std::vector<ChosenEdge>& chosen) {
    std::vector<OtherReading> others;
    for (const WaitSite& site : SitesOf(waits_, paths_)) {
      if (!std::ranges::binary_search(calls, waits_[site.waits.front()].call)) continue;
      std::vector<Target> targets;
      std::vector<NodeIndex> taken;  // by target
      for (const uint32_t w : site.waits) {
        const auto of_wait =
            std::ranges::lower_bound(chosen, waits_[w].call, {}, &ChosenEdge::wait);
        if (of_wait == chosen.end() || of_wait->wait != waits_[w].call) continue;
        for (Target& t : targets_.Of(w)) {
          if (t.consumer != of_wait->edge.consumer) continue;
          t.held = t.late;
          targets.push_back(t);
          taken.push_back(of_wait->edge.producer);
        }
      }
      const int64_t held = std::ranges::count_if(targets, &Target::held);
      if (held > 0) AddOthers(site, targets, held, taken, others);
    }
    return others;
  }

  EarlierEvents Run() {
    std::vector<WaitSite> sites = SitesOf(waits_, paths_);
    for (WaitSite& site : sites) {
      std::erase_if(site.waits, [this](uint32_t w) { return waits_[w].decided; });
    }
    std::erase_if(sites, [](const WaitSite& site) { return site.waits.empty(); });
    // Waits that fitted no rule choose first. Of several waits before one piece of work the last is
    // judged first: side streams wait for the stream that they follow, then for an event.
    for (const bool resolved : {false, true}) {
      for (auto site = sites.rbegin(); site != sites.rend(); ++site) {
        if (MostAreResolved(*site) != resolved || Resolve(*site, resolved)) continue;
        const std::vector<WaitSite> rows = targets_.ByRow(*site, paths_);
        if (rows.size() < 2) continue;
        for (auto row = rows.rbegin(); row != rows.rend(); ++row) Resolve(*row, resolved);
      }
    }
    SortEdges(result_.edges);
    std::sort(result_.decided.begin(), result_.decided.end());
    return std::move(result_);
  }

 private:
  bool MostAreResolved(const WaitSite& site) const {
    const auto resolved = std::count_if(site.waits.begin(), site.waits.end(),
                                        [this](uint32_t w) { return waits_[w].resolved; });
    return 2 * static_cast<size_t>(resolved) >= site.waits.size();
  }

  // `nearest`: what the rules found stands unless the very next work contradicts it.
  bool Resolve(const WaitSite& site, bool nearest) {
    std::vector<std::vector<Target>> targets;
    std::vector<LaneIndex> streams;  // that the waits can have held up, the nearest first
    for (const uint32_t w : site.waits) {
      targets.push_back(targets_.Of(w));
      for (Target& t : targets.back()) {
        if (const auto it = explained_.find(t.consumer.value); it != explained_.end()) {
          // What another wait explains is no evidence for this one.
          t.held = t.held && t.begun - it->second > kTight;
          t.late = t.late && t.begun - it->second > kTight;
          t.delayed = t.delayed && t.begun - it->second > kTight;
        }
        const LaneIndex lane = rank_.lane(t.consumer);
        if (std::find(streams.begin(), streams.end(), lane) == streams.end()) {
          streams.push_back(lane);
        }
      }
    }
    if (nearest && streams.size() > 1) streams.resize(1);
    for (const LaneIndex stream : streams) {
      std::vector<Target> on_stream;
      for (const std::vector<Target>& of_wait : targets) {
        for (const Target& t : of_wait) {
          if (rank_.lane(t.consumer) == stream) on_stream.push_back(t);
        }
      }
      const int64_t held = CountHeld(on_stream);
      if (held == 0) continue;
      std::optional<Choice> choice;
      // Calls return after what they waited for, but for what the clocks of CPU and device differ
      // by.
      for (const SimTime noise : {kClockResolution, kClockNoise}) {
        tolerance_ = noise;
        choice = Choose(site, on_stream, held);
        if (choice.has_value() || !site.blocks) break;
      }
      if (!choice.has_value()) continue;
      Take(site, on_stream, *choice);
      return true;
    }
    return deciding_ == Deciding::kAll && !nearest && !site.blocks &&
           JoinWhatIsUnresolved(site, targets);
  }

  // How many of one stream's targets show what they waited for; 0: too few. Where none was held for
  // long, those that were delayed count as held, if they are most.
  static int64_t CountHeld(std::vector<Target>& targets) {
    const auto held = std::ranges::count_if(targets, &Target::held);
    const auto late = std::ranges::count_if(targets, &Target::late);
    if (held > 0) return 2 * held < late ? 0 : held;
    const auto delayed = std::ranges::count_if(targets, &Target::delayed);
    if (2 * delayed <= std::ssize(targets)) return 0;
    for (Target& t : targets) t.held = t.delayed;
    return delayed;
  }

  // What no wait holds up, the replay still has to know: the stream used last that none of the
  // site's waits contradicts.
  bool JoinWhatIsUnresolved(const WaitSite& site, const std::vector<std::vector<Target>>& targets) {
    std::vector<Target> next;
    for (const std::vector<Target>& of_wait : targets) {
      const auto first = std::find_if(of_wait.begin(), of_wait.end(), [this](const Target& t) {
        return !IsCommunicationKind(rank_.kind(t.consumer));
      });
      if (first != of_wait.end()) next.push_back(*first);
    }
    if (next.empty() || std::any_of(next.begin(), next.end(), [](auto& t) { return t.held; })) {
      return false;
    }
    // What came late and is explained by what was found for its wait stays so.
    WaitSite rest = site;
    const auto stays = [this](const Target& t) { return t.late && waits_[t.wait].resolved; };
    for (const Target& t : next) {
      if (stays(t)) std::erase(rest.waits, t.wait);
    }
    tolerance_ = kClockResolution;
    std::optional<Choice> best;
    for (uint32_t lane = 0; lane < rank_.lanes().size(); ++lane) {
      const LaneIndex stream(lane);
      const NodeIndex tail = queues_.TailAt(stream, next.back().waited_at);
      if (!tail.valid() || stream == rank_.lane(next.back().consumer) ||
          IsCommunicationKind(rank_.kind(tail)) || !rank_.launcher(tail).valid()) {
        continue;
      }
      Choice choice{stream, {true, 0, 0}, rank_.start(rank_.launcher(tail)), 0};
      if (!Judge(site, next, choice)) continue;
      if (!best.has_value() || choice.recorded > best->recorded) best = choice;
    }
    std::erase_if(next, stays);
    if (best.has_value()) Take(rest, next, *best);
    return best.has_value();
  }

  const RecordPoints& points(uint32_t timeline) {
    if (points_[timeline] == nullptr) {
      points_[timeline] = std::make_unique<RecordPoints>(rank_, order_.timelines[timeline], paths_);
    }
    return *points_[timeline];
  }

  // The stream and point that explain most of what was held, more than half; the latest of them.
  std::optional<Choice> Choose(const WaitSite& site, const std::vector<Target>& targets,
                               int64_t held) {
    std::optional<Choice> best;
    for (uint32_t lane = 0; lane < rank_.lanes().size(); ++lane) {
      const LaneIndex stream(lane);
      if (queues_.of(stream).empty()) continue;
      if (!site.blocks && stream == rank_.lane(targets.front().consumer)) continue;
      const std::optional<Choice> choice = BestPoint(site, targets, held, stream);
      if (!choice.has_value()) continue;
      if (!best.has_value() || choice->tight > best->tight ||
          (choice->tight == best->tight && choice->recorded > best->recorded)) {
        best = choice;
      }
    }
    return best;
  }

  SimTime Tight(const WaitSite& site) const { return site.blocks ? kTightReturn : kTight; }

  // The stretch of the CPU's time in which an event recorded on the stream explains the target.
  struct Stretch {
    SimTime after;  // the launch of the work that the target followed
    SimTime until;  // the next launch; or the wait
  };
  std::optional<Stretch> Explains(const WaitSite& site, const Target& target,
                                  LaneIndex stream) const {
    const auto& queue = queues_.of(stream);
    const size_t issued = queues_.IssuedBefore(stream, target.waited_at);
    const size_t ended = queues_.EndedBy(stream, target.begun + tolerance_);
    const size_t last = std::min(issued, ended);
    if (last == 0 || target.begun - queue[last - 1].end > Tight(site)) return std::nullopt;
    return Stretch{queue[last - 1].issued, last < issued ? queue[last].issued : target.waited_at};
  }

  std::optional<Choice> BestPoint(const WaitSite& site, const std::vector<Target>& targets,
                                  int64_t held, LaneIndex stream) {
    // The target that leaves the fewest points to choose from.
    std::optional<Stretch> narrowest;
    const Target* reference = nullptr;
    int64_t explained = 0;
    for (const Target& t : targets) {
      if (!t.held) continue;
      const std::optional<Stretch> stretch = Explains(site, t, stream);
      if (!stretch.has_value()) continue;
      ++explained;
      if (!narrowest.has_value() ||
          (stretch->after != SimTime::Min() &&
           (narrowest->after == SimTime::Min() ||
            stretch->until - stretch->after < narrowest->until - narrowest->after))) {
        narrowest = stretch;
        reference = &t;
      }
    }
    if (2 * explained <= held) return std::nullopt;

    std::optional<Choice> best;
    const auto consider = [&](const Boundary& boundary, SimTime at) {
      Choice choice{stream, boundary, at, 0};
      if (!Judge(site, targets, choice) || 2 * choice.tight <= held) return;
      if (!best.has_value() || choice.tight > best->tight) best = choice;
    };
    if (narrowest->until == reference->waited_at) consider({true, 0, 0}, reference->waited_at);
    // Threads wait for what others recorded, too; their own points come first.
    for (uint32_t t = 0; t < points_.size(); ++t) {
      const uint32_t timeline = t == 0 ? site.timeline : t - (t <= site.timeline ? 1 : 0);
      if (best.has_value() && best->tight == held) break;
      const RecordPoints& known = points(timeline);
      const auto& all = known.all();
      auto point =
          std::upper_bound(all.begin(), all.end(), narrowest->until,
                           [](SimTime at, const RecordPoints::Point& p) { return at < p.at; });
      for (size_t tried = 0; point != all.begin() && tried < kMostPoints; ++tried) {
        --point;
        if (point->at <= narrowest->after || (best.has_value() && best->tight == held)) break;
        if (point->at >= reference->waited_at) continue;
        const int64_t between = known.CountBetween(point->key, point->at, reference->waited_at);
        consider({false, point->key, between, timeline}, point->at);
      }
    }
    return best;
  }

  // When the event was recorded that a wait at `at` refers to; none: before the recording.
  std::optional<SimTime> Recorded(const Boundary& boundary, SimTime at) {
    if (boundary.at_wait) return at;
    return points(boundary.timeline).Before(boundary.key, at, boundary.between);
  }

  // Per stream one, the latest that explains most: earlier ones on that stream say less of it.
  void AddOthers(const WaitSite& site, const std::vector<Target>& targets, int64_t held,
                 const std::vector<NodeIndex>& taken, std::vector<OtherReading>& others) {
    uint32_t number = 0;
    tolerance_ = site.blocks ? kClockNoise : kClockResolution;
    for (uint32_t lane = 0; lane < rank_.lanes().size() && number < kMostOtherReadings; ++lane) {
      const LaneIndex stream(lane);
      if (queues_.of(stream).empty()) continue;
      if (!site.blocks && stream == rank_.lane(targets.front().consumer)) continue;
      const std::optional<Choice> choice = BestPoint(site, targets, held, stream);
      if (!choice.has_value()) continue;
      std::vector<OtherReading> readings;
      bool differs = false;
      for (size_t t = 0; t < targets.size(); ++t) {
        const std::optional<SimTime> recorded = Recorded(choice->boundary, targets[t].waited_at);
        if (!recorded.has_value()) continue;
        const NodeIndex producer = queues_.TailAt(stream, *recorded);
        if (!producer.valid()) continue;
        differs = differs || producer != taken[t];
        readings.push_back({number,
                            waits_[targets[t].wait].call,
                            {targets[t].consumer, producer, SyncRule::kEarlierEvent}});
      }
      if (!differs) continue;
      others.insert(others.end(), readings.begin(), readings.end());
      ++number;
    }
  }

  // False when the choice contradicts a target; counts those that it explains.
  bool Judge(const WaitSite& site, const std::vector<Target>& targets, Choice& choice) {
    for (const Target& t : targets) {
      const std::optional<SimTime> recorded = Recorded(choice.boundary, t.waited_at);
      if (!recorded.has_value()) continue;
      const NodeIndex producer = queues_.TailAt(choice.stream, *recorded);
      if (!producer.valid()) continue;
      const SimTime slack = t.begun - rank_.end(producer);
      if (slack < -tolerance_) return false;
      if (t.held && slack <= Tight(site)) ++choice.tight;
    }
    return true;
  }

  void Take(const WaitSite& site, const std::vector<Target>& targets, const Choice& choice) {
    for (const Target& t : targets) {
      const std::optional<SimTime> recorded = Recorded(choice.boundary, t.waited_at);
      if (!recorded.has_value()) continue;
      const NodeIndex producer = queues_.TailAt(choice.stream, *recorded);
      if (!producer.valid()) continue;
      result_.edges.push_back({t.consumer, producer, SyncRule::kEarlierEvent});
      result_.chosen.push_back({waits_[t.wait].call, result_.edges.back()});
      SimTime& explained = explained_.emplace(t.consumer.value, SimTime::Min()).first->second;
      explained = std::max(explained, rank_.end(producer));
    }
    for (const uint32_t w : site.waits) result_.decided.push_back(waits_[w].call);
  }

  const RankTrace& rank_;
  const IssueOrder& order_;
  const Deciding deciding_;
  const std::vector<UnnamedWait>& waits_;
  CallPaths paths_;
  StreamQueues queues_;
  WaitTargets targets_;
  SimTime tolerance_ = kClockResolution;  // by which recorded times may contradict a choice
  std::vector<std::unique_ptr<RecordPoints>> points_;  // by timeline, once needed
  absl::flat_hash_map<uint32_t, SimTime> explained_;   // by consumer, through edges found here
  EarlierEvents result_;
};

}  // namespace

bool EarlierEvents::Decides(NodeIndex call) const {
  return std::binary_search(decided.begin(), decided.end(), call);
}

void EarlierEvents::Add(const EarlierEvents& found) {
  edges.insert(edges.end(), found.edges.begin(), found.edges.end());
  SortEdges(edges);
  chosen.insert(chosen.end(), found.chosen.begin(), found.chosen.end());
  decided.insert(decided.end(), found.decided.begin(), found.decided.end());
  std::ranges::sort(decided);
}

EarlierEvents FindEarlierEvents(const RankTrace& rank, const DeviceIndex& index,
                                const IssueOrder& order, const std::vector<UnnamedWait>& waits,
                                const std::vector<SyncEdge>& device_edges,
                                const std::vector<SyncEdge>& block_edges, Deciding deciding) {
  if (waits.empty()) return {};
  return Search(rank, index, order, waits, device_edges, block_edges, deciding).Run();
}

std::vector<OtherReading> FindOtherReadings(const RankTrace& rank, const DeviceIndex& index,
                                            const IssueOrder& order,
                                            const std::vector<UnnamedWait>& waits,
                                            const std::vector<NodeIndex>& calls,
                                            const std::vector<ChosenEdge>& chosen) {
  static const std::vector<SyncEdge> kNone;
  if (calls.empty()) return {};
  return Search(rank, index, order, waits, kNone, kNone, Deciding::kAll).Others(calls, chosen);
}

}  // namespace foretrace
