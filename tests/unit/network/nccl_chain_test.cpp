#include <string>

#include <gtest/gtest.h>

#include "simulator/network/transfer_planner.h"
#include "simulator/topology/platform_loader.h"
#include "simulator/topology/topology.h"

namespace foretrace {
namespace {

Choice Chosen(const std::string& platform, int32_t ranks, CollectiveOp op, int64_t bytes) {
  const auto spec =
      LoadPlatform(std::string(FORETRACE_SOURCE_DIR) + "/topologies/" + platform + ".yaml");
  EXPECT_TRUE(spec.ok()) << spec.status();
  const Topology topology = *Topology::Create(*spec);
  TransferSpec transfer;
  transfer.op = op;
  for (int32_t rank = 0; rank < ranks; ++rank) transfer.members.push_back(rank);
  transfer.bytes = Bytes(bytes);
  TransferPlanner planner(topology, {});
  const auto choice = planner.Choose(transfer);
  EXPECT_TRUE(choice.ok()) << choice.status();
  return *choice;
}

// Eight H100: a hop from device to switch to device takes 2 x 2.87 us in Simple, of which LL takes
// 0.6 / 3.4; LL's base is 6.6 us: 6.6 + 7 x 5.74 x 0.6 / 3.4 = 13.69 us, and 7 KiB on seven hops at
// 141 GB/s 0.05. In Simple it would be 8.4 + 7 x 5.74 = 48.6.
TEST(NcclChain, ShortBroadcastsAreInLowLatency) {
  for (const CollectiveOp op : {CollectiveOp::kBroadcast, CollectiveOp::kReduce}) {
    const Choice choice = Chosen("dgx-h100", 8, op, 1024);
    EXPECT_EQ(choice.protocol, Protocol::kLL);
    EXPECT_NEAR(choice.time.us(), 13.74, 0.05);
  }
}

TEST(NcclChain, LongBroadcastsAreSimple) {
  EXPECT_EQ(Chosen("dgx-h100", 8, CollectiveOp::kBroadcast, int64_t{1} << 30).protocol,
            Protocol::kSimple);
}

// All of what is broadcast passes each link once, of what is gathered all but a rank's own part:
// alike but for the first piece of 512 KiB a channel, which passes six of seven hops by itself.
TEST(NcclChain, LongBroadcastsTakeWhatGathersTake) {
  const int64_t bytes = int64_t{1} << 32;
  const RealSeconds broadcast = Chosen("dgx-h100", 8, CollectiveOp::kBroadcast, bytes).time;
  const RealSeconds gather = Chosen("dgx-h100", 8, CollectiveOp::kAllGather, bytes).time;
  EXPECT_NEAR(broadcast / gather, 8.0 / 7, 0.06);
}

// 64 MiB for each of seven peers are four channels of 16 MiB; a page more are eight of half of it,
// which pass on what there is no slower.
TEST(NcclSends, AByteMoreTakesNoTwiceAsLong) {
  for (const char* platform : {"dgx-h100", "dgx-a100", "hgx-h800"}) {
    const int64_t bytes = int64_t{512} << 20;
    const RealSeconds at = Chosen(platform, 8, CollectiveOp::kAllToAll, bytes).time;
    const RealSeconds above = Chosen(platform, 8, CollectiveOp::kAllToAll, bytes + 64).time;
    EXPECT_GE(above, at) << platform;
    EXPECT_LT(above / at, 1.01) << platform;
    const RealSeconds twice = Chosen(platform, 8, CollectiveOp::kAllToAll, 2 * bytes).time;
    EXPECT_LT(twice / at, 2.02) << platform;
  }
}

// A gather is half of an all-reduce, over nodes whose devices are a mesh too.
TEST(NcclRings, GathersOverMeshesTakeNoLongerThanReductions) {
  const int64_t bytes = int64_t{256} << 20;
  EXPECT_LT(Chosen("mi300x-8", 16, CollectiveOp::kAllGather, bytes).time,
            Chosen("mi300x-8", 16, CollectiveOp::kAllReduce, bytes).time);
}

}  // namespace
}  // namespace foretrace
