#include "simulator/network/link_loads.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <utility>

#include "simulator/base/error.h"

namespace foretrace {
namespace {

constexpr int64_t kMostMessages = 50'000'000;

// The numbers of levels and dimensions tell links apart that are not alike.
std::string KindOf(std::string_view name) {
  std::string kind;
  for (size_t i = 0; i < name.size(); ++i) {
    if (std::isdigit(static_cast<unsigned char>(name[i])) == 0) {
      kind += name[i];
    } else if (kind.ends_with("switch") || kind.ends_with("dim")) {
      while (i < name.size() && std::isdigit(static_cast<unsigned char>(name[i])) != 0)
        kind += name[i++];
      --i;
    } else if (!kind.ends_with('*')) {
      kind += '*';
    }
  }
  return kind;
}

}  // namespace

void WalkRoutes(const Topology& topology, const TransferPlan& plan,
                absl::FunctionRef<void(LinkId link, RealBytes bytes)> carry) {
  const CollectiveSchedule& schedule = *plan.schedule;
  std::vector<Send> sends;
  Route route;
  for (int32_t rank = 0; rank < schedule.ranks(); ++rank) {
    for (int32_t lane = 0; lane < schedule.lanes(); ++lane) {
      for (int32_t step = schedule.NextStep(rank, lane, 0); step < schedule.steps();
           step = schedule.NextStep(rank, lane, step + 1)) {
        sends.clear();
        schedule.Sends(rank, lane, step, sends);
        for (const Send& send : sends) {
          if (send.bytes <= RealBytes()) continue;
          topology.FindRoute(plan.devices[static_cast<size_t>(rank)],
                             plan.devices[static_cast<size_t>(send.to)], route);
          for (const LinkId link : route.links) carry(link, send.bytes);
        }
      }
    }
  }
}

absl::StatusOr<std::vector<LinkKindLoad>> LoadsByKind(const Topology& topology,
                                                      const TransferPlan& plan) {
  if (plan.schedule == nullptr) return std::vector<LinkKindLoad>();
  if (plan.schedule->flows() > kMostMessages) {
    return Infeasible("--links: {} messages are too many to follow one by one; ask for fewer ranks",
                      plan.schedule->flows());
  }
  std::vector<RealBytes> bytes(topology.link_count());
  WalkRoutes(topology, plan,
             [&](LinkId link, RealBytes sent) { bytes[link] += sent * plan.payload; });
  std::map<std::pair<std::string, Bandwidth>, LinkKindLoad> kinds;
  for (LinkId link = 0; link < bytes.size(); ++link) {
    if (bytes[link] <= RealBytes()) continue;
    const Bandwidth rate = topology.link_rate(link);
    std::string kind = KindOf(topology.LinkName(link));
    LinkKindLoad& load = kinds[{kind, rate}];
    load.kind = std::move(kind);
    load.rate = rate;
    ++load.links;
    load.most = std::max(load.most, bytes[link]);
    load.all += bytes[link];
  }
  std::vector<LinkKindLoad> loads;
  for (auto& [key, load] : kinds) loads.push_back(std::move(load));
  std::ranges::stable_sort(loads, std::greater<>(), [](const LinkKindLoad& load) {
    return load.busy(SimTime::FromSeconds(1));
  });
  return loads;
}

}  // namespace foretrace
