#include "simulator/exporters/chakra/comm_view.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "simulator/exporters/chakra/wire_form.h"

namespace foretrace {
namespace {

// ASTRA-sim numbers the streams of group N from N * 1,000,000 on, in 32 bits.
constexpr int32_t kMostNumber = 2000;

std::optional<int32_t> NumberOf(std::string_view name) {
  int32_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  // "007" is another name than "7".
  if (name != std::to_string(number)) return std::nullopt;
  return number;
}

class Viewer {
 public:
  explicit Viewer(const TraceStore& store) : store_(store) {
    for (int32_t r = 0; r < store.world_size(); ++r) all_.push_back(r);
    view_.nodes.resize(store.ranks().size());
  }

  CommView Run() {
    absl::StatusOr<CommunicatorMap> map = MatchCommunicators(store_);
    if (!map.ok()) view_.unmatched_because = std::string(map.status().message());
    const CommunicatorMap known = map.ok() ? *std::move(map) : CommunicatorMap();
    view_.doubts = known.doubts;
    NumberGroups(known);
    AddNodes();
    AddRendezvous(known);
    OrderCommunication(store_, known, view_);
    std::sort(view_.groups.begin(), view_.groups.end(),
              [](const auto& a, const auto& b) { return a.number < b.number; });
    return std::move(view_);
  }

 private:
  using GroupKey = std::pair<std::string, std::vector<int32_t>>;

  const std::vector<int32_t>& Members(const std::vector<int32_t>& ranks) const {
    return ranks.empty() ? all_ : ranks;
  }

  void NumberGroups(const CommunicatorMap& map) {
    std::vector<CommView::Group> open;
    std::set<GroupKey> seen;
    for (const ProcessGroup& group : store_.process_groups()) {
      if (!seen.emplace(group.name, Members(group.ranks)).second) continue;
      open.push_back({0, group.name, Members(group.ranks), true, MatchedBy::kNothing});
    }
    communicator_group_.assign(map.communicators.size(), std::nullopt);
    std::vector<bool> point_to_point(map.communicators.size(), false);
    for (const MatchedRendezvous& r : map.rendezvous) {
      if (r.point_to_point) point_to_point[r.communicator] = true;
    }
    for (size_t c = 0; c < map.communicators.size(); ++c) {
      const MatchedCommunicator& communicator = map.communicators[c];
      if (point_to_point[c]) continue;
      const auto same = [&](const CommView::Group& g) {
        return g.declared && g.ranks == communicator.ranks && g.name == communicator.name;
      };
      auto at = std::find_if(open.begin(), open.end(), same);
      if (at == open.end() || !communicator.declared) {
        open.push_back({0, communicator.name, communicator.ranks, communicator.declared,
                        communicator.matched_by});
        at = open.end() - 1;
      }
      at->matched_by = communicator.matched_by;
      communicator_group_[c] = static_cast<int32_t>(at - open.begin());
    }
    GiveNumbers(open);
    for (std::optional<int32_t>& group : communicator_group_) {
      if (group.has_value()) group = open[static_cast<size_t>(*group)].number;
    }
    for (CommView::Group& group : open) {
      if (group.declared) declared_.emplace(group.number);
      if (group.number != CommView::kAllRanks) view_.groups.push_back(std::move(group));
    }
  }

  // Names that are numbers stay, where they are free; others get the numbers after the greatest.
  void GiveNumbers(std::vector<CommView::Group>& open) const {
    std::set<int32_t> used;
    std::vector<CommView::Group*> rest;
    for (CommView::Group& group : open) {
      const std::optional<int32_t> own = group.declared ? NumberOf(group.name) : std::nullopt;
      const bool means_all = group.declared && (group.name == "0" || group.name.empty());
      if (means_all && group.ranks == all_) {
        group.number = CommView::kAllRanks;
      } else if (own.has_value() && *own > 0 && *own <= kMostNumber && used.insert(*own).second) {
        group.number = *own;
      } else {
        rest.push_back(&group);
      }
    }
    int32_t next = used.empty() ? 1 : *used.rbegin() + 1;
    for (CommView::Group* group : rest) group->number = next++;
  }

