#include "simulator/reconstruct/graph_branches.h"

#include <algorithm>
#include <map>
#include <utility>

#include "simulator/reconstruct/clock_noise.h"

namespace foretrace {
namespace {

constexpr SimTime kTight = SimTime::FromNs(10'000);
// More streams than graphs in use have; what is tried grows with their number.
constexpr size_t kMostStreams = 64;

// The work of one launch, stream by stream, in order of start.
using Launch = std::vector<NodeIndex>;
// Stream and name of each piece of it.
using Shape = std::vector<std::pair<uint32_t, uint32_t>>;

// All launches of one graph; the k-th work of each is the same.
class Graph {
 public:
  Graph(const RankTrace& rank, const std::vector<Launch>& launches)
      : rank_(rank), launches_(launches) {
    const Launch& first = launches.front();
    for (uint32_t i = 0; i < first.size(); ++i) {
      if (i == 0 || rank.lane(first[i]) != rank.lane(first[i - 1])) begin_.push_back(i);
    }
    begin_.push_back(static_cast<uint32_t>(first.size()));
  }

  size_t streams() const { return begin_.size() - 1; }

  void AddEdges(std::vector<SyncEdge>& edges) const {
    for (size_t s = 0; s < streams(); ++s) {
      for (uint32_t work = begin_[s]; work < begin_[s + 1]; ++work) {
        for (size_t other = 0; other < streams(); ++other) {
          if (other == s) continue;
          const uint32_t ended = EndedInAll(other, work);
          if (ended == 0) continue;
          const uint32_t producer = begin_[other] + ended - 1;
          if (!HeldUp(work, work > begin_[s], producer)) continue;
          for (const Launch& launch : launches_) {
            edges.push_back({launch[work], launch[producer], SyncRule::kGraphBranch});
          }
        }
      }
    }
  }

 private:
  // How many of a stream's work had ended in every launch when `work` began.
  uint32_t EndedInAll(size_t stream, uint32_t work) const {
    uint32_t ended = begin_[stream + 1] - begin_[stream];
    for (const Launch& launch : launches_) {
      const auto first = launch.begin() + begin_[stream];
      const SimTime start = rank_.start(launch[work]);
      // Work of one stream ends in order.
      const auto last = std::upper_bound(
          first, first + ended, start,
          [this](SimTime t, NodeIndex n) { return t + kClockResolution < rank_.end(n); });
      ended = static_cast<uint32_t>(last - first);
    }
    return ended;
  }

  bool HeldUp(uint32_t work, bool has_previous, uint32_t producer) const {
    size_t held = 0;
    for (const Launch& launch : launches_) {
      const SimTime end = rank_.end(launch[producer]);
      if (rank_.start(launch[work]) - end > kTight) continue;
      if (has_previous && end <= rank_.end(launch[work - 1])) continue;
      ++held;
    }
    return 2 * held > launches_.size();
  }

  const RankTrace& rank_;
  const std::vector<Launch>& launches_;
  std::vector<uint32_t> begin_;  // of each stream's work, and the end
};

}  // namespace

bool LaunchesBranches(const RankTrace& rank, const DeviceIndex& index, NodeIndex call) {
  if (rank.runtime_call(call) != RuntimeCall::kGraphLaunch) return false;
  const auto issued = index.issued_by(call);
  return std::any_of(issued.begin(), issued.end(),
                     [&](NodeIndex n) { return rank.lane(n) != rank.lane(issued.front()); });
}

std::vector<SyncEdge> FindGraphBranches(const RankTrace& rank, const DeviceIndex& index) {
  std::map<Shape, std::vector<Launch>> graphs;
  for (uint32_t i = 0; i < rank.size(); ++i) {
    const NodeIndex call(i);
    if (rank.kind(call) != NodeKind::kRuntimeCall || !LaunchesBranches(rank, index, call)) continue;
    const auto issued = index.issued_by(call);
    Launch launch(issued.begin(), issued.end());
    std::stable_sort(launch.begin(), launch.end(),
                     [&](NodeIndex a, NodeIndex b) { return rank.lane(a) < rank.lane(b); });
    Shape shape;
    shape.reserve(launch.size());
    for (const NodeIndex n : launch) shape.emplace_back(rank.lane(n).value, rank.name(n).value);
    graphs[std::move(shape)].push_back(std::move(launch));
  }
  std::vector<SyncEdge> edges;
  for (const auto& [shape, launches] : graphs) {
    const Graph graph(rank, launches);
    if (graph.streams() <= kMostStreams) graph.AddEdges(edges);
  }
  SortEdges(edges);
  return edges;
}

}  // namespace foretrace
