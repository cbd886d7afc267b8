#include "simulator/planning/mappings/platform_exchanges.h"

#include <gtest/gtest.h>

#include "simulator/network/fitted_network.h"
#include "simulator/topology/platform_loader.h"

namespace foretrace {
namespace {

PlatformSpec Platform(const std::string& name, int64_t devices = 0) {
  const auto spec = FindPlatform(name, devices);
  EXPECT_TRUE(spec.ok()) << spec.status();
  return spec.value_or(PlatformSpec());
}

SimTime Time(const PlatformSpec& spec, CollectiveOp op, SpacedGroup group, int64_t bytes) {
  const auto exchanges = ExchangesOf(spec);
  EXPECT_TRUE(exchanges.ok()) << exchanges.status();
  const auto time = (*exchanges)->Collective(op, group, Bytes(bytes));
  EXPECT_TRUE(time.ok()) << time.status();
  return time.value_or(SimTime());
}

// Eight NICs for eight devices: nothing is shared, so that a mapping's exchange is that of
// `foretrace collective` on the same ranks.
TEST(PlatformExchangesTest, AsTheNetworkModelSays) {
  const PlatformSpec spec = Platform("dgx-h100", 64);
  auto topology = Topology::Create(spec);
  ASSERT_TRUE(topology.ok());
  FittedNetwork network(*topology, NetworkOptions(), FittedNetwork::Measured());
  TransferSpec transfer;
  transfer.dtype = DType::kFloat16;
  for (const CollectiveOp op : {CollectiveOp::kAllReduce, CollectiveOp::kAllGather,
                                CollectiveOp::kAllToAll, CollectiveOp::kSendRecv}) {
    for (const SpacedGroup group : {SpacedGroup{8, 1}, {4, 2}, {8, 8}, {32, 2}}) {
      transfer.op = op;
      transfer.bytes = Bytes(1 << 24);
      transfer.members.clear();
      for (int32_t r = 0; r < group.ranks; ++r) transfer.members.push_back(r * group.span);
      const auto alone = network.IsolatedDuration(transfer);
      ASSERT_TRUE(alone.ok());
      EXPECT_EQ(Time(spec, op, group, 1 << 24), alone->time)
          << Name(op) << " " << group.ranks << " x " << group.span;
    }
  }
  EXPECT_EQ(Time(spec, CollectiveOp::kAllReduce, {1, 1}, 1 << 24), SimTime());
}

// Four NICs for eight devices: eight groups of one device a node share them by twos, so that a
// large message takes twice as long as with a NIC each; a group of whole nodes has them all anyway.
TEST(PlatformExchangesTest, DevicesShareTheirNodesNics) {
  const PlatformSpec four = Platform("a100-80gb-4hdr");
  PlatformSpec eight = four;
  eight.node.nics = 8;
  eight.node.nic_affinity = {0, 1, 2, 3, 4, 5, 6, 7};
  const auto ratio = [&](SpacedGroup group) {
    return Time(four, CollectiveOp::kAllGather, group, 1 << 30).seconds() /
           Time(eight, CollectiveOp::kAllGather, group, 1 << 30).seconds();
  };
  EXPECT_NEAR(ratio({16, 8}), 2, 0.05);
  EXPECT_GT(ratio({16, 1}), 1.5);
  EXPECT_NEAR(ratio({8, 1}), 1, 1e-9);
}

// Two channels of 2.53 GB/s between nodes: all 32 devices of four nodes pass 5.06 GB/s around, as
// measured (4 GB in 1.529 s), and groups of one device a node, four of which go at a time, as much
// each. A message to a neighbour has one channel.
TEST(PlatformExchangesTest, ChannelsLimitGroupsOfSeveralNodes) {
  const PlatformSpec spec = Platform("jean-zay-a100");
  const auto reduce = [&](SpacedGroup group) {
    return Time(spec, CollectiveOp::kAllReduce, group, 4'000'000'000).seconds();
  };
  EXPECT_NEAR(reduce({32, 1}), 1.529, 0.03);
  EXPECT_NEAR(reduce({8, 8}), 4 * 2 * 7 / 8.0 / 5.06, 0.03);
  const auto exchanges = ExchangesOf(spec);
  ASSERT_TRUE(exchanges.ok());
  const auto send = (*exchanges)->Send(8, Bytes(1 << 28));
  ASSERT_TRUE(send.ok());
  EXPECT_GT(send->seconds(), (1 << 28) / 3.0e9);
  EXPECT_LT(send->seconds(), (1 << 28) / 2.5e9);
  // The other partition: 1.118 s on 16 nodes of four.
  EXPECT_NEAR(
      Time(Platform("jean-zay-v100"), CollectiveOp::kAllReduce, {64, 1}, 4'000'000'000).seconds(),
      1.118, 0.03);
}

// Two nodes, of which more are asked for than their fabric is built for: nodes alike on one switch.
TEST(PlatformExchangesTest, FurtherNodesAreAlike) {
  PlatformSpec spec = Platform("dgx-h100");
  spec.max_nodes = 0;
  const SimTime two = Time(spec, CollectiveOp::kAllGather, {2, 8}, 1 << 28);
  const SimTime many = Time(spec, CollectiveOp::kAllGather, {64, 8}, 1 << 28);
  // 63/64 instead of 1/2 of the bytes by one NIC, and 62 more steps of some microseconds.
  EXPECT_NEAR(many.seconds() / two.seconds(), 2 * 63.0 / 64, 0.3);
  const auto exchanges = ExchangesOf(spec);
  ASSERT_TRUE(exchanges.ok());
  const auto near = (*exchanges)->Send(1, Bytes(1 << 28)),
             far = (*exchanges)->Send(8192, Bytes(1 << 28));
  ASSERT_TRUE(near.ok() && far.ok());
  EXPECT_GT(*far, *near);
}

// What takes longer than can be simulated is an error, not a number.
TEST(PlatformExchangesTest, EndlessExchangesAreRefused) {
  const auto exchanges = ExchangesOf(Platform("dgx-h100"));
  ASSERT_TRUE(exchanges.ok());
  EXPECT_FALSE(
      (*exchanges)->Collective(CollectiveOp::kAllReduce, {16, 1}, Bytes(int64_t{1} << 60)).ok());
}

}  // namespace
}  // namespace foretrace
