#include "simulator/replay/link_loads.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "simulator/base/real_quantities.h"
#include "simulator/engine/transfer_spec.h"
#include "simulator/network/link_loads.h"
#include "simulator/network/transfer_planner.h"

namespace foretrace {
namespace {

using BytesOfLinks = std::map<LinkId, RealBytes>;

class LoadFinder {
 public:
  LoadFinder(const EventTable& table, const Prediction& prediction, const Topology& topology)
      : table_(table),
        map_(prediction.job.communicators),
        topology_(topology),
        planner_(topology, NetworkOptions()) {}

  LinkLoads Find() {
    LinkLoads loads;
    for (const auto& [rendezvous, at] : Transfers()) {
      if (at.second <= at.first) continue;
      const BytesOfLinks* bytes = Of(rendezvous);
      if (bytes == nullptr) {
        ++loads.left_out;
        continue;
      }
      for (const auto& [link, sent] : *bytes) {
        const double share = sent / RealSeconds(at.second - at.first) / topology_.link_rate(link);
        uses_[link].push_back({at.first, at.second, share});
        bytes_[link] += sent;
      }
    }
    loads.used = static_cast<int64_t>(uses_.size());
    for (const LinkId link : Busiest()) {
      loads.links.push_back({topology_.LinkName(link), std::move(uses_.at(link))});
    }
    return loads;
  }

 private:
  using Times = std::pair<SimTime, SimTime>;

  // From the last arrival to the last end.
  std::map<uint32_t, Times> Transfers() const {
    std::map<uint32_t, Times> transfers;
    for (RankIndex r = 0; r < table_.rank_count(); ++r) {
      for (const ExecutedNode& e : table_.events(r)) {
        if (e.rendezvous >= map_.rendezvous.size()) continue;
        const auto [at, added] = transfers.try_emplace(e.rendezvous, Times(e.active_start, e.end));
        if (added) continue;
        at->second.first = std::max(at->second.first, e.active_start);
        at->second.second = std::max(at->second.second, e.end);
      }
    }
    return transfers;
  }

  // Null: no size, or no plan.
  const BytesOfLinks* Of(uint32_t rendezvous) {
    const MatchedRendezvous& matched = map_.rendezvous[rendezvous];
    absl::StatusOr<TransferSpec> spec =
        TransferOf(table_.store(), map_.communicators[matched.communicator], matched);
    if (!spec.ok()) return nullptr;
    const Key key(spec->op, spec->point_to_point, spec->bytes.count(), spec->members,
                  spec->split_bytes);
    const auto [at, added] = known_.try_emplace(key);
    if (added) at->second = Route(*spec);
    return at->second.has_value() ? &*at->second : nullptr;
  }

  std::optional<BytesOfLinks> Route(const TransferSpec& spec) {
    constexpr int64_t kMostMessages = 2'000'000;
    const absl::StatusOr<TransferPlan> plan = planner_.Plan(spec);
    if (!plan.ok() || plan->schedule->flows() > kMostMessages) return std::nullopt;
    BytesOfLinks bytes;
    WalkRoutes(topology_, *plan, [&](LinkId link, RealBytes sent) { bytes[link] += sent; });
    return bytes;
  }

  std::vector<LinkId> Busiest() const {
    std::vector<LinkId> links;
    for (const auto& [link, bytes] : bytes_) links.push_back(link);
    std::stable_sort(links.begin(), links.end(),
                     [this](LinkId a, LinkId b) { return bytes_.at(a) > bytes_.at(b); });
    links.resize(std::min(links.size(), kMostLinks));
    std::ranges::sort(links);
    return links;
  }

  using Key = std::tuple<CollectiveOp, bool, int64_t, std::vector<int32_t>, std::vector<int64_t>>;

  const EventTable& table_;
  const CommunicatorMap& map_;
  const Topology& topology_;
  TransferPlanner planner_;
  std::map<Key, std::optional<BytesOfLinks>> known_;
  std::map<LinkId, std::vector<LinkUse>> uses_;
  BytesOfLinks bytes_;
};

}  // namespace

LinkLoads FindLinkLoads(const EventTable& table, const Prediction& prediction,
                        const Topology& topology) {
  return LoadFinder(table, prediction, topology).Find();
}

}  // namespace foretrace
