#include "simulator/planning/mappings/platform_exchanges.h"

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "simulator/base/status_macros.h"
#include "simulator/network/communicator.h"
#include "simulator/network/fitted_network.h"
#include "simulator/topology/platform_loader.h"

namespace foretrace {
namespace {

// The platform as each device finds it while all use it alike: an even share of its node's NICs.
PlatformSpec WithSharedNics(PlatformSpec spec) {
  NodeSpec& node = spec.node;
  const int32_t n = node.devices;
  if (node.nics == 0 || node.nics >= n || spec.fabric.link == kNoLinkType) return spec;
  if (spec.fabric.kind == FabricKind::kDimensions || spec.fabric.kind == FabricKind::kDragonfly) {
    return spec;
  }
  LinkType share = spec.links[static_cast<size_t>(spec.fabric.link)];
  share.bandwidth = Bandwidth::BytesPerSecond(share.bandwidth.bytes_per_second() * node.nics / n);
  spec.fabric.link = static_cast<LinkTypeIndex>(spec.links.size());
  spec.links.push_back(std::move(share));
  if (spec.fabric.kind == FabricKind::kFatTree && !spec.fabric.levels.empty()) {
    spec.fabric.levels.front().radix *= (n + node.nics - 1) / node.nics;
  }
  node.nics = n;
  node.nic_affinity.resize(static_cast<size_t>(n));
  for (int32_t i = 0; i < n; ++i) node.nic_affinity[static_cast<size_t>(i)] = i;
  return spec;
}

// As many nodes; beyond what the fabric is built for, all on one switch.
PlatformSpec Grown(const PlatformSpec& spec, int32_t nodes) {
  if (absl::StatusOr<PlatformSpec> larger = WithNodes(spec, nodes); larger.ok()) {
    return *std::move(larger);
  }
  PlatformSpec flat = spec;
  flat.nodes = nodes;
  const LinkTypeIndex link = flat.fabric.link;
  flat.fabric = FabricSpec();
  flat.fabric.kind = FabricKind::kSwitch;
  flat.fabric.link = link;
  flat.placement = Placement::kBlock;
  return flat;
}

class PlatformExchanges : public ExchangeTimes {
 public:
  explicit PlatformExchanges(PlatformSpec spec) : spec_(std::move(spec)) {}

  absl::StatusOr<SimTime> Collective(CollectiveOp op, SpacedGroup group,
                                     Bytes bytes) const override {
    if (group.ranks < 2) return SimTime();
    return Known({op, group.ranks, group.span, bytes.count()}, [&] {
      TransferSpec transfer = Members(group, bytes);
      transfer.op = op;
      return transfer;
    });
  }

  absl::StatusOr<int32_t> Channels(CollectiveOp op, SpacedGroup group) const override {
    if (group.ranks < 2) return 0;
    const std::tuple key(op, group.ranks, group.span);
    {
      const std::shared_lock lock(mutex_);
      if (const auto it = channels_.find(key); it != channels_.end()) return it->second;
    }
    const TransferSpec transfer = Members(group, Bytes());
    const std::unique_lock lock(mutex_);
    FORETRACE_ASSIGN_OR_RETURN(Network * network, NetworkOf(transfer.members.back() + 1));
    FORETRACE_ASSIGN_OR_RETURN(const auto communicator,
                               network->communicators.Get(transfer.members));
    return channels_[key] =
               HeldChannels(*communicator, network->topology.spec(), op, transfer.dtype);
  }

  absl::StatusOr<SimTime> Send(int32_t distance, Bytes bytes) const override {
    return Known({CollectiveOp::kUnknown, 2, distance, bytes.count()}, [&] {
      TransferSpec transfer = Members({2, distance}, bytes);
      transfer.point_to_point = true;
      return transfer;
    });
  }

 private:
  using Key = std::tuple<CollectiveOp, int32_t, int32_t, int64_t>;
  struct Network {
    Topology topology;
    FittedNetwork times;
    CommunicatorCache communicators;
    explicit Network(Topology t)
        : topology(std::move(t)),
          times(topology, NetworkOptions(), FittedNetwork::Measured()),
          communicators(topology) {}
  };

  static TransferSpec Members(SpacedGroup group, Bytes bytes) {
    TransferSpec transfer;
    transfer.members.resize(static_cast<size_t>(group.ranks));
    for (int32_t r = 0; r < group.ranks; ++r) {
      transfer.members[static_cast<size_t>(r)] = r * group.span;
    }
    transfer.bytes = bytes;
    transfer.dtype = DType::kFloat16;
    return transfer;
  }

  // A search asks for the same few exchanges again and again, on several threads.
  template <typename MakeTransfer>
  absl::StatusOr<SimTime> Known(const Key& key, const MakeTransfer& make) const {
    {
      const std::shared_lock lock(mutex_);
      if (const auto it = known_.find(key); it != known_.end()) return it->second;
    }
    const TransferSpec transfer = make();
    const std::unique_lock lock(mutex_);
    FORETRACE_ASSIGN_OR_RETURN(Network * network, NetworkOf(transfer.members.back() + 1));
    FORETRACE_ASSIGN_OR_RETURN(const Estimate estimate, network->times.IsolatedDuration(transfer));
    return known_.emplace(key, estimate.time).first->second;
  }

  absl::StatusOr<Network*> NetworkOf(int64_t devices) const {
    int64_t nodes = spec_.nodes;
    const int64_t needed = (devices + spec_.node.devices - 1) / spec_.node.devices;
    while (nodes < needed) nodes *= 2;
    std::unique_ptr<Network>& network = networks_[nodes];
    if (network == nullptr) {
      const PlatformSpec spec =
          nodes == spec_.nodes ? spec_ : Grown(spec_, static_cast<int32_t>(nodes));
      FORETRACE_ASSIGN_OR_RETURN(Topology topology, Topology::Create(spec));
      network = std::make_unique<Network>(std::move(topology));
    }
    return network.get();
  }

  PlatformSpec spec_;
  mutable std::shared_mutex mutex_;
  mutable std::map<int64_t, std::unique_ptr<Network>> networks_;
  mutable absl::flat_hash_map<Key, SimTime> known_;
  mutable absl::flat_hash_map<std::tuple<CollectiveOp, int32_t, int32_t>, int32_t> channels_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const ExchangeTimes>> ExchangesOf(const PlatformSpec& platform) {
  FORETRACE_RETURN_IF_ERROR(Topology::Create(platform).status());
  return std::make_shared<const PlatformExchanges>(WithSharedNics(platform));
}

}  // namespace foretrace
