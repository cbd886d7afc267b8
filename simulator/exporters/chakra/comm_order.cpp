// Orders in which ranks can run their communication without waiting for each other in a circle.
#include <algorithm>
#include <queue>
#include <utility>

#include "simulator/exporters/chakra/comm_view.h"
#include "simulator/exporters/chakra/wire_form.h"

namespace foretrace {
namespace {

constexpr uint32_t kNone = 0xffffffffu;

// Of one rank: for every communication, the operations that it follows in the exported file.
class Precedence {
 public:
  // `operation`: of each node that communicates, which.
  Precedence(const RankTrace& rank, const absl::flat_hash_map<uint32_t, uint32_t>& operation)
      : rank_(rank), operation_(operation), stream_of_lane_(rank.lanes().size(), kNone) {
    for (const auto& [n, op] : operation_) {
      uint32_t& stream = stream_of_lane_[rank_.lane(NodeIndex(n)).value];
      if (stream == kNone) stream = streams_++;
    }
    on_stream_.resize(streams_);
  }

  // Calls `found(before, after)`. What precedes a node is, for each stream that communicates, up to
  // which of its operations: rows are in topological order and streams run in order.
  template <typename Found>
  void ForEach(Found found) {
    std::vector<uint32_t> reached(size_t{rank_.size()} * streams_, 0);  // counts
    std::vector<NodeIndex> last_on_lane(rank_.lanes().size());
    std::vector<NodeIndex> producers;
    for (uint32_t i = 0; i < rank_.size(); ++i) {
      const NodeIndex n(i);
      producers.clear();
      NodeIndex& previous = last_on_lane[rank_.lane(n).value];
      chakra_wire::AddIssueOrder(rank_, n, previous, producers);
      for (const Dependency& d : rank_.dependencies(n)) {
        if (chakra_wire::IsVisible(rank_, n, d.producer)) producers.push_back(d.producer);
      }
      previous = n;
      uint32_t* own = reached.data() + size_t{i} * streams_;
      for (const NodeIndex p : producers) {
        const uint32_t* other = reached.data() + size_t{p.value} * streams_;
        for (uint32_t s = 0; s < streams_; ++s) own[s] = std::max(own[s], other[s]);
      }
      const auto at = operation_.find(i);
      if (at == operation_.end()) continue;
      for (uint32_t s = 0; s < streams_; ++s) {
        if (own[s] > 0) found(on_stream_[s][own[s] - 1], at->second);
      }
      const uint32_t stream = stream_of_lane_[rank_.lane(n).value];
      on_stream_[stream].push_back(at->second);
      own[stream] = static_cast<uint32_t>(on_stream_[stream].size());
    }
  }