  // The number of the declared group that the node names and its rank is in.
  std::optional<int32_t> DeclaredGroup(const RankTrace& rank, const CommAttr& comm) const {
    if (!comm.group.valid()) return std::nullopt;
    const std::string name(store_.strings().Get(comm.group));
    for (const CommView::Group& group : view_.groups) {
      if (!group.declared || group.name != name) continue;
      if (std::find(group.ranks.begin(), group.ranks.end(), rank.info().rank) !=
          group.ranks.end()) {
        return group.number;
      }
    }
    if (declared_.contains(CommView::kAllRanks) && (name.empty() || name == "0")) {
      return CommView::kAllRanks;
    }
    return std::nullopt;
  }

  void AddNodes() {
    for (uint32_t r = 0; r < store_.ranks().size(); ++r) {
      const RankTrace& rank = store_.ranks()[r];
      absl::flat_hash_map<uint32_t, std::optional<int32_t>> known;  // by the name's id
      for (uint32_t i = 0; i < rank.size(); ++i) {
        const NodeIndex n(i);
        const CommAttr* comm = rank.comm(n);
        if (!IsCommunicationKind(rank.kind(n)) || comm == nullptr) continue;
        CommView::Node node;
        if (comm->group.valid()) {
          const auto [at, first] = known.emplace(comm->group.value, std::nullopt);
          if (first) at->second = DeclaredGroup(rank, *comm);
          node.group = at->second;
        }
        node.bytes = SizeForOthers(*comm);
        // Where nothing could be matched the files are left as they are.
        node.partnered = !view_.unmatched_because.empty();
        view_.nodes[r].emplace(i, std::move(node));
      }
    }
  }

  void AddRendezvous(const CommunicatorMap& map) {
    for (const MatchedRendezvous& rendezvous : map.rendezvous) {
      // Partners of a declared group may be converted elsewhere.
      const MatchedCommunicator& communicator = map.communicators[rendezvous.communicator];
      const size_t partners = communicator.declared ? communicator.ranks.size() : 0;
      if (std::max(partners, rendezvous.members.size()) < 2) continue;
      Bytes largest;
      bool unequal = false, complete = true;
      for (const MatchedRendezvous::Member& m : rendezvous.members) {
        const auto at = view_.nodes[m.rank].find(m.node.value);
        complete = complete && at != view_.nodes[m.rank].end();
        if (!complete) break;
        const CommAttr& comm = *store_.ranks()[m.rank].comm(m.node);
        Bytes size = at->second.bytes;
        // Unequal splits: the paper's size of such an exchange, the most that any rank sends or
        // receives.
        if (IsAllToAll(m)) size = std::max(comm.bytes_in, comm.bytes_out);
        unequal |= largest.count() > 0 && size != largest;
        largest = std::max(largest, size);
      }
      if (!complete) continue;
      const std::optional<int32_t> group = communicator_group_[rendezvous.communicator];
      for (const MatchedRendezvous::Member& m : rendezvous.members) {
        CommView::Node& node = view_.nodes[m.rank][m.node.value];
        node.partnered = HasForm(store_.ranks()[m.rank], m.node);
        node.bytes = largest;
        if (rendezvous.point_to_point) continue;
        node.of_recording =
            node.group == group && store_.ranks()[m.rank].comm(m.node)->group.valid();
        node.group = group;
      }
      const MatchedRendezvous::Member& first = rendezvous.members.front();
      if (rendezvous.point_to_point || !HasForm(store_.ranks()[first.rank], first.node)) continue;
      ++view_.collectives;
      view_.unequal_sizes += unequal ? 1 : 0;
    }
    for (const auto& nodes : view_.nodes) {
      for (const auto& [n, node] : nodes) view_.replayed += node.partnered ? 0 : 1;
    }
  }

  static bool HasForm(const RankTrace& rank, NodeIndex n) {
    return chakra_wire::TypeInSchema(rank, n) != chakra_wire::COMP_NODE;
  }

  bool IsAllToAll(const MatchedRendezvous::Member& m) const {
    const RankTrace& rank = store_.ranks()[m.rank];
    return rank.kind(m.node) == NodeKind::kCollective &&
           rank.collective_op(m.node) == CollectiveOp::kAllToAll;
  }

  const TraceStore& store_;
  std::vector<int32_t> all_;
  CommView view_;
  std::vector<std::optional<int32_t>>
      communicator_group_;  // position, then number; none: transfers
  std::set<int32_t> declared_;
};

}  // namespace

Bytes SizeForOthers(const CommAttr& comm) {
  return comm.bytes_in.count() > 0 ? comm.bytes_in : comm.bytes_out;
}

CommView ViewCommunication(const TraceStore& store) { return Viewer(store).Run(); }

}  // namespace foretrace
