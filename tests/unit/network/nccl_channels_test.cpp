#include "simulator/network/nccl_channels.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "simulator/network/transfer_planner.h"
#include "simulator/topology/platform_loader.h"

namespace foretrace {
namespace {

constexpr RealBytes kMiB(1 << 20);

// 24 collective channels round up to 32 of sends. Eight ranks (one peer each and themselves) leave
// four a peer; these double where a part grows beyond 32 steps of 512 KiB.
TEST(NcclChannels, ChannelsOfAPeerInOneNode) {
  EXPECT_EQ(SplitPair(32 * kMiB, 8, 1, 24).channels, 4);
  EXPECT_EQ(SplitPair(64 * kMiB, 8, 1, 24).channels, 4);
  EXPECT_EQ(SplitPair(128 * kMiB, 8, 1, 24).channels, 8);
  EXPECT_EQ(SplitPair(512 * kMiB, 8, 1, 24).channels, 32);
  EXPECT_EQ(SplitPair(4096 * kMiB, 8, 1, 24).channels, 32);
  EXPECT_EQ(SplitPair(32 * kMiB, 4, 1, 24).channels, 8);
  // Of a peer on another node: two, one before 2.12.
  EXPECT_EQ(SplitPair(32 * kMiB, 2, 2, 4).channels, 2);
  EXPECT_EQ(SplitPair(32 * kMiB, 2, 2, 4, 0, 1).channels, 1);
  EXPECT_EQ(SplitPair(kMiB, 2, 1, 24).channels, 16);
  const PairSplit split = SplitPair(kMiB, 2, 1, 24);
  EXPECT_EQ(split.part, RealBytes(65536));
  EXPECT_EQ(split.step, RealBytes(65536));
  EXPECT_EQ(SplitPair(32 * kMiB, 8, 1, 24).step, RealBytes(512 * 1024));
  // Parts are whole pages.
  EXPECT_EQ(SplitPair(RealBytes(16 * 4096 + 1), 2, 1, 24).part, RealBytes(8192));
}

// Two channels a peer on another node, one where that would load each with more than four peers.
TEST(NcclChannels, ChannelsOfAPeerOnAnotherNode) {
  EXPECT_EQ(SplitPair(32 * kMiB, 2, 2, 4).channels, 2);
  EXPECT_EQ(SplitPair(32 * kMiB, 10, 10, 4).channels, 1);
  EXPECT_EQ(SplitPair(32 * kMiB, 80, 10, 16).channels, 1);
  EXPECT_EQ(SplitPair(32 * kMiB, 80, 10, 16).step, RealBytes(128 * 1024));
}

// From 2.29 on a NIC of 50 GB/s asks for four channels of 14 GB/s, fewer where all peers, eight at
// a time, would need more channels than there are: 16 GPUs of two nodes keep four, 10 to 40 of ten
// nodes two, 80 one.
TEST(NcclChannels, ChannelsOfAPeerByTheRateOfItsNic) {
  EXPECT_EQ(ChannelsOfNic(Bandwidth::GBps(50)), 4);
  EXPECT_EQ(ChannelsOfNic(Bandwidth::GBps(25)), 2);
  EXPECT_EQ(ChannelsOfNic(Bandwidth::GBps(12.5)), 1);
  EXPECT_EQ(SplitPair(32 * kMiB, 16, 2, 16, 4).channels, 4);
  EXPECT_EQ(SplitPair(32 * kMiB, 10, 10, 4, 4).channels, 2);
  EXPECT_EQ(SplitPair(32 * kMiB, 20, 10, 8, 4).channels, 2);
  EXPECT_EQ(SplitPair(32 * kMiB, 40, 10, 16, 4).channels, 2);
  EXPECT_EQ(SplitPair(32 * kMiB, 80, 10, 16, 4).channels, 1);
}

// 16 GB/s of a collective's channel are 20 one way and 10 both ways: a gigabyte takes 0.1 s to copy
// and 0.025 s on a NIC of 40 GB/s. Measured at 5 GB/s, what handles it takes another 0.075 s.
TEST(NcclChannels, AChannelCopiesAndSendsInTurn) {
  const auto rate = [](double measured, bool both_ways) {
    return NetworkSendRate(Bandwidth::GBps(16), Bandwidth::GBps(measured), Bandwidth::GBps(40),
                           both_ways)
        .gbps();
  };
  EXPECT_NEAR(rate(0, true), 1 / 0.125, 1e-9);
  EXPECT_NEAR(rate(0, false), 1 / 0.075, 1e-9);
  EXPECT_NEAR(rate(5, true), 5, 1e-9);
  EXPECT_NEAR(rate(5, false), 1 / 0.15, 1e-9);
  EXPECT_NEAR(rate(20, true), 1 / 0.125, 1e-9);  // more than copying and the NIC leave
}

// Four channels with 16 MiB each are all that a peer has before NCCL takes eight with half of it.
TEST(NcclChannels, WhatIsHeldIsTheMessageBeforeChannelsDouble) {
  EXPECT_EQ(SplitPair(64 * kMiB, 8, 1, 24).held_channels, 0);
  const PairSplit more = SplitPair(65 * kMiB, 8, 1, 24);
  EXPECT_EQ(more.channels, 8);
  EXPECT_EQ(more.held_channels, 4);
  EXPECT_EQ(more.held_part, 16 * kMiB);
  EXPECT_LT(more.part, 9 * kMiB);
  for (RealBytes bytes(1); bytes < 4096 * kMiB; bytes = 1.1 * bytes) {
    for (const int32_t nodes : {1, 2}) {
      const PairSplit split = SplitPair(bytes, 8, nodes, 16);
      EXPECT_GE(split.channels * split.part, bytes);
      EXPECT_LE(split.held_channels * split.held_part, bytes);
    }
  }
}

// By hand, for two customers: alone 3 s, at the link 1 s. One: a rate of 1/4, 1/4 waiting. Two: a
// response of 1.25 s, a rate of 2 / 4.25.
TEST(NcclChannels, ChannelsWaitForOneAnother) {
  const auto rate = [](int32_t channels, double each, double link) {
    return SharedRate(channels, Bandwidth::BytesPerSecond(each), Bandwidth::BytesPerSecond(link))
        .bytes_per_second();
  };
  EXPECT_DOUBLE_EQ(rate(1, 0.25, 1), 0.25);
  EXPECT_DOUBLE_EQ(rate(2, 0.25, 1), 2 / 4.25);
  // Few reach what they can alone, many what the link can; in between less than either.
  EXPECT_NEAR(rate(1000, 0.25, 1), 1, 1e-9);
  EXPECT_LT(rate(4, 0.25, 1), 0.85);
  // A channel faster than the link is the link's.
  EXPECT_DOUBLE_EQ(rate(1, 7, 1), 1);
}

// By hand: sixteen warps at 16 B/s take 1 s a byte each, and another on a quarter of units that add
// 4 B/s, of which four share one. Mean value analysis: responses of 1, 1.5, 2.2 and 3.0625 s there.
TEST(NcclChannels, WarpsWaitForOneAnotherToAdd) {
  const auto bytes_per_second = [](double v) { return Bandwidth::BytesPerSecond(v); };
  EXPECT_DOUBLE_EQ(AddingRate(bytes_per_second(16), bytes_per_second(4)).bytes_per_second(),
                   4 * 4 / 4.0625);
  EXPECT_EQ(AddingRate(bytes_per_second(16), Bandwidth()), bytes_per_second(16));
  // 64 instructions a clock, seven for four bytes.
  EXPECT_DOUBLE_EQ(ByteAdder(7e9).bytes_per_second(), 256e9);
}

// Eight H100 of one node.
class EightGpus : public testing::Test {
 protected:
  void SetUp() override {
    const auto spec = LoadPlatform(std::string(FORETRACE_SOURCE_DIR) + "/topologies/dgx-h100.yaml");
    ASSERT_TRUE(spec.ok());
    auto topology = Topology::Create(*spec);
    ASSERT_TRUE(topology.ok());
    topology_ = std::make_unique<Topology>(*std::move(topology));
    planner_ = std::make_unique<TransferPlanner>(*topology_, NetworkOptions{});
    transfer_.members = {0, 1, 2, 3, 4, 5, 6, 7};
  }