 private:
  const RankTrace& rank_;
  const absl::flat_hash_map<uint32_t, uint32_t>& operation_;
  std::vector<uint32_t> stream_of_lane_;
  uint32_t streams_ = 0;
  std::vector<std::vector<uint32_t>> on_stream_;  // operations in order
};

// Operations in an order that agrees with what every rank's file implies, early ends first. Those
// that exclude each other are left out.
std::vector<uint32_t> CommonOrder(const TraceStore& store, const CommunicatorMap& map,
                                  const CommView& view) {
  const auto count = static_cast<uint32_t>(map.rendezvous.size());
  std::vector<absl::flat_hash_map<uint32_t, uint32_t>> operation(store.ranks().size());
  std::vector<SimTime> end(count, SimTime::Min());
  for (uint32_t k = 0; k < count; ++k) {
    for (const MatchedRendezvous::Member& m : map.rendezvous[k].members) {
      const CommView::Node* node = view.Find(m.rank, m.node);
      if (node == nullptr || !node->partnered) continue;
      operation[m.rank].emplace(m.node.value, k);
      const RankTrace& rank = store.ranks()[m.rank];
      const SimTime at = rank.has_duration(m.node) ? rank.end(m.node) : rank.start(m.node);
      end[k] = std::max(end[k], at);
    }
  }
  std::vector<std::vector<uint32_t>> successors(count);
  std::vector<uint32_t> open(count, 0);
  for (uint32_t r = 0; r < store.ranks().size(); ++r) {
    Precedence(store.ranks()[r], operation[r]).ForEach([&](uint32_t before, uint32_t after) {
      if (before == after) return;
      successors[before].push_back(after);
      ++open[after];
    });
  }
  using Entry = std::pair<SimTime, uint32_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
  for (uint32_t k = 0; k < count; ++k) {
    if (open[k] == 0) ready.emplace(end[k], k);
  }
  std::vector<uint32_t> order;
  while (!ready.empty()) {
    const uint32_t k = ready.top().second;
    ready.pop();
    order.push_back(k);
    for (const uint32_t next : successors[k]) {
      if (--open[next] == 0) ready.emplace(end[next], next);
    }
  }
  return order;
}

// Every operation of a rank after the one before it in `order`.
void Chain(const CommunicatorMap& map, const std::vector<uint32_t>& order, CommView& view) {
  std::vector<std::vector<NodeIndex>> last(view.nodes.size());
  std::vector<uint32_t> operation_of_last(view.nodes.size(), kNone);
  std::vector<std::vector<NodeIndex>> before_last(view.nodes.size());
  for (const uint32_t k : order) {
    for (const MatchedRendezvous::Member& m : map.rendezvous[k].members) {
      const auto at = view.nodes[m.rank].find(m.node.value);
      if (at == view.nodes[m.rank].end() || !at->second.partnered) continue;
      // Of a rank's several nodes of one operation none waits for another.
      if (operation_of_last[m.rank] != k) {
        operation_of_last[m.rank] = k;
        before_last[m.rank] = std::exchange(last[m.rank], {});
      }
      at->second.after = before_last[m.rank];
      last[m.rank].push_back(m.node);
    }
  }
}

// Whether the rank's file has no circle with what its communication comes after.
bool IsAcyclic(const RankTrace& rank, const absl::flat_hash_map<uint32_t, CommView::Node>& nodes) {
  std::vector<std::vector<uint32_t>> successors(rank.size());
  std::vector<uint32_t> open(rank.size(), 0);
  const auto add = [&](NodeIndex from, uint32_t to) {
    successors[from.value].push_back(to);
    ++open[to];
  };
  for (uint32_t i = 0; i < rank.size(); ++i) {
    for (const Dependency& d : rank.dependencies(NodeIndex(i))) add(d.producer, i);
  }
  for (const auto& [n, node] : nodes) {
    for (const NodeIndex before : node.after) add(before, n);
  }
  std::vector<uint32_t> ready;
  for (uint32_t i = 0; i < rank.size(); ++i) {
    if (open[i] == 0) ready.push_back(i);
  }
  size_t done = 0;
  for (; !ready.empty(); ++done) {
    const uint32_t n = ready.back();
    ready.pop_back();
    for (const uint32_t next : successors[n]) {
      if (--open[next] == 0) ready.push_back(next);
    }
  }
  return done == rank.size();
}

// In order of rows, which is how members were matched.
void ChainByGroup(const TraceStore& store, CommView& view) {
  for (uint32_t r = 0; r < store.ranks().size(); ++r) {
    std::vector<uint32_t> rows;
    for (const auto& [n, node] : view.nodes[r]) {
      const bool collective = store.ranks()[r].kind(NodeIndex(n)) == NodeKind::kCollective;
      if (collective && node.partnered && node.group.has_value()) rows.push_back(n);
    }
    std::sort(rows.begin(), rows.end());
    absl::flat_hash_map<int32_t, NodeIndex> last;  // by group
    for (const uint32_t n : rows) {
      CommView::Node& node = view.nodes[r][n];
      NodeIndex& previous = last[*node.group];
      if (previous.valid()) node.after = {previous};
      previous = NodeIndex(n);
    }
    if (IsAcyclic(store.ranks()[r], view.nodes[r])) continue;
    for (const uint32_t n : rows) view.nodes[r][n].after.clear();
    view.contradictory += static_cast<int64_t>(rows.size());
  }
}

}  // namespace

void OrderCommunication(const TraceStore& store, const CommunicatorMap& map, CommView& view) {
  if (map.rendezvous.empty()) return;
  const bool recorded = std::all_of(store.ranks().begin(), store.ranks().end(),
                                    [](const RankTrace& rank) { return rank.info().has_times; });
  if (!recorded) {
    ChainByGroup(store, view);
    return;
  }
  const std::vector<uint32_t> order = CommonOrder(store, map, view);
  view.contradictory = static_cast<int64_t>(map.rendezvous.size() - order.size());
  Chain(map, order, view);
}

}  // namespace foretrace
