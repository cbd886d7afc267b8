// Orders in which ranks can run their communication without waiting for each other in a circle.
#include <algorithm>
#include <queue>
#include <utility>

#include "simulator/exporters/chakra/comm_view.h"
#include "simulator/exporters/chakra/wire_form.h"

namespace foretrace {
namespace {

constexpr uint32_t kNone = 0xffffffffu;

// All files at once, the members of a collective or transfer as one node.
class CommonOrder {
 public:
  CommonOrder(const TraceStore& store, const CommunicatorMap& map, const CommView& view)
      : store_(store), map_(map), open_members_(map.rendezvous.size(), 0) {
    for (const RankTrace& rank : store.ranks()) {
      operation_.emplace_back(rank.size(), kNone);
      open_.emplace_back(rank.size(), 0);
      successors_.emplace_back(rank.size());
      AddEdges(static_cast<uint32_t>(successors_.size() - 1));
    }
    for (uint32_t k = 0; k < map.rendezvous.size(); ++k) {
      for (const MatchedRendezvous::Member& m : map.rendezvous[k].members) {
        const CommView::Node* node = view.Find(m.rank, m.node);
        if (node == nullptr || !node->partnered) continue;
        operation_[m.rank][m.node.value] = k;
        ++open_members_[k];
      }
    }
  }

  // Operations in an order that agrees with every file, early ends first. Those that exclude each
  // other are left out.
  std::vector<uint32_t> Find() {
    for (uint32_t r = 0; r < open_.size(); ++r) {
      for (uint32_t n = 0; n < open_[r].size(); ++n) {
        if (open_[r][n] == 0) Begin(r, n);
      }
    }
    std::vector<uint32_t> order;
    while (true) {
      while (!plain_.empty()) {
        const auto [r, n] = plain_.back();
        plain_.pop_back();
        Finish(r, n);
      }
      if (ready_.empty()) return order;
      const uint32_t k = ready_.top().second;
      ready_.pop();
      order.push_back(k);
      for (const MatchedRendezvous::Member& m : map_.rendezvous[k].members) {
        if (operation_[m.rank][m.node.value] == k) Finish(m.rank, m.node.value);
      }
    }
  }

 private:
  void AddEdges(uint32_t r) {
    const RankTrace& rank = store_.ranks()[r];
    std::vector<NodeIndex> last_on_lane(rank.lanes().size());
    std::vector<NodeIndex> producers;
    for (uint32_t i = 0; i < rank.size(); ++i) {
      const NodeIndex n(i);
      producers.clear();
      NodeIndex& previous = last_on_lane[rank.lane(n).value];
      chakra_wire::AddIssueOrder(rank, n, previous, producers);
      for (const Dependency& d : rank.dependencies(n)) {
        if (chakra_wire::IsVisible(rank, n, d.producer)) producers.push_back(d.producer);
      }
      previous = n;
      for (const NodeIndex p : producers) successors_[r][p.value].push_back(i);
      open_[r][i] = static_cast<uint32_t>(producers.size());
    }
  }

  void Begin(uint32_t r, uint32_t n) {
    const uint32_t k = operation_[r][n];
    if (k == kNone) {
      plain_.emplace_back(r, n);
    } else if (--open_members_[k] == 0) {
      ready_.emplace(End(k), k);
    }
  }

  void Finish(uint32_t r, uint32_t n) {
    for (const uint32_t next : successors_[r][n]) {
      if (--open_[r][next] == 0) Begin(r, next);
    }
  }

  SimTime End(uint32_t k) const {
    SimTime end = SimTime::Min();
    for (const MatchedRendezvous::Member& m : map_.rendezvous[k].members) {
      const RankTrace& rank = store_.ranks()[m.rank];
      end = std::max(end, rank.has_duration(m.node) ? rank.end(m.node) : rank.start(m.node));
    }
    return end;
  }

  using Entry = std::pair<SimTime, uint32_t>;
  const TraceStore& store_;
  const CommunicatorMap& map_;
  std::vector<uint32_t> open_members_;            // by operation
  std::vector<std::vector<uint32_t>> operation_;  // by rank and node; kNone: none
  std::vector<std::vector<uint32_t>> open_;       // producers that have not run
  std::vector<std::vector<std::vector<uint32_t>>> successors_;
  std::vector<std::pair<uint32_t, uint32_t>> plain_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready_;
};

// Every operation of a rank after the one before it in `order`; with `by_group`, after the one
// before it in its group.
void Chain(const CommunicatorMap& map, const std::vector<uint32_t>& order, bool by_group,
           CommView& view) {
  struct Last {
    uint32_t operation = kNone;
    std::vector<NodeIndex> nodes;
    std::vector<NodeIndex> before;
  };
  absl::flat_hash_map<std::pair<uint32_t, uint32_t>, Last> lasts;  // by rank and communicator
  for (const uint32_t k : order) {
    const MatchedRendezvous& rendezvous = map.rendezvous[k];
    for (const MatchedRendezvous::Member& m : rendezvous.members) {
      const auto at = view.nodes[m.rank].find(m.node.value);
      if (at == view.nodes[m.rank].end() || !at->second.partnered) continue;
      if (by_group && rendezvous.point_to_point) continue;
      Last& last = lasts[{m.rank, by_group ? rendezvous.communicator : 0}];
      // Of a rank's several nodes of one operation none waits for another.
      if (last.operation != k) {
        last.operation = k;
        last.before = std::exchange(last.nodes, {});
      }
      at->second.after = last.before;
      last.nodes.push_back(m.node);
    }
  }
}

}  // namespace

void OrderCommunication(const TraceStore& store, const CommunicatorMap& map, CommView& view) {
  if (map.rendezvous.empty()) return;
  const bool recorded = std::all_of(store.ranks().begin(), store.ranks().end(),
                                    [](const RankTrace& rank) { return rank.info().has_times; });
  const std::vector<uint32_t> order = CommonOrder(store, map, view).Find();
  const auto operations = std::ranges::count_if(map.rendezvous, [&](const MatchedRendezvous& r) {
    const CommView::Node* node = view.Find(r.members.front().rank, r.members.front().node);
    return node != nullptr && node->partnered;
  });
  view.contradictory = operations - static_cast<int64_t>(order.size());
  Chain(map, order, !recorded, view);
}

}  // namespace foretrace
