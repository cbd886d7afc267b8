// Exchanges between all pairs, folded over nodes that can change places.

#include "simulator/network/folded_exchange.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>

#include "simulator/network/collective_table.h"
#include "simulator/network/fluid/run_alone.h"
#include "simulator/network/fluid/run_folded.h"
#include "simulator/network/transfer_planner.h"
#include "simulator/topology/platform_loader.h"

namespace foretrace {
namespace {

constexpr char kLinks[] =
    "name: p\nlinks:\n"
    "  fast: {class: nvlink, bandwidth_GBps: 25, latency_us: 1, efficiency: 0.9, source: test}\n"
    "  slow: {class: pcie, bandwidth_GBps: 12, latency_us: 2, source: test}\n"
    "  net: {class: network, bandwidth_GBps: 10, latency_us: 3, efficiency: 0.7, source: test}\n";

struct Case {
  const char* platform;
  int32_t ranks;  // 0: all
};

// Fat trees whole and in part, with a NIC for two devices and with oversubscription; rails of one
// leaf and of two; a single switch; dimensions of every kind.
const Case kFoldable[] = {
    {"node: {devices: 4, interconnect: {kind: switch, link: fast}, pcie: {link: slow}, nics: "
     "{count: "
     "2}}\nnodes: 12\nfabric: {kind: fat_tree, link: net, levels: [{radix: 4, oversubscription: "
     "2}, "
     "{radix: 3, oversubscription: 3}, {radix: 2}]}\n",
     0},
    {"node: {devices: 4, interconnect: {kind: switch, link: fast}, pcie: {link: slow}, nics: "
     "{count: "
     "2}}\nnodes: 12\nfabric: {kind: fat_tree, link: net, levels: [{radix: 4, oversubscription: "
     "2}, "
     "{radix: 3}, {radix: 2}]}\n",
     16},
    {"node: {devices: 4, interconnect: {kind: switch, link: fast}, pcie: {link: slow}, nics: "
     "{count: "
     "4}}\nnodes: 4\nfabric: {kind: rail, link: net, levels: [{radix: 2, oversubscription: 2}, "
     "{radix: 8}]}\n",
     0},
    {"node: {devices: 4, interconnect: {kind: switch, link: fast}, pcie: {link: slow}, nics: "
     "{count: "
     "4}}\nnodes: 4\nfabric: {kind: rail, link: net, levels: [{radix: 4}, {radix: 8}], cross_rail: "
     "spine}\n",
     0},
    {"node: {devices: 2, interconnect: {kind: switch, link: fast}, nics: {count: 1}}\nnodes: 7\n"
     "fabric: {kind: switch, link: net}\n",
     10},
    {"node: {devices: 1}\nnodes: 30\nfabric: {kind: dimensions, dimensions: [{kind: ring, size: 5, "
     "link: net}, {kind: fully_connected, size: 3, link: fast}, {kind: switch, size: 2, link: "
     "slow}]}\n",
     0},
};

Topology Make(const char* platform) {
  const auto spec = ParsePlatform(std::string(kLinks) + platform, "p");
  EXPECT_TRUE(spec.ok()) << spec.status();
  return *Topology::Create(*spec);
}

TransferSpec Spec(CollectiveOp op, int32_t ranks, int64_t bytes) {
  TransferSpec spec;
  spec.op = op;
  spec.bytes = Bytes(bytes);
  spec.members.resize(static_cast<size_t>(ranks));
  std::iota(spec.members.begin(), spec.members.end(), 0);
  return spec;
}

TEST(FoldedExchange, HasTheBitsOfEveryFlow) {
  for (const Case& c : kFoldable) {
    SCOPED_TRACE(c.platform);
    const Topology topology = Make(c.platform);
    const int32_t ranks = c.ranks > 0 ? c.ranks : topology.device_count();
    NetworkOptions options;
    options.algorithm = Algorithm::kDirect;
    TransferPlanner planner(topology, options);
    for (const CollectiveOp op :
         {CollectiveOp::kAllToAll, CollectiveOp::kAllGather, CollectiveOp::kReduceScatter}) {
      for (const int64_t bytes : {1000, 1234567, 100000000}) {
        const auto plan = planner.Plan(Spec(op, ranks, bytes));
        ASSERT_TRUE(plan.ok()) << plan.status();
        const auto folded = FoldedDuration(topology, *plan);
        ASSERT_TRUE(folded.has_value());
        EXPECT_EQ(*folded, RunAlone(topology, *plan, false)->time) << bytes;
      }
    }
    // Two steps: where the ranks of a node do not end the first together, it declines.
    const auto plan = planner.Plan(Spec(CollectiveOp::kAllReduce, ranks, 1234567));
    const auto folded = FoldedDuration(topology, *plan);
    if (folded.has_value()) {
      EXPECT_EQ(*folded, RunAlone(topology, *plan, false)->time);
    }
  }
}

// Two nodes of two devices and one NIC: 2 x 2 messages leave a node through its NIC, one each way
// crosses between the devices of a node.
TEST(FoldedExchange, CountsMessagesOnALink) {
  const Topology topology = Make(
      "node: {devices: 2, interconnect: {kind: switch, link: fast}, nics: {count: 1}}\nnodes: 2\n"
      "fabric: {kind: switch, link: net}\n");
  const auto folded = FoldExchange(topology, std::vector<DeviceId>{0, 1, 2, 3});
  ASSERT_TRUE(folded.has_value());
  uint32_t most = 0;
  for (const FoldedExchange::Class& c : folded->classes) {
    for (const uint32_t count : c.counts) {
      EXPECT_EQ(count, c.inter ? 4u : 1u);
      most = std::max(most, count);
    }
  }
  EXPECT_EQ(most, 4u);
  EXPECT_EQ(folded->messages.size(), 6u);  // two ranks to three others each
}

TEST(FoldedExchange, DeclinesWhatIsNotAlike) {
  // A leaf of three NICs holds a node and a half.
  const char* const kUneven =
      "node: {devices: 2, interconnect: {kind: switch, link: fast}, pcie: {link: slow}, nics: "
      "{count: "
      "2}}\nnodes: 4\nfabric: {kind: fat_tree, link: net, levels: [{radix: 3}, {radix: 3}]}\n";
  const Topology uneven = Make(kUneven);
  EXPECT_FALSE(FoldExchange(uneven, std::vector<DeviceId>{0, 1, 2, 3, 4, 5, 6, 7}).has_value());
  // Three nodes under leaves of two.
  const Topology tree = Make(kFoldable[0].platform);
  std::vector<DeviceId> devices(12);
  std::iota(devices.begin(), devices.end(), 0);
  EXPECT_FALSE(FoldExchange(tree, devices).has_value());
  // Half a node; nodes from the second on.
  EXPECT_FALSE(FoldExchange(tree, std::vector<DeviceId>{0, 1}).has_value());
  std::iota(devices.begin(), devices.end(), 4);
  devices.resize(8);
  EXPECT_FALSE(FoldExchange(tree, devices).has_value());
  const Topology dragonfly = Make(
      "node: {devices: 1}\nnodes: 18\nfabric: {kind: dragonfly, link: net, terminals_per_router: "
      "2, "
      "routers_per_group: 3, local_link: fast, global_link: slow}\n");
  devices.resize(18);
  std::iota(devices.begin(), devices.end(), 0);
  EXPECT_FALSE(FoldExchange(dragonfly, devices).has_value());
}

// 4,096 ranks exchange over the fat tree of 16,384: every NIC carries 4,088 of 4,096 shares to
// other nodes at 25 GB/s, the slowest of all links, since uplinks have the sum of their NICs and
// carry less. Its 512 rounds of eight peers start a few microseconds after each other, 5 % in all.
TEST(FoldedExchange, ThousandsOfRanks) {
  const auto spec =
      LoadPlatform(std::string(FORETRACE_SOURCE_DIR) + "/topologies/fat-tree-16384.yaml");
  ASSERT_TRUE(spec.ok());
  const auto topology = Topology::Create(*spec);
  ASSERT_TRUE(topology.ok());
  for (const NetworkTier tier : {NetworkTier::kFitted, NetworkTier::kFluid}) {
    auto network = *MakeNetwork(tier, *topology, {});
    const int64_t bytes = int64_t{4096} << 20;
    const auto time = network->IsolatedDuration(Spec(CollectiveOp::kAllToAll, 4096, bytes));
    ASSERT_TRUE(time.ok()) << time.status();
    // Four pods of 1,024 ranks, each of which sends 3,072 of 4,096 parts of 1 MiB to other pods; a
    // pod's uplinks are half of what its NICs carry. NICs alone would take 4,088 MiB at 25 GB/s.
    const double drain = 2 * 3072.0 * (1 << 20) / 25e9;
    EXPECT_GT(time->time.seconds(), drain);
    EXPECT_LT(time->time.seconds(), drain * 1.06);
  }
}

}  // namespace
}  // namespace foretrace