  std::unique_ptr<Topology> topology_;
  std::unique_ptr<TransferPlanner> planner_;
  TransferSpec transfer_;
};

// 24 of rings on 12 paths through switches, 16 of a sum within them, 32 of grouped sends; two a NIC
// between nodes, and twice as many where fewer than eight devices of a node take part.
TEST_F(EightGpus, ChannelsThatCollectivesHold) {
  const PlatformSpec& spec = topology_->spec();
  CommunicatorCache communicators(*topology_);
  const auto held = [&](const std::vector<int32_t>& members, CollectiveOp op) {
    return HeldChannels(**communicators.Get(members), spec, op, DType::kBFloat16);
  };
  const std::vector<int32_t>& node = transfer_.members;
  EXPECT_EQ(held(node, CollectiveOp::kAllGather), 24);
  EXPECT_EQ(held(node, CollectiveOp::kReduceScatter), 24);
  EXPECT_EQ(held(node, CollectiveOp::kAllReduce), 16);
  EXPECT_EQ(held({0, 1}, CollectiveOp::kAllReduce), 24);
  EXPECT_EQ(held(node, CollectiveOp::kAllToAll), 32);
  // To one neighbour what eight, or two, peers leave it of 32.
  EXPECT_EQ(held(node, CollectiveOp::kSendRecv), 4);
  EXPECT_EQ(held({0, 1}, CollectiveOp::kSendRecv), 16);
  EXPECT_EQ(HeldChannels(**communicators.Get(node), spec, CollectiveOp::kAllReduce, DType::kInt8),
            24);  // which switches do not add
}

// A shift of 32 MiB: four channels of 16 steps and a copy out of the last, at half of 20 warps'
// copying, whose channels hardly meet on the link (NCCL 2.29 measures 421 us).
TEST_F(EightGpus, ShiftsCopyOverFewChannels) {
  transfer_.op = CollectiveOp::kSendRecv;
  transfer_.bytes = Bytes(32 << 20);
  const PlatformSpec& spec = topology_->spec();
  const double each = spec.library.channel.bytes_per_second() * 20 / 16 / 2;
  const double copying = 17 * 512 * 1024 / each;
  const double start = 8.4e-6 + spec.links[0].latency.seconds();
  EXPECT_NEAR(planner_->Choose(transfer_)->time.seconds(), copying + start, 0.03 * copying);
  // What is simulated agrees.
  EXPECT_NEAR(planner_->PlanAndRun(transfer_)->run.time.seconds(),
              planner_->Choose(transfer_)->time.seconds(), 1e-9);
  // One way all warps send: the link is the limit.
  transfer_.point_to_point = true;
  transfer_.members = {0, 1};
  const double link = (32 << 20) / (18 * spec.links[0].payload_rate().bytes_per_second());
  EXPECT_NEAR(planner_->Choose(transfer_)->time.seconds(), start + link, 0.04 * link);
}

// The switch adds up halves and floats, not bytes.
TEST_F(EightGpus, BytesAreNotReducedInTheSwitch) {
  transfer_.op = CollectiveOp::kAllReduce;
  transfer_.bytes = Bytes(1 << 30);
  for (const auto& [dtype, algorithm] :
       {std::pair{DType::kFloat16, Algorithm::kInSwitch}, {DType::kInt8, Algorithm::kRing}}) {
    transfer_.dtype = dtype;
    EXPECT_EQ(planner_->Choose(transfer_)->algorithm, algorithm);
    EXPECT_EQ(planner_->PlanAndRun(transfer_)->plan.algorithm, algorithm);
    EXPECT_EQ(planner_->Plan(transfer_)->algorithm, algorithm);
  }
}

// Two GPUs: half of the data is added to the own half, out of buffers, after all of it has come.
TEST_F(EightGpus, BytesAreAddedMoreSlowlyThanCopied) {
  transfer_.members = {0, 1};
  transfer_.bytes = Bytes(512 << 20);
  const auto seconds = [&](CollectiveOp op, DType dtype) {
    transfer_.op = op;
    transfer_.dtype = dtype;
    return planner_->Choose(transfer_)->time.seconds();
  };
  EXPECT_DOUBLE_EQ(seconds(CollectiveOp::kAllGather, DType::kInt8),
                   seconds(CollectiveOp::kAllGather, DType::kFloat16));
  const Bandwidth channel = topology_->spec().library.channel;
  const Bandwidth adding = AddingRate(channel, ByteAdder(1.83e9));
  EXPECT_LT(adding, channel);
  const double halves = 24 * channel.bytes_per_second();  // 24 channels
  EXPECT_NEAR(seconds(CollectiveOp::kReduceScatter, DType::kInt8) -
                  seconds(CollectiveOp::kReduceScatter, DType::kFloat16),
              (256 << 20) / halves * (channel.bytes_per_second() / adding.bytes_per_second() - 1),
              1e-7);
  transfer_.members = {0, 1, 2, 3, 4, 5, 6, 7};
  const auto more = [&](CollectiveOp op) {
    return seconds(op, DType::kInt8) - seconds(op, DType::kFloat16);
  };
  EXPECT_GT(more(CollectiveOp::kReduceScatter), 0);
  EXPECT_EQ(more(CollectiveOp::kAllGather), 0);
}

// Eight ranks pass on in LL up to 141 GB/s (NCCL's llMaxBws since 2.21): 7/8 of 2 MiB, seven hops
// of two links, and 24 channels copy the last eighth out of their buffers.
TEST_F(EightGpus, LowLatencyReachesMoreOnHopper) {
  transfer_.op = CollectiveOp::kAllGather;
  transfer_.bytes = Bytes(2 << 20);
  const auto choice = planner_->Choose(transfer_);
  EXPECT_EQ(choice->protocol, Protocol::kLL);
  const double last = (256 << 10) / (24 * topology_->spec().library.channel.bytes_per_second());
  EXPECT_NEAR(choice->time.seconds(),
              6.6e-6 + 7 * 0.6 / 3.4 * 2 * 2.87e-6 + (2 << 20) * 7 / 8 / 141e9 + last, 1e-9);
}

}  // namespace
}  // namespace foretrace
